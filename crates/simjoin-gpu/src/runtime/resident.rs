//! Memory that stays on a device.

use std::mem::{self, MaybeUninit};
use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::result;
use parking_lot::Mutex;

use crate::error::internal_err;
use crate::runtime::driver::{Context, Event, Result, Stream};
use crate::runtime::memory::{DeviceBuffer, PinnedBuffer, PinnedPool};
use crate::runtime::{DeviceError, Pod};
use crate::util::parallel::{self, Threads};

/// Memory of a device that stays while it is held, filled once. Freed when it is dropped.
#[derive(Debug)]
pub struct Resident(DeviceBuffer);

impl Resident {
    pub(super) fn new(memory: DeviceBuffer) -> Self {
        Self(memory)
    }

    /// Its address, a multiple of 256.
    pub fn address(&self) -> u64 {
        self.0.address()
    }

    /// The bytes that it takes on the device.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Whether the device can still read it.
    pub fn is_lost(&self) -> bool {
        self.0.context().lost().is_some()
    }

    pub(super) fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(self.0.context(), context)
    }
}

/// The stream of uploads, one at a time: they share the way to the device anyway.
#[derive(Debug)]
pub(super) struct Uploads {
    context: Arc<Context>,
    lane: Mutex<Lane>,
}

#[derive(Debug)]
struct Lane {
    stream: Stream,
    /// When each slot of the pinned memory has been copied.
    copied: Vec<Event>,
}

impl Uploads {
    /// The context is current.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self> {
        let stream = Stream::new(context)?;
        let events = (0..Upload::SLOTS).map(|_| Event::new(context));
        let copied = events.collect::<Result<_>>()?;
        Ok(Self { context: Arc::clone(context), lane: Mutex::new(Lane { stream, copied }) })
    }

    /// Has memory filled, and waits until it is. The context is current.
    pub(super) fn fill(
        &self,
        memory: &DeviceBuffer,
        pinned: &Arc<PinnedPool>,
        fill: impl FnOnce(&mut Upload<'_>) -> Result<()>,
    ) -> Result<()> {
        let lane = self.lane.lock();
        let mut upload = Upload::new(&lane, &self.context, pinned, memory)?;
        let filled = fill(&mut upload);
        // Also after an error: the copies read memory that is about to be given back.
        let waited = lane.stream.settle();
        filled.and(waited)
    }
}

/// Fills memory on a device through pinned memory. Each of several threads has two slots of it, one of which it
/// fills while the device copies the other: the driver copies pageable memory at a fraction of the speed,
/// and so does one thread. Slots are so small that the caches of the processor hold them.
#[derive(Debug)]
pub struct Upload<'a> {
    lane: &'a Lane,
    context: &'a Context,
    memory: &'a DeviceBuffer,
    bounce: PinnedBuffer,
    /// By slot, whether it has been copied from.
    used: Vec<bool>,
    slot_bytes: usize,
}

/// The slots of a thread.
const OWN_SLOTS: usize = 2;

impl<'a> Upload<'a> {
    const SLOTS: usize = 16 * OWN_SLOTS;
    /// The bytes of a slot, at most.
    const SLOT_BYTES: usize = 1 << 19;

    fn new(
        lane: &'a Lane,
        context: &'a Context,
        pinned: &Arc<PinnedPool>,
        memory: &'a DeviceBuffer,
    ) -> Result<Self> {
        let most = Self::SLOTS * Self::SLOT_BYTES;
        let bounce = pinned.take(memory.bytes().min(most as u64) as usize)?;
        let slot_bytes = (bounce.bytes() / OWN_SLOTS).min(Self::SLOT_BYTES);
        let used = vec![false; (bounce.bytes() / slot_bytes).min(Self::SLOTS)];
        Ok(Self { lane, context, memory, bounce, used, slot_bytes })
    }

    /// Copies values to place `at`, a byte of the memory.
    pub fn copy<T: Pod>(&mut self, at: u64, values: &[T]) -> Result<()> {
        self.copy_with(at, values.len(), |places, out| {
            out.write_copy_of_slice(&values[places]);
        })
    }

    /// Copies `len` values to place `at`. `fill` gives those at some places of the `len`.
    pub fn copy_each<T: Pod>(
        &mut self,
        at: u64,
        len: usize,
        value: impl Fn(usize) -> T + Sync,
    ) -> Result<()> {
        self.copy_with(at, len, |places, out| {
            for (out, place) in out.iter_mut().zip(places) {
                out.write(value(place));
            }
        })
    }

    /// Copies `len` values to place `at`. `fill` sets those at some places of the `len`, zeros at first.
    pub fn copy_filled<T: Pod>(
        &mut self,
        at: u64,
        len: usize,
        fill: impl Fn(Range<usize>, &mut [T]) + Sync,
    ) -> Result<()> {
        self.copy_with(at, len, |places, out: &mut [MaybeUninit<T>]| {
            out.fill(MaybeUninit::zeroed());
            // SAFETY: zeros are a value of a plain type.
            fill(places, unsafe { out.assume_init_mut() });
        })
    }

    /// `fill` writes the values at some places, all of them.
    fn copy_with<T: Pod>(
        &mut self,
        at: u64,
        len: usize,
        fill: impl Fn(Range<usize>, &mut [MaybeUninit<T>]) + Sync,
    ) -> Result<()> {
        let bytes = (len as u64).checked_mul(size_of::<T>() as u64);
        let end = bytes.and_then(|bytes| at.checked_add(bytes));
        if end.is_none_or(|end| end > self.memory.bytes()) {
            return Err(DeviceError::Internal(format!(
                "{len} values at {at} are not within the {} bytes of an upload",
                self.memory.bytes()
            )));
        }
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(Ok(()));
        let copying = Copying { upload: &*self, at, len, next: &next, fill: &fill };
        let mut used = self.used.clone();
        let workers = used.chunks_mut(OWN_SLOTS).enumerate().collect();
        let pieces = len.div_ceil(copying.piece::<T>());
        let threads = Threads::usual(pieces);
        let worked =
            parallel::for_each(threads, workers, |(worker, used): (usize, &mut [bool])| {
                copying.work(worker * OWN_SLOTS, used).or_else(|error| {
                    let message = error.to_string();
                    *failed.lock() = Err(error);
                    internal_err!("{message}")
                })
            });
        // Also after an error: some copies may still read their slots.
        self.used = used;
        failed.into_inner()?;
        worked.map_err(|error| DeviceError::Internal(error.to_string()))
    }
}

/// Values on their way to a device, which threads take up piece by piece.
struct Copying<'a, F> {
    upload: &'a Upload<'a>,
    at: u64,
    len: usize,
    /// The first value that no thread has taken.
    next: &'a AtomicUsize,
    fill: &'a F,
}

impl<F> Copying<'_, F> {
    /// The values of a piece.
    fn piece<T>(&self) -> usize {
        (self.upload.slot_bytes / size_of::<T>()).max(1)
    }

    /// Copies pieces until none is left, through the slots from `first` on, of which `used` tells.
    fn work<T: Pod>(&self, first: usize, used: &mut [bool]) -> Result<()>
    where
        F: Fn(Range<usize>, &mut [MaybeUninit<T>]) + Sync,
    {
        let piece = self.piece::<T>();
        let Upload { lane, context, bounce, slot_bytes, .. } = self.upload;
        let _entered = context.enter()?;
        for turn in (0..used.len()).cycle() {
            let start = self.next.fetch_add(piece, Ordering::Relaxed);
            if start >= self.len {
                return Ok(());
            }
            let (slot, copied) = (first + turn, &lane.copied[first + turn]);
            if mem::replace(&mut used[turn], true) {
                copied.wait()?;
            }
            let places = start..self.len.min(start + piece);
            // SAFETY: a slot of the memory, which no other thread has and no copy reads any more. It is
            // aligned and has room for a piece.
            let values = unsafe {
                let slot = bounce.start().add(slot * slot_bytes).cast().as_ptr();
                slice::from_raw_parts_mut(slot, places.len())
            };
            (self.fill)(places, values);
            // SAFETY: all of them have been written.
            let values = unsafe { values.assume_init_ref() };
            let place = self.at + (start * size_of::<T>()) as u64;
            let to = self.upload.memory.address() + place;
            // SAFETY: the device memory has room for all values; the stream is waited for before the
            // pinned memory is given back.
            let copy = unsafe { result::memcpy_htod_async(to, values, lane.stream.handle()) };
            context.check("cuMemcpyHtoDAsync", copy)?;
            copied.record(&lane.stream)?;
        }
        Ok(())
    }
}
