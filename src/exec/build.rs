//! The build side: collected once, shared by all probe partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::rank;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::PhysicalExpr;
use futures::StreamExt;

use super::layout::Layout;
use super::metrics::BuildMetrics;
use super::payload::{Payload, PayloadBuilder};
use super::spec::Side;
use super::visited::Visited;
use crate::cancel::CancelFlag;
use crate::config::StrategyChoice;
use crate::sets::{
    BuildEncoder, EncodeInput, KeyConverter, KeyDictionary, KeyRows, ProbeEncoder, SetCollection,
};
use crate::strategy::{PrepareContext, PreparedJoin, choose};

/// Rows encoded without yielding to the runtime.
pub(super) const ROWS_PER_SLICE: usize = 8192;

/// The build side, ready to be probed.
#[derive(Debug)]
pub(super) struct BuildSide {
    pub sets: Arc<SetCollection>,
    pub encoder: ProbeEncoder,
    pub key_ids: KeyDictionary,
    pub payload: Arc<Payload>,
    /// The bytes of a payload row on average.
    pub row_bytes: usize,
    /// Ranks of the compared column, for [`Layout::row_order`].
    pub ranks: Option<Ranks>,
    /// For each of [`Layout::counted_columns`], `None` where every row counts.
    pub partners: Vec<Option<Partners>>,
    pub prepared: Arc<dyn PreparedJoin>,
    /// Which sets (or rows, by place) have a match, where that is asked for.
    pub visited: Option<Visited>,
    /// Probe partitions that have not finished.
    unfinished: AtomicUsize,
    /// For self-joins: the next probe set that nobody has taken.
    pub next_set: AtomicUsize,
    _reservation: MemoryReservation,
}

impl BuildSide {
    /// Notes that a probe partition has seen all its rows. Whether it was the last one.
    pub fn finish_partition(&self) -> bool {
        self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Dense ranks of a column, 0 for NULL.
#[derive(Debug)]
pub(super) struct Ranks {
    /// Ascending within the rows of a set.
    pub by_place: Vec<u32>,
    /// No two rows are equal and none is NULL.
    pub distinct: bool,
}

impl Ranks {
    /// Ranks the rows by `column`, and orders those of each set by rank.
    pub fn of_rows(column: Option<ArrayRef>, sets: &mut SetCollection) -> Result<Self> {
        let Some(column) = column else {
            return Ok(Self { by_place: vec![], distinct: true });
        };
        let values = normalize_float_zero(&column);
        let mut by_row = rank(&values, None)?;
        if let Some(nulls) = values.logical_nulls() {
            for (row, rank) in by_row.iter_mut().enumerate() {
                if nulls.is_null(row) {
                    *rank = 0;
                }
            }
        }
        // Rows that are equal share a rank, so that n distinct rows have the ranks 1..=n.
        let mut seen = vec![false; by_row.len() + 1];
        let distinct =
            by_row.iter().all(|&r| r != 0 && !std::mem::replace(&mut seen[r as usize], true));
        sets.sort_rows_by_key(|row| by_row[row as usize]);
        let by_place = sets.rows_by_place().map(|row| by_row[row as usize]).collect();
        Ok(Self { by_place, distinct })
    }

    /// The bytes needed while ranking this many rows: ranking sorts values with their rows.
    fn footprint(rows: usize) -> usize {
        rows * (2 * size_of::<u32>() + size_of::<(u64, u32)>() + size_of::<bool>())
    }
}

/// Which build rows count as partners: those in which a column is not NULL.
#[derive(Debug)]
pub(super) struct Partners {
    /// By set, how many of its rows do.
    pub of_set: Vec<u32>,
    /// By place, whether the row does.
    pub at_place: Vec<bool>,
}

impl Partners {
    /// `None` when the column has no NULL.
    fn of_column(sets: &SetCollection, payload: &Payload, column: usize) -> Result<Option<Self>> {
        let places = UInt32Array::from_iter_values(0..sets.row_count() as u32);
        let values = payload.take(column, &places)?;
        let Some(nulls) = values.logical_nulls().filter(|n| n.null_count() > 0) else {
            return Ok(None);
        };
        let at_place: Vec<bool> = nulls.iter().collect();
        let of_set = (0..sets.len()).map(|set| {
            let places = sets.row_places(set..set + 1);
            at_place[places.start as usize..places.end as usize].iter().filter(|&&p| p).count()
        });
        Ok(Some(Self { of_set: of_set.map(|count| count as u32).collect(), at_place }))
    }

    fn footprint(sets: &SetCollection) -> usize {
        sets.len() as usize * size_of::<u32>() + sets.row_count()
    }
}

/// What a batch's rows are joined on.
pub(super) struct EncodedArguments {
    pub lists: ArrayRef,
    pub keys: Option<KeyRows>,
    pub filter: Option<BooleanArray>,
}

impl EncodedArguments {
    /// Evaluates one side's argument, keys and filter.
    pub fn evaluate(
        layout: &Layout,
        side: Side,
        converter: Option<&KeyConverter>,
        batch: &RecordBatch,
    ) -> Result<Self> {
        let array =
            |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(batch.num_rows());
        let filter = match layout.join.side_filter(side) {
            Some(filter) => {
                let filter = array(filter)?;
                let Some(filter) = filter.as_boolean_opt() else {
                    return exec_err!("a join condition is {}, not Boolean", filter.data_type());
                };
                Some(filter.clone())
            }
            None => None,
        };
        let keys = match converter {
            Some(converter) => {
                let columns = layout
                    .join
                    .on
                    .iter()
                    .map(|(left, right)| array(if side == Side::Left { left } else { right }));
                Some(converter.convert(&columns.collect::<Result<Vec<_>>>()?)?)
            }
            None => None,
        };
        Ok(Self { lists: array(layout.join.argument(side))?, keys, filter })
    }

    pub fn as_input(&self) -> EncodeInput<'_> {
        EncodeInput { lists: &self.lists, keys: self.keys.as_ref(), filter: self.filter.as_ref() }
    }
}

/// Everything that building needs.
pub(super) struct BuildPlan {
    pub layout: Arc<Layout>,
    pub converter: Option<Arc<KeyConverter>>,
    pub strategy: StrategyChoice,
    pub partitions: usize,
    /// How many threads may index at once.
    pub threads: usize,
    pub metrics: BuildMetrics,
    /// Called with a description of the chosen strategy.
    pub on_choice: Box<dyn Fn(String) + Send + Sync>,
}

impl BuildPlan {
    /// Reads the whole input and indexes it. Dropping the future stops the work.
    pub async fn run(
        self,
        mut input: SendableRecordBatchStream,
        reservation: MemoryReservation,
    ) -> Result<BuildSide> {
        let side = self.layout.build();
        let carried = self.layout.carried[side as usize].clone();
        let mut encoder = BuildEncoder::default();
        let mut key_ids = KeyDictionary::default();
        let mut payload = PayloadBuilder::new(carried.len());
        let mut order_column = PayloadBuilder::new(usize::from(self.layout.row_order.is_some()));
        while let Some(batch) = input.next().await.transpose()? {
            self.metrics.rows.add(batch.num_rows());
            for start in (0..batch.num_rows()).step_by(ROWS_PER_SLICE) {
                let slice = batch.slice(start, ROWS_PER_SLICE.min(batch.num_rows() - start));
                let timer = self.metrics.encode_time.timer();
                payload.push(&slice, &carried)?;
                if let Some(order) = self.layout.row_order {
                    order_column.push(&slice, &[order.column])?;
                }
                let base = payload.size_in_bytes() + order_column.size_in_bytes();
                let arguments = EncodedArguments::evaluate(
                    &self.layout,
                    side,
                    self.converter.as_deref(),
                    &slice,
                )?;
                encoder
                    .push(&arguments.as_input(), &mut key_ids, &reservation, base)
                    .map_err(|e| out_of_memory(e, &self.layout, encoder.row_count()))?;
                self.metrics.peak_bytes.set_max(reservation.size());
                timer.done();
                tokio::task::yield_now().await;
            }
        }
        drop(input);
        let cancel = CancelFlag::default();
        let _guard = cancel.on_drop();
        let rows = encoder.row_count();
        let task = SpawnedTask::spawn_blocking(move || {
            let layout = Arc::clone(&self.layout);
            self.index(encoder, key_ids, payload, order_column, reservation, &cancel)
                .map_err(|e| out_of_memory(e, &layout, rows))
        });
        match task.join().await {
            Ok(result) => result,
            Err(error) => exec_err!("indexing the build side of a similarity join failed: {error}"),
        }
    }

    fn index(
        self,
        encoder: BuildEncoder,
        key_ids: KeyDictionary,
        payload: PayloadBuilder,
        order_column: PayloadBuilder,
        reservation: MemoryReservation,
        cancel: &CancelFlag,
    ) -> Result<BuildSide> {
        let _timer = self.metrics.index_time.timer();
        let peak = || self.metrics.peak_bytes.set_max(reservation.size());
        let base = payload.size_in_bytes() + order_column.size_in_bytes() + key_ids.size_in_bytes();
        let (mut sets, encoder) = encoder.finish(&reservation, base, &peak, cancel)?;
        let ranks = match self.layout.row_order {
            Some(_) => {
                let rows = payload.row_count();
                reservation.try_grow(order_column.finish_growth() + Ranks::footprint(rows))?;
                Some(Ranks::of_rows(order_column.into_rows()?, &mut sets)?)
            }
            None => None,
        };
        cancel.check()?;
        let sets = Arc::new(sets);
        reservation.try_grow(payload.finish_growth())?;
        let payload = payload.finish(Arc::clone(&sets))?;
        peak();
        let counted: Vec<usize> = self
            .layout
            .counted_columns()
            .filter_map(|column| self.layout.carried_index(self.layout.build(), column))
            .collect();
        reservation.try_grow(counted.len() * Partners::footprint(&sets))?;
        let partners = counted.iter().map(|&column| Partners::of_column(&sets, &payload, column));
        let partners = partners.collect::<Result<Vec<_>>>()?;
        let visited = match (self.layout.marks_build(), self.layout.sets_decide()) {
            (true, true) => Some(sets.len() as usize),
            (true, false) => Some(sets.row_count()),
            (false, _) => None,
        };
        let held = sets.size_in_bytes()
            + encoder.size_in_bytes()
            + key_ids.size_in_bytes()
            + payload.size_in_bytes()
            + ranks.as_ref().map_or(0, |r| r.by_place.capacity() * size_of::<u32>())
            + partners.iter().flatten().count() * Partners::footprint(&sets)
            + visited.map_or(0, Visited::footprint);
        reservation.try_resize(held)?;
        self.metrics.sets.add(sets.row_count());
        self.metrics.distinct_sets.add(sets.len() as usize);
        self.metrics.tokens.add(encoder.token_count() as usize);
        self.metrics.keys.add(key_ids.len() as usize);
        let (strategy, cost) = choose(self.strategy, &sets, &self.layout.spec);
        (self.on_choice)(format!("{} (estimated {:.1e} steps), cpu", strategy.name(), cost.0));
        let context =
            PrepareContext { reservation: &reservation, cancel, threads: self.threads.max(1) };
        let prepared = strategy.prepare(Arc::clone(&sets), self.layout.spec, context)?;
        peak();
        self.metrics.bytes.set(reservation.size());
        Ok(BuildSide {
            sets,
            encoder,
            key_ids,
            row_bytes: payload.row_bytes(),
            payload: Arc::new(payload),
            ranks,
            partners,
            prepared,
            visited: visited.map(Visited::new),
            unfinished: AtomicUsize::new(self.partitions),
            next_set: AtomicUsize::new(0),
            _reservation: reservation,
        })
    }
}

/// Says which side did not fit, and what would help.
fn out_of_memory(error: DataFusionError, layout: &Layout, rows: usize) -> DataFusionError {
    let DataFusionError::ResourcesExhausted(_) = error.find_root() else {
        return error;
    };
    let side = layout.build();
    error.context(match layout.self_join {
        true => format!(
            "the input of the similarity self-join does not fit into the memory limit \
             ({rows} rows read); raise the limit"
        ),
        false => format!(
            "the {side} side of the similarity join, which is built, does not fit into the memory \
             limit ({rows} rows read); raise the limit, or build the other side if it is smaller: \
             SET simjoin.build_side = '{}'",
            side.other()
        ),
    })
}
