//! The light tokens of a collection, and the ranges that they are dealt to.

use std::ops::Range;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::runs::SetId;

use crate::set::scancount::shape::LightShape;

/// Tokens of a sample: one in this many, within limits.
const SAMPLED: usize = 512;
const SAMPLE: Range<usize> = 1 << 12..1 << 17;
/// Places at which a cut between light and heavy tokens is tried.
const TRIED: usize = 512;

/// Nanoseconds of an H200.
mod nanos {
    /// Multiplying a bit of a row with one of a column.
    pub(super) const BIT: f64 = 1.0 / 3e6;
    /// Moving a byte of bits.
    pub(super) const BYTE: f64 = 1.0 / 4e3;
    /// A light token of a row or column in a tile, and adding to an overlap.
    pub(super) const POSTING: f64 = 0.013;
    pub(super) const INCREMENT: f64 = 0.002;
}

/// Light tokens are those below `heavy`; range `r` of them holds `cuts[r]..cuts[r + 1]`. Any cuts that
/// ascend from 0 to `heavy` are right; these let a tile's rows have about as many tokens in each range
/// as a block has room for.
#[derive(Debug)]
pub(super) struct TokenCut {
    pub cuts: Vec<u32>,
    pub heavy: u32,
    pub universe: u32,
}

/// A token of a sample, which stands for `weight` tokens.
#[derive(Debug, Clone, Copy)]
struct WeightedToken {
    token: u32,
    weight: f64,
}

/// The pairs that are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct PairCounts {
    pub rows: f64,
    pub columns: f64,
    pub same: bool,
}

impl TokenCut {
    /// The cheapest cut of the tokens of a collection, whose sets are the columns and are like the rows.
    pub(super) fn new(build: &SetCollection, pairs: PairCounts, shape: &LightShape) -> Self {
        let samples = sample(build);
        let heavy = cheapest(&samples, build.universe(), pairs, shape);
        let cuts = ranges(&samples, heavy, pairs, shape);
        Self { cuts, heavy, universe: build.universe() }
    }

    /// The cut whose first heavy token is `heavy`.
    #[cfg(test)]
    pub(super) fn at(
        build: &SetCollection,
        heavy: u32,
        pairs: PairCounts,
        shape: &LightShape,
    ) -> Self {
        let heavy = heavy.min(build.universe());
        let cuts = ranges(&sample(build), heavy, pairs, shape);
        Self { cuts, heavy, universe: build.universe() }
    }

    /// Ranges of light tokens.
    pub(super) fn ranges(&self) -> u32 {
        self.cuts.len() as u32 - 1
    }

    /// The bytes allocated.
    pub(super) fn size_in_bytes(&self) -> usize {
        self.cuts.capacity() * size_of::<u32>()
    }

    /// About the bytes that making one takes.
    pub(super) fn footprint(build: &SetCollection) -> usize {
        2 * SAMPLE.end.max(build.len() as usize) * size_of::<WeightedToken>()
    }
}

/// Tokens at even places of each set, ascending. Each set begins at a place of its own: sets that are
/// alike would have the same tokens at the same places.
fn sample(build: &SetCollection) -> Vec<WeightedToken> {
    let wanted = (build.token_count() / SAMPLED).clamp(SAMPLE.start, SAMPLE.end);
    let each = (wanted / build.len().max(1) as usize).max(1);
    let mut samples = vec![];
    for set in 0..build.len() {
        let tokens = build.tokens(set);
        let taken = each.min(tokens.len());
        let weight = tokens.len() as f64 / taken.max(1) as f64;
        let begin = f64::from(set.wrapping_mul(0x9e37_79b9)) / f64::from(u32::MAX);
        let places = (0..taken).map(|place| ((place as f64 + begin) * weight) as usize);
        let known = places.filter_map(|place| tokens.get(place));
        samples.extend(known.map(|&token| WeightedToken { token, weight }));
    }
    samples.sort_unstable_by_key(|sample| sample.token);
    samples
}

/// The first heavy token with which all takes the least time.
fn cheapest(
    samples: &[WeightedToken],
    universe: u32,
    pairs: PairCounts,
    shape: &LightShape,
) -> u32 {
    let PairCounts { rows, columns, same } = pairs;
    let tiles = |sets: f64| (sets / f64::from(shape.tile)).ceil();
    let (handled, halved) = match same {
        true => (tiles(rows) + 1.0, 0.5),
        false => (tiles(rows) + tiles(columns), 1.0),
    };
    let moved = columns / 8.0 * (1.0 + 2.0 * halved * (rows / 128.0).ceil());
    let of_bit = rows * columns * halved * nanos::BIT + moved * nanos::BYTE;
    let all_bits = f64::from(universe) * of_bit;
    let mut best = (0, all_bits);
    let mut light = 0.0;
    let step = samples.len().div_ceil(TRIED).max(1);
    let mut first = 0;
    for (nth, chunk) in samples.chunks(step).enumerate() {
        let end = samples.get((nth + 1) * step).map_or(universe, |sample| sample.token);
        let tokens: f64 = chunk.iter().map(|sample| sample.weight).sum();
        // The sets that have a token of these, on average.
        let sets = (tokens / f64::from(end.saturating_sub(first)).max(1.0)).min(columns);
        light += tokens * (handled * nanos::POSTING + sets * halved * nanos::INCREMENT);
        let all = light + f64::from(universe - end) * of_bit;
        if all < best.1 {
            best = (end, all);
        }
        first = end;
    }
    best.0
}

/// The cuts between ranges of light tokens.
fn ranges(
    samples: &[WeightedToken],
    heavy: u32,
    pairs: PairCounts,
    shape: &LightShape,
) -> Vec<u32> {
    // Of all rows, so that those of a tile nearly fill the room.
    let tiles = (pairs.rows / f64::from(shape.tile)).max(1.0);
    let scale = pairs.rows / pairs.columns.max(1.0);
    let wanted = 0.9 * f64::from(shape.postings) * tiles;
    let mut cuts = vec![0];
    let (mut last, mut sum) = (0, 0.0);
    for sample in samples.iter().take_while(|sample| sample.token < heavy) {
        if sum >= wanted && sample.token > last {
            cuts.push(sample.token);
            (last, sum) = (sample.token, 0.0);
        }
        sum += sample.weight * scale;
    }
    if heavy > last {
        cuts.push(heavy);
    }
    cuts
}

/// The sizes of some sets.
pub(super) fn sizes(sets: &SetCollection, range: Range<SetId>) -> Vec<u32> {
    range.map(|set| sets.size(set)).collect()
}
