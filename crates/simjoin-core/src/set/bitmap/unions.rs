//! Unions of the signatures of neighbouring sets: one test rules out all of them.
//!
//! The sets in one lane of some consecutive blocks share a column: the bits that any of them has. A
//! probe set has at most `popcount(and) + h` tokens in common with each of them, where `h` is the
//! number of its tokens less its bits. For that the bits must be rarer than those that tell two
//! sets apart: tokens are dealt to the bits by falling frequency, forth and back, so that all bits
//! are about equally frequent.

use std::mem::size_of;
use std::ops::Range;

use crate::engine::PrepareContext;
use crate::error::Result;
use crate::set::bitmap::lines::{ABREAST, GROUP, Line};
use crate::set::collection::SetCollection;
use crate::set::filter::signature::dealt_bit;
use crate::set::filter::size_bounds::{SizeBoundsCache, partners};
use crate::set::join_spec::JoinSpec;
use crate::set::runs::SetId;
use crate::simd::{Simd, Words, kernels};
use crate::util::evenly::Evenly;
use crate::util::parallel::{filled, for_each, map, threads_for};

/// Words of a column, and sets that share one.
const WIDTHS: [usize; 3] = [1, 2, 4];
const MEMBERS: [usize; 3] = [2, 4, 8];
const MOST_WORDS: usize = WIDTHS[WIDTHS.len() - 1];
const MOST_MEMBERS: usize = MEMBERS[MEMBERS.len() - 1];
/// Probe sets and columns of a sample.
const ROWS: u32 = 64;
const COLUMNS: usize = 64;

/// The form of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnionShape {
    /// Words of 64 bits: 1, 2 or 4.
    pub words: usize,
    /// Sets that share a column, which are blocks whose columns are tested together: 2, 4 or 8.
    pub members: usize,
}

impl UnionShape {
    /// The number of shapes.
    pub(crate) const COUNT: usize = WIDTHS.len() * MEMBERS.len();

    /// Every shape.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        WIDTHS.into_iter().flat_map(|words| MEMBERS.map(|members| Self { words, members }))
    }
}

/// The bits that tokens become.
#[derive(Debug, Clone, Copy)]
struct Dealt {
    universe: u32,
    /// The logarithm of the number of bits.
    log: u32,
}

impl Dealt {
    fn new(build: &SetCollection, words: usize) -> Self {
        Self { universe: build.universe(), log: (words * u64::BITS as usize).ilog2() }
    }

    /// Sets the bits of tokens; returns how many tokens there are less the bits.
    fn sign(self, tokens: &[u32], words: &mut [u64]) -> u32 {
        words.fill(0);
        for &token in tokens {
            let bit = dealt_bit(self.universe - 1 - token, self.log);
            words[(bit / u64::BITS) as usize] |= 1 << (bit % u64::BITS);
        }
        tokens.len() as u32 - words.iter().map(|word| word.count_ones()).sum::<u32>()
    }
}

/// The columns of the build side: those of [`UnionShape::members`] blocks lie together, word after
/// word.
#[derive(Debug)]
pub(crate) struct Unions {
    shape: UnionShape,
    dealt: Dealt,
    lines: Vec<Line>,
}

/// Probe sets that are tested together. Places that are not used hold no bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UnionGroup {
    bits: [[u64; MOST_WORDS]; GROUP],
    /// Their tokens less their bits.
    hidden: [u32; GROUP],
}

impl Unions {
    /// The bytes for `sets` sets.
    pub(super) fn footprint(shape: UnionShape, sets: usize) -> usize {
        let lines = sets.div_ceil(ABREAST).div_ceil(shape.members) * shape.words;
        lines * size_of::<Line>()
    }

    /// `sets` are the sets by position. Memory is reserved.
    pub(super) fn try_new(
        build: &SetCollection,
        sets: &[SetId],
        shape: UnionShape,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let UnionShape { words, members } = shape;
        let dealt = Dealt::new(build, words);
        let of_columns = ABREAST * members;
        let columns = sets.len().div_ceil(of_columns);
        let mut lines = filled(context.threads, columns * words, Line::EMPTY);
        let share =
            columns.div_ceil(threads_for(context.threads, build.token_count()).count()).max(1);
        let parts = lines.chunks_mut(share * words).zip(sets.chunks(share * of_columns)).collect();
        for_each(context.threads, parts, |(lines, sets)| {
            let mut signature = [0; MOST_WORDS];
            for (position, &set) in sets.iter().enumerate() {
                context.cancel.check_at(position)?;
                dealt.sign(build.tokens(set), &mut signature[..words]);
                let column = &mut lines[position / of_columns * words..];
                for (line, bits) in column.iter_mut().zip(&signature[..words]) {
                    line.unite(position % ABREAST, *bits);
                }
            }
            Ok(())
        })?;
        Ok(Self { shape, dealt, lines })
    }

    pub(super) fn members(&self) -> usize {
        self.shape.members
    }

    /// Puts a probe set of these tokens at a place of a group.
    pub(super) fn put(&self, group: &mut UnionGroup, place: usize, tokens: &[u32]) {
        let bits = &mut group.bits[place][..self.shape.words];
        group.hidden[place] = self.dealt.sign(tokens, bits);
    }

    /// Tests a group of probe sets against the columns of all blocks in a range; adds the places in
    /// the range of [`Self::members`] blocks each some of whose columns pass to `passing`. By such a
    /// place, `required` is the least overlap that the group requires of the blocks.
    pub(super) fn test(
        &self,
        simd: Simd,
        group: &UnionGroup,
        columns: Range<usize>,
        required: &[u32],
        passing: &mut Vec<u32>,
    ) {
        let test = match self.shape.words {
            1 => test_columns::<1>,
            2 => test_columns::<2>,
            _ => test_columns::<4>,
        };
        debug_assert!(WIDTHS.contains(&self.shape.words));
        test(simd, self, group, columns, required, passing);
    }
}

kernels! {
    /// [`Unions::test`] with columns of `WIDTH` words.
    fn test_columns[S: Words, const WIDTH: usize](
        this: &Unions,
        group: &UnionGroup,
        columns: Range<usize>,
        required: &[u32],
        passing: &mut Vec<u32>,
    ) {
        assert!(this.lines.len() >= columns.end * WIDTH);
        let required = &required[..columns.end];
        // At most one for each place: pushing never allocates.
        passing.reserve(columns.len());
        // SAFETY: the caller has the instructions of `S`. The words of a place are `WIDTH` lines
        // from `place * WIDTH` on, which the assertion keeps in bounds; lines are aligned to 64
        // bytes.
        unsafe {
            let mut bits = [[S::splat(0); WIDTH]; GROUP];
            for probe in 0..GROUP {
                for word in 0..WIDTH {
                    bits[probe][word] = S::splat(group.bits[probe][word]);
                }
            }
            for place in columns {
                let lines = this.lines.as_ptr().add(place * WIDTH);
                let mut counts = [S::zero(); GROUP];
                for word in 0..WIDTH {
                    let line = S::load(lines.add(word).cast());
                    for probe in 0..GROUP {
                        counts[probe] = S::add_common(counts[probe], line, bits[probe][word]);
                    }
                }
                let required = i64::from(*required.get_unchecked(place));
                let mut lanes = 0;
                for probe in 0..GROUP {
                    lanes |= S::at_least(counts[probe], required - i64::from(group.hidden[probe]));
                }
                if lanes != 0 {
                    passing.push(place as u32);
                }
            }
        }
    }
}

/// The shares of the pairs of a sampled set and a column that pass, by the shapes of
/// [`UnionShape::all`].
pub(crate) fn passing_shares(
    build: &SetCollection,
    spec: &JoinSpec,
    context: PrepareContext<'_>,
) -> Result<Vec<f64>> {
    let step = (build.len() as usize).div_ceil(COLUMNS).max(MOST_MEMBERS);
    let columns: Vec<SetId> =
        (0..build.len().saturating_sub(MOST_MEMBERS as u32 - 1)).step_by(step).collect();
    let rows = Evenly::new(build.len(), ROWS).iter();
    let mut cache = SizeBoundsCache::new(spec, build.runs());
    // By row, the set and the least overlap that it requires of each column.
    let rows = rows.filter_map(|set| {
        let (partners, bounds) = partners(build, spec, &mut cache, set)?;
        let required = |&first: &SetId| {
            let admitted = partners.contains(&first);
            admitted.then(|| bounds.required(build.size(first)))
        };
        Some((set, columns.iter().map(required).collect::<Vec<_>>()))
    });
    let rows: Vec<_> = rows.collect();
    let shares = map(context.threads, WIDTHS.to_vec(), |words| {
        context.cancel.check()?;
        let dealt = Dealt::new(build, words);
        let mut signature = [0; MOST_WORDS];
        let of_words = &mut signature[..words];
        let mut united = vec![[[0; MOST_WORDS]; MEMBERS.len()]; columns.len()];
        for (&first, united) in columns.iter().zip(&mut united) {
            for member in 0..MOST_MEMBERS {
                dealt.sign(build.tokens(first + member as u32), of_words);
                for (united, members) in united.iter_mut().zip(MEMBERS) {
                    if member < members {
                        united.iter_mut().zip(&*of_words).for_each(|(u, bits)| *u |= bits);
                    }
                }
            }
        }
        let (mut tried, mut passed) = (0, [0; MEMBERS.len()]);
        for (set, required) in &rows {
            let hidden = dealt.sign(build.tokens(*set), &mut signature[..words]);
            tried += required.iter().flatten().count();
            add_passing(spec.simd, &signature, hidden, required, &united, &mut passed);
        }
        // Few tries say little.
        Ok(passed.map(|passed| (f64::from(passed) + 0.5) / (tried as f64 + 1.0)))
    })?;
    Ok(shares.concat())
}

/// By number of members, the words of a column.
type UnitedColumn = [[u64; MOST_WORDS]; MEMBERS.len()];

kernels! {
    /// Counts the columns that pass a set, by their members. By column, the overlap that the set requires of it. The
    /// set's words behind the last one have no bits.
    fn add_passing[S: Words,](
        signature: &[u64; MOST_WORDS],
        hidden: u32,
        required: &[Option<u32>],
        united: &[UnitedColumn],
        passed: &mut [u32; MEMBERS.len()],
    ) {
        for (required, united) in required.iter().zip(united) {
            let Some(required) = *required else { continue };
            for (passed, united) in passed.iter_mut().zip(united) {
                let common = signature.iter().zip(united).map(|(a, b)| (a & b).count_ones());
                *passed += u32::from(common.sum::<u32>() + hidden >= required);
            }
        }
    }
}
