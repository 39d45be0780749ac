//! The tiles of rows and columns that a work tests.
//!
//! Items stand in the order of their keys and lengths on both sides, so that the columns which a strip of
//! rows admits lie in few stages. Rows are the probe texts of a unit, columns the build texts.

use std::ops::Range;

use simjoin_core::string::collection::{Run, Strings};
use simjoin_core::string::cursor::check_lens;
use simjoin_core::string::finder::levenshtein_of;
use simjoin_core::string::function::StringFunction;
use simjoin_core::string::join::StringJoin;
use simjoin_core::string::threshold::{AllowedDifferences, Threshold};

use crate::engine::{ItemId, Pairing};
use crate::error::Result;
use crate::offload::tiles::{TilePlan, TileUnit};
use crate::string::abi::{MAX_STAGES, STAGE, STRIP, TextRun};

/// A plan that has reached one of these ends with its strip.
const MOST_UNITS: usize = 1 << 16;
const MOST_RUNS: usize = 1 << 14;
const MOST_LIMITS: usize = 1 << 20;

/// The most edits that a band of kernels allows.
const MOST_EDITS: u32 = 31;
/// Bits of a signature: no text has more of them that another lacks.
const SIGNATURE_BITS: u32 = u64::BITS;
/// The limits of a row and a column that never match, and in place of edits: these do not bound a match.
const NO_MATCH: u32 = u32::MAX;
const NO_EDITS: u32 = 0xff;

/// The limits by which plans are cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanLimits {
    /// The most stages of a unit, so that there are units for all multiprocessors.
    pub unit_stages: u32,
    /// Pairs of a plan, about.
    pub most_pairs: u64,
}

/// The arrays of a plan.
#[derive(Debug, Default)]
pub(super) struct StripArrays {
    pub runs: Vec<TextRun>,
    /// The limits of each run and the classes that it admits.
    pub table: Vec<u32>,
}

/// Rows to be tested.
pub(super) type Plan = TilePlan<StripArrays>;

impl StripArrays {
    /// The bytes allocated.
    pub(super) fn size_in_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<TextRun>() + self.table.capacity() * size_of::<u32>()
    }
}

/// Limits as kernels read them, of texts the longer of which has so many scalars.
fn packed(function: StringFunction, limits: Option<AllowedDifferences>, longer: u32) -> u32 {
    let Some(AllowedDifferences { most, surplus, .. }) = limits else { return NO_MATCH };
    let [beyond, lacking] = surplus.map(|most| most.min(SIGNATURE_BITS));
    // No distance is greater than the longer text.
    let edits = most.and_then(|most| levenshtein_of(function, most)).map(|edits| edits.min(longer));
    let edits = edits.filter(|edits| *edits <= MOST_EDITS).unwrap_or(NO_EDITS);
    edits | beyond << 8 | lacking << 16
}

impl PlanLimits {
    /// The tiles of the first rows of `left`, as many as make a work, at most `most_rows`. Row 0 is item
    /// `first_probe`.
    ///
    /// # Errors
    ///
    /// Where the function has no value for texts that meet.
    pub(super) fn plan(
        &self,
        join: &StringJoin,
        probe: &Strings,
        first_probe: ItemId,
        (left, most_rows): (&mut Range<ItemId>, u32),
    ) -> Result<(Plan, Vec<TileUnit>)> {
        let first = left.start - first_probe;
        let mut planner = Planner {
            tiling: *self,
            threshold: join.threshold,
            arrays: StripArrays::default(),
            units: vec![],
            pairs: 0,
            first_probe,
            strip: first - first % STRIP,
            columns: 0..0,
        };
        let (begin, end) = (left.start, left.end.min(left.start.saturating_add(most_rows)));
        while left.start < end && !planner.is_full() {
            let Some(run) = probe.run_of(left.start) else { break };
            let rows = left.start - first_probe..run.items.end.min(end) - first_probe;
            left.start = planner.add(join, run, rows)? + first_probe;
        }
        planner.end_strip();
        let (probes, rows) = (begin..left.start, first..left.start - first_probe);
        let Planner { arrays, units, .. } = planner;
        Ok((Plan { rows, probes, first_probe, arrays, ..Plan::default() }, units))
    }
}

/// A plan in the making.
struct Planner {
    tiling: PlanLimits,
    threshold: Threshold,
    arrays: StripArrays,
    units: Vec<TileUnit>,
    pairs: u64,
    /// The item that is row 0.
    first_probe: ItemId,
    /// The current strip: its first row, and the columns between the first and the last that some of its
    /// rows admit.
    strip: u32,
    columns: Range<ItemId>,
}

impl Planner {
    fn is_full(&self) -> bool {
        let StripArrays { runs, table } = &self.arrays;
        self.units.len() >= MOST_UNITS
            || runs.len() >= MOST_RUNS
            || table.len() >= MOST_LIMITS
            || self.pairs >= self.tiling.most_pairs
    }

    /// Adds rows of a run, strip by strip, until the plan is full; where it ends.
    fn add(&mut self, join: &StringJoin, run: &Run, rows: Range<u32>) -> Result<u32> {
        if self.threshold.function == StringFunction::Hamming {
            check_lens(&join.build, run.key, run.len)?;
        }
        let columns = self.admit(join, run, rows.start);
        let mut row = rows.start;
        while row < rows.end {
            if row >= self.strip + STRIP {
                self.end_strip();
                self.strip = row - row % STRIP;
                if row > rows.start && self.is_full() {
                    return Ok(row);
                }
            }
            let end = rows.end.min(self.strip + STRIP);
            let admitted = match join.spec.pairing() {
                Pairing::All => columns.clone(),
                Pairing::Unordered => columns.start..columns.end.min(end + self.first_probe),
            };
            if !admitted.is_empty() {
                let Range { start, end } = self.columns;
                self.columns = match start < end {
                    true => start.min(admitted.start)..end.max(admitted.end),
                    false => admitted,
                };
            }
            row = end;
        }
        Ok(row)
    }

    /// Adds a run whose rows begin at `first`, with its limits; the columns that it admits.
    fn admit(&mut self, join: &StringJoin, run: &Run, first: u32) -> Range<ItemId> {
        let classes = join.partners(run);
        let partners = &join.build.runs()[classes.clone()];
        let columns = match partners {
            [] => 0..0,
            [of, .., last] => of.items.start..last.items.end,
            [of] => of.items.clone(),
        };
        let (first_class, end_class) = (classes.start as u32, classes.end as u32);
        let table = (self.arrays.table.len() as u32).wrapping_sub(first_class);
        let limits = partners.iter().map(|partner| {
            let limits = self.threshold.limits([run.len, partner.len]);
            packed(self.threshold.function, limits, run.len.max(partner.len))
        });
        self.arrays.table.extend(limits);
        let Range { start, end } = columns;
        self.arrays.runs.push(TextRun { first, start, end, first_class, end_class, table });
        columns
    }

    /// Makes units of the current strip.
    fn end_strip(&mut self) {
        let columns = std::mem::take(&mut self.columns);
        if columns.is_empty() {
            return;
        }
        let stages = columns.start / STAGE..columns.end.div_ceil(STAGE);
        self.pairs += u64::from(STRIP * STAGE) * stages.len() as u64;
        let most = self.tiling.unit_stages.clamp(1, MAX_STAGES);
        for first_stage in stages.clone().step_by(most as usize) {
            let stages = most.min(stages.end - first_stage);
            self.units.push(TileUnit { strip: self.strip, first_stage, stages });
        }
    }
}
