//! The grid over set sizes, on real sets.

use std::ops::Range;

use datafusion_simjoin::internals::set::Bounds;

use super::load::Load;
use super::postings::{Lists, Sample, prefix_of};
use super::rows::{Input, Partners, Side};
use super::tiling::{Axis, Tiling, Work};

/// A strip as places of real sets.
#[derive(Debug, Clone)]
struct Strip {
    x: Range<usize>,
    /// The ends of its pieces, one more than there are.
    cuts: Vec<usize>,
    /// The task of the first piece.
    task: usize,
}

/// A tiling applied to the sets of a join.
pub struct Grid {
    strips: Vec<Strip>,
    /// The sides that strips and pieces cut.
    swapped: bool,
    tasks: usize,
}

/// Which sides may be cut into strips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Strips of either side, with as many pieces as pay.
    Tiles,
    /// Strips of the left side in one piece, which therefore visits one task.
    LeftBands,
}

impl Grid {
    /// The grid of so many tasks that the size histograms of both sides give.
    pub fn plan(input: &Input, bounds: Bounds, tasks: usize, shape: Shape, work: &Work) -> Self {
        let self_join = input.is_self_join();
        let left = Axis::new(&input.left.histogram(), work.clone());
        let right = Axis::new(&input.right().histogram(), work.clone());
        let pieces = if shape == Shape::Tiles { usize::MAX } else { 1 };
        let mut tiling = Tiling::plan(&left, &right, bounds, self_join, tasks, pieces);
        let mut swapped = false;
        if !self_join && shape == Shape::Tiles {
            // The measures simulated here are symmetric.
            let other = Tiling::plan(&right, &left, bounds, self_join, tasks, pieces);
            if other.bytes < tiling.bytes {
                (tiling, swapped) = (other, true);
            }
        }
        let (x, y) = sides(input, swapped);
        let mut task = 0;
        let strips = tiling.strips.iter().map(|strip| {
            let (start, end) = &strip.left_cuts;
            let cuts: Vec<usize> = strip.right_cuts.iter().map(|cut| cut.place(y)).collect();
            let first = task;
            task += cuts.len() - 1;
            Strip { x: start.place(x)..end.place(x), cuts, task: first }
        });
        Self { strips: strips.collect(), swapped, tasks }
    }

    /// What each task gets, and the sets whose lookups were counted; `lists` are those of both
    /// sides.
    pub fn loads(&self, input: &Input, bounds: Bounds, lists: &Lists) -> (Vec<Load>, Sample) {
        let (x, y) = sides(input, self.swapped);
        let lists = if self.swapped { lists.left() } else { &lists.right };
        let (content, self_join) = (&input.content, input.is_self_join());
        let partners = Partners::new(x, y, bounds, self_join);
        let tiles: usize = self.strips.iter().map(|s| (s.cuts.len() - 1) * s.x.len()).sum();
        let sample = Sample::of(x, bounds, tiles as f64 / x.len().max(1) as f64);
        let mut loads = vec![Load::default(); self.tasks];
        for strip in &self.strips {
            for place in strip.x.clone() {
                let partners = partners.of(place);
                for (piece, cuts) in strip.touched(&partners) {
                    let load = &mut loads[strip.task + piece];
                    load.add_rows(x.rows(place..place + 1));
                    let mut met = partners.start.max(cuts.start)..partners.end.min(cuts.end);
                    if self_join {
                        // Without the set itself.
                        met.end = met.end.min(place);
                    }
                    load.pairs += met.len() as u64;
                    if sample.takes(place) {
                        let prefix = prefix_of(content, x, place, bounds);
                        let found: usize = prefix.iter().map(|&t| lists.count(t, &met)).sum();
                        load.lookups += sample.weight() * prefix.len() as f64;
                        load.postings += sample.weight() * found as f64;
                    }
                }
            }
            for (piece, places) in strip.right_rows(&partners, self_join) {
                loads[strip.task + piece].add_rows(y.rows(places));
            }
        }
        (loads, sample)
    }

    /// The tasks that get a set as the left one of pairs, and as the right one, by place.
    pub fn routes(&self, input: &Input, bounds: Bounds) -> [Vec<Vec<usize>>; 2] {
        let (x, y) = sides(input, self.swapped);
        let partners = Partners::new(x, y, bounds, input.is_self_join());
        let mut routes = [vec![vec![]; x.len()], vec![vec![]; y.len()]];
        for strip in &self.strips {
            for place in strip.x.clone() {
                for (piece, _) in strip.touched(&partners.of(place)) {
                    routes[0][place].push(strip.task + piece);
                }
            }
            // Here with the rows of a self-join's strip, which get there on the left as well.
            for (piece, places) in strip.right_rows(&partners, false) {
                places.for_each(|place| routes[1][place].push(strip.task + piece));
            }
        }
        if self.swapped {
            routes.reverse();
        }
        routes
    }
}

impl Strip {
    /// The pieces in which some of these places are.
    fn touched(
        &self,
        partners: &Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let pieces = match partners.is_empty() {
            true => vec![],
            false => {
                let first = self.cuts.partition_point(|&cut| cut <= partners.start).max(1) - 1;
                self.cuts
                    .windows(2)
                    .enumerate()
                    .skip(first)
                    .take_while(|(_, cuts)| cuts[0] < partners.end)
                    .map(|(piece, cuts)| (piece, cuts[0]..cuts[1]))
                    .filter(|(_, cuts)| !cuts.is_empty())
                    .collect()
            }
        };
        pieces.into_iter()
    }

    /// The places of each piece that have partners in the strip; where asked for, without those
    /// that are in the strip themselves.
    fn right_rows(
        &self,
        partners: &Partners,
        outside_strip: bool,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let mut with_partners = 0..0;
        if !self.x.is_empty() {
            with_partners = partners.of(self.x.start).start..partners.of(self.x.end - 1).end;
        }
        if outside_strip {
            with_partners.end = with_partners.end.min(self.x.start);
        }
        let pieces = self.cuts.windows(2).enumerate().map(move |(piece, cuts)| {
            (piece, cuts[0].max(with_partners.start)..cuts[1].min(with_partners.end))
        });
        pieces.filter(|(_, places)| !places.is_empty()).collect::<Vec<_>>().into_iter()
    }
}

fn sides(input: &Input, swapped: bool) -> (&Side, &Side) {
    match swapped {
        true => (input.right(), &input.left),
        false => (&input.left, input.right()),
    }
}
