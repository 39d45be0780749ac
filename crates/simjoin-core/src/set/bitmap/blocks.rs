//! Signatures of the build side in blocks of eight sets, and the kernel that tests probe sets
//! against them.

use std::hint::black_box;
use std::mem::size_of;
use std::ops::Range;

use crate::engine::{MatchNeed, Pairing, PrepareContext};
use crate::error::Result;
use crate::set::bitmap::lines::{ABREAST, GROUP, Line};
use crate::set::bitmap::unions::{UnionShape, Unions};
use crate::set::collection::SetCollection;
use crate::set::filter::SignatureScheme;
use crate::set::filter::signature::MAX_WORDS;
use crate::set::join_spec::JoinSpec;
use crate::set::rates::Rate;
use crate::set::runs::SetId;
use crate::simd::{Form, Simd, Words, kernels};
use crate::tuning::Tuning;
use crate::util::cancel::sort_unstable_by_key;
use crate::util::fastest::fastest;
use crate::util::parallel::{filled, for_each, threads_for};

/// Words of a signature that the kernel can test.
pub(crate) const FRONT_WIDTHS: [usize; 7] = [1, 2, 3, 4, 5, 6, 8];

/// The words in front of the full signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Front {
    /// Words that the kernel tests.
    pub words: usize,
    /// Columns that are tested before, where these pay.
    pub unions: Option<UnionShape>,
}

impl Front {
    /// The first word alone.
    pub const LEAST: Self = Self { words: 1, unions: None };
}

/// The build side's signatures.
///
/// Sets stand in the order of their ids, except that the sets of one run (blocking key and size)
/// are ordered by how many of their tokens the first words leave out, so that this number hardly
/// varies within a block. The first words, which the kernel tests, lie apart from the others, which
/// only survivors need: word after word of eight sets each.
#[derive(Debug)]
pub(super) struct SignatureBlocks {
    scheme: SignatureScheme,
    /// Words that the kernel tests.
    front_words: usize,
    front: Vec<Line>,
    back: Vec<Line>,
    /// By block, the most tokens of a set that the front leaves out, and that all words do.
    rest: Vec<u32>,
    hidden: Vec<u32>,
    /// By position, the set.
    sets: Vec<SetId>,
    /// By position, the tokens that own no bit: the first ones of the set.
    rare: Vec<u32>,
    /// By position, the size of the set.
    sizes: Vec<u32>,
    /// By block and lane, the rows that hold the set; kept where they are counted and some sets have
    /// several.
    rows: Vec<[u32; ABREAST]>,
    /// By set, its position; kept for self-joins.
    positions: Vec<u32>,
    unions: Option<Unions>,
}

impl SignatureBlocks {
    pub(super) fn try_new(
        build: &SetCollection,
        scheme: SignatureScheme,
        front: Front,
        spec: &JoinSpec,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let (words, front_words) = (scheme.words(), front.words);
        let len = build.len() as usize;
        let blocks = len.div_ceil(ABREAST);
        let with_positions = spec.pairing == Pairing::Unordered;
        let with_rows = spec.need == MatchNeed::Count && !build.has_no_repeats();
        let of_set = 3 + usize::from(with_positions);
        let of_block = 2 + if with_rows { ABREAST } else { 0 };
        let kept = blocks * words * size_of::<Line>()
            + (blocks * of_block + len * of_set) * size_of::<u32>()
            + front.unions.map_or(0, |shape| Unions::footprint(shape, len))
            + scheme.size_in_bytes();
        let working = len * (words * size_of::<u64>() + 3 * size_of::<u32>());
        context.reservation.try_grow(kept + working)?;
        let signed = Signed::try_new(build, &scheme, front_words, context)?;
        let mut positions = vec![0; if with_positions { len } else { 0 }];
        let sets = ordered(build, &signed.rest, &mut positions, context)?;
        let unions = front.unions.map(|shape| Unions::try_new(build, &sets, shape, context));
        let mut this = Self {
            unions: unions.transpose()?,
            front: filled(context.threads, blocks * front_words, Line::EMPTY),
            back: filled(context.threads, blocks * (words - front_words), Line::EMPTY),
            rest: vec![0; blocks],
            hidden: vec![0; blocks],
            rare: vec![0; len],
            sizes: vec![0; len],
            rows: vec![[0; ABREAST]; if with_rows { blocks } else { 0 }],
            scheme,
            front_words,
            sets,
            positions,
        };
        this.fill(build, &signed, context)?;
        for (block, rows) in this.rows.iter_mut().enumerate() {
            context.cancel.check_at(block)?;
            let sets = this.sets[block * ABREAST..].iter();
            rows.iter_mut().zip(sets).for_each(|(rows, &set)| *rows = build.row_count_of(set));
        }
        context.reservation.shrink(working);
        Ok(this)
    }

    /// Lays the signatures out in blocks.
    fn fill(
        &mut self,
        build: &SetCollection,
        signed: &Signed,
        context: PrepareContext<'_>,
    ) -> Result<()> {
        let (words, front_words) = (self.scheme.words(), self.front_words);
        let back_words = words - front_words;
        let threads = threads_for(context.threads, self.sets.len() * (words + ABREAST));
        // Blocks that one thread fills.
        let share = self.rest.len().div_ceil(threads.count()).max(1);
        let mut backs = self.back.chunks_mut((share * back_words).max(1));
        let tasks = self
            .front
            .chunks_mut(share * front_words)
            .map(|front| (front, backs.next().unwrap_or_default()))
            .zip(self.rest.chunks_mut(share).zip(self.hidden.chunks_mut(share)))
            .zip(self.rare.chunks_mut(share * ABREAST).zip(self.sizes.chunks_mut(share * ABREAST)))
            .zip(self.sets.chunks(share * ABREAST));
        for_each(threads, tasks.collect(), |task| {
            let ((((front, back), (rest, hidden)), (rare, sizes)), sets) = task;
            for (position, &set) in sets.iter().enumerate() {
                context.cancel.check_at(position)?;
                let (block, lane) = (position / ABREAST, position % ABREAST);
                let of_set = set as usize;
                let signature = &signed.signatures[of_set * words..][..words];
                let (first, others) = signature.split_at(front_words);
                for (line, &bits) in front[block * front_words..].iter_mut().zip(first) {
                    line.put(lane, bits);
                }
                for (line, &bits) in back[block * back_words..].iter_mut().zip(others) {
                    line.put(lane, bits);
                }
                rest[block] = rest[block].max(signed.rest[of_set]);
                hidden[block] = hidden[block].max(signed.hidden[of_set]);
                rare[position] = signed.rare[of_set];
                // The sets of a run, which share their size, keep its positions.
                sizes[position] = build.size(set);
            }
            Ok(())
        })
    }

    pub(super) fn scheme(&self) -> &SignatureScheme {
        &self.scheme
    }

    pub(super) fn front_words(&self) -> usize {
        self.front_words
    }

    /// The columns that are tested before the blocks, if any.
    pub(super) fn unions(&self) -> Option<&Unions> {
        self.unions.as_ref()
    }

    /// The number of blocks.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The set at a position.
    #[inline]
    pub(super) fn set(&self, position: usize) -> SetId {
        self.sets[position]
    }

    /// The number of first tokens that own no bit, of the set at a position.
    #[inline]
    pub(super) fn rare(&self, position: usize) -> usize {
        self.rare[position] as usize
    }

    /// The size of the set at a position.
    #[inline]
    pub(super) fn size(&self, position: usize) -> u32 {
        self.sizes[position]
    }

    /// Adds, by probe of the group, the rows that hold the sets in the lanes of a hit, where rows are
    /// counted.
    #[inline]
    pub(super) fn add_row_counts(&self, hit: BlockHit, partners: &mut [u32; GROUP]) {
        let rows = self.rows.get(hit.block as usize).filter(|rows| **rows != [1; ABREAST]);
        for (place, partners) in partners.iter_mut().enumerate() {
            let lanes = hit.lanes >> (ABREAST * place) & 0xFF;
            *partners += match rows {
                None => lanes.count_ones(),
                Some(rows) => {
                    let in_lane = |(lane, &rows): (usize, &u32)| rows * (lanes >> lane & 1);
                    rows.iter().enumerate().map(in_lane).sum()
                }
            };
        }
    }

    /// The position of a set, where positions are kept.
    #[inline]
    pub(super) fn position(&self, set: SetId) -> u32 {
        self.positions[set as usize]
    }

    /// Copies the signature of a set; returns how many tokens, the first ones, own no bit. Positions
    /// are kept.
    pub(super) fn copy_signature(&self, set: SetId, signature: &mut [u64]) -> u32 {
        let position = self.position(set) as usize;
        let (block, lane) = (position / ABREAST, position % ABREAST);
        let (front, back) = signature.split_at_mut(self.front_words);
        let back_words = back.len();
        for (bits, line) in front.iter_mut().zip(&self.front[block * self.front_words..]) {
            *bits = line.lane(lane);
        }
        for (bits, line) in back.iter_mut().zip(&self.back[block * back_words..]) {
            *bits = line.lane(lane);
        }
        self.rare[position]
    }

    /// Common bits of a probe signature with the set at a position: owned and hashed ones, and how
    /// many hashed bits the build set has.
    #[inline]
    pub(super) fn common(&self, signature: &[u64], position: usize) -> Common {
        let (block, lane) = (position / ABREAST, position % ABREAST);
        let back_words = signature.len() - self.front_words;
        let front = &self.front[block * self.front_words..][..self.front_words];
        let back = &self.back[block * back_words..][..back_words];
        let (owned, hashed) = signature.split_at(self.scheme.owned_words());
        let lines = front.iter().chain(back);
        let mut common = Common::default();
        for (line, &bits) in lines.clone().zip(owned) {
            common.owned += (line.lane(lane) & bits).count_ones();
        }
        for (line, &bits) in lines.skip(owned.len()).zip(hashed) {
            common.hashed += (line.lane(lane) & bits).count_ones();
            common.build_hashed += line.lane(lane).count_ones();
        }
        common
    }

    /// Tests a group of probe sets against `blocks`; adds each block with survivors to `hits`.
    ///
    /// `required` holds, by block, an overlap that no admissible pair of the group with the block
    /// may fall below, and `rest` how many tokens of a probe set the front leaves out at most.
    #[inline]
    pub(super) fn test(
        &self,
        simd: Simd,
        probes: &ProbeGroup,
        blocks: Range<usize>,
        required: &[u32],
        hits: &mut Vec<BlockHit>,
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

/// The time of testing signatures on this processor, by that which the constants of the estimates say.
pub fn test_rate(simd: Simd, tuning: Tuning) -> f64 {
    static RATE: Rate = Rate::new(
        |form| match form {
            Form::Avx512 => 1.0,
            Form::Avx2 => 3.0,
            Form::Portable => 6.0,
        },
        measured_rate,
    );
    RATE.of(simd, tuning)
}

/// The rate of the kernel by the clock; `None` where it says nothing.
fn measured_rate(simd: Simd) -> Option<f64> {
    const BLOCKS: usize = 64;
    const WORDS: usize = 4;
    const REPEATS: usize = 8;
    /// Nanoseconds of a pair where those constants were measured, in joins: blocks here stay in the caches.
    const REFERENCE: f64 = 0.27;
    // Every bit is common, and no pair has enough.
    let blocks = SignatureBlocks {
        scheme: SignatureScheme::empty(WORDS),
        front_words: WORDS,
        front: vec![Line::FULL; BLOCKS * WORDS],
        back: vec![],
        rest: vec![0; BLOCKS],
        hidden: vec![0; BLOCKS],
        sets: vec![],
        rare: vec![],
        sizes: vec![],
        rows: vec![],
        positions: vec![],
        unions: None,
    };
    let group = ProbeGroup { front: [[u64::MAX; 8]; GROUP], ..ProbeGroup::default() };
    let required = vec![u32::MAX; BLOCKS];
    let mut hits = vec![];
    let nanos = fastest(|| {
        for _ in 0..REPEATS {
            blocks.test(simd, black_box(&group), 0..BLOCKS, &required, &mut hits);
        }
        hits.len()
    });
    let pairs = (REPEATS * BLOCKS * ABREAST * GROUP) as f64;
    (nanos > 0.0).then(|| nanos / pairs / REFERENCE)
}

/// The sets of a run, and the places for their order and for their positions.
type RunOfBlocks<'a> = (Range<SetId>, &'a mut [SetId], &'a mut [u32]);

/// The sets in the order of their blocks: by run, and in a run by how many of their tokens the
/// front leaves out. Where `positions` is not empty, it gets the place of each set.
fn ordered(
    build: &SetCollection,
    rest: &[u32],
    positions: &mut [u32],
    context: PrepareContext<'_>,
) -> Result<Vec<SetId>> {
    let len = build.len() as usize;
    let mut sets = vec![0; len];
    let threads = threads_for(context.threads, 4 * len);
    let share = len.div_ceil(threads.count()).max(1);
    let (mut own_sets, mut own_positions) = (sets.as_mut_slice(), positions);
    // Several runs of about as many sets as one thread's share.
    let mut tasks: Vec<Vec<RunOfBlocks<'_>>> = vec![];
    let mut room = 0;
    for (_, ids) in build.runs().iter() {
        let (sets, other_sets) = own_sets.split_at_mut(ids.len());
        let (positions, other_positions) =
            own_positions.split_at_mut(ids.len().min(own_positions.len()));
        (own_sets, own_positions) = (other_sets, other_positions);
        if tasks.is_empty() || room < ids.len() {
            tasks.push(vec![]);
            room = share;
        }
        room = room.saturating_sub(ids.len());
        if let Some(task) = tasks.last_mut() {
            task.push((ids, sets, positions));
        }
    }
    for_each(threads, tasks, |runs| {
        for (ids, sets, positions) in runs {
            context.cancel.check()?;
            let start = ids.start;
            sets.iter_mut().zip(ids).for_each(|(place, set)| *place = set);
            sort_unstable_by_key(sets, context.cancel, |&s| (rest[s as usize], s))?;
            if !positions.is_empty() {
                for (position, &set) in (start..).zip(&*sets) {
                    positions[(set - start) as usize] = position;
                }
            }
        }
        Ok(())
    })?;
    Ok(sets)
}

/// The signatures of all sets, by set.
struct Signed {
    signatures: Vec<u64>,
    /// Tokens that own no bit.
    rare: Vec<u32>,
    /// Tokens that the front leaves out, and that all words do.
    rest: Vec<u32>,
    hidden: Vec<u32>,
}

impl Signed {
    fn try_new(
        build: &SetCollection,
        scheme: &SignatureScheme,
        front_words: usize,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let words = scheme.words();
        let len = build.len() as usize;
        let mut this = Self {
            signatures: filled(context.threads, len * words, 0),
            rare: vec![0; len],
            rest: vec![0; len],
            hidden: vec![0; len],
        };
        let share = len.div_ceil(threads_for(context.threads, build.token_count()).count()).max(1);
        let parts = this
            .signatures
            .chunks_mut(share * words)
            .zip(this.rare.chunks_mut(share))
            .zip(this.rest.chunks_mut(share).zip(this.hidden.chunks_mut(share)))
            .enumerate();
        let bits = |words: &[u64]| words.iter().map(|w| w.count_ones()).sum::<u32>();
        for_each(
            context.threads,
            parts.collect(),
            |(part, ((signatures, rare), (rest, hidden)))| {
                for (i, signature) in signatures.chunks_exact_mut(words).enumerate() {
                    if i % 4096 == 0 {
                        context.cancel.check()?;
                    }
                    let tokens = build.tokens((part * share + i) as SetId);
                    rare[i] = scheme.sign(tokens, signature) as u32;
                    rest[i] = tokens.len() as u32 - bits(&signature[..front_words]);
                    hidden[i] = tokens.len() as u32 - bits(signature);
                }
                Ok(())
            },
        )?;
        Ok(this)
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
pub(super) struct ProbeGroup {
    pub front: [[u64; 8]; GROUP],
    /// The other words.
    pub back: [[u64; MAX_WORDS]; GROUP],
    /// The most tokens of one of them that the front leaves out, and that all words do.
    pub rest: u32,
    pub hidden: u32,
}

/// A block and the lanes that pass: bit `8 * probe + lane`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHit {
    pub block: u32,
    pub lanes: u32,
}

kernels! {
    /// [`SignatureBlocks::test`] with a front of `WIDTH` words.
    fn test_blocks[S: Words, const WIDTH: usize](
        this: &SignatureBlocks,
        probes: &ProbeGroup,
        blocks: Range<usize>,
        required: &[u32],
        hits: &mut Vec<BlockHit>,
    ) {
        let back_words = this.scheme.words() - WIDTH;
        assert!(blocks.end <= this.rest.len() && this.front.len() >= blocks.end * WIDTH);
        assert!(back_words <= MAX_WORDS && this.back.len() >= blocks.end * back_words);
        let required = &required[..blocks.end];
        let rests = &this.rest[..blocks.end];
        let hiddens = &this.hidden[..blocks.end];
        // At most one hit for each block: pushing never allocates.
        hits.reserve(blocks.len());
        // SAFETY: the caller has the instructions of `S`. A block's words are `WIDTH` lines from
        // `block * WIDTH` on and `back_words` lines from `block * back_words` on, which the
        // assertions keep in bounds; lines are aligned to 64 bytes.
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
                    // The other words of the survivors.
                    let lines = this.back.as_ptr().add(block * back_words);
                    let hidden = (*hiddens.get_unchecked(block)).min(probes.hidden);
                    let least = i64::from(*required.get_unchecked(block)) - i64::from(hidden);
                    let mut surviving = 0;
                    for probe in 0..GROUP {
                        if lanes >> (8 * probe) & 0xFF != 0 {
                            let mut count = counts[probe];
                            for word in 0..back_words {
                                let line = S::load(lines.add(word).cast());
                                let bits = S::splat(*probes.back[probe].get_unchecked(word));
                                count = S::add_common(count, line, bits);
                            }
                            surviving |= u32::from(S::at_least(count, least)) << (8 * probe);
                        }
                    }
                    if lanes & surviving != 0 {
                        hits.push(BlockHit { block: block as u32, lanes: lanes & surviving });
                    }
                }
            }
        }
    }
}
