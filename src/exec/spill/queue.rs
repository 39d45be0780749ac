//! Output batches on their way from the driver to the partitions.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// A bounded queue that any number of partitions take from. A partition that nobody polls holds
/// nothing back: the others get what it does not take.
#[derive(Debug)]
pub(super) struct BatchQueue {
    state: Mutex<State>,
    capacity: usize,
    /// There is a batch, or the end.
    ready: Notify,
    /// There is room for a batch.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<RecordBatch>,
    end: Option<Result<(), Arc<DataFusionError>>>,
}

impl BatchQueue {
    pub fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::default(),
            capacity: capacity.max(1),
            ready: Notify::new(),
            room: Notify::new(),
        }
    }

    /// Waits until there is room for a batch, which others may take first.
    pub async fn room(&self) {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            if self.state.lock().batches.len() < self.capacity {
                return;
            }
            room.await;
        }
    }

    /// Adds a batch, once there is room.
    pub async fn push(&self, batch: RecordBatch) {
        loop {
            let mut room = pin!(self.room.notified());
            // From here on no notification is missed.
            room.as_mut().enable();
            {
                let mut state = self.state.lock();
                if state.batches.len() < self.capacity {
                    state.batches.push_back(batch);
                    drop(state);
                    self.ready.notify_waiters();
                    return;
                }
            }
            room.await;
        }
    }

    /// No more batches, or an error in their place. What ended already stays as it is.
    pub fn end(&self, result: Result<()>) {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return;
        }
        if result.is_err() {
            state.batches.clear();
        }
        state.end = Some(result.map_err(Arc::new));
        drop(state);
        self.ready.notify_waiters();
    }

    /// The next batch; `None` at the end. Every caller gets the error, if there is one.
    pub async fn pop(&self) -> Result<Option<RecordBatch>> {
        loop {
            let mut ready = pin!(self.ready.notified());
            ready.as_mut().enable();
            {
                let mut state = self.state.lock();
                if let Some(batch) = state.batches.pop_front() {
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
    use datafusion::arrow::array::RecordBatchOptions;
    use datafusion::arrow::datatypes::Schema;
    use datafusion::common::exec_datafusion_err;

    use super::*;

    fn batch(rows: usize) -> RecordBatch {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
    }

    #[tokio::test]
    async fn every_batch_reaches_one_reader() {
        let queue = Arc::new(BatchQueue::new(2));
        // One that waits and is never polled again takes nothing.
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
            queue.push(batch(rows)).await;
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
        let queue = BatchQueue::new(1);
        queue.push(batch(1)).await;
        queue.end(Err(exec_datafusion_err!("broken")));
        for _ in 0..2 {
            // A later end does not count.
            queue.end(Ok(()));
            assert!(queue.pop().await.unwrap_err().strip_backtrace().contains("broken"));
        }
    }
}
