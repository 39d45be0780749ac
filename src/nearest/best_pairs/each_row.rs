//! The best pairs of each row of a side, as neighbours of it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::{JoinType, Result};

use super::held::room;
use super::search::{Found, Search};
use super::top::Pair;
use crate::nearest::best::Best;
use crate::nearest::run::{OnRound, Run};
use crate::spec::{
    Call, Nearest, NearestJoin, ResidualColumn, Search as Searched, Side, SimilarityJoin,
};

/// Pairs of the join, at least, for each pair that is needed: below that, all pairs are made.
const FEW_TIMES: f64 = if cfg!(test) { 1.0 } else { 4.0 };

impl Search {
    /// Finds the `wanted` best pairs of each row of `side`, where a sample says that the join has many others.
    ///
    /// # Errors
    ///
    /// The errors of the joins.
    pub(super) async fn run_for_each_row(&self, wanted: NonZeroUsize, side: Side) -> Result<Found> {
        let all = Found::Within(self.join.predicate.bound);
        let [own, other] = [side, side.other()].map(|side| self.tables[side as usize].rows());
        let count = wanted.get().min(other).max(1);
        let needed = own.saturating_mul(count);
        let bytes =
            Best::bytes(own, count).saturating_add(needed.saturating_mul(size_of::<Pair>()));
        if self.has_few_pairs()
            || !self.has_all_scores()
            || bytes > room(self.context.memory_pool())
        {
            return Ok(all);
        }
        if self.expected_pairs().await? < FEW_TIMES * needed as f64 {
            return Ok(all);
        }
        let nearest = Nearest { count: wanted, with_ties: true };
        let run = self.as_nearest(nearest, side);
        let rows = run.candidates()?;
        let best = Best::try_new(rows.len(), count, nearest, self.memory.new_empty())?;
        let best = Arc::new(best);
        run.find(&rows, &best, None).await?;
        let (mut pairs, mut entries): (Vec<Pair>, _) = (vec![], vec![]);
        let held = self.memory.new_empty();
        for (slot, row) in (0..).zip(&rows) {
            best.sorted(slot, &mut entries);
            pairs.extend(entries.iter().map(|(key, partner)| match side {
                Side::Left => (*key, *row, *partner),
                Side::Right => (*key, *partner, *row),
            }));
            held.try_resize(pairs.capacity() * size_of::<Pair>())?;
        }
        Ok(Found::Pairs(pairs))
    }

    /// The join as a search for nearest rows of the rows of `side`, which are left rows there.
    fn as_nearest(&self, nearest: Nearest, side: Side) -> Run {
        let join = match side {
            Side::Left => self.join.clone(),
            Side::Right => exchanged(self.join.clone()),
        };
        let (predicate, arguments, residual) = (join.predicate, join.arguments, join.residual);
        let join = NearestJoin {
            nearest,
            order: predicate.call.function.info().order,
            text: join.text,
            join_type: JoinType::Inner,
            score: None,
            on: join.on,
            null_equality: join.null_equality,
            side_filters: join.side_filters,
            condition: None,
            search: Some(Searched { predicate, arguments, residual }),
            output: join.output,
            schema: join.schema,
        };
        let told = Arc::clone(&self.on_round);
        let on_round: OnRound = Arc::new(move |round| told(round.to_string(), None));
        Run {
            join: Arc::new(join),
            left: Arc::clone(&self.tables[side as usize]),
            right: Arc::clone(&self.tables[side.other() as usize]),
            itself: self.itself,
            families: self.families.clone(),
            options: self.options.clone(),
            context: Arc::clone(&self.context),
            memory: Arc::new(self.memory.new_empty()),
            on_round,
        }
    }
}

/// The join with its sides exchanged; the output stays as it is.
fn exchanged(mut join: SimilarityJoin) -> SimilarityJoin {
    let other = |call: Call| Call { first: call.first.other(), ..call };
    join.predicate.call = other(join.predicate.call);
    join.arguments.reverse();
    join.side_filters.reverse();
    for (left, right) in &mut join.on {
        std::mem::swap(left, right);
    }
    for column in join.residual.iter_mut().flat_map(|residual| &mut residual.columns) {
        *column = match *column {
            ResidualColumn::Input(side, index) => ResidualColumn::Input(side.other(), index),
            ResidualColumn::Score(call) => ResidualColumn::Score(other(call)),
        };
    }
    join
}
