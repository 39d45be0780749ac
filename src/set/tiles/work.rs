//! Tiles as work for a device.

use std::sync::Arc;

use crate::engine::Match;
use crate::gpu::{DeviceError, DeviceWork, Grid, Results, Stage, Usage};
use crate::offload::{ALIGNMENT, Figures, Layout, Left, Outcome, Ticket, bytes_of, fetch};
use crate::set::device::abi::Sets;
use crate::set::offload::{TravelPlaces, TravellingSets};
use crate::set::tiles::abi::{HIT_BYTES, RowRun, Signed, Signing, Strip, Tally, TileWork, Unit};
use crate::set::tiles::columns::{Columns, SIGNING_THREADS, SignedColumns, SignedPlaces};
use crate::set::tiles::plan::Plan;
use crate::set::tiles::scheme::TileScheme;
use crate::set::tiles::shape::{TILES, TileShape};

/// Threads of a block that decides.
const DECIDING_THREADS: u32 = 128;

/// What the works of a join have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub shape: TileShape,
    pub scheme: TileScheme,
    /// Sets of a column.
    pub members: u32,
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

impl Form {
    /// The pairs of a strip and a stage.
    pub(super) fn tile_pairs(&self) -> u64 {
        let TileShape { strip_rows, stage_columns, .. } = self.shape;
        u64::from(strip_rows) * u64::from(stage_columns) * u64::from(self.members)
    }

    /// The most matches that a work gives: those of all hits, or of the smallest unit.
    pub(super) fn most_matches(&self) -> u64 {
        match self.counts {
            true => 0,
            false => (u64::from(self.capacity) * u64::from(self.members)).max(self.tile_pairs()),
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
    pub form: Form,
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
    /// The same rows with other units.
    pub(super) fn with(&self, form: Form, units: Vec<Unit>, dense: bool) -> Self {
        let plan = Arc::clone(&self.plan);
        let (probe, columns) = (self.probe.clone(), self.columns.clone());
        Self { form, plan, units, dense, probe, columns, ..*self }
    }

    /// The bytes that the work takes on a device.
    pub(super) fn bytes(&self) -> u64 {
        Places::of(self).end
    }
}

/// Where the arrays of a work lie in the memory of its stage, behind the tally.
#[derive(Debug, Clone, Copy)]
struct Places {
    runs: u64,
    strips: u64,
    units: u64,
    table: u64,
    probe: Option<TravelPlaces>,
    columns: Option<(TravelPlaces, SignedPlaces)>,
    words: u64,
    hidden: u64,
    hits: u64,
    redo: u64,
    seen: u64,
    matches: u64,
    /// Rows that are signed by the work.
    padded: u32,
    end: u64,
}

impl Places {
    fn of(job: &TileJob) -> Self {
        let TileJob { form, plan, units, .. } = job;
        let mut layout = Layout::default();
        layout.add(1, ALIGNMENT);
        let probe = job.probe.as_ref().map(|probe| probe.places(&mut layout));
        let columns = job.columns.as_ref().map(|columns| {
            let sets = columns.sets.places(&mut layout);
            let (count, sizes) = (columns.sets.sets.len() as u32, columns.sizes.len());
            (sets, SignedPlaces::of(&mut layout, count, &form.shape, form.members, sizes))
        });
        let travelling = job.probe.as_ref().map_or(0, |probe| probe.sets.len() as u32);
        let padded = travelling.next_multiple_of(form.shape.strip_rows);
        let signed = u64::from(padded);
        let hits = if job.dense { 0 } else { u64::from(form.capacity) };
        let seen = if form.first_only { plan.rows.len() as u64 } else { 0 };
        let mut add = |count: u64, bytes: usize| layout.add(count, bytes as u64);
        let runs = add(plan.runs.len() as u64, size_of::<RowRun>());
        let strips = add(plan.strips.len() as u64, size_of::<Strip>());
        let of_units = add(units.len() as u64, size_of::<Unit>());
        let table = add(plan.table.len() as u64, size_of::<u32>());
        let words = add(signed, form.shape.width as usize * size_of::<u32>());
        let hidden = add(signed, size_of::<u32>());
        let of_hits = add(hits, HIT_BYTES as usize);
        let redo = add(units.len() as u64, size_of::<u32>());
        let of_seen = add(seen, size_of::<u32>());
        let matches = add(form.most_matches(), size_of::<Match>());
        Self {
            runs,
            strips,
            units: of_units,
            table,
            probe,
            columns,
            words,
            hidden,
            hits: of_hits,
            redo,
            seen: of_seen,
            matches,
            padded,
            end: layout.end(),
        }
    }
}

/// A [`TileJob`] on its way through a device.
#[derive(Debug)]
pub(super) struct TileRun {
    job: TileJob,
    /// The device's, unless they travel with the work.
    columns: Option<Arc<SignedColumns>>,
    multiprocessors: u32,
    places: Option<Places>,
    tally: Tally,
    matches: Vec<Match>,
    left: Left<Unit>,
    ticket: Ticket<TileJob, Left<Unit>>,
}

impl TileRun {
    pub(super) fn new(
        job: TileJob,
        columns: Option<Arc<SignedColumns>>,
        multiprocessors: u32,
        ticket: Ticket<TileJob, Left<Unit>>,
    ) -> Self {
        Self {
            job,
            columns,
            multiprocessors,
            places: None,
            tally: Tally::default(),
            matches: vec![],
            left: Left::default(),
            ticket,
        }
    }

    /// What became of the pairs.
    fn figures(&self) -> Figures {
        let (TileJob { form, units, dense, .. }, tally) = (&self.job, &self.tally);
        let dense = if *dense { form.tile_pairs() * units.len() as u64 } else { 0 };
        Figures {
            kernel: form.shape.name(),
            tested: tally.tests,
            passed: tally.hits * u64::from(form.members) + dense,
            candidates: match form.scheme.is_exact() {
                true => tally.found.matches,
                false => tally.compared,
            },
            compared: tally.compared,
        }
    }

    /// Copies what the kernels read.
    fn copy(&self, stage: &mut Stage<'_>, places: &Places) -> Result<(), DeviceError> {
        let TileJob { plan, units, probe, columns, .. } = &self.job;
        let copies = [
            (places.runs, bytes_of(&plan.runs)),
            (places.strips, bytes_of(&plan.strips)),
            (places.units, bytes_of(units)),
            (places.table, bytes_of(&plan.table)),
        ];
        // SAFETY: the job keeps rows and columns until it is answered.
        unsafe {
            if let (Some(probe), Some(places)) = (probe, &places.probe) {
                probe.copy(stage, places)?;
            }
            if let (Some(columns), Some((sets, signed))) = (columns, &places.columns) {
                columns.sets.copy(stage, sets)?;
                stage.copy(signed.sizes(), bytes_of(columns.sizes.as_slice()))?;
            }
        }
        for (place, bytes) in copies {
            // SAFETY: the job keeps all of them as they are until it is answered.
            unsafe { stage.copy(place, bytes)? };
        }
        stage.clear(0, size_of::<Tally>())?;
        if self.job.form.first_only {
            stage.clear(places.seen, plan.rows.len() * size_of::<u32>())?;
        }
        Ok(())
    }

    /// The sets of the rows and the address of their row counts, where they travel with the work to
    /// `start`.
    fn row_sets(&self, start: u64, places: &Places) -> Option<(Sets, u64)> {
        Some(self.job.probe.as_ref()?.at(start, places.probe.as_ref()?))
    }

    /// The columns; `None` where they are not on the device of the stage.
    fn columns(&self, stage: &Stage<'_>, start: u64, places: &Places) -> Option<Columns> {
        let Some((sets, signed)) = &places.columns else {
            let there = self.columns.as_ref().filter(|columns| columns.is_at(stage));
            return there.map(|columns| columns.columns());
        };
        let TileJob { form, columns, .. } = &self.job;
        let columns = columns.as_ref()?;
        let (first, sets) = (columns.sets.sets.start, columns.sets.at(start, sets));
        Some(signed.columns(start, first, sets, (&form.shape, form.members)))
    }

    fn argument(&self, columns: &Columns, start: u64, places: &Places) -> TileWork {
        let TileJob { form, plan, units, probe, .. } = &self.job;
        let at = |place: u64| start + place;
        let (rows, probe_rows) = match (self.row_sets(start, places), probe) {
            (Some((sets, probe_rows)), Some(probe)) => {
                // The number of the first row: kernels add the number of a row.
                let first = u64::from(probe.sets.start - plan.first_probe);
                let before = |place: u64, bytes: u64| at(place).wrapping_sub(first * bytes);
                let words = before(places.words, 4 * u64::from(form.shape.width));
                let sets = sets.numbered_from(first as u32);
                let counts = if probe_rows == 0 { 0 } else { probe_rows.wrapping_sub(4 * first) };
                (Signed { sets, words, hidden: before(places.hidden, 4) }, counts)
            }
            _ => (columns.signed, columns.row_counts),
        };
        TileWork {
            rows,
            columns: columns.signed,
            classes: columns.classes,
            stage_classes: columns.stage_classes,
            unions: columns.unions,
            table: at(places.table),
            runs: at(places.runs),
            strips: at(places.strips),
            units: at(places.units),
            hits: at(places.hits),
            redo: at(places.redo),
            matches: at(places.matches),
            seen: if form.first_only { at(places.seen) } else { 0 },
            probe_rows,
            build_rows: columns.row_counts,
            tally: start,
            first_row: plan.rows.start,
            end_row: plan.rows.end,
            first_probe: plan.first_probe,
            column_count: self.job.column_count,
            run_count: plan.runs.len() as u32,
            unit_count: units.len() as u32,
            width: form.shape.width,
            members: form.members,
            strip_rows: form.shape.strip_rows,
            stage_columns: form.shape.stage_columns,
            capacity: form.capacity,
            room: form.capacity.min(form.shape.room),
            same: form.same.into(),
            exact: form.exact.into(),
            decides: form.scheme.is_exact().into(),
            reserved: 0,
        }
    }

    /// Signs the rows and columns that travel with the work.
    fn sign(&self, stage: &mut Stage<'_>, start: u64, places: &Places) -> Result<(), DeviceError> {
        let TileJob { form, probe, columns, .. } = &self.job;
        if let (Some(columns), Some((sets, signed))) = (columns, &places.columns) {
            let kind = (&form.shape, &form.scheme, form.members);
            let (count, classes) = (columns.sets.sets.len() as u32, columns.sizes.len());
            let (sets, _) = columns.sets.at(start, sets);
            let blocks = 8 * self.multiprocessors;
            // SAFETY: sets, sizes and all arrays are in the memory of the stage.
            unsafe { signed.launch(stage, start, (sets, count), kind, (classes, blocks))? };
        }
        let (Some((sets, _)), Some(probe)) = (self.row_sets(start, places), probe) else {
            return Ok(());
        };
        let signing = form.scheme.fill(Signing {
            sets,
            words: start + places.words,
            hidden: start + places.hidden,
            classes: 0,
            sizes: 0,
            size_count: 0,
            count: probe.sets.len() as u32,
            padded: places.padded,
            width: 0,
            universe: 0,
            owned: 0,
            hashed_log: 0,
            reserved: 0,
        });
        let kernel = stage.kernel(&TILES, "tiles_sign")?;
        let blocks = places.padded.div_ceil(SIGNING_THREADS / 32);
        let blocks = blocks.clamp(1, 8 * self.multiprocessors);
        let grid = Grid { blocks, threads: SIGNING_THREADS, shared_words: 0 };
        // SAFETY: the kernel takes a `Signing`; there is room for the rows in the memory of the stage.
        unsafe { stage.launch(kernel, grid, signing) }
    }

    /// The number of blocks that decide.
    fn deciding_blocks(&self) -> u32 {
        let TileJob { form, units, .. } = &self.job;
        let pairs = match self.job.dense {
            true => form.tile_pairs() * units.len() as u64,
            false => u64::from(form.capacity) * u64::from(form.members),
        };
        let blocks = pairs.div_ceil(u64::from(DECIDING_THREADS));
        blocks.clamp(1, u64::from(8 * self.multiprocessors)) as u32
    }
}

impl DeviceWork for TileRun {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        if self.job.units.is_empty() || !self.ticket.is_wanted() {
            return Ok(());
        }
        let places = Places::of(&self.job);
        let start = stage.reserve("the buffers for tiles of signatures", places.end)?;
        let Some(columns) = self.columns(stage, start, &places) else {
            return Err(DeviceError::Internal("tiles of another device".to_string()));
        };
        self.copy(stage, &places)?;
        self.sign(stage, start, &places)?;
        let work = self.argument(&columns, start, &places);
        let TileJob { form, units, dense, .. } = &self.job;
        if !dense {
            let kernel = stage.kernel(&TILES, form.shape.name())?;
            let blocks = (units.len() as u32).min(form.shape.blocks * self.multiprocessors);
            let threads = form.shape.threads;
            let shared_words = form.shape.shared_words + work.room;
            let grid = Grid { blocks: blocks.max(1), threads, shared_words };
            // SAFETY: the kernel takes a `TileWork`. Its addresses are those of memory of this stage
            // and of the columns, which the work holds; units, strips and table are the plan's, which
            // names no row or stage beyond the signed ones.
            unsafe { stage.launch(kernel, grid, work)? };
        }
        let decide = match (dense, form.counts) {
            (false, false) => "tiles_decide_hits_pairs",
            (false, true) => "tiles_decide_hits_count",
            (true, false) => "tiles_decide_units_pairs",
            (true, true) => "tiles_decide_units_count",
        };
        let kernel = stage.kernel(&TILES, decide)?;
        let grid =
            Grid { blocks: self.deciding_blocks(), threads: DECIDING_THREADS, shared_words: 0 };
        // SAFETY: as above. There is room for the matches of all hits, or of all pairs of the units.
        unsafe { stage.launch(kernel, grid, work)? };
        stage.note(0, size_of::<Tally>())?;
        self.places = Some(places);
        Ok(())
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        let Some(places) = &self.places else { return Ok(()) };
        let TileJob { form, units, .. } = &self.job;
        let tally: Tally = results.note()?;
        let (redone, matches) = (tally.redone as usize, tally.found.matches);
        if redone > units.len() || !form.counts && matches > form.most_matches() {
            return Err(DeviceError::Internal(format!(
                "a kernel gave {redone} of {} units back and {matches} matches",
                units.len()
            )));
        }
        self.left.take(units, fetch(results, places.redo, redone)?)?;
        if !form.counts {
            self.matches = fetch(results, places.matches, matches as usize)?;
        }
        self.tally = tally;
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        let figures = self.figures();
        let Self { job, columns, tally, matches, left, ticket, .. } = *self;
        // Dropped first, so that the receiver of the answer can use their memory.
        drop(columns);
        let (counted, undecided) = (tally.found.into(), vec![]);
        ticket.done(
            job,
            outcome.map(|usage| Outcome { counted, matches, undecided, left, figures, usage }),
        );
    }
}
