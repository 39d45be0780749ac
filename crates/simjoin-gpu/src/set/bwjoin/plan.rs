//! The rows that a work looks up, and the overlaps that their partners require.

use std::collections::HashMap;
use std::ops::Range;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::filter::size_bounds::{SizeBounds, SizeBoundsCache};
use simjoin_core::set::join_spec::JoinSpec;
use simjoin_core::set::runs::SetId;

use crate::engine::Pairing;
use crate::memory::Reservation;
use crate::set::bwjoin::abi::ProbeRun;

/// A plan that has reached one of these ends with its run: entries of the table, and runs.
const MOST_ENTRIES: usize = 1 << 18;
const MOST_RUNS: usize = 1 << 16;

/// The limits by which the plans of a join are cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanLimits {
    /// Rows of a plan, and tokens of rows that travel, at most.
    pub rows: u32,
    pub tokens: u64,
}

/// Rows to be looked up.
#[derive(Debug, Default)]
pub(super) struct LookupPlan {
    pub rows: Range<u32>,
    /// The probe sets that are the rows, and the set that is row 0.
    pub sets: Range<SetId>,
    pub first_probe: SetId,
    pub runs: Vec<ProbeRun>,
    pub table: Vec<u32>,
    /// The columns from the first to the last that some row admits.
    pub columns: Range<SetId>,
    /// The memory of the plan itself.
    pub reservation: Option<Reservation>,
}

impl LookupPlan {
    /// The rows from the first to the last that admit some of `columns`.
    pub(super) fn rows_meeting(&self, columns: &Range<SetId>) -> Option<Range<u32>> {
        let meets = |run: &ProbeRun| run.start < columns.end && columns.start < run.end;
        let first = self.runs.iter().position(meets)?;
        let last = self.runs.iter().rposition(meets)?;
        let end = self.runs.get(last + 1).map_or(self.rows.end, |run| run.first);
        Some(self.runs[first].first..end)
    }

    /// The bytes allocated.
    pub(super) fn size_in_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<ProbeRun>() + self.table.capacity() * size_of::<u32>()
    }
}

/// Plans the rows of a join.
#[derive(Debug)]
pub(super) struct Planner<'a> {
    pub build: &'a SetCollection,
    pub spec: &'a JoinSpec,
    /// The sizes of the build sets, ascending.
    pub sizes: &'a [u32],
    /// Every token of a row is looked up.
    pub whole: bool,
    /// The probe sets are the build sets: rows have the numbers of their sets.
    pub resident: bool,
    pub limits: PlanLimits,
}

impl Planner<'_> {
    /// The first rows of `left`, as many as make a work.
    pub(super) fn plan(
        &self,
        probe: &SetCollection,
        left: &mut Range<SetId>,
        bounds: &mut SizeBoundsCache,
    ) -> LookupPlan {
        let first_probe = if self.resident { 0 } else { left.start };
        let mut plan = LookupPlan { first_probe, ..LookupPlan::default() };
        let mut tables: HashMap<u32, (u32, u32)> = HashMap::new();
        let end = left.start.saturating_add(self.limits.rows).min(left.end);
        let end = self.end_of_tokens(probe, left.start..end);
        let mut set = left.start;
        while set < end && plan.table.len() < MOST_ENTRIES && plan.runs.len() < MOST_RUNS {
            let Some((run, ids)) = probe.runs().of_set(set) else { break };
            let next = ids.end.min(end);
            let mut of_run = ProbeRun {
                first: set - first_probe,
                start: 0,
                end: 0,
                table: 0,
                size: run.size,
                prefix: 0,
            };
            if let Some(of_size) = bounds.get(run.size) {
                let mut columns = self.build.runs().sets(run.key, of_size.least, of_size.greatest);
                if self.spec.pairing == Pairing::Unordered {
                    // A row meets the columns before it.
                    columns.end = columns.end.min(next.saturating_sub(1));
                }
                if columns.start < columns.end {
                    let tabled = tables.entry(run.size);
                    let (table, prefix) =
                        *tabled.or_insert_with(|| self.tabulate(&of_size, &mut plan.table));
                    (of_run.table, of_run.prefix) = (table, prefix);
                    (of_run.start, of_run.end) = (columns.start, columns.end);
                    plan.columns = match plan.columns.is_empty() {
                        true => columns,
                        false => {
                            let Range { start, end } = plan.columns;
                            start.min(columns.start)..end.max(columns.end)
                        }
                    };
                }
            }
            plan.runs.push(of_run);
            set = next;
        }
        plan.rows = left.start - first_probe..set - first_probe;
        plan.sets = left.start..set;
        left.start = set;
        plan
    }

    /// The end of the first of some sets, at least one, whose tokens may travel together.
    fn end_of_tokens(&self, probe: &SetCollection, sets: Range<SetId>) -> SetId {
        if self.resident {
            return sets.end;
        }
        let (offsets, _) = probe.csr();
        let most = offsets[sets.start as usize].saturating_add(self.limits.tokens);
        let end = sets.start + 1;
        let within = &offsets[end as usize..=sets.end as usize];
        end + (within.partition_point(|&offset| offset <= most).max(1) - 1) as SetId
    }

    /// Adds what rows of a size require of columns, by class; gives the place of class 0 (wrapping)
    /// and the length of a row's prefix.
    fn tabulate(&self, bounds: &SizeBounds, table: &mut Vec<u32>) -> (u32, u32) {
        let first = self.sizes.partition_point(|&size| size < bounds.least);
        let end = self.sizes.partition_point(|&size| size <= bounds.greatest);
        let place = (table.len() as u32).wrapping_sub(first as u32);
        table.extend(self.sizes[first..end].iter().map(|&size| bounds.required(size)));
        (place, if self.whole { u32::MAX } else { bounds.prefix })
    }
}
