//! Neighbours that the family of the score finds at once, before any round.
//!
//! A family that knows no blocking keys is asked for the rows of each key by themselves.
//!
//! The family knows no condition on pairs. Where there is one it is asked for a neighbour more, and the pairs
//! are held against the condition here: a row that has enough of them left has its neighbours, since every
//! pair that is not among them is worse. Rows that have not go through rounds.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::cast::as_boolean_array;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::common::{Result, internal_datafusion_err};

use datafusion::physical_plan::expressions::Column;
use futures::{StreamExt, TryStreamExt, stream};

use super::argument::SideArgument;
use super::keys::{KeyGroup, RowsByKey, converter_of};
use super::pairs::{admitted, is_true};
use super::run::{InMemorySearch, Round, Way};
use super::tasks::all_of;
use crate::engine::{NeighbourRequest, NeighbourSearch, NeighbourSide, Neighbours};
use crate::operator::errors::is_out_of_memory;
use crate::spec::{Order, Search, Side};
use crate::top::{ScoreKey, TopK, key_of, score_of};
use crate::tuning::Size;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// Pairs of rows of a blocking key from which on the family is asked for them.
const LEAST_PAIRS: Size = Size { usual: 1 << 16, small: 1 };

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
    rows: Arc<[u32]>,
    /// The places by which `best` knows the rows.
    places: Vec<u32>,
    neighbours: Neighbours,
    /// The neighbours that the family was asked for.
    asked: usize,
    /// The neighbours that a row may have.
    count: usize,
    /// The key of the worst score that a neighbour may have.
    bound: ScoreKey,
}

/// The rows of a group, for which the family is asked.
struct GroupRows {
    left: Arc<[u32]>,
    right: Vec<u32>,
    /// By left row, the score of a neighbour that is needed, at least.
    bounds: Option<Arc<[f64]>>,
}

/// The answer of the family for a group of left rows.
struct GroupAnswer {
    /// The device that has found neighbours, or why the family has looked for none.
    by: std::result::Result<String, Option<String>>,
    /// The rows of the group.
    rows: usize,
    /// The places of the rows whose neighbours are still unknown.
    left: Vec<u32>,
}

impl InMemorySearch {
    /// Offers `best` the neighbours of left rows that the family of the score finds at once. Returns the places of the rows whose neighbours are still unknown; `None` where
    /// there is no such search. Pairs that are worse than all `carried` pairs of their row are not needed.
    ///
    /// # Errors
    ///
    /// The errors of evaluating keys and conditions, and when memory for ties is refused.
    pub(super) async fn find_at_once(
        &self,
        rows: &[u32],
        best: &Arc<TopK>,
        carried: Option<&TopK>,
    ) -> Result<Option<Vec<u32>>> {
        let Some(search) = &self.join.search else { return Ok(None) };
        if !self.suits(search)? {
            return Ok(None);
        }
        let lists = self.memory.new_empty();
        // Rounds take less memory.
        if lists.try_grow((3 * rows.len() + self.right_rows()) * size_of::<u32>()).is_err() {
            return Ok(None);
        }
        let knows_keys = self.families.get(search.predicate.family())?.knows_keys();
        let (mut groups, mut left) = match self.groups(rows, knows_keys) {
            Ok(groups) => groups,
            Err(error) if is_out_of_memory(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let itself = self.is_itself(search, rows)?;
        let threads = self.threads();
        let ask = |group: KeyGroup, threads: Threads| {
            self.find_group(search, (rows, group, carried), (itself, threads), best)
        };
        // A family that has no search for the largest group has none for others.
        if groups.is_empty() {
            return Ok(None);
        }
        let first = ask(groups.remove(0), threads).await?;
        if first.by == Err(None) {
            return Ok(None);
        }
        let (tasks, of_task) = match groups.len() >= threads.count() {
            true => (threads.count(), threads.at_most(1)),
            false => (1, threads),
        };
        let asked = stream::iter(groups).map(|group| ask(group, of_task)).buffer_unordered(tasks);
        let mut answers = stream::iter([Ok(first)]).chain(asked);
        let (mut device, mut declined, mut served, mut took_part) = (None, None, 0, 0);
        while let Some(GroupAnswer { by, rows, left: of_group }) = answers.try_next().await? {
            took_part += rows;
            served += rows - of_group.len();
            left.extend(of_group);
            match by {
                Ok(by) => device = Some(by),
                Err(why) => declined = declined.or(why),
            }
        }
        let way = match (&device, declined) {
            (Some(device), _) => Way::AtOnce(device.clone()),
            (None, Some(why)) => Way::Declined(why),
            (None, None) => return Ok(None),
        };
        (self.on_round)(Round { way, rows: took_part, served, of_items: false });
        left.sort_unstable();
        Ok(device.map(|_| left))
    }

    /// Whether a family may answer.
    fn suits(&self, search: &Search) -> Result<bool> {
        let residual = search.residual.as_ref();
        Ok(!search.predicate.bound.is_nan()
            && self.right_rows() > 0
            && residual.is_none_or(|residual| self.has_scores_of(residual))
            && (self.families.get(search.predicate.family())?.knows_keys()
                || self.join.on.is_empty()
                || self.reads_columns(search)?))
    }

    /// Whether the family reads columns. Where it reads the rows of each key by themselves, what is computed would be
    /// computed again for each.
    fn reads_columns(&self, search: &Search) -> Result<bool> {
        let family = search.predicate.family();
        for (argument, table) in search.arguments.iter().zip([&self.left, &self.right]) {
            let source = self.families.source_of(family, argument, table.schema())?;
            if !source.as_ref().map_or(argument, |(source, _)| source).is::<Column>() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The groups of rows that the family is asked for, and the places of rows in groups that are too small for that.
    fn groups(&self, rows: &[u32], knows_keys: bool) -> Result<(Vec<KeyGroup>, Vec<u32>)> {
        if knows_keys {
            let places = (0..rows.len() as u32).collect();
            let all = KeyGroup { places, right: self.right_candidates()? };
            return Ok((if all.pairs() == 0 { vec![] } else { vec![all] }, vec![]));
        }
        let by_key = RowsByKey::try_new(&self.join, &self.right, self.memory.new_empty())?;
        let groups = by_key.groups(&self.join, &self.left, rows)?;
        let least = self.threads().tuning.size(LEAST_PAIRS);
        let is_asked = |group: &KeyGroup| self.join.on.is_empty() || group.pairs() >= least;
        let (asked, few): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_asked);
        Ok((asked, few.into_iter().flat_map(|group| group.places).collect()))
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

    /// Offers `best` the neighbours of a group of left rows, as far as the family finds them.
    async fn find_group(
        &self,
        search: &Search,
        (rows, group, carried): (&[u32], KeyGroup, Option<&TopK>),
        (itself, threads): (bool, Threads),
        best: &Arc<TopK>,
    ) -> Result<GroupAnswer> {
        let KeyGroup { places, right } = group;
        // Pairs that are worse than all that a row carries are not needed.
        let none = match self.join.order {
            Order::Distance => f64::INFINITY,
            Order::Similarity => f64::NEG_INFINITY,
        };
        let bound = |carried: &TopK, place: u32| {
            carried.bound(place).map_or(none, |key| score_of(key, self.join.order))
        };
        let bounds: Option<Arc<[f64]>> =
            carried.map(|carried| places.iter().map(|place| bound(carried, *place)).collect());
        let rows: Arc<[u32]> = places.iter().map(|place| rows[*place as usize]).collect();
        let count = rows.len();
        let asked = GroupRows { left: Arc::clone(&rows), right, bounds };
        let neighbours = match self.ask(search, asked, itself, threads).await? {
            NeighbourSearch::Found(neighbours) => neighbours,
            NeighbourSearch::Declined(why) => {
                return Ok(GroupAnswer { by: Err(why), rows: count, left: places });
            }
        };
        let device = neighbours.device.clone();
        let found = Arc::new(AtOnce {
            run: self.clone(),
            rows,
            places,
            neighbours,
            asked: self.count() + spare(search),
            count: self.count(),
            bound: key_of(search.predicate.bound, self.join.order),
        });
        let left = found.offer(best).await?;
        Ok(GroupAnswer { by: Ok(device), rows: count, left })
    }

    /// Asks the family for the neighbours of left rows among right rows, on a thread that may wait.
    async fn ask(
        &self,
        search: &Search,
        rows: GroupRows,
        itself: bool,
        threads: Threads,
    ) -> Result<NeighbourSearch> {
        let family = Arc::clone(self.families.get(search.predicate.family())?);
        // A family tells rows in a tie apart in no order of theirs.
        let with_ties = self.nearest().with_ties || self.order.is_some();
        let (search, options) = (search.clone(), self.options.clone());
        let count = self.count() + spare(&search);
        let [left, right_side] = [(0, &self.left), (1, &self.right)].map(|(side, table)| {
            let argument = &search.arguments[side];
            SideArgument::try_new(argument, table, &self.families, search.predicate.family())
        });
        let mut arguments = [left?, right_side?];
        if family.knows_keys() && !self.join.on.is_empty() {
            let converter = Arc::new(converter_of(&self.join, &self.right)?);
            let (left, right) = self.join.on.iter().cloned().unzip();
            let [of_left, of_right] = arguments;
            arguments =
                [of_left.with_keys(left, &converter), of_right.with_keys(right, &converter)];
        }
        let memory = self.memory.new_empty();
        // A blocking thread is not aborted: it ends at its next look at the flag, once the statement is dropped.
        let cancel = CancelFlag::default();
        let _cancelled = cancel.on_drop();
        let asked = SpawnedTask::spawn_blocking(move || {
            let side = |number: usize, rows| NeighbourSide { argument: &arguments[number], rows };
            family.neighbours(&NeighbourRequest {
                predicate: search.predicate,
                count,
                with_ties,
                bounds: rows.bounds.as_deref(),
                sides: [side(0, &rows.left), side(1, &rows.right)],
                itself,
                strategy: options.strategy,
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
        let mut left = all_of(tasks).await?.concat();
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
                left.push(self.places[place]);
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
                    pairs.push((self.places[place], self.run.rank_of(*partner), key));
                }
                pair += 1;
            }
            // Every pair within the bound is known where one beyond it is.
            if pairs.len() - before < self.count && !is_bounded {
                pairs.truncate(before);
                left.push(self.places[place]);
            }
        }
        best.offer(pairs.into_iter());
        best.settle()?;
        Ok(left)
    }
}
