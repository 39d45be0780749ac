//! The grid: tiles of the admissible pairs of set sizes, of balanced work and few copied rows.
//!
//! Rows of both sides are ordered by (size, hash of the content). A place in that order is the
//! weight of the rows in front of it, such that the work of an area is proportional to it; the pairs whose sizes can match are a band along the diagonal, in a self-join
//! its lower half. The band is cut into *strips* of the left side, and each strip into *pieces* of
//! the right side. A row is sent to each tile that it has partners in:
//!
//! ```text
//!   right │        ┌──┬─┘           strip 1: one tile; strip 2: two pieces;
//!         │   ┌────┼──┤             a left row of strip 2 goes to one or two tiles,
//!         │ ┌─┤ 2  │ 3│             a right row at the height of both strips to two
//!         │ │1├────┘  │
//!         └─┴─┴───────┴── left
//! ```
//!
//! All tiles have the same estimated work (the rows of the right side left out), so a strip of `p` pieces that begins behind `i` tiles
//! is known by (i, p), and the cheapest sequence of strips is found by dynamic programming over
//! the tiles used up. Only the histogram of sizes is needed; within a size, hashes are uniform.

use std::ops::Range;
use std::sync::Arc;

use datafusion_simjoin::internals::set::{Bounds, Role};

use super::load::nanos;
use super::rows::{ROW_BYTES, Side, TOKEN_BYTES};

/// A side is looked at in about so many steps; cuts fall anywhere between them.
const STEPS: f64 = 4096.0;
/// Strips of more pieces are not tried: tiles would be far from square.
const MAX_PIECES: usize = 512;

/// What the work of a tile is estimated by.
#[derive(Debug, Clone)]
pub enum Work {
    /// Admissible pairs, as signatures are compared. The histograms say it all.
    Pairs,
    /// Postings, as a prefix filter meets them.
    Postings(Arc<Rates>),
}

/// How many postings an admissible pair meets: about the product of two factors, one for the size
/// of each set. Small sets have frequent tokens in their prefixes, large ones have many.
#[derive(Debug)]
pub struct Rates {
    bounds: Bounds,
    /// By [`Rates::class`] of the size.
    factors: Vec<f64>,
}

impl Rates {
    const CLASSES: usize = 16 + 8 * 28;

    /// Sizes to 15 alone, then eight to an octave.
    pub fn class(size: u32) -> usize {
        match size {
            0..16 => size as usize,
            _ => 16 + (8.0 * (f64::from(size).log2() - 4.0)) as usize,
        }
    }

    /// From the size of each set, its admissible partners and the postings it meets among them:
    /// the factors that explain these sums, by alternating proportions.
    pub fn fit(bounds: Bounds, sets: &[(u32, Range<usize>, f64)], partners: &[u32]) -> Self {
        /// Postings as expected that are added to each class: few of them say little.
        const PRIOR: f64 = 30.0;
        let (postings, pairs) = sets
            .iter()
            .fold((0.0, 0), |sum, (_, partners, met)| (sum.0 + met, sum.1 + partners.len()));
        let mean = f64::max(postings, 1.0) / pairs.max(1) as f64;
        let mut factors = vec![mean.sqrt(); Self::CLASSES];
        for _ in 0..12 {
            let mut sums = vec![0.0];
            for &size in partners {
                sums.push(sums[sums.len() - 1] + factors[Self::class(size)]);
            }
            let mut classes = vec![(PRIOR, PRIOR); Self::CLASSES];
            for (size, partners, met) in sets {
                let class = Self::class(*size);
                let expected = factors[class] * (sums[partners.end] - sums[partners.start]);
                classes[class].0 += met;
                classes[class].1 += expected;
            }
            for (factor, (met, expected)) in factors.iter_mut().zip(classes) {
                *factor *= (met / expected).sqrt();
            }
        }
        Self { bounds, factors }
    }
}

impl Work {
    /// The weight of a row of a size.
    fn weight(&self, size: u32) -> f64 {
        match self {
            Work::Pairs => 1.0,
            Work::Postings(rates) => rates.factors[Rates::class(size)],
        }
    }

    /// Tokens of a row that are looked up.
    fn prefix(&self, size: u32) -> f64 {
        match self {
            Work::Pairs => 0.0,
            Work::Postings(rates) => f64::from(rates.bounds.prefix_len(Role::First, size, 1)),
        }
    }

    /// Nanoseconds for each unit of weight on the left and on the right.
    fn nanos(&self) -> f64 {
        match self {
            Work::Pairs => nanos::PAIR,
            Work::Postings(_) => nanos::POSTING,
        }
    }

    /// Nanoseconds for a row alone.
    fn row_nanos(&self, size: u32) -> f64 {
        let tokens = f64::from(size);
        match self {
            Work::Pairs => tokens * nanos::ENCODE,
            Work::Postings(_) => {
                tokens * (nanos::ENCODE + nanos::INDEX) + self.prefix(size) * nanos::LOOKUP
            }
        }
    }
}

/// A place in the order of one side: in front of the given share of the hashes of a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cut {
    pub size: u32,
    pub share: f64,
}

impl Cut {
    /// The first set of a side behind the cut.
    pub fn place(&self, side: &Side) -> usize {
        // A share of 1.0 saturates, and then leaves the greatest hash behind the cut: the next cut
        // has it, as cuts are used in pairs.
        side.first_from(self.size, (self.share * 2f64.powi(64)) as u64)
    }
}

/// The sizes of one side, as places.
#[derive(Debug, Clone)]
pub struct Axis {
    sizes: Vec<u32>,
    /// Weight, rows, bytes and tokens looked up in front of each size, and of all.
    weight: Vec<f64>,
    rows: Vec<f64>,
    bytes: Vec<f64>,
    prefixes: Vec<f64>,
    /// Nanoseconds for these rows alone.
    alone: Vec<f64>,
    work: Work,
}

impl Axis {
    /// From the sizes, ascending, and the rows of each.
    pub fn new(histogram: &[(u32, f64)], work: Work) -> Self {
        let sums = |of: &dyn Fn(u32) -> f64| {
            let mut sums = vec![0.0];
            histogram
                .iter()
                .for_each(|&(size, rows)| sums.push(sums[sums.len() - 1] + rows * of(size)));
            sums
        };
        Self {
            sizes: histogram.iter().map(|h| h.0).collect(),
            weight: sums(&|size| work.weight(size)),
            rows: sums(&|_| 1.0),
            bytes: sums(&|size| (ROW_BYTES + TOKEN_BYTES * u64::from(size)) as f64),
            prefixes: sums(&|size| work.prefix(size)),
            alone: sums(&|size| work.row_nanos(size)),
            work,
        }
    }

    fn end(&self) -> f64 {
        self.weight[self.weight.len() - 1]
    }

    /// The place in front of the first row of this size or more.
    fn first_of_size(&self, size: u32) -> f64 {
        self.weight[self.sizes.partition_point(|&s| s < size)]
    }

    /// The size that a place is in, and the share of it in front.
    fn at(&self, place: f64) -> (usize, f64) {
        let class = self.weight.partition_point(|&weight| weight <= place);
        let class = class.saturating_sub(1).min(self.sizes.len().saturating_sub(1));
        let (start, end) = (self.weight[class], self.weight[class + 1]);
        (class, ((place - start) / (end - start)).clamp(0.0, 1.0))
    }

    fn between(&self, sums: &[f64], places: Range<f64>) -> f64 {
        let at = |place: f64| {
            let (class, share) = self.at(place);
            sums[class] + share * (sums[class + 1] - sums[class])
        };
        match places.start < places.end {
            true => at(places.end) - at(places.start),
            false => 0.0,
        }
    }

    /// Bytes of the rows between two places.
    pub fn bytes(&self, places: Range<f64>) -> f64 {
        self.between(&self.bytes, places)
    }

    /// Rows between two places.
    pub fn rows(&self, places: Range<f64>) -> f64 {
        self.between(&self.rows, places)
    }

    /// Prefix tokens of the rows between two places.
    pub fn lookups(&self, places: Range<f64>) -> f64 {
        self.between(&self.prefixes, places)
    }

    fn cut(&self, place: f64) -> Cut {
        if place >= self.end() {
            return Cut { size: u32::MAX, share: 0.0 };
        }
        let (class, share) = self.at(place);
        Cut { size: self.sizes[class], share }
    }
}

/// Left rows of one size with the places of their partners.
#[derive(Debug, Clone, Copy)]
struct Step {
    start: f64,
    end: f64,
    low: f64,
    high: f64,
    /// Nanoseconds of a unit of weight for its rows alone.
    alone: f64,
}

/// A strip of the left side and the places on the right at which it is cut.
#[derive(Debug, Clone)]
pub struct Strip {
    pub left: Range<f64>,
    pub pieces: Vec<f64>,
    pub left_cuts: (Cut, Cut),
    pub right_cuts: Vec<Cut>,
    /// Weight on the left times weight on the right, of each piece.
    pub products: Vec<f64>,
}

/// A tiling into so many tiles, or fewer where there is not enough to cut.
#[derive(Debug, Clone)]
pub struct Tiling {
    pub strips: Vec<Strip>,
    /// Estimate of the bytes that are sent.
    pub bytes: f64,
    /// Weight on the left times weight on the right, of all admissible pairs: these themselves,
    /// where the work is that of pairs.
    pub products: f64,
}

impl Tiling {
    /// Tiles the pairs of `left` and `right`, in a self-join (`right` is `left`) those with the
    /// larger set on the left. `max_pieces` of 1 keeps every left row in one tile.
    pub fn plan(
        left: &Axis,
        right: &Axis,
        bounds: Bounds,
        self_join: bool,
        tiles: usize,
        max_pieces: usize,
    ) -> Self {
        let steps = steps(left, right, bounds, self_join);
        let products = steps.iter().map(|s| (s.end - s.start) * (s.high - s.low)).sum();
        let nanos = left.work.nanos();
        // A row is about as often on the right as on the left.
        let work = |s: &Step| (s.end - s.start) * ((s.high - s.low) * nanos + 2.0 * s.alone);
        let total: f64 = steps.iter().map(work).sum();
        if total <= 0.0 || tiles == 0 {
            return Self { strips: vec![], bytes: 0.0, products: 0.0 };
        }
        // The place on the left behind i tiles' worth of work, and the partners of what begins or
        // ends there.
        let mut edges = vec![(steps[0].start, steps[0].low, steps[0].high)];
        let (mut done, mut at) = (0.0, 0);
        for tile in 1..tiles {
            let goal = total * tile as f64 / tiles as f64;
            while at + 1 < steps.len() && done + work(&steps[at]) < goal {
                done += work(&steps[at]);
                at += 1;
            }
            let step = &steps[at];
            let share = ((goal - done) / work(step)).clamp(0.0, 1.0);
            let place = step.start + share * (step.end - step.start);
            edges.push((place, step.low, if self_join { place } else { step.high }));
        }
        let last = steps[steps.len() - 1];
        edges.push((last.end, last.low, if self_join { last.end } else { last.high }));

        // Bytes in front of each edge: of its place, its least partner and its greatest one, which in
        // a self-join is looked at as the place, as the rows of the strip are in its tiles already.
        let sums = |axis: &Axis, place: f64| axis.bytes(0.0..place);
        let sums: Vec<(f64, f64, f64)> = edges
            .iter()
            .map(|&(at, low, high)| (sums(left, at), sums(right, low), sums(right, high)))
            .collect();
        let cost = |from: usize, pieces: usize| {
            let (start, end) = (sums[from], sums[from + pieces]);
            let right = if self_join { start.0 } else { end.2 } - start.1;
            pieces as f64 * (end.0 - start.0) + right.max(0.0)
        };
        let max_pieces = max_pieces.min(MAX_PIECES);
        let mut best = vec![(f64::INFINITY, 0); tiles + 1];
        best[0] = (0.0, 0);
        for end in 1..=tiles {
            for pieces in 1..=end.min(max_pieces) {
                let bytes = best[end - pieces].0 + cost(end - pieces, pieces);
                if bytes < best[end].0 {
                    best[end] = (bytes, pieces);
                }
            }
        }
        let mut strips = vec![];
        let mut end = tiles;
        while end > 0 {
            let pieces = best[end].1;
            let places = edges[end - pieces].0..edges[end].0;
            strips.extend(strip(left, right, &steps, places, pieces, self_join));
            end -= pieces;
        }
        strips.reverse();
        Self { strips, bytes: best[tiles].0, products }
    }
}

impl Strip {
    /// In a self-join, the places of the rows that a piece of the strip gets: those on the left
    /// that have partners in it, and those on the right that are not in the strip themselves.
    pub fn rows_of(
        &self,
        axis: &Axis,
        bounds: Bounds,
        piece: Range<f64>,
    ) -> (Range<f64>, Range<f64>) {
        let mut left = self.left.start.max(piece.start)..self.left.end;
        let (class, share) = axis.at(piece.end);
        // A cut between two sizes stands in front of the larger one.
        let class = if share == 0.0 { class.max(1) - 1 } else { class };
        if let Some((_, greatest)) = bounds.size_range(Role::First, axis.sizes[class]) {
            left.end = left.end.min(axis.first_of_size(greatest + 1));
        }
        let right = piece.start..piece.end.min(self.left.start).max(piece.start);
        (left, right)
    }
}

/// The left side by sizes, large ones cut further; sizes without partners are left out.
fn steps(left: &Axis, right: &Axis, bounds: Bounds, self_join: bool) -> Vec<Step> {
    let mut steps = vec![];
    for (class, &size) in left.sizes.iter().enumerate() {
        let Some((least, greatest)) = bounds.size_range(Role::First, size) else { continue };
        let (low, high) = (right.first_of_size(least), right.first_of_size(greatest + 1));
        if low >= high {
            continue;
        }
        let (start, weight) = (left.weight[class], left.weight[class + 1] - left.weight[class]);
        let alone = left.work.row_nanos(size) / left.work.weight(size);
        let parts = (weight / left.end() * STEPS).ceil().max(1.0) as usize;
        for part in 0..parts {
            let at = |part: usize| start + weight * part as f64 / parts as f64;
            let (start, end) = (at(part), at(part + 1));
            let high = if self_join { (start + end) / 2.0 } else { high };
            steps.push(Step { start, end, low, high, alone });
        }
    }
    steps
}

/// Cuts a strip into pieces of as much work each, beside that of the strip's own rows; `None` where nothing is in it.
fn strip(
    left: &Axis,
    right: &Axis,
    steps: &[Step],
    places: Range<f64>,
    pieces: usize,
    self_join: bool,
) -> Option<Strip> {
    let first = steps.partition_point(|s| s.end <= places.start);
    let inside = steps[first..].iter().take_while(|s| s.start < places.end).map(|s| {
        let (start, end) = (s.start.max(places.start), s.end.min(places.end));
        Step { start, end, high: if self_join { (start + end) / 2.0 } else { s.high }, ..*s }
    });
    let inside: Vec<Step> = inside.collect();
    let (low, mut high) = (inside.first()?.low, inside.last()?.high);
    if self_join {
        high = places.end;
    }
    let products = |y: f64| -> f64 {
        let below = |s: &Step| (s.end - s.start) * (y - s.low).clamp(0.0, s.high - s.low);
        inside.iter().map(below).sum()
    };
    // With the rows of the right side; in a self-join those of the strip are there already.
    let nanos = left.work.nanos();
    let below = |y: f64| {
        let rows = if self_join { low..y.min(places.start) } else { low..y };
        products(y) * nanos + right.between(&right.alone, rows)
    };
    let total = below(high);
    let mut cuts = vec![low];
    for piece in 1..pieces {
        let goal = total * piece as f64 / pieces as f64;
        let (mut from, mut to) = (cuts[piece - 1], high);
        for _ in 0..40 {
            let middle = (from + to) / 2.0;
            if below(middle) < goal { from = middle } else { to = middle }
        }
        cuts.push(to);
    }
    cuts.push(high);
    Some(Strip {
        left_cuts: (left.cut(places.start), left.cut(places.end)),
        right_cuts: cuts.iter().map(|&place| right.cut(place)).collect(),
        products: cuts.windows(2).map(|cuts| products(cuts[1]) - products(cuts[0])).collect(),
        left: places,
        pieces: cuts,
    })
}
