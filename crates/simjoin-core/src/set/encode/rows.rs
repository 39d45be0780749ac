//! The rows of each set.

use crate::error::{Result, internal_err};
use crate::set::encode::arrange::{GatheredSets, Stretch};
use crate::set::encode::distinct::NO_SET;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, filled, for_each, map, steps_per_task, threads_for};
use crate::util::scatter::Scatter;

/// Rows of a task, at least.
const LEAST_ROWS: usize = 1 << 12;

/// The steps of placing a row.
const STEPS_PER_ROW: usize = 1 << 2;

/// The rows of a collection.
pub(super) struct RowsOfSets {
    /// Where the rows of each set start, and where those of the last one end.
    pub offsets: Vec<u32>,
    /// Ascending within a set.
    pub rows: Vec<u32>,
    pub setless: Vec<u32>,
}

/// Neighbouring rows with their sets, by the places of these.
struct Placed {
    /// The place of a row's set, and the row: in the order of the buckets, rows ascending in each.
    rows: Vec<(u32, u32)>,
    /// By bucket, where its rows end.
    ends: Vec<usize>,
    setless: Vec<u32>,
}

impl Placed {
    fn bucket(&self, bucket: usize) -> &[(u32, u32)] {
        let start = if bucket == 0 { 0 } else { self.ends[bucket - 1] };
        &self.rows[start..self.ends[bucket]]
    }
}

impl GatheredSets {
    /// The bytes that [`Self::rows_of_sets`] allocates.
    pub(super) fn rows_footprint(sets: usize, rows: usize) -> usize {
        // Offsets; the rows, and each with the place of its set, which it has unordered before.
        (sets + 1) * 4 + rows * (4 + 2 * 8)
    }

    /// The rows of each set and the rows without a set. `position` gives the place of each set in
    /// the order of `sets` sets.
    pub(super) fn rows_of_sets(
        &self,
        position: &Scatter,
        sets: usize,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<RowsOfSets> {
        let row_count = self.stretches.iter().map(|stretch| stretch.len as usize).sum();
        let threads = threads_for(threads, STEPS_PER_ROW * row_count);
        let share = steps_per_task(threads, row_count, LEAST_ROWS);
        // The places of a bucket are neighbours: a power of two of them.
        let width = sets
            .div_ceil(if threads.count() > 1 { 4 * threads.count() } else { 1 })
            .next_power_of_two();
        let buckets = sets.div_ceil(width);
        let placed = map(threads, tasks(&self.stretches, share), |stretches| {
            cancel.check()?;
            Ok(self.placed(&stretches, position, width.ilog2(), buckets))
        })?;
        let mut offsets = filled(threads, sets + 1, 0_u32);
        let mut rows = filled(threads, placed.iter().map(|placed| placed.rows.len()).sum(), 0_u32);
        let mut work = vec![];
        let (mut rest, mut start) = (rows.as_mut_slice(), 0);
        for (bucket, ends) in offsets[1..].chunks_mut(width).enumerate() {
            let len = placed.iter().map(|placed| placed.bucket(bucket).len()).sum();
            let (own, others) = rest.split_at_mut(len);
            work.push((bucket, ends, start, own));
            rest = others;
            start += len as u32;
        }
        if !rest.is_empty() {
            return internal_err!("rows of a similarity join were lost");
        }
        for_each(threads, work, |(bucket, ends, start, own)| {
            cancel.check()?;
            let first = bucket * width;
            let all = || placed.iter().flat_map(|placed| placed.bucket(bucket));
            all().for_each(|&(place, _)| ends[place as usize - first] += 1);
            // The starts of the sets become their ends.
            let mut end = start;
            for place in ends.iter_mut() {
                end += std::mem::replace(place, end);
            }
            for &(place, row) in all() {
                let end = &mut ends[place as usize - first];
                own[(*end - start) as usize] = row;
                *end += 1;
            }
            Ok(())
        })?;
        let setless = placed.into_iter().flat_map(|placed| placed.setless).collect();
        Ok(RowsOfSets { offsets, rows, setless })
    }

    /// The rows of some stretches by the places of their sets, in buckets of 2 to the power of
    /// `bits` places.
    fn placed(
        &self,
        stretches: &[Stretch],
        position: &Scatter,
        bits: u32,
        buckets: usize,
    ) -> Placed {
        let count = stretches.iter().map(|stretch| stretch.len as usize).sum();
        let mut setless = vec![];
        let mut rows = Vec::with_capacity(count);
        let mut ends = vec![0; buckets];
        for stretch in stretches {
            let start = self.starts[stretch.part as usize];
            let sets = self.parts[stretch.part as usize].set_of_row();
            let sets = &sets[stretch.start as usize..(stretch.start + stretch.len) as usize];
            for (row, &set) in (stretch.first_row..).zip(sets) {
                if set == NO_SET {
                    setless.push(row);
                    continue;
                }
                let place = position.get(self.stands_for(start + set) as usize);
                if buckets > 1 {
                    ends[place as usize >> bits] += 1;
                }
                rows.push((place, row));
            }
        }
        if let [end] = ends.as_mut_slice() {
            *end = rows.len();
            return Placed { rows, ends, setless };
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut ordered = vec![(0, 0); rows.len()];
        for (place, row) in rows {
            let end = &mut ends[place as usize >> bits];
            ordered[*end] = (place, row);
            *end += 1;
        }
        Placed { rows: ordered, ends, setless }
    }
}

/// Stretches of about `share` rows together, in order; larger ones are cut.
fn tasks(stretches: &[Stretch], share: usize) -> Vec<Vec<Stretch>> {
    let mut tasks = vec![];
    let mut task = vec![];
    let mut room = share;
    for &stretch in stretches {
        let mut rest = stretch;
        while rest.len as usize > room {
            let len = room as u32;
            task.push(Stretch { len, ..rest });
            tasks.push(std::mem::take(&mut task));
            room = share;
            rest.first_row += len;
            rest.start += len;
            rest.len -= len;
        }
        room -= rest.len as usize;
        task.push(rest);
    }
    tasks.push(task);
    tasks
}
