//! Figures of a collection, from which the costs of joining it are estimated.

use std::mem::size_of;
use std::ops::Range;

use crate::engine::{Pairing, PrepareContext};
use crate::error::Result;
use crate::set::collection::SetCollection;
use crate::set::join_spec::JoinSpec;
use crate::set::runs::SetId;
use crate::util::evenly::Evenly;

/// Sets whose prefixes are looked up in the counts of all prefixes: one in this many, within limits.
const PROBED: u32 = 64;
const PROBES: Range<u32> = 256..1024;
/// Tokens of a prefix that are looked up at most, about.
const LOOKED_UP: usize = 1 << 11;
/// Prefix tokens are counted in one set of several, so that about one token in this many is looked
/// at, within limits.
const COUNTED: usize = 64;
const COUNTED_TOKENS: Range<usize> = 1 << 13..1 << 16;

/// Runs whose partners are looked up.
const RUNS: usize = 1 << 12;

/// Figures of a join of a collection with one like it: in a self-join, with itself.
#[derive(Debug, Clone)]
pub struct Statistics {
    pub sets: f64,
    /// Probe sets that have partners by blocking key and size.
    pub probed: f64,
    /// Tokens in all build sets, and in the probe sets that have partners.
    pub tokens: f64,
    pub probe_tokens: f64,
    /// Pairs of sets whose blocking keys and sizes admit a match.
    pub admissible_pairs: f64,
    /// Tokens of a set of a candidate: the larger sets are, the more candidates they are in.
    pub candidate_size: f64,
    /// Tokens in indexed prefixes.
    pub indexed: f64,
    /// Posting lists looked up, and the postings of admissible size in them.
    pub lookups: f64,
    pub postings: f64,
    /// Postings of any size in a list that is looked up, on average.
    pub(crate) list_length: f64,
    /// Threads that share the work of the CPU, at least 1.
    pub threads: usize,
}

impl Statistics {
    /// Gathers the figures that a pass over the prefixes gives.
    pub fn gather(
        build: &SetCollection,
        spec: &JoinSpec,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let Prefixes { indexed, lookups, listed, postings } = Prefixes::of(build, spec, context)?;
        let Admissible { probed, pairs, common, sizes } = Admissible::of(build, spec);
        let (sets, tokens) = (f64::from(build.len()), build.token_count() as f64);
        Ok(Self {
            sets,
            probed,
            tokens,
            probe_tokens: tokens * probed / sets.max(1.0),
            admissible_pairs: pairs,
            candidate_size: if common > 0.0 { sizes / common } else { 0.0 },
            indexed,
            lookups,
            postings,
            list_length: listed / lookups.max(1.0),
            threads: context.threads.count(),
        })
    }

    /// The figures for so many times as many probe sets, which are like the build sets.
    pub(crate) fn with_probes(self, times: f64) -> Self {
        Self {
            probed: times * self.probed,
            probe_tokens: times * self.probe_tokens,
            admissible_pairs: times * self.admissible_pairs,
            lookups: times * self.lookups,
            postings: times * self.postings,
            ..self
        }
    }

    /// The tokens of the sets that a join signs.
    pub(crate) fn signed_tokens(&self, spec: &JoinSpec) -> f64 {
        match spec.pairing {
            Pairing::All => self.tokens + self.probe_tokens,
            // The probe sets have their signatures already.
            Pairing::Unordered => self.tokens,
        }
    }

    /// Tokens of an average set.
    pub fn average_size(&self) -> f64 {
        self.tokens / self.sets.max(1.0)
    }
}

/// Indexed tokens, lookups, the postings in the lists looked up, and those of admissible size.
struct Prefixes {
    indexed: f64,
    lookups: f64,
    listed: f64,
    postings: f64,
}

impl Prefixes {
    fn of(build: &SetCollection, spec: &JoinSpec, context: PrepareContext<'_>) -> Result<Self> {
        let bytes = build.universe() as usize * size_of::<u32>();
        context.reservation.try_grow(bytes)?;
        let mut counts = vec![0_u32; build.universe() as usize];
        let tokens = build.token_count();
        let counted = (tokens / COUNTED).clamp(COUNTED_TOKENS.start, COUNTED_TOKENS.end);
        let step = tokens.div_ceil(counted).max(1);
        let mut indexed = 0.0;
        for (run, sets) in build.runs().iter() {
            context.cancel.check()?;
            // The same residues in every run, so that short ones are not left out.
            let offset = (step - sets.start as usize % step) % step;
            if offset >= sets.len() {
                continue;
            }
            let prefix = spec.indexed_prefix(run.size) as usize;
            for set in sets.skip(offset).step_by(step) {
                let tokens = build.tokens(set);
                let prefix = &tokens[..tokens.len().min(prefix)];
                indexed += prefix.len() as f64;
                prefix.iter().for_each(|&t| counts[t as usize] += 1);
            }
        }
        let probes = (build.len() / PROBED).clamp(PROBES.start, PROBES.end);
        let sample = Evenly::new(build.len(), probes);
        let (mut lookups, mut listed, mut postings) = (0.0, 0.0, 0.0);
        let mut run = None;
        for probe in sample.iter() {
            if run.as_ref().is_none_or(|run: &ProbedRun| !run.ids.contains(&probe)) {
                run = ProbedRun::of(build, spec, probe);
            }
            let Some(ProbedRun { partners, prefix, .. }) = &run else { continue };
            let unordered = spec.pairing == Pairing::Unordered;
            let end = if unordered { partners.end.min(probe) } else { partners.end };
            if end <= partners.start {
                continue;
            }
            let share = f64::from(end - partners.start) / f64::from(build.len());
            let tokens = build.tokens(probe);
            let prefix = &tokens[..tokens.len().min(*prefix as usize)];
            lookups += prefix.len() as f64;
            // Of a long prefix, one token of several.
            let every = prefix.len().div_ceil(LOOKED_UP).max(1);
            let found = prefix.iter().step_by(every).map(|&t| f64::from(counts[t as usize]));
            let found = every as f64 * found.sum::<f64>();
            listed += found;
            postings += share * found;
        }
        drop(counts);
        context.reservation.shrink(bytes);
        let (step, sample_step) = (step as f64, f64::from(sample.step()));
        Ok(Self {
            indexed: indexed * step,
            lookups: lookups * sample_step,
            listed: listed * step * sample_step,
            postings: postings * step * sample_step,
        })
    }
}

/// Probe sets of one key and size.
struct ProbedRun {
    ids: Range<SetId>,
    /// The sets that match one of them by key and size.
    partners: Range<SetId>,
    /// The length of their prefixes.
    prefix: u32,
}

impl ProbedRun {
    /// The run of a set; `None` where it has no partners.
    fn of(build: &SetCollection, spec: &JoinSpec, probe: SetId) -> Option<Self> {
        let (run, ids) = build.runs().of_set(probe)?;
        let (least, greatest) = spec.partner_sizes(run.size)?;
        let least = least.max(build.runs().least_size());
        let prefix = spec.bounds.prefix_len(spec.probe_role, run.size, least);
        Some(Self { ids, partners: build.runs().sets(run.key, least, greatest), prefix })
    }
}

/// The sets and pairs whose sizes and keys admit a match.
#[derive(Debug, Default)]
struct Admissible {
    /// Sets that have partners.
    probed: f64,
    pairs: f64,
    /// The pairs, each by the tokens that it would have in common by chance but for a factor, and
    /// the sum of their sizes by the same.
    common: f64,
    sizes: f64,
}

impl Admissible {
    fn of(build: &SetCollection, spec: &JoinSpec) -> Self {
        let mut sum = Self::default();
        // With blocking keys there are about as many runs as sets: one of several will do.
        let step = build.runs().len().div_ceil(RUNS).max(1);
        for (run, ids) in build.runs().iter().skip(step / 2).step_by(step) {
            let Some((least, greatest)) = spec.partner_sizes(run.size) else {
                continue;
            };
            let sets = build.runs().sets(run.key, least, greatest);
            if sets.is_empty() {
                continue;
            }
            let (probes, size) = (ids.len() as f64, f64::from(run.size));
            let pairs = probes
                * match spec.pairing {
                    Pairing::All => sets.len() as f64,
                    Pairing::Unordered => {
                        f64::from(ids.start.saturating_sub(sets.start)) + probes / 2.0
                    }
                };
            sum.probed += probes;
            sum.pairs += pairs;
            sum.common += pairs * size * size;
            sum.sizes += pairs * size * size * size;
        }
        let step = step as f64;
        Self { probed: sum.probed * step, pairs: sum.pairs * step, ..sum }
    }
}
