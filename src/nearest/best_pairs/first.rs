//! The first pairs of all, as they are found: joins by wider bounds, until one finds enough of them.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use futures::StreamExt;
use tokio::sync::mpsc::Sender;

use super::held::room;
use super::input::HeldInput;
use super::search::{Execution, is_wider};
use crate::config::SpillChoice;
use crate::exec::{JoinInput, SetSimilarityJoinExec};
use crate::operator::errors::is_out_of_memory;
use crate::operator::row_bytes::batch_bytes;
use crate::spec::{OutputColumn, Side, SimilarityJoin};
use crate::top::{TopK, key_of, score_of};

/// The search for the first pairs of a partition of a join.
pub(super) struct FirstPairs {
    pub execution: Execution,
    pub count: usize,
    /// Whether any of the pairs will do that are as good as the last one.
    pub any_tie: bool,
}

/// A join that has found enough pairs, or all.
struct FoundPairs {
    plan: Arc<SetSimilarityJoinExec>,
    bound: f64,
    /// The rows that it has given.
    kept: Vec<RecordBatch>,
    rest: Option<SendableRecordBatchStream>,
    /// The bytes of `kept`.
    memory: MemoryReservation,
}

impl FirstPairs {
    /// The pairs: the best ones, and others.
    pub(super) fn run(self, partition: usize) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.execution.plain.join().schema);
        let mut builder = RecordBatchReceiverStream::builder(schema, 2);
        let to = builder.tx();
        builder.spawn(async move { self.find(partition, to).await });
        builder.build()
    }

    /// Finds the pairs of one window of the probe side after the other.
    async fn find(self, partition: usize, to: Sender<Result<RecordBatch>>) -> Result<()> {
        let plain = Arc::clone(&self.execution.plain);
        let memory = self.execution.memory.new_empty();
        let room = match plain.options().spill {
            SpillChoice::Always => 0,
            SpillChoice::Auto | SpillChoice::Never => room(self.execution.context.memory_pool()),
        };
        // Windows of the probe side have as much room as the build side.
        let read = (&self.execution.context, [room / 2, room]);
        let mut held = HeldInput::read(plain, partition, read, memory).await?;
        if !held.has_build_side() {
            held.store(&self.execution.context, &self.execution.metrics).await?;
        }
        let order = self.execution.plain.join().predicate.call.function.info().order;
        let emitted = BaselineMetrics::new(&self.execution.metrics, partition);
        let mut best = None;
        if held.has_more() {
            // Without it, the bounds of windows do not become stricter.
            best = TopK::try_new(1, self.count, false, Box::new(self.execution.memory.new_empty()))
                .ok();
        }
        loop {
            let known = best.as_ref().and_then(|best| best.bound(0));
            let known = known.map(|key| score_of(key, order));
            let found = match held.has_build_side() {
                true => match self.of_window(&held, known).await {
                    Err(error) if is_out_of_memory(&error) => None,
                    found => Some(found?),
                },
                false => None,
            };
            let Some(found) = found else {
                // The join as planned may do with less: windows before have given pairs of their own.
                let bound = known.unwrap_or(self.execution.plain.join().predicate.bound);
                let plan = self.join(held.into_input()?, bound)?;
                let found = self.all_of(plan, bound)?;
                return self.give(found, &to, &emitted, None).await.map(|_| ());
            };
            if !self.give(found, &to, &emitted, best.as_ref()).await? || !held.next_window().await?
            {
                return Ok(());
            }
        }
    }

    /// The pairs of the rows that have been read, where a pair beyond the `known` bound is none of the best.
    async fn of_window(&self, held: &HeldInput, known: Option<f64>) -> Result<FoundPairs> {
        let join = self.execution.plain.join();
        let widest = known.unwrap_or(join.predicate.bound);
        let search = match known {
            Some(_) => None,
            None => self.execution.search_of_sample(held).await?,
        };
        let Some(search) = search else {
            return self.all_of(self.join(held.input()?, widest)?, widest);
        };
        let share = search.share_of(held.rows());
        let sample = search.scores(self.count, share).await?;
        let best = join.predicate.call.function.extremes()[1];
        let order = search.order();
        let bounds = sample.bounds(self.count, widest, order);
        for bound in bounds[..bounds.len() - 1].iter().copied() {
            let plan = self.join(held.input()?, bound)?;
            let mut found = self.all_of(plan, bound)?;
            let count = found.keep(self.count).await?;
            if count >= self.count {
                if self.any_tie && !is_wider(bound, best, order) && !best.is_nan() {
                    found.rest = None;
                }
                return Ok(found);
            }
            (self.execution.on_round)(format!("{bound}: {count} pairs"), Some(found.plan));
        }
        self.all_of(self.join(held.input()?, widest)?, widest)
    }

    /// The join by a bound, with the score behind its output.
    fn join(&self, input: JoinInput, bound: f64) -> Result<SetSimilarityJoinExec> {
        let plain = &self.execution.plain;
        let join = plain.join();
        let call = join.predicate.call;
        let of_side =
            |side: Side| join.argument(side).data_type(&plain.input().side(side).schema());
        let score = call.function.data_type([&of_side(Side::Left)?, &of_side(Side::Right)?]);
        let score = Arc::new(Field::new("__simjoin_score", score, true));
        let fields = join.schema.fields().iter().cloned().chain([score]);
        let schema =
            Schema::new_with_metadata(fields.collect::<Vec<_>>(), join.schema.metadata().clone());
        let mut output = join.output.clone();
        output.push(OutputColumn::Score(call));
        let predicate = join.predicate.with_bound(bound);
        let join = SimilarityJoin { predicate, output, schema: Arc::new(schema), ..join.clone() };
        let (options, reason) = (plain.options().clone(), plain.reason().map(str::to_string));
        let families = &self.execution.families;
        SetSimilarityJoinExec::try_new_in_mode(input, join, families, options, plain.mode(), reason)
    }

    /// All pairs of a join.
    fn all_of(&self, plan: SetSimilarityJoinExec, bound: f64) -> Result<FoundPairs> {
        let plan = Arc::new(plan);
        let rows: Arc<dyn ExecutionPlan> = Arc::<SetSimilarityJoinExec>::clone(&plan);
        let rows =
            CoalescePartitionsExec::new(rows).execute(0, Arc::clone(&self.execution.context))?;
        let memory = self.execution.memory.new_empty();
        Ok(FoundPairs { plan, bound, kept: vec![], rest: Some(rows), memory })
    }

    /// Gives out pairs, and offers `best` their scores; `false` where nobody takes them.
    async fn give(
        &self,
        found: FoundPairs,
        to: &Sender<Result<RecordBatch>>,
        emitted: &BaselineMetrics,
        best: Option<&TopK>,
    ) -> Result<bool> {
        let FoundPairs { plan, bound, kept, mut rest, memory } = found;
        let predicate = self.execution.plain.join().predicate;
        let schema = &self.execution.plain.join().schema;
        let (order, mut count) = (predicate.call.function.info().order, 0);
        let mut kept = kept.into_iter();
        loop {
            let batch = match (kept.next(), &mut rest) {
                (Some(batch), _) => batch,
                (None, Some(rows)) => match rows.next().await {
                    Some(batch) => batch?,
                    None => break,
                },
                (None, None) => break,
            };
            if kept.len() == 0 {
                memory.free();
            }
            if let Some(best) = best {
                let scores = cast(batch.column(batch.num_columns() - 1), &DataType::Float64)?;
                let scores = scores.as_primitive::<Float64Type>().values();
                best.offer(scores.iter().map(|score| (0, 0, key_of(*score, order))));
            }
            count += batch.num_rows();
            emitted.record_output(batch.num_rows());
            if to.send(without_score(&batch, schema)).await.is_err() {
                return Ok(false);
            }
        }
        let pairs = match bound == predicate.bound {
            true => "all pairs".to_string(),
            false => format!("{count} pairs"),
        };
        (self.execution.on_round)(format!("{bound}: {pairs}"), Some(plan));
        Ok(true)
    }
}

impl FoundPairs {
    /// Keeps rows until there are `count` of them, or all. Their number.
    async fn keep(&mut self, count: usize) -> Result<usize> {
        let mut kept = 0;
        while kept < count
            && let Some(rows) = &mut self.rest
        {
            let Some(batch) = rows.next().await else {
                self.rest = None;
                break;
            };
            let batch = batch?;
            self.memory.try_grow(batch_bytes(&batch))?;
            kept += batch.num_rows();
            self.kept.push(batch);
        }
        Ok(kept)
    }
}

/// A batch without its last column.
fn without_score(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns()[..batch.num_columns() - 1].to_vec();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
