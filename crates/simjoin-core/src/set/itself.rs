//! The matches of sets with themselves.

use std::ops::Range;

use crate::engine::{Match, MatchBuffer, MatchNeed, Pairing, RowPairCounts};
use crate::set::collection::SetCollection;
use crate::set::join_spec::{JoinSpec, SetUnit};
use crate::set::runs::{Run, SetId};

/// The sets of a unit that match themselves, where each unordered pair is decided once. No filter
/// need find them: a set has all its tokens in common with itself, so that its size decides.
#[derive(Debug)]
pub struct SelfMatches {
    /// The sets that are left.
    unit: SetUnit,
    spec: JoinSpec,
}

impl SelfMatches {
    /// The self-matches of a unit; `None` where no set is paired with itself.
    pub fn of(unit: &SetUnit, spec: &JoinSpec) -> Option<Self> {
        (spec.pairing == Pairing::Unordered).then(|| Self { unit: unit.clone(), spec: *spec })
    }

    /// Gives those of a unit that are left, if any; `false` where the buffer is full.
    pub(crate) fn give_rest(
        left: &mut Option<Self>,
        matches: &mut MatchBuffer,
        given: &mut u64,
    ) -> bool {
        let done = left.as_mut().is_none_or(|itself| itself.give(matches, given));
        if done {
            *left = None;
        }
        done
    }

    /// Adds matches until all are given or the buffer is full, and their number to `given`. Returns
    /// whether all are given.
    pub fn give(&mut self, matches: &mut MatchBuffer, given: &mut u64) -> bool {
        let SetUnit { number, items: sets, range, .. } = &mut self.unit;
        matches.begin(*number);
        while let Some((run, ids)) = next_run(sets, range) {
            let end = ids.end.min(range.end);
            if !self.spec.bounds.sizes_can_match(self.spec.probe_role, run.size, run.size) {
                range.start = end;
                continue;
            }
            if self.spec.need == MatchNeed::Count {
                *given += u64::from(end - range.start);
                matches.count(RowPairCounts::of_themselves(sets.groups(), range.start..end));
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
