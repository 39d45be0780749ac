//! Neighbours that the family of the score finds at once, before any round.
//!
//! The family knows no condition on pairs. Where there is one it is asked for a neighbour more, and the pairs
//! are held against the condition here: a row that has enough of them left has its neighbours, since every
//! pair that is not among them is worse. Rows that have not go through rounds.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::cast::as_boolean_array;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::common::{Result, internal_datafusion_err};

use super::argument::SideArgument;
use super::pairs::{admitted, is_true};
use super::run::{InMemorySearch, Round, Way};
use crate::engine::{NeighbourRequest, NeighbourSearch, NeighbourSide, Neighbours};
use crate::spec::{Search, Side};
use crate::top::{ScoreKey, TopK, key_of};
use crate::util::cancel::CancelFlag;

/// Left rows whose neighbours are looked through together.
const CHUNK: usize = 1 << 12;

/// The neighbours that the family is asked for beyond those wanted, because the condition may reject some:
/// mostly the row itself.
const SPARE: usize = 1;

fn spare(search: &Search) -> usize {
    if search.residual.is_some() { SPARE } else { 0 }
}

/// The answer of a family, with what is needed to look through it.
struct AtOnce {
    run: InMemorySearch,
    rows: Vec<u32>,
    neighbours: Neighbours,
    /// The neighbours that the family was asked for.
    asked: usize,
    /// The neighbours that a row may have.
    count: usize,
    /// The key of the worst score that a neighbour may have.
    bound: ScoreKey,
}

impl InMemorySearch {
    /// Offers `best` the neighbours of left rows that the family of the score finds at once. Returns the places
    /// of the rows whose neighbours are still unknown; `None` where there is no such search.
    ///
    /// # Errors
    ///
    /// The errors of evaluating conditions, and when memory for ties is refused.
    pub(super) async fn find_at_once(
        &self,
        rows: &[u32],
        best: &Arc<TopK>,
    ) -> Result<Option<Vec<u32>>> {
        let Some(search) = self.join.search.as_ref().filter(|search| self.suits(search)) else {
            return Ok(None);
        };
        let lists = self.memory.new_empty();
        // Rounds take less memory.
        if lists.try_grow((3 * rows.len() + 2 * self.right_rows()) * size_of::<u32>()).is_err() {
            return Ok(None);
        }
        let neighbours = match self.ask(search, rows).await? {
            NeighbourSearch::Found(neighbours) => neighbours,
            NeighbourSearch::Declined(None) => return Ok(None),
            NeighbourSearch::Declined(Some(why)) => {
                let way = Way::Declined(why);
                (self.on_round)(Round { way, rows: rows.len(), served: 0, of_items: false });
                return Ok(None);
            }
        };
        let device = neighbours.device.clone();
        let found = Arc::new(AtOnce {
            run: self.clone(),
            rows: rows.to_vec(),
            neighbours,
            asked: self.count() + spare(search),
            count: self.count(),
            bound: key_of(search.predicate.bound, self.join.order),
        });
        let left = found.offer(best).await?;
        let served = rows.len() - left.len();
        let way = Way::AtOnce(device);
        (self.on_round)(Round { way, rows: rows.len(), served, of_items: false });
        Ok(Some(left))
    }

    /// Whether a family may answer, which knows neither keys nor a strategy.
    fn suits(&self, search: &Search) -> bool {
        let residual = search.residual.as_ref();
        self.join.on.is_empty()
            && self.options.strategy.is_auto()
            && !search.predicate.bound.is_nan()
            && self.right_rows() > 0
            && residual.is_none_or(|residual| self.has_scores_of(residual))
    }

    /// Asks the family, on a thread that may wait.
    async fn ask(&self, search: &Search, rows: &[u32]) -> Result<NeighbourSearch> {
        let family = Arc::clone(self.families.get(search.predicate.family())?);
        let right = self.right_candidates()?;
        let [left_argument, right_argument] = &search.arguments;
        let is_whole = rows.len() == self.left.rows() || rows.len() == self.candidates()?.len();
        let filters = &self.join.side_filters;
        let itself = self.itself
            && is_whole
            && filters.iter().all(Option::is_none)
            && left_argument == right_argument;
        // A family tells rows in a tie apart in no order of theirs.
        let with_ties = self.nearest().with_ties || self.order.is_some();
        let (search, options) = (search.clone(), self.options.clone());
        let count = self.count() + spare(&search);
        let [left, right_side] = [(0, &self.left), (1, &self.right)].map(|(side, table)| {
            let argument = &search.arguments[side];
            SideArgument::try_new(argument, table, &self.families, search.predicate.family())
        });
        let arguments = [left?, right_side?];
        let (rows, memory) = (rows.to_vec(), self.memory.new_empty());
        let threads = self.threads();
        // A blocking thread is not aborted: it ends at its next look at the flag, once the statement is dropped.
        let cancel = CancelFlag::default();
        let _cancelled = cancel.on_drop();
        let asked = SpawnedTask::spawn_blocking(move || {
            let side = |number: usize, rows| NeighbourSide { argument: &arguments[number], rows };
            family.neighbours(&NeighbourRequest {
                predicate: search.predicate,
                count,
                with_ties,
                sides: [side(0, &rows), side(1, &right)],
                itself,
                device: options.device,
                gpu: options.gpu(),
                threads,
                simd: options.simd.form(),
                reservation: &memory,
                cancel: &cancel,
            })
        });
        let ended = asked.join().await;
        let found = ended.map_err(|error| {
            internal_datafusion_err!("the search for neighbours ended: {error}")
        })?;
        Ok(found?)
    }

    /// The right rows that pass the filter of their side.
    pub(super) fn right_candidates(&self) -> Result<Vec<u32>> {
        let mut rows = Vec::with_capacity(self.right_rows());
        for (start, batch) in self.right.batches() {
            let filter = admitted(self.join.side_filter(Side::Right), batch)?;
            rows.extend((0..batch.num_rows()).filter_map(|row| {
                let passes = filter.as_ref().is_none_or(|filter| is_true(filter, row));
                passes.then_some(start + row as u32)
            }));
        }
        Ok(rows)
    }

    /// The right rows that pass the filter of their side, as [`InMemorySearch::rank_of`] numbers them, in rising
    /// order.
    pub(super) fn ranked_candidates(&self) -> Result<Vec<u32>> {
        let mut rows = self.right_candidates()?;
        if self.order.is_some() {
            rows.iter_mut().for_each(|row| *row = self.rank_of(*row));
            rows.sort_unstable();
        }
        Ok(rows)
    }
}

impl AtOnce {
    /// Offers the neighbours of all rows. Returns the places of rows that have too few of them.
    async fn offer(self: Arc<Self>, best: &Arc<TopK>) -> Result<Vec<u32>> {
        let mut tasks = JoinSet::new();
        for first in (0..self.rows.len()).step_by(CHUNK) {
            let (found, best) = (Arc::clone(&self), Arc::clone(best));
            let places = first..self.rows.len().min(first + CHUNK);
            tasks.spawn(async move { found.offer_some(places, &best) });
        }
        let mut left = vec![];
        while let Some(ended) = tasks.join_next().await {
            let of_chunk =
                ended.map_err(|e| internal_datafusion_err!("a task of NEAREST ended: {e}"))?;
            left.extend(of_chunk?);
        }
        left.sort_unstable();
        Ok(left)
    }

    /// Offers the neighbours of the rows at some places. Returns the places of rows that have too few of them.
    fn offer_some(&self, places: Range<usize>, best: &TopK) -> Result<Vec<u32>> {
        let order = self.run.join.order;
        let (mut lefts, mut rights, mut values) = (vec![], vec![], vec![]);
        for place in places.clone() {
            let Some((partners, of_row)) = self.neighbours.of(place) else { continue };
            for (partner, value) in partners.iter().zip(of_row) {
                if key_of(*value, order) <= self.bound {
                    lefts.push(self.rows[place]);
                    rights.push(*partner);
                    values.push(*value);
                }
            }
        }
        let residual = self.run.join.search.as_ref().and_then(|search| search.residual.as_ref());
        let holds = match residual {
            Some(condition) => Some(self.run.evaluate_pairs(condition, &lefts, &rights, values)?),
            None => None,
        };
        let holds = holds.as_ref().map(|holds| as_boolean_array(holds)).transpose()?;
        let (mut pair, mut left, mut pairs) = (0, vec![], vec![]);
        for place in places {
            let Some((partners, of_row)) = self.neighbours.of(place) else {
                left.push(place as u32);
                continue;
            };
            let before = pairs.len();
            // Where there are fewer than were asked for, they are all.
            let mut is_bounded = partners.len() < self.asked;
            for (partner, value) in partners.iter().zip(of_row) {
                let key = key_of(*value, order);
                if key > self.bound {
                    is_bounded = true;
                    continue;
                }
                if holds.is_none_or(|holds| is_true(holds, pair)) {
                    pairs.push((place as u32, self.run.rank_of(*partner), key));
                }
                pair += 1;
            }
            // Every pair within the bound is known where one beyond it is.
            if pairs.len() - before < self.count && !is_bounded {
                pairs.truncate(before);
                left.push(place as u32);
            }
        }
        best.offer(pairs.into_iter());
        best.settle()?;
        Ok(left)
    }
}
