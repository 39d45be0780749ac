//! An order by norms, for inner products.
//!
//! Vectors of one panel have one scale, and those of different norms spoil it for each other: neighbours
//! have norms of the same binary magnitude. Panels of small norms are then passed over at once.

use std::mem::size_of;

use datafusion::common::Result;

use super::arrange::Resources;
use crate::engine::ItemId;
use crate::util::parallel::{for_each, steps_per_task, threads_for};
use crate::vector::collection::Run;
use crate::vector::middle::square_from;

/// The magnitude of norms that are zero, and of those that are not usual.
const NOTHING: i16 = i16::MIN;
const UNUSUAL: i16 = i16::MAX;

/// Items of a task, at least.
const LEAST: usize = 1 << 9;

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
    if !reserve(items * (size_of::<i16>() + size_of::<ItemId>())) {
        return Ok(None);
    }
    let mut magnitudes = vec![NOTHING; items];
    let threads = threads_for(resources.threads, numbers);
    let share = steps_per_task(threads, items, LEAST);
    let tasks = magnitudes.chunks_mut(share).enumerate().collect();
    for_each(threads, tasks, |(task, magnitudes): (usize, &mut [i16])| {
        for (item, magnitude) in (task * share..).zip(magnitudes) {
            resources.cancel.check_at(item)?;
            *magnitude = (resources.vector)(item as ItemId).map_or(NOTHING, magnitude_of);
        }
        Ok(())
    })?;
    let of_run = |run: &Run| &magnitudes[run.items.start as usize..run.items.end as usize];
    // Panels of two magnitudes are as good as any.
    let are_alike = |magnitudes: &[i16]| {
        let some = || magnitudes.iter().filter(|m| ![NOTHING, UNUSUAL].contains(m));
        let span = some().max().zip(some().min()).map_or(0, |(most, least)| most - least);
        span <= 1
    };
    if resources.runs.iter().all(|run| are_alike(of_run(run))) {
        return Ok(None);
    }
    let mut order: Vec<ItemId> = (0..items as ItemId).collect();
    for run in resources.runs {
        resources.cancel.check()?;
        let own = &mut order[run.items.start as usize..run.items.end as usize];
        own.sort_by_key(|&item| magnitudes[item as usize]);
    }
    Ok(Some(order))
}

/// About the binary logarithm of a norm.
fn magnitude_of(vector: &[f64]) -> i16 {
    let square = square_from(vector, &[]);
    match square {
        0.0 => NOTHING,
        square if square < 1e300 => (square.log2().floor() as i16).div_euclid(2),
        // Not a number, either.
        _ => UNUSUAL,
    }
}
