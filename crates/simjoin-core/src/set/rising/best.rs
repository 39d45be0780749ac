//! The best sets of a set.

use crate::engine::NearestPartners;
use crate::set::runs::SetId;

/// A set with its value, the tokens in common, and the rows that hold it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kept {
    value: f64,
    set: SetId,
    overlap: u32,
    rows: u32,
}

/// The best sets so far that make up a number of rows; or all sets of a least value.
#[derive(Debug)]
pub(super) struct Best {
    /// The partners that are wanted; `None` for all.
    nearest: Option<NearestPartners>,
    /// The least value of a partner.
    least: f64,
    /// The sets that are kept; where not all are wanted, by falling values. Without the last one (with ties, without all that tie with it) their
    /// rows are fewer than wanted.
    kept: Vec<Kept>,
    /// The number of rows of all kept sets and, where ties count, of the sets that tie with the last one.
    rows: usize,
    tied: usize,
}

impl Best {
    pub(super) fn new(nearest: Option<NearestPartners>) -> Self {
        Self { nearest, least: 0.0, kept: vec![], rows: 0, tied: 0 }
    }

    /// Begins with the partners of another set, of at least this value; none where it is NaN. Disjoint sets are none.
    pub(super) fn begin(&mut self, least: f64) {
        self.least = if least.is_nan() { f64::INFINITY } else { least.max(f64::from_bits(1)) };
        self.clear();
    }

    fn clear(&mut self) {
        self.kept.clear();
        (self.rows, self.tied) = (0, 0);
    }

    /// A bound on the bytes of the best of `sets` sets: all of them may be in a tie.
    pub(super) fn most_bytes(sets: usize, nearest: Option<NearestPartners>) -> usize {
        match nearest {
            Some(NearestPartners { with_ties: false, .. }) => 0,
            _ => sets * 2 * size_of::<Kept>(),
        }
    }

    /// The rows that are wanted; `None` where all are.
    pub(super) fn wanted(&self) -> Option<usize> {
        self.nearest.map(|nearest| nearest.rows)
    }

    /// The least value that a set must have to be kept.
    pub(super) fn bound(&self) -> f64 {
        match (self.nearest, self.kept.last()) {
            (Some(nearest), Some(last)) if self.rows >= nearest.rows => match nearest.with_ties {
                true => last.value,
                false => last.value.next_up(),
            },
            _ => self.least,
        }
    }

    /// Keeps a set that is no worse than the bound, in place of those that are no longer among the best.
    pub(super) fn offer(&mut self, value: f64, set: SetId, overlap: u32, rows: u32) {
        if value < self.bound() {
            return;
        }
        let kept = Kept { value, set, overlap, rows };
        let Some(NearestPartners { rows: wanted, with_ties, .. }) = self.nearest else {
            self.kept.push(kept);
            return;
        };
        let place = self.kept.partition_point(|kept| kept.value >= value);
        let is_last = place == self.kept.len();
        if is_last && self.kept.last().is_none_or(|last| last.value != value) {
            self.tied = 0;
        }
        self.kept.insert(place, kept);
        self.rows += rows as usize;
        self.tied += if is_last { rows as usize } else { 0 };
        match with_ties {
            true => self.leave_out_tied(wanted),
            false => self.leave_out_last(wanted),
        }
    }

    /// Leaves out the sets in a tie with the last one, while the others have enough rows.
    fn leave_out_tied(&mut self, wanted: usize) {
        while self.rows - self.tied >= wanted
            && let Some(last) = self.kept.last().map(|last| last.value)
        {
            let before = self.kept.partition_point(|kept| kept.value > last);
            self.kept.truncate(before);
            self.rows -= self.tied;
            let last = self.kept.last().map(|last| last.value);
            let tied = self.kept.iter().rev().take_while(|kept| Some(kept.value) == last);
            self.tied = tied.map(|kept| kept.rows as usize).sum();
        }
    }

    /// Leaves out the last set, while the others have enough rows.
    fn leave_out_last(&mut self, wanted: usize) {
        while let Some(last) = self.kept.last()
            && self.rows - last.rows as usize >= wanted
        {
            self.rows -= last.rows as usize;
            self.kept.pop();
        }
    }

    /// The sets with the tokens in common.
    pub(super) fn sets(&self) -> impl Iterator<Item = (SetId, u32)> + '_ {
        self.kept.iter().map(|kept| (kept.set, kept.overlap))
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn the_best_sets_are_those_of_a_sorted_list() {
        let mut rng = StdRng::seed_from_u64(9);
        for _ in 0..300 {
            let (wanted, with_ties) = (rng.random_range(1..12), rng.random());
            let mut best =
                Best::new(Some(NearestPartners { rows: wanted, with_ties, joins: None }));
            best.begin(0.0);
            best.offer(0.5, 7, 1, 100);
            best.begin(0.0);
            let mut all: Vec<(f64, u32)> = vec![];
            for set in 0..rng.random_range(0..40) {
                let (value, rows) =
                    (f64::from(rng.random_range(1..9)) / 8.0, rng.random_range(1..4));
                all.extend(std::iter::repeat_n((value, set), rows as usize));
                let is_below = value < best.bound();
                let before: Vec<_> = best.sets().collect();
                best.offer(value, set, set, rows);
                assert!(!is_below || before == best.sets().collect::<Vec<_>>());
            }
            all.sort_by(|a, b| b.0.total_cmp(&a.0));
            let last = all.get(wanted - 1).map_or(0.0, |last| last.0);
            assert!(best.kept.is_sorted_by(|a, b| a.value >= b.value));
            let sets: Vec<u32> = best.sets().map(|(set, _)| set).collect();
            for (value, set) in all {
                // Sets in a tie with the last one are all kept, or any of them.
                assert!(sets.contains(&set) == (value >= last) || value == last && !with_ties);
            }
            let rows = best.rows;
            assert!(best.kept.iter().map(|kept| kept.rows as usize).sum::<usize>() == rows);
        }
    }
}
