//! The savings of an index, by a sample of its probes.

use std::sync::Arc;

use datafusion::common::Result;

use super::boxes::PANEL;
use super::built::{VectorIndex, best_dims};
use super::order::Order;
use super::visit::{Visit, go_on};
use crate::engine::{ItemId, MatchNeed, MatchSpec, Pairing, PrepareContext};
use crate::util::cancel::CancelFlag;
use crate::util::evenly::Evenly;
use crate::vector::bounds::{Frame, Rounded};
use crate::vector::collection::Vectors;
use crate::vector::metric::Threshold;
use crate::vector::middle::spread;

/// An index that pays, with the figures of a probe's way through it.
#[derive(Debug)]
pub(in crate::vector) struct Sampled {
    pub index: Arc<VectorIndex>,
    /// The time that all probes take, in nanoseconds of a core.
    pub nanos: f64,
}

/// Items that are probed.
const PROBES: u32 = 64;

/// Items of the index by which it is decided whether a whole one is made.
const FIRST: usize = 1 << 12;

/// The time for a node and for a panel, in nanoseconds of a core, and for each of its dimensions:
/// measured on an EPYC (Zen 4) with a million points.
const NODE: [f64; 2] = [15.0, 1.5];
const PANEL_OF: [f64; 2] = [20.0, 2.0];

/// The time to begin a visit.
const VISIT: f64 = 150.0;

/// The time for an item to be ordered, and for each doubling of their number.
const ITEM: [f64; 2] = [100.0, 35.0];

/// The time to make the index of some items.
fn making(items: f64) -> f64 {
    items * (ITEM[0] + ITEM[1] * items.max(1.0).log2())
}

/// The least time that a join through an index takes, with the time to make it, in nanoseconds of a
/// core: each probe meets a panel at least. Of the first index, most time goes into its panels, where it
/// does not pay.
pub(in crate::vector) fn least_of_index(vectors: &Vectors, spec: &MatchSpec) -> f64 {
    /// Nanoseconds for a number of the first index.
    const FIRST_NUMBER: f64 = 4.0;
    let first = FIRST_NUMBER * (FIRST * widest(vectors)) as f64;
    first + making(vectors.len().into()) + visiting(vectors, spec, 1.0, 1.0)
}

fn widest(vectors: &Vectors) -> usize {
    vectors.runs().iter().map(|run| run.lens[1]).max().unwrap_or(0) as usize
}

/// The time of all probes, each of which meets so many nodes and panels.
fn visiting(vectors: &Vectors, spec: &MatchSpec, nodes: f64, panels: f64) -> f64 {
    let dims = widest(vectors) as f64;
    let of_probe = VISIT
        + nodes * (NODE[0] + NODE[1] * dims.min(8.0))
        + panels * (PANEL_OF[0] + PANEL_OF[1] * dims);
    let halves = if spec.pairing() == Pairing::Unordered { 0.5 } else { 1.0 };
    of_probe * halves * vectors.probe_ratio(spec) * f64::from(vectors.len())
}

/// The order of an index that suits the vectors: of few dimensions cells are as good as quantiles, and
/// made sooner.
pub(in crate::vector) fn order_of(vectors: &Vectors) -> Order {
    if widest(vectors) <= 3 { Order::Cells } else { Order::Quantiles }
}

/// Makes the index of `vectors`, where it is worth that: `pairs` is the time to compare all pairs.
/// `None` where comparing them is quicker, or memory is short.
///
/// # Errors
///
/// When the work is cancelled.
pub(in crate::vector) fn sample(
    vectors: &Arc<Vectors>,
    threshold: Threshold,
    spec: &MatchSpec,
    pairs: f64,
    context: PrepareContext<'_>,
) -> Result<Option<Sampled>> {
    /// The greatest share of the panels of the first index that a probe may meet.
    const MOST_SHARE: f64 = 0.3;
    /// Estimates are off by less.
    const OFF: f64 = 2.0;
    let count = vectors.len() as usize;
    let order = order_of(vectors);
    if pairs < 4.0 * making(count as f64) {
        return Ok(None);
    }
    // Panels that probes meet in the time of all pairs.
    let [least, of_one] = [0.0, 1.0].map(|panels| visiting(vectors, spec, 0.0, panels));
    let panels = OFF * (pairs - least).max(0.0) / (of_one - least);
    let most_share = (panels * PANEL as f64 / count as f64).min(MOST_SHARE);
    if is_hopeless(vectors, threshold, most_share, context.cancel)? {
        return Ok(None);
    }
    let Ok(frame) = Frame::of(vectors, threshold, context.cancel) else {
        context.cancel.check()?;
        return Ok(None);
    };
    let first = |step: usize, frame: Frame| {
        VectorIndex::of(Arc::clone(vectors), frame, order, step, context)
    };
    if count > 2 * FIRST {
        let Ok(some) = first(count / FIRST, frame.clone()) else {
            context.cancel.check()?;
            return Ok(None);
        };
        // A whole index has narrower panels, of which a probe meets no fewer.
        let most = panels.min(MOST_SHARE * (FIRST / PANEL) as f64);
        let (_, panels) = visits(&some, spec, most);
        context.reservation.shrink(some.bytes);
        if panels > most {
            return Ok(None);
        }
    }
    let Ok(index) = first(1, frame) else {
        context.cancel.check()?;
        return Ok(None);
    };
    let (nodes, panels) = visits(&index, spec, f64::INFINITY);
    let nanos = visiting(vectors, spec, nodes, panels);
    if nanos >= pairs {
        context.reservation.shrink(index.bytes);
        return Ok(None);
    }
    Ok(Some(Sampled { index: Arc::new(index), nanos }))
}

/// Whether more than a share of the vectors lie within reach of a probe in the dimensions of boxes alone, as a
/// sample has it: each lies in a panel that the probe would meet.
fn is_hopeless(
    vectors: &Vectors,
    threshold: Threshold,
    most_share: f64,
    cancel: &CancelFlag,
) -> Result<bool> {
    const POINTS: usize = 256;
    /// Longer vectors are not looked at here.
    const MOST_DIMENSIONS: usize = 1 << 10;
    let [run] = vectors.runs() else { return Ok(false) };
    let d = run.lens[0] as usize;
    if d == 0 || d > MOST_DIMENSIONS || run.lens[1] as usize != d {
        return Ok(false);
    }
    let some: Vec<ItemId> = spread(run.items.clone(), POINTS).collect();
    let frame = Frame::of_vectors(threshold, some.iter().map(|&i| vectors.vector(i)), cancel)?;
    let Some(limits) = frame.limits(d, [0.0; 2], 0.0) else { return Ok(false) };
    let mut points = vec![];
    for item in some {
        let start = points.len();
        points.resize(start + d, 0.0_f32);
        let rounded = frame.point(vectors, item, points[start..].iter_mut());
        if !matches!(rounded, Rounded::Usual { .. }) {
            points.truncate(start);
        }
    }
    let dims = best_dims(&points, d);
    let points: Vec<&[f32]> = points.chunks_exact(d).collect();
    let (mut near, mut all) = (0_u32, 0_u32);
    for (place, probe) in points.iter().enumerate().step_by(POINTS / PROBES as usize) {
        for (_, point) in points.iter().enumerate().filter(|(other, _)| *other != place) {
            let squares = dims.iter().map(|&dim| (point[dim] - probe[dim]).powi(2));
            near += u32::from(squares.sum::<f32>() <= limits.reject);
            all += 1;
        }
    }
    Ok(f64::from(near) > most_share * f64::from(all))
}

/// The nodes and the panels that a probe meets, on average. Probes are left out once the others have
/// met so many panels that there are more than `most` in any case.
fn visits(index: &VectorIndex, spec: &MatchSpec, most: f64) -> (f64, f64) {
    let vectors = &index.vectors;
    let (mut nodes, mut panels, mut probes) = (0, 0, 0.0);
    let (mut point, mut hits) = (vec![], vec![]);
    // Not those that a thinned index has.
    let items = Evenly::new(vectors.len(), PROBES).iter();
    let most = most * items.len() as f64;
    for item in items {
        if panels as f64 > most {
            break;
        }
        let Some(run) = vectors.run_of(item) else { continue };
        probes += 1.0;
        point.clear();
        point.resize(vectors.dimensions(item) as usize, 0.0);
        let rounded = index.frame.point(vectors, item, point.iter_mut());
        let partners = index.partners(run, rounded, None);
        let Some((placed, limits)) = partners.tree else {
            panels += partners.others.len() as u64;
            continue;
        };
        let mut visit = Visit::new(&placed.tree(), u32::MAX, spec.need == MatchNeed::Count);
        while !visit.is_over() {
            hits.clear();
            go_on(spec.simd, &placed.tree(), &point, limits, &mut visit, &mut hits);
        }
        nodes += visit.nodes;
        // Those that only the function decides take as long as a panel.
        panels += visit.panels + partners.others.len() as u64;
    }
    let probes = f64::max(probes, 1.0);
    (nodes as f64 / probes, panels as f64 / probes)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::vector::collection::{Content, ReadRow, ReadRows};
    use crate::vector::metric::Metric;

    /// Vectors that are uniform in `wide` of 50 dimensions, and vary little in the others.
    fn vectors(wide: usize) -> Vectors {
        let mut rng = StdRng::seed_from_u64(27);
        let mut read = ReadRows::default();
        for row in 0..2000 {
            let (start, len) = (read.numbers.len(), 50);
            read.rows.push(ReadRow { row, key: 0, content: Content::Vector, len, start });
            let of_dim = |dim| if dim < wide { 1.0 } else { 0.01 };
            read.numbers.extend((0..50).map(|dim| of_dim(dim) * rng.random_range(0.0..1.0)));
        }
        Vectors::of(vec![read], &CancelFlag::default()).unwrap()
    }

    /// A radius that boxes in eight of fifty dimensions cannot tell from all makes no index; a small one,
    /// or few dimensions that matter, may.
    #[test]
    fn no_index_is_tried_where_most_are_within_reach_in_its_dimensions() {
        let is_hopeless = |wide, bound| {
            let vectors = vectors(wide);
            let threshold = Threshold { metric: Metric::Euclidean, bound };
            is_hopeless(&vectors, threshold, 0.3, &CancelFlag::default()).unwrap()
        };
        assert!(is_hopeless(50, 1.8));
        assert!(!is_hopeless(50, 0.2));
        assert!(!is_hopeless(3, 0.2));
        assert!(is_hopeless(3, 1.0));
        assert!(!is_hopeless(50, -1.0) && !is_hopeless(50, 0.0));
    }
}
