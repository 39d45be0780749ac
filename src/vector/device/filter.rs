//! Tiles of vectors as a filter on devices.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::engine::{
    Collection, ItemId, Match, MatchBuffer, MatchOrder, Pairing, PrepareContext, Unit,
};
use crate::gpu::DeviceWork;
use crate::offload::{
    Again, DeviceFilter, DeviceJob, DeviceTask, EachDevice, Itself, Left, OnHost, OpenUnit,
    TicketOf, Undecided,
};
use crate::vector::boxes::Boxes;
use crate::vector::collection::Vectors;
use crate::vector::device::abi::{OCTET, VectorUnit};
use crate::vector::device::plan::{Plan, Planned, Probe, Tiling};
use crate::vector::device::travel::TravellingVectors;
use crate::vector::device::work::{JobSettings, TravellingColumns, VectorJob};
use crate::vector::metric::{ArgumentOrder, Threshold};
use crate::vector::order::Reach;

/// The most ranges of a self-join for each device: each is a work or more.
const WORKS: u32 = 48;
/// The part of the hits that a job has room for which a smaller job gets, and the least room.
const SMALLER: u32 = 4;
const LEAST_CAPACITY: u32 = 1 << 10;

/// A prepared build side on the devices of a join.
#[derive(Debug)]
pub(super) struct VectorFilter {
    pub build: Arc<Vectors>,
    pub threshold: Threshold,
    pub orders: ArgumentOrder,
    pub pairing: Pairing,
    pub settings: JobSettings,
    pub tiling: Tiling,
    /// The devices hold the probe vectors: these are the build vectors.
    pub resident: bool,
    pub devices: EachDevice<VectorJob>,
    /// The pieces of a build side that does not fit on the devices.
    pub pieces: Option<Pieces>,
    /// Which stages are in reach of each other, where the vectors have boxes and are resident.
    pub reach: Option<OwnReach>,
}

/// The boxes of stages, with their memory.
#[derive(Debug)]
pub(super) struct OwnReach {
    reach: Reach,
    _memory: MemoryReservation,
}

/// A build side that travels with the works, rows and columns, piece by piece.
#[derive(Debug)]
pub(super) struct Pieces {
    /// The columns of a work, in whole stages.
    pub columns: u32,
    /// By dimension, what is subtracted; none for products.
    pub centre: Arc<Vec<u64>>,
}

/// The rows that a cursor keeps from plan to plan, on their way past the pieces of the columns.
#[derive(Debug, Default)]
pub(super) struct Moving(Option<MovingRows>);

#[derive(Debug)]
struct MovingRows {
    rows: Range<ItemId>,
    vectors: Arc<TravellingVectors>,
    /// The first column of the next piece.
    next: ItemId,
}

/// Devices decide the pairs of vectors with themselves, too.
pub(super) enum NoItself {}

impl Itself for NoItself {
    fn give(&mut self, _: &mut MatchBuffer, _: &mut u64) -> Result<bool> {
        match *self {}
    }
}

impl OwnReach {
    /// The boxes of the stages of some vectors, where these have boxes.
    ///
    /// # Errors
    ///
    /// Where memory is refused.
    pub(super) fn of(
        vectors: &Vectors,
        stage_columns: u32,
        context: PrepareContext<'_>,
    ) -> Result<Option<Self>> {
        let Some(boxes) = vectors.boxes() else { return Ok(None) };
        let memory = context.reservation.new_empty();
        memory.try_grow(Reach::bytes(boxes, vectors.len(), stage_columns))?;
        let reach = Reach::of(boxes, vectors.len(), stage_columns, context.threads);
        Ok(Some(Self { reach, _memory: memory }))
    }

    /// The boxes.
    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }
}

impl VectorFilter {
    /// The bytes that a job takes on a device.
    fn bytes_of(&self, job: &VectorJob) -> u64 {
        self.devices.iter().flatten().next().map_or(0, |device| job.bytes(device))
    }

    /// The boxes of rows and stages.
    fn boxes(&self) -> Option<(&Boxes, &Reach)> {
        self.build.boxes().zip(self.reach.as_ref().map(OwnReach::reach))
    }

    /// The vectors that some rows travel as.
    fn travelling(
        &self,
        items: &Arc<Vectors>,
        range: Range<ItemId>,
        reservation: &MemoryReservation,
    ) -> Result<Arc<TravellingVectors>> {
        let (dimensions, counts) = (self.tiling.dimensions, self.settings.counts);
        TravellingVectors::new(items, range, dimensions, counts, reservation).map(Arc::new)
    }

    /// The jobs for the next piece of the columns.
    fn jobs_of_piece(
        &self,
        Moving(moving): &mut Moving,
        pieces: &Pieces,
        unit: &Unit<Vectors>,
        left: &mut Range<ItemId>,
        reservation: &MemoryReservation,
    ) -> Result<Vec<VectorJob>> {
        let MovingRows { rows, vectors, next } = match moving {
            Some(moving) => moving,
            None => {
                let end = left.end.min(left.start.saturating_add(self.tiling.most_rows));
                // Rows that are columns of the same number have the numbers of their items.
                let before = if self.settings.same { left.start % OCTET } else { 0 };
                let items = left.start - before..end;
                let vectors = self.travelling(&unit.items, items, reservation)?;
                moving.insert(MovingRows { rows: left.start..end, vectors, next: 0 })
            }
        };
        if *next >= self.build.len() {
            left.start = rows.end;
            *moving = None;
            return Ok(vec![]);
        }
        let columns = *next..self.build.len().min(next.saturating_add(pieces.columns));
        *next = columns.end;
        let (mut rest, mut jobs, mut piece) = (rows.clone(), vec![], None);
        while !rest.is_empty() {
            let Some(job) = self.job(unit, &columns, Some(vectors), &mut rest, reservation)? else {
                continue;
            };
            let vectors = match &piece {
                Some(vectors) => Arc::clone(vectors),
                None => {
                    let vectors = self.travelling(&self.build, columns.clone(), reservation)?;
                    Arc::clone(piece.insert(vectors))
                }
            };
            let centre = Arc::clone(&pieces.centre);
            jobs.push(VectorJob { columns: Some(TravellingColumns { vectors, centre }), ..job });
        }
        Ok(jobs)
    }

    /// The job for the first rows of `left`, which may have been made to travel, and some columns;
    /// `None` where no pair can match.
    fn job(
        &self,
        unit: &Unit<Vectors>,
        columns: &Range<ItemId>,
        moving: Option<&Arc<TravellingVectors>>,
        left: &mut Range<ItemId>,
        reservation: &MemoryReservation,
    ) -> Result<Option<VectorJob>> {
        let Self { build, threshold, settings, tiling, resident, .. } = self;
        let function = threshold.metric.function().name();
        let (same, resident) = (settings.same, *resident);
        let first_probe = match moving {
            _ if resident || same => Some(0),
            Some(moving) => Some(moving.items.start),
            None => None,
        };
        let boxes = self.boxes();
        let probe = Probe { items: &unit.items, function, same, first_probe, columns, boxes };
        let planned = tiling.plan(build, probe, &unit.range, left)?;
        if threshold.is_void() {
            return Ok(None);
        }
        let job = |plan: Plan, units: Vec<VectorUnit>, probe, left_to_cpu| VectorJob {
            settings: *settings,
            plan: Arc::new(plan),
            units,
            dense: false,
            probe,
            columns: None,
            column_count: build.len(),
            left_to_cpu,
        };
        let (mut plan, units) = match planned {
            Planned::Tiles(_, units) if units.is_empty() => return Ok(None),
            Planned::Tiles(plan, units) => (plan, units),
            Planned::Rest(probes) => {
                let plan = Plan { probes, ..Plan::default() };
                let probe = match resident {
                    true => None,
                    false => Some(Arc::new(TravellingVectors::nothing(&unit.items, reservation))),
                };
                return Ok(Some(job(plan, vec![], probe, true)));
            }
        };
        let probe = match moving {
            Some(moving) => Some(Arc::clone(moving)),
            None if resident => None,
            None => {
                let items = plan.first_probe..plan.first_probe + plan.rows.end;
                Some(self.travelling(&unit.items, items, reservation)?)
            }
        };
        // Units that are done again are split into eight, or cut for each of their pairs.
        let parts = settings.dense_parts().max(8) as usize;
        let memory = reservation.new_empty();
        let of_units = (1 + parts) * units.len() * size_of::<VectorUnit>();
        memory.try_grow(plan.size_in_bytes() + of_units)?;
        plan.reservation = Some(memory);
        Ok(Some(job(plan, units, probe, false)))
    }

    /// The probe items that are the rows of a unit of tiles, where one match for each will do.
    fn probes_of(&self, job: &VectorJob, unit: &VectorUnit) -> Range<ItemId> {
        let Range { start, end } = job.plan.rows;
        let first = unit.first_row;
        let rows = first.max(start)..first.saturating_add(self.tiling.shape.strip_rows).min(end);
        rows.start + job.plan.first_probe..rows.end + job.plan.first_probe
    }
}

impl DeviceFilter for VectorFilter {
    type Items = Vectors;
    type Itself = NoItself;
    type Job = VectorJob;
    type Left = Left<VectorUnit>;
    type Scratch = Moving;
    type Undecided = UndecidedTiles;

    fn itself(&self, _: &Unit<Vectors>) -> Option<NoItself> {
        None
    }

    fn rows_of(&self, items: Range<ItemId>) -> Range<ItemId> {
        if self.pairing == Pairing::All || items.is_empty() {
            return items;
        }
        let run = self.build.run_of(items.start);
        run.map_or(items.start, |run| run.items.start)..items.end
    }

    fn plan(
        &self,
        moving: &mut Moving,
        unit: &Unit<Vectors>,
        left: &mut Range<ItemId>,
        reservation: &MemoryReservation,
    ) -> Result<Vec<VectorJob>> {
        if let Some(pieces) = &self.pieces {
            return self.jobs_of_piece(moving, pieces, unit, left, reservation);
        }
        let job = self.job(unit, &(0..self.build.len()), None, left, reservation)?;
        Ok(job.into_iter().collect())
    }

    fn is_on(&self, device: usize) -> bool {
        self.devices.get(device).is_some_and(Option::is_some)
    }

    fn suits_devices(&self, job: &VectorJob) -> bool {
        !job.left_to_cpu
    }

    fn work(&self, device: usize, job: VectorJob, ticket: TicketOf<Self>) -> Box<dyn DeviceWork> {
        DeviceTask::boxed(&self.devices, device, job, ticket)
    }

    fn again(
        &self,
        job: &VectorJob,
        left: Left<VectorUnit>,
        unit: Option<&OpenUnit>,
    ) -> Vec<VectorJob> {
        let needed =
            |tile: &VectorUnit| unit.is_none_or(|unit| unit.needs_any(self.probes_of(job, tile)));
        let Again { sparse, dense } = left.jobs(job.units.len(), needed);
        let sparse = sparse.into_iter().map(|units| job.with(job.settings, units, false));
        let most = match job.dense {
            // They had too many undecided pairs together.
            true => (job.units.len() / 8).max(1),
            false => job.settings.most_dense_units(),
        };
        sparse.chain(job.densely(&dense, most)).collect()
    }

    /// Jobs with room for fewer hits and matches, where these are what takes the memory.
    fn smaller(&self, job: &VectorJob) -> Option<Vec<VectorJob>> {
        let settings = JobSettings { capacity: job.settings.capacity / SMALLER, ..job.settings };
        let saves = job.settings.buffer_bytes() - settings.buffer_bytes();
        if settings.capacity < LEAST_CAPACITY || saves < self.bytes_of(job) / 2 {
            return None;
        }
        let units = if job.dense { settings.most_dense_units() } else { job.units.len() };
        let jobs = job.units.chunks(units.max(1));
        Some(jobs.map(|units| job.with(settings, units.to_vec(), job.dense)).collect())
    }

    fn undecided(&self, job: &VectorJob) -> OnHost<UndecidedTiles> {
        OnHost::Join(UndecidedTiles::new(job))
    }

    /// By the numbers as they were given.
    fn decide(&self, unit: &Unit<Vectors>, pair: &mut Match) -> Result<Option<MatchOrder>> {
        let (x, y) = (unit.items.vector(pair.probe), self.build.vector(pair.build));
        Ok(self.threshold.decide(x, y, self.orders)?.order())
    }

    fn most_matches(&self) -> u64 {
        self.settings.most_matches()
    }

    fn range_unit(&self) -> u32 {
        self.tiling.shape.stage_columns
    }

    /// A work has about a tenth of a millisecond of the device's time to fill, at least.
    fn least_range(&self) -> u32 {
        let works = WORKS * self.devices.len().max(1) as u32;
        (self.build.len() / works).next_multiple_of(self.tiling.shape.stage_columns)
    }
}

/// A job whose tiles no device has decided.
pub(super) struct UndecidedTiles {
    plan: Arc<Plan>,
    collection: Option<Arc<Vectors>>,
    same: bool,
    strip_rows: u32,
    stage_columns: u32,
    /// By the first row of a strip, the stages that are undecided. None: all pairs are.
    stages: Option<BTreeMap<u32, Vec<Range<u32>>>>,
}

impl UndecidedTiles {
    fn new(job: &VectorJob) -> Self {
        let mut stages: BTreeMap<u32, Vec<Range<u32>>> = BTreeMap::new();
        for unit in &job.units {
            stages.entry(unit.first_row).or_default().extend(job.stages_of(*unit));
        }
        let shape = &job.settings.preparation.shape;
        Self {
            plan: Arc::clone(&job.plan),
            collection: job.probe.as_ref().map(|probe| Arc::clone(&probe.collection)),
            same: job.settings.same,
            strip_rows: shape.strip_rows,
            stage_columns: shape.stage_columns,
            stages: (!job.units.is_empty()).then_some(stages),
        }
    }
}

impl Undecided for UndecidedTiles {
    fn collection(&self) -> Option<Arc<dyn Collection>> {
        self.collection.as_ref().map(|collection| Arc::clone(collection) as _)
    }

    fn probes(&self) -> Range<ItemId> {
        self.plan.probes.clone()
    }

    fn holds(&self, found: &Match) -> bool {
        let Self { plan, stages, .. } = self;
        if !plan.probes.contains(&found.probe) || self.same && found.build > found.probe {
            return false;
        }
        let Some(stages) = stages else { return true };
        let (row, column) = match self.same {
            true => (found.build, found.probe),
            false => (found.probe - plan.first_probe, found.build),
        };
        let strip = stages.range(..=row).next_back();
        let stage = column / self.stage_columns;
        plan.rows.contains(&row)
            && strip.is_some_and(|(first, stages)| {
                row - first < self.strip_rows && stages.iter().any(|range| range.contains(&stage))
            })
    }
}
