//! Set collections that stay on a device.
//!
//! A collection is copied to a device once, by the first join that asks for it there. The copy lies
//! beside the collection ([`DeviceCopies`](super::copies::DeviceCopies)), for every type of
//! work, partition and join, and is freed with the collection.

use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::runs::SetId;

use crate::runtime::{Device, DeviceError, Resident, Stage};
use crate::set::device::abi::Sets;
use crate::set::device::copies::DeviceCopies;

/// Arrays begin at multiples of this, so that warps read whole lines.
const ALIGNMENT: u64 = 256;

/// The sets of a collection in the memory of a device.
#[derive(Debug, Clone)]
pub struct ResidentSets {
    /// Offsets, then tokens.
    sets: Arc<Resident>,
    tokens_at: u64,
    /// The number of rows of each set.
    rows: Option<Arc<Resident>>,
}

/// Where the arrays lie, in bytes from the start of the memory.
#[derive(Debug, Clone, Copy)]
struct Places {
    tokens: u64,
    end: u64,
}

impl Places {
    fn of(sets: &SetCollection) -> Self {
        let offsets = (u64::from(sets.len()) + 1) * size_of::<u64>() as u64;
        let tokens = offsets.next_multiple_of(ALIGNMENT);
        let token_bytes = (sets.token_count() * size_of::<u32>()) as u64;
        Self { tokens, end: (tokens + token_bytes).next_multiple_of(ALIGNMENT) }
    }
}

/// The bytes of the numbers of rows; `None` where each set has one.
fn row_bytes(sets: &SetCollection) -> Option<u64> {
    let bytes = u64::from(sets.len()) * size_of::<u32>() as u64;
    (!sets.has_no_repeats()).then(|| bytes.next_multiple_of(ALIGNMENT))
}

impl ResidentSets {
    /// The bytes that the sets will take on a device. `rows`: with the number of rows of each set,
    /// unless all have one.
    pub fn bytes_of(sets: &SetCollection, rows: bool) -> u64 {
        let rows = row_bytes(sets).filter(|_| rows);
        Places::of(sets).end + rows.unwrap_or(0)
    }

    /// The bytes of the sets that are on a device already.
    pub fn bytes_on(device: &Device, sets: &SetCollection) -> u64 {
        let copy = sets.attached().get::<DeviceCopies>().on(device);
        let mut copy = copy.lock();
        copy.forget_lost(device);
        copy.bytes()
    }

    /// The sets on a device. Arrays that are not there yet are copied, and the call waits for the
    /// copies. `rows`: with the number of rows of each set, unless all have one.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where they do not fit.
    pub fn on(device: &Device, sets: &SetCollection, rows: bool) -> Result<Self, DeviceError> {
        let copy = sets.attached().get::<DeviceCopies>().on(device);
        let mut copy = copy.lock();
        copy.forget_lost(device);
        let on_device = match &copy.sets {
            Some(there) => Arc::clone(there),
            None => Arc::new(Self::upload_sets(device, sets)?),
        };
        let row_counts = match &copy.rows {
            _ if !rows => None,
            Some(there) => Some(Arc::clone(there)),
            None => Self::upload_rows(device, sets)?.map(Arc::new),
        };
        // Only now: where the row counts do not fit the sets are not kept either.
        copy.sets = Some(Arc::clone(&on_device));
        if let Some(counts) = &row_counts {
            copy.rows = Some(Arc::clone(counts));
        }
        Ok(Self { sets: on_device, tokens_at: Places::of(sets).tokens, rows: row_counts })
    }

    fn upload_sets(device: &Device, sets: &SetCollection) -> Result<Resident, DeviceError> {
        let places = Places::of(sets);
        device.resident("the token sets of the join", places.end, |upload| {
            let (offsets, tokens) = sets.csr();
            // A collection without sets may have no offsets at all.
            let offsets = if offsets.is_empty() { &[0] } else { offsets };
            upload.copy(0, offsets)?;
            upload.copy(places.tokens, tokens)
        })
    }

    fn upload_rows(device: &Device, sets: &SetCollection) -> Result<Option<Resident>, DeviceError> {
        let Some(bytes) = row_bytes(sets) else { return Ok(None) };
        let rows = device.resident("the row counts of the join", bytes, |upload| {
            upload.copy_each(0, sets.len() as usize, |set| sets.row_count_of(set as SetId))
        })?;
        Ok(Some(rows))
    }

    /// The addresses of the sets.
    pub fn sets(&self) -> Sets {
        let start = self.sets.address();
        Sets { tokens: start + self.tokens_at, offsets: start }
    }

    /// The address of the number of rows of each set; 0 where each has one, or they were not asked
    /// for.
    pub fn rows(&self) -> u64 {
        self.rows.as_ref().map_or(0, |rows| rows.address())
    }

    /// The bytes they take on the device.
    pub fn bytes(&self) -> u64 {
        self.sets.bytes() + self.rows.as_ref().map_or(0, |rows| rows.bytes())
    }

    /// Whether a work at this stage can read them.
    pub fn is_at(&self, stage: &Stage<'_>) -> bool {
        stage.has(&self.sets) && self.rows.as_ref().is_none_or(|rows| stage.has(rows))
    }
}
