//! Output batches on their way from the driver to the partitions.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::operator::row_bytes::slice_bytes;

/// A bounded queue from which any number of partitions take batches. A partition without a consumer
/// holds no batch back: the other partitions take them.
///
/// The queue holds a bounded number of batches, which are reserved in the memory pool, and one where
/// the pool has no room.
#[derive(Debug)]
pub(crate) struct BatchQueue {
    state: Mutex<Queued>,
    capacity: usize,
    most_bytes: usize,
    /// The memory of the batches.
    reservation: MemoryReservation,
    /// There is a batch, or the end.
    ready: Notify,
    /// There is room for a batch.
    room: Notify,
}

#[derive(Debug, Default)]
struct Queued {
    batches: VecDeque<Measured>,
    end: Option<Result<(), Arc<DataFusionError>>>,
}

/// A batch and the bytes of its rows.
#[derive(Debug)]
pub(crate) struct Measured {
    batch: RecordBatch,
    bytes: usize,
}

/// All batches of a queue may take this part of a memory limit.
const PART_OF_LIMIT: usize = 16;

impl BatchQueue {
    pub(super) fn new(capacity: usize, pool: &Arc<dyn MemoryPool>) -> Self {
        let most_bytes = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / PART_OF_LIMIT,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        Self {
            state: Mutex::default(),
            capacity: capacity.max(1),
            most_bytes,
            reservation: MemoryConsumer::new("SetSimilarityJoin output queue").register(pool),
            ready: Notify::new(),
            room: Notify::new(),
        }
    }

    /// The batch, for [`Self::push`].
    pub(super) fn measured(&self, batch: RecordBatch) -> Measured {
        // The data that views refer to belongs to the sides of the join.
        let bytes = batch.columns().iter().map(slice_bytes).sum();
        Measured { batch, bytes }
    }

    /// Whether the queue takes a batch now.
    fn has_room(&self, state: &Queued, batch: &Measured) -> bool {
        state.batches.is_empty()
            || state.batches.len() < self.capacity
                && self.reservation.size() + batch.bytes <= self.most_bytes
    }

    /// Waits until there is room for a batch; another task may take the room first.
    pub(super) async fn room_for(&self, batch: &Measured) {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            if self.has_room(&self.state.lock(), batch) {
                return;
            }
            room.await;
        }
    }

    /// Adds a batch, once there is room.
    pub(super) async fn push(&self, batch: Measured) {
        loop {
            let mut room = pin!(self.room.notified());
            // From here on no notification is missed.
            room.as_mut().enable();
            {
                let mut state = self.state.lock();
                if self.has_room(&state, &batch) && self.reserve(&state, &batch) {
                    state.batches.push_back(batch);
                    drop(state);
                    self.ready.notify_waiters();
                    return;
                }
            }
            room.await;
        }
    }

    /// Reserves a batch; fails where there is no memory for a second one.
    fn reserve(&self, state: &Queued, batch: &Measured) -> bool {
        match self.reservation.try_grow(batch.bytes) {
            Ok(()) => true,
            Err(_) if state.batches.is_empty() => {
                self.reservation.grow(batch.bytes);
                true
            }
            Err(_) => false,
        }
    }

    /// Ends the queue, by an error where `result` is one. A queue that has ended stays as it is.
    pub(super) fn end(&self, result: Result<()>) {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return;
        }
        if result.is_err() {
            state.batches.clear();
            self.reservation.free();
        }
        state.end = Some(result.map_err(Arc::new));
        drop(state);
        self.ready.notify_waiters();
    }

    /// The next batch; `None` at the end. Every caller gets the error, if there is one.
    pub(super) async fn pop(&self) -> Result<Option<RecordBatch>> {
        loop {
            let mut ready = pin!(self.ready.notified());
            ready.as_mut().enable();
            {
                let mut state = self.state.lock();
                if let Some(Measured { batch, bytes }) = state.batches.pop_front() {
                    self.reservation.shrink(bytes);
                    drop(state);
                    self.room.notify_waiters();
                    return Ok(Some(batch));
                }
                match &state.end {
                    Some(Ok(())) => return Ok(None),
                    Some(Err(error)) => return Err(DataFusionError::Shared(Arc::clone(error))),
                    None => {}
                }
            }
            ready.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use datafusion::common::exec_datafusion_err;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
    use futures::FutureExt;

    use super::*;

    fn unbounded() -> Arc<dyn MemoryPool> {
        Arc::new(UnboundedMemoryPool::default())
    }

    /// A batch of `rows` rows of eight bytes.
    fn batch(rows: usize) -> RecordBatch {
        let column = Arc::new(Int64Array::from(vec![0; rows])) as ArrayRef;
        RecordBatch::try_from_iter([("x", column)]).unwrap()
    }

    #[tokio::test]
    async fn every_batch_reaches_one_reader() {
        let queue = Arc::new(BatchQueue::new(2, &unbounded()));
        // A partition that waits and is never polled again takes no batch.
        let mut idle = Box::pin(queue.pop());
        assert!(futures::poll!(idle.as_mut()).is_pending());
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move {
                    let mut rows = 0;
                    while let Some(batch) = queue.pop().await.unwrap() {
                        rows += batch.num_rows();
                        tokio::task::yield_now().await;
                    }
                    rows
                })
            })
            .collect();
        for rows in 1..=100 {
            queue.push(queue.measured(batch(rows))).await;
        }
        queue.end(Ok(()));
        let mut all = 0;
        for reader in readers {
            all += reader.await.unwrap();
        }
        assert_eq!(all, 5050);
    }

    #[tokio::test]
    async fn everybody_gets_the_error() {
        let queue = BatchQueue::new(1, &unbounded());
        queue.push(queue.measured(batch(1))).await;
        queue.end(Err(exec_datafusion_err!("broken")));
        assert_eq!(queue.reservation.size(), 0);
        for _ in 0..2 {
            // A later end does not count.
            queue.end(Ok(()));
            assert!(queue.pop().await.unwrap_err().strip_backtrace().contains("broken"));
        }
    }

    /// Batches in the queue are reserved; the first one fits whatever it takes, others where the
    /// pool and the part of its limit have room for them.
    #[tokio::test]
    async fn batches_take_their_part_of_the_memory() {
        let limit = 160_000;
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
        let queue = BatchQueue::new(100, &pool);
        let takes = |queue: &BatchQueue, rows: usize| {
            let push = queue.push(queue.measured(batch(rows)));
            push.now_or_never().is_some()
        };
        // 8,000 bytes each; a sixteenth of the limit are 10,000.
        assert!(takes(&queue, 1000));
        assert!(!takes(&queue, 1000) && takes(&queue, 200));
        assert_eq!(pool.reserved(), 9600);
        for rows in [1000, 200] {
            assert_eq!(queue.pop().await.unwrap().unwrap().num_rows(), rows);
        }
        assert_eq!(pool.reserved(), 0);
        let others = MemoryConsumer::new("others").register(&pool);
        others.grow(limit - 1000);
        assert!(takes(&queue, 1000) && !takes(&queue, 10));
        assert_eq!(queue.pop().await.unwrap().unwrap().num_rows(), 1000);
        others.free();
        assert!(takes(&queue, 100_000) && !takes(&queue, 1));
        drop(queue);
        assert_eq!(pool.reserved(), 0);
    }
}
