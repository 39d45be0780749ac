//! Verification as work for a device.

use std::fmt::Debug;

use simjoin_core::set::candidates::Candidate;
use simjoin_gpu::offload::fetch;
use simjoin_gpu::runtime::{Device, DeviceError, DeviceWork, Results, Stage, Usage};
use simjoin_gpu::set::device::ResidentSets;
use simjoin_gpu::set::device::abi::{Found, Sets};

use crate::engine::Match;
use crate::verified::abi::{Chunk, Group, NarrowCandidate};
use crate::verified::launch::Launch;
use crate::verified::shape::Form;
use crate::verified::staging::{Section, Staging};

/// A chunk of candidates to be verified.
#[derive(Debug)]
pub struct VerifyJob {
    /// Groups (one more than there are probe sets, the last one ends the candidates), candidates,
    /// the table of required overlaps, and the sets that are not resident.
    pub staging: Staging,
    /// The kernel.
    pub launch: Launch,
    /// The probe sets on the device; without them they travel in the staging.
    pub probe: Option<ResidentSets>,
    /// The build sets on the device; without them they travel in the staging.
    pub build: Option<ResidentSets>,
    /// The candidates are [`Candidate`]s, not [`NarrowCandidate`]s.
    pub wide: bool,
    /// A match needs its exact overlap.
    pub exact: bool,
    /// One match for each probe set will do.
    pub first_only: bool,
    /// A probe set equals the build set of the same number (a self-join).
    pub same: bool,
    /// Takes the outcome.
    pub reply: Box<dyn Reply>,
}

/// Takes the answer to a chunk.
pub trait Reply: Debug + Send {
    /// Whether the answer is still asked for: a chunk that is not need not be verified.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Takes the answer, on a thread of the device's queue: it must not block.
    fn done(self: Box<Self>, staging: Staging, outcome: Result<Outcome, DeviceError>);
}

/// The answer of a kernel to a chunk.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The kernel's counts.
    pub found: Found,
    /// In the pairs form: the matches.
    pub matches: Vec<Match>,
    /// The times and bytes that the work took.
    pub usage: Usage,
}

/// The size of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChunkExtent {
    groups: u32,
    candidates: u32,
}

impl VerifyJob {
    /// Has the chunk verified, after the works that were submitted before. Never blocks: the
    /// answer goes to the [`Reply`].
    pub fn submit(self, device: &Device) {
        device.submit(self.into_work());
    }

    /// The work of a device.
    pub(crate) fn into_work(self) -> Box<dyn DeviceWork> {
        Box::new(VerifyWork { job: self, plan: None, found: Found::default(), matches: vec![] })
    }

    /// Checks the sizes that the kernels rely on.
    fn extent(&self) -> Result<ChunkExtent, DeviceError> {
        let groups = self.staging.slice::<Group>(Section::Groups);
        let candidates = match self.wide {
            true => self.staging.len::<Candidate>(Section::Candidates),
            false => self.staging.len::<NarrowCandidate>(Section::Candidates),
        };
        let count = |what: &str, number: usize| {
            u32::try_from(number)
                .ok()
                .filter(|&number| number <= i32::MAX as u32)
                .ok_or_else(|| internal(format!("{number} {what} in one chunk")))
        };
        let extent = ChunkExtent {
            groups: count("groups", groups.len().saturating_sub(1))?,
            candidates: count("candidates", candidates)?,
        };
        if extent.candidates == 0 {
            return Ok(extent);
        }
        match groups {
            [first, .., last] if first.start == 0 && last.start == extent.candidates => {}
            _ => return Err(internal("groups that do not cover the candidates")),
        }
        let Launch { block, .. } = self.launch;
        if block == 0 || block > 1024 || !block.is_multiple_of(32) {
            return Err(internal(format!("blocks of {block} threads")));
        }
        Ok(extent)
    }

    fn match_bytes(&self, extent: ChunkExtent) -> u64 {
        match self.launch.form {
            Form::Pairs => u64::from(extent.candidates) * size_of::<Match>() as u64,
            Form::Count => 0,
        }
    }

    /// The bytes of a section that travel: none where the sets are resident.
    fn sent(&self, section: Section) -> &[u8] {
        let resident = match section {
            Section::Groups | Section::Candidates | Section::Required => false,
            Section::ProbeTokens | Section::ProbeOffsets | Section::ProbeRows => {
                self.probe.is_some()
            }
            Section::BuildTokens | Section::BuildOffsets | Section::BuildRows => {
                self.build.is_some()
            }
        };
        if resident { &[] } else { self.staging.section(section) }
    }
}

fn internal(what: impl Into<String>) -> DeviceError {
    DeviceError::Internal(format!("a chunk for a CUDA device has {}", what.into()))
}

/// Where a chunk lies in the memory of its stage: [`Found`], its sections, its matches.
#[derive(Debug)]
struct ChunkLayout {
    extent: ChunkExtent,
    sections: [u64; Section::ALL.len()],
    matches: u64,
    end: u64,
}

const ALIGNMENT: u64 = 256;
const FOUND_BYTES: usize = size_of::<Found>();

impl ChunkLayout {
    fn of(job: &VerifyJob, extent: ChunkExtent) -> Self {
        let mut at = ALIGNMENT;
        let sections = Section::ALL.map(|section| {
            let place = at;
            at += (job.sent(section).len() as u64).next_multiple_of(ALIGNMENT);
            place
        });
        Self { extent, sections, matches: at, end: at + job.match_bytes(extent) }
    }

    /// The argument of the kernel for a job whose chunk lies at `start`.
    fn chunk(&self, start: u64, job: &VerifyJob) -> Chunk {
        let place = |section: Section| start + self.sections[section as usize];
        let optional = |section: Section| match job.sent(section) {
            [] => 0,
            _ => place(section),
        };
        let sets =
            |resident: &Option<ResidentSets>, [tokens, offsets, rows]: [Section; 3]| match resident
            {
                Some(sets) => (sets.sets(), sets.rows()),
                None => {
                    let sets = Sets { tokens: place(tokens), offsets: place(offsets) };
                    (sets, optional(rows))
                }
            };
        let (probe, probe_rows) = sets(&job.probe, Section::PROBE);
        let (build, build_rows) = sets(&job.build, Section::BUILD);
        Chunk {
            probe,
            build,
            groups: place(Section::Groups),
            candidates: place(Section::Candidates),
            required: place(Section::Required),
            probe_rows,
            build_rows,
            matches: if job.launch.form == Form::Pairs { start + self.matches } else { 0 },
            found: start,
            group_count: self.extent.groups,
            wide: job.wide.into(),
            exact: job.exact.into(),
            first_only: job.first_only.into(),
            same: job.same.into(),
            shared_words: 0,
        }
    }
}

/// A [`VerifyJob`] on its way through a device.
#[derive(Debug)]
struct VerifyWork {
    job: VerifyJob,
    /// Once it has been issued.
    plan: Option<ChunkLayout>,
    found: Found,
    matches: Vec<Match>,
}

impl DeviceWork for VerifyWork {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        let job = &self.job;
        let extent = job.extent()?;
        if extent.candidates == 0 || !job.reply.is_wanted() {
            return Ok(());
        }
        if ![&job.probe, &job.build].into_iter().flatten().all(|sets| sets.is_at(stage)) {
            return Err(internal("sets on another device"));
        }
        let plan = ChunkLayout::of(job, extent);
        let start = stage.reserve("the buffers for chunks of candidates", plan.end)?;
        let (images, name) = job.launch.kernel();
        let kernel = stage.kernel(images, name)?;
        for (section, place) in Section::ALL.into_iter().zip(plan.sections) {
            // SAFETY: the staging is the job's, which keeps it as it is until it is answered.
            unsafe { stage.copy(place, job.sent(section))? };
        }
        // `Found` has its place at the start.
        stage.clear(0, FOUND_BYTES)?;
        let shared_words = job.launch.shared_words.min(kernel.shared_words());
        let chunk = Chunk { shared_words, ..plan.chunk(start, job) };
        let grid = job.launch.grid(extent.groups, shared_words);
        // SAFETY: verification kernels take one `Chunk`; its addresses are those of memory of this
        // stage and of sets of this device, which the job holds. Kernels rely on the checks above;
        // the sections are filled by this crate as `abi` says.
        unsafe { stage.launch(kernel, grid, chunk)? };
        stage.note(0, FOUND_BYTES)?;
        self.plan = Some(plan);
        Ok(())
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        let Some(plan) = &self.plan else { return Ok(()) };
        self.found = results.note()?;
        let (matches, candidates) = (self.found.matches, plan.extent.candidates);
        if matches > u64::from(candidates) {
            return Err(DeviceError::Internal(format!(
                "a kernel found {matches} matches among {candidates} candidates"
            )));
        }
        if self.job.launch.form == Form::Pairs {
            self.matches = fetch(results, plan.matches, matches as usize)?;
        }
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        let Self { job, found, matches, .. } = *self;
        let VerifyJob { staging, probe, build, reply, .. } = job;
        // Dropped first, so that the receiver of the answer can use their memory.
        drop((probe, build));
        reply.done(staging, outcome.map(|usage| Outcome { found, matches, usage }));
    }
}
