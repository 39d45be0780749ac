//! The best sets of a set.

use crate::set::runs::SetId;

/// A set with its value, and the rows that hold it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kept {
    value: f64,
    set: SetId,
    rows: u32,
}

/// The best sets so far that make up a number of rows.
#[derive(Debug)]
pub(super) struct Best {
    wanted: usize,
    with_ties: bool,
    /// The sets that are kept, by falling values. Without the last one (with ties, without all that tie with it) their
    /// rows are fewer than wanted.
    kept: Vec<Kept>,
    /// The number of rows of all kept sets and, where ties count, of the sets that tie with the last one.
    rows: usize,
    tied: usize,
}

impl Best {
    /// The least value above 0: disjoint sets are no neighbours.
    const LEAST: f64 = f64::from_bits(1);

    /// The sets of the best `wanted` rows, and where ties count those in a tie with the last one.
    pub(super) fn new(wanted: usize, with_ties: bool) -> Self {
        Self { wanted, with_ties, kept: vec![], rows: 0, tied: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
        (self.rows, self.tied) = (0, 0);
    }

    /// A bound on the bytes of the best of `sets` sets: all of them may be in a tie.
    pub(super) fn most_bytes(sets: usize, with_ties: bool) -> usize {
        if with_ties { sets * 2 * size_of::<Kept>() } else { 0 }
    }

    /// The rows that are wanted.
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// The least value that a set must have to be kept.
    pub(super) fn bound(&self) -> f64 {
        match self.kept.last() {
            Some(last) if self.rows >= self.wanted && self.with_ties => last.value,
            Some(last) if self.rows >= self.wanted => last.value.next_up(),
            _ => Self::LEAST,
        }
    }

    /// Keeps a set that is no worse than the bound, in place of those that are no longer among the best.
    pub(super) fn offer(&mut self, value: f64, set: SetId, rows: u32) {
        if value < self.bound() {
            return;
        }
        let place = self.kept.partition_point(|kept| kept.value >= value);
        let is_last = place == self.kept.len();
        if is_last && self.kept.last().is_none_or(|last| last.value != value) {
            self.tied = 0;
        }
        self.kept.insert(place, Kept { value, set, rows });
        self.rows += rows as usize;
        self.tied += if is_last { rows as usize } else { 0 };
        match self.with_ties {
            true => self.leave_out_tied(),
            false => self.leave_out_last(),
        }
    }

    /// Leaves out the sets in a tie with the last one, while the others have enough rows.
    fn leave_out_tied(&mut self) {
        while self.rows - self.tied >= self.wanted
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
    fn leave_out_last(&mut self) {
        while let Some(last) = self.kept.last()
            && self.rows - last.rows as usize >= self.wanted
        {
            self.rows -= last.rows as usize;
            self.kept.pop();
        }
    }

    /// The rows of the sets kept.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The sets with their values, the best ones first.
    pub(super) fn sets(&self) -> impl Iterator<Item = (SetId, f64)> + '_ {
        self.kept.iter().map(|kept| (kept.set, kept.value))
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
            let mut best = Best::new(wanted, with_ties);
            best.offer(0.5, 7, 100);
            best.clear();
            let mut all: Vec<(f64, u32)> = vec![];
            for set in 0..rng.random_range(0..40) {
                let (value, rows) =
                    (f64::from(rng.random_range(1..9)) / 8.0, rng.random_range(1..4));
                all.extend(std::iter::repeat_n((value, set), rows as usize));
                let is_below = value < best.bound();
                let before: Vec<_> = best.sets().collect();
                best.offer(value, set, rows);
                assert!(!is_below || before == best.sets().collect::<Vec<_>>());
            }
            all.sort_by(|a, b| b.0.total_cmp(&a.0));
            let last = all.get(wanted - 1).map_or(0.0, |last| last.0);
            let above: Vec<f64> = best.sets().map(|(_, value)| value).collect();
            assert!(above.is_sorted_by(|a, b| a >= b));
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
