//! A join of two set collections.

use crate::engine::{GpuOptions, MatchNeed, MatchSpec, NearestPartners, Pairing, Unit};
use crate::error::Result;
use crate::predicate::Predicate;
use crate::set::collection::SetCollection;
use crate::set::measure::{Bounds, Role};
use crate::simd::Simd;
use crate::tuning::Tuning;

/// The similarity join of two set collections.
#[derive(Debug, Clone, Copy)]
pub struct JoinSpec {
    /// The measure and its threshold.
    pub bounds: Bounds,
    /// The argument of the measure that the probe sets are.
    pub probe_role: Role,
    /// The pairs of a self-join that are looked for.
    pub pairing: Pairing,
    /// The knowledge that the join needs of a match.
    pub need: MatchNeed,
    /// The partners of a probe set that are needed, where not all are.
    pub nearest: Option<NearestPartners>,
    /// At most this many candidates wait for verification.
    pub candidate_chunk: usize,
    /// The form of the vector kernels.
    pub simd: Simd,
    /// The use of a GPU, where one is used.
    pub gpu: GpuOptions,
    /// The sizes of what the search does at a time.
    pub tuning: Tuning,
}

impl JoinSpec {
    /// The join of a predicate of the family.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub fn new(predicate: &Predicate, spec: &MatchSpec) -> Result<Self> {
        let MatchSpec { probe, need, nearest, candidate_chunk, simd, gpu, tuning, .. } = *spec;
        Ok(Self {
            bounds: Bounds::of(predicate)?,
            probe_role: Role::of(predicate.call, probe),
            pairing: spec.pairing(),
            need,
            nearest,
            candidate_chunk,
            simd,
            gpu,
            tuning,
        })
    }

    /// The sizes `(least, greatest)` of the build sets that a probe set of this size is compared
    /// with; `None` where no such set can match. Where each unordered pair is decided once, these
    /// sets are no larger than the probe set, and other than it: two different sets of one size
    /// never have all their tokens in common.
    pub fn partner_sizes(&self, size: u32) -> Option<(u32, u32)> {
        let (least, greatest) = self.bounds.size_range(self.probe_role, size)?;
        if self.pairing == Pairing::All {
            return Some((least, greatest));
        }
        let equal_only = least == size && self.requires_all(size);
        (!equal_only).then_some((least, size))
    }

    /// Where each unordered pair is decided once: the sizes `(least, greatest)` of the sets that are no
    /// smaller than a set of this size and may match it; `None` where no such set can.
    pub fn sizes_from(&self, size: u32) -> Option<(u32, u32)> {
        let (_, greatest) = self.bounds.size_range(self.probe_role, size)?;
        let equal_only = greatest == size && self.requires_all(size);
        (!equal_only).then_some((size, greatest))
    }

    /// The number of tokens of a build set of this size, rarest first, that are indexed, so that a
    /// probe set finds it under one of them; 0 where none looks for it.
    pub fn indexed_prefix(&self, size: u32) -> u32 {
        let role = self.probe_role.other();
        if self.pairing == Pairing::All {
            return self.bounds.prefix_len(role, size, 1);
        }
        // The sets that look for it are no smaller.
        let greatest = self.bounds.size_range(role, size).map_or(0, |range| range.1);
        match greatest <= size && self.requires_all(size) {
            true => 0,
            false => self.bounds.prefix_len(role, size, size),
        }
    }

    /// Whether sets of this size match only those of the same size that have all tokens in common.
    fn requires_all(&self, size: u32) -> bool {
        self.bounds.min_overlap(self.probe_role, size, size).is_none_or(|o| o == size)
    }

    /// About the bytes that the greediest strategy by prefixes or signatures reserves when it prepares a join of `sets`
    /// build sets with `tokens` tokens, and keeps.
    pub fn prepared_bytes(&self, sets: usize, tokens: usize) -> usize {
        /// The bytes of a posting with a signature.
        const POSTING: usize = 24;
        /// The bytes of a set in blocks of signatures of 512 bits, with the buffers held while they are made.
        const SIGNED_SET: usize = 2 * 64 + 40;
        /// The bytes of a token in a list or a bitmap of large sets.
        const LISTED: usize = 4;
        let size = (tokens / sets.max(1)).clamp(1, 1 << 16) as u32;
        let least = self.bounds.size_range(self.probe_role, size).map_or(size, |range| range.0);
        let prefix = self.bounds.prefix_len(self.probe_role.other(), size, least).max(1);
        let postings = tokens / size as usize * prefix as usize;
        let listed = if size >= 1 << 10 { tokens * LISTED } else { 0 };
        (postings * POSTING).max(sets * SIGNED_SET).max(listed)
    }
}

/// Probe sets that are fed to a cursor together.
pub type SetUnit = Unit<SetCollection>;
