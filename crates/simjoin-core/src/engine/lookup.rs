//! A cursor that looks partners of probe items up, some probe items at a time.

use std::sync::Arc;

use super::{
    Collection, Cursor, Funnel, ItemId, Match, MatchBuffer, MatchNeed, Pairing, RowPairCounts,
    Unit, UnitCursor, Worker, WorkerProgress,
};
use crate::error::Result;
use crate::tuning::Tuning;

/// Finds matches, those of one probe item after those of the other.
pub trait Lookup: Send + 'static {
    /// The items of either side.
    type Items: Collection;

    /// Reserves memory for a unit that has been fed.
    ///
    /// # Errors
    ///
    /// A resource error where memory is short: the unit is not taken.
    fn admit(&mut self, _unit: &Unit<Self::Items>) -> Result<()> {
        Ok(())
    }

    /// Takes up a unit; the former one is done.
    fn begin(&mut self, _unit: &Unit<Self::Items>) {}

    /// Takes the next items from the range of the unit, and appends matches to `found`, which is empty, for a
    /// millisecond at most. Returns how many pairs were compared, or `None` once no item is left.
    ///
    /// # Errors
    ///
    /// Where memory is short, or the family's function fails.
    fn look_up(
        &mut self,
        unit: &mut Unit<Self::Items>,
        found: &mut Vec<Match>,
    ) -> Result<Option<u64>>;
}

/// The cursor of a partition that looks partners up among the items of `build`. `need` and `pairing` are those of the
/// join.
pub fn lookup_cursor<L: Lookup>(
    lookup: L,
    build: &Arc<L::Items>,
    (need, pairing): (MatchNeed, Pairing),
    tuning: Tuning,
) -> Box<dyn Cursor> {
    let worker = LookupWorker {
        lookup,
        build: Arc::clone(build),
        need,
        pairing,
        unit: None,
        found: vec![],
        given: 0,
        retired: None,
        funnel: Funnel::default(),
    };
    Box::new(UnitCursor::new(worker, tuning))
}

struct LookupWorker<L: Lookup> {
    lookup: L,
    build: Arc<L::Items>,
    need: MatchNeed,
    pairing: Pairing,
    unit: Option<Unit<L::Items>>,
    /// Matches, and how many of them have been given.
    found: Vec<Match>,
    given: usize,
    /// A probe item that needs no further match.
    retired: Option<ItemId>,
    funnel: Funnel,
}

impl<L: Lookup> LookupWorker<L> {
    /// Gives the matches that were found; whether the buffer had room for all.
    fn give(&mut self, matches: &mut MatchBuffer) -> bool {
        let Some(unit) = &self.unit else { return true };
        let groups = [unit.items.groups(), self.build.groups()];
        let mut counts = RowPairCounts::default();
        while let Some(&found) = self.found.get(self.given) {
            if matches.is_full() {
                matches.count(counts);
                return false;
            }
            self.given += 1;
            let Match { probe, build, .. } = found;
            if self.retired == Some(probe) {
                continue;
            }
            self.funnel.matches += 1;
            if self.need == MatchNeed::Count {
                counts += RowPairCounts::of(self.pairing, groups, [probe, build]);
                continue;
            }
            matches.push(found);
            if self.need == MatchNeed::Exists {
                self.retired = Some(probe);
            }
        }
        matches.count(counts);
        self.found.clear();
        self.given = 0;
        true
    }
}

impl<L: Lookup> Worker for LookupWorker<L> {
    type Items = L::Items;

    fn admit(&mut self, unit: &Unit<L::Items>) -> Result<()> {
        self.lookup.admit(unit)
    }

    fn begin(&mut self, unit: Unit<L::Items>) -> Result<()> {
        self.lookup.begin(&unit);
        self.unit = Some(unit);
        self.retired = None;
        Ok(())
    }

    fn work(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress> {
        if !self.give(matches) {
            return Ok(WorkerProgress::Full);
        }
        let Some(unit) = &mut self.unit else { return Ok(WorkerProgress::Done) };
        let Some(compared) = self.lookup.look_up(unit, &mut self.found)? else {
            return Ok(WorkerProgress::Done);
        };
        self.funnel.prefix_pairs += compared;
        self.funnel.candidates += compared;
        self.funnel.verified += compared;
        Ok(WorkerProgress::More)
    }

    fn retire(&mut self, probe: ItemId) {
        self.retired = Some(probe);
    }

    fn funnel(&self) -> Funnel {
        self.funnel
    }
}
