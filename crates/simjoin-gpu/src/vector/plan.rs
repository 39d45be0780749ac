//! The tiles of rows and columns that a work tests.
//!
//! Items stand in the order of their keys on both sides, so that the columns which a strip of rows
//! meets lie in few ranges. Rows are the probe vectors of a unit, columns the build vectors. Where
//! each unordered pair is decided once it is the other way round: the columns are the vectors of the
//! unit, the rows those of their keys up to them.

use std::ops::Range;

use simjoin_core::vector::boxes::Boxes;
use simjoin_core::vector::collection::{Run, Vectors, check_lens};
use simjoin_core::vector::order::Reach;

use crate::engine::ItemId;
use crate::error::Result;
use crate::offload::tiles::{TilePlan, TileUnit};
use crate::vector::abi::{MAX_UNIT_COLUMNS, VectorRun};
use crate::vector::shape::VectorShape;

/// A plan that has reached one of these ends with its strip.
const MOST_UNITS: usize = 1 << 16;
const MOST_RUNS: usize = 1 << 16;
const MOST_LISTED: usize = 1 << 20;

/// The limits by which the tiles of a join are cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanLimits {
    pub shape: VectorShape,
    /// The dimensions of the vectors that are on the devices.
    pub dimensions: u32,
    /// The most stages of a unit, so that there are units for all multiprocessors.
    pub unit_stages: u32,
    /// A plan that has reached one of these ends with its strip: pairs, and rows that travel with it.
    pub most_pairs: u64,
    pub most_rows: u32,
}

/// Rows to be tested.
pub(super) type Plan = TilePlan<Vec<VectorRun>>;

/// The next rows of a unit.
#[derive(Debug)]
pub(super) enum Planned {
    /// Tiles of a device.
    Tiles(Plan, Vec<TileUnit>),
    /// Probe items whose vectors are not on the devices: they have other dimensions.
    Rest(Range<ItemId>),
}

/// The rows that are planned for, and their partners.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedVectors<'a> {
    pub items: &'a Vectors,
    /// The name of the function, for errors.
    pub function: &'static str,
    /// Rows are columns of the same number, each pair is looked at once.
    pub same: bool,
    /// The item that is row 0; `None`: the first of the rows.
    pub first_probe: Option<ItemId>,
    /// The columns that are looked at.
    pub columns: &'a Range<ItemId>,
    /// The boxes of groups of rows and of all stages, where rows are columns and some stages are out of
    /// reach of some rows.
    pub boxes: Option<(&'a Boxes, &'a Reach)>,
}

/// Rows of one key and the columns that they meet.
#[derive(Debug)]
struct RowsOfKey {
    rows: Range<ItemId>,
    columns: Range<ItemId>,
    /// The dimensions of the columns.
    dimensions: u32,
}

impl PlannedVectors<'_> {
    /// The rows from `first` on that have one key, up to `end`, and their columns.
    fn stretch(
        &self,
        build: &Vectors,
        unit: &Range<ItemId>,
        rows: Range<ItemId>,
    ) -> Result<RowsOfKey> {
        let none = |rows: Range<ItemId>| RowsOfKey { rows, columns: 0..0, dimensions: 0 };
        let Some(run) = self.items.run_of(rows.start) else { return Ok(none(rows)) };
        let rows = rows.start..rows.end.min(run.items.end);
        let Some(partners) = build.run(run.key) else { return Ok(none(rows)) };
        let Run { items: partners, lens, .. } = partners;
        for len in run.lens {
            check_lens(self.function, len, *lens)?;
        }
        let within = |a: &Range<ItemId>, b: &Range<ItemId>| a.start.max(b.start)..a.end.min(b.end);
        let columns = within(partners, self.columns);
        let columns = if self.same { within(&columns, unit) } else { columns };
        Ok(RowsOfKey { rows, columns, dimensions: lens[0] })
    }
}

/// A plan in the making.
struct Planner<'a> {
    tiling: PlanLimits,
    same: bool,
    boxes: Option<(&'a Boxes, &'a Reach)>,
    runs: Vec<VectorRun>,
    /// The stages of units, where these are listed.
    listed: Vec<u32>,
    units: Vec<TileUnit>,
    pairs: u64,
    /// The first row, and the one behind the last.
    first: u32,
    end: u32,
    /// The current strip: its first row, and the stages that some of its rows meet, ascending.
    strip: u32,
    stages: Vec<Range<u32>>,
}

impl PlanLimits {
    /// The tiles of the first rows of `left`, as many as make a work, for the probe items `unit`.
    ///
    /// # Errors
    ///
    /// Where vectors of different lengths meet.
    pub(super) fn plan(
        &self,
        build: &Vectors,
        probe: PlannedVectors<'_>,
        unit: &Range<ItemId>,
        left: &mut Range<ItemId>,
    ) -> Result<Planned> {
        let first_probe = probe.first_probe.unwrap_or(left.start);
        let first = left.start - first_probe;
        let mut planner = Planner {
            tiling: *self,
            same: probe.same,
            boxes: probe.boxes,
            runs: vec![],
            listed: vec![],
            units: vec![],
            pairs: 0,
            first,
            end: first,
            strip: first - first % self.shape.strip_step(),
            stages: vec![],
        };
        let mut item = left.start;
        while item < left.end {
            let RowsOfKey { rows, columns, dimensions } =
                probe.stretch(build, unit, item..left.end)?;
            if !columns.is_empty() && dimensions != self.dimensions {
                if item > left.start {
                    break;
                }
                left.start = rows.end;
                // Of a self-join the columns are the probe items.
                return Ok(Planned::Rest(if probe.same { columns } else { rows }));
            }
            let end = planner.add(rows.start - first_probe..rows.end - first_probe, columns);
            item = end + first_probe;
            if end < rows.end - first_probe || self.is_full(&planner, item - left.start) {
                break;
            }
        }
        planner.end_strip();
        let probes = if probe.same { unit.clone() } else { left.start..item };
        let rows = first..item - first_probe;
        left.start = item;
        let Planner { runs: arrays, units, listed, .. } = planner;
        let plan = Plan { rows, probes, first_probe, arrays, listed, reservation: None };
        Ok(Planned::Tiles(plan, units))
    }

    fn is_full(&self, planner: &Planner, rows: u32) -> bool {
        planner.units.len() >= MOST_UNITS
            || planner.runs.len() >= MOST_RUNS
            || planner.listed.len() >= MOST_LISTED
            || planner.pairs >= self.most_pairs
            || rows >= self.most_rows
    }
}

impl Planner<'_> {
    /// Adds rows that meet these columns, strip by strip, until the plan is full; where it ends.
    fn add(&mut self, rows: Range<u32>, columns: Range<ItemId>) -> u32 {
        let Range { start, end } = columns;
        self.runs.push(VectorRun { first: rows.start, start, end });
        let mut row = rows.start;
        while row < rows.end {
            if row >= self.strip_end() {
                self.end_strip();
                self.strip = row - row % self.tiling.shape.strip_step();
                if row > rows.start && self.tiling.is_full(self, row - self.first) {
                    return row;
                }
            }
            let least = if self.same { start.max(row) } else { start };
            if least < end {
                let stage = self.tiling.shape.stage_columns;
                self.add_stages(least / stage..end.div_ceil(stage));
            }
            row = rows.end.min(self.strip_end());
            self.end = row;
        }
        row
    }

    fn strip_end(&self) -> u32 {
        self.strip.saturating_add(self.tiling.shape.strip_rows)
    }

    /// Adds stages to the current strip. Their last ones ascend.
    fn add_stages(&mut self, stages: Range<u32>) {
        match self.stages.last_mut().filter(|last| stages.start <= last.end) {
            Some(last) => {
                last.start = last.start.min(stages.start);
                last.end = last.end.max(stages.end);
            }
            None => self.stages.push(stages),
        }
    }

    /// Makes units of the current strip.
    fn end_strip(&mut self) {
        let PlanLimits { shape, unit_stages, .. } = self.tiling;
        let ranges = std::mem::take(&mut self.stages);
        let ranges = match self.boxes {
            Some((boxes, reach)) if !ranges.is_empty() => {
                let listed = self.list(&ranges, boxes, reach);
                vec![listed]
            }
            _ => ranges,
        };
        for range in ranges {
            self.pairs += shape.tile_pairs() * range.len() as u64;
            for first_stage in range.clone().step_by(unit_stages as usize) {
                let stages = unit_stages.min(range.end - first_stage);
                self.units.push(TileUnit { strip: self.strip, first_stage, stages });
            }
        }
    }

    /// Lists the stages of the current strip that are in its reach; their places.
    fn list(&mut self, stages: &[Range<u32>], boxes: &Boxes, reach: &Reach) -> Range<u32> {
        let rows = self.strip.max(self.first)..self.end.min(self.strip_end());
        let (extent, before) = (boxes.extent(rows), self.listed.len() as u32);
        for range in stages {
            reach.tiles(&extent, range.clone(), &mut self.listed);
        }
        before..self.listed.len() as u32
    }
}

/// The most stages of a unit.
pub(super) fn unit_stages(columns: u32, shape: &VectorShape) -> u32 {
    // A row looks all columns up at once.
    if shape.has_index {
        return u32::MAX;
    }
    let stages = columns.div_ceil(shape.stage_columns);
    let least = if shape.reads_boxes() { 1 } else { 4 };
    (stages / 16).clamp(least, MAX_UNIT_COLUMNS / shape.stage_columns)
}
