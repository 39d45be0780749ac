//! Sets that travel with works.

use std::ops::Range;
use std::sync::Arc;

use crate::gpu::{DeviceError, Stage};
use crate::offload::{Layout, bytes_of};
use crate::set::device::abi::Sets;
use crate::set::{SetCollection, SetId};

/// Probe sets that travel with a work, and, where rows of the join are counted and some sets have
/// several, the number of rows of each.
#[derive(Debug, Clone)]
pub(in crate::set) struct TravellingSets {
    pub collection: Arc<SetCollection>,
    pub sets: Range<SetId>,
    pub row_counts: Arc<Vec<u32>>,
}

/// Where travelling sets lie in the memory of a work.
#[derive(Debug, Clone, Copy)]
pub(in crate::set) struct TravelPlaces {
    offsets: u64,
    tokens: u64,
    row_counts: u64,
}

impl TravellingSets {
    /// `counts`: rows of the join are counted.
    pub(in crate::set) fn new(
        collection: &Arc<SetCollection>,
        sets: Range<SetId>,
        counts: bool,
    ) -> Self {
        let row_counts = match counts && !collection.has_no_repeats() {
            true => sets.clone().map(|set| collection.row_count_of(set)).collect(),
            false => vec![],
        };
        Self { collection: Arc::clone(collection), sets, row_counts: Arc::new(row_counts) }
    }

    /// The places of their tokens in the collection.
    pub(in crate::set) fn tokens(&self) -> Range<usize> {
        let (offsets, _) = self.collection.csr();
        let at = |set: SetId| offsets.get(set as usize).copied().unwrap_or(0) as usize;
        at(self.sets.start)..at(self.sets.end)
    }

    pub(in crate::set) fn places(&self, layout: &mut Layout) -> TravelPlaces {
        TravelPlaces {
            offsets: layout.add(self.sets.len() as u64 + 1, size_of::<u64>() as u64),
            tokens: layout.add(self.tokens().len() as u64, size_of::<u32>() as u64),
            row_counts: layout.add(self.row_counts.len() as u64, size_of::<u32>() as u64),
        }
    }

    /// Copies them to their places.
    ///
    /// # Safety
    ///
    /// The work keeps them until it is answered.
    pub(in crate::set) unsafe fn copy(
        &self,
        stage: &mut Stage<'_>,
        places: &TravelPlaces,
    ) -> Result<(), DeviceError> {
        let (offsets, tokens) = self.collection.csr();
        let sets = self.sets.start as usize..self.sets.end as usize + 1;
        // SAFETY: as the caller promises; nothing of them changes.
        unsafe {
            stage.copy(places.offsets, bytes_of(&offsets[sets]))?;
            stage.copy(places.tokens, bytes_of(&tokens[self.tokens()]))?;
            stage.copy(places.row_counts, bytes_of(&self.row_counts))
        }
    }

    /// The sets as a kernel reads them, and the address of their row counts, in a work at `start`.
    pub(in crate::set) fn at(&self, start: u64, places: &TravelPlaces) -> (Sets, u64) {
        // Offsets count from the first set of the collection.
        let before = (self.tokens().start * size_of::<u32>()) as u64;
        let tokens = (start + places.tokens).wrapping_sub(before);
        let row_counts = if self.row_counts.is_empty() { 0 } else { start + places.row_counts };
        (Sets { tokens, offsets: start + places.offsets }, row_counts)
    }
}
