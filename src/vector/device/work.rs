//! Tiles of vectors as work for a device.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Match, RowPairCounts};
use crate::gpu::{DeviceError, Grid, Stage};
use crate::offload::{
    Arena, Counted, DeviceJob, JobCounters, JobResults, Left, OnDevice, Outcome, deciding_grid,
};
use crate::vector::device::abi::{
    HIT_BYTES, UNDECIDED, VectorSide, VectorTally, VectorUnit, VectorWork,
};
use crate::vector::device::columns::{Columns, Preparation, Prepared, PreparedColumns, Role};
use crate::vector::device::plan::Plan;
use crate::vector::device::shape::{VECTORS, VectorShape};
use crate::vector::device::travel::TravellingVectors;

/// The hits that a warp takes room for at once, at most.
const MOST_CHUNK: u32 = 128;

/// The settings that the jobs of a join share.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobSettings {
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

impl JobSettings {
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

    /// The settings of works that decide each pair.
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
    pub settings: JobSettings,
    pub plan: Arc<Plan>,
    pub units: Vec<VectorUnit>,
    /// The units have too many hits: each of their pairs is decided. They are of the settings'
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
    /// The rows of this work with other units.
    pub(super) fn with(&self, settings: JobSettings, units: Vec<VectorUnit>, dense: bool) -> Self {
        let plan = Arc::clone(&self.plan);
        let (probe, columns) = (self.probe.clone(), self.columns.clone());
        Self { settings, plan, units, dense, probe, columns, ..*self }
    }

    /// Jobs of up to `most` units each that decide each pair of some units of this one.
    pub(super) fn densely(&self, units: &[VectorUnit], most: usize) -> Vec<Self> {
        let (settings, parts) = (self.settings.dense(), self.settings.dense_parts());
        let cut = |unit: VectorUnit| {
            let first_row = unit.first_row;
            let stages = self.stages_of(unit).flatten();
            let parts = stages.flat_map(move |stage| stage * parts..(stage + 1) * parts);
            parts.map(move |first_stage| VectorUnit { first_row, first_stage, stages: 1 })
        };
        let mut units = units.iter().copied().flat_map(cut);
        let next = || Some(units.by_ref().take(most).collect::<Vec<_>>());
        let chunks = std::iter::from_fn(next).take_while(|units| !units.is_empty());
        chunks.map(|units| self.with(settings, units, true)).collect()
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

    /// Whether a kernel with an index filters. Units that are dense have none.
    fn has_index(&self) -> bool {
        !self.dense && self.settings.shape().has_index
    }

    /// The number of blocks that filter, at least 1.
    fn filtering_blocks(&self, multiprocessors: u32) -> u32 {
        let most = self.settings.shape().blocks * multiprocessors;
        (self.units.len() as u32).min(most).max(1)
    }

    /// The pairs that are decided at most.
    fn decided_pairs(&self) -> u64 {
        match self.dense {
            true => self.settings.shape().tile_pairs() * self.units.len() as u64,
            false => u64::from(self.settings.capacity),
        }
    }

    /// The numbers of pairs by their fate.
    fn counters(&self, tally: &VectorTally) -> JobCounters {
        let shape = self.settings.shape();
        let pairs = self.units.iter().map(|unit| shape.tile_pairs() * u64::from(unit.stages));
        let (kernel, tested) = match self.dense {
            true => ("vectors_decide_units", pairs.sum()),
            false => (shape.name, tally.tests),
        };
        // Sure pairs are not compared.
        let passed = tally.compared.max(tally.matches);
        JobCounters { kernel, tested, passed, candidates: passed, compared: tally.compared }
    }
}

/// Columns that travel with a work.
#[derive(Debug, Clone)]
pub(super) struct TravellingColumns {
    pub vectors: Arc<TravellingVectors>,
    /// By dimension, what is subtracted; none for products.
    pub centre: Arc<Vec<u64>>,
}

/// The arguments of the kernels of a work.
#[derive(Debug, Clone, Copy)]
pub(super) struct VectorArguments {
    /// The columns and the rows that travel with the work.
    columns: Option<Prepared>,
    rows: Option<Prepared>,
    tiles: VectorWork,
}

impl VectorJob {
    /// The columns, and their arrays where they travel with the work.
    fn declare_columns<'a>(
        &'a self,
        resident: &Option<Arc<PreparedColumns>>,
        arena: &mut Arena<'a>,
    ) -> (Option<Prepared>, Columns) {
        let Some(TravellingColumns { vectors, centre }) = &self.columns else {
            let there = resident.as_ref().map(|columns| columns.columns());
            return (None, there.unwrap_or_default());
        };
        let centre = arena.copied(centre);
        let (given, row_counts) = vectors.declare(arena, centre);
        let prepared = self.settings.preparation.declare(arena, given, Role::Columns);
        (Some(prepared), prepared.columns(vectors.items.start, row_counts, centre))
    }

    /// The rows, and their arrays where they travel with the work.
    fn declare_rows<'a>(
        &'a self,
        columns: &Columns,
        arena: &mut Arena<'a>,
    ) -> (Option<Prepared>, VectorSide) {
        let Some(probe) = &self.probe else { return (None, columns.side) };
        let (given, row_counts) = probe.declare(arena, columns.centre);
        let role = Role::Rows(columns.greatest);
        let prepared = self.settings.preparation.declare(arena, given, role);
        let first = probe.items.start - self.plan.first_probe;
        (Some(prepared), prepared.side(first, row_counts))
    }
}

impl DeviceJob for VectorJob {
    /// The columns, unless they travel with the works.
    type Resident = Option<Arc<PreparedColumns>>;
    type Tally = VectorTally;
    type Arguments = VectorArguments;
    type Left = Left<VectorUnit>;
    const ARRAYS: &'static str = "the buffers for tiles of vectors";

    fn is_at(&self, resident: &Self::Resident, stage: &Stage<'_>) -> bool {
        self.columns.is_some() || resident.as_ref().is_some_and(|columns| columns.is_at(stage))
    }

    fn declare<'a>(
        &'a self,
        device: &OnDevice<Self::Resident>,
        arena: &mut Arena<'a>,
    ) -> VectorArguments {
        let Self { settings, plan, units, .. } = self;
        let (of_columns, columns) = self.declare_columns(&device.resident, arena);
        let (of_rows, rows) = self.declare_rows(&columns, arena);
        let Preparation { threshold, shape, dimensions, .. } = settings.preparation;
        let counts_rows = rows.row_counts != 0 || columns.side.row_counts != 0;
        let hits = if self.dense { 0 } else { u64::from(settings.capacity) };
        let filtering_blocks = self.filtering_blocks(device.multiprocessors);
        let tiles = VectorWork {
            rows,
            columns: columns.side,
            stage_sure: columns.stage_sure,
            runs: arena.copied(&plan.runs),
            units: arena.copied(units),
            stages: match self.listed() {
                _ if self.has_index() => columns.index,
                [] => 0,
                listed => arena.copied(listed),
            },
            hits: arena.room_of(hits, HIT_BYTES),
            failed: arena.room::<u32>(units.len() as u64),
            redo: arena.room::<u32>(units.len() as u64),
            matches: arena.room::<Match>(settings.most_matches()),
            seen: match settings.first_only {
                true => arena.zeroed::<u32>(plan.rows.len() as u64),
                false => 0,
            },
            tally: arena.start(),
            bound: threshold.bound,
            first_row: plan.rows.start,
            end_row: plan.rows.end,
            first_probe: plan.first_probe,
            column_count: self.column_count,
            run_count: plan.runs.len() as u32,
            unit_count: units.len() as u32,
            dimensions,
            steps: shape.numbers.steps(dimensions),
            blocked: shape.blocked.into(),
            metric: threshold.metric as u32,
            strip_rows: shape.strip_rows,
            stage_columns: shape.stage_columns,
            capacity: settings.capacity,
            room: (settings.capacity / 2).max(1),
            // What warps have taken and not used is a small part of the room.
            chunk: (settings.capacity / (64 * filtering_blocks)).clamp(1, MOST_CHUNK),
            undecided_room: settings.most_matches() as u32,
            same: settings.same.into(),
            counts_sure: (settings.counts && !counts_rows && !settings.first_only).into(),
            boxes: columns.boxes,
        };
        VectorArguments { columns: of_columns, rows: of_rows, tiles }
    }

    fn launch(
        &self,
        device: &OnDevice<Self::Resident>,
        VectorArguments { columns, rows, tiles }: &VectorArguments,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError> {
        let Self { settings, dense, .. } = self;
        let multiprocessors = device.multiprocessors;
        for prepared in [columns, rows].into_iter().flatten() {
            // SAFETY: the vectors that travel, the centre and a greatest norm of 0 are in the memory of
            // the stage, which has room for all arrays; the work holds other columns.
            unsafe { prepared.launch(stage, multiprocessors)? };
        }
        let VectorShape { program, name, threads, shared_words, .. } = *settings.shape();
        if !dense {
            let kernel = stage.kernel(program, name)?;
            let blocks = self.filtering_blocks(multiprocessors);
            // SAFETY: the kernel takes a `VectorWork`. Its addresses are those of memory of this stage
            // and of the columns, which the work holds; the plan's units name no row or stage beyond
            // the prepared ones.
            unsafe { stage.launch(kernel, Grid { blocks, threads, shared_words }, *tiles)? };
        }
        if self.has_index() {
            // It has decided all pairs.
            return Ok(());
        }
        let decide = match (dense, settings.counts) {
            (false, false) => "vectors_decide_hits_pairs",
            (false, true) => "vectors_decide_hits_count",
            (true, false) => "vectors_decide_units_pairs",
            (true, true) => "vectors_decide_units_count",
        };
        let kernel = stage.kernel(&VECTORS, decide)?;
        let grid = deciding_grid(self.decided_pairs(), multiprocessors);
        // SAFETY: as above. There is room for the matches of all hits, or of all pairs of the units.
        unsafe { stage.launch(kernel, grid, *tiles) }
    }

    fn outcome(
        &self,
        VectorArguments { tiles, .. }: &VectorArguments,
        tally: VectorTally,
        results: &mut JobResults<'_, '_>,
    ) -> Result<Outcome<Left<VectorUnit>>, DeviceError> {
        let Self { settings, units, .. } = self;
        let most = settings.most_matches();
        let redone = tally.redone as usize;
        if redone > units.len() || !settings.counts && tally.matches > most {
            return Err(DeviceError::Internal(format!(
                "a kernel gave {redone} of {} units back and {} matches",
                units.len(),
                tally.matches
            )));
        }
        let mut left = Left::default();
        if settings.counts && tally.undecided > most {
            // Nothing of the work counts.
            left.too_many = units.clone();
            let counters = self.counters(&VectorTally::default());
            return Ok(Outcome { left, counters, ..Outcome::default() });
        }
        let redo = results.fetch(tiles.redo, if self.dense { 0 } else { redone })?;
        left.take(units, redo)?;
        let given = if settings.counts { tally.undecided } else { tally.matches };
        let given: Vec<Match> = results.fetch(tiles.matches, given as usize)?;
        let (mut undecided, matches): (Vec<_>, Vec<_>) =
            given.into_iter().partition(|pair| pair.detail == UNDECIDED);
        undecided.iter_mut().for_each(|pair| pair.detail = 0);
        let VectorTally { cross, squares, rows, .. } = tally;
        let rows = RowPairCounts { cross, squares, rows };
        let (counted, counters) = (Counted { matches: tally.matches, rows }, self.counters(&tally));
        Ok(Outcome { counted, matches, undecided, left, counters, ..Outcome::default() })
    }
}
