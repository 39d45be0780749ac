//! A search as work for a device.

use std::sync::mpsc::{Sender, channel};

use crate::memory::Reservation;
use crate::offload::Arena;
use crate::runtime::{Device, DeviceError, DeviceWork, Results, Stage, Usage};
use crate::vector::nearest::abi::NearestTally;
use crate::vector::nearest::arrays::{Arrays, DeviceSearch};
use crate::vector::nearest::fetch::Fetcher;
use crate::vector::nearest::side::DeviceSide;

/// The neighbours that a search has found, by row.
#[derive(Debug, Default)]
pub(super) struct FoundNeighbours {
    pub tally: NearestTally,
    pub starts: Vec<u32>,
    pub counts: Vec<u32>,
    pub columns: Vec<u32>,
    pub values: Vec<f64>,
    /// Host memory was refused.
    pub refused: bool,
    /// The time of the kernels.
    pub nanos: u64,
}

/// Tells whether a search has found what it was to find.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judge {
    list_room: u64,
    bucket_room: u64,
}

impl DeviceSearch {
    /// The judge of its outcome.
    pub(super) fn judge(&self) -> Judge {
        Judge { list_room: self.list_room, bucket_room: self.bucket_room }
    }
}

impl Judge {
    /// The reason why a search has found nothing.
    pub(super) fn failure(self, tally: &NearestTally) -> Option<&'static str> {
        let had_room = tally.pairs.redone == 0
            && tally.bests.redone == 0
            && tally.pairs.hits <= self.list_room
            && tally.kept <= self.bucket_room;
        if tally.unusual > 0 {
            Some("numbers that are not finite or too great")
        } else if tally.unbounded > 0 {
            Some("too few vectors in a sample")
        } else {
            (!had_room).then_some("too many pairs are near")
        }
    }
}

/// A search in the queue of a device.
#[derive(Debug)]
struct NearestTask {
    search: DeviceSearch,
    reservation: Reservation,
    sender: Sender<(Result<FoundNeighbours, DeviceError>, Reservation)>,
    fetcher: Fetcher,
    found: FoundNeighbours,
    /// The address of the arrays.
    start: u64,
    arrays: Option<Arrays>,
}

impl DeviceWork for NearestTask {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        let Self { search, start, arrays, .. } = self;
        if !stage.has(search.left.memory()) || !stage.has(search.right.memory()) {
            return Err(DeviceError::Internal("nearest vectors of another device".to_string()));
        }
        *start = stage.reserve("the arrays of nearest vectors", search.bytes())?;
        let mut arena = Arena::at(*start);
        let declared = search.declare(&mut arena);
        // SAFETY: the arena borrows from the search, which the task keeps until it is answered.
        unsafe { arena.fill(stage)? };
        // SAFETY: the arrays lie in memory of the stage, and have been filled.
        unsafe { search.launch(&declared, stage)? };
        *arrays = Some(declared);
        stage.note(0, size_of::<NearestTally>())
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        let Self { search, reservation, found, fetcher, start, arrays, .. } = self;
        let Some(arrays) = arrays else { return Ok(()) };
        found.tally = results.note()?;
        if search.judge().failure(&found.tally).is_some() {
            return Ok(());
        }
        let rows = search.row_count() as usize;
        let count = found.tally.found.min(search.found_room.into()) as usize;
        if reservation.try_grow(8 * rows + 12 * count).is_err() {
            found.refused = true;
            return Ok(());
        }
        let work = &arrays.work;
        let first = DeviceSide::bytes(search.first_number(), 1, false);
        found.starts = fetcher.fetch(results, work.found_starts + first - *start, rows)?;
        found.counts = fetcher.fetch(results, work.found_counts + first - *start, rows)?;
        found.columns = fetcher.fetch(results, work.found_columns - *start, count)?;
        found.values = fetcher.fetch(results, work.found_values - *start, count)?;
        Ok(())
    }

    fn answer(self: Box<Self>, usage: Result<Usage, DeviceError>) {
        let Self { search, reservation, sender, found, .. } = *self;
        // First, so that the receiver can use the memory.
        drop(search);
        let found = usage.map(|usage| FoundNeighbours { nanos: usage.times.kernel_nanos, ..found });
        // Nobody waits any more where the join has ended.
        let _ = sender.send((found, reservation));
    }
}

/// Has a device do a search, and waits for it.
pub(super) fn search(
    device: &Device,
    search: DeviceSearch,
    reservation: Reservation,
) -> Result<(FoundNeighbours, Reservation), DeviceError> {
    let (sender, receiver) = channel();
    let fetcher = Fetcher::of(device, search.tuning)?;
    device.submit(Box::new(NearestTask {
        search,
        reservation,
        sender,
        fetcher,
        found: FoundNeighbours::default(),
        start: 0,
        arrays: None,
    }));
    let unanswered = |_| DeviceError::Internal("a search has no answer".to_string());
    let (found, reservation) = receiver.recv().map_err(unanswered)?;
    Ok((found?, reservation))
}
