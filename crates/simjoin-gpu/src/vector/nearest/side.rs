//! The numbers of a side on a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use simjoin_core::vector::nearest::SideNumbers;

use crate::runtime::{Device, DeviceError, Resident};
use crate::vector::abi::{NumberRange, Ranging};
use crate::vector::range::range_of;

/// A side in the memory of a device.
#[derive(Debug)]
pub(super) struct DeviceSide {
    memory: Resident,
    pub count: u32,
    pub wide: bool,
}

impl DeviceSide {
    /// The bytes of a side whose numbers have this width.
    pub(super) fn bytes(count: u32, dimensions: u32, wide: bool) -> u64 {
        u64::from(count) * u64::from(dimensions) * if wide { 8 } else { 4 }
    }

    /// Copies a side, as `f32` where all of its numbers are that. `limit`: the bytes that it may take.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where it does not fit.
    pub(super) fn upload(
        device: &Device,
        numbers: &dyn SideNumbers,
        dimensions: u32,
        limit: u64,
    ) -> Result<Arc<Self>, DeviceError> {
        for wide in [false, true] {
            if let Some(memory) = Self::upload_as(device, numbers, (dimensions, wide), limit)? {
                return Ok(Arc::new(Self { memory, count: numbers.count(), wide }));
            }
        }
        Err(DeviceError::Internal("numbers are not even 64 bits wide".to_string()))
    }

    /// `None` where a number does not fit.
    fn upload_as(
        device: &Device,
        numbers: &dyn SideNumbers,
        (dimensions, wide): (u32, bool),
        limit: u64,
    ) -> Result<Option<Resident>, DeviceError> {
        let what = "the numbers of nearest vectors";
        let bytes = Self::bytes(numbers.count(), dimensions, wide);
        if bytes > limit {
            return Err(DeviceError::OutOfMemory { what, bytes, free: limit });
        }
        let len = numbers.count() as usize * dimensions as usize;
        let fits = AtomicBool::new(true);
        let memory = device.resident(what, bytes, |upload| match wide {
            true => upload.copy_filled(0, len, |places, to| numbers.write_wide(places, to)),
            false => upload.copy_filled(0, len, |places, to| {
                if fits.load(Ordering::Relaxed) && !numbers.write_narrow(places, to) {
                    fits.store(false, Ordering::Relaxed);
                }
            }),
        })?;
        Ok(fits.load(Ordering::Relaxed).then_some(memory))
    }

    /// The range of the numbers.
    ///
    /// # Errors
    ///
    /// Where the device fails.
    pub(super) fn range(
        self: &Arc<Self>,
        device: &Device,
        dimensions: u32,
    ) -> Result<NumberRange, DeviceError> {
        let ranging = Ranging {
            values: self.address(),
            present: 0,
            range: 0,
            count: self.count,
            dimensions,
            wide: self.wide.into(),
            reserved: 0,
        };
        let side = Arc::clone(self);
        range_of(device, ranging, move |stage| stage.has(&side.memory))
    }

    /// The address of the numbers.
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    pub(super) fn memory(&self) -> &Resident {
        &self.memory
    }
}
