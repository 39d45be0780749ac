//! The best pairs of each row of a side, as neighbours of it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::make_comparator;
use arrow::compute::SortOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{JoinType, Result, internal_datafusion_err, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::ExecutionPlan;

use super::held::room;
use super::input::HeldInput;
use super::search::{BestPairSearch, COUNTED, Execution, SearchOutcome};
use super::top::Pair;
use crate::exec::JoinInput;
use crate::memory::CountedVec;
use crate::nearest::NearestJoinExec;
use crate::nearest::alike::column;
use crate::nearest::run::{InMemorySearch, OnRound, PartnerOrder};
use crate::nearest::table::RowTable;
use crate::operator::errors::is_out_of_memory;
use crate::spec::{
    Call, MOST_TIE_COLUMNS, Nearest, NearestJoin, OutputColumn, ResidualColumn, Search, Side,
    SimilarityJoin, TieBreak, TieColumn,
};
use crate::top::TopK;
use crate::tuning::Size;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{self, Threads};

/// Pairs of rows, at most, of which all matches are made: fewer than for the best of all pairs, as all that are
/// made are sorted by the window above.
const FEW_PAIRS: Size = Size { usual: 1 << 18, small: 1 << 8 };

/// Pairs of the join, at least, for each pair that is needed: below that, all pairs are made.
const FEW_TIMES: Size<f64> = Size { usual: 4.0, small: 1.0 };

impl BestPairSearch {
    /// Finds the `wanted` best pairs of each row of `side`, where a sample says that the join has many others.
    /// `ties` are those that are given of pairs of equal scores.
    ///
    /// # Errors
    ///
    /// The errors of the joins.
    pub(super) async fn run_for_each_row(
        &self,
        wanted: NonZeroUsize,
        side: Side,
        ties: TieBreak,
    ) -> Result<SearchOutcome> {
        let all = SearchOutcome::Within(self.join.predicate.bound);
        let [own, other] = [side, side.other()].map(|side| self.tables[side as usize].rows());
        let count = wanted.get().min(other).max(1);
        let needed = own.saturating_mul(count);
        let bytes =
            TopK::bytes(own, count).saturating_add(needed.saturating_mul(size_of::<Pair>()));
        if own.saturating_mul(other) <= self.tuning().size(FEW_PAIRS)
            || !self.has_all_scores()
            || bytes > room(self.context.memory_pool())
        {
            return Ok(all);
        }
        if self.expected_pairs().await? < self.tuning().size(FEW_TIMES) * needed as f64 {
            return Ok(all);
        }
        let order = match ties {
            TieBreak::All | TieBreak::Any => None,
            TieBreak::Columns(columns) => match self.order_of(side.other(), columns).await? {
                Some(order) => Some(order),
                // The window above decides.
                None => return Ok(all),
            },
        };
        let nearest = Nearest { count: wanted, with_ties: ties == TieBreak::All };
        let run = InMemorySearch { order: order.map(Arc::new), ..self.as_nearest(nearest, side) };
        let rows = run.candidates()?;
        let memory = Box::new(self.memory.new_empty());
        let best = TopK::try_new(rows.len(), count, nearest.with_ties, memory)?;
        let best = Arc::new(best);
        match run.find(&rows, &best, None).await {
            // A join of all pairs may go to disk.
            Err(error) if is_out_of_memory(&error) => return Ok(all),
            found => found?,
        }
        let (mut pairs, mut entries) = (CountedVec::new(&self.memory), vec![]);
        for (slot, row) in (0..).zip(&rows) {
            best.sorted(slot, &mut entries);
            pairs.try_extend(entries.iter().map(|(key, partner)| match side {
                Side::Left => (*key, *row, run.row_of(*partner)),
                Side::Right => (*key, run.row_of(*partner), *row),
            }))?;
        }
        Ok(SearchOutcome::Pairs(pairs))
    }

    /// The order of the rows of a side by columns of the output; `None` where they are of a type that is not
    /// compared.
    async fn order_of(
        &self,
        side: Side,
        columns: [Option<TieColumn>; MOST_TIE_COLUMNS],
    ) -> Result<Option<PartnerOrder>> {
        let table = Arc::clone(&self.tables[side as usize]);
        let of_input = |key: TieColumn| match self.join.output.get(key.column) {
            Some(OutputColumn::Input(of, index)) if *of == side => Ok((key, *index)),
            _ => internal_err!("column {} decides ties of the {side} rows", key.column),
        };
        let keys = columns.into_iter().flatten().map(of_input).collect::<Result<Vec<_>>>()?;
        let memory = self.memory.new_empty();
        // They stay with the search.
        self.memory.try_grow(2 * table.rows() * size_of::<u32>())?;
        let threads = self.threads();
        // A blocking thread is not aborted: it ends at its next look at the flag, once the statement is dropped.
        let cancel = CancelFlag::default();
        let _cancelled = cancel.on_drop();
        let sorted = SpawnedTask::spawn_blocking(move || {
            sorted_by(&table, &keys, threads, &memory, &cancel)
        });
        let sorted = sorted.join().await;
        sorted.map_err(|e| internal_datafusion_err!("sorting the rows of a side ended: {e}"))?
    }

    /// The join as a search for nearest rows of the rows of `side`, which are left rows there.
    fn as_nearest(&self, nearest: Nearest, side: Side) -> InMemorySearch {
        let join = nearest_of(&self.join, nearest, side);
        let told = Arc::clone(&self.on_round);
        let on_round: OnRound = Arc::new(move |round| told(round.to_string(), None));
        InMemorySearch {
            join: Arc::new(join),
            left: Arc::clone(&self.tables[side as usize]),
            right: Arc::clone(&self.tables[side.other() as usize]),
            itself: self.itself,
            order: None,
            families: self.families.clone(),
            options: self.options.clone(),
            context: Arc::clone(&self.context),
            memory: Arc::new(self.memory.new_empty()),
            on_round,
            hardly_repeat: Arc::default(),
            kept: None,
        }
    }
}

/// The join as one with nearest rows of the rows of `side`, which are left rows there.
fn nearest_of(join: &SimilarityJoin, nearest: Nearest, side: Side) -> NearestJoin {
    let join = match side {
        Side::Left => join.clone(),
        Side::Right => exchanged(join.clone()),
    };
    let (predicate, arguments, residual) = (join.predicate, join.arguments, join.residual);
    NearestJoin {
        nearest,
        order: predicate.call.function.info().order,
        text: join.text,
        join_type: JoinType::Inner,
        score: None,
        on: join.on,
        null_equality: join.null_equality,
        side_filters: join.side_filters,
        condition: None,
        rounds: vec![],
        search: Some(Search { predicate, arguments, residual }),
        output: join.output,
        schema: join.schema,
    }
}

impl Execution {
    /// Whether the join makes many pairs besides the `count` best ones of each row of `side`, as a sample of the rows
    /// that were read says.
    ///
    /// # Errors
    ///
    /// The errors of the join of samples, and when memory is refused.
    pub(super) async fn each_row_pays(
        &self,
        held: &HeldInput,
        count: NonZeroUsize,
        side: Side,
    ) -> Result<bool> {
        let Some(search) = self.search_of_sample(held).await? else { return Ok(false) };
        if !search.has_all_scores() {
            return Ok(false);
        }
        let share = search.share_of(held.rows());
        let needed = held.rows()[side as usize].saturating_mul(count.get()) as f64;
        let pairs = search.scores(COUNTED, share).await?.pairs();
        Ok(pairs >= search.tuning().size(FEW_TIMES) * needed)
    }

    /// The neighbours that are the best pairs of each row of `side`, with all that tie.
    ///
    /// # Errors
    ///
    /// The errors of the plan with nearest rows.
    pub(super) fn run_on_disk(
        &self,
        held: HeldInput,
        nearest: Nearest,
        side: Side,
    ) -> Result<SendableRecordBatchStream> {
        let join = nearest_of(self.plain.join(), nearest, side);
        let mut input = held.into_input()?;
        if let (JoinInput::Two { left, right, .. }, Side::Right) = (&mut input, side) {
            std::mem::swap(left, right);
        }
        let options = self.plain.options().clone();
        let neighbours = NearestJoinExec::try_new(input, join, &self.families, options)?;
        (self.on_round)("nearest rows".to_string(), None);
        neighbours.execute(0, Arc::clone(&self.context))
    }
}

/// The order of the rows of a table by some columns; `None` where these are not compared.
fn sorted_by(
    table: &RowTable,
    keys: &[(TieColumn, usize)],
    threads: Threads,
    memory: &MemoryReservation,
    cancel: &CancelFlag,
) -> Result<Option<PartnerOrder>> {
    let mut comparators = vec![];
    for (TieColumn { descending, nulls_first, .. }, index) in keys {
        let column = column(table, memory, |batch| Ok(batch.column(*index).clone()))?;
        let options = SortOptions { descending: *descending, nulls_first: *nulls_first };
        match make_comparator(&column, &column, options) {
            Ok(comparator) => comparators.push(comparator),
            Err(_) => return Ok(None),
        }
    }
    let mut rows: Vec<u32> = (0..table.rows() as u32).collect();
    parallel::sort_unstable_by(threads, &mut rows, cancel, |a, b| {
        let mut by_keys = comparators.iter().map(|compare| compare(*a as usize, *b as usize));
        by_keys.find(|order| order.is_ne()).unwrap_or_else(|| a.cmp(b))
    })?;
    let mut ranks = vec![0; rows.len()];
    for (rank, row) in (0..).zip(&rows) {
        ranks[*row as usize] = rank;
    }
    Ok(Some(PartnerOrder { ranks, rows }))
}

/// The join with its sides exchanged; the output has the same columns.
fn exchanged(mut join: SimilarityJoin) -> SimilarityJoin {
    let other = |call: Call| Call { first: call.first.other(), ..call };
    join.predicate.call = other(join.predicate.call);
    join.arguments.reverse();
    join.side_filters.reverse();
    for (left, right) in &mut join.on {
        std::mem::swap(left, right);
    }
    for column in &mut join.output {
        *column = match *column {
            OutputColumn::Input(side, index) => OutputColumn::Input(side.other(), index),
            OutputColumn::Score(call) => OutputColumn::Score(other(call)),
            OutputColumn::Count(count) => OutputColumn::Count(count),
        };
    }
    for column in join.residual.iter_mut().flat_map(|residual| &mut residual.columns) {
        *column = match *column {
            ResidualColumn::Input(side, index) => ResidualColumn::Input(side.other(), index),
            ResidualColumn::Score(call) => ResidualColumn::Score(other(call)),
        };
    }
    join
}
