//! An order by norms, for inner products.
//!
//! Vectors of one panel have one scale, and those of different norms spoil it for each other: neighbours
//! have norms of the same binary magnitude. Panels of small norms are then passed over at once.

use std::mem::size_of;
use std::ops::Range;

use super::arrange::Resources;
use crate::engine::ItemId;
use crate::error::Result;
use crate::tuning::Size;
use crate::util::counting_sort;
use crate::util::parallel::{Threads, collect, for_each, map, ranges, threads_for};
use crate::vector::collection::Run;
use crate::vector::middle::square_from;
use crate::vector::width::Vector;

/// The magnitude of norms that are zero, and of those that are not usual; the others lie between.
const NOTHING: u32 = 0;
const UNUSUAL: u32 = 1 << 11;

/// Items of a task, at least.
const LEAST: usize = 1 << 9;

/// Items of a run that threads share.
const LEAST_SHARED: Size = Size { usual: 1 << 14, small: 1 << 7 };

/// The items within their runs by the magnitudes of their norms, those of one as they were: by new item the
/// old one. `None` where nearly all norms are alike, or where `reserve` does not grant the bytes.
///
/// # Errors
///
/// When the work is cancelled.
pub(in crate::vector) fn by_magnitude(
    resources: Resources<'_>,
    numbers: usize,
    reserve: impl Fn(usize) -> bool,
) -> Result<Option<Vec<ItemId>>> {
    let items = resources.runs.last().map_or(0, |run| run.items.end) as usize;
    let buckets = UNUSUAL as usize + 1;
    let of_items = items * (size_of::<u32>() + size_of::<ItemId>());
    if !reserve(of_items + counting_sort::footprint(items, buckets)) {
        return Ok(None);
    }
    let Resources { runs, cancel, .. } = resources;
    let threads = threads_for(resources.threads, numbers);
    let magnitude = |item: usize| (resources.vector)(item as ItemId).map_or(NOTHING, magnitude_of);
    let magnitudes = collect(threads, items, LEAST, cancel, |range| range.map(magnitude))?;
    let threads = threads_for(resources.threads, items);
    if are_alike(&magnitudes, runs, threads)? {
        return Ok(None);
    }
    let all = |range: Range<usize>| range.start as u32..range.end as u32;
    let mut order = collect(threads, items, LEAST, cancel, all)?;
    let least_shared = threads.tuning.size(LEAST_SHARED);
    let mut few = vec![];
    let mut rest = order.as_mut_slice();
    for run in runs {
        cancel.check()?;
        let (own, others) = rest.split_at_mut(run.items.len());
        rest = others;
        if own.len() < least_shared {
            few.push(own);
            continue;
        }
        let of_run = &magnitudes[run.items.start as usize..run.items.end as usize];
        let sorted = counting_sort::sort(of_run, buckets, threads, cancel)?.numbers;
        let tasks = own.chunks_mut(least_shared).zip(sorted.chunks(least_shared)).collect();
        for_each(threads, tasks, |(own, sorted): (&mut [ItemId], &[u32])| {
            own.iter_mut().zip(sorted).for_each(|(item, at)| *item = run.items.start + at);
            Ok(())
        })?;
    }
    for_each(
        threads,
        few.chunks_mut(threads.least(LEAST)).collect(),
        |runs: &mut [&mut [ItemId]]| {
            cancel.check()?;
            runs.iter_mut().for_each(|run| run.sort_by_key(|&item| magnitudes[item as usize]));
            Ok(())
        },
    )?;
    Ok(Some(order))
}

/// Whether the norms of each run are nearly alike: panels of two magnitudes are as good as any.
fn are_alike(magnitudes: &[u32], runs: &[Run], threads: Threads) -> Result<bool> {
    let mut tasks = vec![];
    for (number, run) in runs.iter().enumerate() {
        let of_run = &magnitudes[run.items.start as usize..run.items.end as usize];
        tasks.extend(of_run.chunks(threads.tuning.size(LEAST_SHARED)).map(|some| (number, some)));
    }
    let spans = map(threads, ranges(threads, tasks.len(), 1), |range| {
        let spans = tasks[range].iter().map(|(number, some)| {
            let usual = |m: &u32| ![NOTHING, UNUSUAL].contains(m);
            let bounds = |(least, most): (u32, u32), m: &u32| (least.min(*m), most.max(*m));
            let span = some.iter().filter(|m| usual(m)).fold((u32::MAX, 0), bounds);
            (*number, span)
        });
        Ok(spans.collect::<Vec<_>>())
    })?;
    let spans: Vec<(usize, (u32, u32))> = spans.concat();
    Ok(spans.chunk_by(|a, b| a.0 == b.0).all(|of_run| {
        let least = of_run.iter().map(|(_, span)| span.0).min();
        let most = of_run.iter().map(|(_, span)| span.1).max();
        most.zip(least).is_none_or(|(most, least)| most.saturating_sub(least) <= 1)
    }))
}

/// About the binary logarithm of a norm, above 0.
fn magnitude_of(vector: Vector<'_>) -> u32 {
    let square = square_from(vector, &[]);
    match square {
        0.0 => NOTHING,
        square if square < 1e300 => {
            // Those of the least squares are -538 or so.
            let logarithm = (square.log2().floor() as i32).div_euclid(2);
            (logarithm + UNUSUAL as i32 / 2).clamp(1, UNUSUAL as i32 - 1) as u32
        }
        // Not a number, either.
        _ => UNUSUAL,
    }
}
