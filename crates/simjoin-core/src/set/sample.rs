//! Pairs of a sample of sets, tried by the tests of the filters.

use parking_lot::Mutex;

use crate::engine::PrepareContext;
use crate::error::Result;
use crate::set::collection::SetCollection;
use crate::set::filter::size_bounds::{SizeBoundsCache, partners};
use crate::set::filter::{Every, SignatureScheme, SuffixTest};
use crate::set::join_spec::JoinSpec;
use crate::set::runs::SetId;
use crate::set::statistics::Statistics;
use crate::util::evenly::Evenly;
use crate::util::parallel::{for_each, threads_for};

/// Sets of the pool whose pairs are tried, and tokens in all of them, about.
const POOL: (f64, f64) = (48.0, 320.0);
const TOKENS: u32 = 1 << 16;
/// Nanoseconds of trying a pair, and the share of a join's time that the tries may take.
const PAIR: f64 = 15.0;
const SHARE: f64 = 0.01;
/// Partners of a set of the pool under which postings are tried, and how many of these, about; tokens
/// that finding the postings passes at most, and the nanoseconds of passing one.
const SUFFIX_PAIRS: usize = 12;
const POSTINGS: f64 = 4096.0;
const PASSED: (f64, f64) = (8e3, 2e6);
const PASS: f64 = 5.0;

/// The number of widths that the signatures of postings may have.
const WIDTHS: usize = SuffixTest::WIDTHS.len();

/// Sets of the pool of a brief sample.
const BRIEF_POOL: u32 = 48;

/// The extent of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SampleExtent {
    /// Signatures of few sets.
    Brief,
    /// Signatures and postings.
    Full,
}

/// Shares of sampled pairs.
#[derive(Debug, Clone)]
pub(super) struct Sampled {
    pub scheme: SignatureScheme,
    /// By number of words, from 1 on: admissible pairs that the first words of their signatures
    /// let pass.
    pub signatures: Vec<f64>,
    /// By place in [`SuffixTest::WIDTHS`]: postings that pass.
    pub suffixes: [f64; WIDTHS],
    /// By the same place: of these postings, those whose sets' signatures let the pair pass.
    pub signed: [f64; WIDTHS],
}

impl Sampled {
    pub(super) fn draw(
        build: &SetCollection,
        spec: &JoinSpec,
        statistics: &Statistics,
        (estimate, extent): (f64, SampleExtent),
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let scheme = SignatureScheme::fit(build);
        // Fewer sets suffice where they are large: the tokens tried are bounded.
        let average = (statistics.average_size() as u32).max(1);
        let affordable = match extent {
            SampleExtent::Brief => BRIEF_POOL,
            SampleExtent::Full => {
                (2.0 * SHARE * estimate / PAIR).sqrt().clamp(POOL.0, POOL.1) as u32
            }
        };
        let wanted = affordable.min(TOKENS / average).max(16);
        let sets: Vec<SetId> = Evenly::new(build.len(), wanted).iter().collect();
        // Where pairs share many prefix tokens, the sample takes one token in several.
        let tries = POSTINGS.min(f64::from(16 * TOKENS / average)).max(16.0);
        let passed = 2 * sets.len().max(1) * average as usize;
        let affordable = (SHARE * estimate / PASS).clamp(PASSED.0, PASSED.1);
        let most = if extent == SampleExtent::Brief { 0 } else { SUFFIX_PAIRS };
        let suffix_pairs = (affordable as usize / passed).min(most);
        let expected = statistics.postings / statistics.admissible_pairs.max(1.0)
            * (sets.len() * suffix_pairs) as f64;
        let mut signatures = vec![0; sets.len() * scheme.words()];
        for (&set, signature) in sets.iter().zip(signatures.chunks_exact_mut(scheme.words())) {
            scheme.sign(build.tokens(set), signature);
        }
        let pool = Pool {
            signatures,
            words: scheme.words(),
            every: (expected / tries) as u32 + 1,
            suffix_pairs,
            sets,
        };
        let tally = pool.try_all(build, spec, context)?;
        let pairs = tally.pairs.max(1) as f64;
        let (suffixes, signed) = (tally.suffixes, tally.signed);
        Ok(Self {
            scheme,
            signatures: tally.passing.into_iter().map(|p| p as f64 / pairs).collect(),
            // Few postings say little beyond the expected share.
            suffixes: std::array::from_fn(|w| {
                let expected = expected_share(statistics.average_size(), SuffixTest::WIDTHS[w]);
                (suffixes[w] as f64 + 16.0 * expected) / (tally.met as f64 + 16.0)
            }),
            signed: std::array::from_fn(|w| (signed[w] as f64 + 1.0) / (suffixes[w] as f64 + 2.0)),
        })
    }
}

/// Some sets, evenly drawn, and their signatures.
struct Pool {
    sets: Vec<SetId>,
    signatures: Vec<u64>,
    words: usize,
    /// One common token in this many is tried as a posting.
    every: u32,
    /// Partners of a set under which postings are tried, about.
    suffix_pairs: usize,
}

/// Pairs and postings that were tried, and those that passed.
struct Tally {
    pairs: u64,
    /// The pairs that pass, by the number of words tested.
    passing: Vec<u64>,
    /// Postings met, and by width those that pass, and that the signatures let pass, too.
    met: u64,
    suffixes: [u64; WIDTHS],
    signed: [u64; WIDTHS],
}

impl Tally {
    fn new(words: usize) -> Self {
        let [suffixes, signed] = [[0; WIDTHS]; 2];
        Self { pairs: 0, passing: vec![0; words], met: 0, suffixes, signed }
    }

    fn add(&mut self, other: &Self) {
        let add = |sums: &mut [u64], parts: &[u64]| {
            sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        };
        self.pairs += other.pairs;
        self.met += other.met;
        add(&mut self.passing, &other.passing);
        add(&mut self.suffixes, &other.suffixes);
        add(&mut self.signed, &other.signed);
    }
}

impl Pool {
    fn try_all(
        &self,
        build: &SetCollection,
        spec: &JoinSpec,
        context: PrepareContext<'_>,
    ) -> Result<Tally> {
        let steps = self.sets.len() * self.sets.len() / 2 * (4 + self.words);
        let threads = threads_for(context.threads, steps);
        let sum = Mutex::new(Tally::new(self.words));
        // Sets far from each other have about the same work in sum.
        for_each(threads, (0..threads.count()).collect(), |first| {
            let mut cache = SizeBoundsCache::new(spec, build.runs());
            let mut tally = Tally::new(self.words);
            for probe in (first..self.sets.len()).step_by(threads.count()) {
                context.cancel.check()?;
                self.try_set(build, spec, &mut cache, probe, &mut tally);
            }
            sum.lock().add(&tally);
            Ok(())
        })?;
        Ok(sum.into_inner())
    }

    fn signature(&self, place: usize) -> &[u64] {
        &self.signatures[place * self.words..][..self.words]
    }

    /// Tries the set at place `i` with its partners in the pool.
    fn try_set(
        &self,
        build: &SetCollection,
        spec: &JoinSpec,
        cache: &mut SizeBoundsCache,
        i: usize,
        tally: &mut Tally,
    ) {
        let probe = self.sets[i];
        let Some((partners, bounds)) = partners(build, spec, cache, probe) else { return };
        let first = self.sets.partition_point(|&s| s < partners.start);
        let end = self.sets.partition_point(|&s| s < partners.end);
        let step = (end - first) / self.suffix_pairs.max(1) + 1;
        // No set begins at the same token as its neighbours.
        let mut every = Every::new(self.every, i as u32);
        for (j, &partner) in self.sets.iter().enumerate().take(end).skip(first) {
            if i == j {
                // Other probe sets come in its place: itself it would meet at every token.
                continue;
            }
            let required = bounds.required(build.size(partner));
            let mut common = 0;
            let mut rest = [build.size(probe), build.size(partner)];
            let mut passes_all = false;
            tally.pairs += 1;
            for (word, (a, b)) in self.signature(i).iter().zip(self.signature(j)).enumerate() {
                common += (a & b).count_ones();
                rest[0] -= a.count_ones();
                rest[1] -= b.count_ones();
                passes_all = common + rest[0].min(rest[1]) >= required;
                tally.passing[word] += u64::from(passes_all);
            }
            if self.suffix_pairs > 0 && (i + j).is_multiple_of(step) {
                let every = &mut every;
                SuffixTest::postings(build, spec, &bounds, probe, partner, every, |passes| {
                    tally.met += 1;
                    for (width, pass) in passes.into_iter().enumerate() {
                        tally.suffixes[width] += u64::from(pass);
                        tally.signed[width] += u64::from(pass && passes_all);
                    }
                });
            }
        }
    }
}

/// The expected share of postings that pass with signatures of `words` words, without a sample.
pub(super) fn expected_share(average_size: f64, words: usize) -> f64 {
    match words {
        0 => 0.7,
        words => 0.1 * (average_size / (32 * words) as f64).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use crate::util::parallel::Threads;
    use std::sync::Arc;

    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use rand::seq::index;

    use crate::engine::{Pairing, PrepareContext};
    use crate::set::filter::SuffixTest;
    use crate::set::measure::Measure;
    use crate::set::strategies::join;
    use crate::set::tests::harness::{Rows, Sides, reservation, spec};
    use crate::util::cancel::CancelFlag;

    /// Few signatures are tried where their strategy might win a short join, and tell that most pairs of sets of
    /// the same few tokens pass.
    #[test]
    fn a_brief_sample_tells_that_signatures_reject_little() {
        let mut rng = StdRng::seed_from_u64(48);
        let row = |rng: &mut StdRng| {
            (0, index::sample(rng, 40, 20).into_iter().map(|t| t as u32).collect())
        };
        let rows: Rows = (0..3000).map(|_| row(&mut rng)).collect();
        let sides = Sides::two("few tokens", &rows, &vec![]);
        let (reservation, cancel) = (reservation(), CancelFlag::default());
        let context = PrepareContext::new(&reservation, &cancel, Threads::small(1));
        let spec = spec(Measure::Jaccard, 0.3, Pairing::All);
        let mut join = join(Arc::clone(&sides.build), spec, 1.0, context).unwrap();
        assert!(join.quickest > 5e5, "{}", join.quickest);
        join.sample_signatures(3.0 * join.quickest, context).unwrap();
        assert!(!join.is_sampled());
        let (share, width) = (join.suffix_share(1), join.signed_share(1));
        join.sample_signatures(0.1 * join.quickest, context).unwrap();
        assert!(join.is_sampled());
        let passing = join.signature_share(join.signature_words());
        assert!(passing > 0.5, "{passing}");
        // Of postings nothing more is known.
        assert!((join.suffix_share(1) - share).abs() < 1e-9);
        assert!((join.signed_share(1) - width).abs() < 1e-9);
    }

    /// Probe sets are taken to be like those of the build side, not the same ones: of sets that are all
    /// different, no pair passes.
    #[test]
    fn a_set_is_no_sample_of_its_partners() {
        let mut rng = StdRng::seed_from_u64(47);
        let row = |rng: &mut StdRng| {
            (0, index::sample(rng, 4000, 60).into_iter().map(|t| t as u32).collect())
        };
        let rows: Rows = (0..200).map(|_| row(&mut rng)).collect();
        let sides = Sides::two("different sets", &rows, &vec![]);
        let join = sides.join(&spec(Measure::Jaccard, 0.8, Pairing::All));
        assert_eq!(join.signature_share(join.signature_words()), 0.0);
        let share = join.suffix_share(SuffixTest::WIDTHS.len() - 1);
        assert!(share < 0.2, "{share}");
    }
}
