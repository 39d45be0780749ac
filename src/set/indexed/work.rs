//! Rows to be looked up in a part of the index, as work for a device.

use std::ops::Range;
use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryReservation;

use crate::engine::Match;
use crate::gpu::{DeviceError, DeviceWork, Results, Stage, Usage};
use crate::offload::{ALIGNMENT, Figures, Layout, Outcome, Ticket, bytes_of, fetch};
use crate::set::indexed::abi::{CANDIDATE_BYTES, IndexTally, IndexWork, ProbeRun, RowState};
use crate::set::indexed::index::DeviceIndex;
use crate::set::indexed::lookup::{Launcher, Lookup};
use crate::set::indexed::plan::Plan;
use crate::set::offload::{TravelPlaces, TravellingSets};

/// What the works of a join have in common.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub lookup: Arc<dyn Lookup>,
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

impl Form {
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
pub(super) enum Rows {
    /// Rows that are to be begun.
    All(Range<u32>),
    /// Rows that a work has left.
    Left(Arc<Vec<RowState>>),
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(rows) => rows.len(),
            Self::Left(states) => states.len(),
        }
    }

    /// The same rows in chunks of `most` at most.
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
    pub form: Form,
    pub plan: Arc<Plan>,
    /// The number of the part, and its columns.
    pub part: usize,
    pub columns: Range<u32>,
    pub rows: Rows,
    /// The rows; `None`: they are build sets.
    pub probe: Option<TravellingSets>,
    /// Of rows that are left, on their way and waiting.
    pub _memory: Arc<MemoryReservation>,
}

impl IndexJob {
    /// The rows that may have matches in the work.
    fn span(&self) -> &Range<u32> {
        match &self.rows {
            Rows::All(rows) => rows,
            Rows::Left(_) => &self.plan.rows,
        }
    }

    /// The cells of its rows and columns.
    fn cells(&self) -> u64 {
        match self.form.lookup.has_cells() {
            true => self.rows.len() as u64 * self.columns.len() as u64,
            false => 0,
        }
    }

    /// The bytes that the work takes on a device.
    pub(super) fn bytes(&self) -> u64 {
        Places::of(self).end
    }
}

/// Where the arrays of a work lie in the memory of its stage, behind the tally.
#[derive(Debug, Clone, Copy)]
struct Places {
    probe: Option<TravelPlaces>,
    runs: u64,
    table: u64,
    states: u64,
    candidates: u64,
    redo: u64,
    cells: u64,
    seen: u64,
    matches: u64,
    end: u64,
}

impl Places {
    fn of(job: &IndexJob) -> Self {
        let IndexJob { form, plan, rows, .. } = job;
        let mut layout = Layout::default();
        layout.add(1, ALIGNMENT);
        let probe = job.probe.as_ref().map(|probe| probe.places(&mut layout));
        let states = if let Rows::Left(states) = rows { states.len() } else { 0 };
        let seen = if form.first_only { job.span().len() } else { 0 };
        let mut add = |count: u64, bytes: usize| layout.add(count, bytes as u64);
        Self {
            probe,
            runs: add(plan.runs.len() as u64, size_of::<ProbeRun>()),
            table: add(plan.table.len() as u64, size_of::<u32>()),
            states: add(states as u64, size_of::<RowState>()),
            candidates: add(form.capacity.into(), CANDIDATE_BYTES as usize),
            redo: add(rows.len() as u64, size_of::<RowState>()),
            cells: add(job.cells(), size_of::<u32>()),
            seen: add(seen as u64, size_of::<u32>()),
            matches: add(form.most_matches(), size_of::<Match>()),
            end: layout.end(),
        }
    }
}

/// An [`IndexJob`] on its way through a device.
#[derive(Debug)]
pub(super) struct IndexedRun {
    job: IndexJob,
    /// The device's; `None` where it has failed before.
    index: Option<Arc<DeviceIndex>>,
    multiprocessors: u32,
    places: Option<Places>,
    tally: IndexTally,
    matches: Vec<Match>,
    left: Vec<RowState>,
    ticket: Ticket<IndexJob, Vec<RowState>>,
}

impl IndexedRun {
    pub(super) fn new(
        job: IndexJob,
        index: Option<Arc<DeviceIndex>>,
        multiprocessors: u32,
        ticket: Ticket<IndexJob, Vec<RowState>>,
    ) -> Self {
        Self {
            job,
            index,
            multiprocessors,
            places: None,
            tally: IndexTally::default(),
            matches: vec![],
            left: vec![],
            ticket,
        }
    }

    /// The candidates that were written, as `candidate_count` in `kernels/index_rows.cuh`.
    fn candidates(&self) -> u64 {
        let capacity = u64::from(self.job.form.capacity);
        match self.tally.hits <= capacity {
            true => self.tally.hits,
            false => capacity.saturating_sub(self.tally.gap),
        }
    }

    fn figures(&self) -> Figures {
        let candidates = self.candidates();
        Figures {
            kernel: self.job.form.lookup.kernel(),
            tested: self.tally.postings,
            passed: candidates,
            candidates,
            compared: self.tally.compared,
        }
    }

    /// Copies what the kernels read.
    fn copy(&self, stage: &mut Stage<'_>, places: &Places) -> Result<(), DeviceError> {
        let IndexJob { form, plan, rows, probe, .. } = &self.job;
        // SAFETY: the job keeps all of them as they are until it is answered.
        unsafe {
            if let (Some(probe), Some(places)) = (probe, &places.probe) {
                probe.copy(stage, places)?;
            }
            stage.copy(places.runs, bytes_of(&plan.runs))?;
            stage.copy(places.table, bytes_of(&plan.table))?;
            if let Rows::Left(states) = rows {
                stage.copy(places.states, bytes_of(states))?;
            }
        }
        stage.clear(0, size_of::<IndexTally>())?;
        let cells = self.job.cells();
        if cells > 0 {
            stage.clear(places.cells, cells as usize * size_of::<u32>())?;
        }
        if form.first_only {
            stage.clear(places.seen, self.job.span().len() * size_of::<u32>())?;
        }
        Ok(())
    }

    fn argument(&self, index: &DeviceIndex, start: u64, places: &Places) -> IndexWork {
        let IndexJob { form, plan, part, columns, rows, probe, .. } = &self.job;
        let at = |place: u64| start + place;
        let row_counts = index.sets.rows();
        let travelling = probe.as_ref().zip(places.probe.as_ref());
        let (row_sets, probe_rows) = match travelling {
            None => (index.sets.sets(), row_counts),
            Some((probe, places)) => probe.at(start, places),
        };
        let [classes, sizes] = index.classes();
        let (offsets, postings) = index.part(*part);
        // Cells are counted before room is looked for.
        let budget = if form.lookup.has_cells() { u64::MAX } else { form.budget };
        IndexWork {
            rows: row_sets,
            columns: index.sets.sets(),
            classes,
            sizes,
            offsets,
            postings,
            runs: at(places.runs),
            table: at(places.table),
            states: if let Rows::Left(_) = rows { at(places.states) } else { 0 },
            candidates: at(places.candidates),
            redo: at(places.redo),
            cells: at(places.cells),
            matches: at(places.matches),
            seen: if form.first_only { at(places.seen) } else { 0 },
            probe_rows,
            build_rows: row_counts,
            tally: start,
            budget,
            row_budget: form.row_budget,
            first_row: self.job.span().start,
            row_count: rows.len() as u32,
            first_probe: plan.first_probe,
            run_count: plan.runs.len() as u32,
            part_first: columns.start,
            part_end: columns.end,
            capacity: form.capacity,
            same: form.same.into(),
            exact: form.exact.into(),
            reserved: 0,
        }
    }
}

impl DeviceWork for IndexedRun {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        if !self.ticket.is_wanted() {
            return Ok(());
        }
        let Some(index) = self.index.as_ref().filter(|index| index.is_at(stage)) else {
            return Err(DeviceError::Internal("an index of another device".to_string()));
        };
        let places = Places::of(&self.job);
        let start = stage.reserve("the buffers for candidates", places.end)?;
        self.copy(stage, &places)?;
        let work = self.argument(index, start, &places);
        let form = &self.job.form;
        // SAFETY: the addresses are those of memory of this stage and of the index, which the work
        // holds; runs, table and states are the plan's, which names no row or column beyond the sets.
        // There is room for the matches of all candidates.
        let mut launcher = unsafe { Launcher::new(stage, self.multiprocessors, work) };
        form.lookup.filter(&mut launcher)?;
        launcher.decide(form.lookup.deciding(), form.counts)?;
        stage.note(0, size_of::<IndexTally>())?;
        self.places = Some(places);
        Ok(())
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        let Some(places) = &self.places else { return Ok(()) };
        let IndexJob { form, plan, rows, .. } = &self.job;
        let tally: IndexTally = results.note()?;
        let (redone, matches) = (tally.redone as usize, tally.found.matches);
        if redone > rows.len() || !form.counts && matches > form.most_matches() {
            return Err(DeviceError::Internal(format!(
                "a kernel left {redone} of {} rows and gave {matches} matches",
                rows.len()
            )));
        }
        self.left = fetch::<RowState>(results, places.redo, redone)?;
        if self.left.iter().any(|state| !plan.rows.contains(&state.row)) {
            return Err(DeviceError::Internal("a kernel left rows of another plan".to_string()));
        }
        if !form.counts {
            self.matches = fetch(results, places.matches, matches as usize)?;
        }
        self.tally = tally;
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        let figures = self.figures();
        let Self { job, index, tally, matches, left, ticket, .. } = *self;
        // Dropped first, so that the receiver of the answer can use their memory.
        drop(index);
        let (counted, undecided) = (tally.found.into(), vec![]);
        ticket.done(
            job,
            outcome.map(|usage| Outcome { counted, matches, undecided, left, figures, usage }),
        );
    }
}
