//! Figures of a collection, from which the costs of joining it are estimated.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;

use crate::engine::Pairing;
use crate::set::filter::size_bounds::{SizeBounds, SizeBoundsCache};
use crate::set::filter::{Every, SignatureScheme, SuffixTest, indexed_prefix};
use crate::set::{JoinSpec, PrepareContext};
use crate::set::{SetCollection, SetId};

/// Sets whose prefixes are looked up in the counts of all prefixes.
const PROBES: u32 = 1024;
/// Sets of the pool whose pairs are tried, and tokens in all of them, about.
const POOL: u32 = 320;
const TOKENS: u32 = 1 << 16;
/// Partners of a set of the pool under which postings are tried, and how many of these, about.
const SUFFIX_PAIRS: usize = 12;
const POSTINGS: f64 = 4096.0;
/// Prefix tokens beyond this number are counted in a sample of the sets.
const COUNTED: usize = 1 << 16;

/// Figures of a join of a collection with one like it: in a self-join, with itself.
#[derive(Debug, Clone)]
pub struct Statistics {
    pub sets: f64,
    /// Tokens in all sets.
    pub tokens: f64,
    /// Pairs of sets whose blocking keys and sizes admit a match.
    pub admissible_pairs: f64,
    /// Tokens in indexed prefixes.
    pub indexed: f64,
    /// Posting lists looked up, and the postings of admissible size in them.
    pub lookups: f64,
    pub postings: f64,
    /// Threads that share the work of the CPU, at least 1.
    pub threads: usize,
    /// Whether every token owns a bit of a signature, so that signatures decide.
    pub exact_signatures: bool,
    sampled: Option<Sampled>,
}

/// Shares of sampled pairs.
#[derive(Debug, Clone)]
struct Sampled {
    scheme: SignatureScheme,
    /// By number of words, from 1 on: admissible pairs that the first words of their signatures
    /// let pass.
    signatures: Vec<f64>,
    /// By place in [`SuffixTest::WIDTHS`]: postings that pass.
    suffixes: [f64; SuffixTest::WIDTHS.len()],
    /// By the same place: of these postings, those whose sets' signatures let the pair pass.
    signed: [f64; SuffixTest::WIDTHS.len()],
}

impl Statistics {
    /// Gathers the figures that a pass over the prefixes gives.
    pub fn gather(
        build: &SetCollection,
        spec: &JoinSpec,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let mut cache = cache(build, spec);
        let (indexed, lookups, postings) = prefix_figures(build, spec, &mut cache, context)?;
        Ok(Self {
            sets: f64::from(build.len()),
            tokens: build.token_count() as f64,
            admissible_pairs: admissible_pairs(build, spec),
            indexed,
            lookups,
            postings,
            threads: context.threads,
            exact_signatures: SignatureScheme::exact_words(build).is_some(),
            sampled: None,
        })
    }

    /// Tries pairs of sets: some hundred microseconds, worth it where a join takes milliseconds.
    pub fn sample(&mut self, build: &SetCollection, spec: &JoinSpec) {
        self.sampled = Some(Sampled::draw(build, spec, self));
    }

    /// Tokens of an average set.
    pub fn average_size(&self) -> f64 {
        self.tokens / self.sets.max(1.0)
    }

    /// The share of admissible pairs that the first `words` words of their signatures let pass;
    /// 0 where nothing was sampled.
    pub fn signature_share(&self, words: usize) -> f64 {
        self.sampled.as_ref().map_or(0.0, |s| s.signatures.get(words - 1).copied().unwrap_or(0.0))
    }

    /// How signatures are made.
    pub fn scheme(&self, build: &SetCollection) -> SignatureScheme {
        match &self.sampled {
            Some(sampled) => sampled.scheme.clone(),
            None => SignatureScheme::fit(build),
        }
    }

    /// Words of a signature.
    pub fn signature_words(&self) -> usize {
        self.sampled.as_ref().map_or(1, |s| s.scheme.words())
    }

    /// The share of postings that pass with signatures of `SuffixTest::WIDTHS[width]` words.
    pub fn suffix_share(&self, width: usize) -> f64 {
        match &self.sampled {
            Some(sampled) => sampled.suffixes[width],
            None => expected_share(self.average_size(), SuffixTest::WIDTHS[width]),
        }
    }

    /// The share of these whose sets' signatures let the pair pass.
    pub fn signed_share(&self, width: usize) -> f64 {
        self.sampled.as_ref().map_or(0.5, |s| s.signed[width])
    }
}

impl Sampled {
    fn draw(build: &SetCollection, spec: &JoinSpec, statistics: &Statistics) -> Self {
        let scheme = SignatureScheme::fit(build);
        let words = scheme.words();
        // Fewer sets suffice where they are large: the tokens tried are bounded.
        let average = (statistics.average_size() as u32).max(1);
        let step = build.len().div_ceil(POOL.min(TOKENS / average).max(16)).max(1);
        let tries = POSTINGS.min(f64::from(16 * TOKENS / average)).max(16.0);
        let pool: Vec<SetId> = (step / 2..build.len()).step_by(step as usize).collect();
        let mut signatures = vec![0; pool.len() * words];
        for (&set, signature) in pool.iter().zip(signatures.chunks_exact_mut(words)) {
            scheme.sign(build.tokens(set), signature);
        }
        let signature = |place: usize| &signatures[place * words..][..words];
        let mut passing = vec![0_u64; words];
        let mut suffixes = [0_u64; SuffixTest::WIDTHS.len()];
        let mut signed = [0_u64; SuffixTest::WIDTHS.len()];
        let (mut pairs, mut met) = (0_u64, 0_u64);
        let mut cache = cache(build, spec);
        // Where pairs share many prefix tokens, the sample takes one token in several.
        let expected = statistics.postings / statistics.admissible_pairs.max(1.0)
            * (pool.len() * SUFFIX_PAIRS) as f64;
        let mut every = Every::new((expected / tries) as u32 + 1);
        for (i, &probe) in pool.iter().enumerate() {
            let Some((partners, bounds)) = partners(build, spec, &mut cache, probe) else {
                continue;
            };
            let first = pool.partition_point(|&s| s < partners.start);
            let end = pool.partition_point(|&s| s < partners.end);
            let step = (end - first) / SUFFIX_PAIRS + 1;
            for (j, &partner) in pool.iter().enumerate().take(end).skip(first) {
                let required = bounds.required(build.size(partner));
                let mut common = 0;
                let mut rest = [build.size(probe), build.size(partner)];
                let mut passes_all = false;
                pairs += 1;
                for (word, (a, b)) in signature(i).iter().zip(signature(j)).enumerate() {
                    common += (a & b).count_ones();
                    rest[0] -= a.count_ones();
                    rest[1] -= b.count_ones();
                    passes_all = common + rest[0].min(rest[1]) >= required;
                    passing[word] += u64::from(passes_all);
                }
                if (i + j) % step == 0 {
                    let every = &mut every;
                    SuffixTest::postings(build, spec, &bounds, probe, partner, every, |passes| {
                        met += 1;
                        for (width, pass) in passes.into_iter().enumerate() {
                            suffixes[width] += u64::from(pass);
                            signed[width] += u64::from(pass && passes_all);
                        }
                    });
                }
            }
        }
        let pairs = pairs.max(1) as f64;
        Self {
            scheme,
            signatures: passing.into_iter().map(|p| p as f64 / pairs).collect(),
            // Few postings say little beyond the expected share.
            suffixes: std::array::from_fn(|w| {
                let expected = expected_share(statistics.average_size(), SuffixTest::WIDTHS[w]);
                (suffixes[w] as f64 + 16.0 * expected) / (met as f64 + 16.0)
            }),
            signed: std::array::from_fn(|w| (signed[w] as f64 + 1.0) / (suffixes[w] as f64 + 2.0)),
        }
    }
}

/// The expected share of postings that pass with signatures of `words` words, without a sample.
fn expected_share(average_size: f64, words: usize) -> f64 {
    match words {
        0 => 0.7,
        words => 0.1 * (average_size / (32 * words) as f64).min(1.0),
    }
}

fn cache(build: &SetCollection, spec: &JoinSpec) -> SizeBoundsCache {
    let sizes = (build.runs().least_size(), build.runs().greatest_size());
    SizeBoundsCache::new(spec.bounds, spec.probe_role, sizes)
}

/// The build sets that a set of the collection itself would be compared with.
fn partners(
    build: &SetCollection,
    spec: &JoinSpec,
    cache: &mut SizeBoundsCache,
    probe: SetId,
) -> Option<(Range<SetId>, Arc<SizeBounds>)> {
    let (run, _) = build.runs().of_set(probe)?;
    let bounds = cache.get(run.size)?;
    let sets = build.runs().sets(run.key, bounds.least, bounds.greatest);
    let end = if spec.pairing == Pairing::Unordered { sets.end.min(probe) } else { sets.end };
    (sets.start < end).then_some((sets.start..end, bounds))
}

/// Indexed tokens, lookups and postings.
fn prefix_figures(
    build: &SetCollection,
    spec: &JoinSpec,
    cache: &mut SizeBoundsCache,
    context: PrepareContext<'_>,
) -> Result<(f64, f64, f64)> {
    let bytes = build.universe() as usize * size_of::<u32>();
    context.reservation.try_grow(bytes)?;
    let mut counts = vec![0_u32; build.universe() as usize];
    let step = build.token_count().div_ceil(COUNTED).max(1);
    let mut indexed = 0.0;
    for (run, sets) in build.runs().iter() {
        context.cancel.check()?;
        let prefix = indexed_prefix(spec, run.size) as usize;
        // The same residues in every run, so that short ones are not left out.
        let offset = (step - sets.start as usize % step) % step;
        for set in sets.skip(offset).step_by(step) {
            let tokens = build.tokens(set);
            let prefix = &tokens[..tokens.len().min(prefix)];
            indexed += prefix.len() as f64;
            prefix.iter().for_each(|&t| counts[t as usize] += 1);
        }
    }
    let sample_step = build.len().div_ceil(PROBES).max(1);
    let (mut lookups, mut postings) = (0.0, 0.0);
    for probe in (sample_step / 2..build.len()).step_by(sample_step as usize) {
        let Some((sets, bounds)) = partners(build, spec, cache, probe) else {
            continue;
        };
        let share = sets.len() as f64 / f64::from(build.len());
        let tokens = build.tokens(probe);
        let prefix = &tokens[..tokens.len().min(bounds.prefix as usize)];
        lookups += prefix.len() as f64;
        postings += share * prefix.iter().map(|&t| f64::from(counts[t as usize])).sum::<f64>();
    }
    drop(counts);
    context.reservation.shrink(bytes);
    let (step, sample_step) = (step as f64, f64::from(sample_step));
    Ok((indexed * step, lookups * sample_step, postings * step * sample_step))
}

/// Pairs of sets whose sizes and keys admit a match.
fn admissible_pairs(build: &SetCollection, spec: &JoinSpec) -> f64 {
    let mut pairs = 0.0;
    let sizes = (build.runs().least_size(), build.runs().greatest_size());
    for (run, ids) in build.runs().iter() {
        let Some((least, greatest)) = spec.bounds.size_range(spec.probe_role, run.size) else {
            continue;
        };
        let sets = build.runs().sets(run.key, least.max(sizes.0), greatest.min(sizes.1));
        let probes = ids.len() as f64;
        pairs += probes
            * match spec.pairing {
                Pairing::All => sets.len() as f64,
                Pairing::Unordered => {
                    f64::from(ids.start.saturating_sub(sets.start)) + probes / 2.0
                }
            };
    }
    pairs
}
