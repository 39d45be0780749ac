//! Tokens in 128 or 256 bits, and the weight that a set cannot share with a set of such a signature.
//!
//! A probe set has, for each four bits of a signature, a table of sixteen bytes: the weight, in small units, of its tokens
//! whose bits are not set. The sum over all tables is no more than the weight that the set certainly has alone. Tables
//! are looked up for 32 signatures at once (André, Kermarrec, Le Scouarnec: Cache locality is not enough, VLDB 2015, do
//! so for product codes).

use crate::simd::Nibbles;

/// A signature: a bit for each token, which several may share.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Signature([u64; 4]);

impl Signature {
    /// Adds a token to a signature of so many bytes.
    #[inline]
    pub(super) fn add(&mut self, token: u32, bytes: usize) {
        let bit = bit_of(token, bytes);
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    /// The bytes, of which the first count.
    pub(super) fn to_bytes(self) -> impl Iterator<Item = u8> {
        self.0.into_iter().flat_map(u64::to_le_bytes)
    }
}

/// The bytes of signatures by which matches share at least this part of their weight: where they may lack much, chance
/// must add little.
pub(super) fn signature_bytes(least_shared: f64) -> usize {
    /// Measured on 3-grams of headlines.
    const WIDE_BELOW: f64 = 0.5;
    if least_shared < WIDE_BELOW { Nibbles::BYTES } else { Nibbles::BYTES / 2 }
}

/// Postings whose signatures are looked up together; shorter lists have signatures one behind the other.
pub(super) const GROUP: usize = Nibbles::LANES;
/// Lists of fewer postings are not grouped.
pub(super) const LEAST_GROUPED: usize = 16;
/// The bit of a token in signatures of 16 or of 32 bytes.
#[inline]
fn bit_of(token: u32, bytes: usize) -> usize {
    (token.wrapping_mul(0x9E37_79B1) >> 24) as usize * bytes / Nibbles::BYTES
}

/// Units of weight in the whole weight of a set.
const UNITS: f64 = (1_u32 << 24) as f64;

/// The tables of a probe set.
#[derive(Debug)]
pub(super) struct LossTables {
    nibbles: Nibbles,
    /// The bytes of a signature.
    bytes: usize,
    /// By bit, the units of the tokens that have it.
    units: [u32; 256],
    /// From units to steps of the tables: steps are units times this, divided by 2³².
    factor: u64,
    /// Steps in the whole weight.
    scale: f64,
}

impl LossTables {
    /// Tables for signatures of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { nibbles: Nibbles::default(), bytes, units: [0; 256], factor: 0, scale: 0.0 }
    }

    /// Takes up a set: tokens with the share of each in the whole weight. Matches lack at most the share `allowed` of
    /// it.
    pub(super) fn begin(&mut self, shares: impl Iterator<Item = (u32, f64)>, allowed: f64) {
        /// The most steps that matches lack: a little below those of a byte.
        const STEPS: f64 = 240.0;
        self.units.fill(0);
        for (token, share) in shares {
            self.units[bit_of(token, self.bytes)] += (share * UNITS * (1.0 - 1e-9)) as u32;
        }
        self.scale = STEPS / allowed.max(1e-6);
        self.factor = (self.scale * (1_u64 << 32) as f64 / UNITS) as u64;
        (0..2 * self.bytes).for_each(|nibble| self.fill(nibble));
    }

    /// Leaves a token out, whose share was given: postings behind it cannot share it.
    pub(super) fn leave_out(&mut self, token: u32, share: f64) {
        let bit = bit_of(token, self.bytes);
        self.units[bit] -= (share * UNITS * (1.0 - 1e-9)) as u32;
        self.fill(bit / 4);
    }

    fn fill(&mut self, nibble: usize) {
        let units = &self.units[4 * nibble..4 * nibble + 4];
        let table = self.nibbles.table_mut(nibble);
        if units.iter().all(|units| *units == 0) {
            return table.fill(0);
        }
        // The sums of all sets of the four bits.
        let mut sums = [0_u64; 16];
        for set in 1..16_usize {
            let first = set.trailing_zeros() as usize;
            sums[set] = sums[set & (set - 1)] + u64::from(units[first]);
        }
        for (entry, missing) in table.iter_mut().zip(sums.iter().rev()) {
            *entry = ((missing * self.factor) >> 32).min(255) as u8;
        }
    }

    /// The steps of a share that a pair may lack; `None` where none matches.
    pub(super) fn limit(&self, allowed: f64) -> Option<u8> {
        (allowed >= 0.0).then(|| (allowed * self.scale * (1.0 + 1e-6) + 1e-3).min(255.0) as u8)
    }

    /// The signatures among 32 ones in groups that lack at most `limit` steps.
    #[inline]
    pub(super) fn grouped(&self, signatures: &[u8], limit: u8) -> u32 {
        self.nibbles.within(signatures, self.bytes, limit)
    }

    /// Whether a signature lacks at most `limit` steps.
    #[inline]
    pub(super) fn single(&self, signature: &[u8], limit: u8) -> bool {
        limit == u8::MAX || self.nibbles.sum(signature) <= u32::from(limit)
    }
}
