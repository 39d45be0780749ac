//! The best pairs of each left row, as neighbours of it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::{JoinType, Result};

use super::held::room;
use super::search::{Found, Search};
use super::top::Pair;
use crate::nearest::best::Best;
use crate::nearest::run::{OnRound, Run};
use crate::spec::{Nearest, NearestJoin, Search as Searched};

/// Pairs of the join, at least, for each pair that is needed: below that, all pairs are made.
const FEW_TIMES: f64 = if cfg!(test) { 1.0 } else { 4.0 };

impl Search {
    /// Finds the `wanted` best pairs of each left row, where a sample says that the join has many others.
    ///
    /// # Errors
    ///
    /// The errors of the joins.
    pub(super) async fn run_for_each_row(&self, wanted: NonZeroUsize) -> Result<Found> {
        let all = Found::Within(self.join.predicate.bound);
        let [left, right] = [0, 1].map(|side| self.tables[side].rows());
        let count = wanted.get().min(right).max(1);
        let needed = left.saturating_mul(count);
        let bytes =
            Best::bytes(left, count).saturating_add(needed.saturating_mul(size_of::<Pair>()));
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
        let run = self.as_nearest(nearest);
        let rows = run.candidates()?;
        let best = Best::try_new(rows.len(), count, nearest, self.memory.new_empty())?;
        let best = Arc::new(best);
        run.find(&rows, &best, None).await?;
        let (mut pairs, mut entries): (Vec<Pair>, _) = (vec![], vec![]);
        let held = self.memory.new_empty();
        for (slot, row) in (0..).zip(&rows) {
            best.sorted(slot, &mut entries);
            pairs.extend(entries.iter().map(|(key, partner)| (*key, *row, *partner)));
            held.try_resize(pairs.capacity() * size_of::<Pair>())?;
        }
        Ok(Found::Pairs(pairs))
    }

    /// The join as a search for nearest rows.
    fn as_nearest(&self, nearest: Nearest) -> Run {
        let join = self.join.clone();
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
            left: Arc::clone(&self.tables[0]),
            right: Arc::clone(&self.tables[1]),
            itself: self.itself,
            families: self.families.clone(),
            options: self.options.clone(),
            context: Arc::clone(&self.context),
            memory: Arc::new(self.memory.new_empty()),
            on_round,
        }
    }
}
