//! The build side's vectors in panels.

use std::mem::size_of;
use std::sync::Arc;

use datafusion::common::Result;

use super::bounds::Frame;
use super::collection::Vectors;
use super::filter::{Bound, Filter};
use super::order::Reach;
use super::tile::{Element, PANEL, Panels};
use crate::engine::{ItemId, PrepareContext};
use crate::util::parallel::{for_each, steps_per_task, threads_for};

/// The build side's vectors in panels.
#[derive(Debug)]
pub(super) struct BuildPanels<F: Filter> {
    pub vectors: Arc<Vectors>,
    pub filter: F,
    /// How vectors become `f32`, where products of the filter's elements may not do.
    pub second: Option<Frame>,
    /// Where each panel begins, and the end of the last.
    starts: Vec<usize>,
    numbers: Vec<F::Element>,
    reject: Vec<Bound<F>>,
    accept: Vec<Bound<F>>,
    /// The boxes of panels, where vectors are ordered.
    pub reach: Option<Reach>,
}

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
        let mut starts = Vec::new();
        context.reservation.try_grow((panels + 1) * size_of::<usize>())?;
        starts.reserve_exact(panels + 1);
        let mut end = 0;
        for panel in 0..panels {
            starts.push(end);
            end += width(panel) * PANEL;
        }
        starts.push(end);
        let bytes = end * size_of::<F::Element>() + panels * PANEL * 2 * size_of::<Bound<F>>();
        context.reservation.try_grow(bytes)?;
        let mut numbers = vec![F::Element::ZERO; end];
        let (mut reject, mut accept) =
            (vec![F::Element::NEVER; panels * PANEL], vec![F::Element::UNSURE; panels * PANEL]);
        let threads = threads_for(context.threads, end);
        let share = steps_per_task(threads, panels, 16);
        let mut tasks = vec![];
        let mut rest = numbers.as_mut_slice();
        let bounds = reject.chunks_mut(share * PANEL).zip(accept.chunks_mut(share * PANEL));
        for (first, bounds) in (0..panels).step_by(share).zip(bounds) {
            let last = panels.min(first + share);
            let (own, others) = rest.split_at_mut(starts[last] - starts[first]);
            tasks.push((first..last, own, bounds));
            rest = others;
        }
        for_each(threads, tasks, |(of_task, numbers, (reject, accept))| {
            let first = of_task.start;
            for panel in of_task {
                context.cancel.check()?;
                let own = &mut numbers[starts[panel] - starts[first]..];
                for (lane, item) in items(panel).enumerate() {
                    let places = own.iter_mut().skip(lane).step_by(PANEL);
                    let bounds = filter.build(&vectors, item, places);
                    let place = (panel - first) * PANEL + lane;
                    (reject[place], accept[place]) = (bounds.reject, bounds.accept);
                }
            }
            Ok(())
        })?;
        let reach = reach(&vectors, context);
        Ok(Self { vectors, filter, second, starts, numbers, reject, accept, reach })
    }

    /// A panel and those that follow it with the same stride, `most` at most.
    pub(super) fn panels(&self, panel: usize, most: usize) -> SomePanels<'_, F> {
        let stride = self.starts[panel + 1] - self.starts[panel];
        let is_alike = |&next: &usize| self.starts[next + 1] - self.starts[next] == stride;
        let last = (panel..panel + most).take_while(is_alike).count();
        let numbers = &self.numbers[self.starts[panel]..self.starts[panel + last]];
        let reject = &self.reject[panel * PANEL..(panel + last) * PANEL];
        (Panels { numbers, stride, step: 1, reject }, last)
    }

    /// A panel and, where it has as many numbers, another one behind it; how many.
    pub(super) fn pair(&self, panel: usize, other: Option<usize>) -> SomePanels<'_, F> {
        let len = |panel: usize| self.starts[panel + 1] - self.starts[panel];
        let other = other.filter(|&other| other > panel && len(other) == len(panel));
        let Some(other) = other else { return self.panels(panel, 1) };
        let numbers = &self.numbers[self.starts[panel]..self.starts[other + 1]];
        let reject = &self.reject[panel * PANEL..(other + 1) * PANEL];
        let stride = self.starts[other] - self.starts[panel];
        (Panels { numbers, stride, step: other - panel, reject }, 2)
    }

    pub(super) fn accept(&self, item: ItemId) -> Bound<F> {
        self.accept[item as usize]
    }
}

/// The boxes of panels, where there are boxes and memory for them.
fn reach(vectors: &Vectors, context: PrepareContext<'_>) -> Option<Reach> {
    let boxes = vectors.boxes()?;
    context.reservation.try_grow(Reach::bytes(boxes, vectors.len(), PANEL as u32)).ok()?;
    Some(Reach::of(boxes, vectors.len(), PANEL as u32, context.threads))
}
