//! Set collections that stay on a device.

use std::mem::{self, MaybeUninit};
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use cudarc::driver::result;
use parking_lot::Mutex;

use crate::gpu::Pod;
use crate::gpu::abi::Sets;
use crate::gpu::driver::{Context, Event, Result, Stream};
use crate::gpu::memory::{DeviceBuffer, PinnedBuffer, PinnedPool};
use crate::set::{SetCollection, SetId};

/// The sets of a collection in the memory of a device, freed when it is dropped.
#[derive(Debug)]
pub struct ResidentSets {
    memory: DeviceBuffer,
    places: Places,
}

/// Where the arrays lie, in bytes from the start of the memory.
#[derive(Debug, Clone, Copy)]
struct Places {
    tokens: u64,
    rows: Option<u64>,
    end: u64,
}

impl Places {
    /// Arrays begin at multiples of this, so that warps read whole lines.
    const ALIGNMENT: u64 = 256;

    fn of(sets: &SetCollection, rows: bool) -> Self {
        let offsets = (u64::from(sets.len()) + 1) * size_of::<u64>() as u64;
        let tokens = offsets.next_multiple_of(Self::ALIGNMENT);
        let token_bytes = (sets.token_count() * size_of::<u32>()) as u64;
        let rows_at = (tokens + token_bytes).next_multiple_of(Self::ALIGNMENT);
        let rows = (rows && !sets.has_no_repeats()).then_some(rows_at);
        let row_bytes = u64::from(sets.len()) * size_of::<u32>() as u64;
        let end = rows.map_or(rows_at, |at| (at + row_bytes).next_multiple_of(Self::ALIGNMENT));
        Self { tokens, rows, end }
    }
}

impl ResidentSets {
    /// The bytes that the sets will take on a device. `rows`: with the number of rows of each set,
    /// unless all have one.
    pub fn bytes_of(sets: &SetCollection, rows: bool) -> u64 {
        Places::of(sets, rows).end
    }

    /// Their addresses.
    pub fn sets(&self) -> Sets {
        let start = self.memory.address();
        Sets { tokens: start + self.places.tokens, offsets: start }
    }

    /// The address of the number of rows of each set; 0 where each has one, or nobody asked.
    pub fn rows(&self) -> u64 {
        self.places.rows.map_or(0, |at| self.memory.address() + at)
    }

    /// The bytes they take on the device.
    pub fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Memory for the sets. The context is current.
    pub(crate) fn allocate(
        context: &Arc<Context>,
        sets: &SetCollection,
        rows: bool,
    ) -> Result<Self> {
        let places = Places::of(sets, rows);
        let memory = DeviceBuffer::new(context, "the token sets of the join", places.end)?;
        Ok(Self { memory, places })
    }

    /// Copies the sets. The context is current.
    pub(crate) fn fill(
        &self,
        sets: &SetCollection,
        uploads: &Uploads,
        pinned: &Arc<PinnedPool>,
    ) -> Result<()> {
        let start = self.memory.address();
        let lane = uploads.lane.lock();
        let mut bounce = Bounce::new(&lane, &uploads.context, pinned, self.bytes())?;
        let copied = (|| {
            let (offsets, tokens) = sets.csr();
            // A collection without sets may have no offsets at all.
            let offsets = if offsets.is_empty() { &[0] } else { offsets };
            bounce.copy(start, offsets)?;
            bounce.copy(start + self.places.tokens, tokens)?;
            if let Some(at) = self.places.rows {
                bounce.copy_with(start + at, sets.len() as usize, |places, out| {
                    for (out, set) in out.iter_mut().zip(places) {
                        out.write(sets.row_count_of(set as SetId));
                    }
                })?;
            }
            Ok(())
        })();
        // In any case: the copies read what is about to be given back.
        let waited = lane.stream.settle();
        copied.and(waited)
    }
}

/// The stream of uploads, one at a time: they share the way to the device anyway.
#[derive(Debug)]
pub(crate) struct Uploads {
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
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        let stream = Stream::new(context)?;
        let copied = [Event::new(context)?, Event::new(context)?];
        Ok(Self { context: Arc::clone(context), lane: Mutex::new(Lane { stream, copied }) })
    }
}

/// Copies through pinned memory, one half being filled while the device copies the other: the
/// driver copies pageable memory at half the speed.
struct Bounce<'a> {
    lane: &'a Lane,
    context: &'a Context,
    memory: PinnedBuffer,
    half: usize,
    /// The half that is next, and whether each has been copied from.
    turn: usize,
    used: [bool; 2],
}

impl<'a> Bounce<'a> {
    /// The pinned memory of an upload, in bytes; less where there is less to copy.
    const BYTES: u64 = 16 << 20;

    fn new(
        lane: &'a Lane,
        context: &'a Context,
        pinned: &Arc<PinnedPool>,
        total: u64,
    ) -> Result<Self> {
        let memory = pinned.take(total.min(Self::BYTES) as usize)?;
        let half = memory.bytes() / 2;
        Ok(Self { lane, context, memory, half, turn: 0, used: [false; 2] })
    }

    fn copy<T: Pod>(&mut self, to: u64, values: &[T]) -> Result<()> {
        self.copy_with(to, values.len(), |places, out| {
            out.write_copy_of_slice(&values[places]);
        })
    }

    /// Copies `len` values to the device address `to`; `fill` writes those at some places, all of
    /// them.
    fn copy_with<T: Pod>(
        &mut self,
        to: u64,
        len: usize,
        fill: impl Fn(Range<usize>, &mut [MaybeUninit<T>]),
    ) -> Result<()> {
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
                let half = self.memory.start().add(turn * self.half).cast().as_ptr();
                slice::from_raw_parts_mut(half, places.len())
            };
            fill(places, values);
            // SAFETY: all of them have been written.
            let values = unsafe { values.assume_init_ref() };
            let to = to + (first * size_of::<T>()) as u64;
            // SAFETY: the device memory has room for all `len` values; the stream is waited for
            // before the pinned memory is given back.
            let copy = unsafe { result::memcpy_htod_async(to, values, self.lane.stream.handle()) };
            self.context.check("cuMemcpyHtoDAsync", copy)?;
            self.lane.copied[turn].record(&self.lane.stream)?;
        }
        Ok(())
    }
}
