//! The columns of a batch, as bit vectors of its patterns' rows.

use super::{LaneBits, LaneCount, Symbols};
use crate::simd::Simd;
use crate::simd::texts::lanes_kernel;

/// The columns of a batch, for kernels. The slices have an entry for each byte of a symbol.
pub(super) struct BatchColumns<'a> {
    pub masks: &'a mut [[u64; 8 * 64]],
    pub patterns: &'a [Symbols],
    pub texts: &'a [Symbols],
    pub marks: &'a [u8; 64],
    pub near: &'a [u8; 64],
    /// The longest text.
    pub columns: usize,
}

/// Makes a kernel for pairs of at most `W` bytes.
///
/// It fills the match masks of each column first, by `F::equal`. Then `$step` goes on by a column: it gets
/// the masks of the column and changes the state, whose first two vectors are the answer.
macro_rules! kernel {
    (
        $(#[$meta:meta])*
        $name:ident, $width:literal, $right:literal,
        [$form:ident, $batch:ident] $begin:expr,
        |$masks:ident, $state:ident| $step:block
    ) => {
        lanes_kernel! {
            $(#[$meta])*
            fn $name[$form, Z = 1 or 1]($batch: &mut BatchColumns<'_>, bits: &mut LaneBits) {
                const W: usize = $width;
                let columns = $batch.columns.min(W);
                let columns = if $right { W - columns..W } else { 0..columns };
                let symbols = $batch.patterns.iter().zip($batch.texts);
                for (masks, (patterns, texts)) in $batch.masks.iter_mut().zip(symbols) {
                    let (patterns, texts) = (patterns.as_ptr(), texts.as_ptr());
                    for column in columns.clone() {
                        // SAFETY: the kernel runs the instructions of the form; patterns and texts have
                        // 512 bytes, masks eight words for each column, and columns are below `W`.
                        unsafe {
                            let to = masks.as_mut_ptr().add(8 * column);
                            $form::equal::<W>(to, patterns, texts, column);
                        }
                    }
                }
                let low = $batch.masks[0].as_ptr();
                let high = $batch.masks.get(1).map(|masks| masks.as_ptr());
                // SAFETY: as above.
                unsafe {
                    let mut $state = $begin;
                    for column in columns {
                        let mut $masks = $form::load(low.add(8 * column).cast());
                        if let Some(high) = high {
                            let high = $form::load(high.add(8 * column).cast());
                            $masks = $form::and($masks, high);
                        }
                        let $masks = $masks;
                        $step
                    }
                    $form::store(bits.0[0].as_mut_ptr(), $state[0]);
                    $form::store(bits.0[1].as_mut_ptr(), $state[1]);
                }
            }
        }
    };
}

/// Makes the kernels of a width.
macro_rules! kernels {
    ($width:literal: $levenshtein:ident, $damerau:ident, $indel:ident, $jaro:ident) => {
        kernel! {
            /// The vertical differences of the last column, plus one and minus one.
            ///
            /// A text ends in the last column. Before it starts, nothing matches and the row above the first
            /// does not ascend, which leaves its lane as it is.
            $levenshtein, $width, true,
            [F, batch] {
                let until = F::load(batch.marks.as_ptr());
                let first = (W - batch.columns.min(W)) as u16;
                let until = F::sub::<W>(until, F::splat_lanes::<W>(first + 1));
                [F::splat8(0xff), F::splat8(0), until]
            },
            |masks, state| {
                let [plus, minus, until] = state;
                let equal = F::or(masks, minus);
                let sum = F::add::<W>(F::and(equal, plus), plus);
                let diagonal = F::or(F::xor(sum, plus), equal);
                let up = F::or_nor(minus, diagonal, plus);
                let down = F::and(diagonal, plus);
                // Below 0 from the column on in which the text starts.
                let up = F::or(F::add::<W>(up, up), F::sign::<W>(until));
                let plus = F::or_nor(F::add::<W>(down, down), diagonal, up);
                state = [plus, F::and(up, diagonal), F::sub::<W>(until, F::splat_lanes::<W>(1))];
            }
        }

        kernel! {
            /// The same with transpositions, as [`Damerau`](crate::string::rules::Damerau) has them.
            $damerau, $width, true,
            [F, batch] {
                let until = F::load(batch.marks.as_ptr());
                let first = (W - batch.columns.min(W)) as u16;
                let until = F::sub::<W>(until, F::splat_lanes::<W>(first + 1));
                let none = F::splat8(0);
                [F::splat8(0xff), none, until, none, none, none]
            },
            |masks, state| {
                let [plus, minus, until, equal, stays, climbs] = state;
                let along_row = F::and(climbs, F::add::<W>(masks, masks));
                let starts = F::and(masks, F::not(stays));
                let below = F::add::<W>(starts, starts);
                let ascending = F::and(plus, F::not(masks));
                let sum = F::add::<W>(F::and(below, ascending), ascending);
                let along_column = F::and(equal, F::or(below, F::xor(sum, ascending)));
                let reached = F::or(masks, minus);
                let sum = F::add::<W>(F::and(reached, plus), plus);
                let stays = F::or(F::xor(sum, plus), reached);
                let stays = F::or(stays, F::or(along_row, along_column));
                let up = F::or_nor(minus, stays, plus);
                let down = F::and(stays, plus);
                // Below 0 from the column on in which the text starts.
                let up = F::or(F::add::<W>(up, up), F::sign::<W>(until));
                let first = F::and(masks, F::not(F::add::<W>(stays, stays)));
                let climbs = F::and(F::and(climbs, up), F::not(masks));
                state = [
                    F::or_nor(F::add::<W>(down, down), stays, up),
                    F::and(up, stays),
                    F::sub::<W>(until, F::splat_lanes::<W>(1)),
                    masks,
                    stays,
                    F::or(first, climbs),
                ];
            }
        }

        kernel! {
            /// The rows in which the common subsequence does not grow.
            $indel, $width, false,
            [F, batch] [F::splat8(0xff); 2],
            |masks, state| {
                let [same, _] = state;
                let common = F::and(same, masks);
                let rest = F::and(same, F::not(masks));
                state = [F::or(F::add::<W>(same, common), rest); 2];
            }
        }

        kernel! {
            /// The common symbols of the patterns; those of the texts, the first column in the highest bit
            /// but those that the columns behind take.
            $jaro, $width, false,
            [F, batch] {
                // The rows within reach, and minus the number of columns until the first leaves it.
                let near = F::load(batch.near.as_ptr());
                let until = F::load(batch.marks.as_ptr());
                let until = F::sub::<W>(F::splat8(0), until);
                [F::splat8(0), F::splat8(0), near, until]
            },
            |masks, state| {
                let [rows, columns, near, until] = state;
                let free = F::and(F::and(masks, near), F::not(rows));
                let negative = F::sub::<W>(F::splat8(0), free);
                let rows = F::or(rows, F::and(free, negative));
                let any = F::and(F::or(free, negative), F::not(F::half::<W>(F::splat8(0xff))));
                let columns = F::or(F::half::<W>(columns), any);
                let near = F::or(F::add::<W>(near, near), F::sign::<W>(until));
                state = [rows, columns, near, F::add::<W>(until, F::splat_lanes::<W>(1))];
            }
        }
    };
}

kernels!(16: levenshtein_16, damerau_16, indel_16, jaro_16);
kernels!(32: levenshtein_32, damerau_32, indel_32, jaro_32);
kernels!(64: levenshtein_64, damerau_64, indel_64, jaro_64);

lanes_kernel! {
    /// The places in which a pattern and its text are alike.
    fn hamming[F, Z = 1 or 1](batch: &BatchColumns<'_>, bits: &mut LaneBits) {
        for (i, to) in bits.0[0].chunks_exact_mut(8).enumerate() {
            // SAFETY: the kernel runs the instructions of the form; patterns and texts have 512 bytes.
            let differing = unsafe {
                let mut differing = F::splat8(0);
                for (pattern, text) in batch.patterns.iter().zip(batch.texts) {
                    let pattern = F::load(pattern.as_ptr().add(64 * i));
                    let text = F::load(text.as_ptr().add(64 * i));
                    differing = F::or(differing, F::xor(pattern, text));
                }
                F::nonzero(differing)
            };
            to.copy_from_slice(&(!differing).to_le_bytes());
        }
    }
}

impl BatchColumns<'_> {
    /// Computes the bits of a count.
    pub(super) fn count<const W: usize>(
        &mut self,
        simd: Simd,
        count: LaneCount,
        bits: &mut LaneBits,
    ) {
        match (count, W) {
            (LaneCount::Levenshtein, 16) => levenshtein_16(simd, self, bits),
            (LaneCount::Levenshtein, 32) => levenshtein_32(simd, self, bits),
            (LaneCount::Levenshtein, _) => levenshtein_64(simd, self, bits),
            (LaneCount::Damerau, 16) => damerau_16(simd, self, bits),
            (LaneCount::Damerau, 32) => damerau_32(simd, self, bits),
            (LaneCount::Damerau, _) => damerau_64(simd, self, bits),
            (LaneCount::Indel, 16) => indel_16(simd, self, bits),
            (LaneCount::Indel, 32) => indel_32(simd, self, bits),
            (LaneCount::Indel, _) => indel_64(simd, self, bits),
            (LaneCount::Hamming, _) => hamming(simd, self, bits),
            (LaneCount::Jaro, 16) => jaro_16(simd, self, bits),
            (LaneCount::Jaro, 32) => jaro_32(simd, self, bits),
            (LaneCount::Jaro, _) => jaro_64(simd, self, bits),
        }
    }
}
