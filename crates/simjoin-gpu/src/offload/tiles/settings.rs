//! The settings of the jobs of a join.

use crate::engine::Match;
use crate::runtime::Device;

/// Bytes of a hit of any kind.
pub(super) const HIT_BYTES: u64 = 8;
/// Hits of a job: at least, at most.
const CAPACITY: (u64, u64) = (32, 1 << 24);

/// The bytes of a device that a job may take, where a join may fill `memory`: idle memory of the queue is
/// kept, at most one and a half times the memory of its jobs.
pub(crate) fn bytes_of_job(memory: u64) -> u64 {
    memory / (2 * Device::SLOTS as u64)
}

/// The hits that a job has room for, where a join may fill `memory` bytes of a device: a quarter of its
/// bytes is for hits, and for the matches behind them. `wanted`: bytes for hits, at most.
pub fn capacity(memory: u64, wanted: u64, pairs_of_hit: u32) -> u32 {
    let pairs = u64::from(pairs_of_hit);
    let affordable = bytes_of_job(memory) / 4 / (HIT_BYTES + pairs * size_of::<Match>() as u64);
    (wanted / HIT_BYTES / pairs).min(affordable).clamp(CAPACITY.0, CAPACITY.1) as u32
}

/// The form of tiles: their sizes, and the pairs that kernels leave. The form of a kind gives it.
#[derive(Debug, Clone, Copy)]
pub struct TileForm {
    /// Rows of a strip.
    pub strip_rows: u32,
    /// Build items of a stage.
    pub stage_items: u32,
    /// Build items of a stage of dense units, a part of the others.
    pub dense_stage_items: u32,
    /// The pairs behind a hit.
    pub pairs_of_hit: u32,
    /// Whether a row meets columns up to its own number alone: each unordered pair once, where rows have
    /// the numbers of columns.
    pub ends_with_itself: bool,
    /// [`Match::detail`] of pairs that kernels leave to the host; `None` where they decide all.
    pub undecided: Option<u32>,
    /// Whether a counting job has room for the pairs of all hits as undecided ones, not only for those of
    /// the smallest dense unit.
    pub leaves_hits: bool,
}

impl TileForm {
    /// The form of dense units.
    pub(super) fn dense(self) -> Self {
        Self { stage_items: self.dense_stage_items, ..self }
    }

    /// The dense units that one of a stage becomes.
    pub(super) fn dense_parts(&self) -> u32 {
        self.stage_items / self.dense_stage_items
    }

    /// The pairs of a strip and a stage.
    pub fn tile_pairs(&self) -> u64 {
        u64::from(self.strip_rows) * u64::from(self.stage_items)
    }
}

/// The settings that the jobs of a join share.
#[derive(Debug, Clone, Copy)]
pub struct TileSettings<F> {
    pub form: F,
    /// Hits of a job at most.
    pub capacity: u32,
    /// Pairs of a job that decides all of them, about.
    pub dense_pairs: u64,
    /// Matches are counted, not given.
    pub counts: bool,
    /// One match for each row will do.
    pub first_only: bool,
    /// Rows are columns of the same number, each pair is looked at once; columns are the probe items.
    pub same: bool,
}

impl<F: Copy + Into<TileForm>> TileSettings<F> {
    /// The form of tiles that are not dense.
    pub(super) fn tile(&self) -> TileForm {
        self.form.into()
    }

    /// The pairs behind all hits.
    pub(super) fn hit_pairs(&self) -> u64 {
        u64::from(self.capacity) * u64::from(self.tile().pairs_of_hit)
    }

    /// The most matches that a job gives, or, where they are counted, pairs that it leaves undecided:
    /// those of all hits, or of the smallest dense unit.
    pub(crate) fn most_matches(&self) -> u64 {
        let tile = self.tile();
        let dense = tile.dense().tile_pairs();
        match (self.counts, tile.undecided) {
            (true, None) => 0,
            (true, Some(_)) if !tile.leaves_hits => dense,
            _ => self.hit_pairs().max(dense),
        }
    }

    /// The smallest units that a job decides pair by pair.
    pub(super) fn most_dense_units(&self) -> usize {
        let pairs = if self.counts { self.dense_pairs } else { self.most_matches() };
        (pairs / self.tile().dense().tile_pairs()).clamp(1, 1 << 16) as usize
    }

    /// The bytes of a job that grow with its capacities.
    pub fn buffer_bytes(&self) -> u64 {
        u64::from(self.capacity) * HIT_BYTES + self.most_matches() * size_of::<Match>() as u64
    }
}
