//! The places of the rows of several parts.

use crate::error::Result;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, collect, map, steps_per_task};

/// Rows of a task, at least.
const LEAST_ROWS: usize = 1 << 12;

/// The place of a row: its number, its part, and its index there.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub row: u32,
    pub part: u32,
    pub index: u32,
}

/// Neighbouring rows of the input that lie one behind the other in a part.
#[derive(Clone, Copy)]
struct Stretch {
    row: u32,
    part: u32,
    index: u32,
    len: u32,
}

/// The places of the rows of several parts, in the order of the input; `number` tells the number of a row, and
/// the numbers of a part ascend.
///
/// # Errors
///
/// When the work is cancelled.
pub(crate) fn places_by_row<R: Sync>(
    parts: &[&[R]],
    number: impl Fn(&R) -> u32 + Sync,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<Vec<Place>> {
    let count = parts.iter().map(|rows| rows.len()).sum();
    let share = steps_per_task(threads, count, LEAST_ROWS);
    let mut tasks = vec![];
    for (part, rows) in (0..).zip(parts) {
        let shares = (0..).step_by(share).zip(rows.chunks(share));
        tasks.extend(shares.map(|(index, rows)| (part, index, rows)));
    }
    let stretches = map(threads, tasks, |(part, index, rows): (u32, u32, &[R])| {
        let mut found = vec![];
        let mut rest = vec![(0, rows.len())];
        while let Some((start, end)) = rest.pop() {
            cancel.check_at(start)?;
            let (first, last) = (number(&rows[start]), number(&rows[end - 1]));
            // Numbers that ascend leave none out where they are as many as the span of their ends.
            if (last - first) as usize == end - start - 1 {
                let (index, len) = (index + start as u32, (end - start) as u32);
                found.push(Stretch { row: first, part, index, len });
            } else {
                let middle = start.midpoint(end);
                rest.extend([(middle, end), (start, middle)]);
            }
        }
        Ok(found)
    })?;
    let mut stretches = stretches.concat();
    if !stretches.is_sorted_by_key(|stretch| stretch.row) {
        stretches.sort_unstable_by_key(|stretch| stretch.row);
    }
    let mut ends = Vec::with_capacity(stretches.len());
    let mut end = 0;
    for stretch in &stretches {
        end += stretch.len as usize;
        ends.push(end);
    }
    collect(threads, count, LEAST_ROWS, cancel, |range| {
        let first = ends.partition_point(|&end| end <= range.start);
        let skipped = range.start - first.checked_sub(1).map_or(0, |before| ends[before]);
        let mut own = stretches[first..].iter().copied();
        let mut next = own.next();
        if let Some(Stretch { row, index, len, .. }) = &mut next {
            let skipped = skipped as u32;
            (*row, *index, *len) = (*row + skipped, *index + skipped, *len - skipped);
        }
        std::iter::from_fn(move || {
            let Stretch { row, part, index, len } = next.as_mut()?;
            let place = Place { row: *row, part: *part, index: *index };
            (*row, *index, *len) = (row.wrapping_add(1), *index + 1, *len - 1);
            if *len == 0 {
                next = own.next();
            }
            Some(place)
        })
    })
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn places_follow_the_order_of_the_input() {
        let mut rng = StdRng::seed_from_u64(23);
        for round in 0..60_usize {
            let count = [0, 1, 50, 3000][round % 4];
            let parts = rng.random_range(1..6);
            // Rows change their part now and then, or at each step; some numbers are left out.
            let changes = [0.002, 0.1, 1.0][round % 3];
            let gaps = [0.0, 0.01, 0.5][rng.random_range(0..3)];
            let mut rows: Vec<Vec<u32>> = vec![vec![]; parts];
            let mut expected = vec![];
            let (mut part, mut row) = (0, rng.random_range(0..9));
            for _ in 0..count {
                if rng.random_bool(changes) {
                    part = rng.random_range(0..parts);
                }
                row += if rng.random_bool(gaps) { rng.random_range(1..5) } else { 0 };
                expected.push((row, part as u32, rows[part].len() as u32));
                rows[part].push(row);
                row += 1;
            }
            let slices: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
            for threads in [1, 2, 7].map(Threads::small) {
                let cancel = &CancelFlag::default();
                let places = places_by_row(&slices, |&row| row, threads, cancel).unwrap();
                let places = places.iter().map(|place| (place.row, place.part, place.index));
                assert_eq!(places.collect::<Vec<_>>(), expected);
            }
        }
        let last = [[u32::MAX - 1, u32::MAX].as_slice()];
        let places =
            places_by_row(&last, |&row| row, Threads::small(1), &CancelFlag::default()).unwrap();
        assert_eq!(places.last().map(|place| (place.row, place.index)), Some((u32::MAX, 1)));
    }
}
