//! Filters by inverted index as filters on devices.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::filter::size_bounds::SizeBoundsCache;
use simjoin_core::set::itself::SelfMatches;
use simjoin_core::set::join_spec::{JoinSpec, SetUnit};
use simjoin_core::set::runs::SetId;

use crate::engine::{Collection, Match};
use crate::error::Result;
use crate::memory::Memory;
use crate::offload::{
    DeviceFilter, DeviceJob, DeviceTask, EachDevice, OnHost, OpenUnit, TicketOf, Undecided,
};
use crate::runtime::DeviceWork;
use crate::set::bwjoin::abi::RowState;
use crate::set::bwjoin::index::IndexShape;
use crate::set::bwjoin::plan::{LookupPlan, PlanLimits, Planner};
use crate::set::bwjoin::work::{IndexJob, JobSettings, WorkRows};
use crate::set::offload::TravellingSets;

/// The most ranges of a self-join for each device: each is a work or more, and most works are short.
const WORKS: u32 = 16;
/// Rows that are done again in one job, at least.
const LEAST_ROWS: usize = 1 << 10;
/// The part of a job that a smaller one is.
const SMALLER: u32 = 4;

/// An indexed build side on the devices of a join.
#[derive(Debug)]
pub(super) struct IndexFilter {
    pub build: Arc<SetCollection>,
    pub spec: JoinSpec,
    pub settings: JobSettings,
    pub limits: PlanLimits,
    /// The devices hold the probe sets: these are the build sets.
    pub resident: bool,
    pub shape: Arc<IndexShape>,
    /// The devices, each with the index.
    pub devices: EachDevice<IndexJob>,
}

/// A plan that is looked up in one part of the index after the other.
#[derive(Debug, Default)]
pub(super) struct Planning {
    bounds: Option<SizeBoundsCache>,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    unit: u32,
    plan: Arc<LookupPlan>,
    probe: Option<TravellingSets>,
    /// The parts that are left.
    parts: Range<usize>,
}

impl IndexFilter {
    /// The plan of the first rows of `left`.
    fn begin(
        &self,
        bounds: &mut Option<SizeBoundsCache>,
        unit: &SetUnit,
        mut left: Range<SetId>,
        reservation: &dyn Memory,
    ) -> Result<Current> {
        let Self { build, spec, limits, resident, shape, .. } = self;
        let bounds = bounds.get_or_insert_with(|| SizeBoundsCache::new(spec, build.runs()));
        let whole = self.settings.lookup.takes_all_tokens();
        let (limits, resident) = (*limits, *resident);
        let planner = Planner { build, spec, sizes: &shape.sizes, whole, resident, limits };
        let mut plan = planner.plan(&unit.items, &mut left, bounds);
        let travel = || TravellingSets::new(&unit.items, plan.sets.clone(), self.settings.counts);
        let probe = (!resident).then(travel);
        let rows = probe.as_ref().map_or(0, |probe| probe.row_counts.len()) * size_of::<u32>();
        let reservation = reservation.new_empty();
        reservation.try_grow(plan.size_in_bytes() + rows)?;
        plan.reservation = Some(reservation);
        let parts = shape.parts_of(&plan.columns);
        Ok(Current { unit: unit.number, plan: Arc::new(plan), probe, parts })
    }
}

impl DeviceFilter for IndexFilter {
    type Items = SetCollection;
    type Itself = SelfMatches;
    type Job = IndexJob;
    type Left = Vec<RowState>;
    type Scratch = Planning;
    type Undecided = UndecidedRows;

    fn itself(&self, unit: &SetUnit) -> Option<SelfMatches> {
        SelfMatches::of(unit, &self.spec)
    }

    fn rows_of(&self, sets: Range<SetId>) -> Range<SetId> {
        sets
    }

    fn plan(
        &self,
        planning: &mut Planning,
        unit: &SetUnit,
        left: &mut Range<SetId>,
        reservation: &dyn Memory,
    ) -> Result<Vec<IndexJob>> {
        let Planning { bounds, current } = planning;
        let mut now = match current.take().filter(|current| current.unit == unit.number) {
            Some(current) => current,
            None => self.begin(bounds, unit, left.clone(), reservation)?,
        };
        let Current { plan, parts, .. } = &mut now;
        let met = parts.find_map(|part| {
            let columns = self.shape.parts[part].sets.clone();
            Some((part, plan.rows_meeting(&columns)?, columns))
        });
        let Some((part, rows, columns)) = met else {
            left.start = now.plan.sets.end;
            return Ok(vec![]);
        };
        let memory = reservation.new_empty();
        // A row is left once: on its way, and in a list of those that wait.
        memory.try_grow(2 * rows.len() * size_of::<RowState>())?;
        let job = IndexJob {
            settings: self.settings.clone(),
            plan: Arc::clone(&now.plan),
            part,
            columns,
            rows: WorkRows::All(rows),
            probe: now.probe.clone(),
            _memory: Arc::new(memory),
        };
        match now.parts.is_empty() {
            true => left.start = now.plan.sets.end,
            false => *current = Some(now),
        }
        Ok(vec![job])
    }

    fn is_on(&self, place: usize) -> bool {
        self.devices.get(place).is_some_and(Option::is_some)
    }

    fn work(&self, place: usize, job: IndexJob, ticket: TicketOf<Self>) -> Box<dyn DeviceWork> {
        DeviceTask::boxed(&self.devices, place, job, ticket)
    }

    fn again(
        &self,
        job: &IndexJob,
        mut left: Vec<RowState>,
        unit: Option<&OpenUnit>,
    ) -> Vec<IndexJob> {
        let finished = job.rows.len().saturating_sub(left.len());
        let needed = |row: u32| unit.is_none_or(|unit| unit.needs(row + job.plan.first_probe));
        left.retain(|state| needed(state.row));
        // Neighbours read the same lists.
        left.sort_unstable_by_key(|state| state.row);
        // A job of all of them would find no room for most, over and over.
        let chunks = left.chunks((4 * finished).max(LEAST_ROWS));
        let rows = chunks.map(|states| WorkRows::Left(Arc::new(states.to_vec())));
        rows.map(|rows| IndexJob { rows, ..job.clone() }).collect()
    }

    /// Fewer rows where they have cells, less room for candidates elsewhere.
    fn smaller(&self, job: &IndexJob) -> Option<Vec<IndexJob>> {
        let JobSettings { lookup, capacity, .. } = &job.settings;
        let rows = job.rows.len();
        if lookup.has_cells() && rows > 1 {
            let chunks = job.rows.chunks(rows.div_ceil(SMALLER as usize));
            return Some(chunks.into_iter().map(|rows| IndexJob { rows, ..job.clone() }).collect());
        }
        let settings = JobSettings { capacity: capacity / SMALLER, ..job.settings.clone() };
        let saves = job.settings.buffer_bytes() - settings.buffer_bytes();
        let is_enough = settings.capacity >= lookup.least_capacity();
        let bytes = self.devices.iter().flatten().next().map_or(0, |device| job.bytes(device));
        let smaller = IndexJob { settings, ..job.clone() };
        (is_enough && saves >= bytes / 2).then(|| vec![smaller])
    }

    fn undecided(&self, job: &IndexJob) -> OnHost<UndecidedRows> {
        OnHost::Join(UndecidedRows::new(job, &self.build))
    }

    fn most_matches(&self) -> u64 {
        self.settings.most_matches()
    }

    fn range_unit(&self) -> u32 {
        64
    }

    fn least_range(&self) -> u32 {
        let works = WORKS * self.devices.len().max(1) as u32;
        (self.build.len() / works).next_multiple_of(64)
    }
}

/// A job of which no device has done anything more than its states say.
pub(super) struct UndecidedRows {
    job: IndexJob,
    build: Arc<SetCollection>,
    /// By row; `None`: none has been begun.
    states: Option<HashMap<u32, RowState>>,
}

impl UndecidedRows {
    fn new(job: &IndexJob, build: &Arc<SetCollection>) -> Self {
        let states = match &job.rows {
            WorkRows::All(_) => None,
            WorkRows::Left(states) => {
                Some(states.iter().map(|state| (state.row, *state)).collect())
            }
        };
        Self { job: job.clone(), build: Arc::clone(build), states }
    }

    /// Whether a match of a row comes behind what has been done of it.
    fn is_behind(&self, state: &RowState, found: &Match) -> bool {
        if self.job.settings.lookup.has_cells() {
            return found.build >= state.from;
        }
        let place = self.first_common(found);
        place > state.place || place == state.place && found.build >= state.from
    }

    /// Where the first common token stands among the known ones of the probe set.
    fn first_common(&self, found: &Match) -> u32 {
        let probe = self.job.probe.as_ref().map_or(&self.build, |probe| &probe.collection);
        let (a, b) = (probe.tokens(found.probe), self.build.tokens(found.build));
        let mut behind = b;
        for (place, token) in a.iter().enumerate() {
            behind = &behind[behind.partition_point(|other| other < token)..];
            if behind.first() == Some(token) {
                return place as u32;
            }
        }
        u32::MAX
    }
}

impl Undecided for UndecidedRows {
    fn collection(&self) -> Option<Arc<dyn Collection>> {
        self.job.probe.as_ref().map(|probe| Arc::clone(&probe.collection) as _)
    }

    fn probes(&self) -> Range<SetId> {
        let IndexJob { plan, rows, .. } = &self.job;
        let rows = match rows {
            WorkRows::All(rows) => rows,
            WorkRows::Left(_) => &plan.rows,
        };
        rows.start + plan.first_probe..rows.end + plan.first_probe
    }

    fn holds(&self, found: &Match) -> bool {
        let IndexJob { settings, plan, columns, .. } = &self.job;
        let is_met =
            columns.contains(&found.build) && (!settings.same || found.build < found.probe);
        is_met
            && match &self.states {
                None => true,
                Some(states) => found
                    .probe
                    .checked_sub(plan.first_probe)
                    .and_then(|row| states.get(&row))
                    .is_some_and(|state| self.is_behind(state, found)),
            }
    }
}
