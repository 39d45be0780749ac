//! The way of a point through a tree of boxes.

use super::boxes::{BOX_DIMS, FANOUT, PANEL, Tree, node_len};
use crate::simd::{Floats, Simd, kernels};
use crate::vector::bounds::DistanceLimits;

/// Points of a panel that may be partners.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PanelHit {
    pub panel: u32,
    /// 0, or so many panels from this one on have partners alone.
    pub whole: u32,
    /// The points of the panel that are not too far, a bit for each place.
    pub near: u16,
    /// The points of the panel that certainly are partners, likewise.
    pub sure: u16,
}

/// Nodes that wait, as level and place.
const STACK: usize = 8 * FANOUT + 8;

/// A visit on its way.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    stack: [(u8, u32); STACK],
    waiting: usize,
    /// The last panel that matters.
    last: u32,
    /// Whether boxes of partners alone are hits.
    finds_whole: bool,
    /// Nodes and panels looked at.
    pub nodes: u64,
    pub panels: u64,
}

impl Visit {
    /// Begins at the top; panels after `last` do not matter. `finds_whole`: boxes of partners alone are hits,
    /// where they bound all dimensions.
    pub(super) fn new(tree: &Tree<'_>, last: u32, finds_whole: bool) -> Self {
        let height = tree.shape.height();
        let mut stack = [(0, 0); STACK];
        stack[0] = (height.saturating_sub(1) as u8, 0);
        let finds_whole = finds_whole && tree.dims.len() == tree.dimensions;
        Self { stack, waiting: usize::from(height > 0), last, finds_whole, nodes: 0, panels: 0 }
    }

    pub(super) fn is_over(&self) -> bool {
        self.waiting == 0
    }
}

/// Hits after which a visit pauses, at most, and one node's more.
pub(super) const PAUSE: usize = 1 << 10;

kernels! {
    /// Goes on with a visit of `point` until it is over or has [`PAUSE`] hits.
    pub(super) fn visit[F: Floats, const BOXES: usize](
        tree: &Tree<'_>,
        point: &[f32],
        limits: DistanceLimits,
        visit: &mut Visit,
        hits: &mut Vec<PanelHit>,
    ) {
        let d = tree.dimensions;
        let (q, len) = (tree.dims.len(), node_len(tree.dims.len()));
        let q = if BOXES == 0 { q } else { BOXES };
        assert!(point.len() == d && tree.dims.len() == q && q <= BOX_DIMS);
        assert!(tree.nodes.len() >= tree.shape.nodes() * len);
        assert!(tree.panels.len() >= tree.shape.panels as usize * d * PANEL);
        // The first node of each level.
        let mut firsts = [0_u32; 9];
        for level in 0..8 {
            firsts[level + 1] = firsts[level] + tree.shape.levels[level];
        }
        // SAFETY: the caller promises the instructions of the form; the assertions above cover every
        // place that is read: a stacked node lies in the shape, and a panel is checked against it.
        unsafe {
            let mut own = [F::splat(0.0); BOX_DIMS];
            for k in 0..q {
                own[k] = F::splat(point[tree.dims[k]]);
            }
            let zero = F::splat(0.0);
            let (reject, accept) = (F::splat(limits.reject), F::splat(limits.accept));
            while visit.waiting > 0 && hits.len() < PAUSE {
                visit.waiting -= 1;
                let (level, place) = visit.stack[visit.waiting];
                let level = level as usize;
                debug_assert!(place < tree.shape.levels[level]);
                let node = tree.nodes.as_ptr().add((firsts[level] + place) as usize * len);
                let mut sum = zero;
                for k in 0..q {
                    let below = F::sub(F::load(node.add(k * 2 * FANOUT)), own[k]);
                    let above = F::add(F::load(node.add((2 * k + 1) * FANOUT)), own[k]);
                    let gap = F::max(F::max(below, above), zero);
                    sum = F::add_product(sum, gap, gap);
                }
                visit.nodes += 1;
                let mut open = !F::less(reject, sum);
                let children = match level {
                    0 => tree.shape.panels,
                    _ => tree.shape.levels[level - 1],
                };
                let first = place * FANOUT as u32;
                // Of the last panel's level, the last child that matters.
                let last = (visit.last >> (4 * level)).min(children - 1);
                if first + 15 > last {
                    open &= if first > last { 0 } else { u16::MAX >> (15 - (last - first)) };
                }
                if visit.finds_whole && open != 0 {
                    // What no point of a box is farther than; rounded as distances of points are. Of no box it
                    // is infinite.
                    let mut sum = zero;
                    for k in 0..q {
                        let above = F::sub(own[k], F::load(node.add(k * 2 * FANOUT)));
                        let below = F::sub(zero, F::add(F::load(node.add((2 * k + 1) * FANOUT)), own[k]));
                        let most = F::max(above, below);
                        sum = F::add_product(sum, most, most);
                    }
                    let mut whole = F::less(sum, accept) & open;
                    open &= !whole;
                    while whole != 0 {
                        let child = first + whole.trailing_zeros();
                        whole &= whole - 1;
                        let panel = child << (4 * level);
                        hits.push(PanelHit { panel, whole: 1 << (4 * level), near: 0, sure: 0 });
                    }
                }
                if level > 0 {
                    while open != 0 {
                        let child = open.trailing_zeros();
                        open &= open - 1;
                        visit.stack[visit.waiting] = (level as u8 - 1, first + child);
                        visit.waiting += 1;
                    }
                    continue;
                }
                while open != 0 {
                    let child = open.trailing_zeros();
                    open &= open - 1;
                    visit.panels += 1;
                    let panel = tree.panels.as_ptr().add((first + child) as usize * d * PANEL);
                    let mut sums = [zero; 2];
                    let mut k = 0;
                    while k + 2 <= d {
                        for i in 0..2 {
                            let gap = F::sub(F::load(panel.add((k + i) * PANEL)), F::splat(*point.get_unchecked(k + i)));
                            sums[i] = F::add_product(sums[i], gap, gap);
                        }
                        k += 2;
                    }
                    if k < d {
                        let gap = F::sub(F::load(panel.add(k * PANEL)), F::splat(*point.get_unchecked(k)));
                        sums[0] = F::add_product(sums[0], gap, gap);
                    }
                    let sum = F::add(sums[0], sums[1]);
                    let near = !F::less(reject, sum);
                    if near != 0 {
                        let sure = F::less(sum, accept);
                        hits.push(PanelHit { panel: first + child, whole: 0, near, sure });
                    }
                }
            }
        }
    }
}

/// Goes on with a visit by the instance of [`visit`] for the number of dimensions of the boxes.
pub(super) fn go_on(
    simd: Simd,
    tree: &Tree<'_>,
    point: &[f32],
    limits: DistanceLimits,
    state: &mut Visit,
    hits: &mut Vec<PanelHit>,
) {
    match tree.dims.len() {
        2 => visit::<2>(simd, tree, point, limits, state, hits),
        3 => visit::<3>(simd, tree, point, limits, state, hits),
        8 => visit::<8>(simd, tree, point, limits, state, hits),
        16 => visit::<16>(simd, tree, point, limits, state, hits),
        _ => visit::<0>(simd, tree, point, limits, state, hits),
    }
}
