//! Vectors that stay on a device.
//!
//! A collection is copied to a device once, by the first join that asks for it there: its numbers, as
//! `f32` where all of them are, and the number of rows of each vector. Each join prepares columns of its own
//! from them ([`super::columns`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use simjoin_core::vector::collection::Vectors;

use crate::engine::{Collection, ItemId};
use crate::offload::ArrayLayout;
use crate::runtime::{Device, DeviceError, Resident, Stage};
use crate::vector::copies::{CopiedNumbers, VectorCopies};
use crate::vector::values::{ItemVectors, is_narrow, write_narrow, write_wide};

/// The vectors of a collection in the memory of a device.
#[derive(Debug, Clone)]
pub(super) struct ResidentVectors {
    numbers: Arc<CopiedNumbers>,
    rows: Option<Arc<Resident>>,
}

/// The bytes of the numbers of rows; `None` where each vector has one.
fn row_bytes(vectors: &Vectors) -> Option<u64> {
    let mut layout = ArrayLayout::default();
    layout.add(vectors.len().into(), size_of::<u32>() as u64);
    (!vectors.groups().has_no_repeats()).then(|| layout.end())
}

/// Where the bits of items lie behind their numbers, and the end.
fn places(values: &ItemVectors<'_>, wide: bool) -> (u64, u64) {
    let mut layout = ArrayLayout::default();
    layout.add(values.len() as u64, if wide { 8 } else { 4 });
    let present = layout.add(values.words() as u64, size_of::<u32>() as u64);
    (present, layout.end())
}

impl ResidentVectors {
    /// The bytes that vectors of some dimensions will take on a device, of `f32`. `rows`: with the
    /// number of rows of each, unless all have one.
    pub(super) fn bytes_of(vectors: &Vectors, dimensions: u32, rows: bool) -> u64 {
        let values = ItemVectors { vectors, items: 0..vectors.len(), dimensions };
        let rows = row_bytes(vectors).filter(|_| rows);
        places(&values, false).1 + rows.unwrap_or(0)
    }

    /// The bytes of the vectors that are on a device already.
    pub(super) fn bytes_on(device: &Device, vectors: &Vectors) -> u64 {
        let copy = vectors.attached().get::<VectorCopies>().on(device);
        let mut copy = copy.lock();
        copy.forget_lost(device);
        copy.bytes()
    }

    /// The vectors of some dimensions on a device. Arrays that are not there yet are copied, and the
    /// call waits for the copies. `rows`: with the number of rows of each, unless all have one.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where they do not fit.
    pub(super) fn on(
        device: &Device,
        vectors: &Vectors,
        dimensions: u32,
        rows: bool,
    ) -> Result<Self, DeviceError> {
        let copy = vectors.attached().get::<VectorCopies>().on(device);
        let mut copy = copy.lock();
        copy.forget_lost(device);
        let there = copy.numbers.as_ref().filter(|numbers| numbers.dimensions == dimensions);
        let numbers = match there {
            Some(there) => Arc::clone(there),
            None => Arc::new(CopiedNumbers::upload(device, vectors, dimensions)?),
        };
        let row_counts = match &copy.rows {
            _ if !rows => None,
            Some(there) => Some(Arc::clone(there)),
            None => upload_rows(device, vectors)?.map(Arc::new),
        };
        // Only now: where the row counts do not fit the numbers are not kept either.
        copy.numbers = Some(Arc::clone(&numbers));
        if let Some(counts) = &row_counts {
            copy.rows = Some(Arc::clone(counts));
        }
        Ok(Self { numbers, rows: row_counts })
    }

    /// The bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        let rows = self.rows.as_ref().map_or(0, |rows| rows.bytes());
        self.numbers.memory.bytes() + rows
    }

    /// The address of the numbers.
    pub(super) fn values(&self) -> u64 {
        self.numbers.memory.address()
    }

    /// Whether the numbers are `f64`.
    pub(super) fn are_wide(&self) -> bool {
        self.numbers.wide
    }

    /// The address of the bits of items; 0 where all are present.
    pub(super) fn present(&self) -> u64 {
        self.numbers.present.map_or(0, |place| self.numbers.memory.address() + place)
    }

    /// The address of the numbers of rows; 0 where every vector has one, or none are there.
    pub(super) fn rows(&self) -> u64 {
        self.rows.as_ref().map_or(0, |rows| rows.address())
    }

    /// Whether a work at this stage can read them.
    pub(super) fn is_at(&self, stage: &Stage<'_>) -> bool {
        stage.has(&self.numbers.memory) && self.rows.as_ref().is_none_or(|rows| stage.has(rows))
    }
}

impl CopiedNumbers {
    /// Uploads numbers as `f32`, or as `f64` where some number does not fit.
    fn upload(device: &Device, vectors: &Vectors, dimensions: u32) -> Result<Self, DeviceError> {
        let values = ItemVectors { vectors, items: 0..vectors.len(), dimensions };
        match Self::upload_as(device, &values, false)? {
            Some(numbers) => Ok(numbers),
            None => Self::upload_as(device, &values, true)?.ok_or_else(|| {
                DeviceError::Internal("numbers are not even 64 bits wide".to_string())
            }),
        }
    }

    /// `None` where a number does not fit.
    fn upload_as(
        device: &Device,
        values: &ItemVectors<'_>,
        wide: bool,
    ) -> Result<Option<Self>, DeviceError> {
        let (present, end) = places(values, wide);
        let all = values.are_all_present();
        let fits = AtomicBool::new(true);
        let memory = device.resident("the vectors of the join", end, |upload| {
            let count = values.len();
            match wide {
                true => upload.copy_filled(0, count, |places, out: &mut [f64]| {
                    values.for_each(places, |at, numbers| {
                        write_wide(numbers, &mut out[at..at + numbers.len()]);
                    });
                }),
                false => upload.copy_filled(0, count, |places, out: &mut [f32]| {
                    let mut all_fit = true;
                    values.for_each(places, |at, numbers| {
                        write_narrow(numbers, &mut out[at..at + numbers.len()]);
                        all_fit &= is_narrow(numbers);
                    });
                    if !all_fit {
                        fits.store(false, Ordering::Relaxed);
                    }
                }),
            }?;
            match all || !fits.load(Ordering::Relaxed) {
                true => Ok(()),
                false => upload.copy_each(present, values.words(), |word| values.present(word)),
            }
        })?;
        let present = (!all).then_some(present);
        let fits = fits.load(Ordering::Relaxed);
        Ok(fits.then_some(Self { memory, dimensions: values.dimensions, wide, present }))
    }
}

fn upload_rows(device: &Device, vectors: &Vectors) -> Result<Option<Resident>, DeviceError> {
    let Some(bytes) = row_bytes(vectors) else { return Ok(None) };
    let groups = vectors.groups();
    let rows = device.resident("the row counts of the join", bytes, |upload| {
        upload.copy_each(0, vectors.len() as usize, |item| groups.row_count_of(item as ItemId))
    })?;
    Ok(Some(rows))
}
