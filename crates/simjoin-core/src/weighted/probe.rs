//! A probe set on its way through the postings.
//!
//! Let a set meet a match, and let their first common token, in the order of ranks, be the `i`-th of the one and the `j`-th of
//! the other. All that they have in common lies behind, so that what both have left from there on bounds it: `|x[i..]|
//! |y[j..]|` where weights are multiplied, `min(x[i..], y[j..])` where the lesser weights are added (Bayardo, Ma, Srikant:
//! Scaling up all pairs similarity search, WWW 2007; Xiao et al.: Efficient similarity joins for near-duplicate detection,
//! TODS 2011, for sets without weights). A posting has the bound of its set as a gate, and the signature of the tokens
//! that are left; weights are compared with it by [`LossTables`].

use std::ops::Range;
use std::sync::Arc;

use super::collection::WeightedSets;
use super::join::WeightedJoin;
use super::limits::{LimitForm, SLACK_32, WeightLimits};
use super::measure::Mass;
use super::postings::{List, Postings, Rests, gate};
use super::signature::{GROUP, LEAST_GROUPED, LossTables};
use crate::engine::{ItemId, Match};

/// The matches of probe sets, one set after the other.
#[derive(Debug)]
pub(super) struct Prober {
    join: WeightedJoin,
    postings: Arc<Postings>,
    tables: LossTables,
    rests: Rests,
    partner_rests: Rests,
    verifier: Verifier,
    /// By build set, the probe set that has it for a candidate.
    seen: Vec<u32>,
    stamp: u32,
    candidates: Vec<ItemId>,
}

/// Candidates that are fetched ahead.
const AHEAD: usize = 6;

/// The figures of a probe set.
struct Probe<'a> {
    item: ItemId,
    tokens: &'a [u32],
    weights: &'a [u32],
    mass: Mass,
    /// The build sets of its key that may match.
    partners: Range<ItemId>,
    is_only_key: bool,
}

/// The bounds of the postings of a token.
struct Gates {
    range: Range<usize>,
    /// The weight that is left, and what the probe set alone asks for.
    rest: f64,
    need: f64,
}

impl Prober {
    pub(super) fn new(join: WeightedJoin, postings: Arc<Postings>) -> Self {
        let seen = vec![0; join.build.len() as usize];
        let verifier = Verifier::new(&join.build);
        let bytes = postings.signature_bytes;
        Self {
            join,
            postings,
            tables: LossTables::new(bytes),
            rests: Rests::default(),
            partner_rests: Rests::default(),
            verifier,
            seen,
            stamp: 0,
            candidates: vec![],
        }
    }

    /// Appends the matches of a probe set. Returns the postings that were read.
    pub(super) fn probe(
        &mut self,
        probes: &WeightedSets,
        item: ItemId,
        found: &mut Vec<Match>,
    ) -> u64 {
        let WeightedJoin { build, limits, .. } = &self.join;
        if limits.is_void() {
            return 0;
        }
        if limits.is_self_join {
            push_itself(limits, probes, item, found);
        }
        let (tokens, weights) = probes.set(item);
        let partners = build.items_of(probes.key_of(item));
        let mut probe = Probe {
            item,
            tokens,
            weights,
            mass: probes.mass(item),
            partners,
            is_only_key: build.runs.len() == 1,
        };
        probe.partners.start = first_heavy_enough(build, limits, &probe);
        if probe.partners.is_empty() {
            return 0;
        }
        self.rests.read(limits, probes, item);
        let read = self.collect(&probe);
        self.verify(&probe, found);
        read
    }

    /// Collects the candidates of a probe set.
    fn collect(&mut self, probe: &Probe<'_>) -> u64 {
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.seen.fill(0);
            self.stamp = 1;
        }
        self.candidates.clear();
        let (mut read, mut has_tables) = (0, false);
        for (place, &token) in probe.tokens.iter().enumerate() {
            let rest = self.rests.as_slice()[place];
            let list = self.postings.list(token);
            let Some(gates) = self.gates(probe, rest, list) else { break };
            if !gates.range.is_empty() {
                if !has_tables {
                    self.begin_tables(probe, place, &gates);
                    has_tables = true;
                }
                read += gates.range.len() as u64;
                let postings = Arc::clone(&self.postings);
                self.scan(probe, postings.list(token), &gates);
            }
            if has_tables {
                self.tables
                    .leave_out(token, self.join.limits.share(probe.weights[place], probe.mass));
            }
        }
        read
    }

    /// The postings of a token that may match by what both sets have left; `None` where neither those of any further
    /// token do.
    fn gates(&self, probe: &Probe<'_>, rest: f64, list: List<'_>) -> Option<Gates> {
        let WeightedJoin { build, limits, .. } = &self.join;
        let mut range = list.of_key(&probe.partners_of_key(build), probe.is_only_key);
        match limits.form {
            LimitForm::Product { least, .. } => {
                if rest * self.postings.greatest_norm < least {
                    return None;
                }
                let need = (least / rest) as f32 * (1.0 - SLACK_32 / 4.0);
                let own = gate(rest);
                let gates = &list.gates[range.clone()];
                let mut count = gates.partition_point(|gate| *gate >= need.max(own));
                if limits.is_self_join && own >= need {
                    // Of two sets, the one that has more left finds the other; the lesser item where both have the same.
                    let same = gates[..count].partition_point(|gate| *gate > own);
                    let items = &list.items[range.start + same..range.start + count];
                    count = same + items.partition_point(|item| *item < probe.item);
                } else if !limits.is_self_join {
                    count = gates.partition_point(|gate| *gate >= need);
                }
                range.end = range.start + count;
                Some(Gates { range, rest, need: least })
            }
            LimitForm::Sum { probe: of_probe, build: of_build } => {
                let need = of_probe * probe.mass.total as f64;
                let lightest = build.mass(probe.partners.start).total as f64;
                if rest < need + of_build * lightest {
                    return None;
                }
                let items = &list.items[range.clone()];
                let start = items.partition_point(|item| *item < probe.partners.start);
                let end = match limits.is_self_join {
                    true => items.partition_point(|item| *item < probe.item),
                    false => items.len(),
                };
                range = range.start + start..range.start + end.max(start);
                Some(Gates { range, rest, need })
            }
        }
    }

    /// The share of its weight that the probe set may lack in a posting, at most those in the places from `first` on.
    fn allowed(&self, probe: &Probe<'_>, list: List<'_>, gates: &Gates, first: usize) -> f64 {
        let WeightedJoin { build, limits, .. } = &self.join;
        match limits.form {
            LimitForm::Product { relative, .. } => {
                let need = gates.need / f64::from(list.gates[first]);
                let whole = if relative { 1.0 } else { probe.mass.squares as f64 };
                (gates.rest * gates.rest * (1.0 + 1e-9) - need * need) / whole
            }
            LimitForm::Sum { build: of_build, .. } => {
                let total = build.mass(list.items[first]).total as f64;
                (gates.rest - gates.need - of_build * total) / probe.mass.total as f64 + 1e-9
            }
        }
    }

    /// Makes the tables of a probe set for its tokens from a place on.
    fn begin_tables(&mut self, probe: &Probe<'_>, place: usize, gates: &Gates) {
        let allowed = match self.join.limits.form {
            LimitForm::Product { least, relative } => {
                // A list further on may have greater norms.
                let need = least / (self.postings.greatest_norm * (1.0 + f64::from(SLACK_32)));
                let whole = if relative { 1.0 } else { probe.mass.squares as f64 };
                (gates.rest * gates.rest - need * need) / whole
            }
            LimitForm::Sum { build, .. } => {
                let lightest = self.join.build.mass(probe.partners.start).total as f64;
                (gates.rest - gates.need - build * lightest) / probe.mass.total as f64
            }
        };
        let limits = self.join.limits;
        let left = probe.tokens[place..].iter().zip(&probe.weights[place..]);
        let shares = left.map(|(token, weight)| (*token, limits.share(*weight, probe.mass)));
        self.tables.begin(shares, allowed);
    }

    /// Collects candidates among the postings of a token.
    fn scan(&mut self, probe: &Probe<'_>, list: List<'_>, gates: &Gates) {
        let least = match self.join.limits.form {
            LimitForm::Product { .. } => f32::NEG_INFINITY,
            LimitForm::Sum { .. } => gates.need as f32 * (1.0 - SLACK_32 / 4.0),
        };
        let bytes = self.postings.signature_bytes;
        if list.items.len() < LEAST_GROUPED {
            for at in gates.range.clone() {
                let Some(limit) = self.tables.limit(self.allowed(probe, list, gates, at)) else {
                    break;
                };
                let signature = &list.signatures[at * bytes..(at + 1) * bytes];
                if list.gates[at] >= least && self.tables.single(signature, limit) {
                    self.propose(list.items[at]);
                }
            }
            return;
        }
        let Range { start, end } = gates.range;
        for group in start / GROUP..end.div_ceil(GROUP) {
            let first = (group * GROUP).max(start);
            let Some(limit) = self.tables.limit(self.allowed(probe, list, gates, first)) else {
                break;
            };
            let signatures = &list.signatures[group * GROUP * bytes..(group + 1) * GROUP * bytes];
            let mut mask = self.tables.grouped(signatures, limit);
            mask &= u32::MAX << (first - group * GROUP);
            mask &= u32::MAX >> ((group + 1) * GROUP).saturating_sub(end);
            while mask != 0 {
                let at = group * GROUP + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                if list.gates[at] >= least {
                    self.propose(list.items[at]);
                }
            }
        }
    }

    #[inline]
    fn propose(&mut self, item: ItemId) {
        let seen = &mut self.seen[item as usize];
        if *seen != self.stamp {
            *seen = self.stamp;
            self.candidates.push(item);
        }
    }

    /// Appends the candidates that match.
    fn verify(&mut self, probe: &Probe<'_>, found: &mut Vec<Match>) {
        let Self { join, verifier, candidates, rests, partner_rests, .. } = self;
        let WeightedJoin { build, limits, .. } = &*join;
        if candidates.is_empty() {
            return;
        }
        verifier.begin(probe.tokens, probe.weights);
        let is_product = matches!(limits.form, LimitForm::Product { .. });
        for (at, &partner) in candidates.iter().enumerate() {
            // The sets lie anywhere: they are fetched while others are compared.
            if let Some(&later) = candidates.get(at + AHEAD) {
                build.prefetch(later);
            }
            if !verifier.matches(limits, build, probe.mass, partner) {
                continue;
            }
            if limits.is_self_join && is_product {
                // The pair may have been found at a later token, too, from the other side.
                let (tokens, _) = build.set(partner);
                let first = tokens.iter().position(|token| verifier.has(*token));
                let own = first.and_then(|first| probe.tokens.binary_search(&tokens[first]).ok());
                let (Some(first), Some(own)) = (first, own) else { continue };
                partner_rests.read(limits, build, partner);
                let own = gate(rests.as_slice()[own]);
                let other = gate(partner_rests.as_slice()[first]);
                if other < own || (other == own && partner > probe.item) {
                    continue;
                }
            }
            found.push(Match { probe: probe.item, build: partner, detail: 0 });
        }
        verifier.end(probe.tokens);
    }
}

impl Probe<'_> {
    /// All build sets of the key.
    fn partners_of_key(&self, build: &WeightedSets) -> Range<ItemId> {
        if self.is_only_key {
            return 0..build.len();
        }
        let run = build.runs.partition_point(|run| run.items.end <= self.partners.start);
        build.runs.get(run).map_or(0..0, |run| run.items.clone())
    }
}

/// The first partner that is heavy enough, where partners need some weight.
fn first_heavy_enough(build: &WeightedSets, limits: &WeightLimits, probe: &Probe<'_>) -> ItemId {
    let Range { start, end } = probe.partners;
    let LimitForm::Sum { probe: of_probe, build: of_build } = limits.form else { return start };
    // All that both have in common is a part of the partner.
    let need = of_probe * probe.mass.total as f64;
    let masses = &build.masses[start as usize..end as usize];
    let is_light = |mass: &Mass| mass.total as f64 * (1.0 - of_build) * (1.0 + 1e-9) < need;
    start + masses.partition_point(is_light) as ItemId
}

/// Appends the match of a set with itself, if it is one.
pub(super) fn push_itself(
    limits: &WeightLimits,
    sets: &WeightedSets,
    item: ItemId,
    found: &mut Vec<Match>,
) {
    let mass = sets.mass(item);
    let common = if limits.measure.adds_products() { mass.squares } else { mass.total };
    if limits.value(common, mass, mass) >= limits.threshold {
        found.push(Match { probe: item, build: item, detail: 0 });
    }
}

/// Compares a probe set with build sets.
#[derive(Debug)]
pub(super) struct Verifier {
    /// By token, its weight in the probe set.
    weights: Vec<u32>,
}

impl Verifier {
    pub(super) fn new(build: &WeightedSets) -> Self {
        Self { weights: vec![0; build.ranked.len()] }
    }

    /// Takes up a probe set.
    pub(super) fn begin(&mut self, tokens: &[u32], weights: &[u32]) {
        for (token, weight) in tokens.iter().zip(weights) {
            self.weights[*token as usize] = *weight;
        }
    }

    /// Lays it down.
    pub(super) fn end(&mut self, tokens: &[u32]) {
        tokens.iter().for_each(|token| self.weights[*token as usize] = 0);
    }

    fn has(&self, token: u32) -> bool {
        self.weights[token as usize] > 0
    }

    /// Whether a build set matches.
    #[inline]
    pub(super) fn matches(
        &self,
        limits: &WeightLimits,
        build: &WeightedSets,
        mass: Mass,
        partner: ItemId,
    ) -> bool {
        let (tokens, weights) = build.set(partner);
        let both = tokens.iter().zip(weights);
        let own = |token: &u32| self.weights[*token as usize];
        let common: u64 = match limits.measure.adds_products() {
            true => both.map(|(token, weight)| u64::from(own(token)) * u64::from(*weight)).sum(),
            false => both.map(|(token, weight)| u64::from(own(token).min(*weight))).sum(),
        };
        common > 0 && limits.value(common, mass, build.mass(partner)) >= limits.threshold
    }
}
