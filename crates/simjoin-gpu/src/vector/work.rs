//! Tiles of vectors as work for a device.

use std::sync::Arc;

use crate::engine::{Collection, RowPairCounts};
use crate::offload::tiles::{
    Addresses, ColumnsOf, Report, TileJob, TileKind, TileSettings, Tiles, TravellingColumns,
};
use crate::offload::{Arena, Counted, JobCounters, OnDevice};
use crate::runtime::{DeviceError, LaunchGrid, Stage};
use crate::vector::abi::{VectorRun, VectorSide, VectorTally, VectorWork};
use crate::vector::columns::{Preparation, PreparedArrays, PreparedColumns, Role, VectorColumns};
use crate::vector::shape::{VECTORS, VectorShape};
use crate::vector::travel::TravellingVectors;

/// The hits that a warp takes room for at once, at most.
const MOST_CHUNK: u32 = 128;

/// The settings that the jobs of a join share.
pub(super) type JobSettings = TileSettings<Preparation>;

/// Tiles of vectors.
#[derive(Debug)]
pub(super) enum VectorTiles {}

/// Tiles to be tested on a device.
pub(super) type VectorJob = TileJob<VectorTiles>;

/// The arguments of the kernels of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct VectorArguments {
    /// The columns and the rows that travel with the job.
    columns: Option<PreparedArrays>,
    rows: Option<PreparedArrays>,
    tiles: VectorWork,
}

impl VectorJob {
    fn shape(&self) -> &VectorShape {
        &self.settings.form.shape
    }

    /// The preparation of vectors that travel: as the units need it.
    fn form(&self) -> Preparation {
        let form = self.settings.form;
        if self.dense { Preparation { shape: form.shape.dense(), ..form } } else { form }
    }

    /// Whether a kernel with an index filters. Units that are dense have none.
    fn has_index(&self) -> bool {
        !self.dense && self.shape().has_index
    }

    /// The columns, and their arrays where they travel with the work.
    fn declare_columns<'a>(
        &'a self,
        resident: &Option<Arc<PreparedColumns>>,
        arena: &mut Arena<'a>,
    ) -> (Option<PreparedArrays>, VectorColumns) {
        let Some(TravellingColumns { items: vectors, beside: centre }) = &self.columns else {
            let there = resident.as_ref().map(|columns| columns.columns());
            return (None, there.unwrap_or_default());
        };
        let centre = arena.copied(centre);
        let (given, row_counts) = vectors.declare(arena, centre);
        let prepared = self.form().declare(arena, given, Role::Columns);
        (Some(prepared), prepared.columns(vectors.items.start, row_counts, centre))
    }

    /// The rows, and their arrays where they travel with the work.
    fn declare_rows<'a>(
        &'a self,
        columns: &VectorColumns,
        arena: &mut Arena<'a>,
    ) -> (Option<PreparedArrays>, VectorSide) {
        let Some(travelling) = &self.rows else { return (None, columns.side) };
        let (given, row_counts) = travelling.declare(arena, columns.centre);
        let role = Role::Rows(columns.greatest);
        let prepared = self.form().declare(arena, given, role);
        let first = travelling.items.start - self.plan.first_probe;
        (Some(prepared), prepared.side(first, row_counts))
    }
}

impl TileKind for VectorTiles {
    type Form = Preparation;
    type Arrays = Vec<VectorRun>;
    type Travelling = Arc<TravellingVectors>;
    /// By dimension, what is subtracted; none for products.
    type Beside = Arc<Vec<u64>>;
    type Resident = PreparedColumns;
    type Tally = VectorTally;
    type Arguments = VectorArguments;
    const BUFFERS: &'static str = "the buffers for tiles of vectors";
    const DECIDERS: [[&'static str; 2]; 2] = [
        ["vectors_decide_hits_pairs", "vectors_decide_hits_count"],
        ["vectors_decide_units_pairs", "vectors_decide_units_count"],
    ];
    const MEETS_ITSELF: bool = true;

    fn unreserved_bytes(tiles: &Tiles<Self>, _: Option<&ColumnsOf<Self>>) -> usize {
        tiles.plan.arrays.capacity() * size_of::<VectorRun>()
    }

    fn collection(rows: &Arc<TravellingVectors>) -> Arc<dyn Collection> {
        Arc::clone(&rows.collection) as _
    }

    fn is_at(resident: &PreparedColumns, stage: &Stage<'_>) -> bool {
        resident.is_at(stage)
    }

    fn declare<'a>(
        job: &'a VectorJob,
        device: &OnDevice<Option<Arc<PreparedColumns>>>,
        addresses: &Addresses,
        arena: &mut Arena<'a>,
    ) -> VectorArguments {
        let TileJob { settings, plan, units, .. } = job;
        let (of_columns, columns) = job.declare_columns(&device.resident, arena);
        let (of_rows, rows) = job.declare_rows(&columns, arena);
        let Preparation { threshold, shape, dimensions, .. } = job.form();
        let counts_rows = rows.row_counts != 0 || columns.side.row_counts != 0;
        let filtering_blocks = job.filtering_blocks(shape.blocks * device.multiprocessors);
        let Addresses { units: of_units, hits, redo, matches, seen, tally } = *addresses;
        let tiles = VectorWork {
            rows,
            columns: columns.side,
            stage_sure: columns.stage_sure,
            runs: arena.copied(&plan.arrays),
            units: of_units,
            stages: match job.listed() {
                _ if job.has_index() => columns.index,
                [] => 0,
                listed => arena.copied(listed),
            },
            hits,
            failed: arena.room::<u32>(units.len() as u64),
            redo,
            matches,
            seen,
            tally,
            bound: threshold.bound,
            first_row: plan.rows.start,
            end_row: plan.rows.end,
            first_probe: plan.first_probe,
            column_count: job.column_count,
            run_count: plan.arrays.len() as u32,
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
        job: &VectorJob,
        multiprocessors: u32,
        VectorArguments { columns, rows, tiles }: &VectorArguments,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError> {
        for prepared in [columns, rows].into_iter().flatten() {
            // SAFETY: the vectors that travel, the centre and a greatest norm of 0 are in the memory of
            // the stage, which has room for all arrays; the work holds other columns.
            unsafe { prepared.launch(stage, multiprocessors)? };
        }
        if !job.dense {
            let VectorShape { program, name, threads, shared_words, blocks, .. } = *job.shape();
            let kernel = stage.kernel(program, name)?;
            let blocks = job.filtering_blocks(blocks * multiprocessors);
            // SAFETY: the kernel takes a `VectorWork`. Its addresses are those of memory of this stage
            // and of the columns, which the work holds; the plan's units name no row or stage beyond
            // the prepared ones.
            unsafe { stage.launch(kernel, LaunchGrid { blocks, threads, shared_words }, *tiles)? };
        }
        if job.has_index() {
            // It has decided all pairs.
            return Ok(());
        }
        let (decider, grid) = job.decider(multiprocessors);
        let kernel = stage.kernel(&VECTORS, decider)?;
        // SAFETY: as above. There is room for the matches of all hits, or of all pairs of the units.
        unsafe { stage.launch(kernel, grid, *tiles) }
    }

    fn report(job: &VectorJob, tally: &VectorTally) -> Report {
        let VectorTally { matches, cross, squares, rows, compared, undecided, redone, .. } = *tally;
        let counted = Counted { matches, rows: RowPairCounts { cross, squares, rows } };
        let pairs = job.tile().tile_pairs();
        let (kernel, tested) = match job.dense {
            true => {
                let pairs = job.units.iter().map(|unit| pairs * u64::from(unit.stages));
                ("vectors_decide_units", pairs.sum())
            }
            false => (job.shape().name, tally.tests),
        };
        // Sure pairs are not compared.
        let passed = compared.max(matches);
        let counters = JobCounters { kernel, tested, passed, candidates: passed, compared };
        Report { redone, counted, undecided, counters }
    }
}
