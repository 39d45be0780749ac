//! Reading the build side: several tasks share the batches of one input.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::config::SpillChoice;
use crate::engine::{BuildEncoder, EncodedPart, Growth, KeyDictionary};
use crate::exec::answer::batch::MatchCounts;
use crate::exec::build::headroom::Headroom;
use crate::exec::build::{BuildPlan, out_of_memory};
use crate::exec::layout::JoinLayout;
use crate::exec::rows::arguments::EncodedArguments;
use crate::exec::rows::payload::PayloadBuilder;
use crate::exec::rows::ranks::Ranks;
use crate::exec::rows::slices::Slices;
use crate::operator::errors::is_out_of_memory;
use crate::util::buffers::SeenBuffers;

/// The build side while it is being read.
pub(crate) struct BuildCollector {
    pub plan: BuildPlan,
    pub reservation: MemoryReservation,
    memory: Arc<Headroom>,
    input: Slices,
    seen: SeenBuffers,
    /// The bytes that all tasks together need beyond those they hold.
    needed: Mutex<Needed>,
    /// A task has failed: the rows read are of no use.
    failed: AtomicBool,
    /// The reason why the rows read do not stay in memory.
    overflow: OnceLock<DataFusionError>,
}

/// The bytes that rows need beyond those that their encoders hold.
#[derive(Debug, Clone, Copy, Default)]
struct Needed {
    /// The bytes to finish and index the rows, or to give them to the disk.
    once: usize,
    /// The bytes of the cursor of each partition.
    cursor: usize,
}

/// The rows read of an input that does not fit into memory.
pub(crate) struct Overflow {
    pub shares: Vec<Share>,
    pub rest: Slices,
    /// The memory of the shares.
    pub held: MemoryReservation,
}

/// The outcome of reading.
pub(crate) enum ReadOutcome {
    /// All rows, ready to be indexed.
    Read { plan: BuildPlan, reservation: MemoryReservation, shares: Vec<Share> },
    /// Rows that do not stay in memory, and why.
    Overflow(Overflow, DataFusionError),
}

/// The rows that one task has read.
pub(crate) struct Share {
    pub encoder: Box<dyn BuildEncoder>,
    pub keys: KeyDictionary,
    pub payload: PayloadBuilder,
    pub order_column: PayloadBuilder,
}

impl BuildCollector {
    pub(crate) fn new(
        plan: BuildPlan,
        input: SendableRecordBatchStream,
        memory: Arc<Headroom>,
        reservation: MemoryReservation,
    ) -> Self {
        let input = Slices::new(input, plan.metrics.rows.clone(), plan.threads.tuning)
            .within(&memory.memory_limit())
            .shared_by(plan.readers);
        Self {
            plan,
            reservation,
            memory,
            input,
            seen: SeenBuffers::default(),
            needed: Mutex::default(),
            failed: AtomicBool::new(false),
            overflow: OnceLock::new(),
        }
    }

    /// Reads everything, or until memory is short, with as many tasks as the plan allows and the
    /// runtime has threads.
    pub(crate) async fn run(self: &Arc<Self>) -> Result<Vec<Share>> {
        let tasks = self.plan.readers.min(Handle::current().metrics().num_workers());
        if tasks <= 1 {
            return Ok(vec![self.read().await?]);
        }
        // Dropped tasks end at their next slice: no partition waits for the build side any more.
        // When one task fails, the others are waited for, so that their memory is free when a
        // partition sees the error.
        let tasks: Vec<_> = (0..tasks)
            .map(|_| {
                let this = Arc::clone(self);
                SpawnedTask::spawn(async move {
                    let share = this.read().await;
                    this.failed.fetch_or(share.is_err(), Ordering::Relaxed);
                    share
                })
            })
            .collect();
        let mut shares = vec![];
        for task in tasks {
            shares.push(task.join().await.unwrap_or_else(|error| {
                exec_err!("reading the build side of a similarity join failed: {error}")
            }));
        }
        shares.into_iter().collect()
    }

    /// The rows read, with the plan and the memory to index them; or the reason why they cannot
    /// stay in memory.
    pub(crate) fn finish(self, shares: Vec<Share>) -> Result<ReadOutcome> {
        if self.overflow.get().is_none() {
            // All shares together may need more than each by itself: now they can still go to disk.
            self.hold(Share::finish_growth(&shares.iter().collect::<Vec<_>>(), &self.plan)?);
        }
        Ok(match self.overflow.into_inner() {
            None => ReadOutcome::Read { plan: self.plan, reservation: self.reservation, shares },
            Some(error) => {
                let held = self.reservation;
                ReadOutcome::Overflow(Overflow { shares, rest: self.input, held }, error)
            }
        })
    }

    /// Encodes one slice after the other, until all have been taken or memory is short.
    async fn read(&self) -> Result<Share> {
        let plan = &self.plan;
        let side = plan.layout.build();
        let carried = &plan.layout.carried[side as usize];
        let ordered: Vec<usize> =
            plan.layout.row_order.iter().map(|order| order.columns[side as usize]).collect();
        let domain = plan.values.as_ref().map(|values| &values.domain);
        let mut share = Share {
            encoder: plan.layout.matcher.encoder(side, domain)?,
            keys: KeyDictionary::default(),
            payload: PayloadBuilder::new(self.input.schema(), carried, self.seen.clone()),
            order_column: PayloadBuilder::new(self.input.schema(), &ordered, self.seen.clone()),
        };
        let mut needed = Needed::default();
        while !self.failed.load(Ordering::Relaxed)
            && self.overflow.get().is_none()
            && let Some((first_row, slice)) = self.input.next_of_build().await?
        {
            let timer = plan.metrics.encode_time.timer();
            share.payload.push(first_row, &slice, carried);
            share.order_column.push(first_row, &slice, &ordered);
            let base = share.payload.size_in_bytes() + share.order_column.size_in_bytes();
            let converter = plan.converter.as_deref();
            let arguments = EncodedArguments::evaluate(&plan.layout, side, converter, &slice)?;
            let Share { encoder, keys, .. } = &mut share;
            let added =
                encoder.push(first_row, &arguments.as_input(), keys, &self.reservation, base);
            if let Err(error) = added.map_err(DataFusionError::from) {
                if plan.spill == SpillChoice::Never || !is_out_of_memory(&error) {
                    return Err(out_of_memory(error, &plan.layout, first_row as usize));
                }
                // The rows of this slice go to disk with the rest of the input: the encoder does
                // not have them.
                self.input.put_back(slice).await;
                self.overflow.get_or_init(|| error);
                break;
            }
            plan.metrics.nan_rows.add(side, arguments.rows_with_nan(&plan.layout));
            plan.metrics.peak_bytes.set_max(self.reservation.size());
            self.look_ahead(&share, &mut needed)?;
            timer.done();
        }
        Ok(share)
    }

    /// Holds the memory that finishing all shares and probing are going to take, or notes that
    /// there is none. `needed` are the bytes that this share was counted with before.
    fn look_ahead(&self, share: &Share, needed: &mut Needed) -> Result<()> {
        let now = Share::finish_growth(&[share], &self.plan)?;
        let mut all = self.needed.lock();
        all.once = all.once + now.once - needed.once;
        all.cursor = all.cursor + now.cursor - needed.cursor;
        *needed = now;
        self.hold(*all);
        Ok(())
    }

    /// Holds memory for the shares, for what all partitions start with, and for the rows of another
    /// input.
    fn hold(&self, needed: Needed) {
        let layout = &self.plan.layout;
        let starts = self.plan.partitions * (layout.partition_bytes() + needed.cursor);
        let rows = layout.bytes_for_rows(&self.memory.memory_limit());
        let held = match self.plan.spill {
            SpillChoice::Never => Ok(()),
            SpillChoice::Auto => self.memory.ensure(needed.once + starts + rows),
            SpillChoice::Always => Err(DataFusionError::ResourcesExhausted(
                "simjoin.spill = 'always' keeps nothing in memory".to_string(),
            )),
        };
        if let Err(error) = held {
            self.overflow.get_or_init(|| error);
        }
    }
}

impl Share {
    /// An input column of the rows that one call added to the encoder.
    pub(crate) fn column(
        &self,
        layout: &JoinLayout,
        column: usize,
        push: usize,
    ) -> Option<&ArrayRef> {
        let builder = match layout.carried_index(layout.build(), column) {
            Some(carried) => self.payload.pieces().get(carried),
            None => self.order_column.pieces().first(),
        };
        builder?.get(push)
    }

    /// A bound on the bytes that ordering, indexing and the counts of a self-join reserve on top of
    /// those that some shares hold; or on the bytes that giving their rows to the disk takes, where
    /// these are more. And a bound on those of a cursor.
    fn finish_growth(shares: &[&Self], plan: &BuildPlan) -> Result<Needed> {
        let layout = &plan.layout;
        let parts: Vec<_> = shares.iter().map(|s| (s.encoder.as_ref(), &s.keys)).collect();
        let Growth { finish, stays, prepare, cursor } =
            layout.matcher.growth(&parts, &layout.spec, plan.strategy)?;
        let sum = |bytes: fn(&Self) -> usize| shares.iter().map(|s| bytes(s)).sum::<usize>();
        let others = layout.meets_others;
        // Rows that do not repeat their items are not ranked. That is not known before they are indexed,
        // when it is too late to give them to the disk.
        let ranks: usize = shares
            .iter()
            .map(|s| s.order_column.finish_growth() + Ranks::footprint(&s.order_column, others))
            .sum();
        let columns = sum(|s| s.payload.finish_growth()) + ranks;
        let mut counts = 0;
        if layout.self_join {
            // Partitions count for different rows, each of them for the items of a range.
            let rows = sum(|s| s.payload.row_count());
            counts = MatchCounts::footprint(layout, rows, layout.counted_columns().count());
        }
        let unload = sum(|s| s.encoder.unload_bytes(&s.keys));
        let once = (finish.max(stays + prepare) + columns + counts).max(unload);
        Ok(Needed { once, cursor })
    }

    /// The encoders with their keys, the payload and the column that rows are ordered by.
    pub(crate) fn split(shares: Vec<Self>) -> (Vec<EncodedPart>, PayloadBuilder, PayloadBuilder) {
        let mut encoders = vec![];
        let (mut payloads, mut order_columns) = (vec![], vec![]);
        for share in shares {
            encoders.push((share.encoder, share.keys));
            payloads.push(share.payload);
            order_columns.push(share.order_column);
        }
        (encoders, PayloadBuilder::merged(payloads), PayloadBuilder::merged(order_columns))
    }
}
