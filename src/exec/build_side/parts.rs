//! Parts of the probe side, and how partitions leave them to each other.

use std::ops::Range;

use arrow::array::RecordBatch;
use parking_lot::Mutex;

use crate::engine::ItemId;
use crate::exec::rows::visited::Visit;

/// Rows of the probe input.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    pub rows: RecordBatch,
    pub visit: Option<Visit>,
}

/// The rows or items of one probe batch.
#[derive(Debug, Clone)]
pub(crate) enum ProbePart {
    Rows(Slice),
    /// Items of the build side; `has_itemless`: the rows without an item.
    Items {
        range: Range<ItemId>,
        has_itemless: bool,
    },
}

impl ProbePart {
    /// Both halves, the first one first; `None` for a single row or item.
    pub(crate) fn halves(&self) -> Option<[Self; 2]> {
        match self {
            Self::Rows(Slice { rows, visit }) => {
                let (all, half) = (rows.num_rows(), rows.num_rows() / 2);
                let rest = visit.clone().map(|visit| visit.skip(half));
                (half > 0).then(|| {
                    [
                        Self::Rows(Slice { rows: rows.slice(0, half), visit: visit.clone() }),
                        Self::Rows(Slice { rows: rows.slice(half, all - half), visit: rest }),
                    ]
                })
            }
            Self::Items { range, has_itemless } => {
                let middle = range.start + (range.len() / 2) as ItemId;
                let part = |range, has_itemless| Self::Items { range, has_itemless };
                (middle > range.start).then(|| {
                    [part(range.start..middle, false), part(middle..range.end, *has_itemless)]
                })
            }
        }
    }
}

/// Parts for which a partition found no memory. It leaves them to the partitions that go on, which
/// have its memory then.
#[derive(Debug)]
pub(crate) struct Leftovers(Mutex<PartsLeft>);

#[derive(Debug)]
struct PartsLeft {
    parts: Vec<ProbePart>,
    /// Partitions that will ask for parts before they end.
    takers: usize,
}

impl Leftovers {
    /// The leftovers of `partitions` partitions, each of which asks for parts before it ends.
    pub(crate) fn new(partitions: usize) -> Self {
        Self(Mutex::new(PartsLeft { parts: vec![], takers: partitions }))
    }

    /// A part that another partition has left. Where there is none, the caller ends, and leaves
    /// nothing.
    pub(crate) fn take_or_end(&self) -> Option<ProbePart> {
        let mut left = self.0.lock();
        let part = left.parts.pop();
        left.takers = left.takers.saturating_sub(usize::from(part.is_none()));
        part
    }

    /// Leaves `parts` to the other partitions, once `free` has given the memory of the caller back.
    /// The caller takes no further part. `false` where it is the last one: it keeps its parts.
    pub(crate) fn leave(&self, parts: &mut Vec<ProbePart>, free: impl FnOnce()) -> bool {
        let mut left = self.0.lock();
        if left.takers <= 1 {
            return false;
        }
        free();
        left.takers -= 1;
        left.parts.append(parts);
        true
    }

    /// `count` partitions take no part any more.
    pub(crate) fn end(&self, count: usize) {
        let mut left = self.0.lock();
        left.takers = left.takers.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_partition_takes_what_the_others_leave() {
        let items = |range: Range<ItemId>| ProbePart::Items { range, has_itemless: false };
        let left = Leftovers::new(3);
        let mut freed = 0;
        assert!(left.leave(&mut vec![items(0..1), items(1..2)], || freed += 1));
        assert!(
            matches!(left.take_or_end(), Some(ProbePart::Items { range, .. }) if range == (1..2))
        );
        assert!(left.leave(&mut vec![items(1..2)], || freed += 1));
        let mut own = vec![items(5..6)];
        assert!(!left.leave(&mut own, || freed += 1));
        assert_eq!((own.len(), freed), (1, 2));
        assert!(left.take_or_end().is_some() && left.take_or_end().is_some());
        assert!(left.take_or_end().is_none());
        // No partition is left to take anything.
        assert!(!left.leave(&mut own, || ()));
    }
}
