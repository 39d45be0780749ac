//! The matches of sets with themselves.

use std::ops::Range;

use crate::engine::{Match, MatchBuffer, MatchNeed, Pairing, RowGroups, RowPairCounts};
use crate::set::{JoinSpec, Run, SetCollection, SetId, SetUnit};

/// The sets of a unit that match themselves, where each unordered pair is decided once. No filter
/// need find them: a set has all its tokens in common with itself, so that its size decides.
#[derive(Debug)]
pub(crate) struct SelfMatches {
    /// The sets that are left.
    unit: SetUnit,
    spec: JoinSpec,
}

impl SelfMatches {
    /// Those of a unit; `None` where no set is paired with itself.
    pub(crate) fn of(unit: &SetUnit, spec: &JoinSpec) -> Option<Self> {
        (spec.pairing == Pairing::Unordered).then(|| Self { unit: unit.clone(), spec: *spec })
    }

    /// Adds matches until all are given or the buffer is full, and their number to `given`. Returns
    /// whether all are given.
    pub(crate) fn give(&mut self, matches: &mut MatchBuffer, given: &mut u64) -> bool {
        let SetUnit { number, sets, range } = &mut self.unit;
        matches.begin(*number);
        while let Some((run, ids)) = next_run(sets, range) {
            let end = ids.end.min(range.end);
            if !self.spec.bounds.sizes_can_match(self.spec.probe_role, run.size, run.size) {
                range.start = end;
                continue;
            }
            if self.spec.need == MatchNeed::Count {
                *given += u64::from(end - range.start);
                matches.count(counts(sets.groups(), range.start..end));
                range.start = end;
                continue;
            }
            for set in range.start..end {
                if matches.is_full() {
                    return false;
                }
                matches.push(Match { probe: set, build: set, detail: run.size });
                *given += 1;
                range.start = set + 1;
            }
        }
        true
    }
}

/// The run of the first set of a range, and its ids.
fn next_run(sets: &SetCollection, range: &Range<SetId>) -> Option<(Run, Range<SetId>)> {
    if range.start < range.end { sets.runs().of_set(range.start) } else { None }
}

/// The pairs of rows behind sets that match themselves.
fn counts(groups: &RowGroups, sets: Range<SetId>) -> RowPairCounts {
    let rows = groups.slots(sets.clone()).len() as u64;
    let square = |set: SetId| u64::from(groups.row_count_of(set)).pow(2);
    let squares = if rows == sets.len() as u64 { rows } else { sets.map(square).sum() };
    RowPairCounts { cross: 0, squares, rows }
}
