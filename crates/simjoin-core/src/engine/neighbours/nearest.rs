//! The nearest partners of each left item, while a join finds them.

use std::ops::ControlFlow;

use super::PairCondition;
use super::condition::BLOCK;
use super::served::{ItemSearch, ServedRows, UnitRows};
use crate::engine::probing::{Consumer, OpenUnit};
use crate::engine::{ItemId, ItemPair, Match};
use crate::error::{Result, internal_err};
use crate::predicate::Call;
use crate::top::{ScoreKey, TopK, key_of};

/// Matches whose scores are computed together.
const SCORED: usize = 1 << 10;

/// Keeps the nearest partners of the left items of open units: right items, or with a condition right rows of each left
/// row. Where each unordered pair of items is found once, those of all items.
pub(super) struct NearestOfUnits<'a> {
    search: &'a ItemSearch<'a>,
    /// The partners of all items.
    all: Option<&'a TopK>,
    /// The partners of the items of a unit, by its number.
    open: Vec<(u32, TopK)>,
    pairs: Vec<ItemPair>,
    scores: Vec<f64>,
    block: PairBlock,
    served: ServedRows<'a>,
}

/// Pairs of rows on their way to the condition.
#[derive(Default)]
struct PairBlock {
    left: Vec<u32>,
    right: Vec<u32>,
    /// The places of the left rows in their unit, and the keys of the scores.
    ranked: Vec<(u32, ScoreKey)>,
    /// The values of each function that the condition reads.
    values: Vec<Vec<f64>>,
}

impl PairBlock {
    /// Adds the pairs of a left row, in a slot, with right rows.
    fn add(&mut self, (slot, left): (u32, u32), right: &[u32], key: ScoreKey, scores: &[f64]) {
        self.left.extend(right.iter().map(|_| left));
        self.right.extend(right);
        self.ranked.extend(right.iter().map(|_| (slot, key)));
        for (values, score) in self.values.iter_mut().zip(scores) {
            values.extend(right.iter().map(|_| *score));
        }
    }

    /// Leaves out pairs of which `takes` does not hold, given the place of the left row and the key.
    fn retain(&mut self, takes: impl Fn(u32, ScoreKey) -> bool) {
        let Self { left, right, ranked, values } = self;
        let mut kept = 0;
        for at in 0..ranked.len() {
            let (slot, key) = ranked[at];
            if takes(slot, key) {
                (left[kept], right[kept], ranked[kept]) = (left[at], right[at], (slot, key));
                values.iter_mut().for_each(|values| values[kept] = values[at]);
                kept += 1;
            }
        }
        left.truncate(kept);
        right.truncate(kept);
        ranked.truncate(kept);
        values.iter_mut().for_each(|values| values.truncate(kept));
    }

    fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
        self.ranked.clear();
        self.values.iter_mut().for_each(Vec::clear);
    }
}

impl<'a> NearestOfUnits<'a> {
    pub(super) fn new(search: &'a ItemSearch<'a>, all: Option<&'a TopK>) -> Self {
        let calls = search.condition.map_or(0, |condition| condition.calls().len());
        let block = PairBlock { values: vec![vec![]; calls], ..PairBlock::default() };
        let (open, pairs, scores) = (vec![], vec![], vec![]);
        Self { search, all, open, pairs, scores, block, served: ServedRows::new(search) }
    }

    /// The rows that are served, and the other rows.
    pub(super) fn into_served(self) -> ServedRows<'a> {
        self.served
    }

    /// Opens the partners of a unit that has a match.
    fn open(&mut self, unit: &OpenUnit) -> Result<()> {
        if self.all.is_none() && self.open.iter().all(|(number, _)| *number != unit.number) {
            let best = self.search.partners(unit.items.groups(), unit.range.clone())?;
            self.open.push((unit.number, best));
        }
        Ok(())
    }

    /// The partners of the items of an open unit, and the first of these.
    fn best(&self, unit: &OpenUnit) -> Result<(&TopK, ItemId)> {
        if let Some(all) = self.all {
            return Ok((all, 0));
        }
        match self.open.iter().find(|(number, _)| *number == unit.number) {
            Some((_, best)) => Ok((best, unit.range.start)),
            None => internal_err!("matches of probe unit {}, which is not open", unit.number),
        }
    }

    /// Computes the values of a function for matches.
    fn score(&mut self, unit: &OpenUnit, matches: &[Match], call: Call) -> Result<()> {
        let sides = [unit.items.as_ref(), self.search.right.items.as_ref()];
        self.pairs.clear();
        self.scores.clear();
        self.pairs.extend(
            matches
                .iter()
                .map(|found| ItemPair { items: [found.probe, found.build], detail: found.detail }),
        );
        self.search.matcher.scores(call, sides, &self.pairs, &mut self.scores)
    }

    /// Offers all pairs of rows of matches that meet the condition.
    fn offer_rows(
        &mut self,
        unit: &OpenUnit,
        matches: &[Match],
        condition: &dyn PairCondition,
    ) -> Result<()> {
        let call = self.search.request.predicate.call;
        let mut of_calls = vec![];
        for of_condition in condition.calls() {
            self.score(unit, matches, *of_condition)?;
            of_calls.push(std::mem::take(&mut self.scores));
        }
        self.score(unit, matches, call)?;
        let order = call.function.info().order;
        let keys: Vec<_> = self.scores.iter().map(|score| key_of(score + 0.0, order)).collect();
        let is_unordered = self.all.is_some();
        let mut scores = vec![];
        for (at, (found, key)) in matches.iter().zip(keys).enumerate() {
            scores.clear();
            scores.extend(of_calls.iter().map(|of_call| of_call[at]));
            let pair = (found.probe, found.build, key);
            self.offer_pair(unit, pair, &scores, condition)?;
            if is_unordered && found.probe != found.build {
                let pair = (found.build, found.probe, key);
                self.offer_pair(unit, pair, &scores, condition)?;
            }
        }
        self.offer_block(unit, condition)
    }

    /// Offers the pairs of rows of a left and a right item.
    fn offer_pair(
        &mut self,
        unit: &OpenUnit,
        (left, right, key): (ItemId, ItemId, ScoreKey),
        scores: &[f64],
        condition: &dyn PairCondition,
    ) -> Result<()> {
        let groups = unit.items.groups();
        let first = match self.all {
            Some(_) => 0,
            None => groups.slots(unit.range.clone()).start,
        };
        let partners = self.search.right.items.groups().rows(right);
        for (slot, row) in groups.slots(left..left + 1).zip(groups.rows(left)) {
            for partners in partners.chunks(BLOCK) {
                let left = (slot - first, unit.first_row + row);
                self.block.add(left, partners, key, scores);
                if self.block.left.len() >= BLOCK {
                    self.offer_block(unit, condition)?;
                }
            }
        }
        Ok(())
    }

    /// Offers the candidates that meet the condition.
    fn offer_block(&mut self, unit: &OpenUnit, condition: &dyn PairCondition) -> Result<()> {
        self.search.request.cancel.check()?;
        let mut block = std::mem::take(&mut self.block);
        let (best, _) = self.best(unit)?;
        block.retain(|slot, key| best.takes(slot, key));
        let PairBlock { left, right, ranked, values } = &block;
        let holds = if left.is_empty() { vec![] } else { condition.hold(left, right, values)? };
        let all = ranked.iter().zip(right).zip(holds).filter(|(_, holds)| *holds);
        best.offer(all.map(|(((slot, key), right), _)| (*slot, *right, *key)));
        best.settle()?;
        block.clear();
        self.block = block;
        Ok(())
    }

    /// Offers the right items of matches.
    fn offer_items(&mut self, unit: &OpenUnit, matches: &[Match]) -> Result<()> {
        let call = self.search.request.predicate.call;
        let order = call.function.info().order;
        self.score(unit, matches, call)?;
        let (best, first) = self.best(unit)?;
        // Zeros are equal.
        let keyed = matches.iter().zip(self.scores.iter().map(|score| key_of(score + 0.0, order)));
        best.offer(keyed.clone().map(|(found, key)| (found.probe - first, found.build, key)));
        if self.all.is_some() {
            let others = keyed.filter(|(found, _)| found.probe != found.build);
            best.offer(others.map(|(found, key)| (found.build, found.probe, key)));
        }
        best.settle()
    }
}

impl Consumer for NearestOfUnits<'_> {
    fn take(&mut self, unit: &OpenUnit, matches: &[Match]) -> Result<ControlFlow<()>> {
        self.open(unit)?;
        for matches in matches.chunks(SCORED) {
            match self.search.condition {
                Some(condition) => self.offer_rows(unit, matches, condition)?,
                None => self.offer_items(unit, matches)?,
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn complete(&mut self, unit: &OpenUnit) -> Result<ControlFlow<()>> {
        if self.all.is_none() {
            let place = self.open.iter().position(|(number, _)| *number == unit.number);
            let best = place.map(|place| self.open.swap_remove(place).1);
            let rows = UnitRows {
                groups: unit.items.groups(),
                first_row: unit.first_row,
                bounds: unit.bounds.as_deref(),
            };
            self.served.serve(best.as_ref(), &rows, unit.range.clone(), false)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}
