//! Jobs of tiles as work for a device.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Collection, ItemId, Match};
use crate::offload::arena::Arena;
use crate::offload::outcome::{Counted, JobCounters, Outcome};
use crate::offload::task::{DeviceJob, JobResults, OnDevice, deciding_grid};
use crate::offload::tiles::left::{LeftUnits, TileUnit};
use crate::offload::tiles::plan::TilePlan;
use crate::offload::tiles::settings::{HIT_BYTES, TileForm, TileSettings};
use crate::runtime::{DeviceError, LaunchGrid, Pod, Stage};

/// A kind of tiles: the kernels that test and decide pairs, and what they read.
///
/// All rows of a join have one bound, which is a part of the [form](Self::Form). Nearest neighbours
/// need a bound for each row: an array beside the rows that travel or lie on the device, which
/// [`Self::declare`] gives to the kernels as it gives the rows. The plan then admits the columns of
/// the loosest bound of a strip, and a job that is done again reads the bounds anew.
pub trait TileKind: Debug + Send + Sized + 'static {
    /// The bounds and options of the kernels, and with them the form of tiles.
    type Form: Debug + Copy + Into<TileForm> + Send + Sync + 'static;
    /// The arrays of a plan: [`TilePlan::arrays`].
    type Arrays: Debug + Default + Send + Sync + 'static;
    /// Items that travel with a job.
    type Travelling: Debug + Clone + Send + 'static;
    /// The data that travel beside columns.
    type Beside: Debug + Clone + Send + 'static;
    /// The columns that a device holds.
    type Resident: Debug + Send + Sync + 'static;
    /// The report of the kernels.
    type Tally: Pod + Default;
    /// The arguments of the kernels.
    type Arguments: Debug + Copy + Send;
    /// The name of the arrays in errors, a plural.
    const BUFFERS: &'static str;
    /// The kernels that decide the pairs of hits, and those that decide each pair of dense units: they
    /// give matches, or count them.
    const DECIDERS: [[&'static str; 2]; 2];
    /// Whether the kernels find the matches of items with themselves.
    const MEETS_ITSELF: bool;

    /// The first row of the strip of a unit.
    fn first_row(_arrays: &Self::Arrays, unit: &TileUnit) -> u32 {
        unit.strip
    }

    /// The bytes of the plan's arrays, and those of rows and columns that travel which are not reserved
    /// yet.
    fn unreserved_bytes(tiles: &Tiles<Self>, columns: Option<&ColumnsOf<Self>>) -> usize;

    /// The collection that rows belong to.
    fn collection(rows: &Self::Travelling) -> Arc<dyn Collection>;

    /// Whether a job at this stage can read the columns of a device.
    fn is_at(resident: &Self::Resident, stage: &Stage<'_>) -> bool;

    /// Declares the arrays that a kind adds, always the same ones.
    fn declare<'a>(
        job: &'a TileJob<Self>,
        device: &OnDevice<Option<Arc<Self::Resident>>>,
        addresses: &Addresses,
        arena: &mut Arena<'a>,
    ) -> Self::Arguments;

    /// Launches the kernels: they prepare what travels, filter unless the units are dense, and
    /// [decide](TileJob::decider).
    ///
    /// # Errors
    ///
    /// Where the device fails.
    fn launch(
        job: &TileJob<Self>,
        multiprocessors: u32,
        arguments: &Self::Arguments,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError>;

    /// The report of the kernels.
    fn report(job: &TileJob<Self>, tally: &Self::Tally) -> Report;
}

/// Columns that travel with a job.
#[derive(Debug, Clone)]
pub struct TravellingColumns<T, B> {
    pub items: T,
    pub beside: B,
}

/// The columns of a kind that travel.
pub(crate) type ColumnsOf<K> =
    TravellingColumns<<K as TileKind>::Travelling, <K as TileKind>::Beside>;

/// The addresses of the arrays that all kinds have.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    pub units: u64,
    pub hits: u64,
    pub redo: u64,
    pub matches: u64,
    /// By row, whether it has a match; 0 where one will not do.
    pub seen: u64,
    pub tally: u64,
}

/// The arguments of the kernels of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TileArguments<A> {
    addresses: Addresses,
    of_kind: A,
}

/// The report of the kernels of a job.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// Units given back.
    pub redone: u32,
    pub counted: Counted,
    /// Pairs that the host decides.
    pub undecided: u64,
    /// The numbers of pairs by their fate.
    pub counters: JobCounters,
}

/// Rows and their units for a job.
#[derive(Debug)]
pub struct Tiles<K: TileKind> {
    pub plan: TilePlan<K::Arrays>,
    /// None: the CPU joins the probe items of the plan.
    pub units: Vec<TileUnit>,
    /// The rows that travel with the job: [`TileJob::rows`].
    pub rows: Option<K::Travelling>,
}

/// Tiles to be tested on a device.
#[derive(Debug)]
pub struct TileJob<K: TileKind> {
    pub settings: TileSettings<K::Form>,
    pub plan: Arc<TilePlan<K::Arrays>>,
    /// None: the items of the plan are not on the devices, and the CPU joins them.
    pub units: Vec<TileUnit>,
    /// The units have too many hits: each of their pairs is decided. They have
    /// [smaller stages](TileForm::dense_stage_items), and list none.
    pub dense: bool,
    /// The rows that travel; `None`: the columns of the device are the rows.
    pub rows: Option<K::Travelling>,
    /// The columns that travel; `None`: the device holds the columns.
    pub columns: Option<ColumnsOf<K>>,
    pub column_count: u32,
}

impl<K: TileKind> TileJob<K> {
    /// The form of the tiles.
    pub(crate) fn tile(&self) -> TileForm {
        let tile = self.settings.tile();
        if self.dense { tile.dense() } else { tile }
    }

    /// The rows of this job with other units.
    pub(super) fn with(
        &self,
        settings: TileSettings<K::Form>,
        units: Vec<TileUnit>,
        dense: bool,
    ) -> Self {
        let plan = Arc::clone(&self.plan);
        let (rows, columns) = (self.rows.clone(), self.columns.clone());
        Self { settings, plan, units, dense, rows, columns, ..*self }
    }

    /// Jobs of up to `most` dense units each in place of some units of this one.
    pub(crate) fn densely(&self, units: &[TileUnit], most: usize) -> Vec<Self> {
        let parts = self.tile().dense_parts();
        let cut = |unit: TileUnit| {
            let stages = self.stages_of(unit).flatten();
            let parts = stages.flat_map(move |stage| stage * parts..(stage + 1) * parts);
            parts.map(move |first_stage| TileUnit { first_stage, stages: 1, ..unit })
        };
        let mut units = units.iter().copied().flat_map(cut);
        let next = || Some(units.by_ref().take(most).collect::<Vec<_>>());
        let chunks = std::iter::from_fn(next).take_while(|units| !units.is_empty());
        chunks.map(|units| self.with(self.settings, units, true)).collect()
    }

    /// The stages of the plan that units of the job list.
    pub fn listed(&self) -> &[u32] {
        if self.dense { &[] } else { &self.plan.listed }
    }

    /// The stages of a unit, as ranges.
    pub(crate) fn stages_of(&self, unit: TileUnit) -> impl Iterator<Item = Range<u32>> {
        let whole = unit.range();
        let listed = self.listed().get(whole.start as usize..whole.end as usize).unwrap_or(&[]);
        let whole = self.listed().is_empty().then_some(whole);
        whole.into_iter().chain(listed.iter().map(|&stage| stage..stage + 1))
    }

    /// The probe items that are the rows of a unit, where one match for each will do.
    pub(super) fn probes_of(&self, unit: &TileUnit) -> Range<ItemId> {
        let TilePlan { rows: Range { start, end }, first_probe, arrays, .. } = &*self.plan;
        let first = K::first_row(arrays, unit);
        let past = first.saturating_add(self.settings.tile().strip_rows);
        first.max(*start) + first_probe..past.min(*end) + first_probe
    }

    /// The blocks that the filtering kernel is launched with, at least 1. The device runs `at_a_time` blocks at
    /// the same time.
    pub(crate) fn filtering_blocks(&self, at_a_time: u32) -> u32 {
        (self.units.len() as u32).min(at_a_time).max(1)
    }

    /// The kernel that decides, and its grid.
    pub(crate) fn decider(&self, multiprocessors: u32) -> (&'static str, LaunchGrid) {
        let pairs = match self.dense {
            true => self.tile().tile_pairs() * self.units.len() as u64,
            false => self.settings.hit_pairs(),
        };
        let name = K::DECIDERS[usize::from(self.dense)][usize::from(self.settings.counts)];
        (name, deciding_grid(pairs, multiprocessors))
    }
}

impl<K: TileKind> DeviceJob for TileJob<K> {
    /// The columns, unless they travel with the jobs.
    type Resident = Option<Arc<K::Resident>>;
    type Tally = K::Tally;
    type Arguments = TileArguments<K::Arguments>;
    type Left = LeftUnits;
    const ARRAYS: &'static str = K::BUFFERS;

    fn is_at(&self, resident: &Self::Resident, stage: &Stage<'_>) -> bool {
        self.columns.is_some() || resident.as_ref().is_some_and(|columns| K::is_at(columns, stage))
    }

    fn declare<'a>(
        &'a self,
        device: &OnDevice<Self::Resident>,
        arena: &mut Arena<'a>,
    ) -> Self::Arguments {
        let Self { settings, plan, units, .. } = self;
        let hits = if self.dense { 0 } else { u64::from(settings.capacity) };
        let addresses = Addresses {
            units: arena.copied(units),
            hits: arena.room_of(hits, HIT_BYTES),
            redo: arena.room::<u32>(units.len() as u64),
            matches: arena.room::<Match>(settings.most_matches()),
            seen: match settings.first_only {
                true => arena.zeroed::<u32>(plan.rows.len() as u64),
                false => 0,
            },
            tally: arena.start(),
        };
        TileArguments { addresses, of_kind: K::declare(self, device, &addresses, arena) }
    }

    fn launch(
        &self,
        device: &OnDevice<Self::Resident>,
        arguments: &Self::Arguments,
        stage: &mut Stage<'_>,
    ) -> Result<(), DeviceError> {
        K::launch(self, device.multiprocessors, &arguments.of_kind, stage)
    }

    fn outcome(
        &self,
        TileArguments { addresses, .. }: &Self::Arguments,
        tally: Self::Tally,
        results: &mut JobResults<'_, '_>,
    ) -> Result<Outcome<Self::Left>, DeviceError> {
        let Self { settings, units, .. } = self;
        let Report { redone, counted, undecided, counters } = K::report(self, &tally);
        let most = settings.most_matches();
        let redone = redone as usize;
        if redone > units.len() || !settings.counts && counted.matches > most {
            return Err(DeviceError::Internal(format!(
                "a kernel gave {redone} of {} units back and {} matches",
                units.len(),
                counted.matches
            )));
        }
        let mut left = LeftUnits::default();
        if settings.counts && undecided > most {
            // Nothing of the job counts.
            left.too_many = units.clone();
            let Report { counters, .. } = K::report(self, &K::Tally::default());
            return Ok(Outcome { left, counters, ..Outcome::default() });
        }
        left.take(units, results.fetch(addresses.redo, if self.dense { 0 } else { redone })?)?;
        let given = if settings.counts { undecided } else { counted.matches };
        let given: Vec<Match> = results.fetch(addresses.matches, given as usize)?;
        let (mut undecided, matches) = match settings.tile().undecided {
            Some(mark) => given.into_iter().partition(|pair| pair.detail == mark),
            None => (vec![], given),
        };
        undecided.iter_mut().for_each(|pair| pair.detail = 0);
        Ok(Outcome { counted, matches, undecided, left, counters, ..Outcome::default() })
    }
}
