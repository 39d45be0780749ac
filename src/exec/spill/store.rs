//! Bringing both sides to disk.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::SchemaRef;
use datafusion::common::hash_utils::create_hashes;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::repartition::REPARTITION_RANDOM_STATE;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::bands::Bands;
use super::choices::{AllChoices, ShowChoices};
use super::context::SpillContext;
use super::driver::{SpilledBuild, all_of};
use super::plan::StoredPlan;
use super::stored::{Growth, Reloaded, StoredBuild};
use super::writer::SideWriter;
use crate::config::SimJoinOptions;
use crate::disk::{LEAST_BUFFER_BYTES, SegmentLimits, spill_manager};
use crate::engine::KeyConverter;
use crate::exec::build::BuildPlan;
use crate::exec::build::headroom::Headroom;
use crate::exec::build::read::Overflow;
use crate::exec::build_side::BuildSide;
use crate::exec::layout::JoinLayout;
use crate::exec::metrics::DiskMetrics;
use crate::exec::rows::arguments::EncodedArguments;
use crate::exec::rows::ranks::comparable;
use crate::exec::rows::segment::SpilledSide;
use crate::exec::rows::slices::Slices;
use crate::operator::row_bytes::stored_bytes;
use crate::spec::Side;
use crate::util::cancel::{self, CancelFlag};

/// The build side, or sides, that the partitions of a join probe.
pub(crate) enum Built {
    /// With the layout and the keys to probe it with, and the headroom for the start of each
    /// partition.
    Memory {
        side: Arc<BuildSide>,
        layout: Arc<JoinLayout>,
        converter: Option<Arc<KeyConverter>>,
        starts: Arc<Headroom>,
    },
    /// A build side that did not fit into memory.
    Disk(Arc<SpilledBuild>),
}

/// Positions of rows that the bands are drawn from, at most.
const SAMPLED_ROWS: usize = 1 << 16;
/// Bytes of rows gathered before they are written, where memory allows.
const BUFFER_BYTES: usize = 16 << 20;
/// Bytes of a segment, where memory allows.
const SEGMENT_BYTES: usize = 32 << 20;
/// Open files take memory besides.
const OPEN_FILE_BYTES: usize = 64 << 10;

/// Takes a join to disk whose build side does not fit into memory.
pub(crate) struct SpillRequest {
    /// The build in memory that did not succeed.
    pub build: BuildPlan,
    /// The schemas of both sides.
    pub inputs: [SchemaRef; 2],
    pub options: SimJoinOptions,
    pub metrics: ExecutionPlanMetricsSet,
    pub task: Arc<TaskContext>,
    /// Shows what is chosen for the pieces of the build side.
    pub show: ShowChoices,
}

impl SpillRequest {
    /// Stores the build side, and reads it back where it is likely to fit after all. `memory` holds
    /// the rows that have been read.
    pub(crate) async fn build(self, overflow: Overflow, memory: Arc<Headroom>) -> Result<Built> {
        let Self { build, inputs, options, metrics, task, show } = self;
        let context = Arc::new(SpillContext {
            plan: StoredPlan::try_new(&build.layout, inputs, &options)?,
            build,
            options,
            task,
            metrics: DiskMetrics::new(&metrics),
            plan_metrics: metrics,
            choices: AllChoices::new(show),
        });
        let read_elapsed = context.build.metrics.read_elapsed.clone();
        let storing = read_elapsed.timer();
        let build = context.store_build(overflow, memory).await?;
        storing.done();
        Ok(match build.reload().await? {
            Some(Reloaded { side, layout, starts }) => {
                // The converter is for keys of rows of the probe input; a self-join uses none.
                let converter = context.build.converter.clone();
                Built::Memory { side, layout, converter, starts }
            }
            None => Built::Disk(Arc::new(SpilledBuild::new(build))),
        })
    }
}

impl SpillContext {
    /// The most rows of a piece of the build side.
    pub(crate) fn piece_rows(&self) -> Option<usize> {
        self.options.spill_piece_rows.0
    }

    /// The bytes that the session's memory pool has left; `None` where the pool does not tell.
    pub(crate) fn available(&self) -> Option<usize> {
        let pool = self.task.memory_pool();
        match pool.memory_limit() {
            MemoryLimit::Finite(limit) => Some(limit.saturating_sub(pool.reserved())),
            MemoryLimit::Infinite | MemoryLimit::Unknown => None,
        }
    }

    /// A writer that shares `room` bytes with others.
    fn writer(
        &self,
        side: Side,
        bands: &Arc<Bands>,
        keeps_itemless: bool,
        room: usize,
    ) -> Result<SideWriter> {
        let limits = SegmentLimits {
            buffer_bytes: (room / 16).clamp(LEAST_BUFFER_BYTES, BUFFER_BYTES),
            // A piece is at least a segment, and must fit in a fraction of the memory left.
            segment_bytes: (room / 64).clamp(LEAST_BUFFER_BYTES, SEGMENT_BYTES),
            // Only the build side is ever in memory by the segment.
            most_segment_bytes: match side == self.build.layout.build() {
                true => room / 32,
                false => usize::MAX,
            },
            // Small enough for pieces of `piece_rows` rows.
            segment_rows: self.piece_rows().map_or(usize::MAX, |rows| rows.div_ceil(2)),
        };
        let reservation =
            MemoryConsumer::new("SetSimilarityJoin spill buffer").register(self.task.memory_pool());
        let schema = Arc::clone(&self.plan.schemas[side as usize]);
        let manager = spill_manager(&self.task, &self.plan_metrics, schema)?;
        let form = Arc::clone(&self.plan.forms[side as usize]);
        let bands = Arc::clone(bands);
        Ok(SideWriter::new(manager, form, bands, keeps_itemless, limits, reservation))
    }

    /// Stores the build side: the rows that have been read, and the rest. `memory` holds the rows
    /// read, and is free afterwards.
    pub(crate) async fn store_build(
        self: &Arc<Self>,
        overflow: Overflow,
        memory: Arc<Headroom>,
    ) -> Result<StoredBuild> {
        let side = self.build.layout.build();
        let Overflow { shares, rest, held } = overflow;
        let reserved = held.size();
        // Unloading an encoder takes a list of its values: out of the headroom, before that is
        // released.
        let listed = memory.reservation("values");
        let footprints = shares.iter().map(|share| share.encoder.unload_bytes(&share.keys));
        listed.grow(footprints.max().unwrap_or(0));
        memory.release();
        let positions: Vec<u32> = shares
            .iter()
            .flat_map(|share| share.encoder.positions(SAMPLED_ROWS / shares.len()))
            .collect();
        let kind = shares.iter().map(|share| share.encoder.kind()).max().unwrap_or(0);
        // The rows read are about to leave memory.
        let room = self.available().map_or(usize::MAX, |bytes| bytes + reserved);
        let count = self.options.spill_bands.get().min((room / 8 / OPEN_FILE_BYTES).max(4));
        let bands = Arc::new(Bands::new(
            positions,
            kind,
            self.build.layout.matcher.axis(),
            count,
            self.plan.has_keys,
        ));
        // In a self-join these are the probe rows as well.
        let keeps = self.build.layout.listed(side).unmatched
            || self.build.layout.self_join
                && self.build.layout.listed(self.build.layout.probe).unmatched;
        let mut writer = self.writer(side, &bands, keeps, room)?;
        let mut unloaded = 0;
        for share in shares {
            let keys = self.plan.has_keys.then_some(&share.keys);
            let unload = share.encoder.unload(keys);
            for push in 0..unload.pushes() {
                for rows in unload.rows(push)? {
                    let columns = self.plan.stored[side as usize].iter().map(|&column| match share
                        .column(&self.build.layout, column, push)
                    {
                        Some(array) => Ok(array.slice(rows.rows.start, rows.rows.len())),
                        None => internal_err!("column {column} of the {side} side is gone"),
                    });
                    let columns = columns.collect::<Result<Vec<_>>>()?;
                    unloaded += rows.values.get_array_memory_size();
                    unloaded += columns.iter().map(stored_bytes).sum::<usize>();
                    writer.push(rows, columns)?;
                }
                tokio::task::yield_now().await;
            }
            held.shrink(share.encoder.reserved().min(held.size()));
        }
        drop((held, listed));
        let stored = Arc::new(self.store(side, vec![rest], writer).await?);
        self.metrics.note_side(true, stored.rows, stored.bytes());
        self.metrics.bands.add(bands.len());
        let all_distinct = self.is_distinct(&stored).await?;
        // Ordering and indexing need more than reading.
        let growth = match unloaded {
            0 => 2.0,
            bytes => (1.6 * reserved as f64 / bytes as f64).clamp(0.5, 8.0),
        };
        Ok(StoredBuild {
            context: Arc::clone(self),
            side: stored,
            bands,
            all_distinct,
            growth: Mutex::new(Growth::guess(growth)),
            permits: Arc::new(Semaphore::new(1)),
        })
    }

    /// Whether no two rows of a side that is joined with itself are equal by the row order, and none is NULL,
    /// where pairs of first rows are asked for: a piece does not tell. Where memory for it is short they are taken
    /// for equal.
    async fn is_distinct(&self, side: &Arc<SpilledSide>) -> Result<bool> {
        let Some(itself) = self.plan.itself.as_ref().filter(|itself| itself.may_give_firsts())
        else {
            return Ok(false);
        };
        let Some(order) = itself.row_order else { return Ok(false) };
        let column = order.columns[itself.build() as usize];
        let held =
            MemoryConsumer::new("SetSimilarityJoin values").register(self.task.memory_pool());
        let bytes = usize::try_from(side.rows).unwrap_or(usize::MAX).saturating_mul(8);
        if held.try_grow(bytes).is_err() {
            return Ok(false);
        }
        let mut hashes: Vec<u64> = Vec::with_capacity(bytes / 8);
        let mut batches = side.read_all(0..side.segments.len());
        while let Some(batch) = batches.next().await.transpose()? {
            let values = comparable(batch.column(column))?;
            if values.logical_null_count() > 0 {
                return Ok(false);
            }
            let mut of_batch = vec![0; batch.num_rows()];
            create_hashes([&values], REPARTITION_RANDOM_STATE.random_state(), &mut of_batch)?;
            hashes.append(&mut of_batch);
            tokio::task::yield_now().await;
        }
        // Different values with one hash cost time alone.
        let cancel = CancelFlag::default();
        let _cancelled = cancel.on_drop();
        let sorted = SpawnedTask::spawn_blocking(move || {
            cancel::sort_unstable_by(&mut hashes, &cancel, u64::cmp)?;
            Ok::<_, DataFusionError>(hashes.windows(2).all(|pair| pair[0] < pair[1]))
        });
        sorted.join().await.unwrap_or_else(|e| exec_err!("comparing the rows of a side ended: {e}"))
    }

    /// Stores the probe side.
    pub(crate) async fn store_probe(
        self: &Arc<Self>,
        inputs: Vec<Slices>,
        bands: &Arc<Bands>,
    ) -> Result<SpilledSide> {
        let side = self.build.layout.probe;
        let room = self.available().unwrap_or(usize::MAX);
        let writer = self.writer(side, bands, self.build.layout.listed(side).unmatched, room)?;
        let limit = self.task.memory_pool().memory_limit();
        let inputs = inputs.into_iter().map(|input| input.within(&limit)).collect();
        let stored = self.store(side, inputs, writer).await?;
        self.metrics.note_side(false, stored.rows, stored.bytes());
        Ok(stored)
    }

    /// Writes all rows of `inputs`.
    async fn store(
        self: &Arc<Self>,
        side: Side,
        inputs: Vec<Slices>,
        writer: SideWriter,
    ) -> Result<SpilledSide> {
        let writer = Arc::new(Mutex::new(writer));
        let tasks_each = self.build.threads.count().div_ceil(inputs.len().max(1));
        let mut tasks = JoinSet::new();
        for input in inputs {
            let input = Arc::new(input);
            for _ in 0..tasks_each {
                let (context, input) = (Arc::clone(self), Arc::clone(&input));
                let writer = Arc::clone(&writer);
                tasks.spawn(async move { context.store_slices(side, &input, &writer).await });
            }
        }
        all_of(tasks, &format!("spilling the {side} side of a similarity join")).await?;
        match Arc::try_unwrap(writer) {
            Ok(writer) => writer.into_inner().finish(),
            Err(_) => internal_err!("a task still writes a side of a similarity join"),
        }
    }

    async fn store_slices(
        &self,
        side: Side,
        input: &Slices,
        writer: &Mutex<SideWriter>,
    ) -> Result<()> {
        let form = &self.plan.forms[side as usize];
        while let Some((_, slice)) = input.next().await? {
            let converter = self.build.converter.as_deref();
            let arguments =
                EncodedArguments::evaluate_to_store(&self.build.layout, side, converter, &slice)?;
            let with_nan = arguments.rows_with_nan(&self.build.layout);
            self.build.metrics.nan_rows.add(side, with_nan);
            for rows in form.store(&arguments.as_input())? {
                let part = slice.slice(rows.rows.start, rows.rows.len());
                writer.lock().push(rows, self.plan.columns(side, &part))?;
            }
        }
        Ok(())
    }
}
