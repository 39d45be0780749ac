//! Results of a search, copied to memory of the host.
//!
//! A device copies to pinned memory at several times the speed of other memory, which moreover is new to the
//! process: several threads copy on from there.

use std::mem::MaybeUninit;
use std::slice;

use crate::runtime::{Device, DeviceError, PinnedBuffer, Pod, Results};
use crate::tuning::{Size, Tuning};
use crate::util::parallel::{self, Threads};

/// Copies results through pinned memory.
#[derive(Debug)]
pub(super) struct Fetcher {
    pinned: PinnedBuffer,
    tuning: Tuning,
}

impl Fetcher {
    /// The bytes of pinned memory.
    const BYTES: Size = Size { usual: 32 << 20, small: 1 << 16 };
    /// Threads that copy on, and the least bytes for each.
    const THREADS: usize = 16;
    const LEAST_BYTES: Size = Size { usual: 1 << 20, small: 64 };

    /// A fetcher with pinned memory of a device.
    ///
    /// # Errors
    ///
    /// Where the memory is refused.
    pub(super) fn of(device: &Device, tuning: Tuning) -> Result<Self, DeviceError> {
        Ok(Self { pinned: device.pinned(tuning.size(Self::BYTES))?, tuning })
    }

    /// Copies `count` values from place `at` of the memory of a work.
    ///
    /// # Errors
    ///
    /// Where the device fails.
    pub(super) fn fetch<T: Pod>(
        &mut self,
        results: &mut Results<'_>,
        at: u64,
        count: usize,
    ) -> Result<Vec<T>, DeviceError> {
        let piece = (self.pinned.bytes() / size_of::<T>().max(1)).max(1);
        let mut values: Vec<T> = Vec::with_capacity(count);
        let room = &mut values.spare_capacity_mut()[..count];
        for (number, to) in room.chunks_mut(piece).enumerate() {
            // SAFETY: the memory is aligned, has room for a piece, and belongs to this value, which is lent
            // for writing.
            let from: &mut [MaybeUninit<T>] =
                unsafe { slice::from_raw_parts_mut(self.pinned.start().cast().as_ptr(), to.len()) };
            results.fetch(at + (number * piece * size_of::<T>()) as u64, from)?;
            copy(from, to, self.tuning)?;
        }
        // SAFETY: all pieces have been copied.
        unsafe { values.set_len(count) };
        Ok(values)
    }
}

/// Copies values by as many threads as pay.
fn copy<T: Pod>(
    from: &[MaybeUninit<T>],
    to: &mut [MaybeUninit<T>],
    tuning: Tuning,
) -> Result<(), DeviceError> {
    let parts = (size_of_val(from) / tuning.size(Fetcher::LEAST_BYTES)).clamp(1, Fetcher::THREADS);
    let share = from.len().div_ceil(parts).max(1);
    let parts = from.chunks(share).zip(to.chunks_mut(share)).collect();
    let threads = Threads::usual(Fetcher::THREADS);
    let copied = parallel::for_each(threads, parts, |(from, to)| {
        to.copy_from_slice(from);
        Ok(())
    });
    copied.map_err(|error| DeviceError::Internal(error.to_string()))
}
