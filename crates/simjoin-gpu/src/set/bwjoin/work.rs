//! Rows to be looked up in a part of the index, as work for a device.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::Match;
use crate::memory::Reservation;
use crate::offload::{Arena, DeviceJob, JobCounters, JobResults, OnDevice, Outcome};
use crate::runtime::{DeviceError, Stage};
use crate::set::bwjoin::abi::{CANDIDATE_BYTES, IndexTally, IndexWork, RowState};
use crate::set::bwjoin::index::DeviceIndex;
use crate::set::bwjoin::lookup::{CandidateLookup, Launcher};
use crate::set::bwjoin::plan::LookupPlan;
use crate::set::offload::TravellingSets;

/// The settings that the jobs of a join share.
#[derive(Debug, Clone)]
pub(super) struct JobSettings {
    pub lookup: Arc<dyn CandidateLookup>,
    /// Candidates of a work at most.
    pub capacity: u32,
    /// Postings after which no further row of a work is taken up, and after which a row is left.
    pub budget: u64,
    pub row_budget: u64,
    /// Matches are counted, not given.
    pub counts: bool,
    /// A match needs its exact overlap.
    pub exact: bool,
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

    /// The bytes of a work that grow with its capacity.
    pub(super) fn buffer_bytes(&self) -> u64 {
        u64::from(self.capacity) * CANDIDATE_BYTES + self.most_matches() * size_of::<Match>() as u64
    }
}

/// The rows of a work.
#[derive(Debug, Clone)]
pub(super) enum WorkRows {
    /// Rows that are to be begun.
    All(Range<u32>),
    /// Rows that a work has left.
    Left(Arc<Vec<RowState>>),
}

impl WorkRows {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(rows) => rows.len(),
            Self::Left(states) => states.len(),
        }
    }

    /// The rows in chunks of `most` at most.
    pub(super) fn chunks(&self, most: usize) -> Vec<Self> {
        let most = most.max(1);
        match self {
            Self::All(Range { start, end }) => (*start..*end)
                .step_by(most)
                .map(|first| {
                    Self::All(first..end.min(&first.saturating_add(most as u32)).to_owned())
                })
                .collect(),
            Self::Left(states) => {
                states.chunks(most).map(|states| Self::Left(Arc::new(states.to_vec()))).collect()
            }
        }
    }
}

/// Rows to be looked up on a device.
#[derive(Debug, Clone)]
pub(super) struct IndexJob {
    pub settings: JobSettings,
    pub plan: Arc<LookupPlan>,
    /// The number of the part, and its columns.
    pub part: usize,
    pub columns: Range<u32>,
    pub rows: WorkRows,
    /// The rows; `None`: they are build sets.
    pub probe: Option<TravellingSets>,
    /// The memory of rows that are left, on their way and waiting.
    pub _memory: Arc<Reservation>,
}

impl IndexJob {
    /// The rows that may have matches in the work.
    fn span(&self) -> &Range<u32> {
        match &self.rows {
            WorkRows::All(rows) => rows,
            WorkRows::Left(_) => &self.plan.rows,
        }
    }

    /// The cells of its rows and columns.
    fn cells(&self) -> u64 {
        match self.settings.lookup.has_cells() {
            true => self.rows.len() as u64 * self.columns.len() as u64,
            false => 0,
        }
    }

    /// The candidates that were written, as `candidate_count` in `kernels/index_rows.cuh`.
    fn candidates(&self, tally: &IndexTally) -> u64 {
        let capacity = u64::from(self.settings.capacity);
        match tally.hits <= capacity {
            true => tally.hits,
            false => capacity.saturating_sub(tally.gap),
        }
    }
}

impl DeviceJob for IndexJob {
    type Resident = Arc<DeviceIndex>;
    type Tally = IndexTally;
    type Arguments = IndexWork;
    type Left = Vec<RowState>;
    const ARRAYS: &'static str = "the buffers for candidates";

    fn is_at(&self, resident: &Arc<DeviceIndex>, stage: &Stage<'_>) -> bool {
        resident.is_at(stage)
    }

    fn declare<'a>(
        &'a self,
        device: &OnDevice<Arc<DeviceIndex>>,
        arena: &mut Arena<'a>,
    ) -> IndexWork {
        let Self { settings, plan, part, columns, rows, probe, .. } = self;
        let index = &device.resident;
        let (build, build_rows) = (index.sets.sets(), index.sets.rows());
        let travelling = probe.as_ref().map(|probe| probe.declare(arena));
        let (row_sets, probe_rows) = travelling.unwrap_or((build, build_rows));
        let [classes, sizes] = index.classes();
        let (offsets, postings) = index.part(*part);
        IndexWork {
            rows: row_sets,
            columns: build,
            classes,
            sizes,
            offsets,
            postings,
            runs: arena.copied(&plan.runs),
            table: arena.copied(&plan.table),
            states: if let WorkRows::Left(states) = rows { arena.copied(states) } else { 0 },
            candidates: arena.room_of(settings.capacity.into(), CANDIDATE_BYTES),
            redo: arena.room::<RowState>(rows.len() as u64),
            cells: arena.zeroed::<u32>(self.cells()),
            matches: arena.room::<Match>(settings.most_matches()),
            seen: match settings.first_only {
                true => arena.zeroed::<u32>(self.span().len() as u64),
                false => 0,
            },
            probe_rows,
            build_rows,
            tally: arena.start(),
            // Cells are counted before room is looked for.
            budget: if settings.lookup.has_cells() { u64::MAX } else { settings.budget },
            row_budget: settings.row_budget,
            first_row: self.span().start,
            row_count: rows.len() as u32,
            first_probe: plan.first_probe,
            run_count: plan.runs.len() as u32,
            part_first: columns.start,
            part_end: columns.end,
            capacity: settings.capacity,
            same: settings.same.into(),
            exact: settings.exact.into(),
            reserved: 0,
        }
    }

    fn launch(
        &self,
        device: &OnDevice<Arc<DeviceIndex>>,
        work: &IndexWork,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError> {
        let JobSettings { lookup, counts, .. } = &self.settings;
        // SAFETY: the addresses are those of memory of this stage and of the index, which the work
        // holds; runs, table and states are the plan's, which names no row or column beyond the sets.
        // There is room for the matches of all candidates.
        let mut launcher = unsafe { Launcher::new(stage, device.multiprocessors, *work) };
        lookup.filter(&mut launcher)?;
        launcher.decide(lookup.deciding(), *counts)
    }

    fn outcome(
        &self,
        work: &IndexWork,
        tally: IndexTally,
        results: &mut JobResults<'_, '_>,
    ) -> Result<Outcome<Vec<RowState>>, DeviceError> {
        let Self { settings, plan, rows, .. } = self;
        let (redone, matches) = (tally.redone as usize, tally.found.matches);
        if redone > rows.len() || !settings.counts && matches > settings.most_matches() {
            return Err(DeviceError::Internal(format!(
                "a kernel left {redone} of {} rows and gave {matches} matches",
                rows.len()
            )));
        }
        let left: Vec<RowState> = results.fetch(work.redo, redone)?;
        if left.iter().any(|state| !plan.rows.contains(&state.row)) {
            return Err(DeviceError::Internal("a kernel left rows of another plan".to_string()));
        }
        let given = if settings.counts { 0 } else { matches as usize };
        let candidates = self.candidates(&tally);
        let counters = JobCounters {
            kernel: settings.lookup.kernel(),
            tested: tally.postings,
            passed: candidates,
            candidates,
            compared: tally.compared,
        };
        let matches = results.fetch(work.matches, given)?;
        Ok(Outcome { counted: tally.found.into(), matches, left, counters, ..Outcome::default() })
    }
}
