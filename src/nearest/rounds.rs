//! Neighbours by a score of several functions.
//!
//! ```text
//! score >= 0.92 ─► joins by what follows ─► pairs ─► best score by one value ─► score ─► best pairs of the row
//!       │                                              │ beyond the row's worst: left out
//!       ▼ rows that lack some
//! score >= 0.8  ─► …
//! ```
//!
//! A row that has all its neighbours within the threshold of a round takes part in no other one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Float64Type, Schema, UInt32Type};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;

use super::condition::of_pairs;
use super::keys::RowsByKey;
use super::numbered::NumberedRows;
use super::pairs::{evaluate, is_true, keys_of};
use super::run::{FinishedRound, InMemorySearch};
use super::tasks::all_of;
use crate::engine::{Round, Way};
use crate::exec::SetSimilarityJoinExec;
use crate::spec::{DriverKind, NearestJoin, Order, Residual, Search, SearchDriver, SearchRound};
use crate::top::{ScoreKey, TopK, key_of};

/// Pairs whose scores are computed together.
const PIECE: usize = 1 << 10;

/// Pairs of an equality that are looked at together.
const BATCH: usize = 1 << 13;

/// The left rows that take part in a round.
struct RoundRows {
    search: InMemorySearch,
    /// The numbers of the rows, in rising order.
    rows: Vec<u32>,
    /// Their places in `best`.
    places: Vec<u32>,
    /// By row, the key beyond which a pair is not needed.
    limits: Vec<ScoreKey>,
    best: Arc<TopK>,
}

/// The place of a driver: the number of the round, and its own there.
type DriverPlace = (usize, usize);

impl InMemorySearch {
    /// Offers `best` the best pairs of the left rows at the places `active` in `rows`, which rise. Returns the places of
    /// rows that may lack some. Pairs that are worse than all `carried` pairs of their row are not needed.
    ///
    /// # Errors
    ///
    /// The errors of the joins, and of evaluating scores and conditions; and when memory is refused.
    pub(super) async fn by_rounds(
        &self,
        rows: &[u32],
        active: Vec<u32>,
        best: &Arc<TopK>,
        carried: Option<&TopK>,
    ) -> Result<Vec<u32>> {
        let lists = self.memory.new_empty();
        lists.try_grow(active.len() * (2 * size_of::<u32>() + size_of::<ScoreKey>()))?;
        let of_carried = |place: &u32| {
            carried.and_then(|carried| carried.bound(*place)).unwrap_or(ScoreKey::MAX)
        };
        let mut limits: Vec<ScoreKey> = active.iter().map(of_carried).collect();
        let mut places = active;
        for (number, round) in self.join.rounds.iter().enumerate() {
            if places.is_empty() {
                break;
            }
            // Pairs of a round before are found again.
            for (place, limit) in places.iter().zip(&mut limits) {
                *limit = best.bound(*place).map_or(*limit, |bound| bound.min(*limit));
                best.clear(*place);
            }
            let taking_part = Arc::new(RoundRows {
                search: self.clone(),
                rows: places.iter().map(|place| rows[*place as usize]).collect(),
                places,
                limits,
                best: Arc::clone(best),
            });
            for driver in 0..round.drivers.len() {
                taking_part.drive((number, driver)).await?;
            }
            (places, limits) = taking_part.unserved(round, carried)?;
            let way = match round.threshold {
                Some(threshold) => Way::Bound(threshold),
                None => Way::AtOnce("bounds of the condition".to_string()),
            };
            let all = taking_part.rows.len();
            let round = Round { way, rows: all, served: all - places.len() };
            (self.on_round)(FinishedRound { round, of_items: false });
        }
        Ok(places)
    }
}

impl RoundRows {
    fn driver(&self, (round, driver): DriverPlace) -> Result<&SearchDriver> {
        let round: Option<&SearchRound> = self.search.join.rounds.get(round);
        let driver = round.and_then(|round| round.drivers.get(driver));
        driver.ok_or_else(|| internal_datafusion_err!("a round of NEAREST lacks a driver"))
    }

    /// The places, and the limits, of the rows that may lack pairs after a round.
    fn unserved(
        &self,
        round: &SearchRound,
        carried: Option<&TopK>,
    ) -> Result<(Vec<u32>, Vec<ScoreKey>)> {
        let (Some(threshold), Some(score)) = (round.threshold, &self.search.join.score) else {
            return Ok((vec![], vec![]));
        };
        let data_type = score.expression.data_type(&score.schema)?;
        let threshold = ScalarValue::Float64(Some(threshold)).cast_to(&data_type)?.to_array()?;
        let key = keys_of(&threshold, self.search.join.order)?.value(0);
        let lacks = |place: u32| {
            !self.best.is_full_within(place, key)
                && !carried.is_some_and(|carried| carried.is_full_within(place, key))
        };
        let all = self.places.iter().zip(&self.limits);
        Ok(all.filter(|(place, _)| lacks(**place)).unzip())
    }

    /// Offers the pairs that a driver finds.
    async fn drive(self: &Arc<Self>, place: DriverPlace) -> Result<()> {
        match &self.driver(place)?.by {
            DriverKind::Bound { search, .. } => self.join(place, search).await,
            DriverKind::Equality(left, right) => self.equal(place, [left, right]).await,
        }
    }

    /// Offers the pairs of a join by a function.
    async fn join(self: &Arc<Self>, place: DriverPlace, search: &Search) -> Result<()> {
        let InMemorySearch { join, left, right, options, families, memory, context, .. } =
            &self.search;
        let copies = memory.new_empty();
        let numbered = NumberedRows {
            tables: [left, right],
            rows: [Some(&self.rows), None],
            itself: false,
            partitions: self.search.threads().count(),
        };
        let (output, schema) = numbered.output(search.predicate.call, &search.arguments)?;
        let matches = join.matches(search, search.predicate.bound, output, schema);
        let matches = matches.with_column_behind(numbered.columns())?;
        let input = numbered.input(options, &copies)?;
        let plan = SetSimilarityJoinExec::try_new(input, matches, families, options.clone())?;
        let mut tasks = JoinSet::new();
        for partition in 0..plan.properties().partitioning.partition_count() {
            let mut batches = plan.execute(partition, Arc::clone(context))?;
            let this = Arc::clone(self);
            tasks.spawn(async move {
                while let Some(batch) = batches.next().await {
                    let batch = batch?;
                    let [left, right] =
                        [0, 1].map(|side| batch.column(side).as_primitive::<UInt32Type>().clone());
                    let rows = [left.values().as_ref(), right.values().as_ref()];
                    this.offer(place, rows, Some(batch.column(2)))?;
                    tokio::task::yield_now().await;
                }
                Ok(())
            });
        }
        all_of(tasks).await.map(drop)
    }

    /// Offers the pairs for which an expression of each side is equal.
    async fn equal(
        self: &Arc<Self>,
        place: DriverPlace,
        [left, right]: [&PhysicalExprRef; 2],
    ) -> Result<()> {
        let mut join = NearestJoin::clone(&self.search.join);
        join.on.push((Arc::clone(left), Arc::clone(right)));
        let by_key = RowsByKey::try_new(&join, &self.search.right, self.search.memory.new_empty())?;
        let groups = Arc::new(by_key.groups(&join, &self.search.left, &self.rows)?);
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..self.search.threads().count().clamp(1, groups.len().max(1)) {
            let (this, groups, next) = (Arc::clone(self), Arc::clone(&groups), Arc::clone(&next));
            tasks.spawn(async move {
                let [mut left, mut right] = [vec![], vec![]];
                while let Some(group) = groups.get(next.fetch_add(1, Relaxed)) {
                    for at in &group.places {
                        for partners in group.right.chunks(BATCH) {
                            left.resize(left.len() + partners.len(), this.rows[*at as usize]);
                            right.extend_from_slice(partners);
                            if left.len() >= BATCH {
                                this.offer(place, [&left, &right], None)?;
                                left.clear();
                                right.clear();
                                tokio::task::yield_now().await;
                            }
                        }
                    }
                }
                this.offer(place, [&left, &right], None)
            });
        }
        all_of(tasks).await.map(drop)
    }

    /// The key beyond which a pair of a row, by its place in `rows`, is not needed.
    fn limit(&self, at: usize) -> ScoreKey {
        self.best.bound(self.places[at]).map_or(self.limits[at], |key| key.min(self.limits[at]))
    }

    /// Offers the pairs of some rows that a driver has found, with the value of its function, as far as they are needed.
    fn offer(
        &self,
        place: DriverPlace,
        [left, right]: [&[u32]; 2],
        value: Option<&ArrayRef>,
    ) -> Result<()> {
        let driver = self.driver(place)?;
        let mut found = Found { rows: self, driver, left, right, value, at: vec![] };
        found.at = found.places()?;
        let mut order: Vec<(ScoreKey, u32)> = match found.best_keys()? {
            Some(keys) => keys.into_iter().zip(0..).collect(),
            None => (0..left.len() as u32).map(|pair| (ScoreKey::MIN, pair)).collect(),
        };
        // Pairs of a row come one after the other: its limit is asked for once.
        let mut known = None;
        order.retain(|(key, pair)| {
            let at = found.at[*pair as usize];
            let limit = match known {
                Some((of, limit)) if of == at => limit,
                _ => self.limit(at as usize),
            };
            known = Some((at, limit));
            *key <= limit
        });
        // Those that may be the best raise the limits for the others.
        order.sort_unstable();
        for piece in order.chunks(PIECE) {
            let is_needed = |(key, pair): &&(ScoreKey, u32)| {
                *key <= self.limit(found.at[*pair as usize] as usize)
            };
            let pairs: Vec<u32> = piece.iter().filter(is_needed).map(|(_, pair)| *pair).collect();
            found.offer(&pairs)?;
        }
        self.best.settle()?;
        Ok(())
    }
}

/// Pairs that a driver has found.
struct Found<'a> {
    rows: &'a RoundRows,
    driver: &'a SearchDriver,
    left: &'a [u32],
    right: &'a [u32],
    /// The value of the function that drives.
    value: Option<&'a ArrayRef>,
    /// The places of the left rows among those of the round.
    at: Vec<u32>,
}

impl Found<'_> {
    fn places(&self) -> Result<Vec<u32>> {
        let mut known = None;
        let place = |row: &u32| match known {
            Some((of, at)) if of == *row => Ok(at),
            _ => {
                let at = self.rows.rows.binary_search(row);
                let at =
                    at.map_err(|_| internal_datafusion_err!("a join gave a row not asked for"))?;
                known = Some((*row, at as u32));
                Ok(at as u32)
            }
        };
        self.left.iter().map(place).collect()
    }

    /// The keys of the best scores that the pairs may have; `None` where nothing is known of them.
    fn best_keys(&self) -> Result<Option<Vec<ScoreKey>>> {
        let DriverKind::Bound { best: Some(best), .. } = &self.driver.by else { return Ok(None) };
        let Some(value) = self.value else { return Ok(None) };
        let field = Field::new("value", value.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(schema, vec![Arc::clone(value)])?;
        let scores = evaluate(best, &batch)?;
        let order = self.rows.search.join.order;
        let keys = keys_of(&scores, order)?;
        let is_double = *scores.data_type() == DataType::Float64;
        let key = |pair: usize| match keys.is_valid(pair) {
            // The sign of a zero tells nothing.
            true if is_double && scores.as_primitive::<Float64Type>().value(pair) == 0.0 => {
                key_of(if order == Order::Similarity { 0.0 } else { -0.0 }, order)
            }
            true => keys.value(pair),
            false => ScoreKey::MIN,
        };
        Ok(Some((0..scores.len()).map(key).collect()))
    }

    /// Offers some of the pairs.
    fn offer(&self, pairs: &[u32]) -> Result<()> {
        let (rows, join) = (self.rows, &self.rows.search.join);
        let scores = self.evaluate(&self.driver.score, pairs)?;
        let keys = keys_of(&scores, join.order)?;
        let is_needed = |(pair, key): (&u32, Option<ScoreKey>)| {
            let key = key.filter(|key| *key <= rows.limit(self.at[*pair as usize] as usize))?;
            Some((*pair, key))
        };
        let mut needed: Vec<(u32, ScoreKey)> =
            pairs.iter().zip(keys.iter()).filter_map(is_needed).collect();
        for condition in join.condition.iter().chain(&self.driver.unmet) {
            let pairs: Vec<u32> = needed.iter().map(|(pair, _)| *pair).collect();
            let holds = self.evaluate(condition, &pairs)?;
            let holds = as_boolean_array(&holds)?;
            let mut place = 0..;
            needed.retain(|_| place.next().is_some_and(|place| is_true(holds, place)));
        }
        rows.best.offer(needed.into_iter().map(|(pair, key)| {
            let pair = pair as usize;
            (rows.places[self.at[pair] as usize], self.right[pair], key)
        }));
        Ok(())
    }

    /// The value of an expression for some of the pairs.
    fn evaluate(&self, expression: &Residual, pairs: &[u32]) -> Result<ArrayRef> {
        let InMemorySearch { left, right, .. } = &self.rows.search;
        let rows = [self.left, self.right]
            .map(|rows| pairs.iter().map(|pair| rows[*pair as usize]).collect::<Vec<u32>>());
        of_pairs(
            expression,
            [left, right],
            rows.each_ref().map(Vec::as_slice),
            |call, _| match self.value {
                Some(value) => Ok(take(value, &UInt32Array::from(pairs.to_vec()), None)?),
                None => Err(internal_datafusion_err!(
                    "a score reads {}, which is not there",
                    call.function
                )),
            },
        )
    }
}
