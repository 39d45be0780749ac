//! Rows and columns whose overlaps are counted, as work for a device.

use std::ops::Range;
use std::sync::Arc;

use simjoin_core::set::measure::{Bounds, Measure};
use simjoin_core::set::runs::SetId;

use crate::engine::Match;
use crate::memory::Reservation;
use crate::offload::{Arena, DeviceJob, JobCounters, JobResults, OnDevice, Outcome};
use crate::runtime::{DeviceError, LaunchGrid, Stage};
use crate::set::device::ResidentSets;
use crate::set::device::abi::{Found, Sets};
use crate::set::offload::TravellingSets;
use crate::set::scancount::abi::{
    CHUNK_BITS, CHUNK_BYTES, LARGE_TILE, LargeRun, LargeTally, LargeWork, PRODUCT_THREADS,
    PRODUCT_WORDS,
};
use crate::set::scancount::cut::TokenCut;
use crate::set::scancount::shape::{LARGE, LightShape};

/// Threads of a block that finds starts or fills bits, and of one that decides.
const THREADS: u32 = 256;
const DECIDING_THREADS: u32 = 128;
/// Jobs for each block, so that blocks end together.
const JOBS: u64 = 8;

/// The settings that the jobs of a join share.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobSettings {
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

impl JobSettings {
    /// The most matches that a work gives.
    pub(super) fn most_matches(&self) -> u64 {
        if self.counts { 0 } else { self.capacity.into() }
    }
}

/// Rows to be compared with columns on a device. The number of a row is that of its set.
#[derive(Debug, Clone)]
pub(super) struct LargeJob {
    pub settings: JobSettings,
    pub cut: Arc<TokenCut>,
    pub rows: Range<SetId>,
    pub columns: Range<SetId>,
    pub runs: Arc<Vec<LargeRun>>,
    pub row_sizes: Arc<Vec<u32>>,
    /// The sizes of all columns of the join.
    pub column_sizes: Arc<Vec<u32>>,
    /// The rows; `None`: they are build sets.
    pub probe: Option<TravellingSets>,
    /// The memory of runs and sizes.
    pub _memory: Arc<Reservation>,
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
        let most = self.settings.starts_bytes / (size_of::<u32>() * sets.max(1)) as u64;
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
        (self.settings.bits_bytes / self.chunk_bytes().1.max(1)).clamp(1, all.max(1)) as u32
    }
}

/// The build sets on a device.
pub(super) type LargeDevice = OnDevice<ResidentSets>;

impl LargeJob {
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
        if self.settings.counts {
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
        of(&self.rows) * of(&self.columns)
    }

    /// Counts light tokens, as many ranges at a time as there is room for.
    fn count_light(
        &self,
        launcher: &mut Launcher<'_, '_>,
        mut work: LargeWork,
    ) -> Result<(), DeviceError> {
        let Self { settings, cut, .. } = self;
        let LightShape { name, tile, threads, blocks, .. } = settings.shape;
        let (each, cuts) = (self.ranges(), work.cuts);
        let most = blocks * launcher.multiprocessors;
        for first in (0..cut.ranges()).step_by(each as usize) {
            work.cuts = cuts + 4 * u64::from(first);
            work.range_count = each.min(cut.ranges() - first);
            let all = u64::from(work.range_count) * self.tiles(tile);
            work.job_ranges = (all / (JOBS * u64::from(most))).max(1) as u32;
            launcher.stage.clear(NEXT.0, NEXT.1)?;
            launcher.launch("large_starts", (8 * launcher.multiprocessors, THREADS, 0), work)?;
            let blocks = all.clamp(1, most.into()) as u32;
            launcher.launch(name, (blocks, threads, settings.shape.shared_words()), work)?;
        }
        Ok(())
    }

    /// Counts heavy tokens, as many chunks at a time as there is room for.
    fn count_heavy(
        &self,
        launcher: &mut Launcher<'_, '_>,
        mut work: LargeWork,
    ) -> Result<(), DeviceError> {
        let TokenCut { heavy, universe, .. } = *self.cut;
        let each = self.chunks();
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
}

/// The numbers of the next jobs, in the tally: place and bytes.
const NEXT: (u64, usize) = (size_of::<Found>() as u64, 8);

/// A measure as kernels know it.
fn measure_number(measure: Measure) -> u32 {
    Measure::ALL.into_iter().position(|one| one == measure).unwrap_or(Measure::ALL.len()) as u32
}

/// Launches the kernels of one work.
pub(super) struct Launcher<'a, 'b> {
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
        unsafe { self.stage.launch(kernel, LaunchGrid { blocks, threads, shared_words }, work) }
    }
}

impl DeviceJob for LargeJob {
    type Resident = ResidentSets;
    type Tally = LargeTally;
    type Arguments = LargeWork;
    /// The rows that found no room for their matches.
    type Left = Range<SetId>;
    const ARRAYS: &'static str = "the overlaps of large sets";

    fn is_at(&self, resident: &ResidentSets, stage: &Stage<'_>) -> bool {
        resident.is_at(stage)
    }

    fn declare<'a>(&'a self, device: &LargeDevice, arena: &mut Arena<'a>) -> LargeWork {
        let Self { settings, cut, rows, columns, runs, column_sizes, .. } = self;
        let (build, build_rows) = (device.resident.sets(), device.resident.rows());
        let from = |first: SetId| Sets { offsets: build.offsets + 8 * u64::from(first), ..build };
        let (row_sets, probe_rows) = match self.probe.as_ref().map(|probe| probe.declare(arena)) {
            None => (from(rows.start), build_rows),
            Some((sets, 0)) => (sets, 0),
            Some((sets, counts)) => (sets, counts.wrapping_sub(4 * u64::from(rows.start))),
        };
        let (row_count, column_count) = (rows.len() as u64, columns.len() as u64);
        let (starts, chunks) = (u64::from(self.ranges()) + 1, u64::from(self.chunks()));
        let (of_rows, of_all) = self.chunk_bytes();
        let row_starts = arena.room::<u32>(row_count * starts);
        let row_bits = arena.room_of(chunks, of_rows);
        let (column_starts, column_bits) = match self.is_square() {
            true => (row_starts, row_bits),
            false => {
                (arena.room::<u32>(column_count * starts), arena.room_of(chunks, of_all - of_rows))
            }
        };
        LargeWork {
            rows: row_sets,
            columns: from(columns.start),
            overlaps: arena.zeroed::<u32>(self.cells()),
            cuts: arena.copied(&cut.cuts),
            row_starts,
            column_starts,
            row_bits,
            column_bits,
            runs: arena.copied(runs),
            row_sizes: arena.copied(&self.row_sizes),
            column_sizes: arena.copied(&column_sizes[columns.start as usize..columns.end as usize]),
            matches: arena.room::<Match>(settings.most_matches()),
            seen: if settings.first_only { arena.zeroed::<u32>(row_count) } else { 0 },
            probe_rows,
            build_rows,
            tally: arena.start(),
            threshold: settings.bounds.threshold,
            row_count: row_count as u32,
            column_count: column_count as u32,
            first_row: rows.start,
            first_column: columns.start,
            same: settings.same.into(),
            run_count: runs.len() as u32,
            range_count: 0,
            job_ranges: 1,
            slice_first: 0,
            slice_end: cut.universe,
            chunk_count: 0,
            job_chunks: 1,
            postings: settings.shape.postings,
            lists: settings.shape.lists,
            measure: measure_number(settings.bounds.measure),
            second: settings.second.into(),
            decided_first: 0,
            decided_count: row_count as u32,
            capacity: settings.capacity,
            reserved: 0,
        }
    }

    fn launch(
        &self,
        device: &LargeDevice,
        work: &LargeWork,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError> {
        let mut launcher = Launcher { stage, multiprocessors: device.multiprocessors };
        self.count_light(&mut launcher, *work)?;
        self.count_heavy(&mut launcher, *work)?;
        self.decide(&mut launcher, *work)
    }

    fn outcome(
        &self,
        work: &LargeWork,
        tally: LargeTally,
        results: &mut JobResults<'_, '_>,
    ) -> Result<Outcome<Range<SetId>>, DeviceError> {
        let Self { settings, rows, .. } = self;
        let (matches, stopped) = (tally.found.matches, tally.stopped);
        let too_many = !settings.counts && matches > settings.most_matches();
        // Some row is decided by every work.
        if too_many || stopped == 1 || stopped as usize > rows.len() {
            return Err(DeviceError::Internal(format!(
                "a kernel gave {matches} matches and stopped at {stopped} of {} rows",
                rows.len()
            )));
        }
        let left = if stopped > 0 { rows.start + stopped - 1..rows.end } else { 0..0 };
        let given = if settings.counts { 0 } else { matches as usize };
        let counters = JobCounters {
            kernel: settings.shape.name,
            tested: self.cells(),
            passed: matches,
            candidates: matches,
            compared: 0,
        };
        let matches = results.fetch(work.matches, given)?;
        Ok(Outcome { counted: tally.found.into(), matches, left, counters, ..Outcome::default() })
    }
}
