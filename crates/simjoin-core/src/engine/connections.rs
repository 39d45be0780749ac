//! The matches of a join that needs only what connects.

use std::sync::Arc;

use crate::engine::ItemId;
use crate::util::forest::Forest;

/// The items that matches have connected, as one partition sees them; all partitions share the forest.
///
/// A match tells something new where it connects items that no match before it has connected, whichever
/// partition found that one. Every match that tells something new reaches the operator, so that the
/// items of all matches are connected in the end, in whatever order they come.
#[derive(Debug)]
pub struct Connections {
    /// Over the build items.
    forest: Arc<Forest>,
    /// Whether the probe items are the build items.
    is_shared: bool,
    /// In a join of two inputs, the unit and the probe item of the last match, and a build item that
    /// this probe item matches. Matches of a probe item mostly follow each other; where they do not, a
    /// match of it may be told again.
    hub: Option<(u32, ItemId, ItemId)>,
    /// The present unit, unless all its matches are needed.
    unit: Option<u32>,
    /// Units of which all matches are needed.
    whole: Vec<u32>,
}

impl Connections {
    pub fn new(forest: Arc<Forest>, is_shared: bool) -> Self {
        Self { forest, is_shared, hub: None, unit: None, whole: vec![] }
    }

    /// Notes that all matches of a unit are needed.
    pub(super) fn need_all_of(&mut self, unit: u32) {
        self.whole.push(unit);
    }

    /// Takes up a unit.
    #[inline]
    pub(super) fn begin(&mut self, unit: u32) {
        self.unit = (!self.whole.contains(&unit)).then_some(unit);
    }

    /// Forgets a unit that is complete.
    pub(super) fn complete(&mut self, unit: u32) {
        self.whole.retain(|whole| *whole != unit);
        self.hub = self.hub.filter(|(of, ..)| *of != unit);
    }

    /// The build item that stands for a probe item of the present unit.
    #[inline]
    fn stand_in(&self, unit: u32, probe: ItemId) -> Option<ItemId> {
        match self.hub {
            _ if self.is_shared => Some(probe),
            Some((of, item, hub)) if (of, item) == (unit, probe) => Some(hub),
            _ => None,
        }
    }

    /// Whether a match of these items would tell nothing new.
    #[inline]
    pub(super) fn knows(&self, probe: ItemId, build: ItemId) -> bool {
        let Some(unit) = self.unit else { return false };
        let stand_in = self.stand_in(unit, probe);
        stand_in.is_some_and(|probe| probe != build && self.forest.are_united(probe, build))
    }

    /// Connects the items of a match. Returns whether it tells something new.
    #[inline]
    pub(super) fn add(&mut self, probe: ItemId, build: ItemId) -> bool {
        let Some(unit) = self.unit else { return true };
        match self.stand_in(unit, probe) {
            // The rows of one item, which no other match need connect.
            Some(probe) if probe == build && self.is_shared => true,
            Some(probe) => self.forest.unite(probe, build),
            None => {
                self.hub = Some((unit, probe, build));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::engine::{Match, MatchBuffer};

    const ITEMS: u32 = 50;

    fn buffer(forest: &Arc<Forest>, is_shared: bool) -> MatchBuffer {
        let connections = Connections::new(Arc::clone(forest), is_shared);
        MatchBuffer::new(10_000).connecting(Some(connections))
    }

    /// The components of matches; probe items that are no build items have the ids behind these.
    fn components(matches: &[Match], is_shared: bool) -> Vec<u32> {
        let forest = Forest::new(2 * ITEMS);
        for found in matches {
            forest.unite(found.probe + if is_shared { 0 } else { ITEMS }, found.build);
        }
        (0..2 * ITEMS).map(|id| forest.find(id)).collect()
    }

    /// Two partitions share a forest, and what both keep connects what all matches connect.
    #[test]
    fn matches_that_are_left_out_connect_nothing() {
        let mut rng = StdRng::seed_from_u64(11);
        for round in 0..200 {
            let is_shared = round % 2 == 0;
            let forest = Arc::new(Forest::new(ITEMS));
            let mut buffers = [buffer(&forest, is_shared), buffer(&forest, is_shared)];
            let (mut all, mut known) = (vec![], 0);
            for (unit, probe) in (0..ITEMS).map(|probe| (probe / 9, probe)) {
                let buffer = &mut buffers[probe as usize % 2];
                buffer.begin(unit);
                for _ in 0..rng.random_range(0..5) {
                    let found = Match { probe, build: rng.random_range(0..ITEMS), detail: 0 };
                    all.push(found);
                    if buffer.knows(found.probe, found.build) {
                        known += 1;
                    } else {
                        buffer.push(found);
                    }
                }
            }
            let kept = buffers.each_ref().map(|buffer| buffer.matches().to_vec()).concat();
            assert_eq!(components(&kept, is_shared), components(&all, is_shared), "{all:?}");
            let others = kept.iter().filter(|found| found.probe != found.build || !is_shared);
            assert!(others.count() < (2 * ITEMS) as usize && known > 0, "{known} of {all:?}");
        }
    }

    /// A unit of which all matches are needed neither loses one nor connects items for others.
    #[test]
    fn units_may_need_all_matches() {
        let forest = Arc::new(Forest::new(ITEMS));
        let mut buffer = buffer(&forest, true);
        let found = Match { probe: 1, build: 2, detail: 0 };
        buffer.need_all_of(7);
        for unit in [7, 7, 3, 3, 7] {
            buffer.begin(unit);
            buffer.push(found);
        }
        let kept: Vec<_> = buffer.runs().map(|run| (run.unit, run.matches.len())).collect();
        assert_eq!(kept, [(7, 2), (3, 1), (7, 1)]);
        buffer.complete(7);
        assert_eq!(buffer.pop_completed(), Some(7));
        buffer.begin(7);
        assert!(buffer.knows(1, 2) && !buffer.knows(1, 3));
    }
}
