//! The cursors of a partition.

use std::ops::Range;
use std::sync::Arc;

use super::collection::WeightedSets;
use super::join::WeightedJoin;
use super::postings::Postings;
use super::probe::{Prober, Verifier, push_itself};
use crate::engine::{Cursor, ItemId, Lookup, Match, Pairing, PreparedJoin, Unit, lookup_cursor};
use crate::error::Result;
use crate::memory::Memory;

/// Pairs and matches after which a cursor pauses.
const MOST_READ: u64 = 1 << 17;
const MOST_FOUND: usize = 1 << 12;

/// A join with the postings of its build side.
#[derive(Debug)]
pub(super) struct IndexedSets {
    pub join: WeightedJoin,
    pub postings: Arc<Postings>,
}

/// The bytes of a cursor over so many build sets with so many distinct tokens.
pub(super) fn cursor_bytes(sets: usize, tokens: usize) -> usize {
    (sets + tokens) * size_of::<u32>() + (1 << 16)
}

impl WeightedJoin {
    fn reserve_cursor(&self, reservation: &dyn Memory) -> Result<()> {
        reservation.try_grow(cursor_bytes(self.build.len() as usize, self.build.ranked.len()))
    }

    fn cursor(&self, lookup: impl Lookup<Items = WeightedSets>) -> Box<dyn Cursor> {
        let how = (self.spec.need, self.spec.pairing());
        lookup_cursor(lookup, &self.build, how, self.spec.tuning)
    }
}

impl PreparedJoin for IndexedSets {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        self.join.reserve_cursor(reservation)?;
        let prober = Prober::new(self.join.clone(), Arc::clone(&self.postings));
        Ok(self.join.cursor(PostingLookup(prober)))
    }
}

/// Candidates by the postings of common tokens.
struct PostingLookup(Prober);

impl Lookup for PostingLookup {
    type Items = WeightedSets;

    fn look_up(
        &mut self,
        unit: &mut Unit<WeightedSets>,
        found: &mut Vec<Match>,
    ) -> Result<Option<u64>> {
        let mut read = None;
        while read < Some(MOST_READ) && found.len() < MOST_FOUND {
            let Some(item) = unit.range.next() else { break };
            read = Some(read.unwrap_or(0) + self.0.probe(&unit.items, item, found));
        }
        Ok(read)
    }
}

/// A join that compares all pairs.
#[derive(Debug)]
pub(super) struct AllSets(pub WeightedJoin);

impl PreparedJoin for AllSets {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        self.0.reserve_cursor(reservation)?;
        let verifier = Verifier::new(&self.0.build);
        Ok(self.0.cursor(PairLookup { join: self.0.clone(), verifier, probe: 0, partners: 0..0 }))
    }
}

/// All partners of each probe set.
struct PairLookup {
    join: WeightedJoin,
    verifier: Verifier,
    probe: ItemId,
    /// The partners that are left.
    partners: Range<ItemId>,
}

impl PairLookup {
    /// Takes up the next probe set; `false` where none is left.
    fn next(&mut self, unit: &mut Unit<WeightedSets>, found: &mut Vec<Match>) -> bool {
        let Some(probe) = unit.range.next() else { return false };
        let WeightedJoin { build, limits, spec } = &self.join;
        self.probe = probe;
        self.partners = build.items_of(unit.items.key_of(probe));
        if limits.is_void() {
            self.partners = 0..0;
        } else if spec.pairing() == Pairing::Unordered {
            push_itself(limits, &unit.items, probe, found);
            self.partners.end = self.partners.end.min(probe);
        }
        true
    }
}

impl Lookup for PairLookup {
    type Items = WeightedSets;

    fn look_up(
        &mut self,
        unit: &mut Unit<WeightedSets>,
        found: &mut Vec<Match>,
    ) -> Result<Option<u64>> {
        /// Partners that are compared at a time.
        const MOST: usize = 1 << 11;
        if self.partners.is_empty() && !self.next(unit, found) {
            return Ok(None);
        }
        let Self { join: WeightedJoin { build, limits, .. }, verifier, probe, partners } = self;
        let (tokens, weights) = unit.items.set(*probe);
        let mass = unit.items.mass(*probe);
        verifier.begin(tokens, weights);
        let some = partners.by_ref().take(MOST);
        let before = partners_left(&some);
        let matching = some.filter(|partner| verifier.matches(limits, build, mass, *partner));
        found.extend(matching.map(|build| Match { probe: *probe, build, detail: 0 }));
        verifier.end(tokens);
        Ok(Some(before))
    }
}

/// The partners that are compared next.
fn partners_left(some: &impl Iterator) -> u64 {
    some.size_hint().0 as u64
}
