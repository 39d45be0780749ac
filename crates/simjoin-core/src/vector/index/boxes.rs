//! Points in panels, and the boxes around them.
//!
//! ```text
//! node     16 boxes, of nodes or of panels, dimension by dimension
//! panel    16 points, dimension by dimension
//! ```
//!
//! Panels hold the points in their order; the boxes of sixteen neighbouring panels lie in a node,
//! those of sixteen neighbouring nodes in a node of the next level, up to one. It is a directory
//! (Böhm, Noll, Plant and Zherdin, "Index-supported similarity join on graphics processors", BTW
//! 2009) of as many levels as there are points for.

use std::ops::Range;

use crate::error::Result;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, for_each, steps_per_task, threads_for};

/// Points of a panel.
pub(super) const PANEL: usize = 16;
/// Children of a node.
pub(super) const FANOUT: usize = 16;
/// Dimensions of boxes, at most: the coordinates of images.
pub(super) const BOX_DIMS: usize = 16;

/// A node's floats for one dimension: the lower ends of its boxes, and the upper ends, negated.
const ENDS: usize = 2 * FANOUT;

/// The shape of a tree over some panels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TreeShape {
    pub panels: u32,
    /// Nodes of each level, from those over panels on.
    pub levels: [u32; 8],
}

impl TreeShape {
    pub(super) fn of(points: usize) -> Self {
        let panels = points.div_ceil(PANEL) as u32;
        let mut levels = [0; 8];
        let mut below = panels;
        for level in &mut levels {
            *level = below.div_ceil(FANOUT as u32);
            below = *level;
            if below <= 1 {
                break;
            }
        }
        Self { panels, levels }
    }

    pub(super) fn nodes(&self) -> usize {
        self.levels.iter().map(|&level| level as usize).sum()
    }

    /// The number of levels.
    pub(super) fn height(&self) -> usize {
        self.levels.iter().filter(|&&level| level > 0).count()
    }
}

/// Points of one length with boxes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree<'a> {
    pub shape: TreeShape,
    /// The length of a point.
    pub dimensions: usize,
    /// The dimensions of boxes.
    pub dims: &'a [usize],
    /// `dimensions * PANEL` for each panel.
    pub panels: &'a [f32],
    /// `dims.len() * ENDS` for each node, level by level.
    pub nodes: &'a [f32],
}

/// The floats of a node.
pub(super) fn node_len(dims: usize) -> usize {
    dims * ENDS
}

/// Writes the panels of points in their order.
pub(super) fn fill_panels(
    order: &[u32],
    coordinates: &[f32],
    dimensions: usize,
    panels: &mut [f32],
) {
    for (points, panel) in order.chunks(PANEL).zip(panels.chunks_mut(dimensions * PANEL)) {
        if points.len() < PANEL {
            // Farther than any point.
            panel.fill(f32::INFINITY);
        }
        for (lane, &point) in points.iter().enumerate() {
            let from = &coordinates[point as usize * dimensions..][..dimensions];
            for (k, value) in from.iter().enumerate() {
                panel[k * PANEL + lane] = *value;
            }
        }
    }
}

/// Writes the nodes over panels; `count` points lie in these.
///
/// # Errors
///
/// When the work is cancelled.
pub(super) fn fill_nodes(
    tree: Tree<'_>,
    count: usize,
    nodes: &mut [f32],
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<()> {
    /// Nodes of a task, at least.
    const LEAST: usize = 1 << 6;
    let len = node_len(tree.dims.len());
    if len == 0 {
        return Ok(());
    }
    let mut below: Range<usize> = 0..0;
    for level in 0..tree.shape.height() {
        let here = below.end..below.end + tree.shape.levels[level] as usize;
        let (before, rest) = nodes.split_at_mut(here.start * len);
        let children = match level {
            0 => Children::Panels(tree, count),
            _ => Children::Nodes(&before[below.start * len..]),
        };
        let threads = threads_for(threads, here.len() * len);
        let share = steps_per_task(threads, here.len(), LEAST);
        let own = rest[..here.len() * len].chunks_mut(share * len).enumerate();
        for_each(threads, own.collect(), |(task, nodes): (usize, &mut [f32])| {
            cancel.check()?;
            for (at, node) in (task * share..).zip(nodes.chunks_exact_mut(len)) {
                fill_node(children, at, node);
            }
            Ok(())
        })?;
        below = here;
    }
    Ok(())
}

/// The boxes that the nodes of a level are made of.
#[derive(Clone, Copy)]
enum Children<'a> {
    /// The panels of a tree, and the number of its points.
    Panels(Tree<'a>, usize),
    /// The nodes of the level below.
    Nodes(&'a [f32]),
}

/// Writes the boxes of a level's node number `at`.
fn fill_node(children: Children<'_>, at: usize, node: &mut [f32]) {
    let len = node.len();
    for child in 0..FANOUT {
        let place = at * FANOUT + child;
        for (k, own) in node.chunks_exact_mut(ENDS).enumerate() {
            [own[child], own[FANOUT + child]] = match children {
                Children::Panels(tree, count) if place < tree.shape.panels as usize => {
                    let lanes = (count - place * PANEL).min(PANEL);
                    let start = (place * tree.dimensions + tree.dims[k]) * PANEL;
                    ends(&tree.panels[start..start + lanes])
                }
                Children::Nodes(nodes) if place < nodes.len() / len => {
                    let own = &nodes[place * len + k * ENDS..][..ENDS];
                    [least(&own[..FANOUT]), least(&own[FANOUT..])]
                }
                // No point has this box in reach.
                _ => [f32::INFINITY; 2],
            };
        }
    }
}

fn least(values: &[f32]) -> f32 {
    values.iter().copied().fold(f32::INFINITY, f32::min)
}

/// The least value, and the greatest one negated.
fn ends(values: &[f32]) -> [f32; 2] {
    [least(values), values.iter().fold(f32::INFINITY, |least, value| least.min(-value))]
}
