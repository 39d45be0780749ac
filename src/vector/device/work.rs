//! Tiles of vectors as work for a device.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Match, RowPairCounts};
use crate::gpu::{DeviceError, DeviceWork, Grid, Results, Stage, Usage};
use crate::offload::{ALIGNMENT, Counted, Figures, Layout, Left, Outcome, Ticket, bytes_of, fetch};
use crate::vector::device::abi::{
    HIT_BYTES, UNDECIDED, VectorBoxes, VectorRun, VectorSide, VectorTally, VectorUnit, VectorWork,
};
use crate::vector::device::columns::{Columns, Preparation, PreparedColumns, PreparedPlaces, Role};
use crate::vector::device::plan::Plan;
use crate::vector::device::shape::{VECTORS, VectorShape};
use crate::vector::device::travel::{TravelPlaces, TravellingVectors};

/// Threads of a block that decides.
const DECIDING_THREADS: u32 = 128;
/// The hits that a warp takes room for at once, at most.
const MOST_CHUNK: u32 = 128;

/// What the works of a join have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub preparation: Preparation,
    /// Hits of a work at most.
    pub capacity: u32,
    /// Pairs of a work that decides all of them in `f64`, about.
    pub dense_pairs: u64,
    /// Matches are counted, not given.
    pub counts: bool,
    /// One match for each row will do.
    pub first_only: bool,
    /// Rows are columns of the same number, each pair is looked at once; columns are the probe vectors.
    pub same: bool,
}

impl Form {
    pub(super) fn shape(&self) -> &VectorShape {
        &self.preparation.shape
    }

    /// The most matches that a work gives, or, where they are counted, pairs that it leaves
    /// undecided: those of all hits, or of the smallest unit whose pairs are decided one by one.
    pub(super) fn most_matches(&self) -> u64 {
        let unit = self.shape().dense().tile_pairs();
        if self.counts { unit } else { u64::from(self.capacity).max(unit) }
    }

    /// The smallest units that a work decides pair by pair.
    pub(super) fn most_dense_units(&self) -> usize {
        let pairs = if self.counts { self.dense_pairs } else { self.most_matches() };
        (pairs / self.shape().dense().tile_pairs()).clamp(1, 1 << 16) as usize
    }

    /// The units that one of a stage becomes where each pair is decided.
    pub(super) fn dense_parts(&self) -> u32 {
        self.shape().stage_columns / self.shape().dense().stage_columns
    }

    /// That of works which decide each pair.
    pub(super) fn dense(&self) -> Self {
        let shape = self.shape().dense();
        Self { preparation: Preparation { shape, ..self.preparation }, ..*self }
    }

    /// The bytes of a work that grow with its capacities.
    pub(super) fn buffer_bytes(&self) -> u64 {
        u64::from(self.capacity) * HIT_BYTES + self.most_matches() * size_of::<Match>() as u64
    }
}

/// Tiles to be tested on a device.
#[derive(Debug)]
pub(super) struct VectorJob {
    pub form: Form,
    pub plan: Arc<Plan>,
    pub units: Vec<VectorUnit>,
    /// The units have too many hits: each of their pairs is decided. They are of the form's
    /// [dense](VectorShape::dense) shape, and list no stages.
    pub dense: bool,
    /// The rows; `None`: they are on the device.
    pub probe: Option<Arc<TravellingVectors>>,
    /// The columns; `None`: they are on the device.
    pub columns: Option<TravellingColumns>,
    pub column_count: u32,
    /// The CPU does it: the vectors are not on the devices.
    pub left_to_cpu: bool,
}

impl VectorJob {
    /// The same rows with other units.
    pub(super) fn with(&self, form: Form, units: Vec<VectorUnit>, dense: bool) -> Self {
        let plan = Arc::clone(&self.plan);
        let (probe, columns) = (self.probe.clone(), self.columns.clone());
        Self { form, plan, units, dense, probe, columns, ..*self }
    }

    /// Jobs of up to `most` units each that decide each pair of some units of this one.
    pub(super) fn densely(&self, units: &[VectorUnit], most: usize) -> Vec<Self> {
        let (form, parts) = (self.form.dense(), self.form.dense_parts());
        let cut = |unit: VectorUnit| {
            let first_row = unit.first_row;
            let stages = self.stages_of(unit).flatten();
            let parts = stages.flat_map(move |stage| stage * parts..(stage + 1) * parts);
            parts.map(move |first_stage| VectorUnit { first_row, first_stage, stages: 1 })
        };
        let mut units = units.iter().copied().flat_map(cut);
        let next = || Some(units.by_ref().take(most).collect::<Vec<_>>());
        let chunks = std::iter::from_fn(next).take_while(|units| !units.is_empty());
        chunks.map(|units| self.with(form, units, true)).collect()
    }

    /// The stages of the plan that units of the job list.
    fn listed(&self) -> &[u32] {
        if self.dense { &[] } else { &self.plan.stages }
    }

    /// The stages of a unit, as ranges.
    pub(super) fn stages_of(&self, unit: VectorUnit) -> impl Iterator<Item = Range<u32>> {
        let whole = unit.first_stage..unit.first_stage + unit.stages;
        let listed = self.listed().get(whole.start as usize..whole.end as usize).unwrap_or(&[]);
        let whole = self.listed().is_empty().then_some(whole);
        whole.into_iter().chain(listed.iter().map(|&stage| stage..stage + 1))
    }

    /// The bytes that the work takes on a device.
    pub(super) fn bytes(&self) -> u64 {
        Places::of(self).end
    }
}

/// Columns that travel with a work.
#[derive(Debug, Clone)]
pub(super) struct TravellingColumns {
    pub vectors: Arc<TravellingVectors>,
    /// By dimension, what is subtracted; none for products.
    pub centre: Arc<Vec<u64>>,
}

/// Where the arrays of a work lie in the memory of its stage, behind the tally.
#[derive(Debug, Clone, Copy)]
struct Places {
    probe: Option<(TravelPlaces, PreparedPlaces)>,
    columns: Option<(TravelPlaces, PreparedPlaces)>,
    centre: u64,
    runs: u64,
    units: u64,
    stages: u64,
    hits: u64,
    failed: u64,
    redo: u64,
    seen: u64,
    matches: u64,
    end: u64,
}

impl Places {
    fn of(job: &VectorJob) -> Self {
        let VectorJob { form, plan, units, .. } = job;
        let mut layout = Layout::default();
        layout.add(1, ALIGNMENT);
        let probe = job.probe.as_ref().map(|probe| {
            let count = probe.items.len() as u32;
            let given = probe.places(&mut layout);
            // The address of the columns' norm takes no room.
            (given, form.preparation.places(&mut layout, count, Role::Rows(0)))
        });
        let columns = job.columns.as_ref().map(|columns| {
            let count = columns.vectors.items.len() as u32;
            let given = columns.vectors.places(&mut layout);
            (given, form.preparation.places(&mut layout, count, Role::Columns))
        });
        let centre = job.columns.as_ref().map_or(0, |columns| columns.centre.len() as u64);
        let centre = layout.add(centre, size_of::<u64>() as u64);
        let hits = if job.dense { 0 } else { u64::from(form.capacity) };
        let seen = if form.first_only { plan.rows.len() as u64 } else { 0 };
        let mut add = |count: u64, bytes: usize| layout.add(count, bytes as u64);
        let runs = add(plan.runs.len() as u64, size_of::<VectorRun>());
        let of_units = add(units.len() as u64, size_of::<VectorUnit>());
        let stages = add(job.listed().len() as u64, size_of::<u32>());
        let of_hits = add(hits, HIT_BYTES as usize);
        let failed = add(units.len() as u64, size_of::<u32>());
        let redo = add(units.len() as u64, size_of::<u32>());
        let of_seen = add(seen, size_of::<u32>());
        let matches = add(form.most_matches(), size_of::<Match>());
        Self {
            probe,
            columns,
            centre,
            runs,
            units: of_units,
            stages,
            hits: of_hits,
            failed,
            redo,
            seen: of_seen,
            matches,
            end: layout.end(),
        }
    }
}

/// A [`VectorJob`] on its way through a device.
#[derive(Debug)]
pub(super) struct VectorRunning {
    job: VectorJob,
    columns: Option<Arc<PreparedColumns>>,
    multiprocessors: u32,
    places: Option<Places>,
    tally: VectorTally,
    matches: Vec<Match>,
    undecided: Vec<Match>,
    left: Left<VectorUnit>,
    ticket: Ticket<VectorJob, Left<VectorUnit>>,
}

impl VectorRunning {
    pub(super) fn new(
        job: VectorJob,
        columns: Option<Arc<PreparedColumns>>,
        multiprocessors: u32,
        ticket: Ticket<VectorJob, Left<VectorUnit>>,
    ) -> Self {
        Self {
            job,
            columns,
            multiprocessors,
            places: None,
            tally: VectorTally::default(),
            matches: vec![],
            undecided: vec![],
            left: Left::default(),
            ticket,
        }
    }

    /// What became of the pairs.
    fn figures(&self) -> Figures {
        let (VectorJob { form, units, dense, .. }, tally) = (&self.job, &self.tally);
        let pairs = units.iter().map(|unit| form.shape().tile_pairs() * u64::from(unit.stages));
        let (name, tested) = match dense {
            true => ("vectors_decide_units", pairs.sum()),
            false => (form.shape().name, tally.tests),
        };
        // Sure pairs are not compared.
        let passed = tally.compared.max(tally.matches);
        Figures { kernel: name, tested, passed, candidates: passed, compared: tally.compared }
    }

    /// Copies what the kernels read.
    fn copy(&self, stage: &mut Stage<'_>, places: &Places) -> Result<(), DeviceError> {
        let VectorJob { plan, units, probe, columns, form, .. } = &self.job;
        // SAFETY: the job keeps rows, columns, runs, units and stages as they are until it is answered.
        unsafe {
            if let (Some(probe), Some((given, _))) = (probe, &places.probe) {
                probe.copy(stage, given)?;
            }
            if let (Some(columns), Some((given, _))) = (columns, &places.columns) {
                columns.vectors.copy(stage, given)?;
                stage.copy(places.centre, bytes_of(columns.centre.as_slice()))?;
            }
            stage.copy(places.runs, bytes_of(&plan.runs))?;
            stage.copy(places.units, bytes_of(units))?;
            stage.copy(places.stages, bytes_of(self.job.listed()))?;
        }
        for (_, prepared) in [&places.probe, &places.columns].into_iter().flatten() {
            stage.clear(prepared.greatest, size_of::<u64>())?;
        }
        if form.first_only {
            stage.clear(places.seen, plan.rows.len() * size_of::<u32>())?;
        }
        stage.clear(0, size_of::<VectorTally>())
    }

    /// The columns, prepared where they travel with the work.
    fn columns(
        &self,
        stage: &mut Stage<'_>,
        (start, places): (u64, &Places),
    ) -> Result<Columns, DeviceError> {
        let VectorJob { form, columns, .. } = &self.job;
        let (Some(columns), Some((travel, prepared))) = (columns, &places.columns) else {
            let there = self.columns.as_ref().filter(|columns| columns.is_at(stage));
            return there
                .map(|columns| columns.columns())
                .ok_or_else(|| DeviceError::Internal("vectors of another device".to_string()));
        };
        let (vectors, centre) = (&columns.vectors, start + places.centre);
        let given = vectors.given(start, travel, centre);
        let role = Role::Columns;
        // SAFETY: the columns, the centre and a greatest norm of 0 have been copied to the memory of
        // the stage, which has room for all arrays.
        unsafe {
            form.preparation.launch(stage, (start, prepared), given, role, self.multiprocessors)?;
        }
        let row_counts = vectors.row_counts(start, travel);
        let given = (given.values, given.wide);
        Ok(Columns {
            side: prepared.side(start, vectors.items.start, given, row_counts),
            stage_sure: prepared.stage_sure(start),
            greatest: start + prepared.greatest,
            centre,
            index: 0,
            boxes: VectorBoxes::default(),
        })
    }

    /// The rows, prepared where they travel with the work.
    fn rows(
        &self,
        stage: &mut Stage<'_>,
        columns: &Columns,
        (start, places): (u64, &Places),
    ) -> Result<VectorSide, DeviceError> {
        let VectorJob { form, plan, probe, .. } = &self.job;
        let (Some(probe), Some((travel, prepared))) = (probe, &places.probe) else {
            return Ok(columns.side);
        };
        let given = probe.given(start, travel, columns.centre);
        let role = Role::Rows(columns.greatest);
        // SAFETY: the rows and a greatest norm of 0 have been copied to the memory of the stage, which
        // has room for all arrays; the work holds the columns.
        unsafe {
            form.preparation.launch(stage, (start, prepared), given, role, self.multiprocessors)?;
        }
        let row_counts = probe.row_counts(start, travel);
        let first = probe.items.start - plan.first_probe;
        Ok(prepared.side(start, first, (given.values, given.wide), row_counts))
    }

    fn argument(
        &self,
        columns: &Columns,
        rows: VectorSide,
        (start, places): (u64, &Places),
    ) -> VectorWork {
        let VectorJob { form, plan, units, column_count, .. } = &self.job;
        let at = |place: u64| start + place;
        let Preparation { threshold, shape, dimensions, .. } = form.preparation;
        let counts_rows = rows.row_counts != 0 || columns.side.row_counts != 0;
        VectorWork {
            rows,
            columns: columns.side,
            stage_sure: columns.stage_sure,
            runs: at(places.runs),
            units: at(places.units),
            stages: match self.job.listed().is_empty() {
                _ if self.has_index() => columns.index,
                true => 0,
                false => at(places.stages),
            },
            hits: at(places.hits),
            failed: at(places.failed),
            redo: at(places.redo),
            matches: at(places.matches),
            seen: if form.first_only { at(places.seen) } else { 0 },
            tally: start,
            bound: threshold.bound,
            first_row: plan.rows.start,
            end_row: plan.rows.end,
            first_probe: plan.first_probe,
            column_count: *column_count,
            run_count: plan.runs.len() as u32,
            unit_count: units.len() as u32,
            dimensions,
            steps: shape.numbers.steps(dimensions),
            blocked: shape.blocked.into(),
            metric: threshold.metric as u32,
            strip_rows: shape.strip_rows,
            stage_columns: shape.stage_columns,
            capacity: form.capacity,
            room: (form.capacity / 2).max(1),
            // What warps have taken and not used is a small part of the room.
            chunk: (form.capacity / (64 * self.filtering_blocks())).clamp(1, MOST_CHUNK),
            undecided_room: form.most_matches() as u32,
            same: form.same.into(),
            counts_sure: (form.counts && !counts_rows && !form.first_only).into(),
            boxes: columns.boxes,
        }
    }

    /// Whether a kernel with an index filters. Units that are dense have none.
    fn has_index(&self) -> bool {
        !self.job.dense && self.job.form.shape().has_index
    }

    /// The number of blocks that filter, at least 1.
    fn filtering_blocks(&self) -> u32 {
        let most = self.job.form.shape().blocks * self.multiprocessors;
        (self.job.units.len() as u32).min(most).max(1)
    }

    /// The number of blocks that decide.
    fn deciding_blocks(&self) -> u32 {
        let VectorJob { form, units, dense, .. } = &self.job;
        let pairs = match dense {
            true => form.shape().tile_pairs() * units.len() as u64,
            false => u64::from(form.capacity),
        };
        let blocks = pairs.div_ceil(u64::from(DECIDING_THREADS));
        blocks.clamp(1, u64::from(8 * self.multiprocessors)) as u32
    }
}

impl DeviceWork for VectorRunning {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        if self.job.units.is_empty() || !self.ticket.is_wanted() {
            return Ok(());
        }
        let places = Places::of(&self.job);
        let start = stage.reserve("the buffers for tiles of vectors", places.end)?;
        self.copy(stage, &places)?;
        let columns = self.columns(stage, (start, &places))?;
        let rows = self.rows(stage, &columns, (start, &places))?;
        let work = self.argument(&columns, rows, (start, &places));
        let VectorJob { form, dense, .. } = &self.job;
        let VectorShape { program, name, threads, shared_words, .. } = *form.shape();
        if !dense {
            let kernel = stage.kernel(program, name)?;
            let blocks = self.filtering_blocks();
            // SAFETY: the kernel takes a `VectorWork`. Its addresses are those of memory of this stage
            // and of the columns, which the work holds; the plan's units name no row or stage beyond
            // the prepared ones.
            unsafe { stage.launch(kernel, Grid { blocks, threads, shared_words }, work)? };
        }
        if self.has_index() {
            // It has decided all pairs.
            stage.note(0, size_of::<VectorTally>())?;
            self.places = Some(places);
            return Ok(());
        }
        let decide = match (dense, form.counts) {
            (false, false) => "vectors_decide_hits_pairs",
            (false, true) => "vectors_decide_hits_count",
            (true, false) => "vectors_decide_units_pairs",
            (true, true) => "vectors_decide_units_count",
        };
        let kernel = stage.kernel(&VECTORS, decide)?;
        let blocks = self.deciding_blocks();
        let grid = Grid { blocks, threads: DECIDING_THREADS, shared_words: 0 };
        // SAFETY: as above. There is room for the matches of all hits, or of all pairs of the units.
        unsafe { stage.launch(kernel, grid, work)? };
        stage.note(0, size_of::<VectorTally>())?;
        self.places = Some(places);
        Ok(())
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        let Some(places) = self.places else { return Ok(()) };
        let form = self.job.form;
        let tally: VectorTally = results.note()?;
        let most = form.most_matches();
        let redone = tally.redone as usize;
        if redone > self.job.units.len() || !form.counts && tally.matches > most {
            return Err(DeviceError::Internal(format!(
                "a kernel gave {redone} of {} units back and {} matches",
                self.job.units.len(),
                tally.matches
            )));
        }
        if form.counts && tally.undecided > most {
            // Nothing of the work counts.
            self.left.too_many = self.job.units.clone();
            return Ok(());
        }
        let redo = fetch(results, places.redo, if self.job.dense { 0 } else { redone })?;
        self.left.take(&self.job.units, redo)?;
        let given = if form.counts { tally.undecided } else { tally.matches };
        let given: Vec<Match> = fetch(results, places.matches, given as usize)?;
        (self.undecided, self.matches) =
            given.into_iter().partition(|pair| pair.detail == UNDECIDED);
        self.undecided.iter_mut().for_each(|pair| pair.detail = 0);
        self.tally = tally;
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        let figures = self.figures();
        let Self { job, columns, tally, matches, undecided, left, ticket, .. } = *self;
        // Dropped first, so that the receiver of the answer can use their memory.
        drop(columns);
        let VectorTally { cross, squares, rows, .. } = tally;
        let rows = RowPairCounts { cross, squares, rows };
        let counted = Counted { matches: tally.matches, rows };
        ticket.done(
            job,
            outcome.map(|usage| Outcome { counted, matches, undecided, left, figures, usage }),
        );
    }
}
