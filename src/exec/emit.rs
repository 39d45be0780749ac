//! Rows that the answer lists one by one: semi and anti joins, padded rows, counts per row.

use std::sync::Arc;

use datafusion::common::Result;

use super::layout::{RowsWith, Yield};
use super::output::RowCounts;
use super::payload::Payload;
use super::probe::{Running, State, Unit};
use super::spec::Side;

/// Rows of one side on their way out.
pub(super) struct RowEmission {
    payload: Arc<Payload>,
    places: Vec<u32>,
    /// Empty unless multiplicities are asked for.
    matches: Vec<u64>,
    non_null: Vec<Vec<u64>>,
    next: usize,
}

impl Running {
    /// The probe rows of a unit that the answer lists one by one.
    pub(super) fn finish_unit(&mut self, unit: &Unit) -> State {
        let probe = self.layout.probe;
        let (matched, lists_unmatched) = match self.layout.yields {
            Yield::RowsOf(side, RowsWith::Match) if side == probe => (true, false),
            Yield::RowsOf(side, RowsWith::NoMatch) if side == probe => (false, true),
            Yield::CountsPerProbeRow => (true, self.layout.pads(probe)),
            Yield::Pairs => (false, self.layout.pads(probe)),
            Yield::RowsOf(..) | Yield::Total => (false, false),
        };
        if !matched && !lists_unmatched {
            return State::NextUnit;
        }
        // Rows that meet several pieces of the build side are listed once.
        let visit = unit.visit.as_ref();
        let counts = self.layout.yields == Yield::CountsPerProbeRow;
        let first_match = |place: u32| {
            visit.is_none_or(|visit| {
                let row = unit.sets.row_at(place);
                let is_first = !visit.is_marked(row);
                visit.mark(row);
                is_first || counts
            })
        };
        let unmatched = |place: u32| {
            lists_unmatched
                && visit.is_none_or(|v| v.is_last && !v.is_marked(unit.sets.row_at(place)))
        };
        let mut places = vec![];
        let mut matches = vec![];
        let mut non_null = vec![vec![]; unit.counted.non_null.len()];
        let first = unit.sets.row_places(unit.range.clone()).start;
        for set in unit.range.clone() {
            for place in unit.sets.row_places(set..set + 1) {
                let index =
                    if self.layout.sets_decide() { set - unit.range.start } else { place - first };
                let count = unit.counted.matches.get(index as usize).copied().unwrap_or(0);
                if if count > 0 { first_match(place) && matched } else { unmatched(place) } {
                    places.push(place);
                    matches.push(count);
                    for (all, some) in unit.counted.non_null.iter().zip(&mut non_null) {
                        some.extend(all.get(index as usize));
                    }
                }
            }
        }
        if lists_unmatched && unit.has_setless {
            places.extend(unit.sets.setless_places().filter(|&place| unmatched(place)));
            matches.resize(places.len(), 0);
            let counted = non_null.iter_mut().zip(&unit.counted.non_null);
            counted
                .filter(|(_, all)| !all.is_empty())
                .for_each(|(some, _)| some.resize(places.len(), 0));
        }
        if places.is_empty() {
            return State::NextUnit;
        }
        if self.layout.yields != Yield::CountsPerProbeRow {
            matches.clear();
        }
        let payload = Arc::clone(&unit.payload);
        State::Emitting(RowEmission { payload, places, matches, non_null, next: 0 })
    }

    pub(super) fn emit(&mut self, mut emission: RowEmission) -> Result<State> {
        let end = (emission.next + self.batch_size).min(emission.places.len());
        let part = emission.next..end;
        let places = emission.places[part.clone()].to_vec();
        let non_null: Vec<Vec<u64>> = emission
            .non_null
            .iter()
            .map(|counts| counts.get(part.clone()).unwrap_or_default().to_vec())
            .collect();
        let matches = emission.matches.get(part).unwrap_or_default();
        let counts = (!matches.is_empty()).then_some(RowCounts { matches, non_null: &non_null });
        self.output.push_rows(self.layout.probe, &emission.payload, places, counts)?;
        emission.next = end;
        Ok(if end < emission.places.len() { State::Emitting(emission) } else { State::NextUnit })
    }

    /// Gives out the next build rows that the answer lists one by one.
    pub(super) fn emit_build_rows(
        &mut self,
        mut next_set: u32,
        mut next_setless: usize,
    ) -> Result<State> {
        let build = Arc::clone(&self.build);
        let (sets, side): (_, Side) = (&build.sets, self.layout.build());
        let wanted = self.layout.yields == Yield::RowsOf(side, RowsWith::Match);
        let mut places = vec![];
        while next_set < sets.len() && places.len() < self.batch_size {
            for place in sets.row_places(next_set..next_set + 1) {
                let index = if self.layout.sets_decide() { next_set } else { place };
                let marked = build.visited.as_ref().is_some_and(|v| v.is_marked(index as usize));
                if marked == wanted {
                    places.push(place);
                }
            }
            next_set += 1;
        }
        if next_set == sets.len() && !wanted && places.len() < self.batch_size {
            let rest = sets.setless_places().skip(next_setless);
            let before = places.len();
            places.extend(rest.take(self.batch_size - before));
            next_setless += places.len() - before;
        }
        for part in places.chunks(self.batch_size) {
            self.output.push_rows(side, &build.payload, part.to_vec(), None)?;
        }
        let ended =
            next_set == sets.len() && (wanted || next_setless == sets.setless_places().len());
        if ended {
            self.output.finish()?;
            return Ok(State::Done);
        }
        Ok(State::Tail { next_set, next_setless })
    }
}
