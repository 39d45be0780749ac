//! Overlaps of large sets as a filter on devices.

use std::ops::Range;
use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::itself::SelfMatches;
use simjoin_core::set::join_spec::{JoinSpec, SetUnit};
use simjoin_core::set::runs::SetId;

use crate::engine::{Collection, Match};
use crate::error::Result;
use crate::memory::Memory;
use crate::offload::{DeviceFilter, DeviceTask, EachDevice, OnHost, OpenUnit, TicketOf, Undecided};
use crate::runtime::DeviceWork;
use crate::set::offload::TravellingSets;
use crate::set::scancount::abi::LargeRun;
use crate::set::scancount::cut::{TokenCut, sizes};
use crate::set::scancount::work::{JobSettings, LargeJob};

/// Sets of a unit at least: rows of a tile.
const LEAST_RANGE: u32 = 192;
/// Ranges of a self-join for each of several devices.
const WORKS: u64 = 4;

/// A join of large sets on its devices.
#[derive(Debug)]
pub(super) struct LargeFilter {
    pub build: Arc<SetCollection>,
    pub spec: JoinSpec,
    pub settings: JobSettings,
    pub cut: Arc<TokenCut>,
    pub column_sizes: Arc<Vec<u32>>,
    /// Tokens of rows that travel with a work at most, unless it has one row.
    pub tokens: u64,
    /// The devices hold the probe sets: these are the build sets.
    pub resident: bool,
    pub devices: EachDevice<LargeJob>,
}

impl LargeFilter {
    /// Runs of rows with the columns that they admit, and the columns that any of them admits.
    fn runs(&self, sets: &SetCollection, rows: &Range<SetId>) -> (Vec<LargeRun>, Range<SetId>) {
        let (mut runs, mut columns) = (vec![], 0..0);
        let mut first = rows.start;
        while first < rows.end {
            let Some((run, ids)) = sets.runs().of_set(first) else { break };
            let next = ids.end.min(rows.end);
            let mut admitted = match self.spec.partner_sizes(run.size) {
                Some((least, greatest)) => self.build.runs().sets(run.key, least, greatest),
                None => 0..0,
            };
            if self.settings.same {
                admitted.end = admitted.end.min(next);
            }
            let Range { start, end } = admitted;
            runs.push(LargeRun { first, start, end });
            if start < end {
                columns = match columns.is_empty() {
                    true => start..end,
                    false => columns.start.min(start)..columns.end.max(end),
                };
            }
            first = next;
        }
        (runs, columns)
    }

    /// The end of the first of some rows, at least one, that a work has room for.
    fn end_of_rows(&self, sets: &SetCollection, left: &Range<SetId>) -> SetId {
        let rows = self.settings.cells / u64::from(self.build.len().max(1));
        let end = u64::from(left.start) + rows.max(1);
        let end = end.min(left.end.into()) as SetId;
        if self.resident {
            return end;
        }
        let (offsets, _) = sets.csr();
        let most = offsets[left.start as usize].saturating_add(self.tokens);
        let within = &offsets[left.start as usize + 1..=end as usize];
        left.start + within.partition_point(|&offset| offset <= most).max(1) as SetId
    }

    /// The job of some rows; `None` where no column can match.
    fn job(
        &self,
        sets: &Arc<SetCollection>,
        rows: Range<SetId>,
        reservation: &dyn Memory,
    ) -> Result<Option<LargeJob>> {
        let memory = reservation.new_empty();
        memory.try_grow(rows.len() * (size_of::<LargeRun>() + 2 * size_of::<u32>()))?;
        let (runs, mut columns) = self.runs(sets, &rows);
        if columns.is_empty() {
            return Ok(None);
        }
        if self.resident && columns.start == rows.start && self.settings.same {
            // Rows and columns share what is made of their sets.
            columns.end = rows.end;
        }
        let travel = || TravellingSets::new(sets, rows.clone(), self.settings.counts);
        Ok(Some(LargeJob {
            settings: self.settings,
            cut: Arc::clone(&self.cut),
            runs: Arc::new(runs),
            row_sizes: Arc::new(sizes(sets, rows.clone())),
            column_sizes: Arc::clone(&self.column_sizes),
            probe: (!self.resident).then(travel),
            rows,
            columns,
            _memory: Arc::new(memory),
        }))
    }
}

impl DeviceFilter for LargeFilter {
    type Items = SetCollection;
    type Itself = SelfMatches;
    type Job = LargeJob;
    type Left = Range<SetId>;
    type Scratch = ();
    type Undecided = UndecidedSets;

    fn itself(&self, unit: &SetUnit) -> Option<SelfMatches> {
        SelfMatches::of(unit, &self.spec)
    }

    fn rows_of(&self, sets: Range<SetId>) -> Range<SetId> {
        sets
    }

    fn plan(
        &self,
        (): &mut (),
        unit: &SetUnit,
        left: &mut Range<SetId>,
        reservation: &dyn Memory,
    ) -> Result<Vec<LargeJob>> {
        let rows = left.start..self.end_of_rows(&unit.items, left);
        left.start = rows.end;
        Ok(self.job(&unit.items, rows, reservation)?.into_iter().collect())
    }

    fn is_on(&self, place: usize) -> bool {
        self.devices.get(place).is_some_and(Option::is_some)
    }

    fn work(&self, place: usize, job: LargeJob, ticket: TicketOf<Self>) -> Box<dyn DeviceWork> {
        DeviceTask::boxed(&self.devices, place, job, ticket)
    }

    fn again(&self, job: &LargeJob, left: Range<SetId>, unit: Option<&OpenUnit>) -> Vec<LargeJob> {
        let needed = unit.is_none_or(|unit| unit.needs_any(left.clone()));
        if left.is_empty() || !needed { vec![] } else { vec![part(job, left)] }
    }

    /// Half the rows each.
    fn smaller(&self, job: &LargeJob) -> Option<Vec<LargeJob>> {
        let Range { start, end } = job.rows;
        let middle = start + (end - start) / 2;
        let halves = [start..middle, middle..end];
        (middle > start).then(|| halves.map(|rows| part(job, rows)).into())
    }

    fn undecided(&self, job: &LargeJob) -> OnHost<UndecidedSets> {
        OnHost::Join(UndecidedSets { job: job.clone() })
    }

    fn most_matches(&self) -> u64 {
        self.settings.most_matches()
    }

    fn range_unit(&self) -> u32 {
        64
    }

    fn least_range(&self) -> u32 {
        let sets = u64::from(self.build.len().max(1));
        // Each work reads all columns: several for each device pay where there are several devices.
        let devices = self.devices.len() as u64;
        let share = if devices > 1 { sets / (WORKS * devices) } else { sets };
        let rows = (self.settings.cells / sets).min(share);
        rows.clamp(LEAST_RANGE.into(), 1 << 30).next_multiple_of(64) as u32
    }
}

/// A job for some of its rows.
fn part(job: &LargeJob, rows: Range<SetId>) -> LargeJob {
    let from = (rows.start - job.rows.start) as usize;
    let row_sizes = Arc::new(job.row_sizes[from..from + rows.len()].to_vec());
    let probe = job.probe.as_ref().map(|probe| {
        let counts = !probe.row_counts.is_empty();
        TravellingSets::new(&probe.collection, rows.clone(), counts)
    });
    // The run that the first row belongs to is the first one.
    let runs = job.runs.partition_point(|run| run.first <= rows.start).saturating_sub(1);
    let runs = Arc::new(job.runs[runs..].to_vec());
    LargeJob { rows, row_sizes, probe, runs, ..job.clone() }
}

/// A job that no device has done.
pub(super) struct UndecidedSets {
    job: LargeJob,
}

impl Undecided for UndecidedSets {
    fn collection(&self) -> Option<Arc<dyn Collection>> {
        self.job.probe.as_ref().map(|probe| Arc::clone(&probe.collection) as _)
    }

    fn probes(&self) -> Range<SetId> {
        self.job.rows.clone()
    }

    fn holds(&self, found: &Match) -> bool {
        let is_met = !self.job.settings.same || found.build < found.probe;
        self.job.rows.contains(&found.probe) && is_met
    }
}
