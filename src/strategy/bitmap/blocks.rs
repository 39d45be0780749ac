//! Signatures of the build side in blocks of eight sets, and the kernel that tests probe sets
//! against them.

use std::mem::size_of;
use std::ops::Range;

use datafusion::common::Result;

use crate::filter::SignatureScheme;
use crate::sets::{SetCollection, SetId};
use crate::simd::{Simd, Words, kernels};
use crate::strategy::PrepareContext;

/// Sets abreast in a block.
pub(super) const ABREAST: usize = 8;
/// Probe sets tested together against a block.
pub(super) const GROUP: usize = 4;
/// Words of a signature that the kernel can test.
pub(super) const FRONT_WIDTHS: [usize; 7] = [1, 2, 3, 4, 5, 6, 8];

/// A word of eight sets.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([u64; ABREAST]);

/// The build side's signatures.
///
/// Sets stand in the order of their ids, except that those of one run (blocking key and size) are
/// ordered by how many of their tokens the first words leave out, so that this number hardly
/// varies within a block. The first words, which the kernel tests, lie apart from the others,
/// which only survivors need: word after word of eight sets each.
#[derive(Debug)]
pub(super) struct Blocks {
    scheme: SignatureScheme,
    /// Words that the kernel tests.
    front_words: usize,
    front: Vec<Line>,
    back: Vec<Line>,
    /// By block, the most tokens of a set that the front leaves out.
    rest: Vec<u32>,
    /// By position, the set.
    sets: Vec<SetId>,
    /// By position, the tokens that own no bit: the first ones of the set.
    rare: Vec<u32>,
    /// By set, its position; kept for self-joins.
    positions: Vec<u32>,
}

impl Blocks {
    pub fn try_new(
        build: &SetCollection,
        scheme: SignatureScheme,
        front_words: usize,
        with_positions: bool,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let words = scheme.words();
        let len = build.len() as usize;
        let blocks = len.div_ceil(ABREAST);
        let kept = blocks * words * size_of::<Line>()
            + (blocks + len * (2 + usize::from(with_positions))) * size_of::<u32>()
            + scheme.size_in_bytes();
        let working = len * (words * size_of::<u64>() + 2 * size_of::<u32>());
        context.reservation.try_grow(kept + working)?;
        let mut signatures = vec![0; len * words];
        let mut rare_of = vec![0; len];
        let mut rest_of = vec![0; len];
        for (set, signature) in signatures.chunks_exact_mut(words).enumerate() {
            if set % 4096 == 0 {
                context.cancel.check()?;
            }
            let tokens = build.tokens(set as SetId);
            rare_of[set] = scheme.sign(tokens, signature) as u32;
            let seen: u32 = signature[..front_words].iter().map(|w| w.count_ones()).sum();
            rest_of[set] = tokens.len() as u32 - seen;
        }
        let mut sets: Vec<SetId> = (0..len as u32).collect();
        for (_, ids) in build.runs().iter() {
            context.cancel.check()?;
            sets[ids.start as usize..ids.end as usize]
                .sort_unstable_by_key(|&s| (rest_of[s as usize], s));
        }
        let mut front = vec![Line([0; ABREAST]); blocks * front_words];
        let mut back = vec![Line([0; ABREAST]); blocks * (words - front_words)];
        let mut rest = vec![0; blocks];
        for (position, &set) in sets.iter().enumerate() {
            let (block, lane) = (position / ABREAST, position % ABREAST);
            let signature = &signatures[set as usize * words..][..words];
            let (first, others) = signature.split_at(front_words);
            for (word, &bits) in first.iter().enumerate() {
                front[block * front_words + word].0[lane] = bits;
            }
            for (word, &bits) in others.iter().enumerate() {
                back[block * others.len() + word].0[lane] = bits;
            }
            rest[block] = rest[block].max(rest_of[set as usize]);
        }
        let rare = sets.iter().map(|&s| rare_of[s as usize]).collect();
        let mut positions = vec![0; if with_positions { len } else { 0 }];
        if with_positions {
            for (position, &set) in sets.iter().enumerate() {
                positions[set as usize] = position as u32;
            }
        }
        context.reservation.shrink(working);
        Ok(Self { scheme, front_words, front, back, rest, sets, rare, positions })
    }

    pub fn scheme(&self) -> &SignatureScheme {
        &self.scheme
    }

    pub fn front_words(&self) -> usize {
        self.front_words
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// The set at a position.
    #[inline]
    pub fn set(&self, position: usize) -> SetId {
        self.sets[position]
    }

    /// The number of first tokens that own no bit, of the set at a position.
    #[inline]
    pub fn rare(&self, position: usize) -> usize {
        self.rare[position] as usize
    }

    /// The position of a set, where positions are kept.
    #[inline]
    pub fn position(&self, set: SetId) -> u32 {
        self.positions[set as usize]
    }

    /// Common bits of a probe signature with the set at a position: owned and hashed ones, and how
    /// many hashed bits the build set has.
    #[inline]
    pub fn common(&self, signature: &[u64], position: usize) -> Common {
        let (block, lane) = (position / ABREAST, position % ABREAST);
        let back_words = signature.len() - self.front_words;
        let front = &self.front[block * self.front_words..][..self.front_words];
        let back = &self.back[block * back_words..][..back_words];
        let owned_words = self.scheme.owned_words();
        let mut common = Common::default();
        for (word, (line, &bits)) in front.iter().chain(back).zip(signature).enumerate() {
            let build = line.0[lane];
            if word < owned_words {
                common.owned += (build & bits).count_ones();
            } else {
                common.hashed += (build & bits).count_ones();
                common.build_hashed += build.count_ones();
            }
        }
        common
    }

    /// Tests a group of probe sets against `blocks`; adds each block with survivors to `hits`.
    ///
    /// `required` holds, by block, an overlap that no admissible pair of the group with the block
    /// may fall below, and `rest` how many tokens of a probe set the front leaves out at most.
    #[inline]
    pub fn test(
        &self,
        simd: Simd,
        probes: &Group,
        blocks: Range<usize>,
        required: &[u32],
        hits: &mut Vec<Hit>,
    ) {
        let test = match self.front_words {
            1 => test_blocks::<1>,
            2 => test_blocks::<2>,
            3 => test_blocks::<3>,
            4 => test_blocks::<4>,
            5 => test_blocks::<5>,
            6 => test_blocks::<6>,
            _ => test_blocks::<8>,
        };
        debug_assert!(FRONT_WIDTHS.contains(&self.front_words));
        test(simd, self, probes, blocks, required, hits);
    }
}

/// Common bits of two signatures.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Common {
    pub owned: u32,
    pub hashed: u32,
    pub build_hashed: u32,
}

/// Probe sets that are tested together: the front of their signatures. Places that are not used
/// hold no bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Group {
    pub front: [[u64; 8]; GROUP],
    /// The most tokens of one of them that the front leaves out.
    pub rest: u32,
}

/// A block and the lanes that pass: bit `8 * probe + lane`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub block: u32,
    pub lanes: u32,
}

kernels! {
    /// [`Blocks::test`] with a front of `WIDTH` words.
    fn test_blocks[S: Words, const WIDTH: usize](
        this: &Blocks,
        probes: &Group,
        blocks: Range<usize>,
        required: &[u32],
        hits: &mut Vec<Hit>,
    ) {
        assert!(blocks.end <= this.rest.len() && this.front.len() >= blocks.end * WIDTH);
        let required = &required[..blocks.end];
        let rests = &this.rest[..blocks.end];
        // At most one hit for each block: pushing never allocates.
        hits.reserve(blocks.len());
        // SAFETY: the caller has the instructions of `S`. A block's words are `WIDTH` lines from
        // `block * WIDTH` on, which the assertion keeps in bounds; lines are aligned to 64 bytes.
        unsafe {
            let mut bits = [[S::splat(0); WIDTH]; GROUP];
            for probe in 0..GROUP {
                for word in 0..WIDTH {
                    bits[probe][word] = S::splat(probes.front[probe][word]);
                }
            }
            for block in blocks {
                let lines = this.front.as_ptr().add(block * WIDTH);
                let mut counts = [S::zero(); GROUP];
                for word in 0..WIDTH {
                    let line = S::load(lines.add(word).cast());
                    for probe in 0..GROUP {
                        counts[probe] = S::add_common(counts[probe], line, bits[probe][word]);
                    }
                }
                let hidden = (*rests.get_unchecked(block)).min(probes.rest);
                let least = i64::from(*required.get_unchecked(block)) - i64::from(hidden);
                let mut lanes = 0;
                for probe in 0..GROUP {
                    lanes |= u32::from(S::at_least(counts[probe], least)) << (8 * probe);
                }
                if lanes != 0 {
                    hits.push(Hit { block: block as u32, lanes });
                }
            }
        }
    }
}
