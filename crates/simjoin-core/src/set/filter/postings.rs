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

mod build;

use std::hint::black_box;
use std::ops::Range;

use crate::set::filter::size_bounds::SizeBounds;
use crate::set::rates::Rate;
use crate::set::runs::SetId;
use crate::simd::{Form, Lanes, Simd, kernels, prefetch};
use crate::tuning::Tuning;
use crate::util::fastest::fastest;

/// Fields of a posting in front of the signature.
const SET: usize = 0;
const SHAPE: usize = 1;
const SIGNATURE: usize = 2;
/// Postings compared at once, and read beyond the end of the last list.
const LANES: usize = 16;
/// The number of lists by which postings are asked for ahead.
pub(crate) const LISTS_AHEAD: usize = 3;
/// Shorter lists are scanned whole; in longer ones the stretch of admissible ids is looked up.
const SHORT: usize = 48;
/// Sizes beyond this do not fit a posting's shape; lists that may hold such sets are not filtered.
const MAX_SIZE: u32 = i16::MAX as u32;
/// Binary digits behind the point of [`Criterion::Linear`].
const FRACTION: u32 = 7;
/// Signatures have at most this many words of 32 bits.
pub(crate) const MAX_WORDS: usize = 4;

/// The lists. That of token `t` holds `offsets[t]..offsets[t + 1]`; its fields lie one array after
/// the other: first the set ids, ascending, then the shapes (size in the low half, tokens behind
/// the posting in the high half), then the words of the signatures.
#[derive(Debug)]
pub(crate) struct SignaturePostings {
    offsets: Vec<u64>,
    fields: Vec<u32>,
    words: usize,
    /// No token before this one has a long list.
    first_long: u32,
}

/// Where the last look-ups of long lists began: probe sets come in the order of their sizes, so
/// that the next one begins nearby.
#[derive(Debug)]
pub struct Hints(pub Vec<u32>);

/// A signature of tokens that stand behind one position.
pub(crate) type SuffixSignature = [u32; MAX_WORDS];

/// By number, a bit of the widest signatures: processors shift words of 64 bits at most.
static WIDE_BITS: [u128; 32 * MAX_WORDS] = {
    let mut bits = [1; 32 * MAX_WORDS];
    let mut number = 1;
    while number < bits.len() {
        bits[number] = bits[number - 1] << 1;
        number += 1;
    }
    bits
};

/// The signature of some tokens in `words` words (0, 1, 2 or 4), the first one lowest.
#[inline(always)]
pub fn sign(tokens: &[u32], words: usize) -> u128 {
    let last = (32 * words as u32).wrapping_sub(1);
    match words {
        0 => 0,
        1 | 2 => tokens.iter().fold(0, |s, &t| s | 1_u64 << (t & last)).into(),
        _ => tokens.iter().fold(0, |s, &t| s | WIDE_BITS[t as usize % WIDE_BITS.len()]),
    }
}

/// Calls `visit` with each of some places of a set, the last one first, and the signature of `words`
/// words (0, 1, 2 or 4) of the tokens behind it.
#[inline(always)]
pub(crate) fn sign_suffixes(
    tokens: &[u32],
    places: Range<usize>,
    words: usize,
    mut visit: impl FnMut(usize, SuffixSignature),
) {
    let mut signature = sign(&tokens[places.end..], words);
    for place in places.rev() {
        visit(place, std::array::from_fn(|word| (signature >> (32 * word)) as u32));
        signature |= sign(&[tokens[place]], words);
    }
}

/// One posting list.
#[derive(Debug, Clone, Copy)]
struct PostingList<'a> {
    /// The fields, and sixteen values more.
    fields: &'a [u32],
    len: usize,
}

impl<'a> PostingList<'a> {
    /// The set ids, ascending.
    #[inline]
    pub(crate) fn sets(&self) -> &'a [SetId] {
        &self.fields[SET * self.len..(SET + 1) * self.len]
    }

    /// The first posting whose set is not below `first`, sought around a hint.
    #[inline]
    fn lower_bound(&self, first: SetId, hint: usize) -> usize {
        let sets = self.sets();
        let hint = hint.min(sets.len());
        if hint > 0 && sets[hint - 1] >= first {
            return sets[..hint].partition_point(|&s| s < first);
        }
        let mut step = 1;
        let mut low = hint;
        while low + step < sets.len() && sets[low + step] < first {
            low += step;
            step *= 2;
        }
        let high = (low + step).min(sets.len());
        low + sets[low..high].partition_point(|&s| s < first)
    }
}

impl SignaturePostings {
    /// The number of [`Hints`] to keep.
    pub(crate) fn hint_count(&self) -> usize {
        self.offsets.len() - 1 - self.first_long as usize
    }

    /// The number of 32-bit words of a signature.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// The list of a token.
    #[inline]
    fn list(&self, token: u32) -> PostingList<'_> {
        let (start, end) = (self.offsets[token as usize], self.offsets[token as usize + 1]);
        let width = SIGNATURE + self.words;
        let fields = &self.fields[start as usize * width..end as usize * width + LANES];
        PostingList { fields, len: (end - start) as usize }
    }

    /// Asks for the offsets of a list that will be looked up soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, token: u32) {
        prefetch(self.offsets.as_ptr().wrapping_add(token as usize));
    }

    /// Asks for the first postings to scan of a list that is soon to be scanned: a line of each
    /// field.
    #[inline(always)]
    pub(crate) fn prefetch_list(&self, token: u32, hints: &Hints) {
        let (start, end) = (self.offsets[token as usize], self.offsets[token as usize + 1]);
        let (start, len) = (start as usize, (end - start) as usize);
        let hint = token.wrapping_sub(self.first_long) as usize;
        let place = hints.0.get(hint).map_or(0, |&h| h as usize);
        let width = SIGNATURE + self.words;
        for field in 0..width {
            prefetch(self.fields.as_ptr().wrapping_add(start * width + field * len + place));
        }
    }

    /// Where the postings of sets from `first` on begin in a list, or before.
    #[inline(always)]
    fn begin(&self, token: u32, list: &PostingList<'_>, first: SetId, hints: &mut Hints) -> usize {
        if list.len <= SHORT {
            return 0;
        }
        let hint = token.wrapping_sub(self.first_long) as usize;
        match hints.0.get_mut(hint) {
            Some(hint) => {
                let place = list.lower_bound(first, *hint as usize);
                *hint = place as u32;
                place
            }
            None => 0,
        }
    }
}

/// The condition that a posting must satisfy to make a candidate, for probe sets of one size.
///
/// `q` is the required overlap with a partner less one: what the suffixes must share.
#[derive(Debug, Clone)]
pub(crate) enum Criterion {
    /// `2q` for partners of size `least..`, for up to 32 sizes.
    Table { least: u32, doubled: [u32; 32] },
    /// `2q >= slope * size + base`, in units of `2^-FRACTION`.
    Linear { slope: i32, base: i64 },
    /// Everything passes.
    Any,
}

impl Criterion {
    pub(crate) fn new(bounds: &SizeBounds) -> Self {
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

/// Where a probe set meets postings: a place in its prefix and a posting of that list.
pub type Place = (usize, usize);

/// The prefix of a probe set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbePrefix<'a> {
    /// The known tokens of the set; `signatures` has an entry for those of the prefix, the first
    /// ones: the signature of what stands behind each.
    pub tokens: &'a [u32],
    pub signatures: &'a [SuffixSignature],
    /// Partners have ids in this range.
    pub partners: &'a Range<SetId>,
}

/// A posting that passed: the set, and the places of the common token in both sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PostingHit {
    pub build: SetId,
    pub build_at: u32,
    pub probe_at: u32,
    /// The size of the build set, up to [`MAX_SIZE`].
    size: u32,
}

impl PostingHit {
    /// The size of the build set, where the posting has it.
    #[inline]
    pub(crate) fn build_size(&self) -> Option<u32> {
        (self.size < MAX_SIZE).then_some(self.size)
    }
}

/// The memory that a scan keeps and where it writes.
#[derive(Debug)]
pub struct Scratch<'a> {
    pub hints: &'a mut Hints,
    pub hits: &'a mut [PostingHit],
}

/// The work of [`SignaturePostings::scan`].
#[derive(Debug)]
pub(crate) struct Scanned {
    /// Hits written.
    pub hits: usize,
    /// Postings and lists looked at.
    pub postings: usize,
    pub lists: usize,
    /// Where to go on; `None` at the end of the prefix.
    pub rest: Option<Place>,
}

/// The time of scanning postings on this processor, by that which the constants of the estimates say, which
/// were measured in joins: 0.6 on the processor that they come from, for data in the cache.
pub fn scan_rate(simd: Simd, tuning: Tuning) -> f64 {
    static RATE: Rate = Rate::new(
        |form| match form {
            Form::Avx512 => 1.0,
            Form::Avx2 => 2.0,
            Form::Portable => 6.0,
        },
        measured_rate,
    );
    RATE.of(simd, tuning)
}

/// The rate of scanning by the clock; `None` where it says nothing.
fn measured_rate(simd: Simd) -> Option<f64> {
    const POSTINGS: usize = 1024;
    const REPEATS: usize = 8;
    /// Nanoseconds of a posting with a signature of a word, by those constants.
    const REFERENCE: f64 = 0.4;
    // One list of sets of one token, none of which has what is required.
    let postings = SignaturePostings {
        offsets: vec![0, POSTINGS as u64],
        fields: vec![1; (SIGNATURE + 1) * POSTINGS + LANES],
        words: 1,
        first_long: 0,
    };
    let criterion = Criterion::Table { least: 1, doubled: [2 * MAX_SIZE; 32] };
    let partners = 0..POSTINGS as SetId;
    let signatures = [SuffixSignature::default()];
    let (mut hints, mut hits) = (Hints(vec![0]), [PostingHit::default(); LANES]);
    let nanos = fastest(|| {
        let mut scanned = 0;
        for _ in 0..REPEATS {
            let probe = ProbePrefix {
                tokens: black_box(&[0]),
                signatures: &signatures,
                partners: &partners,
            };
            let scratch = Scratch { hints: &mut hints, hits: &mut hits };
            scanned += postings.scan(simd, &criterion, probe, (0, 0), usize::MAX, scratch).postings;
        }
        scanned
    });
    (nanos > 0.0).then(|| nanos / (REPEATS * POSTINGS) as f64 / REFERENCE)
}

impl SignaturePostings {
    /// Looks up the prefix of a probe set from a place on. Stops when the hits, at least
    /// sixteen, may be full, or about `postings` postings have been looked at.
    pub(crate) fn scan(
        &self,
        simd: Simd,
        criterion: &Criterion,
        probe: ProbePrefix<'_>,
        from: Place,
        postings: usize,
        scratch: Scratch<'_>,
    ) -> Scanned {
        assert!(scratch.hits.len() >= LANES);
        match criterion {
            Criterion::Table { least, doubled } => {
                let table = (*least, doubled);
                let scan = match self.words {
                    0 => scan_table::<0>,
                    1 => scan_table::<1>,
                    2 => scan_table::<2>,
                    _ => scan_table::<4>,
                };
                scan(simd, self, table, probe, from, postings, scratch)
            }
            Criterion::Linear { slope, base } => {
                let line = (*slope, *base);
                let scan = match self.words {
                    0 => scan_linear::<0>,
                    1 => scan_linear::<1>,
                    2 => scan_linear::<2>,
                    _ => scan_linear::<4>,
                };
                scan(simd, self, line, probe, from, postings, scratch)
            }
            Criterion::Any => self.scan_all(probe, from, postings, scratch),
        }
    }

    /// Without a test: every posting of an admissible set is a hit, at unknown places.
    fn scan_all(
        &self,
        probe: ProbePrefix<'_>,
        (first, mut at): Place,
        postings: usize,
        scratch: Scratch<'_>,
    ) -> Scanned {
        let Scratch { hints, hits } = scratch;
        let mut scanned = Scanned { hits: 0, postings: 0, lists: 0, rest: None };
        for place in first..probe.signatures.len() {
            let list = self.list(probe.tokens[place]);
            let start = self.begin(probe.tokens[place], &list, probe.partners.start, hints);
            scanned.lists += 1;
            for posting in start.max(at)..list.len {
                if scanned.hits == hits.len() || scanned.postings >= postings {
                    scanned.rest = Some((place, posting));
                    return scanned;
                }
                scanned.postings += 1;
                let build = list.sets()[posting];
                if build >= probe.partners.end {
                    break;
                }
                if probe.partners.contains(&build) {
                    hits[scanned.hits] =
                        PostingHit { build, build_at: 0, probe_at: 0, size: MAX_SIZE };
                    scanned.hits += 1;
                }
            }
            at = 0;
        }
        scanned
    }
}

kernels! {
    /// [`SignaturePostings::scan`] with a table of required overlaps.
    fn scan_table[S: Lanes, const WORDS: usize](
        this: &SignaturePostings,
        table: (u32, &[u32; 32]),
        probe: ProbePrefix<'_>,
        from: Place,
        postings: usize,
        scratch: Scratch<'_>,
    ) -> Scanned {
        let (least, doubled) = table;
        // SAFETY: the caller has the instructions of `S`.
        unsafe {
            let least = S::splat(least);
            let passes = |shape: S::Vector, differing: S::Vector, behind: u32| {
                let needed = S::look_up(doubled, S::sub(S::low(shape), least));
                let rest = S::high(shape);
                // d + 2q <= r + r', and 2q <= 2r, 2q <= 2r'.
                let left = S::add(differing, S::sub(needed, rest));
                S::less_or_equal(left, S::splat(behind))
                    & S::less_or_equal(needed, S::add(rest, rest))
                    & S::less_or_equal(needed, S::splat(2 * behind))
            };
            scan_prefix::<S, WORDS>(this, probe, from, postings, scratch, passes)
        }
    }
}

kernels! {
    /// [`SignaturePostings::scan`] with a line below the required overlaps.
    fn scan_linear[S: Lanes, const WORDS: usize](
        this: &SignaturePostings,
        line: (i32, i64),
        probe: ProbePrefix<'_>,
        from: Place,
        postings: usize,
        scratch: Scratch<'_>,
    ) -> Scanned {
        let (slope, base) = line;
        // SAFETY: the caller has the instructions of `S`.
        unsafe {
            // With 2q >= slope * size + base: slope * size - r' + d <= r - base, all in units of
            // 2^-FRACTION; and the same with r' and with r alone on the right.
            let factors = |rest: i32| S::splat(slope as u32 | ((rest as u32) << 16));
            let sum = factors(-(1 << FRACTION));
            let rest_alone = factors(-(2 << FRACTION));
            let none = factors(0);
            // Limits beyond what a left side can reach let everything pass.
            let limit = |value: i64| value.clamp(i32::MIN.into(), i32::MAX.into()) as i32 as u32;
            let rest_limit = S::splat(limit(-base));
            let passes = |shape: S::Vector, differing: S::Vector, behind: u32| {
                let behind = i64::from(behind) << FRACTION;
                let differing = S::shift_left::<FRACTION>(differing);
                let sum_limit = S::splat(limit(behind - base));
                let behind_limit = S::splat(limit(2 * behind - base));
                S::less_or_equal(S::add(differing, S::dot(shape, sum)), sum_limit)
                    & S::less_or_equal(S::dot(shape, rest_alone), rest_limit)
                    & S::less_or_equal(S::dot(shape, none), behind_limit)
            };
            scan_prefix::<S, WORDS>(this, probe, from, postings, scratch, passes)
        }
    }
}

/// The loop of both kernels: `passes` gets shapes, differing bits, and how many tokens of the
/// probe set stand behind the common one.
///
/// # Safety
///
/// The processor runs the instructions of `S`.
#[allow(clippy::needless_range_loop, reason = "arrays of registers: loops of fixed length unroll")]
#[inline(always)]
unsafe fn scan_prefix<S: Lanes, const WORDS: usize>(
    this: &SignaturePostings,
    probe: ProbePrefix<'_>,
    (first, mut from): Place,
    postings: usize,
    scratch: Scratch<'_>,
    passes: impl Fn(S::Vector, S::Vector, u32) -> u16,
) -> Scanned {
    let Scratch { hints, hits } = scratch;
    let mut scanned = Scanned { hits: 0, postings: 0, lists: 0, rest: None };
    let prefix = &probe.tokens[..probe.signatures.len()];
    for place in first..prefix.len() {
        let list = this.list(prefix[place]);
        if let Some(&soon) = prefix.get(place + LISTS_AHEAD) {
            this.prefetch_list(soon, hints);
        }
        scanned.lists += 1;
        let len = list.len;
        assert!(list.fields.len() >= (SIGNATURE + WORDS) * len + LANES);
        let start = this.begin(prefix[place], &list, probe.partners.start, hints);
        let mut at = start.max(std::mem::take(&mut from));
        let fields = list.fields.as_ptr();
        let behind = (probe.tokens.len() - place - 1) as u32;
        // SAFETY: `at < len`, so that the sixteen values from `field * len + at` on
        // end in front of `(field + 1) * len + 16`, which the assertion keeps in bounds for every
        // field; a hit is written only where there is room for sixteen.
        unsafe {
            let low = S::splat(probe.partners.start);
            let end = S::splat(probe.partners.end);
            let mut signature = [S::splat(0); WORDS];
            for word in 0..WORDS {
                signature[word] = S::splat(probe.signatures[place][word]);
            }
            while at < len && *fields.add(SET * len + at) < probe.partners.end {
                if scanned.hits + LANES > hits.len() || scanned.postings >= postings {
                    scanned.rest = Some((place, at));
                    return scanned;
                }
                let load = |field: usize| S::load(fields.add(field * len + at));
                let sets = load(SET);
                let mut differing = S::splat(0);
                for word in 0..WORDS {
                    let bits = S::differing(load(SIGNATURE + word), signature[word]);
                    differing = S::add(differing, bits);
                }
                let mut mask = passes(load(SHAPE), differing, behind);
                mask &= S::less(sets, end) & !S::less(sets, low);
                let left = len - at;
                if left < LANES {
                    mask &= (1 << left) - 1;
                }
                while mask != 0 {
                    let posting = at + mask.trailing_zeros() as usize;
                    let shape = *fields.add(SHAPE * len + posting);
                    *hits.get_unchecked_mut(scanned.hits) = PostingHit {
                        build: *fields.add(SET * len + posting),
                        build_at: (shape & 0xFFFF) - (shape >> 16) - 1,
                        probe_at: place as u32,
                        size: shape & 0xFFFF,
                    };
                    scanned.hits += 1;
                    mask &= mask - 1;
                }
                scanned.postings += left.min(LANES);
                at += LANES;
            }
        }
    }
    scanned
}
