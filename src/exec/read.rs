//! Reading the build side: several tasks share the batches of one input.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::build::{BuildPlan, EncodedArguments, ROWS_PER_SLICE, out_of_memory};
use super::payload::{PayloadBuilder, SeenBuffers};
use crate::sets::{BuildEncoder, KeyDictionary};

/// The build side while it is being read.
pub(super) struct Reading {
    pub plan: BuildPlan,
    pub reservation: MemoryReservation,
    input: Mutex<Input>,
    seen: SeenBuffers,
    /// What is read is of no use any more.
    failed: AtomicBool,
}

struct Input {
    /// `None` once it has ended.
    stream: Option<SendableRecordBatchStream>,
    /// A batch of which some rows are left, and the first of these.
    batch: Option<(RecordBatch, usize)>,
    /// The number of the next row.
    next_row: u32,
}

/// What one task has read.
pub(super) struct Share {
    pub encoder: BuildEncoder,
    keys: KeyDictionary,
    payload: PayloadBuilder,
    order_column: PayloadBuilder,
}

impl Reading {
    pub fn new(
        plan: BuildPlan,
        input: SendableRecordBatchStream,
        reservation: MemoryReservation,
    ) -> Self {
        let input = Input { stream: Some(input), batch: None, next_row: 0 };
        Self {
            plan,
            reservation,
            input: Mutex::new(input),
            seen: SeenBuffers::default(),
            failed: AtomicBool::new(false),
        }
    }

    /// Reads everything, on as many threads as the plan allows and the runtime has.
    pub async fn run(self: &Arc<Self>) -> Result<Vec<Share>> {
        let tasks = self.plan.threads.min(Handle::current().metrics().num_workers());
        if tasks <= 1 {
            return Ok(vec![self.read().await?]);
        }
        // Dropped tasks end at their next slice: nobody waits for the build side any more. When one
        // fails, the others are waited for, so that their memory is free when the error is seen.
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

    /// Encodes one slice after the other, until all have been taken.
    async fn read(&self) -> Result<Share> {
        let plan = &self.plan;
        let side = plan.layout.build();
        let carried = &plan.layout.carried[side as usize];
        let ordered: Vec<usize> = plan.layout.row_order.iter().map(|order| order.column).collect();
        let mut share = Share {
            encoder: BuildEncoder::default(),
            keys: KeyDictionary::default(),
            payload: PayloadBuilder::new(carried.len(), self.seen.clone()),
            order_column: PayloadBuilder::new(ordered.len(), self.seen.clone()),
        };
        while let Some((first_row, slice)) = self.next_slice().await?
            && !self.failed.load(Ordering::Relaxed)
        {
            let timer = plan.metrics.encode_time.timer();
            share.payload.push(first_row, &slice, carried);
            share.order_column.push(first_row, &slice, &ordered);
            let base = share.payload.size_in_bytes() + share.order_column.size_in_bytes();
            let converter = plan.converter.as_deref();
            let arguments = EncodedArguments::evaluate(&plan.layout, side, converter, &slice)?;
            let Share { encoder, keys, .. } = &mut share;
            encoder
                .push_at(first_row, &arguments.as_input(), keys, &self.reservation, base)
                .map_err(|e| out_of_memory(e, &plan.layout, first_row as usize))?;
            plan.metrics.peak_bytes.set_max(self.reservation.size());
            timer.done();
            tokio::task::yield_now().await;
        }
        Ok(share)
    }

    /// The next rows that nobody has taken, and the number of the first.
    async fn next_slice(&self) -> Result<Option<(u32, RecordBatch)>> {
        let mut input = self.input.lock().await;
        let (batch, start) = loop {
            if let Some(rest) = input.batch.take() {
                break rest;
            }
            let Some(stream) = &mut input.stream else { return Ok(None) };
            match stream.next().await.transpose()? {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => {
                    self.plan.metrics.rows.add(batch.num_rows());
                    input.batch = Some((batch, 0));
                }
                None => input.stream = None,
            }
        };
        let rows = ROWS_PER_SLICE.min(batch.num_rows() - start);
        let slice = batch.slice(start, rows);
        if start + rows < batch.num_rows() {
            input.batch = Some((batch, start + rows));
        }
        let first_row = input.next_row;
        input.next_row = first_row.checked_add(rows as u32).ok_or_else(|| {
            exec_datafusion_err!("a side of a similarity join holds at most {} rows", u32::MAX)
        })?;
        Ok(Some((first_row, slice)))
    }
}

impl Share {
    /// The encoders with their keys, the payload and the column that rows are ordered by.
    pub fn split(
        shares: Vec<Self>,
    ) -> (Vec<(BuildEncoder, KeyDictionary)>, PayloadBuilder, PayloadBuilder) {
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
