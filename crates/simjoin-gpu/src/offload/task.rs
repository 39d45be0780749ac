//! Jobs as work for a device.

use std::fmt::Debug;

use crate::offload::arena::Arena;
use crate::offload::inbox::Ticket;
use crate::offload::memory::fetch;
use crate::offload::outcome::Outcome;
use crate::runtime::{DeviceError, DeviceWork, LaunchGrid, Pod, Results, Stage, Usage};

/// A device of a join: what it holds for the jobs, and how many multiprocessors it has.
#[derive(Debug, Clone)]
pub struct OnDevice<R> {
    pub resident: R,
    pub multiprocessors: u32,
}

/// The devices of a join by number; `None` where one has failed before.
pub(crate) type EachDevice<J> = Vec<Option<OnDevice<<J as DeviceJob>::Resident>>>;

/// The arrays, the kernels and the results of one kind of jobs.
pub(crate) trait DeviceJob: Debug + Send + Sized + 'static {
    /// The data that a device holds for the jobs of a join.
    type Resident: Debug + Clone + Send + 'static;
    /// The report of the kernels. It lies in front of the other arrays, and begins with zeros.
    type Tally: Pod;
    /// The arguments of the kernels.
    type Arguments: Debug + Copy + Send;
    /// The part of a job that a device has left.
    type Left: Debug + Default + Send + 'static;
    /// The name of the arrays in errors, a plural.
    const ARRAYS: &'static str;

    /// Whether a device's kernels can read what it holds at this stage.
    fn is_at(&self, resident: &Self::Resident, stage: &Stage<'_>) -> bool;

    /// Declares the arrays, always the same ones. The tally is at the start of the arena.
    fn declare<'a>(
        &'a self,
        device: &OnDevice<Self::Resident>,
        arena: &mut Arena<'a>,
    ) -> Self::Arguments;

    /// Launches the kernels.
    ///
    /// # Errors
    ///
    /// Where the device fails.
    fn launch(
        &self,
        device: &OnDevice<Self::Resident>,
        arguments: &Self::Arguments,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError>;

    /// The outcome of the kernels, without what they took.
    ///
    /// # Errors
    ///
    /// Where the kernels report what cannot be, or the device fails.
    fn outcome(
        &self,
        arguments: &Self::Arguments,
        tally: Self::Tally,
        results: &mut JobResults<'_, '_>,
    ) -> Result<Outcome<Self::Left>, DeviceError>;

    /// The bytes that the arrays take on a device.
    fn bytes(&self, device: &OnDevice<Self::Resident>) -> u64 {
        self.arena(device, 0).0.bytes()
    }

    /// The arrays in memory at `start`, and the arguments.
    fn arena<'a>(
        &'a self,
        device: &OnDevice<Self::Resident>,
        start: u64,
    ) -> (Arena<'a>, Self::Arguments) {
        let mut arena = Arena::at(start);
        arena.zeroed::<Self::Tally>(1);
        let arguments = self.declare(device, &mut arena);
        (arena, arguments)
    }
}

/// The results of a job in the memory of a device.
#[derive(Debug)]
pub(crate) struct JobResults<'a, 'b> {
    results: &'a mut Results<'b>,
    start: u64,
}

impl JobResults<'_, '_> {
    /// The first `count` values of the array at an address.
    ///
    /// # Errors
    ///
    /// Where the device fails.
    pub(crate) fn fetch<T: Pod>(
        &mut self,
        address: u64,
        count: usize,
    ) -> Result<Vec<T>, DeviceError> {
        fetch(self.results, address - self.start, count)
    }
}

/// A job in the queue of a device.
#[derive(Debug)]
pub(crate) struct DeviceTask<J: DeviceJob> {
    job: J,
    device: Option<OnDevice<J::Resident>>,
    /// The address of the arrays and the arguments, once the kernels are launched.
    issued: Option<(u64, J::Arguments)>,
    outcome: Outcome<J::Left>,
    ticket: Ticket<J, J::Left>,
}

impl<J: DeviceJob> DeviceTask<J> {
    /// The task of a job for the device of a number.
    pub(crate) fn boxed(
        devices: &EachDevice<J>,
        number: usize,
        job: J,
        ticket: Ticket<J, J::Left>,
    ) -> Box<dyn DeviceWork> {
        let device = devices.get(number).cloned().flatten();
        Box::new(Self { job, device, issued: None, outcome: Outcome::default(), ticket })
    }
}

impl<J: DeviceJob> DeviceWork for DeviceTask<J> {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        let Self { job, device, issued, ticket, .. } = self;
        if !ticket.is_wanted() {
            return Ok(());
        }
        let device = device.as_ref().filter(|device| job.is_at(&device.resident, stage));
        let device = device.ok_or_else(|| {
            DeviceError::Internal(format!("{} refer to another device", J::ARRAYS))
        })?;
        let start = stage.reserve(J::ARRAYS, job.bytes(device))?;
        let (arena, arguments) = job.arena(device, start);
        // SAFETY: the arena borrows from the job, which the task keeps as it is until it is answered.
        unsafe { arena.fill(stage)? };
        job.launch(device, &arguments, stage)?;
        stage.note(0, size_of::<J::Tally>())?;
        *issued = Some((start, arguments));
        Ok(())
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        let Some((start, arguments)) = self.issued else { return Ok(()) };
        let tally = results.note()?;
        self.outcome = self.job.outcome(&arguments, tally, &mut JobResults { results, start })?;
        Ok(())
    }

    fn answer(self: Box<Self>, usage: Result<Usage, DeviceError>) {
        let Self { job, device, outcome, ticket, .. } = *self;
        // Dropped first, so that the receiver of the answer can use their memory.
        drop(device);
        ticket.done(job, usage.map(|usage| Outcome { usage, ..outcome }));
    }
}

/// The grid of a kernel whose threads decide so many pairs at most, one after the other.
pub(crate) fn deciding_grid(pairs: u64, multiprocessors: u32) -> LaunchGrid {
    const THREADS: u32 = 128;
    /// Blocks of a multiprocessor, so that they end together.
    const BLOCKS: u32 = 8;
    let blocks = pairs.div_ceil(THREADS.into()).clamp(1, (BLOCKS * multiprocessors).into());
    LaunchGrid { blocks: blocks as u32, threads: THREADS, shared_words: 0 }
}
