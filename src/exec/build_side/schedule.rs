//! Sharing the items of a self-join among partitions, and large probe batches.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use arrow::array::RecordBatch;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::{ItemId, PreparedJoin, WorkStep};

/// A range holds this part of the work that is left, divided by the number of partitions.
const PART_OF_REST: u64 = 3;
/// No range holds less than this part of all work, divided by the number of partitions: a
/// millisecond of a join of a second.
const LEAST_PART: u64 = 1 << 10;
/// The most items of a range, whose counts are reserved together.
const MAX_ITEMS: u32 = 1 << 14;

/// Ranges of a collection's items, taken by any number of partitions without locks.
///
/// The first ranges are large and hold the last items; the ranges shrink with the work that is
/// left, so that all partitions end at about the same time even where the estimate is wrong
/// (Polychronopoulos, Kuck: "Guided self-scheduling", IEEE Trans. Computers 1987). A partition
/// without a consumer takes no range.
#[derive(Debug)]
pub(crate) struct Ranges {
    work: ItemWork,
    partitions: u64,
    unit: u32,
    /// The fewest items of a range, but for the last one.
    least: u32,
    /// Items from here on have been taken.
    left: AtomicU32,
    itemless_taken: AtomicBool,
}

impl Ranges {
    /// The ranges of the items of a join that `prepared` probes.
    pub(crate) fn new(
        steps: Vec<WorkStep>,
        items: u32,
        partitions: usize,
        prepared: &dyn PreparedJoin,
    ) -> Self {
        let unit = prepared.range_unit();
        let plenty = u64::from(unit) * partitions as u64 * 8 <= u64::from(items);
        Self {
            work: ItemWork::of(&steps, items),
            partitions: partitions.max(1) as u64,
            unit: if plenty { unit.clamp(1, MAX_ITEMS) } else { 1 },
            least: prepared.least_range().max(1),
            left: AtomicU32::new(items),
            itemless_taken: AtomicBool::new(false),
        }
    }

    /// The next range that no partition has taken.
    pub(crate) fn next(&self) -> Option<Range<ItemId>> {
        let mut end = self.left.load(Ordering::Relaxed);
        while end > 0 {
            let start = self.start_of(end);
            match self.left.compare_exchange_weak(end, start, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Some(start..end),
                Err(now) => end = now,
            }
        }
        None
    }

    /// Whether the caller gives out the rows without an item: `true` for the first caller.
    pub(crate) fn take_itemless(&self) -> bool {
        !self.itemless_taken.swap(true, Ordering::Relaxed)
    }

    /// The start of the range that ends at `end`.
    fn start_of(&self, end: ItemId) -> ItemId {
        let (all, rest) = (self.work.before(self.work.end), self.work.before(end));
        let least = all / (LEAST_PART * self.partitions);
        let share = (rest / (PART_OF_REST * self.partitions)).max(least);
        // The greatest start with enough work behind it.
        let most = MAX_ITEMS.max(self.least);
        let (mut low, mut high) = (end.saturating_sub(most), end.saturating_sub(self.least));
        while low < high {
            let mid = high - (high - low) / 2;
            match rest - self.work.before(mid) >= share {
                true => low = mid,
                false => high = mid - 1,
            }
        }
        low - low % self.unit
    }

    /// The bytes held.
    pub(crate) fn footprint(steps: &[WorkStep]) -> usize {
        steps.len() * size_of::<Step>()
    }
}

/// The family's estimate of the work for each item.
#[derive(Debug)]
struct ItemWork {
    steps: Vec<Step>,
    end: ItemId,
}

/// Neighbouring items, from `start` on.
#[derive(Debug, Clone, Copy)]
struct Step {
    start: ItemId,
    /// The work for all items in front.
    before: u64,
    /// The work for the first item, and its growth from each item to the next.
    first: u64,
    slope: u64,
}

impl Step {
    fn work_before(&self, item: ItemId) -> u64 {
        let items = u64::from(item - self.start);
        self.before + items * self.first + self.slope * (items * items.saturating_sub(1) / 2)
    }
}

impl ItemWork {
    fn of(of_items: &[WorkStep], end: ItemId) -> Self {
        let mut steps: Vec<Step> = vec![];
        let mut before = 0;
        for &WorkStep { start, items, first, slope } in of_items {
            let step = Step { start, before, first, slope };
            before = step.work_before(start + items);
            steps.push(step);
        }
        Self { steps, end }
    }

    /// The work for the items in front of `item`.
    fn before(&self, item: ItemId) -> u64 {
        let step = self.steps.partition_point(|step| step.start <= item);
        match self.steps.get(step.wrapping_sub(1)) {
            Some(step) => step.work_before(item),
            None => 0,
        }
    }
}

/// Slices of probe batches that are too large for one partition to join alone.
#[derive(Debug, Default)]
pub(crate) struct SpareSlices {
    slices: Mutex<VecDeque<RecordBatch>>,
    added: Notify,
    /// The rows of all batches that have been cut.
    rows: AtomicU64,
}

impl SpareSlices {
    pub(crate) fn pop(&self) -> Option<RecordBatch> {
        self.slices.lock().pop_front()
    }

    /// The number of rows of the input that have come.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Cuts a batch into slices of `rows` rows, keeps the first and leaves the others to the first
    /// partitions that ask. The caller takes slices before it ends, so that none is left behind.
    pub(crate) fn cut(&self, batch: RecordBatch, rows: usize) -> RecordBatch {
        self.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        let more = (rows..batch.num_rows()).step_by(rows);
        let slices = more.map(|start| batch.slice(start, rows.min(batch.num_rows() - start)));
        let mut added = 0;
        self.slices.lock().extend(slices.inspect(|_| added += 1));
        (0..added).for_each(|_| self.added.notify_one());
        batch.slice(0, rows.min(batch.num_rows()))
    }

    /// Waits until there may be a slice.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(steps: Vec<Step>, end: ItemId, partitions: u64, unit: u32) -> Ranges {
        Ranges {
            work: ItemWork { steps, end },
            partitions,
            unit,
            least: 1,
            left: AtomicU32::new(end),
            itemless_taken: AtomicBool::new(false),
        }
    }

    /// Runs of growing work.
    fn growing() -> (Vec<Step>, ItemId) {
        let (mut steps, mut before, mut end) = (vec![], 0, 0);
        for run in 1..200_u32 {
            let step = Step {
                start: end,
                before,
                first: 100 + u64::from(run * run),
                slope: u64::from(run % 2),
            };
            end += 1 + run * 37 % 211;
            before = step.work_before(end);
            steps.push(step);
        }
        (steps, end)
    }

    #[test]
    fn every_set_is_taken_once_and_the_last_ranges_are_small() {
        let (steps, items) = growing();
        for partitions in [1, 2, 64] {
            for unit in [1, 64] {
                let ranges = ranges(steps.clone(), items, partitions, unit);
                let total = ranges.work.before(items);
                let mut end = items;
                let mut works = vec![];
                while let Some(range) = ranges.next() {
                    assert_eq!(range.end, end);
                    assert!(range.start < end && range.start % unit == 0);
                    works.push(ranges.work.before(end) - ranges.work.before(range.start));
                    end = range.start;
                }
                assert_eq!(end, 0);
                assert_eq!(works.iter().sum::<u64>(), total);
                // An item alone or a unit of them may be more.
                let most = total / (LEAST_PART * partitions) + 40_000 * u64::from(unit);
                assert!(works.last().is_some_and(|&w| w <= most), "{works:?}");
                assert!(works.len() < 64 * partitions as usize + 200, "{}", works.len());
            }
        }
    }

    /// Two workers that take ranges as they get ready end close together.
    #[test]
    fn partitions_end_together_even_when_the_estimate_is_off() {
        let (steps, items) = growing();
        for partitions in [2, 7] {
            let ranges = ranges(steps.clone(), items, partitions, 1);
            let mut ready = vec![0.0_f64; partitions as usize];
            while let Some(range) = ranges.next() {
                // Items with much work take less than estimated.
                let work = |item: ItemId| (ranges.work.before(item) as f64).powf(0.8);
                let first = (0..ready.len()).min_by(|&a, &b| ready[a].total_cmp(&ready[b]));
                ready[first.unwrap()] += work(range.end) - work(range.start);
            }
            let (low, high) =
                ready.iter().fold((f64::MAX, 0.0_f64), |(low, high), &t| (low.min(t), high.max(t)));
            assert!(high - low < 0.01 * high, "{ready:?}");
        }
    }

    /// However little work is left, a device gets enough items at a time.
    #[test]
    fn no_range_but_the_last_is_smaller_than_asked() {
        let (steps, items) = growing();
        for least in [1, 777, MAX_ITEMS + 5, items] {
            let ranges = Ranges { least, ..ranges(steps.clone(), items, 8, 1) };
            let all: Vec<_> = std::iter::from_fn(|| ranges.next()).collect();
            assert_eq!(all.iter().map(|range| range.len()).sum::<usize>(), items as usize);
            let (last, others) = all.split_last().unwrap();
            assert_eq!(last.start, 0);
            assert!(others.iter().all(|range| range.len() >= least as usize), "{least}: {all:?}");
        }
    }

    #[test]
    fn the_rows_without_a_set_are_taken_once() {
        let ranges = ranges(vec![], 0, 2, 1);
        assert_eq!(ranges.next(), None);
        assert!(ranges.take_itemless());
        assert!(!ranges.take_itemless());
    }
}
