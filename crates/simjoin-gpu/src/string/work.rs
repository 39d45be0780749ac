//! Tiles of texts as work for a device.

use std::sync::Arc;

use simjoin_core::string::collection::Strings;

use crate::engine::{Collection, RowPairCounts};
use crate::offload::tiles::{
    Addresses, ColumnsOf, Report, TileForm, TileJob, TileKind, TileSettings, Tiles,
};
use crate::offload::{Arena, Counted, JobCounters, OnDevice};
use crate::runtime::{DeviceError, LaunchGrid, Stage};
use crate::string::abi::{STAGE, STRIP, TextTally, TextWork, UNDECIDED};
use crate::string::columns::{SignedTexts, TEXTS, sign};
use crate::string::packed::{DeclaredTexts, PackedTexts};
use crate::string::plan::StripArrays;

/// Threads of a block that tests, and blocks that a multiprocessor runs at a time.
const THREADS: u32 = 128;
const BLOCKS: u32 = 4;

/// The function and the pairs by which kernels decide.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextForm {
    /// The function is the number of edits that kernels count.
    pub decides: bool,
    pub unordered: bool,
}

impl From<TextForm> for TileForm {
    fn from(form: TextForm) -> Self {
        Self {
            strip_rows: STRIP,
            stage_items: STAGE,
            dense_stage_items: STAGE,
            pairs_of_hit: 1,
            ends_with_itself: form.unordered,
            undecided: Some(UNDECIDED),
            leaves_hits: true,
        }
    }
}

/// The settings that the jobs of a join share.
pub(super) type JobSettings = TileSettings<TextForm>;

/// Tiles of texts.
#[derive(Debug)]
pub(super) enum TextTiles {}

/// Tiles to be tested on a device.
pub(super) type TextJob = TileJob<TextTiles>;

/// The arguments of the kernels of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextArguments {
    /// The rows that travel with the job.
    rows: Option<DeclaredTexts>,
    tiles: TextWork,
}

/// Probe texts that travel with a work, and the bits by which they are signed.
#[derive(Debug, Clone)]
pub(super) struct TravellingTexts {
    pub collection: Arc<Strings>,
    pub texts: Arc<PackedTexts>,
    pub bits: Arc<Vec<u8>>,
}

impl TileKind for TextTiles {
    type Form = TextForm;
    type Arrays = StripArrays;
    type Travelling = TravellingTexts;
    /// Columns do not travel.
    type Beside = ();
    type Resident = SignedTexts;
    type Tally = TextTally;
    type Arguments = TextArguments;
    const BUFFERS: &'static str = "the buffers for tiles of texts";
    /// One kernel filters and decides.
    const DECIDERS: [[&'static str; 2]; 2] = [["texts_pairs", "texts_count"]; 2];
    const MEETS_ITSELF: bool = true;

    fn unreserved_bytes(tiles: &Tiles<Self>, _: Option<&ColumnsOf<Self>>) -> usize {
        tiles.plan.arrays.size_in_bytes()
    }

    fn collection(rows: &TravellingTexts) -> Arc<dyn Collection> {
        Arc::clone(&rows.collection) as _
    }

    fn is_at(resident: &SignedTexts, stage: &Stage<'_>) -> bool {
        resident.is_at(stage)
    }

    fn declare<'a>(
        job: &'a TextJob,
        device: &OnDevice<Option<Arc<SignedTexts>>>,
        addresses: &Addresses,
        arena: &mut Arena<'a>,
    ) -> TextArguments {
        let TileJob { settings, plan, units, .. } = job;
        let columns = device.resident.as_ref().map(|columns| columns.columns());
        let columns = columns.unwrap_or_default();
        let rows = job.rows.as_ref().map(|rows| rows.texts.declare(arena, &rows.bits, false));
        let first = job.rows.as_ref().map_or(0, |rows| rows.texts.items.start - plan.first_probe);
        let capacity = match job.dense {
            // There is room for all pairs.
            true => settings.most_matches() as u32,
            false => settings.capacity,
        };
        let Addresses { units: of_units, redo, matches, seen, tally, .. } = *addresses;
        let tiles = TextWork {
            rows: rows.map_or(columns.side, |rows| rows.side(first)),
            columns: columns.side,
            classes: columns.classes,
            stage_classes: columns.stage_classes,
            boxes: columns.boxes,
            table: arena.copied(&plan.arrays.table),
            runs: arena.copied(&plan.arrays.runs),
            units: of_units,
            redo,
            matches,
            seen,
            tally,
            first_row: plan.rows.start,
            end_row: plan.rows.end,
            first_probe: plan.first_probe,
            column_count: job.column_count,
            run_count: plan.arrays.runs.len() as u32,
            unit_count: units.len() as u32,
            capacity,
            room: capacity.min(STRIP * STAGE),
            enough: if job.dense { capacity } else { capacity - capacity / 8 },
            unordered: settings.form.unordered.into(),
            decides: settings.form.decides.into(),
            reserved: 0,
        };
        TextArguments { rows, tiles }
    }

    fn launch(
        job: &TextJob,
        multiprocessors: u32,
        TextArguments { rows, tiles }: &TextArguments,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError> {
        if let Some(rows) = rows {
            // SAFETY: the texts that travel and their arrays are in the memory of the stage.
            unsafe { sign(stage, rows.signing, multiprocessors)? };
        }
        let (name, _) = job.decider(multiprocessors);
        let kernel = stage.kernel(&TEXTS, name)?;
        let warps = THREADS / 32;
        let blocks = (job.units.len() as u32).div_ceil(warps).clamp(1, BLOCKS * multiprocessors);
        // SAFETY: the kernel takes a `TextWork`. Its addresses are those of memory of this stage and of the
        // columns, which the work holds; the plan's units, runs and table name no row, stage or class
        // beyond those.
        unsafe {
            stage.launch(kernel, LaunchGrid { blocks, threads: THREADS, shared_words: 0 }, *tiles)
        }
    }

    fn report(_: &TextJob, tally: &TextTally) -> Report {
        let TextTally { matches, cross, squares, rows, given, tests, compared, redone, .. } =
            *tally;
        let counted = Counted { matches, rows: RowPairCounts { cross, squares, rows } };
        let passed = compared.max(given);
        let counters =
            JobCounters { kernel: "texts", tested: tests, passed, candidates: passed, compared };
        Report { redone, counted, undecided: given, counters }
    }
}
