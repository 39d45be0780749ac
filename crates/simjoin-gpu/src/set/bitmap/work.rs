//! Signature tiles as work for a device.

use std::sync::Arc;

use crate::engine::Collection;
use crate::offload::tiles::{
    Addresses, ColumnsOf, Report, TileForm, TileJob, TileKind, TileSettings, TileUnit, Tiles,
    TravellingColumns,
};
use crate::offload::{Arena, JobCounters, OnDevice};
use crate::runtime::{DeviceError, LaunchGrid, Stage};
use crate::set::bitmap::abi::{Signed, Signing, Tally, TileWork};
use crate::set::bitmap::columns::{Making, SignatureColumns, Signatures, SignedColumns, sign};
use crate::set::bitmap::plan::StripArrays;
use crate::set::bitmap::shape::{TILES, TileShape};
use crate::set::offload::TravellingSets;

/// The settings by which pairs of sets are tested and decided.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignatureForm {
    pub signatures: Signatures,
    /// A match needs its exact overlap.
    pub exact: bool,
}

/// The settings that the jobs of a join share.
pub(super) type JobSettings = TileSettings<SignatureForm>;

impl From<SignatureForm> for TileForm {
    fn from(form: SignatureForm) -> Self {
        let Signatures { shape, members, .. } = form.signatures;
        let stage_items = shape.stage_columns * members;
        Self {
            strip_rows: shape.strip_rows,
            stage_items,
            dense_stage_items: stage_items,
            pairs_of_hit: members,
            ends_with_itself: false,
            undecided: None,
            leaves_hits: false,
        }
    }
}

/// Tiles of signatures.
#[derive(Debug)]
pub(super) enum SignatureTiles {}

/// Tiles to be tested on a device. Rows travel from an octet on, columns from a stage on.
pub(super) type SetJob = TileJob<SignatureTiles>;

/// The arguments of the kernels of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct SetArguments {
    /// The rows and columns that travel with the job.
    rows: Option<Signing>,
    columns: Option<Making>,
    tiles: TileWork,
}

impl SetJob {
    /// The rows that travel with the work, to be signed, and the address of their row counts.
    fn declare_rows<'a>(&'a self, arena: &mut Arena<'a>) -> Option<(Signing, u64)> {
        let Signatures { shape, scheme, .. } = self.settings.form.signatures;
        let travelling = self.rows.as_ref()?;
        let (sets, row_counts) = travelling.declare(arena);
        let count = travelling.sets.len() as u32;
        let padded = count.next_multiple_of(shape.strip_rows);
        let signing = scheme.fill(Signing {
            sets,
            words: arena.room_of(padded.into(), 4 * u64::from(shape.width)),
            hidden: arena.room::<u32>(padded.into()),
            count,
            padded,
            ..Signing::default()
        });
        Some((signing, row_counts))
    }

    /// Travelling rows as kernels read them. These add the number of a row.
    fn row_side(&self, signing: &Signing, row_counts: u64) -> (Signed, u64) {
        // The number of the first row.
        let first = self.rows.as_ref().map_or(0, |rows| rows.sets.start - self.plan.first_probe);
        let before =
            |address: u64, bytes: u32| address.wrapping_sub(u64::from(first) * u64::from(bytes));
        let words = before(signing.words, 4 * self.settings.form.signatures.shape.width);
        let (sets, hidden) = (signing.sets.numbered_from(first), before(signing.hidden, 4));
        let row_counts = if row_counts == 0 { 0 } else { before(row_counts, 4) };
        (Signed { sets, words, hidden }, row_counts)
    }

    /// The columns that travel with the work, to be signed, and the columns as kernels read them.
    fn declare_columns<'a>(
        &'a self,
        resident: &Option<Arc<SignedColumns>>,
        arena: &mut Arena<'a>,
    ) -> (Option<Making>, SignatureColumns) {
        let Some(TravellingColumns { items, beside: sizes }) = &self.columns else {
            let there = resident.as_ref().map(|columns| columns.columns());
            return (None, there.unwrap_or_default());
        };
        let (of_sets, row_counts) = items.declare(arena);
        let counted = (of_sets, items.sets.len() as u32);
        let making = Making::declare(arena, &self.settings.form.signatures, counted, sizes);
        (Some(making), making.columns(items.sets.start, row_counts))
    }
}

impl TileKind for SignatureTiles {
    type Form = SignatureForm;
    type Arrays = StripArrays;
    type Travelling = TravellingSets;
    /// The sizes of the build sets, ascending: the classes of columns.
    type Beside = Arc<Vec<u32>>;
    type Resident = SignedColumns;
    type Tally = Tally;
    type Arguments = SetArguments;
    const BUFFERS: &'static str = "the buffers for tiles of signatures";
    const DECIDERS: [[&'static str; 2]; 2] = [
        ["tiles_decide_hits_pairs", "tiles_decide_hits_count"],
        ["tiles_decide_units_pairs", "tiles_decide_units_count"],
    ];
    /// The host has them.
    const MEETS_ITSELF: bool = false;

    fn first_row(arrays: &StripArrays, unit: &TileUnit) -> u32 {
        arrays.strips[unit.strip as usize].first
    }

    fn unreserved_bytes(tiles: &Tiles<Self>, columns: Option<&ColumnsOf<Self>>) -> usize {
        let travelling = tiles.rows.iter().chain(columns.map(|columns| &columns.items));
        let row_counts = travelling.map(|sets| size_of_val(&sets.row_counts[..]));
        tiles.plan.arrays.size_in_bytes() + row_counts.sum::<usize>()
    }

    fn collection(rows: &TravellingSets) -> Arc<dyn Collection> {
        Arc::clone(&rows.collection) as _
    }

    fn is_at(resident: &SignedColumns, stage: &Stage<'_>) -> bool {
        resident.is_at(stage)
    }

    fn declare<'a>(
        job: &'a SetJob,
        device: &OnDevice<Option<Arc<SignedColumns>>>,
        addresses: &Addresses,
        arena: &mut Arena<'a>,
    ) -> SetArguments {
        let TileJob { settings, plan, .. } = job;
        let SignatureForm { signatures: Signatures { shape, scheme, members }, exact } =
            settings.form;
        let (making, columns) = job.declare_columns(&device.resident, arena);
        let signing = job.declare_rows(arena);
        let (rows, probe_rows) = match &signing {
            Some((signing, row_counts)) => job.row_side(signing, *row_counts),
            None => (columns.signed, columns.row_counts),
        };
        let Addresses { units, hits, redo, matches, seen, tally } = *addresses;
        let tiles = TileWork {
            rows,
            columns: columns.signed,
            classes: columns.classes,
            stage_classes: columns.stage_classes,
            unions: columns.unions,
            table: arena.copied(&plan.arrays.table),
            runs: arena.copied(&plan.arrays.runs),
            strips: arena.copied(&plan.arrays.strips),
            units,
            hits,
            redo,
            matches,
            seen,
            probe_rows,
            build_rows: columns.row_counts,
            tally,
            first_row: plan.rows.start,
            end_row: plan.rows.end,
            first_probe: plan.first_probe,
            column_count: job.column_count,
            run_count: plan.arrays.runs.len() as u32,
            unit_count: job.units.len() as u32,
            width: shape.width,
            members,
            strip_rows: shape.strip_rows,
            stage_columns: shape.stage_columns,
            capacity: settings.capacity,
            room: settings.capacity.min(shape.room),
            same: settings.same.into(),
            exact: exact.into(),
            decides: scheme.is_exact().into(),
            reserved: 0,
        };
        SetArguments { rows: signing.map(|(signing, _)| signing), columns: making, tiles }
    }

    fn launch(
        job: &SetJob,
        multiprocessors: u32,
        SetArguments { rows, columns, tiles }: &SetArguments,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError> {
        // SAFETY: the sets that travel, the sizes and all arrays are in the memory of the stage.
        unsafe {
            if let Some(columns) = columns {
                columns.launch(stage, multiprocessors)?;
            }
            if let Some(rows) = rows {
                sign(stage, rows, multiprocessors)?;
            }
        }
        if !job.dense {
            let shape = job.settings.form.signatures.shape;
            let kernel = stage.kernel(&TILES, shape.name())?;
            let TileShape { threads, blocks, shared_words, .. } = shape;
            let blocks = job.filtering_blocks(blocks * multiprocessors);
            let grid = LaunchGrid { blocks, threads, shared_words: shared_words + tiles.room };
            // SAFETY: the kernel takes a `TileWork`. Its addresses are those of memory of this stage
            // and of the columns, which the work holds; units, strips and table are the plan's, which
            // names no row or stage beyond the signed ones.
            unsafe { stage.launch(kernel, grid, *tiles)? };
        }
        let (decider, grid) = job.decider(multiprocessors);
        let kernel = stage.kernel(&TILES, decider)?;
        // SAFETY: as above. There is room for the matches of all hits, or of all pairs of the units.
        unsafe { stage.launch(kernel, grid, *tiles) }
    }

    fn report(job: &SetJob, tally: &Tally) -> Report {
        let Signatures { shape, scheme, members } = job.settings.form.signatures;
        let dense = if job.dense { job.tile().tile_pairs() * job.units.len() as u64 } else { 0 };
        let counters = JobCounters {
            kernel: shape.name(),
            tested: tally.tests,
            passed: tally.hits * u64::from(members) + dense,
            candidates: if scheme.is_exact() { tally.found.matches } else { tally.compared },
            compared: tally.compared,
        };
        Report { redone: tally.redone, counted: tally.found.into(), undecided: 0, counters }
    }
}
