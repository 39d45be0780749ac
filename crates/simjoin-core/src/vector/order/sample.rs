//! The boxes of all vectors, estimated from the boxes of a sample.

use super::cells::refine_by;
use super::near::Sizes;
use super::points::{Points, enclose};
use crate::error::Result;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, for_each, map, steps_per_task, threads_for};
use crate::vector::boxes::{BLOCK_ITEMS, gap, halves};

/// About the share of pairs of blocks that `limit` leaves within reach, of `all` points of which these
/// are a sample.
///
/// Blocks of a sample are wider than blocks of all points. Blocks of fewer points are not, but touch fewer
/// faces of the cells that they lie in. With blocks smaller by the root of the sample's share, the shares of
/// clusters come out right within a quarter, at a sixth of the points and at a sixtieth.
///
/// # Errors
///
/// When the work is cancelled.
pub(super) fn share_in_reach(
    points: Points<'_>,
    some: &mut [u32],
    all: usize,
    limit: f32,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<f64> {
    /// Blocks that are held against all.
    const ROWS: usize = 64;
    /// Blocks of a task, at least.
    const LEAST: usize = 1 << 5;
    let part = some.len() as f64 / all.max(1) as f64;
    let block = (f64::from(BLOCK_ITEMS) * part.min(1.0).sqrt()).ceil().max(1.0) as usize;
    refine_by(points, some, Sizes::new(block, block, threads.tuning), threads, cancel)?;
    let width = 2 * points.dims;
    let mut ends = vec![0.0; some.len().div_ceil(block) * width];
    let threads = threads_for(threads, ROWS * ends.len());
    let share = steps_per_task(threads, ends.len() / width, LEAST);
    let tasks = some.chunks(share * block).zip(ends.chunks_mut(share * width)).collect();
    for_each(threads, tasks, |(some, ends): (&[u32], &mut [f32])| {
        cancel.check()?;
        let blocks = some.chunks(block).zip(ends.chunks_exact_mut(width));
        blocks.for_each(|(block, ends)| enclose(points.with_slack(block), ends));
        Ok(())
    })?;
    let blocks: Vec<[&[f32]; 2]> = ends.chunks_exact(width).map(halves).collect();
    let rows: Vec<_> = blocks.iter().step_by((blocks.len() / ROWS).max(1)).collect();
    let pairs = rows.len() * blocks.len();
    let within = map(threads, rows, |row| {
        cancel.check()?;
        Ok(blocks.iter().filter(|other| gap(*row, **other) <= limit).count())
    })?;
    Ok(within.into_iter().sum::<usize>() as f64 / pairs.max(1) as f64)
}
