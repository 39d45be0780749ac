//! The tiles of rows and columns that a work tests.
//!
//! Rows and columns stand in the order of their collections, by key and size, so that the columns
//! which a strip of rows admits are one range. A table says, for each size of rows and each class of
//! columns (their size, numbered), the overlap that a pair requires: exact integers, made by the host
//! for every measure and role.
//!
//! Rows are the probe sets of a unit, columns the build sets. Where each unordered pair is decided
//! once, it is the other way round: the columns are the sets of the unit, the rows those in front of
//! them, which are no larger. Only the row's bound stands in front of unions of columns, and few bits
//! in a row let few columns pass.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::join_spec::JoinSpec;
use simjoin_core::set::runs::{Run, SetId};

use crate::engine::Pairing;
use crate::offload::tiles::{TilePlan, TileUnit};
use crate::runtime::Device;
use crate::set::bitmap::abi::{MAX_STAGES, NEVER, OCTET, RowRun, Strip};
use crate::set::bitmap::columns::Signatures;
use crate::set::bitmap::fit::tested_in_slice;

/// A plan that has reached one of these ends with its strip: entries of the table, and units.
const MOST_ENTRIES: usize = 1 << 18;
const MOST_UNITS: usize = 1 << 16;

/// The limits by which the tiles of a join are cut.
#[derive(Debug)]
pub(super) struct PlanLimits {
    /// The sizes of the build sets, ascending.
    pub sizes: Arc<Vec<u32>>,
    pub strip_rows: u32,
    /// Sets of a stage.
    pub stage_sets: u32,
    /// The most stages of a unit, so that there are units for all multiprocessors.
    pub unit_stages: u32,
    /// A plan that has reached one of these ends with its strip: pairs to be tested, and tokens of
    /// rows that travel with it.
    pub most_pairs: u64,
    pub most_tokens: u64,
}

/// The arrays of a plan.
#[derive(Debug, Default)]
pub(super) struct StripArrays {
    pub runs: Vec<RowRun>,
    pub strips: Vec<Strip>,
    pub table: Vec<u32>,
}

/// Rows to be tested, in strips.
pub(super) type Plan = TilePlan<StripArrays>;

impl StripArrays {
    /// The bytes allocated.
    pub(super) fn size_in_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<RowRun>()
            + self.strips.capacity() * size_of::<Strip>()
            + self.table.capacity() * size_of::<u32>()
    }
}

/// The sets that are planned for, and whether they travel.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedSets<'a> {
    pub sets: &'a SetCollection,
    /// Whether the probe sets are the build sets, so that rows have the numbers of their sets.
    pub numbered: bool,
    /// Whether the probe sets travel with the works.
    pub travels: bool,
}

/// The overlaps that rows of the sizes met last require of columns, by class.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    of_size: HashMap<u32, Vec<u32>>,
    entries: usize,
}

impl Overlaps {
    /// More entries than this are forgotten.
    const MOST_ENTRIES: usize = 1 << 17;

    /// The overlaps that rows of a size require of columns of ascending `sizes`; admitted sizes are
    /// always the same for a size.
    fn of(
        &mut self,
        spec: &JoinSpec,
        size: u32,
        admitted: RangeInclusive<u32>,
        sizes: &[u32],
    ) -> &[u32] {
        if self.entries > Self::MOST_ENTRIES {
            *self = Self::default();
        }
        let entries = &mut self.entries;
        self.of_size.entry(size).or_insert_with(|| {
            *entries += sizes.len();
            let mut overlap = 1;
            let required = sizes.iter().map(|partner| {
                if !admitted.contains(partner) {
                    return NEVER;
                }
                let (bounds, role) = (spec.bounds, spec.probe_role);
                overlap = bounds.min_overlap_from(role, size, *partner, overlap);
                overlap
            });
            required.collect()
        })
    }
}

/// A plan in the making.
struct Planner<'a> {
    tiling: &'a PlanLimits,
    build: &'a SetCollection,
    spec: &'a JoinSpec,
    /// The sets that are columns.
    columns: Range<SetId>,
    plan: Plan,
    units: Vec<TileUnit>,
    overlaps: &'a mut Overlaps,
    /// By size of rows, the place of its overlaps in the table.
    tables: HashMap<u32, u32>,
    pairs: u64,
    tokens: u64,
}

impl PlanLimits {
    /// The tiles that suit the signatures of a join. `memory`: bytes that the join may fill.
    pub(super) fn new(build: &SetCollection, signatures: &Signatures, memory: u64) -> Self {
        let Signatures { shape, members, .. } = signatures;
        let (strip_rows, stage_sets) = (shape.strip_rows, shape.stage_columns * members);
        let mut sizes: Vec<u32> = build.runs().iter().map(|(run, _)| run.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let stages = build.len().div_ceil(stage_sets);
        let unit_stages = (stages / 16).clamp(4, MAX_STAGES);
        let most_pairs = tested_in_slice(shape, *members);
        // A quarter of a slot's share of the memory.
        let share = memory / (4 * Device::SLOTS as u64 * size_of::<u32>() as u64);
        let most_tokens = share.clamp(1 << 12, 1 << 24);
        let sizes = Arc::new(sizes);
        Self { sizes, strip_rows, stage_sets, unit_stages, most_pairs, most_tokens }
    }

    /// The sets that are the rows of a unit.
    pub(super) fn rows_of(
        &self,
        build: &SetCollection,
        spec: &JoinSpec,
        sets: Range<SetId>,
    ) -> Range<SetId> {
        if spec.pairing == Pairing::All {
            return sets;
        }
        let mut rows = sets.end..sets.end;
        let mut set = sets.start;
        while set < sets.end
            && let Some((run, ids)) = build.runs().of_set(set)
        {
            if let Some((least, greatest)) = spec.partner_sizes(run.size) {
                let partners = build.runs().sets(run.key, least, greatest);
                rows.start = rows.start.min(partners.start);
            }
            set = ids.end;
        }
        rows
    }

    /// The columns that any of some rows admits, among `columns`.
    pub(super) fn columns_of(
        &self,
        build: &SetCollection,
        probe: &SetCollection,
        spec: &JoinSpec,
        rows: Range<SetId>,
        columns: Range<SetId>,
    ) -> Range<SetId> {
        let mut admitted: Option<Range<SetId>> = None;
        let mut row = rows.start;
        while row < rows.end
            && let Some((run, ids)) = probe.runs().of_set(row)
        {
            if let Some((_, of_run)) = self::admitted(build, spec, &run, &columns) {
                admitted = Some(match admitted {
                    None => of_run,
                    Some(all) => all.start.min(of_run.start)..all.end.max(of_run.end),
                });
            }
            row = ids.end;
        }
        admitted.unwrap_or(0..0)
    }

    /// The tiles of the first rows of `left` and of columns, as many as make a work, for a unit of
    /// probe sets.
    pub(super) fn plan(
        &self,
        build: &SetCollection,
        probe: PlannedSets<'_>,
        spec: &JoinSpec,
        (unit, columns): (&Range<SetId>, Range<SetId>),
        left: &mut Range<SetId>,
        overlaps: &mut Overlaps,
    ) -> (Plan, Vec<TileUnit>) {
        let first_probe = if probe.numbered { 0 } else { left.start };
        let plan = Plan { first_probe, ..Plan::default() };
        let (tiling, tables) = (self, HashMap::new());
        let mut planner = Planner {
            tiling,
            build,
            spec,
            columns,
            plan,
            units: vec![],
            overlaps,
            tables,
            pairs: 0,
            tokens: 0,
        };
        let rows = left.start - first_probe..left.end - first_probe;
        let mut row = rows.start;
        let mut first = row - row % OCTET;
        while row < rows.end && !planner.is_full() {
            let end = rows.end.min(first.saturating_add(self.strip_rows));
            planner.add_strip(probe.sets, first, row..end);
            if probe.travels {
                let (offsets, _) = probe.sets.csr();
                let places = [row, end].map(|row| offsets[(row + first_probe) as usize]);
                planner.tokens += places[1] - places[0];
            }
            row = end;
            first = end;
        }
        let Planner { mut plan, units, .. } = planner;
        plan.rows = rows.start..row;
        let end = row + first_probe;
        plan.probes = match spec.pairing {
            Pairing::All => left.start..end,
            Pairing::Unordered => unit.clone(),
        };
        left.start = end;
        (plan, units)
    }
}

impl Planner<'_> {
    fn is_full(&self) -> bool {
        self.plan.arrays.table.len() >= MOST_ENTRIES
            || self.units.len() >= MOST_UNITS
            || self.pairs >= self.tiling.most_pairs
            || self.tokens >= self.tiling.most_tokens
    }

    /// Adds the strip that begins at row `first`, with those of its rows that count.
    fn add_strip(&mut self, probe: &SetCollection, first: u32, rows: Range<u32>) {
        let mut columns: Option<Range<SetId>> = None;
        let mut tables: Vec<u32> = vec![];
        let mut row = rows.start;
        while row < rows.end {
            let set = row + self.plan.first_probe;
            let Some((run, ids)) = probe.runs().of_set(set) else { break };
            let end = (ids.end - self.plan.first_probe).min(rows.end);
            let (mut admitted, table) = self.partners(&run).unwrap_or((0..0, 0));
            // A run that began in a former strip is there already.
            if set == ids.start || self.plan.arrays.runs.is_empty() {
                let (start, end) = (admitted.start, admitted.end);
                self.plan.arrays.runs.push(RowRun { first: row, start, end, table });
            }
            if self.spec.pairing == Pairing::Unordered {
                admitted.start = admitted.start.max(set + 1);
            }
            if admitted.start < admitted.end {
                columns = Some(match columns {
                    None => admitted,
                    Some(c) => c.start.min(admitted.start)..c.end.max(admitted.end),
                });
                if !tables.contains(&table) {
                    tables.push(table);
                }
            }
            row = end;
        }
        if let Some(columns) = columns {
            let table = self.least_of(&tables);
            let strip = self.plan.arrays.strips.len() as u32;
            self.plan.arrays.strips.push(Strip { first, table });
            self.add_units(strip, columns);
        }
    }

    /// The columns that a run of rows admits, and the place of the overlaps that they require.
    fn partners(&mut self, run: &Run) -> Option<(Range<SetId>, u32)> {
        let sizes = admitted(self.build, self.spec, run, &self.columns)?;
        let ((least, greatest), partners) = sizes;
        if let Some(&table) = self.tables.get(&run.size) {
            return Some((partners, table));
        }
        let table = self.plan.arrays.table.len() as u32;
        let sizes = &self.tiling.sizes;
        self.plan.arrays.table.extend(self.overlaps.of(
            self.spec,
            run.size,
            least..=greatest,
            sizes,
        ));
        self.tables.insert(run.size, table);
        Some((partners, table))
    }

    /// The place of the least overlap that any of some tables requires.
    fn least_of(&mut self, tables: &[u32]) -> u32 {
        if let [one] = tables {
            return *one;
        }
        let place = self.plan.arrays.table.len();
        let classes = self.tiling.sizes.len();
        self.plan.arrays.table.resize(place + classes, NEVER);
        let (all, least) = self.plan.arrays.table.split_at_mut(place);
        for &table in tables {
            let of_size = &all[table as usize..][..classes];
            least
                .iter_mut()
                .zip(of_size)
                .for_each(|(least, &of_size)| *least = of_size.min(*least));
        }
        place as u32
    }

    /// Adds the units of a strip with a range of columns.
    fn add_units(&mut self, strip: u32, columns: Range<SetId>) {
        let PlanLimits { stage_sets, unit_stages, strip_rows, .. } = *self.tiling;
        let stages = columns.start / stage_sets..columns.end.div_ceil(stage_sets);
        self.pairs += u64::from(strip_rows) * u64::from(stage_sets) * stages.len() as u64;
        for first_stage in stages.clone().step_by(unit_stages as usize) {
            let stages = unit_stages.min(stages.end - first_stage);
            self.units.push(TileUnit { strip, first_stage, stages });
        }
    }
}

/// The columns that a run of rows admits, among `columns`, and their sizes.
fn admitted(
    build: &SetCollection,
    spec: &JoinSpec,
    run: &Run,
    columns: &Range<SetId>,
) -> Option<((u32, u32), Range<SetId>)> {
    let sizes = match spec.pairing {
        Pairing::All => spec.partner_sizes(run.size)?,
        Pairing::Unordered => spec.sizes_from(run.size)?,
    };
    let sets = build.runs().sets(run.key, sizes.0, sizes.1);
    let sets = sets.start.max(columns.start)..sets.end.min(columns.end);
    (sets.start < sets.end).then_some((sizes, sets))
}
