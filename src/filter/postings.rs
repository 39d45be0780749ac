//! Posting lists that carry signatures: the positional and the bitmap filter on sixteen postings
//! at a time.
//!
//! A posting of a set under one of its prefix tokens holds the set's id, its size, how many of
//! its tokens stand behind that token, and a signature of these: bit `rank % bits` for each of
//! them, so that neighbours in frequency, and with them the most frequent tokens, never share one.
//! At the first common token of a pair the whole overlap is that token and what the two suffixes
//! share, and a suffix of `r` tokens shares at most `(r + r' - d) / 2` tokens with one of `r'`
//! where the signatures differ in `d` bits, because each differing bit stands for a token of one
//! side alone. A pair that cannot reach its required overlap from there is no candidate; a pair
//! that can is found under its first common token, whatever later tokens say of it.

use std::mem::size_of;
use std::ops::Range;

use datafusion::common::Result;

use super::prefix::indexed_prefix;
use super::size_bounds::SizeBounds;
use crate::sets::{Run, SetCollection, SetId};
use crate::simd::{Lanes, Simd, kernels};
use crate::strategy::{JoinSpec, PrepareContext};

/// Fields of a posting in front of the signature.
const SET: usize = 0;
const SHAPE: usize = 1;
const SIGNATURE: usize = 2;
/// Postings compared at once, and read beyond the end of the last list.
const LANES: usize = 16;
/// Sizes beyond this do not fit a posting's shape; lists that may hold such sets are not filtered.
pub(super) const MAX_SIZE: u32 = i16::MAX as u32;
/// Binary digits behind the point of [`Criterion::Linear`].
const FRACTION: u32 = 7;
/// Signatures have at most this many words of 32 bits.
pub(super) const MAX_WORDS: usize = 4;

/// The lists. That of token `t` holds `offsets[t]..offsets[t + 1]`; its fields lie one array after
/// the other: first the set ids, ascending, then the shapes (size in the low half, tokens behind
/// the posting in the high half), then the words of the signatures.
#[derive(Debug)]
pub struct SignaturePostings {
    offsets: Vec<u64>,
    fields: Vec<u32>,
    words: usize,
}

/// A signature of tokens that stand behind one position.
pub(super) type SuffixSignature = [u32; MAX_WORDS];

/// Adds a token to a signature of `words` words.
#[inline(always)]
pub(super) fn add_token(signature: &mut SuffixSignature, words: usize, token: u32) {
    // `words` is a power of two.
    signature[(token as usize / 32) & (words - 1)] |= 1 << (token % 32);
}

/// One posting list.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    /// The fields, and sixteen values more.
    fields: &'a [u32],
    len: usize,
}

impl<'a> List<'a> {
    /// The set ids, ascending.
    #[inline]
    pub fn sets(&self) -> &'a [SetId] {
        &self.fields[SET * self.len..(SET + 1) * self.len]
    }

    /// The position of the token in the set of a posting.
    #[inline]
    pub fn position(&self, posting: usize) -> u32 {
        let shape = self.fields[SHAPE * self.len + posting];
        (shape & 0xFFFF) - (shape >> 16) - 1
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl SignaturePostings {
    /// Indexes the first `prefix(run)` tokens of every set, with signatures of `words` words
    /// (0, 1, 2 or 4).
    pub fn try_new(
        build: &SetCollection,
        words: usize,
        prefix: impl Fn(Run) -> u32 + Sync,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let universe = build.universe() as usize;
        context.reservation.try_grow((universe + 1) * size_of::<u64>())?;
        let mut offsets = vec![0_u64; universe + 1];
        for (run, sets) in build.runs().iter() {
            context.cancel.check()?;
            let prefix = prefix(run) as usize;
            for set in sets {
                let tokens = build.tokens(set);
                tokens[..tokens.len().min(prefix)].iter().for_each(|&t| offsets[t as usize] += 1);
            }
        }
        let mut total = 0;
        for offset in &mut offsets {
            total += std::mem::replace(offset, total);
        }
        let width = SIGNATURE + words;
        let length = total as usize * width + LANES;
        context.reservation.try_grow(length * size_of::<u32>())?;
        let mut fields = vec![0_u32; length];
        // While filling, an offset is where the next posting of its list goes.
        let mut next = offsets.clone();
        context.reservation.try_grow(next.capacity() * size_of::<u64>())?;
        for (run, sets) in build.runs().iter() {
            context.cancel.check()?;
            let prefix = prefix(run) as usize;
            for set in sets {
                let tokens = build.tokens(set);
                let (head, tail) = tokens.split_at(tokens.len().min(prefix));
                let mut signature = SuffixSignature::default();
                if words > 0 {
                    tail.iter().for_each(|&t| add_token(&mut signature, words, t));
                }
                let size = tokens.len().min(MAX_SIZE as usize) as u32;
                for (position, &token) in head.iter().enumerate().rev() {
                    let t = token as usize;
                    let (start, end) = (offsets[t] as usize, offsets[t + 1] as usize);
                    let (len, place) = (end - start, next[t] as usize - start);
                    next[t] += 1;
                    let list = &mut fields[start * width..end * width];
                    let behind = (tokens.len() - position - 1).min(MAX_SIZE as usize - 1) as u32;
                    list[SET * len + place] = set;
                    list[SHAPE * len + place] = size | behind << 16;
                    for (word, &bits) in signature[..words].iter().enumerate() {
                        list[(SIGNATURE + word) * len + place] = bits;
                    }
                    if words > 0 {
                        add_token(&mut signature, words, token);
                    }
                }
            }
        }
        context.reservation.shrink(next.capacity() * size_of::<u64>());
        Ok(Self { offsets, fields, words })
    }

    /// The number of 32-bit words of a signature.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// The list of a token.
    #[inline]
    pub(super) fn list(&self, token: u32) -> List<'_> {
        let (start, end) = (self.offsets[token as usize], self.offsets[token as usize + 1]);
        let width = SIGNATURE + self.words;
        let fields = &self.fields[start as usize * width..end as usize * width + LANES];
        List { fields, len: (end - start) as usize }
    }

    /// Asks for the offsets of a list that will be looked up soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, token: u32) {
        prefetch(self.offsets.as_ptr().wrapping_add(token as usize));
    }

    /// The number of postings.
    pub fn len(&self) -> usize {
        self.offsets.last().copied().unwrap_or(0) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[inline(always)]
fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program sees, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// What a posting must satisfy to make a candidate, for probe sets of one size.
///
/// `q` is the required overlap with a partner less one: what the suffixes must share.
#[derive(Debug, Clone)]
pub(super) enum Criterion {
    /// `2q` for partners of size `least..`, for up to 32 sizes.
    Table { least: u32, doubled: [u32; 32] },
    /// `2q >= slope * size + base`, in units of `2^-FRACTION`.
    Linear { slope: i32, base: i64 },
    /// Everything passes.
    Any,
}

impl Criterion {
    pub fn new(bounds: &SizeBounds) -> Self {
        let (least, greatest) = (bounds.least, bounds.greatest);
        let doubled = |size: u32| 2 * i64::from(bounds.required(size) - 1);
        if greatest > MAX_SIZE {
            return Self::Any;
        }
        if greatest - least < 32 {
            let entry = |i: usize| doubled((least + i as u32).min(greatest)) as u32;
            return Self::Table { least, doubled: std::array::from_fn(entry) };
        }
        // Any line below the values will do; that through both ends is close, since the
        // required overlap is a straight line or bends downwards, up to rounding.
        let rise = (doubled(greatest) - doubled(least)) << FRACTION;
        // A required overlap rises by one token at most for each token of the partner.
        let slope = (rise / i64::from(greatest - least)).clamp(0, 2 << FRACTION);
        let base = (least..=greatest)
            .map(|size| (doubled(size) << FRACTION) - slope * i64::from(size))
            .min()
            .unwrap_or(0);
        Self::Linear { slope: slope as i32, base }
    }
}

/// The test of a posting, on a pair of sets of one collection: for estimates.
#[derive(Debug)]
pub(crate) struct SuffixTest;

impl SuffixTest {
    /// The numbers of 32-bit words that a posting's signature may have.
    pub const WIDTHS: [usize; 4] = [0, 1, 2, 4];

    /// Whether the pair would pass under the last prefix token of the probe set, with signatures
    /// of each width; `None` when the other set has no posting like that.
    pub fn of(
        build: &SetCollection,
        spec: &JoinSpec,
        bounds: &SizeBounds,
        probe: SetId,
        partner: SetId,
    ) -> Option<[bool; 4]> {
        let tokens = build.tokens(probe);
        let place = (bounds.prefix as usize).min(tokens.len()).checked_sub(1)?;
        let others = build.tokens(partner);
        let start = others.partition_point(|&t| t <= tokens[place]);
        if start == 0 || start > indexed_prefix(spec, others.len() as u32) as usize {
            return None;
        }
        let (behind, others) = (&tokens[place + 1..], &others[start..]);
        let needed = bounds.required(build.size(partner)) as usize - 1;
        Some(Self::WIDTHS.map(|words| {
            let mut differing = 0;
            if words > 0 {
                let mut signatures = [SuffixSignature::default(); 2];
                behind.iter().for_each(|&t| add_token(&mut signatures[0], words, t));
                others.iter().for_each(|&t| add_token(&mut signatures[1], words, t));
                let words = signatures[0].iter().zip(&signatures[1]);
                differing = words.map(|(a, b)| (a ^ b).count_ones()).sum::<u32>() as usize;
            }
            needed <= behind.len().min(others.len())
                && differing + 2 * needed <= behind.len() + others.len()
        }))
    }
}

/// A probe set at one of its prefix tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbePosition<'a> {
    /// Partners have ids in this range.
    pub partners: &'a Range<SetId>,
    /// Tokens behind the prefix token, and their signature.
    pub behind: u32,
    pub signature: &'a SuffixSignature,
}

/// Writes to `hits` the postings in `range` of `list` that pass, at most one for each posting;
/// how many there are. `hits` is at least as long as the range.
pub(super) fn scan(
    simd: Simd,
    words: usize,
    list: List<'_>,
    range: Range<usize>,
    criterion: &Criterion,
    probe: ProbePosition<'_>,
    hits: &mut [u32],
) -> usize {
    assert!(range.end <= list.len && hits.len() >= range.len());
    match criterion {
        Criterion::Table { least, doubled } => {
            let table = (*least, doubled);
            match words {
                0 => scan_table::<0>(simd, list, range, table, probe, hits),
                1 => scan_table::<1>(simd, list, range, table, probe, hits),
                2 => scan_table::<2>(simd, list, range, table, probe, hits),
                _ => scan_table::<4>(simd, list, range, table, probe, hits),
            }
        }
        Criterion::Linear { slope, base } => {
            let line = (*slope, *base);
            match words {
                0 => scan_linear::<0>(simd, list, range, line, probe, hits),
                1 => scan_linear::<1>(simd, list, range, line, probe, hits),
                2 => scan_linear::<2>(simd, list, range, line, probe, hits),
                _ => scan_linear::<4>(simd, list, range, line, probe, hits),
            }
        }
        Criterion::Any => {
            let mut found = 0;
            for posting in range {
                if probe.partners.contains(&list.sets()[posting]) {
                    hits[found] = posting as u32;
                    found += 1;
                }
            }
            found
        }
    }
}

kernels! {
    /// [`scan`] with a table of required overlaps.
    fn scan_table[S: Lanes, const WORDS: usize](
        list: List<'_>,
        range: Range<usize>,
        table: (u32, &[u32; 32]),
        probe: ProbePosition<'_>,
        hits: &mut [u32],
    ) -> usize {
        let (least, doubled) = table;
        // SAFETY: the caller has the instructions of `S`; `sixteen` says why reads are in bounds.
        unsafe {
            let least = S::splat(least);
            let behind = S::splat(probe.behind);
            let twice_behind = S::splat(2 * probe.behind);
            let passes = |shape: S::Vector, differing: S::Vector| {
                let needed = S::look_up(doubled, S::sub(S::low(shape), least));
                let rest = S::high(shape);
                // d + 2q <= r + r', and 2q <= 2r, 2q <= 2r'.
                let left = S::add(differing, S::sub(needed, rest));
                S::less_or_equal(left, behind)
                    & S::less_or_equal(needed, S::add(rest, rest))
                    & S::less_or_equal(needed, twice_behind)
            };
            sixteen::<S, WORDS>(list, range, probe, hits, passes)
        }
    }
}

kernels! {
    /// [`scan`] with a line below the required overlaps.
    fn scan_linear[S: Lanes, const WORDS: usize](
        list: List<'_>,
        range: Range<usize>,
        line: (i32, i64),
        probe: ProbePosition<'_>,
        hits: &mut [u32],
    ) -> usize {
        let (slope, base) = line;
        // SAFETY: the caller has the instructions of `S`; `sixteen` says why reads are in bounds.
        unsafe {
            // With 2q >= slope * size + base: slope * size - r' + d <= r - base, all in units of
            // 2^-FRACTION; and the same with r' and with r alone on the right.
            let units = |tokens: i64| tokens << FRACTION;
            // Limits beyond what a left side can reach let everything pass.
            let limit = |value: i64| value.clamp(i32::MIN.into(), i32::MAX.into()) as i32 as u32;
            let behind = i64::from(probe.behind);
            let factors = |rest: i32| S::splat(slope as u32 | ((rest as u32) << 16));
            let sum = factors(-(1 << FRACTION));
            let rest_alone = factors(-(2 << FRACTION));
            let none = factors(0);
            let sum_limit = S::splat(limit(units(behind) - base));
            let rest_limit = S::splat(limit(-base));
            let behind_limit = S::splat(limit(units(2 * behind) - base));
            let passes = |shape: S::Vector, differing: S::Vector| {
                let differing = S::shift_left::<FRACTION>(differing);
                S::less_or_equal(S::add(differing, S::dot(shape, sum)), sum_limit)
                    & S::less_or_equal(S::dot(shape, rest_alone), rest_limit)
                    & S::less_or_equal(S::dot(shape, none), behind_limit)
            };
            sixteen::<S, WORDS>(list, range, probe, hits, passes)
        }
    }
}

/// The loop of both kernels.
///
/// # Safety
///
/// The processor runs the instructions of `S`.
#[inline(always)]
unsafe fn sixteen<S: Lanes, const WORDS: usize>(
    list: List<'_>,
    range: Range<usize>,
    probe: ProbePosition<'_>,
    hits: &mut [u32],
    passes: impl Fn(S::Vector, S::Vector) -> u16,
) -> usize {
    let len = list.len;
    assert!(range.end <= len && list.fields.len() >= (SIGNATURE + WORDS) * len + LANES);
    assert!(hits.len() >= range.len());
    let fields = list.fields.as_ptr();
    let mut found = 0;
    let mut at = range.start;
    // SAFETY: `at < len`, so that the sixteen values from `field * len + at` on end in front of
    // `(field + 1) * len + 16`, which the first assertion keeps in bounds for every field; each
    // posting of the range adds one hit at most, which the second one does.
    unsafe {
        let (first, end) = (S::splat(probe.partners.start), S::splat(probe.partners.end));
        let mut signature = [S::splat(0); WORDS];
        for word in 0..WORDS {
            signature[word] = S::splat(probe.signature[word]);
        }
        while at < range.end {
            let load = |field: usize| S::load(fields.add(field * len + at));
            let sets = load(SET);
            let mut differing = S::splat(0);
            for word in 0..WORDS {
                let bits = S::differing(load(SIGNATURE + word), signature[word]);
                differing = S::add(differing, bits);
            }
            let mut mask = passes(load(SHAPE), differing) & S::less(sets, end);
            mask &= !S::less(sets, first);
            let left = range.end - at;
            if left < LANES {
                mask &= (1 << left) - 1;
            }
            while mask != 0 {
                *hits.get_unchecked_mut(found) = at as u32 + mask.trailing_zeros();
                found += 1;
                mask &= mask - 1;
            }
            at += LANES;
        }
    }
    found
}
