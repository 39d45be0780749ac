//! The question that a family is asked: the nearest rows of left rows.
//!
//! A family that knows no blocking keys is asked for the rows of each key by themselves, as long as it finds them at
//! once.

use std::sync::Arc;

use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_plan::expressions::Column;
use futures::{StreamExt, TryStreamExt, stream};

use super::argument::SideArgument;
use super::condition::TableCondition;
use super::keys::{KeyGroup, RowsByKey, converter_of};
use super::pairs::{admitted, is_true};
use super::run::{FinishedRound, InMemorySearch};
use super::tasks::was_ended;
use crate::engine::{self, NeighbourRequest, NeighbourSide, Neighbours, PairCondition, Round, Way};
use crate::spec::{Order, Search, Side};
use crate::top::{TopK, key_of, score_of};
use crate::tuning::Size;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// Pairs of rows of a blocking key from which on a family is asked for them by themselves.
const LEAST_PAIRS: Size = Size { usual: 1 << 12, small: 1 };

/// Left rows whose neighbours are offered together.
const CHUNK: usize = 1 << 12;

/// Left rows, and the right rows among which their neighbours are.
struct AskedRows {
    /// The places of the left rows among all that are searched for.
    places: Vec<u32>,
    right: Vec<u32>,
    /// Whether the left rows are all that are searched for.
    asks_all: bool,
    /// Whether rows are neighbours only where their keys are equal.
    by_keys: bool,
    threads: Threads,
}

/// The searches for some rows, as EXPLAIN ANALYZE shows them: those at once as one.
#[derive(Default)]
struct ShownRounds {
    at_once: Option<Round>,
    others: Vec<Round>,
}

impl ShownRounds {
    fn add(&mut self, round: Round) {
        match (&mut self.at_once, &round.way) {
            (Some(all), Way::AtOnce(_)) => {
                all.rows += round.rows;
                all.served += round.served;
            }
            (None, Way::AtOnce(_)) => self.at_once = Some(round),
            (_, Way::Declined(_)) if !self.others.is_empty() => {}
            (_, Way::Declined(_) | Way::Bound(_) | Way::Pairs) => self.others.push(round),
        }
    }
}

impl InMemorySearch {
    /// Offers `best` the neighbours of the left rows at some places in `rows` by the function of the search. Pairs that are worse than all `carried`
    /// pairs of their row are not needed.
    ///
    /// # Errors
    ///
    /// The errors of evaluating arguments, keys and conditions; when no strategy can be had, and when memory is refused.
    pub(super) async fn ask(
        &self,
        search: &Search,
        (rows, places): (&[u32], &[u32]),
        best: &Arc<TopK>,
        carried: Option<&TopK>,
    ) -> Result<()> {
        let lists = self.memory.new_empty();
        lists.try_grow((3 * places.len() + self.right_rows()) * size_of::<u32>())?;
        let itself = places.len() == rows.len() && self.is_itself(search, rows)?;
        let ask = |asked: AskedRows| self.ask_for(search, (rows, asked, carried), itself, best);
        let (mut shown, threads) = (ShownRounds::default(), self.threads());
        let mut others = places.to_vec();
        if self.groups_pay(search)? {
            let by_key = RowsByKey::try_new(&self.join, &self.right, self.memory.new_empty())?;
            let numbers: Vec<u32> = places.iter().map(|place| rows[*place as usize]).collect();
            let groups = by_key.groups(&self.join, &self.left, &numbers)?;
            let groups = groups.into_iter().map(|mut group| {
                group.places.iter_mut().for_each(|at| *at = places[*at as usize]);
                group
            });
            let least = threads.tuning.size(LEAST_PAIRS);
            let (mut large, few): (Vec<_>, Vec<_>) =
                groups.partition(|group| group.pairs() >= least);
            others = few.into_iter().flat_map(|group| group.places).collect();
            let of = |KeyGroup { places, right }: KeyGroup, threads: Threads| AskedRows {
                places,
                right,
                asks_all: false,
                by_keys: false,
                threads,
            };
            if !large.is_empty() {
                let rounds = ask(of(large.remove(0), threads)).await?;
                let is_at_once = rounds.iter().any(|round| matches!(round.way, Way::AtOnce(_)));
                rounds.into_iter().for_each(|round| shown.add(round));
                // A family that has no search for the largest group has none for others.
                if !is_at_once {
                    others.extend(large.drain(..).flat_map(|group| group.places));
                }
            }
            let (tasks, of_task) = match large.len() >= threads.count() {
                true => (threads.count(), threads.at_most(1)),
                false => (1, threads),
            };
            let asked = stream::iter(large).map(|group| ask(of(group, of_task)));
            let mut asked = asked.buffer_unordered(tasks);
            while let Some(rounds) = asked.try_next().await? {
                rounds.into_iter().for_each(|round| shown.add(round));
            }
            others.sort_unstable();
        }
        if !others.is_empty() {
            let (right, by_keys) = (self.right_candidates()?, !self.join.on.is_empty());
            let asks_all = others.len() == rows.len();
            let asked = AskedRows { places: others, right, asks_all, by_keys, threads };
            let rounds = ask(asked).await?;
            rounds.into_iter().for_each(|round| shown.add(round));
        }
        for round in shown.at_once.into_iter().chain(shown.others) {
            (self.on_round)(FinishedRound { round, of_items: false });
        }
        Ok(())
    }

    /// Whether the family is asked for the rows of each key by themselves. What is computed would be computed again for
    /// each.
    fn groups_pay(&self, search: &Search) -> Result<bool> {
        let family = search.predicate.family();
        if self.join.on.is_empty() || self.families.get(family)?.knows_keys() {
            return Ok(false);
        }
        for (argument, table) in search.arguments.iter().zip([&self.left, &self.right]) {
            let source = self.families.source_of(family, argument, table.schema())?;
            if !source.as_ref().map_or(argument, |(source, _)| source).is::<Column>() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the left rows of each key are its right rows, so that they are read once.
    fn is_itself(&self, search: &Search, rows: &[u32]) -> Result<bool> {
        let [left, right] = &search.arguments;
        let is_alike = self.itself
            && left == right
            && self.join.on.iter().all(|(left, right)| left == right)
            && self.join.side_filters.iter().all(Option::is_none);
        Ok(is_alike && (rows.len() == self.left.rows() || rows.len() == self.candidates()?.len()))
    }

    /// Offers `best` the neighbours of some left rows. The searches that were made.
    async fn ask_for(
        &self,
        search: &Search,
        (rows, asked, carried): (&[u32], AskedRows, Option<&TopK>),
        itself: bool,
        best: &Arc<TopK>,
    ) -> Result<Vec<Round>> {
        // Pairs that are worse than all that a row carries are not needed.
        let none = match self.join.order {
            Order::Distance => f64::INFINITY,
            Order::Similarity => f64::NEG_INFINITY,
        };
        let bound = |carried: &TopK, place: u32| {
            carried.bound(place).map_or(none, |key| score_of(key, self.join.order))
        };
        let bounds = carried
            .map(|carried| asked.places.iter().map(|place| bound(carried, *place)).collect());
        let itself = itself && asked.places.len() == asked.right.len();
        let left: Vec<u32> = asked.places.iter().map(|place| rows[*place as usize]).collect();
        let places = asked.places.clone();
        let found = self.found_by_engine(search, (left, bounds, asked), itself).await?;
        let rounds = found.rounds.clone();
        self.offer(found, places, search, best).await?;
        Ok(rounds)
    }

    /// The answer of the engine, on a thread that may wait.
    async fn found_by_engine(
        &self,
        search: &Search,
        (left, bounds, asked): (Vec<u32>, Option<Vec<f64>>, AskedRows),
        itself: bool,
    ) -> Result<Neighbours> {
        let family = Arc::clone(self.families.get(search.predicate.family())?);
        // A family tells rows in a tie apart in no order of theirs.
        let with_ties = self.nearest().with_ties || self.order.is_some();
        let (count, options) = (self.count(), self.options.clone());
        let asks_all = asked.asks_all;
        let AskedRows { right, by_keys, threads, .. } = asked;
        let [of_left, of_right] = [(0, &self.left), (1, &self.right)].map(|(side, table)| {
            let argument = &search.arguments[side];
            SideArgument::try_new(argument, table, &self.families, search.predicate.family())
        });
        let mut arguments = [of_left?, of_right?];
        if by_keys {
            let converter = Arc::new(converter_of(&self.join, &self.right)?);
            let (left, right) = self.join.on.iter().cloned().unzip();
            let [of_left, of_right] = arguments;
            arguments =
                [of_left.with_keys(left, &converter), of_right.with_keys(right, &converter)];
        }
        let condition =
            search.residual.as_ref().map(|residual| TableCondition::new(self, residual));
        let (memory, predicate) = (self.memory.new_empty(), search.predicate);
        let kept = self.kept.clone().filter(|_| asks_all);
        // A blocking thread is not aborted: it ends at its next look at the flag, once the statement is dropped.
        let cancel = CancelFlag::default();
        let _cancelled = cancel.on_drop();
        let asked = SpawnedTask::spawn_blocking(move || {
            let side = |number: usize, rows| NeighbourSide { argument: &arguments[number], rows };
            engine::neighbours(
                family.as_ref(),
                &NeighbourRequest {
                    predicate,
                    count,
                    with_ties,
                    bounds: bounds.as_deref(),
                    condition: condition.as_ref().map(|condition| condition as &dyn PairCondition),
                    sides: [side(0, &left), side(1, &right)],
                    itself,
                    kept: kept.as_deref(),
                    strategy: options.strategy,
                    device: options.device,
                    gpu: options.gpu(),
                    threads,
                    simd: options.simd.form(),
                    reservation: &memory,
                    cancel: &cancel,
                },
            )
        });
        let ended = asked.join().await;
        let found = ended.map_err(|error| {
            internal_datafusion_err!("the search for neighbours ended: {error}")
        })?;
        Ok(found?)
    }

    /// Offers `best` the neighbours of the left rows at some places, as far as they are within the bound.
    async fn offer(
        &self,
        found: Neighbours,
        places: Vec<u32>,
        search: &Search,
        best: &Arc<TopK>,
    ) -> Result<()> {
        let (found, places) = (Arc::new(found), Arc::new(places));
        let bound = key_of(search.predicate.bound, self.join.order);
        let mut tasks = JoinSet::new();
        for first in (0..places.len()).step_by(CHUNK) {
            let (found, places) = (Arc::clone(&found), Arc::clone(&places));
            let (run, best) = (self.clone(), Arc::clone(best));
            tasks.spawn(async move {
                for at in first..places.len().min(first + CHUNK) {
                    let Some((partners, values)) = found.of(at) else { continue };
                    let keys = values.iter().map(|value| key_of(*value, run.join.order));
                    // The nearest last: a heap takes them without moving others.
                    let within = partners.iter().zip(keys).rev().filter(|(_, key)| *key <= bound);
                    best.offer(within.map(|(row, key)| (places[at], run.rank_of(*row), key)));
                }
                best.settle()
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(was_ended)??;
        }
        Ok(())
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
