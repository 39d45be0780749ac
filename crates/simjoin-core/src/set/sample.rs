//! Pairs of a sample of sets, tried by the tests of the filters.

use std::ops::Range;

use parking_lot::Mutex;

use crate::engine::{PrepareContext, SAMPLE_SHARE};
use crate::error::Result;
use crate::set::collection::SetCollection;
use crate::set::filter::size_bounds::{SizeBoundsCache, partners};
use crate::set::filter::{Every, SignatureScheme, SuffixTest};
use crate::set::join_spec::JoinSpec;
use crate::set::runs::SetId;
use crate::set::statistics::Statistics;
use crate::simd::{Words, kernels};
use crate::util::evenly::Evenly;
use crate::util::parallel::{Threads, for_each, map, threads_for};

/// Sets of the pool whose pairs are tried (of a brief sample the fewest), and tokens in all of them, about.
const POOL: (f64, f64) = (48.0, 320.0);
const TOKENS: u32 = 1 << 16;
/// Nanoseconds of trying a pair.
const PAIR: f64 = 15.0;
/// Partners of a set of the pool under which postings are tried, and how many of these, about; tokens
/// that finding the postings passes at most, and the nanoseconds of passing one.
const SUFFIX_PAIRS: usize = 12;
const POSTINGS: f64 = 4096.0;
const PASSED: (f64, f64) = (8e3, 2e6);
const PASS: f64 = 5.0;

/// The number of widths that the signatures of postings may have.
const WIDTHS: usize = SuffixTest::WIDTHS.len();

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
            SampleExtent::Brief => POOL.0 as u32,
            SampleExtent::Full => {
                (2.0 * SAMPLE_SHARE * estimate / PAIR).sqrt().clamp(POOL.0, POOL.1) as u32
            }
        };
        let wanted = affordable.min(TOKENS / average).max(16);
        let sets: Vec<SetId> = Evenly::new(build.len(), wanted).iter().collect();
        // Where pairs share many prefix tokens, the sample takes one token in several.
        let tries = POSTINGS.min(f64::from(16 * TOKENS / average)).max(16.0);
        let passed = 2 * sets.len().max(1) * average as usize;
        let affordable = (SAMPLE_SHARE * estimate / PASS).clamp(PASSED.0, PASSED.1);
        let most = if extent == SampleExtent::Brief { 0 } else { SUFFIX_PAIRS };
        let suffix_pairs = (affordable as usize / passed).min(most);
        let expected = statistics.postings / statistics.admissible_pairs.max(1.0)
            * (sets.len() * suffix_pairs) as f64;
        let signatures = PoolSignatures::of(build, &scheme, &sets, context.threads)?;
        let every = (expected / tries) as u32 + 1;
        let pool = Pool { signatures, every, suffix_pairs, sets };
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
    signatures: PoolSignatures,
    /// One common token in this many is tried as a posting.
    every: u32,
    /// Partners of a set under which postings are tried, about.
    suffix_pairs: usize,
}

/// The signatures of the sets of a pool: each word of all sets together.
struct PoolSignatures {
    words: Vec<Vec<u64>>,
    /// By word and set, the tokens whose bits are not among this word and those before it.
    rest: Vec<Vec<u32>>,
}

impl PoolSignatures {
    fn of(
        build: &SetCollection,
        scheme: &SignatureScheme,
        sets: &[SetId],
        threads: Threads,
    ) -> Result<Self> {
        let tokens = sets.iter().map(|set| build.size(*set) as usize).sum();
        let threads = threads_for(threads, tokens);
        let share = sets.len().div_ceil(threads.count()).max(1);
        let count = scheme.words();
        let signed = map(threads, sets.chunks(share).collect(), |share: &[SetId]| {
            let mut signatures = vec![0; share.len() * count];
            for (&set, signature) in share.iter().zip(signatures.chunks_exact_mut(count)) {
                scheme.sign(build.tokens(set), signature);
            }
            Ok(signatures)
        })?;
        let signed = signed.concat();
        let word = |word: usize| signed.iter().copied().skip(word).step_by(count).collect();
        let words: Vec<Vec<u64>> = (0..count).map(word).collect();
        let mut left: Vec<u32> = sets.iter().map(|set| build.size(*set)).collect();
        let rest = words.iter().map(|words| {
            left.iter_mut().zip(words).for_each(|(left, word)| *left -= word.count_ones());
            left.clone()
        });
        let rest = rest.collect();
        Ok(Self { words, rest })
    }

    fn count(&self) -> usize {
        self.words.len()
    }
}

kernels! {
    /// Adds the bits that a word of a set shares with each partner's to `common`. Returns how many pairs may have the
    /// required overlap: `rest` tokens of the set and `of_partners` of each partner are in no word so far.
    fn pass_word[S: Words,](
        word: u64,
        partners: &[u64],
        rest: u32,
        of_partners: &[u32],
        required: &[u32],
        common: &mut [u32],
    ) -> u64 {
        let pairs = partners.iter().zip(of_partners).zip(required.iter().zip(common));
        let passing = pairs.map(|((partner, of_partner), (required, common))| {
            *common += (word & partner).count_ones();
            u32::from(*common + rest.min(*of_partner) >= *required)
        });
        u64::from(passing.sum::<u32>())
    }
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
        /// Sets that a thread takes at a time: neighbours have the same bounds.
        const SHARE: usize = 16;
        let count = self.sets.len();
        let steps = count * count / 2 * (4 + self.signatures.count());
        let threads = threads_for(context.threads, steps);
        let sum = Mutex::new(Tally::new(self.signatures.count()));
        // The greatest sets have the most partners: they come first.
        let shares = (0..count).step_by(SHARE).rev().collect();
        for_each(threads, shares, |first| {
            let mut tries = Tries {
                pool: self,
                build,
                spec,
                cache: SizeBoundsCache::without_tables(spec, build.runs()),
                required: vec![],
                common: vec![],
                tally: Tally::new(self.signatures.count()),
            };
            for probe in first..count.min(first + SHARE) {
                context.cancel.check()?;
                tries.try_set(probe);
            }
            sum.lock().add(&tries.tally);
            Ok(())
        })?;
        Ok(sum.into_inner())
    }
}

/// The tries of some sets of a pool with the others.
struct Tries<'a> {
    pool: &'a Pool,
    build: &'a SetCollection,
    spec: &'a JoinSpec,
    cache: SizeBoundsCache,
    /// By partner of the set that is tried: the overlap that the pair needs, and the common bits so far.
    required: Vec<u32>,
    common: Vec<u32>,
    tally: Tally,
}

impl Tries<'_> {
    /// Tries the set at place `i` with its partners in the pool.
    fn try_set(&mut self, i: usize) {
        let Pool { sets, signatures, every, suffix_pairs } = self.pool;
        let (build, spec, probe) = (self.build, self.spec, self.pool.sets[i]);
        let Some((partners, bounds)) = partners(build, spec, &mut self.cache, probe) else {
            return;
        };
        let first = sets.partition_point(|&s| s < partners.start);
        let end = sets.partition_point(|&s| s < partners.end);
        // Other probe sets come in its place: itself it would meet at every token.
        for others in [first..end.min(i), first.max(i + 1)..end] {
            self.pass_words(i, others);
        }
        if *suffix_pairs == 0 {
            return;
        }
        let step = (end - first) / suffix_pairs + 1;
        // No set begins at the same token as its neighbours.
        let mut every = Every::new(*every, i as u32);
        let last = signatures.count() - 1;
        for j in (first..end).filter(|&j| j != i && (i + j).is_multiple_of(step)) {
            let common = signatures.words.iter().map(|words| (words[i] & words[j]).count_ones());
            let rest = signatures.rest[last][i].min(signatures.rest[last][j]);
            let signed = common.sum::<u32>() + rest >= bounds.required(build.size(sets[j]));
            let tally = &mut self.tally;
            SuffixTest::postings(build, spec, &bounds, probe, sets[j], &mut every, |passes| {
                tally.met += 1;
                for (width, pass) in passes.into_iter().enumerate() {
                    tally.suffixes[width] += u64::from(pass);
                    tally.signed[width] += u64::from(pass && signed);
                }
            });
        }
    }

    /// Tries the signatures of the set at place `i` and of the partners at some places.
    fn pass_words(&mut self, i: usize, others: Range<usize>) {
        if others.is_empty() {
            return;
        }
        let Pool { sets, signatures, .. } = self.pool;
        let (bounds, role) = (&self.spec.bounds, self.spec.probe_role);
        let size = self.build.size(sets[i]);
        self.required.clear();
        // Partners have one key, and rising sizes.
        let (mut last, mut overlap) = (0, 1);
        self.required.extend(sets[others.clone()].iter().map(|&partner| {
            let partner = self.build.size(partner);
            if partner != last {
                overlap = bounds.min_overlap_from(role, size, partner, overlap);
                last = partner;
            }
            overlap
        }));
        self.common.clear();
        self.common.resize(others.len(), 0);
        self.tally.pairs += others.len() as u64;
        let of_words = signatures.words.iter().zip(&signatures.rest);
        for ((words, rest), passing) in of_words.zip(&mut self.tally.passing) {
            *passing += pass_word(
                self.spec.simd,
                words[i],
                &words[others.clone()],
                rest[i],
                &rest[others.clone()],
                &self.required,
                &mut self.common,
            );
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
    use crate::util::parallel::Threads;

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
