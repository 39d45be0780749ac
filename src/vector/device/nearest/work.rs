//! A search as work for a device.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use datafusion::execution::memory_pool::MemoryReservation;

use crate::gpu::{Device, DeviceError, DeviceWork, Grid, Kernel, Results, Stage, Usage};
use crate::offload::{Arena, fetch};
use crate::vector::device::abi::{Preparing, VectorSide, VectorTally, VectorUnit, VectorWork};
use crate::vector::device::nearest::abi::{
    BINS, NearestPreparing, NearestShuffle, NearestSum, NearestTally, NearestWork,
};
use crate::vector::device::nearest::plan::{Sample, padded, stride};
use crate::vector::device::nearest::side::Side;
use crate::vector::device::shape::{NEAREST, VECTORS, VectorKernel, VectorShape};
use crate::vector::metric::Metric;

/// By steps, from one on: the kernels that look at groups, and those that list pairs.
const TILES: [[&str; 2]; 9] = [
    ["nearest_bests_1", "nearest_pairs_1"],
    ["nearest_bests_2", "nearest_pairs_2"],
    ["nearest_bests_3", "nearest_pairs_3"],
    ["nearest_bests_4", "nearest_pairs_4"],
    ["nearest_bests_5", "nearest_pairs_5"],
    ["nearest_bests_6", "nearest_pairs_6"],
    ["nearest_bests_7", "nearest_pairs_7"],
    ["nearest_bests_8", "nearest_pairs_8"],
    ["nearest_bests_9", "nearest_pairs_9"],
];
const SHARED_TILES: [&str; 2] = ["nearest_bests_shared", "nearest_pairs_shared"];

/// Pairs for which a warp takes room in the list at once.
const CHUNK: u32 = 64;

/// The rows of a side, or some of them, and the columns that they are held against.
#[derive(Debug)]
pub(super) struct Search {
    pub metric: Metric,
    pub dimensions: u32,
    pub shape: VectorShape,
    pub multiprocessors: u32,
    pub neighbours: u32,
    pub sample: Sample,
    /// Whether rows are columns of the same number; all of them take part.
    pub same: bool,
    /// By dimension, the bits of what is subtracted.
    pub centre: Arc<Vec<u64>>,
    pub left: Arc<Side>,
    pub rows: Range<u32>,
    pub right: Arc<Side>,
    /// The tiles of both passes.
    pub sampled: Vec<VectorUnit>,
    pub tiles: Vec<VectorUnit>,
    pub list_room: u64,
    pub bucket_room: u64,
    pub found_room: u32,
}

/// The arrays of a search in the memory of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrays {
    tally: u64,
    greatest: u64,
    centre: u64,
    zeros: u64,
    order: u64,
    column_numbers: u64,
    column_tails: u64,
    row_numbers: u64,
    row_tails: u64,
    units: [u64; 2],
    failed: u64,
    redo: u64,
    /// The argument without the tiles.
    work: NearestWork,
}

impl Search {
    fn row_count(&self) -> u32 {
        self.rows.end - self.rows.start
    }

    /// The judge of its outcome.
    pub(super) fn judge(&self) -> Judge {
        Judge { list_room: self.list_room, bucket_room: self.bucket_room }
    }

    fn steps(&self) -> u32 {
        self.shape.numbers.steps(self.dimensions)
    }

    /// The bytes that the arrays take.
    pub(super) fn bytes(&self) -> u64 {
        let mut arena = Arena::at(0);
        self.declare(&mut arena);
        arena.bytes()
    }

    fn declare<'a>(&'a self, arena: &mut Arena<'a>) -> Arrays {
        const STEP_BYTES: u64 = 32;
        let (rows, columns) = (u64::from(self.row_count()), u64::from(self.right.count));
        let (row_padded, column_padded) =
            (u64::from(padded(self.row_count())), padded(self.right.count));
        let column_padded = u64::from(column_padded);
        let step_bytes = STEP_BYTES * u64::from(self.steps());
        let tally = arena.zeroed::<NearestTally>(1);
        let same = self.same;
        let of_rows = |count: u64| if same { 0 } else { count };
        let of_same = |count: u64| if same { count } else { 0 };
        let order = arena.room::<u32>(columns);
        let sorted_order = arena.room::<u32>(of_same(columns));
        let found_starts = arena.room::<u32>(rows);
        let found_counts = arena.room::<u32>(rows);
        let arrays = Arrays {
            tally,
            greatest: arena.zeroed::<u64>(1),
            centre: arena.copied(&self.centre),
            zeros: arena.zeroed::<u32>(column_padded / u64::from(self.shape.stage_columns)),
            order,
            column_numbers: arena.room_of(column_padded, step_bytes),
            column_tails: arena.room_of(of_same(column_padded), STEP_BYTES),
            row_numbers: arena.room_of(of_rows(row_padded), step_bytes),
            row_tails: arena.room_of(of_rows(row_padded), STEP_BYTES),
            units: [arena.copied(&self.sampled), arena.copied(&self.tiles)],
            failed: arena.room::<u32>(self.tiles.len().max(self.sampled.len()) as u64),
            redo: arena.room::<u32>(self.tiles.len().max(self.sampled.len()) as u64),
            work: NearestWork {
                tiles: self.tiles_of([0; 2], [0; 2], 0),
                groups: arena.room::<u32>(rows * u64::from(self.sample.groups)),
                thresholds: arena.room::<f32>(row_padded),
                row_order: if same { order } else { 0 },
                column_order: order,
                bins: arena.zeroed::<u32>(of_same(BINS + 1)),
                bin_next: arena.room::<u32>(of_same(BINS + 1)),
                bin_lowest: arena.zeroed::<u32>(of_same(BINS + 1)),
                sorted_order,
                sorted_thresholds: arena.room::<f32>(of_same(row_padded)),
                list: arena.room_of(self.list_room, 8),
                list_keys: arena.room::<u32>(self.list_room),
                counts: arena.zeroed::<u32>(rows),
                starts: arena.room::<u32>(rows + 1),
                next: arena.room::<u32>(rows),
                buckets: arena.room_of(self.bucket_room, 8),
                found_starts,
                found_counts,
                found_columns: arena.room::<u32>(self.found_room.into()),
                found_values: arena.room::<f64>(self.found_room.into()),
                summary: tally,
                gamma: f64::from(self.steps()) * VectorKernel::Warpgroups.rounding() * 1.02,
                bucket_room: self.bucket_room,
                found_room: self.found_room,
                row_count: self.row_count(),
                row_padded: row_padded as u32,
                neighbours: self.neighbours,
                group_count: self.sample.groups,
                group_stages: self.sample.group_stages,
                sample_stages: self.sample.stages,
                reserved: 0,
            },
        };
        arrays
    }

    /// The tiles of a pass: numbers and tails of rows, numbers of columns.
    fn tiles_of(
        &self,
        [numbers, tails]: [u64; 2],
        [columns, zeros]: [u64; 2],
        tally: u64,
    ) -> VectorWork {
        let side = |side: &Side, first: u32, numbers: u64, tails: u64, count: u32| VectorSide {
            values: side.address() + Side::bytes(first, self.dimensions, side.wide),
            numbers,
            tails,
            padded: padded(count),
            wide: side.wide.into(),
            ..VectorSide::default()
        };
        VectorWork {
            rows: side(&self.left, self.rows.start, numbers, tails, self.row_count()),
            columns: side(&self.right, 0, columns, 0, self.right.count),
            stage_sure: zeros,
            runs: 0,
            units: 0,
            stages: 0,
            hits: 0,
            failed: 0,
            redo: 0,
            matches: 0,
            seen: 0,
            tally,
            bound: 0.0,
            first_row: 0,
            end_row: self.row_count(),
            first_probe: 0,
            column_count: self.right.count,
            run_count: 0,
            unit_count: 0,
            dimensions: self.dimensions,
            steps: self.steps(),
            blocked: self.shape.blocked.into(),
            metric: self.metric as u32,
            strip_rows: self.shape.strip_rows,
            stage_columns: self.shape.stage_columns,
            capacity: self.list_room as u32,
            room: 0,
            chunk: CHUNK,
            undecided_room: 0,
            same: self.same.into(),
            counts_sure: 0,
            boxes: Default::default(),
        }
    }

    /// The argument of a pass over the units of a number.
    fn pass(&self, arrays: &Arrays, number: usize) -> NearestWork {
        let rows = match self.same {
            true => [arrays.column_numbers, arrays.column_tails],
            false => [arrays.row_numbers, arrays.row_tails],
        };
        let tally = arrays.tally + (number * size_of::<VectorTally>()) as u64;
        let tiles = self.tiles_of(rows, [arrays.column_numbers, arrays.zeros], tally);
        let units = [&self.sampled, &self.tiles][number].len() as u32;
        let tiles = VectorWork {
            units: arrays.units[number],
            failed: arrays.failed,
            redo: arrays.redo,
            unit_count: units,
            ..tiles
        };
        NearestWork { tiles, ..arrays.work }
    }

    /// The side as the kernel prepares it, in an order of its vectors.
    fn preparing(&self, arrays: &Arrays, is_row: bool, order: u64) -> NearestPreparing {
        let (side, count) = match is_row {
            true => (&self.left, self.row_count()),
            false => (&self.right, self.right.count),
        };
        let first = if is_row { self.rows.start } else { 0 };
        let (numbers, tails) = match is_row {
            true => (arrays.row_numbers, arrays.row_tails),
            false => (arrays.column_numbers, if self.same { arrays.column_tails } else { 0 }),
        };
        let is_moved = self.metric == Metric::Euclidean;
        NearestPreparing {
            values: side.address() + Side::bytes(first, self.dimensions, side.wide),
            centre: if is_moved { arrays.centre } else { 0 },
            greatest: arrays.greatest,
            order,
            numbers,
            tails,
            tally: arrays.tally,
            count,
            padded: padded(count),
            dimensions: self.dimensions,
            steps: self.steps(),
            blocked: self.shape.blocked.into(),
            metric: self.metric as u32,
            wide: side.wide.into(),
            reserved: 0,
        }
    }

    /// Launches all kernels.
    ///
    /// # Safety
    ///
    /// The arrays lie in memory of this stage, where those that begin with zeros and those that are copied
    /// are so.
    unsafe fn launch(&self, arrays: &Arrays, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        let mut launch = Launcher { stage, multiprocessors: self.multiprocessors };
        let columns = self.right.count;
        // SAFETY: the kernels take what they are given here, whose addresses are those of arrays with room
        // for rows, columns and units of the search, and of the sides, which the work holds.
        unsafe {
            if self.metric == Metric::Euclidean {
                self.measure(arrays, &mut launch)?;
            }
            let shuffle =
                NearestShuffle { order: arrays.order, count: columns, stride: stride(columns) };
            launch.threads("nearest_shuffle", columns.into(), shuffle)?;
            let lanes = |count: u32| 8 * u64::from(padded(count));
            let prepared = self.preparing(arrays, false, arrays.order);
            launch.threads("nearest_prepare", lanes(columns), prepared)?;
            if !self.same {
                let prepared = self.preparing(arrays, true, 0);
                launch.threads("nearest_prepare", lanes(self.row_count()), prepared)?;
            }
            launch.tiles(self, 0, self.pass(arrays, 0))?;
            let mut work = self.pass(arrays, 1);
            launch.warps("nearest_thresholds", work.row_padded, work)?;
            if self.same {
                work = self.sort(arrays, work, &mut launch)?;
                let prepared = self.preparing(arrays, false, work.row_order);
                launch.threads("nearest_prepare", lanes(columns), prepared)?;
            }
            launch.tiles(self, 1, work)?;
            self.choose(work, &mut launch)
        }
    }

    /// Finds the greatest norm of both sides.
    ///
    /// # Safety
    ///
    /// As of [`Self::launch`].
    unsafe fn measure(
        &self,
        arrays: &Arrays,
        launch: &mut Launcher<'_, '_>,
    ) -> Result<(), DeviceError> {
        let sides = [(true, !self.same), (false, true)];
        for (is_row, _) in sides.into_iter().filter(|(_, measured)| *measured) {
            let NearestPreparing { values, centre, count, padded, wide, .. } =
                self.preparing(arrays, is_row, 0);
            let preparing = Preparing {
                values,
                present: 0,
                centre,
                greatest: arrays.greatest,
                limit: f64::INFINITY,
                numbers: 0,
                tails: 0,
                bounds: 0,
                stage_sure: 0,
                bound: 0.0,
                rounding: 0.0,
                count,
                padded,
                dimensions: self.dimensions,
                steps: self.steps(),
                blocked: 0,
                metric: self.metric as u32,
                wide,
                stage_columns: self.shape.stage_columns,
                nan_misses: 0,
                reserved: 0,
            };
            let kernel = launch.stage.kernel(&VECTORS, "vectors_measure")?;
            let grid = launch.grid(8 * u64::from(padded), 256);
            // SAFETY: the kernel takes a `Preparing`, and reads the numbers and the centre.
            unsafe { launch.stage.launch(kernel, grid, preparing)? };
        }
        Ok(())
    }

    /// Sorts rows by rising threshold; the search in that order.
    ///
    /// # Safety
    ///
    /// As of [`Self::launch`].
    unsafe fn sort(
        &self,
        arrays: &Arrays,
        work: NearestWork,
        launch: &mut Launcher<'_, '_>,
    ) -> Result<NearestWork, DeviceError> {
        let NearestWork { bins, bin_next, sorted_order, sorted_thresholds, .. } = arrays.work;
        let sum = NearestSum { counts: bins, starts: 0, next: bin_next, count: BINS + 1 };
        // SAFETY: as the caller promises.
        unsafe {
            launch.threads("nearest_bins", work.row_count.into(), work)?;
            launch.block("nearest_sum", sum)?;
            launch.threads("nearest_sort", work.row_padded.into(), work)?;
        }
        Ok(NearestWork {
            row_order: sorted_order,
            column_order: sorted_order,
            thresholds: sorted_thresholds,
            ..work
        })
    }

    /// Chooses the neighbours among the pairs that are listed.
    ///
    /// # Safety
    ///
    /// As of [`Self::launch`].
    unsafe fn choose(
        &self,
        work: NearestWork,
        launch: &mut Launcher<'_, '_>,
    ) -> Result<(), DeviceError> {
        let NearestWork { counts, starts, next, row_count, .. } = work;
        let sum = NearestSum { counts, starts, next, count: row_count.into() };
        // SAFETY: as the caller promises.
        unsafe {
            launch.threads("nearest_count", self.list_room, work)?;
            launch.block("nearest_sum", sum)?;
            launch.threads("nearest_fill", self.list_room, work)?;
            launch.warps("nearest_choose", row_count, work)
        }
    }
}

/// Launches the kernels of a search.
struct Launcher<'a, 'b> {
    stage: &'a mut Stage<'b>,
    multiprocessors: u32,
}

impl Launcher<'_, '_> {
    /// A grid of blocks of some threads, for so many threads at most.
    fn grid(&self, wanted: u64, threads: u32) -> Grid {
        let most = u64::from(16 * self.multiprocessors);
        let blocks = wanted.div_ceil(threads.into()).clamp(1, most) as u32;
        Grid { blocks, threads, shared_words: 0 }
    }

    fn kernel(&self, name: &'static str) -> Result<Kernel, DeviceError> {
        self.stage.kernel(&NEAREST, name)
    }

    /// # Safety
    ///
    /// As of [`Stage::launch`], here and below.
    unsafe fn threads<A: Copy>(
        &mut self,
        name: &'static str,
        wanted: u64,
        argument: A,
    ) -> Result<(), DeviceError> {
        let grid = self.grid(wanted, 256);
        // SAFETY: as the caller promises.
        unsafe { self.stage.launch(self.kernel(name)?, grid, argument) }
    }

    unsafe fn warps<A: Copy>(
        &mut self,
        name: &'static str,
        warps: u32,
        argument: A,
    ) -> Result<(), DeviceError> {
        let grid = self.grid(32 * u64::from(warps), 128);
        // SAFETY: as the caller promises.
        unsafe { self.stage.launch(self.kernel(name)?, grid, argument) }
    }

    unsafe fn block<A: Copy>(
        &mut self,
        name: &'static str,
        argument: A,
    ) -> Result<(), DeviceError> {
        let grid = Grid { blocks: 1, threads: 1024, shared_words: 0 };
        // SAFETY: as the caller promises.
        unsafe { self.stage.launch(self.kernel(name)?, grid, argument) }
    }

    unsafe fn tiles(
        &mut self,
        search: &Search,
        pass: usize,
        work: NearestWork,
    ) -> Result<(), DeviceError> {
        let VectorShape { threads, blocks, shared_words, .. } = search.shape;
        let names = TILES.get(search.steps() as usize - 1).unwrap_or(&SHARED_TILES);
        let blocks = (blocks * self.multiprocessors).min(work.tiles.unit_count).max(1);
        let grid = Grid { blocks, threads, shared_words };
        // SAFETY: as the caller promises.
        unsafe { self.stage.launch(self.kernel(names[pass])?, grid, work) }
    }
}

/// The neighbours that a search has found, by row.
#[derive(Debug, Default)]
pub(super) struct Found {
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
pub(super) struct NearestTask {
    pub search: Search,
    pub reservation: MemoryReservation,
    pub sender: Sender<(Result<Found, DeviceError>, MemoryReservation)>,
    found: Found,
    /// The address of the arrays.
    start: u64,
    arrays: Option<Arrays>,
}

impl NearestTask {
    pub(super) fn new(
        search: Search,
        reservation: MemoryReservation,
        sender: Sender<(Result<Found, DeviceError>, MemoryReservation)>,
    ) -> Self {
        Self { search, reservation, sender, found: Found::default(), start: 0, arrays: None }
    }
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
        let Self { search, reservation, found, start, arrays, .. } = self;
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
        found.starts = fetch(results, work.found_starts - *start, rows)?;
        found.counts = fetch(results, work.found_counts - *start, rows)?;
        found.columns = fetch(results, work.found_columns - *start, count)?;
        found.values = fetch(results, work.found_values - *start, count)?;
        Ok(())
    }

    fn answer(self: Box<Self>, usage: Result<Usage, DeviceError>) {
        let Self { search, reservation, sender, found, .. } = *self;
        // First, so that the receiver can use the memory.
        drop(search);
        let found = usage.map(|usage| Found { nanos: usage.times.kernel_nanos, ..found });
        // Nobody waits any more where the join has ended.
        let _ = sender.send((found, reservation));
    }
}

/// Has a device do a search, and waits for it.
pub(super) fn search(
    device: &Device,
    search: Search,
    reservation: MemoryReservation,
) -> Result<(Found, MemoryReservation), DeviceError> {
    let (sender, receiver) = std::sync::mpsc::channel();
    device.submit(Box::new(NearestTask::new(search, reservation, sender)));
    let unanswered = |_| DeviceError::Internal("a search has no answer".to_string());
    let (found, reservation) = receiver.recv().map_err(unanswered)?;
    Ok((found?, reservation))
}
