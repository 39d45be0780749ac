//! Whether products in `f32` or of bytes decide most pairs of a join.

use std::mem::size_of;

use super::bounds::unit_scale;
use super::bytes::{ByteFrame, MOST_DIMENSIONS, QUAD, Quantised};
use super::collection::{Run, Vectors};
use super::cost::{all_pairs, byte_cost, decision_cost, least_ratio, pair_cost};
use super::filter::{Filter, ProductBounds, RowBounds, steady};
use super::metric::{Metric, Threshold};
use super::middle::{Middle, is_usual, spread, square_from};
use super::tile::{Element, PANEL, Panels, RowLayout, Rows, products};
use super::width::Vector;
use crate::engine::{ItemId, MatchSpec, Pairing, PrepareContext};
use crate::error::Result;
use crate::simd::Simd;
use crate::util::parallel::map;

/// The form of the numbers by which most pairs are decided.
#[derive(Debug, Clone)]
pub(super) enum NumberForm {
    Floats,
    Bytes {
        frame: ByteFrame,
        /// The time that a pair takes, by that of a product in `f32`.
        ratio: f64,
    },
}

/// The run whose pairs take the most time, thinned.
struct RunSample<'a> {
    vectors: &'a Vectors,
    threshold: Threshold,
    simd: Simd,
    dimensions: u32,
    build: Vec<ItemId>,
    probe: Vec<ItemId>,
}

impl NumberForm {
    /// The choice for a join of a build side with vectors like its own.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of(
        vectors: &Vectors,
        threshold: Threshold,
        spec: &MatchSpec,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        /// Less work than this, in nanoseconds, is not worth a sample.
        const LEAST: f64 = 4e6;
        // Of small sizes, every other join of a few vectors is by bytes.
        let is_tested = spec.tuning.is_small() && vectors.len() < 1 << 15;
        let pays = spec.simd.has_quick_bytes() && all_pairs(vectors, spec) >= LEAST;
        let is_wanted = if is_tested { vectors.len().is_multiple_of(2) } else { pays };
        let fits = vectors.runs().iter().all(|run| run.lens[1] as usize <= MOST_DIMENSIONS);
        if !is_wanted || !fits {
            return Ok(Self::Floats);
        }
        // Pairs that no box leaves out hold all that are near.
        let share = match (spec.pairing(), vectors.boxes()) {
            (Pairing::Unordered, Some(boxes)) => f64::from(boxes.share).clamp(1e-6, 1.0),
            _ => 1.0,
        };
        let widest = vectors.runs().iter().map(|run| run.lens[1]).max().unwrap_or(0);
        let of_bytes = least_ratio(spec.simd, widest).min(1.0);
        let pairs = of_bytes * share * all_pairs(vectors, spec);
        let Some(sample) = RunSample::of(vectors, threshold, spec, pairs) else {
            return Ok(Self::Floats);
        };
        let threads = context.threads.at_most(RunSample::SCALES);
        let mut bytes = threads.count() * sample.bytes();
        if context.reservation.try_grow(bytes).is_err() {
            bytes = sample.bytes();
            if context.reservation.try_grow(bytes).is_err() {
                return Ok(Self::Floats);
            }
        }
        let at_once = (bytes / sample.bytes().max(1)).max(1);
        let best = sample.best(at_once, context);
        let best = best.map(|best| {
            let (frame, undecided) = best?;
            // And they have heads, whatever the vectors.
            let (head, places) = match is_tested && threshold.metric != Metric::InnerProduct {
                true => (ByteFrame::places(sample.dimensions as usize) / 2, f64::INFINITY),
                false => sample.head(&frame, share),
            };
            Some((frame.with_head(head), undecided, places))
        });
        context.reservation.shrink(bytes);
        let Some((frame, undecided, places)) = best? else { return Ok(Self::Floats) };
        let d = sample.dimensions;
        let multiplied = (places * QUAD as f64).min(d.into()) as u32;
        let time = byte_cost(spec.simd, multiplied) + undecided / share * decision_cost(d);
        let ratio = (time / pair_cost(d)).min(1.0);
        Ok(if ratio < 1.0 || is_tested { Self::Bytes { frame, ratio } } else { Self::Floats })
    }

    /// The time that a pair takes, by that of a product in `f32`.
    pub(super) fn ratio(&self) -> f64 {
        match self {
            Self::Floats => 1.0,
            Self::Bytes { ratio, .. } => *ratio,
        }
    }
}

impl<'a> RunSample<'a> {
    /// `pairs` is the time that all pairs may take, in nanoseconds of a core.
    fn of(
        vectors: &'a Vectors,
        threshold: Threshold,
        spec: &MatchSpec,
        pairs: f64,
    ) -> Option<Self> {
        /// The places of what becomes panels, and its vectors, at most; and those that meet them.
        const PLACES: usize = 1 << 16;
        const BUILD: usize = 1 << 10;
        const PROBE: usize = 96;
        /// Nanoseconds to write a number, the part of the join that a sample may take, and the scales that are
        /// tried, about.
        const NUMBER: f64 = 1.0;
        const SHARE: f64 = 0.02;
        const TRIES: f64 = 6.0;
        let work = |run: &Run| pair_cost(run.lens[1]) * (run.items.len() as f64).powi(2);
        let by_work = |a: &&Run, b: &&Run| work(a).total_cmp(&work(b));
        let run = vectors.runs().iter().max_by(by_work)?;
        let is_like =
            |item: &ItemId| vectors.is_vector(*item) && vectors.dimensions(*item) == run.lens[1];
        let thinned =
            |most: usize| spread(run.items.clone(), most).filter(is_like).collect::<Vec<_>>();
        let places = ByteFrame::places(run.lens[1] as usize).max(1);
        let dimensions = f64::from(run.lens[1]);
        let pair = byte_cost(spec.simd, run.lens[1]);
        let fits = |most: usize| {
            let (build, probe) = (most as f64, most.min(PROBE) as f64);
            let one = (build + probe) * dimensions * NUMBER + build * probe * pair;
            TRIES * one <= SHARE * pairs
        };
        let mut most = (PLACES / places).clamp(2 * PANEL, BUILD);
        while most >= 16 * PANEL && !fits(most) {
            most /= 2;
        }
        Some(Self {
            vectors,
            threshold,
            simd: spec.simd,
            dimensions: run.lens[1],
            build: thinned(most),
            probe: thinned(PROBE.min(most)),
        })
    }

    /// A bound on the bytes that [`Self::best`] takes.
    fn bytes(&self) -> usize {
        let d = self.dimensions as usize;
        let (layout, places) = (i32::layout(self.simd), ByteFrame::places(d));
        let (build, probe) = (self.build.len() + PANEL, self.probe.len());
        let numbers = build * places + 2 * layout.len(probe, places);
        let bounds = (build + layout.padded(probe)) * size_of::<ProductBounds<i32>>();
        numbers * size_of::<i32>() + bounds + 4 * d * size_of::<f64>()
    }

    /// Scales that are tried, at most.
    const SCALES: usize = 12;

    /// The frame that leaves the fewest pairs undecided, and their share. `None` where no vector is
    /// usual. `at_once` scales are tried at once, which changes nothing.
    fn best(
        &self,
        at_once: usize,
        context: PrepareContext<'_>,
    ) -> Result<Option<(ByteFrame, f64)>> {
        /// Scales are tried in steps of this factor, for as long as they do not get worse.
        const STEP: f64 = std::f64::consts::SQRT_2;
        // So few that their time does not matter.
        let few = 0.03 * byte_cost(self.simd, self.dimensions) / decision_cost(self.dimensions);
        let mut best: Option<(ByteFrame, f64)> = None;
        let tried = |centre: &[f64], scale: f64, is_fixed: bool| -> Result<(ByteFrame, f64)> {
            context.cancel.check()?;
            let frame = self.frame(centre, scale, is_fixed);
            let undecided = self.undecided(&frame);
            Ok((frame, undecided))
        };
        // Whether a frame is no worse than the best one, and leaves more than a few.
        let mut take = |(frame, undecided): (ByteFrame, f64)| {
            let least = best.as_ref().map_or(f64::INFINITY, |(_, least)| *least);
            if undecided < least {
                best = Some((frame, undecided));
            }
            undecided <= least && undecided > few
        };
        let Some((centre, greatest)) = self.middle(context)? else { return Ok(None) };
        let first = ByteFrame::scale_for(greatest);
        let scales: Vec<f64> = std::iter::successors(Some(first), |scale| Some(scale * STEP))
            .take(Self::SCALES)
            .collect();
        'scales: for some in scales.chunks(at_once) {
            let frames = map(context.threads.at_most(at_once), some.to_vec(), |scale| {
                tried(&centre, scale, false)
            })?;
            for frame in frames {
                if !take(frame) {
                    break 'scales;
                }
            }
        }
        if self.is_whole() {
            // Integers stay exact.
            let centre: Vec<f64> = centre.iter().map(|c| c.round()).collect();
            take(tried(&centre, 1.0, true)?);
        }
        Ok(best)
    }

    /// The vectors that are usual, and what they are divided by before they are moved; for products, as
    /// if each were a panel.
    fn vectors(&self) -> impl Iterator<Item = (Vector<'a>, f64)> {
        let metric = self.threshold.metric;
        let vectors = self.build.iter().map(|&item| self.vectors.vector(item));
        vectors.filter(|vector| is_usual(*vector)).filter_map(move |vector| {
            let divisor = match metric {
                Metric::InnerProduct => Some(1.0 / unit_scale(std::iter::once(vector))),
                _ => ByteFrame::divisor(metric, vector),
            };
            divisor.map(|divisor| (vector, divisor))
        })
    }

    /// Where most of them lie: their mean, none for products; and the greatest absolute value of a
    /// coordinate of a vector that is not far from it.
    fn middle(&self, context: PrepareContext<'_>) -> Result<Option<(Vec<f64>, f64)>> {
        let (d, metric) = (self.dimensions as usize, self.threshold.metric);
        let (centre, limit) = match metric {
            // Of vectors of one length none is far.
            Metric::InnerProduct => (vec![], f64::INFINITY),
            Metric::Cosine => {
                let (mut centre, mut count) = (vec![0.0; d], 0.0);
                for (vector, divisor) in self.vectors() {
                    centre.iter_mut().zip(vector).for_each(|(sum, v)| *sum += v / divisor);
                    count += 1.0;
                }
                let mean = |sum: f64| Some(sum / count).filter(|mean| mean.is_finite());
                (centre.into_iter().map(|sum| mean(sum).unwrap_or(0.0)).collect(), f64::INFINITY)
            }
            Metric::Euclidean => {
                let vectors = self.vectors().map(|(vector, _)| vector);
                let Middle { centre, limit, .. } = Middle::of(vectors, true, context.cancel)?;
                (centre, limit)
            }
        };
        let square = limit * limit;
        let is_near = |(vector, _): &(Vector<'_>, f64)| {
            metric != Metric::Euclidean || square_from(*vector, &centre) <= square
        };
        let moved = |(vector, divisor): (Vector<'_>, f64)| {
            let centres = centre.iter().copied().chain(std::iter::repeat(0.0));
            vector.iter().zip(centres).map(|(v, c)| (v / divisor - c).abs()).fold(0.0, f64::max)
        };
        let greatest = self.vectors().filter(is_near).map(moved).reduce(f64::max);
        Ok(greatest.map(|greatest| (centre, greatest)))
    }

    fn is_whole(&self) -> bool {
        let is_whole = |v: f64| v.fract() == 0.0 && v.abs() < 1e6;
        self.threshold.metric != Metric::Cosine
            && self.vectors().all(|(vector, _)| vector.iter().all(is_whole))
    }

    /// The frame of this centre and scale.
    fn frame(&self, centre: &[f64], scale: f64, is_fixed: bool) -> ByteFrame {
        let frame = |ratio| {
            let frame = ByteFrame::new(self.simd, self.threshold, centre.to_vec(), scale, ratio);
            if is_fixed { frame.fixed() } else { frame }
        };
        let first = frame(1.0);
        if self.threshold.metric != Metric::InnerProduct {
            return first;
        }
        let (mut square, mut off) = (0.0, 0.0);
        for (vector, _) in self.vectors() {
            let scale = first.panel_scale(std::iter::once(vector));
            if let Quantised::Usual(sums) = first.quantise(vector, scale, 0, std::iter::empty()) {
                square += sums.square;
                off += sums.all_off * sums.all_off;
            }
        }
        frame((square / off).sqrt())
    }

    /// The number of first places of vectors by which tiles are rejected, 0 where that does not pay, and the
    /// number of places that are multiplied on average then. `share` bounds the share of tiles that are compared,
    /// the tiles of neighbours among them.
    fn head(&self, frame: &ByteFrame, share: f64) -> (usize, f64) {
        const ROWS: usize = RowLayout::LANES.unit;
        const VECTORS: usize = 2 * PANEL;
        /// Vectors of fewer places are multiplied as they are.
        const LEAST: usize = 24;
        /// Places that are multiplied in the time that a look at the products takes.
        const LOOK: f64 = 4.0;
        /// The part of all places that is worth it.
        const MOST: f64 = 0.85;
        let places = ByteFrame::places(self.dimensions as usize);
        let all = (0, places as f64);
        let (rows, count) = (self.probe.len() / ROWS * ROWS, self.build.len() / VECTORS * VECTORS);
        if self.threshold.metric == Metric::InnerProduct
            || i32::layout(self.simd) != RowLayout::LANES
        {
            return all;
        }
        if places < LEAST || rows == 0 || count == 0 {
            return all;
        }
        let (stride, scale) = (places * PANEL, frame.scale());
        let mut numbers = vec![0; count * places];
        let mut of_vectors = vec![i32::NEVER; count];
        for (place, &item) in self.build[..count].iter().enumerate() {
            let panel = &mut numbers[place / PANEL * stride..][..stride];
            let to = panel.iter_mut().skip(place % PANEL).step_by(PANEL);
            of_vectors[place] = frame.build(self.vectors, item, scale, to).reject;
        }
        let mut of_rows = vec![0; rows * places];
        let mut reject = vec![i32::NEVER; rows];
        for (row, &item) in self.probe[..rows].iter().enumerate() {
            let to = of_rows[row * places..][..places].iter_mut();
            let bounds = frame.probe(self.vectors, item, to);
            reject[row] = ByteFrame::bounds_at(bounds, scale).reject;
        }
        let mut best = all;
        for part in 1..=12 {
            let head = places * part / 16;
            let mut packed = vec![0; RowLayout::LANES.len(rows, head)];
            let mut bounds = vec![0; rows];
            for (row, own) in of_rows.chunks_exact(places).enumerate() {
                let to = RowLayout::LANES.row(&mut packed, row, head);
                to.zip(own).for_each(|(to, own)| *to = *own);
                bounds[row] = i32::head_of_row(reject[row], own[head..].iter().copied());
            }
            let heads = of_vectors.iter().enumerate().map(|(place, &reject)| {
                let panel = &numbers[place / PANEL * stride..][..stride];
                let own = panel.iter().skip(place % PANEL).step_by(PANEL);
                i32::head_of_vector(reject, own.skip(head).copied())
            });
            let heads: Vec<i32> = heads.collect();
            let of_head = Rows { places: head, numbers: &packed, reject: &bounds };
            let of_panels = Panels { numbers: &numbers, stride, step: 1, reject: &heads };
            let mut is_open = vec![false; rows / ROWS * (count / VECTORS)];
            products(self.simd, of_head, of_panels, count / PANEL, |row, place, _| {
                if self.probe[row] != self.build[place] {
                    is_open[row / ROWS * (count / VECTORS) + place / VECTORS] = true;
                }
            });
            let open = is_open.iter().filter(|open| **open).count() as f64 / is_open.len() as f64;
            let multiplied = head as f64 + LOOK + (open / share).min(1.0) * (places - head) as f64;
            if multiplied < best.1.min(MOST * places as f64) {
                best = (head, multiplied);
            }
        }
        best
    }

    /// The share of the pairs of both samples that products leave undecided.
    fn undecided(&self, frame: &ByteFrame) -> f64 {
        let places = ByteFrame::places(self.dimensions as usize);
        let panels = self.build.len().div_ceil(PANEL);
        let stride = places * PANEL;
        let mut numbers = vec![0; panels * stride];
        let never = ProductBounds { reject: i32::NEVER, accept: i32::UNSURE };
        let mut accept = vec![i32::UNSURE; panels * PANEL];
        let mut reject = vec![i32::NEVER; panels * PANEL];
        let mut scales = Vec::with_capacity(panels);
        let vector = |item: &ItemId| self.vectors.vector(*item);
        for (panel, items) in self.build.chunks(PANEL).enumerate() {
            let scale = frame.panel_scale(items.iter().map(vector));
            let scale = steady(scales.last().copied(), scale);
            scales.push(scale);
            for (lane, &item) in items.iter().enumerate() {
                let to = numbers[panel * stride..][..stride].iter_mut().skip(lane).step_by(PANEL);
                let place = panel * PANEL + lane;
                ProductBounds { reject: reject[place], accept: accept[place] } =
                    frame.build(self.vectors, item, scale, to);
            }
        }
        let (layout, probes) = (i32::layout(self.simd), self.probe.len());
        let mut of_rows = vec![0; layout.len(probes, places)];
        let mut bounds = vec![RowBounds::Fixed(never); layout.padded(probes)];
        for (row, &item) in self.probe.iter().enumerate() {
            let to = layout.row(&mut of_rows, row, places);
            bounds[row] = frame.probe(self.vectors, item, to);
        }
        let mut undecided = 0_u64;
        let mut panel = 0;
        // Panels of one scale at once.
        for alike in scales.chunk_by(|a, b| a == b) {
            let (first, scale) = (panel, alike[0]);
            panel += alike.len();
            let at: Vec<ProductBounds<i32>> =
                bounds.iter().map(|row| ByteFrame::bounds_at(*row, scale)).collect();
            let row_reject: Vec<i32> = at.iter().map(|bounds| bounds.reject).collect();
            let of_rows = Rows { places, numbers: &of_rows, reject: &row_reject };
            let (numbers, reject) = (&numbers[first * stride..], &reject[first * PANEL..]);
            let of_panels = Panels { numbers, stride, step: 1, reject };
            products(self.simd, of_rows, of_panels, alike.len(), |row, place, product| {
                let place = first * PANEL + place;
                let pair = [self.probe.get(row), self.build.get(place)];
                let is_open = !i32::is_accepted(product, [at[row].accept, accept[place]]);
                let is_pair = pair[0].is_some() && pair[1].is_some() && pair[0] != pair[1];
                undecided += u64::from(is_open && is_pair);
            });
        }
        undecided as f64 / (self.build.len() * self.probe.len()).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use crate::tuning::Tuning;
    use crate::util::parallel::Threads;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::memory::Budget;
    use crate::util::cancel::CancelFlag;
    use crate::vector::collection::{Content, ReadRow, ReadRows};

    fn spec() -> MatchSpec {
        MatchSpec {
            candidate_chunk: 1024,
            match_buffer: 1024,
            tuning: Tuning::small(),
            ..MatchSpec::default()
        }
    }

    /// Vectors around some centres, or uniform, of so many dimensions.
    fn vectors(d: usize, centres: usize) -> Vectors {
        let mut rng = StdRng::seed_from_u64(31);
        let centres: Vec<Vec<f64>> =
            (0..centres).map(|_| (0..d).map(|_| rng.random_range(-1.0..1.0)).collect()).collect();
        let mut read = ReadRows::default();
        for row in 0..4000 {
            let (start, len) = (read.numbers.len(), d as u32);
            read.rows.push(ReadRow { row, key: 0, content: Content::Vector, len, start });
            let centre = &centres[rng.random_range(0..centres.len())];
            read.numbers.extend(centre.iter().map(|c| c + rng.random_range(-0.1..0.1)));
        }
        Vectors::of(vec![read], &CancelFlag::default()).unwrap()
    }

    /// However many scales are tried at once, the same one is taken.
    #[test]
    fn scales_tried_at_once_give_the_same_frame() {
        let pool = Budget::unlimited();
        let reservation = pool.reservation();
        let cancel = CancelFlag::default();
        for (round, metric) in Metric::ALL.into_iter().cycle().take(6).enumerate() {
            let vectors = vectors([24, 130][round / 3], 40);
            let bound = if metric == Metric::InnerProduct { 5.0 } else { 0.3 };
            let threshold = Threshold::new(metric, bound);
            let sample = RunSample::of(&vectors, threshold, &spec(), f64::INFINITY).unwrap();
            let best = |at_once: usize| {
                let (reservation, cancel) = (&reservation, &cancel);
                let context = PrepareContext::new(reservation, cancel, Threads::small(at_once));
                let best = sample.best(at_once, context).unwrap();
                assert!(best.is_some());
                format!("{best:?}")
            };
            let one = best(1);
            assert_eq!([best(2), best(5), best(12)], [0; 3].map(|_| one.clone()));
        }
    }

    /// The first places tell most pairs of vectors in many clusters apart. They tell none apart within long distances,
    /// and are not looked at where there are few places.
    #[test]
    fn heads_are_taken_where_they_reject_most_tiles() {
        let spec = spec();
        let head = |d, bound, share| {
            let vectors = vectors(d, 2000);
            let threshold = Threshold::new(Metric::Euclidean, bound);
            let sample = RunSample::of(&vectors, threshold, &spec, f64::INFINITY).unwrap();
            let (centre, scale) = (vec![0.0; d], ByteFrame::scale_for(1.1));
            sample.head(&sample.frame(&centre, scale, false), share)
        };
        // A matrix unit multiplies all places.
        if i32::layout(spec.simd) != RowLayout::LANES {
            return;
        }
        let (first, multiplied) = head(256, 1.0, 1.0);
        assert!((1..=16).contains(&first) && multiplied < 32.0, "{first} {multiplied}");
        // Those of neighbours are all that are compared.
        assert_eq!(head(256, 1.0, 1e-6), (0, 64.0));
        assert_eq!(head(256, 20.0, 1.0), (0, 64.0));
        assert_eq!(head(64, 1.0, 1.0), (0, 16.0));
    }
}
