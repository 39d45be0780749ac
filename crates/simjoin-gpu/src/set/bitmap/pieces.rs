//! Build sides that do not fit on a device: rows and columns travel with the works, piece by piece.

use std::ops::Range;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::runs::SetId;

use crate::offload::tiles::bytes_of_job;
use crate::runtime::{Device, DeviceError};
use crate::set::bitmap::plan::PlanLimits;
use crate::set::bitmap::work::JobSettings;

/// The pieces of one join.
#[derive(Debug)]
pub(super) struct Pieces {
    /// The columns of a work at most, by set; each piece begins with a stage.
    columns: Vec<Range<SetId>>,
    /// Bytes that the rows of a work may take.
    row_bytes: u64,
    width: u32,
    strip_rows: u32,
}

/// Bytes of a set on a device beside its tokens, with signatures of `words` words: offset, number of
/// rows, hidden tokens and class.
fn bytes_beside(words: u64) -> u64 {
    8 + 4 + 4 + 4 + 4 * words
}

/// The end of the sets from `first` on that take no more than `bytes`, each `beside` bytes more than
/// its tokens; at least one set.
fn end_within(sets: &SetCollection, first: SetId, bytes: u64, beside: u64) -> SetId {
    let (offsets, _) = sets.csr();
    let at = |set: SetId| offsets.get(set as usize).copied().unwrap_or(0);
    let taken = |end: SetId| 4 * (at(end) - at(first)) + beside * u64::from(end - first);
    let (mut low, mut high) = (first + 1, sets.len().max(first + 1));
    while low < high {
        let middle = high - (high - low) / 2;
        match taken(middle) <= bytes {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    low
}

impl Pieces {
    /// Cuts a build side for devices of which a join may fill `memory` bytes. `smallest`: into the
    /// smallest pieces that there are.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where a work has no room for its matches, or for a stage.
    pub(super) fn cut(
        build: &SetCollection,
        settings: &JobSettings,
        tiling: &PlanLimits,
        memory: u64,
        smallest: bool,
    ) -> Result<Self, DeviceError> {
        let each = bytes_of_job(memory);
        let too_small = |bytes: u64| DeviceError::OutOfMemory {
            what: "works of the signature tiles of the join",
            bytes: bytes.saturating_mul(2 * Device::SLOTS as u64),
            free: memory,
        };
        if settings.buffer_bytes() > each / 2 {
            return Err(too_small(2 * settings.buffer_bytes()));
        }
        let width = u64::from(settings.form.signatures.shape.width);
        let beside =
            bytes_beside(width + if settings.form.signatures.members > 1 { width } else { 0 });
        let bytes = if smallest { 0 } else { each / 4 };
        let mut columns = vec![];
        let mut first = 0;
        while first < build.len() {
            let end = end_within(build, first, bytes, beside);
            let end = (end / tiling.stage_sets * tiling.stage_sets).max(first + tiling.stage_sets);
            let end = end.min(build.len());
            columns.push(first..end);
            first = end;
        }
        let (offsets, _) = build.csr();
        let bytes_of = |piece: &Range<SetId>| {
            let tokens = offsets[piece.end as usize] - offsets[piece.start as usize];
            4 * tokens + beside * piece.len() as u64
        };
        let largest = columns.iter().map(bytes_of).max().unwrap_or(0);
        if largest > each / 4 {
            return Err(too_small(4 * largest));
        }
        let (width, strip_rows) = (settings.form.signatures.shape.width, tiling.strip_rows);
        let row_bytes = if smallest { 0 } else { each / 8 };
        Ok(Self { columns, row_bytes, width, strip_rows })
    }

    /// The number of pieces.
    pub(super) fn len(&self) -> u32 {
        self.columns.len() as u32
    }

    /// The first sets of some rows that travel with one work, a strip at least.
    pub(super) fn rows(&self, sets: &SetCollection, left: &Range<SetId>) -> Range<SetId> {
        let beside = bytes_beside(u64::from(self.width));
        let end = end_within(sets, left.start, self.row_bytes, beside);
        let end = end.max(left.start.saturating_add(self.strip_rows));
        left.start..end.min(left.end)
    }

    /// The pieces that have columns of a range.
    pub(super) fn of(&self, columns: &Range<SetId>) -> Range<u32> {
        let first = self.columns.partition_point(|piece| piece.end <= columns.start);
        let end = self.columns.partition_point(|piece| piece.start < columns.end);
        first as u32..end.max(first) as u32
    }

    /// The columns of a piece.
    pub(super) fn get(&self, piece: u32) -> Range<SetId> {
        self.columns.get(piece as usize).cloned().unwrap_or_default()
    }
}
