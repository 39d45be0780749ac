//! Memory that stays on a device.

use std::mem::{self, MaybeUninit};
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use cudarc::driver::result;
use parking_lot::Mutex;

use crate::gpu::driver::{Context, Event, Result, Stream};
use crate::gpu::memory::{DeviceBuffer, PinnedBuffer, PinnedPool};
use crate::gpu::{DeviceError, Pod};
use crate::util::parallel;

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
    /// When each half of the pinned memory has been copied.
    copied: [Event; 2],
}

impl Uploads {
    /// The context is current.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self> {
        let stream = Stream::new(context)?;
        let copied = [Event::new(context)?, Event::new(context)?];
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

/// Fills memory on a device through pinned memory, one half being filled by several threads while
/// the device copies the other: the driver copies pageable memory at a fraction of the speed, and so
/// does one thread.
#[derive(Debug)]
pub struct Upload<'a> {
    lane: &'a Lane,
    context: &'a Context,
    memory: &'a DeviceBuffer,
    bounce: PinnedBuffer,
    half: usize,
    /// The half that is next, and whether each has been copied from.
    turn: usize,
    used: [bool; 2],
}

impl<'a> Upload<'a> {
    /// The pinned memory of an upload, in bytes; less where there is less to copy.
    const BYTES: u64 = 32 << 20;
    /// Threads that fill a half, and the least bytes for each. Tests want many.
    const THREADS: usize = 16;
    const LEAST_BYTES: usize = if cfg!(test) { 64 } else { 1 << 20 };

    fn new(
        lane: &'a Lane,
        context: &'a Context,
        pinned: &Arc<PinnedPool>,
        memory: &'a DeviceBuffer,
    ) -> Result<Self> {
        let bounce = pinned.take(memory.bytes().min(Self::BYTES) as usize)?;
        let half = bounce.bytes() / 2;
        Ok(Self { lane, context, memory, bounce, half, turn: 0, used: [false; 2] })
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
        let piece = self.half / size_of::<T>();
        for first in (0..len).step_by(piece) {
            let turn = self.turn;
            self.turn ^= 1;
            if mem::replace(&mut self.used[turn], true) {
                self.lane.copied[turn].wait()?;
            }
            let places = first..len.min(first + piece);
            // SAFETY: a half of the memory, which no copy reads any more. It is aligned and has
            // room for a piece.
            let values = unsafe {
                let half = self.bounce.start().add(turn * self.half).cast().as_ptr();
                slice::from_raw_parts_mut(half, places.len())
            };
            fill_on_threads(places.start, values, &fill)?;
            // SAFETY: all of them have been written.
            let values = unsafe { values.assume_init_ref() };
            let to = self.memory.address() + at + (first * size_of::<T>()) as u64;
            // SAFETY: the device memory has room for all `len` values; the stream is waited for
            // before the pinned memory is given back.
            let copy = unsafe { result::memcpy_htod_async(to, values, self.lane.stream.handle()) };
            self.context.check("cuMemcpyHtoDAsync", copy)?;
            self.lane.copied[turn].record(&self.lane.stream)?;
        }
        Ok(())
    }
}

/// Has `fill` write values from place `first` on, on as many threads as pay.
fn fill_on_threads<T: Pod>(
    first: usize,
    values: &mut [MaybeUninit<T>],
    fill: &(impl Fn(Range<usize>, &mut [MaybeUninit<T>]) + Sync),
) -> Result<()> {
    let parts = (size_of_val(values) / Upload::LEAST_BYTES).clamp(1, Upload::THREADS);
    let share = values.len().div_ceil(parts).max(1);
    let parts = values.chunks_mut(share).enumerate().collect();
    let filled = parallel::for_each(Upload::THREADS, parts, |(part, values)| {
        let first = first + part * share;
        fill(first..first + values.len(), values);
        Ok(())
    });
    filled.map_err(|error| DeviceError::Internal(error.to_string()))
}
