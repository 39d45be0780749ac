//! What is asked of a device, and what it answers.

use std::fmt::Debug;
use std::sync::Arc;

use crate::engine::Match;
use crate::gpu::abi::{Found, Group, NarrowCandidate};
use crate::gpu::{DeviceError, ResidentSets, Section, Staging};
use crate::set::Candidate;

/// How a kernel divides the candidates of a chunk among its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// A thread verifies all candidates of a group. Published, for measurements.
    ThreadPerProbe,
    /// A block owns a group, a thread verifies a candidate. Published, for measurements.
    ThreadPerPair,
    /// A block owns a group, all its threads verify a candidate together.
    BlockPerPair,
    /// A block owns a group, four lanes of a warp verify a candidate together.
    LanesPerPair,
}

/// What a kernel gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Every match, in any order.
    Pairs,
    /// The number of matches, in pairs of sets and pairs of rows.
    Count,
}

/// Which kernel runs, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    pub layout: Layout,
    pub form: Form,
    /// Threads of a block: 32, 64, 128 or 256.
    pub block: u32,
    /// Dynamic shared memory of a block, in words of 4 bytes. Cut down to what the device has; the
    /// kernels are right with any.
    pub shared_words: u32,
    /// The greatest number of blocks, at least 1: with fewer than there is work for, each takes up
    /// several groups, one after another.
    pub most_blocks: u32,
}

/// A chunk of candidates to be verified.
#[derive(Debug)]
pub struct Job {
    /// Groups (one more than there are probe sets, the last one ends the candidates), candidates,
    /// the table of required overlaps, and the sets that are not resident.
    pub staging: Staging,
    pub launch: Launch,
    /// The probe sets on the device; without them they travel in the staging.
    pub probe: Option<Arc<ResidentSets>>,
    pub build: Option<Arc<ResidentSets>>,
    /// The candidates are [`Candidate`]s, not [`NarrowCandidate`]s.
    pub wide: bool,
    /// A match needs its exact overlap.
    pub exact: bool,
    /// One match for each probe set will do.
    pub first_only: bool,
    /// A probe set equals the build set of the same number (a self-join).
    pub same: bool,
    pub reply: Arc<dyn Reply>,
}

/// Takes what became of a job.
pub trait Reply: Debug + Send + Sync {
    /// Called exactly once for each job, on a thread of the device's queue: it must not block.
    /// After a success in the pairs form the staging holds the matches.
    fn done(&self, staging: Staging, outcome: Result<Outcome, DeviceError>);
}

/// What a kernel found in a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    pub found: Found,
    pub times: Times,
    pub bytes_to_device: u64,
    pub bytes_from_device: u64,
}

/// Where the time of a job went. The times on the device leave out those in which it worked for an
/// earlier job, so that their sums are the times for which its engines were busy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    pub to_device_nanos: u64,
    pub kernel_nanos: u64,
    pub from_device_nanos: u64,
    /// From [`Device::submit`](crate::gpu::Device::submit) until the job was started.
    pub queued_nanos: u64,
    /// For how long the device had had nothing to do since the end of the job before, whosever it
    /// was.
    pub idle_nanos: u64,
}

/// The size of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub groups: u32,
    pub candidates: u32,
}

impl Job {
    /// Checks what the kernels rely on and can be checked at a glance.
    pub(crate) fn extent(&self) -> Result<Extent, DeviceError> {
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
        let extent = Extent {
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
        let Launch { form, block, .. } = self.launch;
        if block == 0 || block > 1024 || !block.is_multiple_of(32) {
            return Err(internal(format!("blocks of {block} threads")));
        }
        if form == Form::Pairs && self.staging.room_for_matches() < candidates {
            let room = self.staging.room_for_matches();
            return Err(internal(format!("room for {room} matches of {candidates} candidates")));
        }
        Ok(extent)
    }

    pub(crate) fn match_bytes(&self, extent: Extent) -> u64 {
        match self.launch.form {
            Form::Pairs => u64::from(extent.candidates) * size_of::<Match>() as u64,
            Form::Count => 0,
        }
    }
}

fn internal(what: impl Into<String>) -> DeviceError {
    DeviceError::Internal(format!("a chunk for a CUDA device has {}", what.into()))
}
