//! Rows in the order of the values of a column.

use std::cmp::Ordering;
use std::mem::size_of;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use arrow::array::{Array, ArrowNativeTypeOp, AsArray, BinaryViewArray};
use arrow::datatypes::DataType;
use arrow::downcast_primitive_array;
use datafusion::common::{Result, internal_err};

use crate::tuning::Size;
use crate::util::cancel::{CancelFlag, sort_unstable_by};
use crate::util::parallel::{self, Threads, map, ranges, steps_per_task};
use crate::util::scatter::shared;

/// Rows of a task, at least.
const LEAST_ROWS: usize = 1 << 13;

/// A text, or bytes, to be put in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct RankedText {
    /// Its first bytes, then zeros, which decide most comparisons.
    first: u64,
    row: u32,
}

impl RankedText {
    /// The bytes of a text that is ranked, with views of it.
    pub(super) const BYTES: usize = size_of::<Self>() + 2 * size_of::<u128>();

    fn at(column: &BinaryViewArray, row: usize) -> Self {
        let text = column.value(row);
        let mut first = [0; size_of::<u64>()];
        let len = text.len().min(first.len());
        first[..len].copy_from_slice(&text[..len]);
        Self { first: u64::from_be_bytes(first), row: row as u32 }
    }

    fn compare(&self, other: &Self, column: &BinaryViewArray) -> Ordering {
        let text = |text: &Self| column.value(text.row as usize);
        self.first.cmp(&other.first).then_with(|| text(self).cmp(text(other)))
    }
}

/// Rows in the order of their values.
pub(super) struct RankedRows {
    /// Rank `i + 1` for the `i`th different value, 0 for NULL.
    pub by_row: Vec<u32>,
    /// The number of different values.
    pub different: usize,
    /// A row of each different value, ascending by value, where these are asked for.
    pub firsts: Vec<u32>,
}

impl RankedRows {
    /// `column` is [`comparable`](super::ranks::comparable), and consists of pieces whose first rows are `starts`;
    /// `keeps` says whether a row of each value is asked for.
    pub(super) fn of(
        column: &dyn Array,
        starts: &[u32],
        keeps: bool,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let how = Ranking { column, starts, keeps, threads, cancel };
        downcast_primitive_array!(
            column => {
                let values = column.values();
                how.ranked(|row| values[row], |a, b| a.compare(*b))
            }
            DataType::BinaryView => {
                let texts = column.as_binary_view();
                let compare = |a: &RankedText, b: &RankedText| a.compare(b, texts);
                how.ranked(|row| RankedText::at(texts, row), compare)
            }
            DataType::Boolean => {
                let values = column.as_boolean();
                how.ranked(|row| values.value(row), bool::cmp)
            }
            other => internal_err!("values of type {other} have no ranks")
        )
    }
}

/// The terms on which the rows of a column are ranked.
#[derive(Clone, Copy)]
struct Ranking<'a> {
    column: &'a dyn Array,
    /// The first rows of pieces that may lie anywhere in the order, ascending.
    starts: &'a [u32],
    /// Whether a row of each value is asked for.
    keeps: bool,
    threads: Threads,
    cancel: &'a CancelFlag,
}

/// Neighbouring rows whose values ascend, with the row of the value before them, if any.
struct Ascending {
    rows: Range<usize>,
    before: Option<usize>,
}

impl Ranking<'_> {
    fn ranked<T: Copy + Send + Sync>(
        self,
        value: impl Fn(usize) -> T + Copy + Sync,
        compare: impl Fn(&T, &T) -> Ordering + Copy + Sync,
    ) -> Result<RankedRows> {
        let of_rows = |a: usize, b: usize| compare(&value(a), &value(b));
        if self.column.logical_null_count() == 0
            && let Some(runs) = self.runs(of_rows)?
        {
            return self.numbered(runs, |Ascending { rows, before }| {
                let (start, before) = (rows.start, *before);
                rows.clone().map(move |row| {
                    let last = if row == start { before } else { Some(row - 1) };
                    (row as u32, last.is_none_or(|last| of_rows(last, row).is_ne()))
                })
            });
        }
        let Self { column, threads, cancel, .. } = self;
        let nulls = column.logical_nulls();
        let with_value = |row: usize| (value(row), row as u32);
        let mut rows: Vec<(T, u32)> = vec![];
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => {
                let of = |range: Range<usize>| range.map(with_value);
                rows = parallel::collect(threads, column.len(), LEAST_ROWS, cancel, of)?;
            }
            Some(nulls) => {
                rows.reserve_exact(column.len() - nulls.null_count());
                for row in 0..column.len() {
                    cancel.check_at(row)?;
                    if nulls.is_valid(row) {
                        rows.push(with_value(row));
                    }
                }
            }
        }
        let by_value = |a: &(T, u32), b: &(T, u32)| compare(&a.0, &b.0).then(a.1.cmp(&b.1));
        parallel::sort_unstable_by(threads, &mut rows, cancel, by_value)?;
        self.numbered(ranges(threads, rows.len(), LEAST_ROWS), |places| {
            let rows = &rows;
            places.clone().map(move |place| {
                let last = place.checked_sub(1).map(|last| &rows[last].0);
                let (value, row) = &rows[place];
                (*row, last.is_none_or(|last| compare(last, value).is_ne()))
            })
        })
    }

    /// The rows in the order of their values, where they are few runs of rows whose values ascend, and the
    /// values of each run lie behind those of another: as many columns are, read by several tasks.
    fn runs(
        self,
        compare: impl Fn(usize, usize) -> Ordering + Sync,
    ) -> Result<Option<Vec<Ascending>>> {
        /// Rows of a run on the average, at least.
        const LEAST_RUN: Size = Size { usual: 1 << 6, small: 4 };
        /// Rows between two looks at the flag.
        const CHECK_EVERY: usize = 1 << 12;
        let Self { column, threads, cancel, .. } = self;
        let most = column.len() / threads.tuning.size(LEAST_RUN);
        let count = AtomicUsize::new(1);
        let starts = map(threads, ranges(threads, column.len(), LEAST_ROWS), |rows| {
            let mut starts = vec![];
            let first = self.starts.partition_point(|&start| (start as usize) < rows.start);
            let mut of_pieces = self.starts[first..].iter().peekable();
            for row in rows {
                if row % CHECK_EVERY == 0 {
                    cancel.check()?;
                }
                let is_start = of_pieces.next_if(|&&start| start as usize == row).is_some();
                if row == 0 || is_start || compare(row - 1, row).is_gt() {
                    starts.push(row);
                    if row > 0 && count.fetch_add(1, Relaxed) >= most {
                        break;
                    }
                }
            }
            Ok(starts)
        })?;
        if count.into_inner() > most.max(1) {
            return Ok(None);
        }
        let starts = starts.concat();
        let ends = starts.iter().skip(1).copied().chain([column.len()]);
        let mut runs: Vec<[usize; 2]> =
            starts.iter().zip(ends).map(|(&start, end)| [start, end]).collect();
        sort_unstable_by(&mut runs, cancel, |a, b| {
            compare(a[0], b[0]).then_with(|| compare(a[1] - 1, b[1] - 1))
        })?;
        if runs.windows(2).any(|runs| compare(runs[0][1] - 1, runs[1][0]).is_gt()) {
            return Ok(None);
        }
        let share = steps_per_task(threads, column.len(), LEAST_ROWS);
        let (mut before, mut cut) = (None, vec![]);
        for [start, end] in runs {
            for start in (start..end).step_by(share) {
                let rows = start..end.min(start + share);
                let last = rows.end - 1;
                cut.push(Ascending { rows, before });
                before = Some(last);
            }
        }
        Ok(Some(cut))
    }

    /// The ranks of rows in the order of their values. `rows` gives the rows of a piece, each with whether its
    /// value differs from that before it.
    fn numbered<P: Sync, I: Iterator<Item = (u32, bool)>>(
        self,
        pieces: Vec<P>,
        rows: impl Fn(&P) -> I + Sync,
    ) -> Result<RankedRows> {
        let Self { column, keeps, threads, cancel, .. } = self;
        let news = map(threads, pieces.iter().collect(), |piece| {
            let mut news = 0;
            for (step, (_, is_new)) in rows(piece).enumerate() {
                cancel.check_at(step)?;
                news += usize::from(is_new);
            }
            Ok(news)
        })?;
        let (mut different, mut tasks) = (0, vec![]);
        for (piece, news) in pieces.iter().zip(news) {
            tasks.push((piece, different));
            different += news;
        }
        let mut by_row = vec![0; column.len()];
        let places = shared(&mut by_row);
        let firsts = map(threads, tasks, |(piece, mut rank): (&P, usize)| {
            let mut firsts = vec![];
            for (step, (row, is_new)) in rows(piece).enumerate() {
                cancel.check_at(step)?;
                if is_new {
                    rank += 1;
                    if keeps {
                        firsts.push(row);
                    }
                }
                places[row as usize].store(rank as u32, Relaxed);
            }
            Ok(firsts)
        })?;
        let firsts = parallel::concat(threads, &firsts, cancel)?;
        Ok(RankedRows { by_row, different, firsts })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use rand::rngs::StdRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn ranks_of_threads_follow_the_values() {
        let mut rng = StdRng::seed_from_u64(31);
        for round in 0..80_usize {
            let count = [0, 1, 30, 1000][round % 4];
            let values = rng.random_range(1..=2 * count as i64 + 1);
            let mut column: Vec<i64> = (0..count).map(|_| rng.random_range(0..values)).collect();
            // Some ascend, but for one value perhaps, or in parts that changed places.
            if round % 5 > 0 {
                column.sort_unstable();
            }
            if round % 5 == 2 && count > 1 {
                let row = rng.random_range(1..count);
                column[row] = -1;
            }
            let mut starts = vec![];
            if round % 5 > 2 && count > 1 {
                let mut pieces: Vec<&[i64]> = vec![];
                let mut rest = column.as_slice();
                while !rest.is_empty() {
                    let (piece, others) = rest.split_at(rng.random_range(1..40).min(rest.len()));
                    pieces.push(piece);
                    rest = others;
                }
                pieces.shuffle(&mut rng);
                let mut end = 0;
                for piece in &pieces {
                    starts.push(end);
                    end += piece.len() as u32;
                }
                column = pieces.concat();
            }
            let mut different = column.clone();
            different.sort_unstable();
            different.dedup();
            let rank = |value: &i64| different.binary_search(value).unwrap() as u32 + 1;
            let by_row: Vec<u32> = column.iter().map(rank).collect();
            let values_of = column.clone();
            let texts = column.iter().map(|value| format!("text no. {:09}", value + 1));
            let columns: [&dyn Array; 2] = [
                &Int64Array::from(column.clone()),
                &StringViewArray::from_iter_values(texts).to_binary_view(),
            ];
            for (column, threads) in columns.into_iter().flat_map(|c| [(c, 1), (c, 2), (c, 7)]) {
                let cancel = &CancelFlag::default();
                let ranked =
                    RankedRows::of(column, &starts, true, Threads::small(threads), cancel).unwrap();
                assert_eq!((&ranked.by_row, ranked.different), (&by_row, different.len()));
                let firsts = ranked.firsts.iter().map(|&row| values_of[row as usize]);
                assert_eq!(firsts.collect::<Vec<_>>(), different);
                let ranked =
                    RankedRows::of(column, &[], false, Threads::small(threads), cancel).unwrap();
                assert_eq!((&ranked.by_row, ranked.different), (&by_row, different.len()));
            }
        }
    }
}
