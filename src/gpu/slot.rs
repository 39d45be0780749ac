//! A place in the device's pipeline: a stream, device memory, events.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use cudarc::driver::result;

use crate::engine::Match;
use crate::gpu::abi::{Chunk, Found, Sets};
use crate::gpu::driver::{Context, Event, Result, Stream};
use crate::gpu::job::{Extent, Form, Job, Layout, Outcome, Times};
use crate::gpu::kernels::kernel;
use crate::gpu::memory::{DeviceBuffer, PinnedBuffer, PinnedPool};
use crate::gpu::module::Modules;
use crate::gpu::{DeviceError, Section};

/// What one chunk needs on its way through the device.
///
/// All of it is issued to one stream, so that it happens in order; slots run side by side, and the
/// device copies to, computes and copies from different ones at the same time.
#[derive(Debug)]
pub(crate) struct Slot {
    context: Arc<Context>,
    stream: Stream,
    marks: Marks,
    /// Where the device's [`Found`] is copied to.
    found: PinnedBuffer,
    memory: Option<DeviceBuffer>,
}

/// Points in the stream of a slot.
#[derive(Debug)]
struct Marks {
    /// Before and behind the copies to the device,
    started: Event,
    copied: Event,
    /// behind the kernel,
    computed: Event,
    /// behind the copy of [`Found`],
    found: Event,
    /// before and behind the copy of the matches.
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
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        Ok(Self { copied: Event::new(context)?, computed: Event::new(context)?, known: false })
    }
}

/// A job under way in a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Issued {
    extent: Extent,
    /// Device address of the matches.
    matches: u64,
    bytes_to_device: u64,
}

/// Where a chunk lies in the device memory of its slot: [`Found`], its sections, its matches.
struct Plan {
    sections: [u64; Section::ALL.len()],
    matches: u64,
    end: u64,
}

const ALIGNMENT: u64 = 256;
const FOUND_BYTES: usize = size_of::<Found>();

impl Plan {
    fn of(job: &Job, extent: Extent) -> Self {
        let mut at = ALIGNMENT;
        let sections = Section::ALL.map(|section| {
            let place = at;
            at += (sent(job, section).len() as u64).next_multiple_of(ALIGNMENT);
            place
        });
        Self { sections, matches: at, end: at + job.match_bytes(extent) }
    }
}

/// The bytes of a section that travel: none where the sets are resident.
fn sent(job: &Job, section: Section) -> &[u8] {
    let resident = match section {
        Section::Groups | Section::Candidates | Section::Required => false,
        Section::ProbeTokens | Section::ProbeOffsets | Section::ProbeRows => job.probe.is_some(),
        Section::BuildTokens | Section::BuildOffsets | Section::BuildRows => job.build.is_some(),
    };
    if resident { &[] } else { job.staging.section(section) }
}

impl Slot {
    /// The context is current.
    pub fn new(context: &Arc<Context>, pinned: &Arc<PinnedPool>) -> Result<Self> {
        let event = || Event::new(context);
        Ok(Self {
            context: Arc::clone(context),
            stream: Stream::new(context)?,
            marks: Marks {
                started: event()?,
                copied: event()?,
                computed: event()?,
                found: event()?,
                returning: event()?,
                returned: event()?,
            },
            found: pinned.take(FOUND_BYTES)?,
            memory: None,
        })
    }

    /// Gives the device memory up, which no job uses.
    pub fn take_memory(&mut self) -> Option<DeviceBuffer> {
        self.memory.take()
    }

    /// Sees to device memory of at least so many bytes; half as much again as before where it has
    /// to grow, and that can be had.
    fn reserve(&mut self, bytes: u64) -> Result<u64> {
        const WHAT: &str = "the buffers for chunks of candidates";
        let before = match &self.memory {
            Some(memory) if memory.bytes() >= bytes => return Ok(memory.address()),
            Some(memory) => memory.bytes(),
            None => 0,
        };
        // First, so that it can be part of the new one: nothing in it is needed any more.
        self.memory = None;
        let grown = bytes.max(before + before / 2);
        let memory = match DeviceBuffer::new(&self.context, WHAT, grown) {
            Err(DeviceError::OutOfMemory { .. }) if grown > bytes => {
                DeviceBuffer::new(&self.context, WHAT, bytes)?
            }
            memory => memory?,
        };
        Ok(self.memory.insert(memory).address())
    }

    /// Issues all that a job (with candidates) asks for, up to the copy of [`Found`], without
    /// waiting for any of it. The context is current. After an error nothing of it is under way.
    pub fn issue(&mut self, modules: &Modules, job: &Job, extent: Extent) -> Result<Issued> {
        let plan = Plan::of(job, extent);
        let start = self.reserve(plan.end)?;
        let issued = self.issue_at(start, &plan, modules, job, extent);
        if issued.is_err() {
            // Copies may still read the staging. The error above says more than this one could.
            let _ = self.stream.settle();
        }
        issued
    }

    fn issue_at(
        &mut self,
        start: u64,
        plan: &Plan,
        modules: &Modules,
        job: &Job,
        extent: Extent,
    ) -> Result<Issued> {
        let Self { context, stream, marks, .. } = self;
        let (images, name) = kernel(job.launch.layout, job.launch.form);
        let function = modules.kernel(images, name)?;
        let mut bytes_to_device = 0;
        marks.started.record(stream)?;
        for (section, place) in Section::ALL.into_iter().zip(plan.sections) {
            let bytes = sent(job, section);
            if bytes.is_empty() {
                continue;
            }
            // SAFETY: the memory of the slot has room as planned; the staging stays where it is
            // until the job is answered.
            let copy = unsafe { result::memcpy_htod_async(start + place, bytes, stream.handle()) };
            context.check("cuMemcpyHtoDAsync", copy)?;
            bytes_to_device += bytes.len() as u64;
        }
        // SAFETY: `Found` has its place at the start.
        let cleared = unsafe { result::memset_d8_async(start, 0, FOUND_BYTES, stream.handle()) };
        context.check("cuMemsetD8Async", cleared)?;
        marks.copied.record(stream)?;

        let shared_words = job.launch.shared_words.min(function.shared_words());
        let mut chunk = chunk(start, plan, job, extent);
        chunk.shared_words = shared_words;
        let block = job.launch.block;
        let grid = match job.launch.layout {
            Layout::ThreadPerProbe => extent.groups.div_ceil(block),
            Layout::ThreadPerPair | Layout::BlockPerPair | Layout::LanesPerPair => extent.groups,
        };
        let mut arguments = [(&raw mut chunk).cast::<c_void>()];
        // SAFETY: the kernel takes one `Chunk`, which is copied by the call; its addresses are
        // those of memory that lives until the job is answered.
        let launched = unsafe {
            result::launch_kernel(
                function.handle(),
                (grid.min(job.launch.most_blocks).max(1), 1, 1),
                (block, 1, 1),
                shared_words * size_of::<u32>() as u32,
                stream.handle(),
                &mut arguments,
            )
        };
        context.check("cuLaunchKernel", launched)?;
        marks.computed.record(stream)?;

        // SAFETY: nobody else reads or writes the slot's memory for `Found` until it is waited for.
        let copy = unsafe {
            let found = slice::from_raw_parts_mut(self.found.start().as_ptr(), FOUND_BYTES);
            result::memcpy_dtoh_async(found, start, stream.handle())
        };
        context.check("cuMemcpyDtoHAsync", copy)?;
        marks.found.record(stream)?;
        Ok(Issued { extent, matches: start + plan.matches, bytes_to_device })
    }

    /// Waits for an issued job and copies its matches into the staging. The context is current.
    /// After an error nothing of it is under way.
    pub fn finish(
        &mut self,
        issued: &Issued,
        job: &mut Job,
        latest: &mut Latest,
    ) -> Result<Outcome> {
        let finished = self.collect(issued, job, latest);
        if finished.is_err() {
            // As in `issue`.
            let _ = self.stream.settle();
        }
        finished
    }

    fn collect(&mut self, issued: &Issued, job: &mut Job, latest: &mut Latest) -> Result<Outcome> {
        self.marks.found.wait()?;
        // SAFETY: the copy has been waited for, any bits are a `Found`, blocks are aligned.
        let found = unsafe { self.found.start().cast::<Found>().read() };
        let candidates = u64::from(issued.extent.candidates);
        if found.matches > candidates {
            let matches = found.matches;
            return Err(DeviceError::Internal(format!(
                "a kernel found {matches} matches among {candidates} candidates"
            )));
        }
        let mut bytes_from_device = FOUND_BYTES as u64;
        let copies = job.launch.form == Form::Pairs && found.matches > 0;
        if copies {
            bytes_from_device += self.copy_matches(issued, job, found.matches as usize)?;
        }
        let times = self.times(latest, copies)?;
        let Issued { bytes_to_device, .. } = *issued;
        Ok(Outcome { found, times, bytes_to_device, bytes_from_device })
    }

    fn copy_matches(&self, issued: &Issued, job: &mut Job, count: usize) -> Result<u64> {
        let Self { context, stream, marks, .. } = self;
        let area: NonNull<Match> = job.staging.match_area();
        marks.returning.record(stream)?;
        // SAFETY: there is room for as many matches as candidates, on the device and in the
        // staging, which is not touched until the job is answered.
        let copy = unsafe {
            let matches = slice::from_raw_parts_mut(area.as_ptr(), count);
            result::memcpy_dtoh_async(matches, issued.matches, stream.handle())
        };
        context.check("cuMemcpyDtoHAsync", copy)?;
        marks.returned.record(stream)?;
        marks.returned.wait()?;
        // SAFETY: the copy has been waited for.
        unsafe { job.staging.set_match_count(count) };
        Ok((count * size_of::<Match>()) as u64)
    }

    fn times(&mut self, latest: &mut Latest, copies: bool) -> Result<Times> {
        let marks = &mut self.marks;
        let mut to_device = marks.started.nanos_to(&marks.copied)?;
        let mut kernel = marks.copied.nanos_to(&marks.computed)?;
        let mut from_device = marks.computed.nanos_to(&marks.found)?;
        if copies {
            from_device += marks.returning.nanos_to(&marks.returned)?;
        }
        if latest.known {
            to_device = to_device.min(latest.copied.nanos_to(&marks.copied)?);
            kernel = kernel.min(latest.computed.nanos_to(&marks.computed)?);
        }
        // The slot's events are recorded anew with its next job, so they are changed for others.
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

/// What a kernel is told of a job whose chunk lies at `start`.
fn chunk(start: u64, plan: &Plan, job: &Job, extent: Extent) -> Chunk {
    let place = |section: Section| start + plan.sections[section as usize];
    let optional = |section: Section| match sent(job, section) {
        [] => 0,
        _ => place(section),
    };
    let gathered = |tokens, offsets| Sets { tokens: place(tokens), offsets: place(offsets) };
    let pairs = job.launch.form == Form::Pairs;
    let (probe, probe_rows) = match &job.probe {
        Some(sets) => (sets.sets(), sets.rows()),
        None => {
            (gathered(Section::ProbeTokens, Section::ProbeOffsets), optional(Section::ProbeRows))
        }
    };
    let (build, build_rows) = match &job.build {
        Some(sets) => (sets.sets(), sets.rows()),
        None => {
            (gathered(Section::BuildTokens, Section::BuildOffsets), optional(Section::BuildRows))
        }
    };
    Chunk {
        probe,
        build,
        groups: place(Section::Groups),
        candidates: place(Section::Candidates),
        required: place(Section::Required),
        probe_rows,
        build_rows,
        matches: if pairs { start + plan.matches } else { 0 },
        found: start,
        group_count: extent.groups,
        wide: job.wide.into(),
        exact: job.exact.into(),
        first_only: job.first_only.into(),
        same: job.same.into(),
        shared_words: 0,
    }
}
