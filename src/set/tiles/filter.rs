//! Signature tiles as a filter on devices.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::engine::{Collection, Match, Pairing};
use crate::gpu::DeviceWork;
use crate::offload::{
    Again, DeviceFilter, DeviceJob, DeviceTask, EachDevice, Left, OnHost, OpenUnit, TicketOf,
    Undecided,
};
use crate::set::offload::TravellingSets;
use crate::set::tiles::abi::{OCTET, Unit};
use crate::set::tiles::pieces::Pieces;
use crate::set::tiles::plan::{Overlaps, Probe, Tiling};
use crate::set::tiles::work::{JobSettings, TileJob, TravellingColumns};
use crate::set::{JoinSpec, SelfMatches, SetCollection, SetId, SetUnit};

/// The most ranges of a self-join for each device: each is a work or more.
const WORKS: u32 = 48;
/// The part of the hits that a job has room for which a smaller job gets, and the least room.
const SMALLER: u32 = 4;
const LEAST_CAPACITY: u32 = 1 << 10;

/// A signed build side on the devices of a join.
#[derive(Debug)]
pub(super) struct Tiles {
    pub build: Arc<SetCollection>,
    pub spec: JoinSpec,
    pub settings: JobSettings,
    pub tiling: Tiling,
    /// The devices hold the probe sets: these are the build sets.
    pub resident: bool,
    pub devices: EachDevice<TileJob>,
    /// The pieces of a build side that does not fit on the devices.
    pub pieces: Option<Pieces>,
}

/// The memory that a cursor keeps from plan to plan.
#[derive(Debug, Default)]
pub(super) struct TileScratch {
    overlaps: Overlaps,
    /// The rows that meet one piece of the columns after the other.
    rows: Option<RowsOfPieces>,
}

/// Rows on their way past the pieces of the columns that they admit.
#[derive(Debug)]
struct RowsOfPieces {
    rows: Range<SetId>,
    /// Those that have not met the first of the pieces.
    left: Range<SetId>,
    columns: Range<SetId>,
    pieces: Range<usize>,
}

impl DeviceFilter for Tiles {
    type Items = SetCollection;
    type Itself = SelfMatches;
    type Job = TileJob;
    type Left = Left<Unit>;
    type Scratch = TileScratch;
    type Undecided = UndecidedTiles;

    fn itself(&self, unit: &SetUnit) -> Option<SelfMatches> {
        SelfMatches::of(unit, &self.spec)
    }

    fn rows_of(&self, sets: Range<SetId>) -> Range<SetId> {
        self.tiling.rows_of(&self.build, &self.spec, sets)
    }

    fn plan(
        &self,
        scratch: &mut TileScratch,
        unit: &SetUnit,
        left: &mut Range<SetId>,
        reservation: &MemoryReservation,
    ) -> Result<Vec<TileJob>> {
        let columns = match self.spec.pairing {
            Pairing::All => 0..self.build.len(),
            Pairing::Unordered => unit.range.clone(),
        };
        let TileScratch { overlaps, rows } = scratch;
        let Some(pieces) = &self.pieces else {
            let job = self.job(overlaps, unit, columns, None, left, reservation)?;
            return Ok(job.into_iter().collect());
        };
        let met = rows.get_or_insert_with(|| self.rows_of_pieces(pieces, unit, columns, left));
        let Some(piece) = met.pieces.next() else {
            left.start = met.rows.end;
            *rows = None;
            return Ok(vec![]);
        };
        let piece = pieces.get(piece);
        let columns = met.columns.start.max(piece.start)..met.columns.end.min(piece.end);
        let mut jobs = vec![];
        while !met.left.is_empty() {
            let columns = columns.clone();
            jobs.extend(self.job(
                overlaps,
                unit,
                columns,
                Some(&piece),
                &mut met.left,
                reservation,
            )?);
        }
        met.left = met.rows.clone();
        Ok(jobs)
    }

    fn is_on(&self, place: usize) -> bool {
        self.devices.get(place).is_some_and(Option::is_some)
    }

    fn work(&self, place: usize, job: TileJob, ticket: TicketOf<Self>) -> Box<dyn DeviceWork> {
        DeviceTask::boxed(&self.devices, place, job, ticket)
    }

    fn again(&self, job: &TileJob, left: Left<Unit>, unit: Option<&OpenUnit>) -> Vec<TileJob> {
        let needed =
            |tile: &Unit| unit.is_none_or(|unit| unit.needs_any(self.probes_of(job, tile)));
        let Again { sparse, dense } = left.jobs(job.units.len(), needed);
        let sparse = sparse.into_iter().map(|units| job.with(job.settings, units, false));
        let dense = dense.chunks(job.settings.most_dense_units());
        sparse.chain(dense.map(|units| job.with(job.settings, units.to_vec(), true))).collect()
    }

    /// Jobs with room for fewer hits and matches, where these are what takes the memory.
    fn smaller(&self, job: &TileJob) -> Option<Vec<TileJob>> {
        let settings = JobSettings { capacity: job.settings.capacity / SMALLER, ..job.settings };
        let saves = job.settings.buffer_bytes() - settings.buffer_bytes();
        if settings.capacity < LEAST_CAPACITY || saves < self.bytes_of(job) / 2 {
            return None;
        }
        let units = if job.dense { settings.most_dense_units() } else { job.units.len() };
        let jobs = job.units.chunks(units.max(1));
        Some(jobs.map(|units| job.with(settings, units.to_vec(), job.dense)).collect())
    }

    fn undecided(&self, job: &TileJob) -> OnHost<UndecidedTiles> {
        OnHost::Join(UndecidedTiles::new(job))
    }

    fn most_matches(&self) -> u64 {
        self.settings.most_matches()
    }

    fn range_unit(&self) -> u32 {
        self.tiling.stage_sets
    }

    /// A work has about a tenth of a millisecond of the device's time to fill, at least; one whose
    /// columns travel is worth the way.
    fn least_range(&self) -> u32 {
        let most = WORKS * self.devices.len().max(1) as u32;
        let works = self.pieces.as_ref().map_or(most, |pieces| pieces.len().min(most));
        let part = self.build.len() / works.max(1);
        part.next_multiple_of(self.tiling.stage_sets)
    }
}

impl Tiles {
    /// The bytes that a job takes on a device.
    fn bytes_of(&self, job: &TileJob) -> u64 {
        self.devices.iter().flatten().next().map_or(0, |device| job.bytes(device))
    }

    /// The next rows of a unit that travel together, and the pieces of the columns that they meet.
    fn rows_of_pieces(
        &self,
        pieces: &Pieces,
        unit: &SetUnit,
        columns: Range<SetId>,
        left: &Range<SetId>,
    ) -> RowsOfPieces {
        let rows = pieces.rows(self.row_sets(unit), left);
        let (build, probe) = (&self.build, self.row_sets(unit));
        let columns = self.tiling.columns_of(build, probe, &self.spec, rows.clone(), columns);
        RowsOfPieces { left: rows.clone(), rows, pieces: pieces.of(&columns), columns }
    }

    /// The collection that the rows of a unit belong to.
    fn row_sets<'a>(&'a self, unit: &'a SetUnit) -> &'a Arc<SetCollection> {
        if self.settings.same { &self.build } else { &unit.items }
    }

    /// The job for the first rows of `left` and for columns, which travel with the job where they are
    /// those of a piece; `None` where no pair can match.
    fn job(
        &self,
        overlaps: &mut Overlaps,
        unit: &SetUnit,
        columns: Range<SetId>,
        piece: Option<&Range<SetId>>,
        left: &mut Range<SetId>,
        reservation: &MemoryReservation,
    ) -> Result<Option<TileJob>> {
        let Self { build, spec, settings, tiling, resident, .. } = self;
        let sets = self.row_sets(unit);
        let numbered = *resident || settings.same;
        let probe = Probe { sets, numbered, travels: !resident };
        let (mut plan, units) =
            tiling.plan(build, probe, spec, (&unit.range, columns.clone()), left, overlaps);
        if units.is_empty() {
            return Ok(None);
        }
        let rows = match numbered {
            true => plan.rows.start - plan.rows.start % OCTET..plan.rows.end,
            false => plan.sets.clone(),
        };
        let probe = (!resident).then(|| TravellingSets::new(sets, rows, settings.counts));
        let columns = piece.map(|piece| {
            // Whole stages.
            let stage_sets = tiling.stage_sets;
            let end = columns.end.next_multiple_of(stage_sets).min(piece.end);
            let sets = columns.start / stage_sets * stage_sets..end;
            let sizes = Arc::clone(&tiling.sizes);
            TravellingColumns { sets: TravellingSets::new(build, sets, settings.counts), sizes }
        });
        // Units that are done again are split into eight.
        let units_again = 9 * units.len() * size_of::<Unit>();
        let travelling = [probe.as_ref(), columns.as_ref().map(|columns| &columns.sets)];
        let counts = travelling.into_iter().flatten().map(|sets| size_of_val(&sets.row_counts[..]));
        let bytes = plan.size_in_bytes() + units_again + counts.sum::<usize>();
        let reservation = reservation.new_empty();
        reservation.try_grow(bytes)?;
        plan.reservation = Some(reservation);
        let (settings, plan, column_count) = (*settings, Arc::new(plan), build.len());
        Ok(Some(TileJob { settings, plan, units, dense: false, probe, columns, column_count }))
    }

    /// The probe sets that are the rows of a unit of tiles, where one match for each will do.
    fn probes_of(&self, job: &TileJob, unit: &Unit) -> Range<SetId> {
        let Range { start, end } = job.plan.rows;
        let first = job.plan.strips[unit.strip as usize].first;
        let rows = first.max(start)
            ..first.saturating_add(self.settings.signatures.shape.strip_rows).min(end);
        rows.start + job.plan.first_probe..rows.end + job.plan.first_probe
    }
}

/// A job whose tiles no device has decided.
pub(super) struct UndecidedTiles {
    job: TileJob,
    /// By strip, the stages that are undecided.
    stages: HashMap<u32, Vec<Range<u32>>>,
}

impl UndecidedTiles {
    fn new(job: &TileJob) -> Self {
        let mut stages: HashMap<u32, Vec<Range<u32>>> = HashMap::new();
        for unit in &job.units {
            let range = unit.first_stage..unit.first_stage + unit.stages;
            stages.entry(unit.strip).or_default().push(range);
        }
        Self { job: job.with(job.settings, vec![], job.dense), stages }
    }
}

impl Undecided for UndecidedTiles {
    fn collection(&self) -> Option<Arc<dyn Collection>> {
        self.job.probe.as_ref().map(|probe| Arc::clone(&probe.collection) as _)
    }

    fn probes(&self) -> Range<SetId> {
        self.job.plan.sets.clone()
    }

    fn holds(&self, found: &Match) -> bool {
        let TileJob { settings, plan, .. } = &self.job;
        if !plan.sets.contains(&found.probe) {
            return false;
        }
        let (row, column) = match settings.same {
            true => (found.build, found.probe),
            false => (found.probe - plan.first_probe, found.build),
        };
        if settings.same && row >= column {
            return false;
        }
        let strips = plan.strips.partition_point(|strip| strip.first <= row);
        let Some(strip) = strips.checked_sub(1) else { return false };
        let is_planned = plan.rows.contains(&row)
            && row - plan.strips[strip].first < settings.signatures.shape.strip_rows;
        let stage =
            column / (settings.signatures.shape.stage_columns * settings.signatures.members);
        let stages = self.stages.get(&(strip as u32));
        is_planned
            && stages.is_some_and(|stages| stages.iter().any(|stages| stages.contains(&stage)))
    }
}
