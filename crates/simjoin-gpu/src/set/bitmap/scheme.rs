//! The bits that the tokens of sets become on a device.

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::filter::signature::dealt_bit;

use crate::set::bitmap::abi::Signing;
use crate::set::bitmap::shape::WIDTHS;

/// Sets of signatures of one width: a bit of its own for each frequent token, the rarer ones dealt to
/// the other bits by falling frequency, forth and back.
///
/// Tokens are ranks by ascending frequency, so that a token's bit follows from its rank alone. With
/// `h` the tokens of a set less its bits, two sets have at most
/// `popcount(a & b) + min(h_a, h_b)` tokens in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TileScheme {
    /// Words of 32 bits.
    pub width: u32,
    /// Tokens are below this.
    pub universe: u32,
    /// Tokens, the most frequent ones, that own a bit.
    pub owned: u32,
    /// The logarithm of the number of bits that the others share.
    pub hashed_log: u32,
}

impl TileScheme {
    /// The scheme of a width for a collection. A quarter of the bits is shared, unless there is one
    /// for every token.
    pub(super) fn new(build: &SetCollection, width: u32) -> Self {
        let (bits, universe) = (width * u32::BITS, build.universe());
        let hashed = bits / 4;
        let owned = if universe <= bits { universe } else { bits - hashed };
        Self { width, universe, owned, hashed_log: hashed.ilog2() }
    }

    /// Whether every token owns a bit, so that common bits are the overlap.
    pub(super) fn is_exact(&self) -> bool {
        self.owned == self.universe
    }

    /// The narrowest width in which every token owns a bit.
    pub(super) fn exact_width(universe: u32) -> Option<u32> {
        WIDTHS.into_iter().find(|&width| universe <= width * u32::BITS)
    }

    /// The bit of a token. `bit_of` in `kernels/signatures.cuh` is the same.
    pub(super) fn bit_of(&self, token: u32) -> u32 {
        let number = self.universe - 1 - token;
        if number < self.owned {
            return number;
        }
        self.owned + dealt_bit(number - self.owned, self.hashed_log)
    }

    /// Signs a set, in `width` words. Returns its tokens less its bits.
    pub(super) fn sign(&self, tokens: &[u32], words: &mut [u32]) -> u32 {
        words.fill(0);
        for &token in tokens {
            let bit = self.bit_of(token);
            words[(bit / u32::BITS) as usize] |= 1 << (bit % u32::BITS);
        }
        tokens.len() as u32 - words.iter().map(|word| word.count_ones()).sum::<u32>()
    }

    /// The scheme as part of a kernel's argument.
    pub(super) fn fill(&self, signing: Signing) -> Signing {
        let Self { width, universe, owned, hashed_log } = *self;
        Signing { width, universe, owned, hashed_log, ..signing }
    }
}
