//! The savings of an index, by a sample of its probes.

use std::sync::Arc;

use parking_lot::Mutex;

use super::boxes::PANEL;
use super::built::{VectorIndex, best_dims};
use super::images::{Axes, MOST_PLAIN};
use super::visit::{PanelHit, Visit, go_on};
use crate::engine::{ItemId, MatchNeed, MatchSpec, Pairing, PrepareContext};
use crate::error::Result;
use crate::memory::Reservation;
use crate::simd::Simd;
use crate::util::evenly::Evenly;
use crate::vector::bounds::{Frame, Rounded};
use crate::vector::boxes::LANES;
use crate::vector::collection::Vectors;
use crate::vector::metric::Threshold;
use crate::vector::middle::spread;

/// An index that pays, with the figures of a probe's way through it.
#[derive(Debug)]
pub(in crate::vector) struct SampledIndex {
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

/// The time for a panel of images, and for each coordinate: a panel is never longer than 1 KiB.
const PANEL_OF_IMAGES: [f64; 2] = [20.0, 1.0];

/// The time for each dimension of a point, to be rounded and to become an image.
const IMAGE: f64 = 2.2;

/// The time to decide a pair that images leave open, and for each dimension.
const OPEN: [f64; 2] = [100.0, 0.3];

/// The time for an item to be ordered, and for each doubling of their number.
const ITEM: [f64; 2] = [100.0, 35.0];

/// The time to make the index of some items of `d` dimensions.
fn making(items: f64, d: usize) -> f64 {
    items * (ITEM[0] + ITEM[1] * items.max(1.0).log2() + time_of_image(d))
}

/// The time for the image of a point of `d` dimensions, if it has one.
fn time_of_image(d: usize) -> f64 {
    if d > MOST_PLAIN { IMAGE * d as f64 } else { 0.0 }
}

/// The nodes, panels and pairs that a probe meets on its way, on average.
#[derive(Debug, Clone, Copy, Default)]
struct ProbeCosts {
    nodes: f64,
    panels: f64,
    /// Pairs that images leave open.
    open: f64,
}

/// A lower bound on the time of a join through an index, with the time to make it, in nanoseconds of a
/// core: each probe meets a panel at least. A first index that does not pay takes most of its time for its
/// panels.
pub(in crate::vector) fn least_of_index(vectors: &Vectors, spec: &MatchSpec) -> f64 {
    /// Nanoseconds for a number of the first index.
    const FIRST_NUMBER: f64 = 4.0;
    let d = widest(vectors);
    let first = FIRST_NUMBER * (FIRST * d) as f64;
    let met = ProbeCosts { nodes: 1.0, panels: 1.0, open: 0.0 };
    first + making(vectors.len().into(), d) + visiting(vectors, spec, met)
}

fn widest(vectors: &Vectors) -> usize {
    vectors.runs().iter().map(|run| run.lens[1]).max().unwrap_or(0) as usize
}

/// The time of all probes, each of which meets so much.
fn visiting(vectors: &Vectors, spec: &MatchSpec, met: ProbeCosts) -> f64 {
    let ProbeCosts { nodes, panels, open } = met;
    let d = widest(vectors);
    let width = d.min(MOST_PLAIN) as f64;
    let (of_boxes, of_panel) =
        if d > MOST_PLAIN { (width, PANEL_OF_IMAGES) } else { (width.min(8.0), PANEL_OF) };
    let of_probe = VISIT
        + time_of_image(d)
        + nodes * (NODE[0] + NODE[1] * of_boxes)
        + panels * (of_panel[0] + of_panel[1] * width)
        + open * (OPEN[0] + OPEN[1] * d as f64);
    let halves = if spec.pairing() == Pairing::Unordered { 0.5 } else { 1.0 };
    of_probe * halves * vectors.probe_ratio(spec) * f64::from(vectors.len())
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
) -> Result<Option<SampledIndex>> {
    /// The greatest share of the panels of the first index that a probe may meet.
    const MOST_SHARE: f64 = 0.3;
    /// Estimates are off by less.
    const OFF: f64 = 2.0;
    let (count, d) = (vectors.len() as usize, widest(vectors));
    if let Some(index) = KeptIndex::of(vectors, context) {
        let frame = index.frame.within(threshold);
        let nanos = visiting(vectors, spec, visits(&index, &frame, spec, f64::INFINITY));
        return Ok((nanos < pairs).then_some(SampledIndex { index, nanos }));
    }
    if pairs < 4.0 * making(count as f64, d) {
        return Ok(None);
    }
    // Panels that probes meet in the time of all pairs.
    let [least, of_one] = [0.0, 1.0]
        .map(|panels| visiting(vectors, spec, ProbeCosts { panels, ..ProbeCosts::default() }));
    let panels = OFF * (pairs - least).max(0.0) / (of_one - least);
    let most_share = (panels * PANEL as f64 / count as f64).min(MOST_SHARE);
    if is_hopeless(vectors, threshold, (pairs, most_share), context)? {
        return Ok(None);
    }
    let Ok(frame) = Frame::of(vectors, threshold, context.cancel) else {
        context.cancel.check()?;
        return Ok(None);
    };
    let first =
        |step: usize, frame: Frame| VectorIndex::of(Arc::clone(vectors), frame, step, context);
    if count > 2 * FIRST {
        let Ok(some) = first(count / FIRST, frame.clone()) else {
            context.cancel.check()?;
            return Ok(None);
        };
        // A whole index has narrower panels, of which a probe meets no fewer.
        let most = panels.min(MOST_SHARE * (FIRST / PANEL) as f64);
        let step = count / FIRST;
        let met = visits(&some, &some.frame, spec, most);
        context.reservation.shrink(some.bytes);
        // Of the whole index images leave as much of the points open.
        let least = ProbeCosts { open: met.open * step as f64, ..met };
        if met.panels > most || visiting(vectors, spec, least) >= pairs {
            return Ok(None);
        }
    }
    let Ok(index) = first(1, frame) else {
        context.cancel.check()?;
        return Ok(None);
    };
    let nanos = visiting(vectors, spec, visits(&index, &index.frame, spec, f64::INFINITY));
    if nanos >= pairs {
        context.reservation.shrink(index.bytes);
        return Ok(None);
    }
    let index = Arc::new(index);
    KeptIndex::keep(&index, context);
    Ok(Some(SampledIndex { index, nanos }))
}

/// The index of the vectors of a join, for joins by other thresholds.
#[derive(Debug, Default)]
pub(in crate::vector) struct KeptIndex(Mutex<Option<(Arc<VectorIndex>, Reservation)>>);

impl KeptIndex {
    /// The index of these vectors, where a join has left it.
    pub(in crate::vector) fn of(
        vectors: &Arc<Vectors>,
        context: PrepareContext<'_>,
    ) -> Option<Arc<VectorIndex>> {
        let kept = context.kept?.get::<Self>();
        let kept = kept.0.lock();
        let index = kept.as_ref().map(|(index, _)| index);
        index.filter(|index| Arc::ptr_eq(&index.vectors, vectors)).cloned()
    }

    /// Leaves an index to other joins, where there are any, with the memory that it has taken.
    pub(in crate::vector) fn keep(index: &Arc<VectorIndex>, context: PrepareContext<'_>) {
        let Some(kept) = context.kept else { return };
        let memory = context.reservation.new_empty();
        if memory.try_grow(index.bytes).is_ok() {
            context.reservation.shrink(index.bytes);
            *kept.get::<Self>().0.lock() = Some((Arc::clone(index), memory));
        }
    }
}

/// Whether more than a share of the vectors lie within reach of a probe in the dimensions of boxes alone, as a
/// sample has it: each lies in a panel that the probe would meet.
///
/// Points that have images are not looked at where finding their axes is no small part of `pairs`, the time to
/// compare all: an index cannot save much of it.
fn is_hopeless(
    vectors: &Vectors,
    threshold: Threshold,
    (pairs, most_share): (f64, f64),
    context: PrepareContext<'_>,
) -> Result<bool> {
    const POINTS: usize = 256;
    /// Longer points that have no images are not looked at here.
    const MOST_DIMENSIONS: usize = 1 << 10;
    /// Nanoseconds of a thread to find the axes, for a number of the points: others would take as long to be woken. And
    /// the greatest part of the time that all threads take for the pairs.
    const NUMBER: f64 = 75.0;
    const MOST_PART: f64 = 0.03;
    let [run] = vectors.runs() else { return Ok(false) };
    let (d, has_images) = (run.lens[0] as usize, run.lens[0] as usize > MOST_PLAIN);
    if d == 0 || run.lens[1] as usize != d || !has_images && d > MOST_DIMENSIONS {
        return Ok(false);
    }
    let elapsed = pairs / context.threads.count() as f64;
    if has_images && NUMBER * (POINTS * d) as f64 > MOST_PART * elapsed {
        return Ok(true);
    }
    let some: Vec<ItemId> = spread(run.items.clone(), POINTS).collect();
    let of_some = || some.iter().filter(|&&i| vectors.is_vector(i)).map(|&i| vectors.vector(i));
    let frame = Frame::of_vectors(threshold, of_some(), context.cancel)?;
    let Some(mut limits) = frame.limits(d, [0.0; 2], 0.0) else { return Ok(false) };
    let alone = PrepareContext { threads: context.threads.at_most(1), ..context };
    let axes = match has_images {
        true => Some(Axes::of(&of_some().collect::<Vec<_>>(), d, &frame, alone)?),
        false => None,
    };
    let width = axes.as_ref().map_or(d, Axes::width);
    if let Some(axes) = &axes {
        limits = axes.limits(limits, 0.0).unwrap_or(limits);
    }
    let (mut point, mut points) = (vec![0.0_f32; d], vec![]);
    for &item in &some {
        if let Rounded::Usual { .. } = frame.point(vectors, item, point.iter_mut()) {
            match &axes {
                Some(axes) => points.extend(&axes.image(Simd::detect(), &point)[..width]),
                None => points.extend(&point),
            }
        }
    }
    let dims = match axes {
        Some(_) => (0..width).collect(),
        None => best_dims(&points, d),
    };
    let points: Vec<&[f32]> = points.chunks_exact(width).collect();
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

/// Sends some probes through an index. The rest are left out once so many panels have been met that a probe meets
/// more than `most` on average in any case.
fn visits(index: &VectorIndex, frame: &Frame, spec: &MatchSpec, most: f64) -> ProbeCosts {
    let vectors = &index.vectors;
    let (mut nodes, mut panels, mut open, mut probes) = (0, 0, 0, 0.0);
    let (mut point, mut image, mut hits) = (vec![], [0.0; LANES], vec![]);
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
        let rounded = frame.point(vectors, item, point.iter_mut());
        let partners = index.partners(frame, run, rounded, None);
        let Some((placed, limits)) = partners.tree else {
            panels += partners.others.len() as u64;
            continue;
        };
        let mut visit = Visit::new(&placed.tree(), u32::MAX, spec.need == MatchNeed::Count);
        let visitor = placed.visitor(spec.simd, &point, &mut image);
        while !visit.is_over() {
            hits.clear();
            go_on(spec.simd, &placed.tree(), visitor, limits, &mut visit, &mut hits);
            if placed.has_images() {
                open += hits.iter().map(|hit: &PanelHit| hit.near.count_ones()).sum::<u32>();
            }
        }
        nodes += visit.nodes;
        // Those that only the function decides take as long as a panel.
        panels += visit.panels + partners.others.len() as u64;
    }
    let probes = f64::max(probes, 1.0);
    let [nodes, panels] = [nodes, panels].map(|number: u64| number as f64 / probes);
    ProbeCosts { nodes, panels, open: f64::from(open) / probes }
}

#[cfg(test)]
mod tests {
    use crate::util::parallel::Threads;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::memory::Budget;
    use crate::util::cancel::CancelFlag;
    use crate::vector::collection::{Content, ReadRow, ReadRows};
    use crate::vector::index::tests::spec_of;
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

    /// A radius that boxes in sixteen of fifty dimensions cannot tell from all makes no index; a small one,
    /// or few dimensions that matter, may.
    #[test]
    fn no_index_is_tried_where_most_are_within_reach_in_its_dimensions() {
        let pool = Budget::unlimited();
        let reservation = pool.reservation();
        let cancel = CancelFlag::default();
        let in_time = |pairs: f64, wide: usize, bound: f64| {
            let (reservation, cancel) = (&reservation, &cancel);
            let context = PrepareContext::new(reservation, cancel, Threads::small(2));
            let threshold = Threshold::new(Metric::Euclidean, bound);
            is_hopeless(&vectors(wide), threshold, (pairs, 0.3), context).unwrap()
        };
        let is_hopeless = |wide, bound| in_time(1e9, wide, bound);
        assert!(is_hopeless(50, 2.4));
        assert!(!is_hopeless(50, 0.2));
        assert!(!is_hopeless(3, 0.2));
        assert!(is_hopeless(3, 1.0));
        assert!(!is_hopeless(50, -1.0) && !is_hopeless(50, 0.0));
        // Pairs that take less than some thirty times as long as finding axes are compared.
        assert!(in_time(1e6, 3, 0.2));
    }

    /// An index of images is made where vectors vary in few coordinates, and not where they vary in all.
    #[test]
    fn an_index_of_images_pays_where_few_coordinates_vary() {
        let pool = Budget::unlimited();
        let reservation = pool.reservation();
        let cancel = CancelFlag::default();
        let context = PrepareContext::new(&reservation, &cancel, Threads::small(2));
        let spec = spec_of(Simd::detect());
        let sampled = |wide, bound| {
            let threshold = Threshold::new(Metric::Euclidean, bound);
            let vectors = Arc::new(vectors(wide));
            sample(&vectors, threshold, &spec, 2e9, context).unwrap()
        };
        let found = sampled(3, 0.15).unwrap();
        assert!(found.nanos < 2e8, "{}", found.nanos);
        let held = found.index.bytes;
        assert_eq!(reservation.size(), held);
        assert!(sampled(50, 2.4).is_none());
        assert_eq!(reservation.size(), held);
    }
}
