//! Posting lists of prefixes, to count what a prefix filter meets.

use std::ops::Range;

use datafusion_simjoin::internals::set::{Bounds, Role};

use super::rows::{Content, Input, Side};

/// Tokens looked up when a plan is simulated; beyond that, sets are sampled.
const LOOKUPS: f64 = 1e6;

/// For each token the places of a side, ascending, in whose indexed prefixes it is.
pub struct Postings {
    starts: Vec<usize>,
    places: Vec<u32>,
}

/// How many of a set's first tokens hold its first common token with a partner: of any size, or in
/// a self-join for the smaller set of a pair.
fn prefix(bounds: Bounds, size: u32, smaller: bool) -> usize {
    bounds.prefix_len(Role::First, size, if smaller { size } else { 1 }) as usize
}

/// The tokens of a set that are looked up: those that can be the first it shares with a partner.
pub fn prefix_of<'a>(content: &'a Content, side: &Side, place: usize, bounds: Bounds) -> &'a [u32] {
    let tokens = content.tokens(side.sets[place]);
    &tokens[..prefix(bounds, side.size(place), false).min(tokens.len())]
}

/// The posting lists of both sides; a self-join has one.
pub struct Lists {
    pub right: Postings,
    left: Option<Postings>,
}

impl Lists {
    pub fn new(input: &Input, bounds: Bounds) -> Self {
        let of = |side| Postings::new(&input.content, side, bounds, input.is_self_join());
        let left = (!input.is_self_join()).then(|| of(&input.left));
        Self { right: of(input.right()), left }
    }

    pub fn left(&self) -> &Postings {
        self.left.as_ref().unwrap_or(&self.right)
    }
}

impl Postings {
    pub fn new(content: &Content, side: &Side, bounds: Bounds, self_join: bool) -> Self {
        let indexed = |place: usize| {
            let tokens = content.tokens(side.sets[place]);
            &tokens[..prefix(bounds, side.size(place), self_join).min(tokens.len())]
        };
        let mut starts = vec![0; content.universe() + 1];
        for place in 0..side.len() {
            indexed(place).iter().for_each(|&token| starts[token as usize + 1] += 1);
        }
        for token in 0..content.universe() {
            starts[token + 1] += starts[token];
        }
        let mut next = starts.clone();
        let mut places = vec![0; starts[content.universe()]];
        for place in 0..side.len() {
            for &token in indexed(place) {
                places[next[token as usize]] = place as u32;
                next[token as usize] += 1;
            }
        }
        Self { starts, places }
    }

    /// The sets of a token, by place.
    pub fn list(&self, token: u32) -> &[u32] {
        &self.places[self.starts[token as usize]..self.starts[token as usize + 1]]
    }

    /// How many sets of these places have the token in their prefixes.
    pub fn count(&self, token: u32, places: &Range<usize>) -> usize {
        let list = self.list(token);
        let first = list.partition_point(|&place| (place as usize) < places.start);
        list[first..].partition_point(|&place| (place as usize) < places.end)
    }
}

/// The sets whose lookups are simulated: one in a fixed number, evenly over all sizes.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    step: usize,
}

impl Sample {
    /// A sample for a plan in which each prefix token is looked up `copies` times.
    pub fn of(side: &Side, bounds: Bounds, copies: f64) -> Self {
        let mut lookups = 0.0;
        let mut of_size = (0, 0);
        for place in 0..side.len() {
            let size = side.size(place);
            if of_size.0 != size {
                of_size = (size, prefix(bounds, size, false));
            }
            lookups += of_size.1 as f64;
        }
        Self { step: (lookups * copies.max(1.0) / LOOKUPS).ceil().max(1.0) as usize }
    }

    pub fn takes(&self, place: usize) -> bool {
        place.is_multiple_of(self.step)
    }

    /// What a set of the sample stands for.
    pub fn weight(&self) -> f64 {
        self.step as f64
    }
}
