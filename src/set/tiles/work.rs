//! Tiles as work for a device.

use std::sync::Arc;

use crate::engine::Match;
use crate::gpu::{DeviceError, Grid, Stage};
use crate::offload::{
    Arena, DeviceJob, JobCounters, JobResults, Left, OnDevice, Outcome, deciding_grid,
};
use crate::set::offload::TravellingSets;
use crate::set::tiles::abi::{HIT_BYTES, Signed, Signing, Tally, TileWork, Unit};
use crate::set::tiles::columns::{Columns, Making, Signatures, SignedColumns, sign};
use crate::set::tiles::plan::Plan;
use crate::set::tiles::shape::{TILES, TileShape};

/// The settings that the jobs of a join share.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobSettings {
    pub signatures: Signatures,
    /// Hits of a work at most.
    pub capacity: u32,
    /// Pairs of a work that compares the tokens of all of them, about.
    pub dense_pairs: u64,
    /// Matches are counted, not given.
    pub counts: bool,
    /// A match needs its exact overlap.
    pub exact: bool,
    /// One match for each row will do.
    pub first_only: bool,
    /// Rows are columns of the same number, each pair is looked at once; columns are the probe sets.
    pub same: bool,
}

impl JobSettings {
    /// The pairs of a strip and a stage.
    pub(super) fn tile_pairs(&self) -> u64 {
        let Signatures { shape, members, .. } = self.signatures;
        u64::from(shape.strip_rows) * u64::from(shape.stage_columns) * u64::from(members)
    }

    /// The pairs behind all hits.
    fn hit_pairs(&self) -> u64 {
        u64::from(self.capacity) * u64::from(self.signatures.members)
    }

    /// The most matches that a work gives: those of all hits, or of the smallest unit.
    pub(super) fn most_matches(&self) -> u64 {
        match self.counts {
            true => 0,
            false => self.hit_pairs().max(self.tile_pairs()),
        }
    }

    /// The smallest units that a work decides pair by pair.
    pub(super) fn most_dense_units(&self) -> usize {
        let pairs = if self.counts { self.dense_pairs } else { self.most_matches() };
        (pairs / self.tile_pairs()).clamp(1, 1 << 16) as usize
    }

    /// The bytes of a work that grow with its capacities.
    pub(super) fn buffer_bytes(&self) -> u64 {
        u64::from(self.capacity) * HIT_BYTES + self.most_matches() * size_of::<Match>() as u64
    }
}

/// Tiles to be tested on a device.
#[derive(Debug)]
pub(super) struct TileJob {
    pub settings: JobSettings,
    pub plan: Arc<Plan>,
    pub units: Vec<Unit>,
    /// The units have too many hits: each of their pairs is decided.
    pub dense: bool,
    /// The rows, from an octet on; `None`: the columns are the rows.
    pub probe: Option<TravellingSets>,
    /// The columns, from a stage on; `None`: they are those of the device.
    pub columns: Option<TravellingColumns>,
    pub column_count: u32,
}

/// Columns that travel with a work.
#[derive(Debug, Clone)]
pub(super) struct TravellingColumns {
    pub sets: TravellingSets,
    /// The sizes of the build sets, ascending: the classes of columns.
    pub sizes: Arc<Vec<u32>>,
}

impl TileJob {
    /// The rows of this work with other units.
    pub(super) fn with(&self, settings: JobSettings, units: Vec<Unit>, dense: bool) -> Self {
        let plan = Arc::clone(&self.plan);
        let (probe, columns) = (self.probe.clone(), self.columns.clone());
        Self { settings, plan, units, dense, probe, columns, ..*self }
    }

    /// The pairs that are decided at most.
    fn decided_pairs(&self) -> u64 {
        match self.dense {
            true => self.settings.tile_pairs() * self.units.len() as u64,
            false => self.settings.hit_pairs(),
        }
    }

    /// The rows that travel with the work, to be signed, and the address of their row counts.
    fn declare_rows<'a>(&'a self, arena: &mut Arena<'a>) -> Option<(Signing, u64)> {
        let Signatures { shape, scheme, .. } = self.settings.signatures;
        let probe = self.probe.as_ref()?;
        let (sets, row_counts) = probe.declare(arena);
        let count = probe.sets.len() as u32;
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
        let first = self.probe.as_ref().map_or(0, |probe| probe.sets.start - self.plan.first_probe);
        let before =
            |address: u64, bytes: u32| address.wrapping_sub(u64::from(first) * u64::from(bytes));
        let words = before(signing.words, 4 * self.settings.signatures.shape.width);
        let (sets, hidden) = (signing.sets.numbered_from(first), before(signing.hidden, 4));
        let row_counts = if row_counts == 0 { 0 } else { before(row_counts, 4) };
        (Signed { sets, words, hidden }, row_counts)
    }
}

/// The arguments of the kernels of a work.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileArguments {
    /// The rows and columns that travel with the work.
    rows: Option<Signing>,
    columns: Option<Making>,
    tiles: TileWork,
}

impl DeviceJob for TileJob {
    /// The columns, unless they travel with the works.
    type Resident = Option<Arc<SignedColumns>>;
    type Tally = Tally;
    type Arguments = TileArguments;
    type Left = Left<Unit>;
    const ARRAYS: &'static str = "the buffers for tiles of signatures";

    fn is_at(&self, resident: &Self::Resident, stage: &Stage<'_>) -> bool {
        self.columns.is_some() || resident.as_ref().is_some_and(|columns| columns.is_at(stage))
    }

    fn declare<'a>(
        &'a self,
        device: &OnDevice<Self::Resident>,
        arena: &mut Arena<'a>,
    ) -> TileArguments {
        let Self { settings, plan, units, .. } = self;
        let Signatures { shape, scheme, members } = settings.signatures;
        let travelling = self.columns.as_ref().map(|TravellingColumns { sets, sizes }| {
            let (of_sets, row_counts) = sets.declare(arena);
            let counted = (of_sets, sets.sets.len() as u32);
            let making = Making::declare(arena, &settings.signatures, counted, sizes);
            (making, making.columns(sets.sets.start, row_counts))
        });
        let (making, columns) = travelling.unzip();
        let there = || device.resident.as_ref().map(|columns| columns.columns());
        let columns: Columns = columns.or_else(there).unwrap_or_default();
        let signing = self.declare_rows(arena);
        let (rows, probe_rows) = match &signing {
            Some((signing, row_counts)) => self.row_side(signing, *row_counts),
            None => (columns.signed, columns.row_counts),
        };
        let hits = if self.dense { 0 } else { u64::from(settings.capacity) };
        let tiles = TileWork {
            rows,
            columns: columns.signed,
            classes: columns.classes,
            stage_classes: columns.stage_classes,
            unions: columns.unions,
            table: arena.copied(&plan.table),
            runs: arena.copied(&plan.runs),
            strips: arena.copied(&plan.strips),
            units: arena.copied(units),
            hits: arena.room_of(hits, HIT_BYTES),
            redo: arena.room::<u32>(units.len() as u64),
            matches: arena.room::<Match>(settings.most_matches()),
            seen: match settings.first_only {
                true => arena.zeroed::<u32>(plan.rows.len() as u64),
                false => 0,
            },
            probe_rows,
            build_rows: columns.row_counts,
            tally: arena.start(),
            first_row: plan.rows.start,
            end_row: plan.rows.end,
            first_probe: plan.first_probe,
            column_count: self.column_count,
            run_count: plan.runs.len() as u32,
            unit_count: units.len() as u32,
            width: shape.width,
            members,
            strip_rows: shape.strip_rows,
            stage_columns: shape.stage_columns,
            capacity: settings.capacity,
            room: settings.capacity.min(shape.room),
            same: settings.same.into(),
            exact: settings.exact.into(),
            decides: scheme.is_exact().into(),
            reserved: 0,
        };
        TileArguments { rows: signing.map(|(signing, _)| signing), columns: making, tiles }
    }

    fn launch(
        &self,
        device: &OnDevice<Self::Resident>,
        TileArguments { rows, columns, tiles }: &TileArguments,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError> {
        let Self { settings, units, dense, .. } = self;
        let multiprocessors = device.multiprocessors;
        // SAFETY: the sets that travel, the sizes and all arrays are in the memory of the stage.
        unsafe {
            if let Some(columns) = columns {
                columns.launch(stage, multiprocessors)?;
            }
            if let Some(rows) = rows {
                sign(stage, rows, multiprocessors)?;
            }
        }
        if !dense {
            let TileShape { threads, blocks, shared_words, .. } = settings.signatures.shape;
            let kernel = stage.kernel(&TILES, settings.signatures.shape.name())?;
            let blocks = (units.len() as u32).min(blocks * multiprocessors).max(1);
            let grid = Grid { blocks, threads, shared_words: shared_words + tiles.room };
            // SAFETY: the kernel takes a `TileWork`. Its addresses are those of memory of this stage
            // and of the columns, which the work holds; units, strips and table are the plan's, which
            // names no row or stage beyond the signed ones.
            unsafe { stage.launch(kernel, grid, *tiles)? };
        }
        let decide = match (dense, settings.counts) {
            (false, false) => "tiles_decide_hits_pairs",
            (false, true) => "tiles_decide_hits_count",
            (true, false) => "tiles_decide_units_pairs",
            (true, true) => "tiles_decide_units_count",
        };
        let kernel = stage.kernel(&TILES, decide)?;
        let grid = deciding_grid(self.decided_pairs(), multiprocessors);
        // SAFETY: as above. There is room for the matches of all hits, or of all pairs of the units.
        unsafe { stage.launch(kernel, grid, *tiles) }
    }

    fn outcome(
        &self,
        TileArguments { tiles, .. }: &TileArguments,
        tally: Tally,
        results: &mut JobResults<'_, '_>,
    ) -> Result<Outcome<Left<Unit>>, DeviceError> {
        let Self { settings, units, .. } = self;
        let (redone, matches) = (tally.redone as usize, tally.found.matches);
        if redone > units.len() || !settings.counts && matches > settings.most_matches() {
            return Err(DeviceError::Internal(format!(
                "a kernel gave {redone} of {} units back and {matches} matches",
                units.len()
            )));
        }
        let mut left = Left::default();
        left.take(units, results.fetch(tiles.redo, redone)?)?;
        let given = if settings.counts { 0 } else { matches as usize };
        let Signatures { shape, scheme, members } = settings.signatures;
        let dense = if self.dense { settings.tile_pairs() * units.len() as u64 } else { 0 };
        let counters = JobCounters {
            kernel: shape.name(),
            tested: tally.tests,
            passed: tally.hits * u64::from(members) + dense,
            candidates: if scheme.is_exact() { matches } else { tally.compared },
            compared: tally.compared,
        };
        let matches = results.fetch(tiles.matches, given)?;
        Ok(Outcome { counted: tally.found.into(), matches, left, counters, ..Outcome::default() })
    }
}
