//! Rows and columns whose overlaps are counted, as work for a device.

use std::ops::Range;
use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryReservation;

use crate::engine::Match;
use crate::gpu::{DeviceError, DeviceWork, Grid, Results, Stage, Usage};
use crate::offload::{ALIGNMENT, Figures, Layout, Outcome, Ticket, bytes_of, fetch};
use crate::set::device::ResidentSets;
use crate::set::device::abi::{Found, Sets};
use crate::set::large::abi::{
    CHUNK_BITS, CHUNK_BYTES, LARGE_TILE, LargeRun, LargeTally, LargeWork, PRODUCT_THREADS,
    PRODUCT_WORDS,
};
use crate::set::large::cut::TokenCut;
use crate::set::large::shape::{LARGE, LightShape};
use crate::set::offload::{TravelPlaces, TravellingSets};
use crate::set::{Bounds, Measure, SetId};

/// Threads of a block that finds starts or fills bits, and of one that decides.
const THREADS: u32 = 256;
const DECIDING_THREADS: u32 = 128;
/// Jobs for each block, so that blocks end together.
const JOBS: u64 = 8;

/// What the works of a join have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub shape: LightShape,
    pub bounds: Bounds,
    /// Rows are the measure's second argument.
    pub second: bool,
    /// Pairs of a row and a column of a work at most, unless it has one row.
    pub cells: u64,
    /// Matches that a work has room for.
    pub capacity: u32,
    /// Bytes of a work for the starts of ranges, and for bits.
    pub starts_bytes: u64,
    pub bits_bytes: u64,
    /// Matches are counted, not given.
    pub counts: bool,
    /// One match for each row will do.
    pub first_only: bool,
    /// Rows are columns of the same number, and meet those before them.
    pub same: bool,
}

impl Form {
    /// The most matches that a work gives.
    pub(super) fn most_matches(&self) -> u64 {
        if self.counts { 0 } else { self.capacity.into() }
    }
}

/// Rows to be compared with columns on a device. The number of a row is that of its set.
#[derive(Debug, Clone)]
pub(super) struct LargeJob {
    pub form: Form,
    pub cut: Arc<TokenCut>,
    pub rows: Range<SetId>,
    pub columns: Range<SetId>,
    pub runs: Arc<Vec<LargeRun>>,
    pub row_sizes: Arc<Vec<u32>>,
    /// Of all columns of the join.
    pub column_sizes: Arc<Vec<u32>>,
    /// The rows; `None`: they are build sets.
    pub probe: Option<TravellingSets>,
    /// Of runs and sizes.
    pub _memory: Arc<MemoryReservation>,
}

impl LargeJob {
    /// Pairs of a row and a column.
    pub(super) fn cells(&self) -> u64 {
        self.rows.len() as u64 * self.columns.len() as u64
    }

    /// Rows and columns are the same sets of the device.
    fn is_square(&self) -> bool {
        self.probe.is_none() && self.rows == self.columns
    }

    /// Ranges of light tokens whose starts there is room for.
    fn ranges(&self) -> u32 {
        let sets = self.rows.len() + if self.is_square() { 0 } else { self.columns.len() };
        let most = self.form.starts_bytes / (size_of::<u32>() * sets.max(1)) as u64;
        most.saturating_sub(1).clamp(1, self.cut.ranges().max(1).into()) as u32
    }

    /// Bytes of a chunk of bits of the rows, and of rows and columns.
    fn chunk_bytes(&self) -> (u64, u64) {
        let of = |sets: usize| (sets as u64).next_multiple_of(LARGE_TILE.into()) * CHUNK_BYTES;
        let (rows, columns) = (of(self.rows.len()), of(self.columns.len()));
        (rows, if self.is_square() { rows } else { rows + columns })
    }

    /// Chunks of bits that there is room for.
    fn chunks(&self) -> u32 {
        let all = u64::from(self.cut.universe - self.cut.heavy).div_ceil(CHUNK_BITS.into());
        (self.form.bits_bytes / self.chunk_bytes().1.max(1)).clamp(1, all.max(1)) as u32
    }
}

/// Where the arrays of a work lie in the memory of its stage, behind the tally.
#[derive(Debug, Clone, Copy)]
struct Places {
    probe: Option<TravelPlaces>,
    cuts: u64,
    runs: u64,
    row_sizes: u64,
    column_sizes: u64,
    overlaps: u64,
    row_starts: u64,
    column_starts: u64,
    row_bits: u64,
    column_bits: u64,
    seen: u64,
    matches: u64,
    end: u64,
}

impl Places {
    fn of(job: &LargeJob) -> Self {
        let LargeJob { form, cut, rows, columns, .. } = job;
        let mut layout = Layout::default();
        layout.add(1, ALIGNMENT);
        let probe = job.probe.as_ref().map(|probe| probe.places(&mut layout));
        let (rows, columns) = (rows.len() as u64, columns.len() as u64);
        let (starts, chunks) = (u64::from(job.ranges()) + 1, u64::from(job.chunks()));
        let mut add = |count: u64, bytes: u64| layout.add(count, bytes);
        let cuts = add(cut.cuts.len() as u64, 4);
        let runs = add(job.runs.len() as u64, size_of::<LargeRun>() as u64);
        let row_sizes = add(rows, 4);
        let column_sizes = add(columns, 4);
        let overlaps = add(job.cells(), 4);
        let row_starts = add(rows * starts, 4);
        let (of_rows, of_all) = job.chunk_bytes();
        let row_bits = add(chunks, of_rows);
        let (column_starts, column_bits) = match job.is_square() {
            true => (row_starts, row_bits),
            false => (add(columns * starts, 4), add(chunks, of_all - of_rows)),
        };
        let seen = add(if form.first_only { rows } else { 0 }, 4);
        let matches = add(form.most_matches(), size_of::<Match>() as u64);
        Self {
            probe,
            cuts,
            runs,
            row_sizes,
            column_sizes,
            overlaps,
            row_starts,
            column_starts,
            row_bits,
            column_bits,
            seen,
            matches,
            end: layout.end(),
        }
    }
}

/// The build sets on a device, and its multiprocessors.
#[derive(Debug, Clone)]
pub(super) struct LargeDevice {
    pub sets: ResidentSets,
    pub multiprocessors: u32,
}

/// A [`LargeJob`] on its way through a device.
#[derive(Debug)]
pub(super) struct LargeTask {
    job: LargeJob,
    /// `None` where it has failed before.
    device: Option<LargeDevice>,
    places: Option<Places>,
    tally: LargeTally,
    matches: Vec<Match>,
    /// The rows that found no room for their matches.
    left: Range<SetId>,
    ticket: Ticket<LargeJob, Range<SetId>>,
}

impl LargeTask {
    pub(super) fn new(
        job: LargeJob,
        device: Option<LargeDevice>,
        ticket: Ticket<LargeJob, Range<SetId>>,
    ) -> Self {
        let tally = LargeTally::default();
        Self { job, device, places: None, tally, matches: vec![], left: 0..0, ticket }
    }

    /// Copies what the kernels read.
    fn copy(&self, stage: &mut Stage<'_>, places: &Places) -> Result<(), DeviceError> {
        let LargeJob { form, cut, columns, runs, row_sizes, column_sizes, probe, .. } = &self.job;
        let of_columns = &column_sizes[columns.start as usize..columns.end as usize];
        // SAFETY: the job keeps all of them as they are until it is answered.
        unsafe {
            if let (Some(probe), Some(places)) = (probe, &places.probe) {
                probe.copy(stage, places)?;
            }
            stage.copy(places.cuts, bytes_of(&cut.cuts))?;
            stage.copy(places.runs, bytes_of(runs.as_slice()))?;
            stage.copy(places.row_sizes, bytes_of(row_sizes.as_slice()))?;
            stage.copy(places.column_sizes, bytes_of(of_columns))?;
        }
        stage.clear(0, size_of::<LargeTally>())?;
        stage.clear(places.overlaps, self.job.cells() as usize * size_of::<u32>())?;
        if form.first_only {
            stage.clear(places.seen, row_sizes.len() * size_of::<u32>())?;
        }
        Ok(())
    }

    fn argument(&self, device: &LargeDevice, start: u64, places: &Places) -> LargeWork {
        let LargeJob { form, cut, rows, columns, runs, probe, .. } = &self.job;
        let at = |place: u64| start + place;
        let build = device.sets.sets();
        let from = |first: SetId| Sets { offsets: build.offsets + 8 * u64::from(first), ..build };
        let (row_sets, probe_rows) = match probe.as_ref().zip(places.probe.as_ref()) {
            None => (from(rows.start), device.sets.rows()),
            Some((probe, places)) => match probe.at(start, places) {
                (sets, 0) => (sets, 0),
                (sets, counts) => (sets, counts.wrapping_sub(4 * u64::from(rows.start))),
            },
        };
        LargeWork {
            rows: row_sets,
            columns: from(columns.start),
            overlaps: at(places.overlaps),
            cuts: at(places.cuts),
            row_starts: at(places.row_starts),
            column_starts: at(places.column_starts),
            row_bits: at(places.row_bits),
            column_bits: at(places.column_bits),
            runs: at(places.runs),
            row_sizes: at(places.row_sizes),
            column_sizes: at(places.column_sizes),
            matches: at(places.matches),
            seen: if form.first_only { at(places.seen) } else { 0 },
            probe_rows,
            build_rows: device.sets.rows(),
            tally: start,
            threshold: form.bounds.threshold,
            row_count: rows.len() as u32,
            column_count: columns.len() as u32,
            first_row: rows.start,
            first_column: columns.start,
            same: form.same.into(),
            run_count: runs.len() as u32,
            range_count: 0,
            job_ranges: 1,
            slice_first: 0,
            slice_end: cut.universe,
            chunk_count: 0,
            job_chunks: 1,
            postings: form.shape.postings,
            lists: form.shape.lists,
            measure: measure_number(form.bounds.measure),
            second: form.second.into(),
            decided_first: 0,
            decided_count: rows.len() as u32,
            capacity: form.capacity,
            reserved: 0,
        }
    }

    /// Decides all rows, or, where matches are given, as many at a time as there is half the room for.
    fn decide(
        &self,
        launcher: &mut Launcher<'_, '_>,
        mut work: LargeWork,
    ) -> Result<(), DeviceError> {
        let columns = u64::from(work.column_count.max(1));
        let grid = |rows: u32| {
            let blocks = (u64::from(rows) * columns).div_ceil(DECIDING_THREADS.into());
            let most = u64::from(16 * launcher.multiprocessors);
            (blocks.clamp(1, most) as u32, DECIDING_THREADS, 0)
        };
        if self.job.form.counts {
            return launcher.launch("large_decide_count", grid(work.row_count), work);
        }
        let each = (u64::from(work.capacity) / 2 / columns).clamp(1, work.row_count.into()) as u32;
        let grid = grid(each);
        for first in (0..work.row_count).step_by(each as usize) {
            work.decided_first = first;
            work.decided_count = each.min(work.row_count - first);
            launcher.launch("large_admit", (1, 1, 0), work)?;
            // There is room for the matches of all pairs.
            launcher.launch("large_decide_pairs", grid, work)?;
        }
        Ok(())
    }

    /// Tiles of rows and columns of `side` sets each.
    fn tiles(&self, side: u32) -> u64 {
        let of = |sets: &Range<SetId>| (sets.len() as u64).div_ceil(side.into());
        of(&self.job.rows) * of(&self.job.columns)
    }

    /// Counts light tokens, as many ranges at a time as there is room for.
    fn count_light(
        &self,
        launcher: &mut Launcher<'_, '_>,
        mut work: LargeWork,
    ) -> Result<(), DeviceError> {
        let LargeJob { form, cut, .. } = &self.job;
        let LightShape { name, tile, threads, blocks, .. } = form.shape;
        let (each, cuts) = (self.job.ranges(), work.cuts);
        let most = blocks * launcher.multiprocessors;
        for first in (0..cut.ranges()).step_by(each as usize) {
            work.cuts = cuts + 4 * u64::from(first);
            work.range_count = each.min(cut.ranges() - first);
            let all = u64::from(work.range_count) * self.tiles(tile);
            work.job_ranges = (all / (JOBS * u64::from(most))).max(1) as u32;
            launcher.stage.clear(NEXT.0, NEXT.1)?;
            launcher.launch("large_starts", (8 * launcher.multiprocessors, THREADS, 0), work)?;
            let blocks = all.clamp(1, most.into()) as u32;
            launcher.launch(name, (blocks, threads, form.shape.shared_words()), work)?;
        }
        Ok(())
    }

    /// Counts heavy tokens, as many chunks at a time as there is room for.
    fn count_heavy(
        &self,
        launcher: &mut Launcher<'_, '_>,
        mut work: LargeWork,
    ) -> Result<(), DeviceError> {
        let TokenCut { heavy, universe, .. } = *self.job.cut;
        let each = self.job.chunks();
        let most = 2 * launcher.multiprocessors;
        let mut first = heavy;
        while first < universe {
            let chunks = (universe - first).div_ceil(CHUNK_BITS).min(each);
            work.slice_first = first;
            work.chunk_count = chunks;
            let all = u64::from(chunks) * self.tiles(LARGE_TILE);
            // Sums of a job have 31 bits.
            work.job_chunks = (all / (JOBS * u64::from(most))).clamp(1, 1 << 16) as u32;
            launcher.stage.clear(NEXT.0, NEXT.1)?;
            launcher.launch("large_bits", (8 * launcher.multiprocessors, THREADS, 0), work)?;
            let blocks = all.clamp(1, most.into()) as u32;
            launcher.launch("large_heavy", (blocks, PRODUCT_THREADS, PRODUCT_WORDS), work)?;
            first = first.saturating_add(chunks.saturating_mul(CHUNK_BITS));
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        let matches = self.tally.found.matches;
        Figures {
            kernel: self.job.form.shape.name,
            tested: self.job.cells(),
            passed: matches,
            candidates: matches,
            compared: 0,
        }
    }
}

/// The numbers of the next jobs, in the tally: place and bytes.
const NEXT: (u64, usize) = (size_of::<Found>() as u64, 8);

/// A measure as kernels know it.
fn measure_number(measure: Measure) -> u32 {
    Measure::ALL.into_iter().position(|one| one == measure).unwrap_or(Measure::ALL.len()) as u32
}

/// Launches the kernels of one work.
struct Launcher<'a, 'b> {
    stage: &'a mut Stage<'b>,
    multiprocessors: u32,
}

impl Launcher<'_, '_> {
    /// A kernel with a number of blocks, threads and words of shared memory.
    fn launch(
        &mut self,
        name: &'static str,
        (blocks, threads, shared_words): (u32, u32, u32),
        work: LargeWork,
    ) -> Result<(), DeviceError> {
        let kernel = self.stage.kernel(&LARGE, name)?;
        // SAFETY: the kernels take a `LargeWork`. Its addresses are those of memory of this stage and
        // of the build sets, which the work holds; runs and ranges name no set or token beyond them.
        unsafe { self.stage.launch(kernel, Grid { blocks, threads, shared_words }, work) }
    }
}

impl DeviceWork for LargeTask {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        if !self.ticket.is_wanted() {
            return Ok(());
        }
        let Some(device) = self.device.as_ref().filter(|device| device.sets.is_at(stage)) else {
            return Err(DeviceError::Internal("sets of another device".to_string()));
        };
        let places = Places::of(&self.job);
        let start = stage.reserve("the overlaps of large sets", places.end)?;
        self.copy(stage, &places)?;
        let work = self.argument(device, start, &places);
        let mut launcher = Launcher { stage, multiprocessors: device.multiprocessors };
        self.count_light(&mut launcher, work)?;
        self.count_heavy(&mut launcher, work)?;
        self.decide(&mut launcher, work)?;
        stage.note(0, size_of::<LargeTally>())?;
        self.places = Some(places);
        Ok(())
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        let Some(places) = &self.places else { return Ok(()) };
        let tally: LargeTally = results.note()?;
        let LargeJob { form, rows, .. } = &self.job;
        let (matches, stopped) = (tally.found.matches, tally.stopped);
        let too_many = !form.counts && matches > form.most_matches();
        // Some row is decided by every work.
        if too_many || stopped == 1 || stopped as usize > rows.len() {
            return Err(DeviceError::Internal(format!(
                "a kernel gave {matches} matches and stopped at {stopped} of {} rows",
                rows.len()
            )));
        }
        if stopped > 0 {
            self.left = rows.start + stopped - 1..rows.end;
        }
        if !form.counts {
            self.matches = fetch(results, places.matches, matches as usize)?;
        }
        self.tally = tally;
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        let figures = self.figures();
        let Self { job, device, tally, matches, left, ticket, .. } = *self;
        // Dropped first, so that the receiver of the answer can use their memory.
        drop(device);
        let (counted, undecided) = (tally.found.into(), vec![]);
        ticket.done(
            job,
            outcome.map(|usage| Outcome { counted, matches, undecided, left, figures, usage }),
        );
    }
}
