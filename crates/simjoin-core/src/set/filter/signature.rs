//! Bitmap signatures of sets, and the bound on the overlap that they give.
//!
//! A signature has a bit of its own for each of the most frequent tokens (*owned* bits) and shares
//! the rest among the rarer ones by a hash (*hashed* bits). The owned bits of two sets count their
//! common frequent tokens exactly. Of the rare tokens, `r` here and `r'` there, whose bits number
//! `h` and `h'`, at most `min(r - h, r' - h') + popcount(and of the hashed bits)` are common:
//! tokens that share a bit with another one of their set cannot be told apart, all others need a
//! common bit (after Sandes, Teodoro, Melo: "Bitmap filter: speeding up exact set similarity joins
//! with bitwise operations", Information Systems 2020).

use std::mem::size_of;

use crate::engine::PrepareContext;
use crate::error::Result;
use crate::memory::copies;
use crate::set::collection::SetCollection;
use crate::set::runs::SetId;
use crate::simd::prefetch;
use crate::util::evenly::Evenly;
use crate::util::parallel::{for_each, threads_for};

/// Words of a signature at most.
pub(crate) const MAX_WORDS: usize = 16;
const WORD: usize = u64::BITS as usize;
/// Bytes of a line of the caches.
const LINE: usize = 64;
/// Sets and tokens looked at to learn how frequent tokens are, about.
const SAMPLE: usize = 8192;
const SAMPLE_TOKENS: usize = 1 << 17;

/// The map from tokens to bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureScheme {
    /// The bit of each token from rank `first_owned` on.
    owned: Vec<u16>,
    first_owned: u32,
    owned_words: usize,
    hashed_words: usize,
}

impl SignatureScheme {
    /// A scheme fitted to a collection: about six bits for each token of an average set, 128 to
    /// 1,024 in all; one bit for each token of the universe where that suffices.
    pub fn fit(build: &SetCollection) -> Self {
        if let Some(words) = Self::exact_words(build) {
            return Self::with_widths(build, words, 0);
        }
        let words = words_for(build);
        let first = build.universe().saturating_sub((words * WORD) as u32);
        let frequencies = Frequencies::of(build, first);
        // Rare tokens collide by chance about r^2 / bits times in a pair, r of them in each set.
        let average = build.token_count() as f64 / f64::from(build.len().max(1));
        let rare = frequencies.rare_tokens(average, words);
        let collisions = |owned: usize| rare[owned] * rare[owned] / ((words - owned) * WORD) as f64;
        let owned = (1..words).min_by(|&a, &b| collisions(a).total_cmp(&collisions(b)));
        let owned = owned.unwrap_or(1);
        Self::of(build, &frequencies, owned, words - owned)
    }

    /// The words of a fitted scheme in which every token owns a bit, if it is one.
    pub(crate) fn exact_words(build: &SetCollection) -> Option<usize> {
        let words = (build.universe() as usize).div_ceil(WORD).max(1);
        (words <= MAX_WORDS && words <= 2 * words_for(build)).then_some(words)
    }

    /// A scheme of the given widths in words of 64 bits. Without hashed words, the owned ones
    /// must hold the universe.
    pub(crate) fn with_widths(
        build: &SetCollection,
        owned_words: usize,
        hashed_words: usize,
    ) -> Self {
        let first_owned = build.universe().saturating_sub((owned_words * WORD) as u32);
        debug_assert!(hashed_words > 0 || first_owned == 0);
        Self::of(build, &Frequencies::of(build, first_owned), owned_words, hashed_words)
    }

    fn of(
        build: &SetCollection,
        frequencies: &Frequencies,
        owned_words: usize,
        hashed_words: usize,
    ) -> Self {
        let first_owned = build.universe().saturating_sub((owned_words * WORD) as u32);
        let counts = frequencies.from(first_owned);
        let sets = frequencies.sets;
        // A token tells most where half of the sets hold it: such tokens come first, so that the
        // first words alone already separate most pairs.
        let mut order: Vec<u32> = (0..counts.len() as u32).collect();
        order.sort_by_key(|&t| (counts[t as usize].abs_diff(sets / 2), t));
        let mut owned = vec![0; counts.len()];
        for (bit, token) in order.into_iter().enumerate() {
            owned[token as usize] = bit as u16;
        }
        Self { owned, first_owned, owned_words, hashed_words }
    }

    /// A scheme of `words` words in which no token has a bit: for blocks of which only the speed
    /// matters.
    pub fn empty(words: usize) -> Self {
        Self { owned: vec![], first_owned: 0, owned_words: words, hashed_words: 0 }
    }

    /// Words of 64 bits in a signature.
    pub fn words(&self) -> usize {
        self.owned_words + self.hashed_words
    }

    /// The first of these words, which count frequent tokens exactly.
    pub(crate) fn owned_words(&self) -> usize {
        self.owned_words
    }

    /// Whether every token owns a bit, so that the overlap is the number of common bits.
    pub fn is_exact(&self) -> bool {
        self.first_owned == 0
    }

    /// Sets the bits of ascending tokens in `words`, which are all 0. Returns how many tokens,
    /// the first ones, own no bit.
    pub fn sign(&self, tokens: &[u32], words: &mut [u64]) -> usize {
        let rare = tokens.partition_point(|&t| t < self.first_owned);
        let hashed = (self.hashed_words * WORD) as u64;
        for &token in &tokens[..rare] {
            let hash = u64::from(token.wrapping_mul(0x9E37_79B1));
            let bit = ((hash * hashed) >> 32) as usize + self.owned_words * WORD;
            words[bit / WORD] |= 1 << (bit % WORD);
        }
        for &token in &tokens[rare..] {
            let bit = usize::from(self.owned[(token - self.first_owned) as usize]);
            words[bit / WORD] |= 1 << (bit % WORD);
        }
        rare
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.owned.capacity() * size_of::<u16>()
    }
}

/// The bit of a token where tokens are dealt to `1 << log` bits by falling frequency, forth and back:
/// all bits are about equally frequent then. `number` counts the more frequent tokens.
#[inline]
pub fn dealt_bit(number: u32, log: u32) -> u32 {
    let turned = 0_u32.wrapping_sub(number >> log & 1);
    (number ^ turned) & ((1 << log) - 1)
}

/// Words with about six bits for each token of an average set.
fn words_for(build: &SetCollection) -> usize {
    let average = build.token_count() / (build.len() as usize).max(1);
    (average * 6).div_ceil(WORD).next_multiple_of(2).clamp(2, MAX_WORDS)
}

/// In how many sets, or sets of a sample, each of the most frequent tokens stands.
struct Frequencies {
    /// The first token counted.
    first: u32,
    counts: Vec<u32>,
    /// Sets whose tokens were counted.
    sets: u32,
}

impl Frequencies {
    /// Counts the tokens from `first` on.
    fn of(build: &SetCollection, first: u32) -> Self {
        if let Some(counts) = build.frequencies(first) {
            return Self { first, counts: counts.to_vec(), sets: build.len() };
        }
        let mut counts = vec![0; (build.universe() - first) as usize];
        let average = (build.token_count() / build.len().max(1) as usize).max(1);
        let sample = (SAMPLE_TOKENS / average).clamp(1, SAMPLE) as u32;
        let sampled = Evenly::new(build.len(), sample).iter();
        let sets = sampled.len() as u32;
        for set in sampled {
            for &token in build.tokens(set).iter().rev().take_while(|&&t| t >= first) {
                counts[(token - first) as usize] += 1;
            }
        }
        Self { first, counts, sets }
    }

    /// The counts of the tokens from `first` on.
    fn from(&self, first: u32) -> &[u32] {
        &self.counts[(first - self.first) as usize..]
    }

    /// For each number of owned words below `words`, how many tokens of an average set of
    /// `average` tokens own no bit.
    fn rare_tokens(&self, average: f64, words: usize) -> Vec<f64> {
        let sets = f64::from(self.sets.max(1));
        (0..words)
            .map(|owned| {
                let frequent = self.counts.iter().rev().take(owned * WORD).map(|&c| f64::from(c));
                (average - frequent.sum::<f64>() / sets).max(0.0)
            })
            .collect()
    }
}

/// The signatures of all sets of a collection, set by set.
#[derive(Debug)]
pub(crate) struct Signatures {
    scheme: SignatureScheme,
    words: Vec<u64>,
    /// Rare tokens less their bits.
    hidden: Vec<u32>,
}

/// The signature of a probe set.
#[derive(Debug, Default)]
pub(crate) struct ProbeSignature {
    words: Vec<u64>,
    hidden: u32,
}

impl Signatures {
    pub(crate) fn try_new(
        build: &SetCollection,
        scheme: SignatureScheme,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let width = scheme.words();
        let sets = build.len() as usize;
        context.reservation.try_grow(scheme.size_in_bytes())?;
        let mut words = context.filled(sets * width, 0)?;
        let mut hidden = copies(context.reservation, sets, 0)?;
        let share = sets.div_ceil(threads_for(context.threads, build.token_count()).count()).max(1);
        let parts = words.chunks_mut(share * width).zip(hidden.chunks_mut(share)).enumerate();
        for_each(context.threads, parts.collect(), |(part, (words, hidden))| {
            for (i, signature) in words.chunks_exact_mut(width).enumerate() {
                if i % 4096 == 0 {
                    context.cancel.check()?;
                }
                let rare = scheme.sign(build.tokens((part * share + i) as SetId), signature);
                hidden[i] = hidden_tokens(&scheme, rare, signature);
            }
            Ok(())
        })?;
        Ok(Self { scheme, words, hidden })
    }

    /// Signs a set of a probe collection.
    pub(crate) fn sign_probe(
        &self,
        probe: &SetCollection,
        set: SetId,
        signature: &mut ProbeSignature,
    ) {
        signature.words.clear();
        signature.words.resize(self.scheme.words(), 0);
        // Tokens that the build side does not know match nothing: they need not count.
        let rare = self.scheme.sign(probe.tokens(set), &mut signature.words);
        signature.hidden = hidden_tokens(&self.scheme, rare, &signature.words);
    }

    /// Copies the signature of a build set, for the same set as a probe.
    pub(crate) fn copy_to_probe(&self, set: SetId, signature: &mut ProbeSignature) {
        let width = self.scheme.words();
        signature.words.clear();
        signature.words.extend_from_slice(&self.words[set as usize * width..][..width]);
        signature.hidden = self.hidden[set as usize];
    }

    /// Asks for the signature of a build set that will be needed soon.
    #[inline]
    pub(crate) fn prefetch(&self, build: SetId) {
        let width = self.scheme.words();
        let signature = self.words.as_ptr().wrapping_add(build as usize * width);
        for line in (0..width).step_by(LINE / size_of::<u64>()) {
            prefetch(signature.wrapping_add(line));
        }
    }

    /// The most tokens that the probe set and a build set can have in common.
    #[inline]
    pub(crate) fn bound(&self, probe: &ProbeSignature, build: SetId) -> u32 {
        let width = self.scheme.words();
        let start = build as usize * width;
        let common = probe.words.iter().zip(&self.words[start..start + width]);
        let common: u32 = common.map(|(a, b)| (a & b).count_ones()).sum();
        common + probe.hidden.min(self.hidden[build as usize])
    }
}

/// Rare tokens less their bits.
pub(crate) fn hidden_tokens(scheme: &SignatureScheme, rare: usize, signature: &[u64]) -> u32 {
    let bits: u32 = signature[scheme.owned_words()..].iter().map(|w| w.count_ones()).sum();
    rare as u32 - bits
}
