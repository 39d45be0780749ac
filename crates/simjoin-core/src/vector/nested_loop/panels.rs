//! The build side's vectors in panels.

use std::mem::size_of;
use std::sync::Arc;

use crate::engine::{ItemId, PrepareContext};
use crate::error::Result;
use crate::memory::{self, room};
use crate::util::parallel::{for_each, steps_per_task, threads_for};
use crate::vector::aligned::Aligned;
use crate::vector::bounds::{Frame, MOST_DIMENSIONS, SUMS};
use crate::vector::collection::Vectors;
use crate::vector::filter::{Bound, Filter, steady};
use crate::vector::metric::Metric;
use crate::vector::middle::square_from;
use crate::vector::order::Reach;
use crate::vector::tile::{Element, PANEL, Panels};
use crate::vector::width::Vector;

/// The build side's vectors in panels.
#[derive(Debug)]
pub(super) struct BuildPanels<F: Filter> {
    pub vectors: Arc<Vectors>,
    pub filter: F,
    /// The way of vectors to `f32`, where products of the filter's elements may not do.
    pub second: Option<Frame>,
    /// Where each panel begins, and the end of the last.
    starts: Vec<usize>,
    numbers: Aligned<F::Element>,
    reject: Vec<Bound<F>>,
    accept: Vec<Bound<F>>,
    /// Bounds that reject by the first places; none where these are not looked at.
    heads: Vec<Bound<F>>,
    /// By panel, where they differ.
    magnitudes: Vec<Magnitude>,
    /// The boxes of panels, where vectors are ordered.
    pub reach: Option<Reach>,
}

/// The magnitudes of the vectors of a panel for inner products.
#[derive(Debug, Clone, Copy)]
struct Magnitude {
    scale: f64,
    /// No norm is greater.
    norm: f64,
}

/// Vectors are brought near so many items before they are converted.
pub(super) const AHEAD: ItemId = PANEL as ItemId;

pub(super) const MAGNITUDE_BYTES: usize = size_of::<Magnitude>();

/// Panels that are compared at once, and how many.
pub(super) type SomePanels<'a, F> = (Panels<'a, <F as Filter>::Element>, usize);

impl<F: Filter> BuildPanels<F> {
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub(super) fn of(
        vectors: Arc<Vectors>,
        filter: F,
        second: Option<Frame>,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let count = vectors.len() as usize;
        let panels = count.div_ceil(PANEL);
        let items =
            |panel: usize| (panel * PANEL) as ItemId..count.min((panel + 1) * PANEL) as ItemId;
        let width = |panel: usize| {
            let widest = items(panel).map(|item| vectors.dimensions(item)).max();
            F::places(widest.unwrap_or(0) as usize)
        };
        let mut starts = room(context.reservation, panels + 1)?;
        let mut end = 0;
        for panel in 0..panels {
            starts.push(end);
            end += width(panel) * PANEL;
        }
        starts.push(end);
        let bytes = end * size_of::<F::Element>() + Aligned::<F::Element>::MORE_BYTES;
        context.reservation.try_grow(bytes)?;
        let mut numbers = Aligned::filled(F::Element::ZERO, end);
        let copies = |bound: Bound<F>| memory::copies(context.reservation, panels * PANEL, bound);
        let (mut reject, mut accept) = (copies(F::Element::NEVER)?, copies(F::Element::UNSURE)?);
        let head = filter.head();
        let mut heads = if head > 0 { copies(F::Element::NEVER)? } else { vec![] };
        let are_scaled = filter.threshold().metric == Metric::InnerProduct;
        let scaled = if are_scaled { panels } else { 0 };
        let unscaled = Magnitude { scale: 1.0, norm: 0.0 };
        let mut magnitudes = memory::copies(context.reservation, scaled, unscaled)?;
        let scale = filter.panel_scale(std::iter::empty());
        let threads = threads_for(context.threads, end);
        let share = steps_per_task(threads, panels, 16);
        let tasks = magnitudes.chunks_mut(share).enumerate().collect();
        for_each(threads, tasks, |(task, magnitudes): (usize, &mut [Magnitude])| {
            context.cancel.check()?;
            for (panel, magnitude) in (task * share..).zip(magnitudes) {
                let vectors = || items(panel).map(|item| vectors.vector(item));
                *magnitude =
                    Magnitude { scale: filter.panel_scale(vectors()), norm: most_norm(vectors()) };
            }
            Ok(())
        })?;
        let mut last = None;
        for magnitude in &mut magnitudes {
            magnitude.scale = steady(last, magnitude.scale);
            last = Some(magnitude.scale);
        }
        let mut tasks = vec![];
        let mut rest = &mut numbers[..];
        let bounds = reject.chunks_mut(share * PANEL).zip(accept.chunks_mut(share * PANEL));
        let mut of_heads = heads.chunks_mut(share * PANEL);
        for (first, bounds) in (0..panels).step_by(share).zip(bounds) {
            let bounds = (bounds, of_heads.next().unwrap_or_default());
            let last = panels.min(first + share);
            let (own, others) = rest.split_at_mut(starts[last] - starts[first]);
            tasks.push((first..last, own, bounds));
            rest = others;
        }
        for_each(threads, tasks, |(of_task, numbers, ((reject, accept), heads))| {
            let first = of_task.start;
            for panel in of_task {
                context.cancel.check()?;
                let own = &mut numbers[starts[panel] - starts[first]..];
                let scale = magnitudes.get(panel).map_or(scale, |of: &Magnitude| of.scale);
                for (lane, item) in items(panel).enumerate() {
                    vectors.prefetch(item.saturating_add(AHEAD));
                    let places = own.iter_mut().skip(lane).step_by(PANEL);
                    let bounds = filter.build(&vectors, item, scale, places);
                    let place = (panel - first) * PANEL + lane;
                    (reject[place], accept[place]) = (bounds.reject, bounds.accept);
                    if let Some(bound) = heads.get_mut(place) {
                        let end = F::places(vectors.dimensions(item) as usize);
                        let places = own.iter().skip(lane).step_by(PANEL).copied();
                        let tail = places.take(end).skip(head);
                        *bound = F::Element::head_of_vector(bounds.reject, tail);
                    }
                }
            }
            Ok(())
        })?;
        let reach = reach(&vectors, context);
        Ok(Self {
            vectors,
            filter,
            second,
            starts,
            numbers,
            reject,
            accept,
            heads,
            magnitudes,
            reach,
        })
    }

    /// The scale of a panel; 1 where all have one.
    pub(super) fn scale(&self, panel: usize) -> f64 {
        self.magnitudes.get(panel).map_or(1.0, |magnitude| magnitude.scale)
    }

    /// Whether no inner product of a vector of a panel with one whose norm is `norm` at most reaches a
    /// threshold: it is no greater than the product of the norms (Cauchy and Schwarz), but for rounding.
    pub(super) fn is_out_of_reach(&self, panel: usize, norm: f64) -> bool {
        let bound = self.filter.threshold().bound;
        let magnitude = self.magnitudes.get(panel);
        bound > 0.0 && magnitude.is_some_and(|of| of.norm * norm * (1.0 + 2.0 * SUMS) < bound)
    }

    /// A panel and those that follow it with the same stride and scale, `most` at most.
    pub(super) fn panels(&self, panel: usize, most: usize) -> SomePanels<'_, F> {
        let stride = self.starts[panel + 1] - self.starts[panel];
        let scale = self.scale(panel);
        let is_alike = |&next: &usize| {
            self.starts[next + 1] - self.starts[next] == stride && self.scale(next) == scale
        };
        let last = (panel..panel + most).take_while(is_alike).count();
        let numbers = &self.numbers[self.starts[panel]..self.starts[panel + last]];
        let reject = &self.reject[panel * PANEL..(panel + last) * PANEL];
        (Panels { numbers, stride, step: 1, reject }, last)
    }

    /// A panel and the first of some others, where they lie behind it at equal distances and have as many numbers;
    /// `most` at most.
    pub(super) fn spaced(
        &self,
        panel: usize,
        others: impl Iterator<Item = usize>,
        most: usize,
    ) -> SomePanels<'_, F> {
        let len = |panel: usize| self.starts[panel + 1] - self.starts[panel];
        let (mut last, mut count, mut distance) = (panel, 1, None);
        for other in others.take(most.saturating_sub(1)) {
            if other <= last || len(other) != len(panel) {
                break;
            }
            let own = [other - last, self.starts[other] - self.starts[last]];
            if *distance.get_or_insert(own) != own {
                break;
            }
            (last, count) = (other, count + 1);
        }
        let [step, stride] = distance.unwrap_or([1, len(panel)]);
        let numbers = &self.numbers[self.starts[panel]..self.starts[last + 1]];
        let reject = &self.reject[panel * PANEL..(last + 1) * PANEL];
        (Panels { numbers, stride, step, reject }, count)
    }

    /// Bounds that reject pairs of vectors of a panel and of those behind it by their first places.
    pub(super) fn heads(&self, panel: usize) -> &[Bound<F>] {
        self.heads.get(panel * PANEL..).unwrap_or_default()
    }

    /// The bounds that accept the pairs of the sixteen vectors of the panel that begins with an item.
    pub(super) fn accepts(&self, item: ItemId) -> &[Bound<F>] {
        &self.accept[item as usize..][..PANEL]
    }
}

/// A bound on the norms of some vectors, greater than the greatest by little.
pub(super) fn most_norm<'a>(vectors: impl Iterator<Item = Vector<'a>>) -> f64 {
    /// Lesser numbers may have squares that vanish.
    const LEAST: f64 = 1e-140;
    let norm = |vector: Vector<'_>| {
        let square = square_from(vector, &[]);
        // Sums may overflow that functions make of others, or be off by more. Not a number, either.
        let is_usual = square < 1e300 && vector.len() <= MOST_DIMENSIONS;
        if is_usual { square.sqrt() * (1.0 + SUMS) + LEAST } else { f64::INFINITY }
    };
    vectors.map(norm).fold(0.0, f64::max)
}

/// The boxes of panels, where there are boxes and memory for them.
fn reach(vectors: &Vectors, context: PrepareContext<'_>) -> Option<Reach> {
    let boxes = vectors.boxes()?;
    context.reservation.try_grow(Reach::bytes(boxes, vectors.len(), PANEL as u32)).ok()?;
    Some(Reach::of(boxes, vectors.len(), PANEL as u32, context.threads))
}
