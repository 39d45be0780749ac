//! A place in the device's pipeline: a stream, device memory, events.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use crate::runtime::driver::{Context, Event, Result, Stream};
use crate::runtime::memory::{DeviceBuffer, PinnedBuffer, PinnedPool};
use crate::runtime::module::Modules;
use crate::runtime::{DeviceError, Images, Kernel, LaunchGrid, Pod, Resident, Times, Usage};

/// Bytes of a note, at most.
const NOTE_BYTES: usize = 256;

/// The stream, memory and events of one work on its way through the device.
///
/// All of it is issued to one stream, so that it happens in order; slots run side by side, and the
/// device copies to, computes and copies from different ones at the same time.
#[derive(Debug)]
pub(super) struct StreamSlot {
    context: Arc<Context>,
    stream: Stream,
    marks: Marks,
    /// Where notes are copied to, and the bytes of the last one.
    note: PinnedBuffer,
    noted: usize,
    memory: Option<DeviceBuffer>,
    /// Something may be under way.
    busy: bool,
}

/// Points in the stream of a slot.
#[derive(Debug)]
struct Marks {
    /// Before and behind the copies to the device,
    started: Event,
    copied: Event,
    /// behind the last kernel,
    computed: Event,
    /// behind the copy of the note,
    noted: Event,
    /// before and behind the copies of [`Results`].
    returning: Event,
    returned: Event,
}

/// The latest points that any slot has passed: a device does one thing of a kind at a time, so work
/// that was issued beside that of another slot has begun where that ended, not where it was ready.
#[derive(Debug)]
pub(crate) struct Latest {
    copied: Event,
    computed: Event,
    /// Both have been recorded.
    known: bool,
}

impl Latest {
    /// The context is current.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self> {
        Ok(Self { copied: Event::new(context)?, computed: Event::new(context)?, known: false })
    }
}

/// A work under way in a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Issued {
    bytes_to_device: u64,
    bytes_from_device: u64,
}

impl StreamSlot {
    /// The context is current.
    pub(super) fn new(context: &Arc<Context>, pinned: &Arc<PinnedPool>) -> Result<Self> {
        let event = || Event::new(context);
        Ok(Self {
            context: Arc::clone(context),
            stream: Stream::new(context)?,
            marks: Marks {
                started: event()?,
                copied: event()?,
                computed: event()?,
                noted: event()?,
                returning: event()?,
                returned: event()?,
            },
            note: pinned.take(NOTE_BYTES)?,
            noted: 0,
            memory: None,
            busy: false,
        })
    }

    /// Gives the device memory up, which no work uses.
    pub(super) fn take_memory(&mut self) -> Option<DeviceBuffer> {
        self.memory.take()
    }

    /// Has `issue` issue a work; `None` where there is nothing to do. The context is current. After an
    /// error the caller settles.
    pub(super) fn issue(
        &mut self,
        modules: &Modules,
        issue: impl FnOnce(&mut Stage<'_>) -> Result<()>,
    ) -> Result<Option<Issued>> {
        self.noted = 0;
        let issued = Issued { bytes_to_device: 0, bytes_from_device: 0 };
        let mut stage = Stage { slot: self, modules, phase: Phase::Empty, issued };
        issue(&mut stage)?;
        stage.end()
    }

    /// Waits for an issued work and has `finish` take its results. The context is current. After an
    /// error the caller settles.
    pub(super) fn finish(
        &mut self,
        issued: Issued,
        finish: impl FnOnce(&mut Results<'_>) -> Result<()>,
        latest: &mut Latest,
    ) -> Result<Usage> {
        self.marks.noted.wait()?;
        let mut results = Results { slot: self, bytes: issued.bytes_from_device, returned: false };
        finish(&mut results)?;
        let Results { bytes: bytes_from_device, returned, .. } = results;
        let times = self.times(latest, returned)?;
        self.busy = false;
        Ok(Usage { times, bytes_to_device: issued.bytes_to_device, bytes_from_device })
    }

    /// Waits until nothing is under way, after an error. That error says more than this could.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.busy) {
            let _ = self.stream.settle();
        }
    }

    /// The address of a range of the slot's memory.
    fn address(&self, at: u64, bytes: u64) -> Result<u64> {
        let (address, room) = self.memory.as_ref().map_or((0, 0), |m| (m.address(), m.bytes()));
        match at.checked_add(bytes) {
            Some(end) if end <= room => Ok(address + at),
            _ => Err(DeviceError::Internal(format!(
                "{bytes} bytes at {at} are not within the {room} bytes of a stage"
            ))),
        }
    }

    fn times(&mut self, latest: &mut Latest, returned: bool) -> Result<Times> {
        let marks = &mut self.marks;
        let mut to_device = marks.started.nanos_to(&marks.copied)?;
        let mut kernel = marks.copied.nanos_to(&marks.computed)?;
        let mut from_device = marks.computed.nanos_to(&marks.noted)?;
        if returned {
            from_device += marks.returning.nanos_to(&marks.returned)?;
        }
        if latest.known {
            to_device = to_device.min(latest.copied.nanos_to(&marks.copied)?);
            kernel = kernel.min(latest.computed.nanos_to(&marks.computed)?);
        }
        // The slot's events are recorded anew with its next work, so they are changed for others.
        if to_device >= 0 || !latest.known {
            std::mem::swap(&mut latest.copied, &mut marks.copied);
        }
        if kernel >= 0 || !latest.known {
            std::mem::swap(&mut latest.computed, &mut marks.computed);
        }
        latest.known = true;
        Ok(Times {
            to_device_nanos: to_device.max(0) as u64,
            kernel_nanos: kernel.max(0) as u64,
            from_device_nanos: from_device.max(0) as u64,
            ..Times::default()
        })
    }
}

/// The progress of issuing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Empty,
    Copying,
    Computing,
    Noting,
}

/// A slot to which a work issues its copies and kernels. The device does them in the order in which they are
/// issued.
///
/// Copies to the device that come behind a kernel count as time of kernels.
#[derive(Debug)]
pub struct Stage<'a> {
    slot: &'a mut StreamSlot,
    modules: &'a Modules,
    phase: Phase,
    issued: Issued,
}

impl Stage<'_> {
    /// Device memory of at least `bytes` for `what` (a plural, for the error), with anything in
    /// it; gives its address, a multiple of 256. It belongs to the work until that is answered.
    /// Comes before anything is issued.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where the device has too little.
    pub fn reserve(&mut self, what: &'static str, bytes: u64) -> Result<u64> {
        if self.phase != Phase::Empty {
            return Err(DeviceError::Internal("memory is reserved behind its use".into()));
        }
        let slot = &mut *self.slot;
        let before = match &slot.memory {
            Some(memory) if memory.bytes() >= bytes => return Ok(memory.address()),
            Some(memory) => memory.bytes(),
            None => 0,
        };
        // First, so that it can be part of the new one: nothing in it is needed any more.
        slot.memory = None;
        // Half as much again as before where it has to grow, and that can be had.
        let grown = bytes.max(before + before / 2);
        let memory = match DeviceBuffer::new(&slot.context, what, grown) {
            Err(DeviceError::OutOfMemory { .. }) if grown > bytes => {
                DeviceBuffer::new(&slot.context, what, bytes)?
            }
            memory => memory?,
        };
        Ok(slot.memory.insert(memory).address())
    }

    /// Copies bytes to place `at` of the memory reserved.
    ///
    /// # Safety
    ///
    /// The bytes stay where they are, unchanged, until the work is answered.
    pub unsafe fn copy(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let to = self.slot.address(at, bytes.len() as u64)?;
        self.enter(Phase::Copying)?;
        // SAFETY: the memory has room, as checked; the source stays, as the caller promises.
        let copy = unsafe { result::memcpy_htod_async(to, bytes, self.slot.stream.handle()) };
        self.slot.context.check("cuMemcpyHtoDAsync", copy)?;
        self.issued.bytes_to_device += bytes.len() as u64;
        Ok(())
    }

    /// Sets bytes of the memory reserved to 0.
    pub fn clear(&mut self, at: u64, bytes: usize) -> Result<()> {
        let to = self.slot.address(at, bytes as u64)?;
        self.enter(Phase::Copying)?;
        // SAFETY: the memory has room, as checked.
        let cleared = unsafe { result::memset_d8_async(to, 0, bytes, self.slot.stream.handle()) };
        self.slot.context.check("cuMemsetD8Async", cleared)
    }

    /// A kernel of a program, which is loaded for it if need be.
    pub fn kernel(&self, images: &'static Images, name: &'static str) -> Result<Kernel> {
        self.modules.kernel(images, name)
    }

    /// Whether the memory is that of this device.
    pub fn has(&self, resident: &Resident) -> bool {
        resident.is_of(&self.slot.context)
    }

    /// Launches a kernel.
    ///
    /// # Safety
    ///
    /// The kernel comes from this stage, takes one argument of the type `A`, and reaches for
    /// memory of this device alone that lives until the work is answered.
    pub unsafe fn launch<A: Copy>(
        &mut self,
        kernel: Kernel,
        grid: LaunchGrid,
        mut argument: A,
    ) -> Result<()> {
        self.enter(Phase::Computing)?;
        let mut arguments = [(&raw mut argument).cast::<c_void>()];
        // SAFETY: the argument is copied by the call; the rest is as the caller promises.
        let launched = unsafe {
            result::launch_kernel(
                kernel.handle(),
                (grid.blocks, 1, 1),
                (grid.threads, 1, 1),
                grid.shared_words.saturating_mul(size_of::<u32>() as u32),
                self.slot.stream.handle(),
                &mut arguments,
            )
        };
        self.slot.context.check("cuLaunchKernel", launched)
    }

    /// Copies a few bytes (256 at most) of the memory reserved back: [`Results::note`] gives them.
    /// A work has one note.
    pub fn note(&mut self, at: u64, bytes: usize) -> Result<()> {
        if self.slot.noted > 0 || bytes > NOTE_BYTES {
            let noted = self.slot.noted;
            return Err(DeviceError::Internal(format!("a note of {bytes} bytes beside {noted}")));
        }
        let from = self.slot.address(at, bytes as u64)?;
        self.enter(Phase::Noting)?;
        let to = self.slot.note.start().as_ptr().cast();
        // SAFETY: the note has room, as checked; nothing else touches it until the slot is waited
        // for.
        let copy = unsafe {
            sys::cuMemcpyDtoHAsync_v2(to, from, bytes, self.slot.stream.handle()).result()
        };
        self.slot.context.check("cuMemcpyDtoHAsync", copy)?;
        self.slot.noted = bytes;
        self.issued.bytes_from_device += bytes as u64;
        Ok(())
    }

    /// Records the marks in front of a phase.
    fn enter(&mut self, phase: Phase) -> Result<()> {
        let StreamSlot { marks, stream, busy, .. } = &mut *self.slot;
        *busy = true;
        if self.phase == Phase::Empty {
            marks.started.record(stream)?;
        }
        if self.phase < Phase::Computing && phase >= Phase::Computing {
            marks.copied.record(stream)?;
        }
        if self.phase < Phase::Noting && phase >= Phase::Noting {
            marks.computed.record(stream)?;
        }
        self.phase = self.phase.max(phase);
        Ok(())
    }

    /// Records the marks that are left.
    fn end(mut self) -> Result<Option<Issued>> {
        if self.phase == Phase::Empty {
            return Ok(None);
        }
        self.enter(Phase::Noting)?;
        self.slot.marks.noted.record(&self.slot.stream)?;
        Ok(Some(self.issued))
    }
}

/// The results of a work on the device, once everything that it issued has passed.
#[derive(Debug)]
pub struct Results<'a> {
    slot: &'a mut StreamSlot,
    bytes: u64,
    returned: bool,
}

impl Results<'_> {
    /// The bytes that [`Stage::note`] has copied.
    ///
    /// # Errors
    ///
    /// Where there are fewer.
    pub fn note<T: Pod>(&self) -> Result<T> {
        if self.slot.noted < size_of::<T>() {
            let noted = self.slot.noted;
            let wanted = size_of::<T>();
            return Err(DeviceError::Internal(format!("a note of {noted} bytes, not {wanted}")));
        }
        // SAFETY: the copy has been waited for, any bits are a `T`, pinned memory is aligned.
        Ok(unsafe { self.slot.note.start().cast::<T>().read() })
    }

    /// Copies values from place `at` of the memory reserved, and waits until all are there.
    pub fn fetch<T: Pod>(&mut self, at: u64, to: &mut [MaybeUninit<T>]) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(to);
        let from = self.slot.address(at, bytes as u64)?;
        let copied = self.copy(from, to.as_mut_ptr().cast(), bytes);
        if copied.is_err() {
            // The copy may still write to `to`, which is only lent.
            self.slot.settle();
        }
        copied?;
        self.bytes += bytes as u64;
        self.returned = true;
        Ok(())
    }

    fn copy(&mut self, from: u64, to: *mut c_void, bytes: usize) -> Result<()> {
        let StreamSlot { context, stream, marks, .. } = &mut *self.slot;
        if !self.returned {
            marks.returning.record(stream)?;
        }
        // SAFETY: both have the same number of bytes; the copy is waited for before the loan of
        // `to` ends.
        let copy = unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream.handle()).result() };
        context.check("cuMemcpyDtoHAsync", copy)?;
        marks.returned.record(stream)?;
        marks.returned.wait()
    }
}
