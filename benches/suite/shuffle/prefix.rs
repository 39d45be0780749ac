//! Hash of prefix tokens: a row goes once to each task that a token of its prefix hashes to, and a
//! pair is emitted by the task of its smallest common prefix token.

use datafusion_simjoin::internals::set::Bounds;

use super::load::Load;
use super::postings::{Postings, Sample, prefix_of};
use super::rows::{Content, Input, Partners, Side, mix};

/// A join by prefix tokens, for any number of tasks.
pub struct PrefixTokens<'a> {
    input: &'a Input,
    /// The sets in the token order that all tasks know.
    content: Content,
    bounds: Bounds,
    partners: Partners,
    /// Lookups of each token and the postings met.
    tokens: Vec<(f64, f64)>,
    sample: Sample,
}

impl<'a> PrefixTokens<'a> {
    /// Counts the work of each token, once for all numbers of tasks.
    pub fn new(input: &'a Input, bounds: Bounds, heavy: usize) -> Self {
        let (x, y, self_join) = (&input.left, input.right(), input.is_self_join());
        let content = input.content.in_shared_order(heavy);
        let partners = Partners::new(x, y, bounds, self_join);
        let lists = Postings::new(&content, y, bounds, self_join);
        let sample = Sample::of(x, bounds, 1.0);
        let mut tokens = vec![(0.0, 0.0); content.universe()];
        for place in (0..x.len()).filter(|&place| sample.takes(place)) {
            let mut partners = partners.of(place);
            if self_join {
                partners.end = partners.end.min(place);
            }
            for &token in prefix_of(&content, x, place, bounds) {
                let of_token = &mut tokens[token as usize];
                of_token.0 += sample.weight();
                of_token.1 += sample.weight() * lists.count(token, &partners) as f64;
            }
        }
        Self { input, content, bounds, partners, tokens, sample }
    }

    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// Postings met by each token.
    pub fn postings(&self) -> impl Iterator<Item = f64> + Clone {
        self.tokens.iter().map(|token| token.1)
    }

    /// The rows of the left side with each token in their prefixes, and the tokens of these rows.
    pub fn holders(&self) -> Vec<(u64, u64)> {
        let side = &self.input.left;
        let mut holders = vec![(0, 0); self.content.universe()];
        for place in 0..side.len() {
            let (rows, tokens) = side.rows(place..place + 1);
            for &token in self.prefix(side, place) {
                let of_token = &mut holders[token as usize];
                *of_token = (of_token.0 + rows, of_token.1 + tokens);
            }
        }
        holders
    }

    /// The task of a token.
    pub fn task(token: u32, tasks: usize) -> usize {
        // Not the hash that orders tokens.
        (mix(u64::from(token) ^ 0x5bd1_e995_0000_0000) % tasks as u64) as usize
    }

    /// The prefix of a set of a side.
    pub fn prefix(&self, side: &Side, place: usize) -> &[u32] {
        prefix_of(&self.content, side, place, self.bounds)
    }

    /// The tasks that each set of a side is sent to.
    pub fn routes(&self, side: &Side, tasks: usize) -> Vec<Vec<usize>> {
        let other = self.input.right();
        let route = |place: usize| {
            let mut route: Vec<usize> =
                self.prefix(side, place).iter().map(|&token| Self::task(token, tasks)).collect();
            route.sort_unstable();
            route.dedup();
            route
        };
        // A size without partners on the other side goes nowhere.
        let other = if std::ptr::eq(side, other) { &self.input.left } else { other };
        let partners = Partners::new(side, other, self.bounds, false);
        (0..side.len())
            .map(|place| if partners.of(place).is_empty() { vec![] } else { route(place) })
            .collect()
    }

    /// What each task gets.
    pub fn loads(&self, tasks: usize) -> Vec<Load> {
        let (left, right) = (&self.input.left, self.input.right());
        let self_join = self.input.is_self_join();
        let mut loads = vec![Load::default(); tasks];
        let mut of_task = |side: &Side| {
            let mut places = vec![vec![]; tasks];
            for (place, route) in self.routes(side, tasks).iter().enumerate() {
                for &task in route {
                    loads[task].add_rows(side.rows(place..place + 1));
                    places[task].push(place);
                }
            }
            places
        };
        let lefts = of_task(left);
        let rights = if self_join { vec![] } else { of_task(right) };
        for (task, load) in loads.iter_mut().enumerate() {
            let there = if self_join { &lefts[task] } else { &rights[task] };
            for &place in &lefts[task] {
                let mut partners = self.partners.of(place);
                if self_join {
                    partners.end = partners.end.min(place);
                }
                let first = there.partition_point(|&place| place < partners.start);
                let end = there.partition_point(|&place| place < partners.end);
                load.pairs += end.saturating_sub(first) as u64;
            }
        }
        for (token, (lookups, postings)) in (0..).zip(&self.tokens) {
            let load = &mut loads[Self::task(token, tasks)];
            load.lookups += lookups;
            load.postings += postings;
        }
        loads
    }
}
