//! The partitions of the probe input while tasks read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use parking_lot::Mutex;

/// The partitions of the probe input, each of which is started once.
pub(crate) struct ProbeInputs {
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    /// Whether all partitions run in this process and share their marks.
    shared: bool,
    /// Whether partitions are read ahead of the tasks that take their rows.
    reads_ahead: bool,
    partitions: Vec<Partition>,
}

/// A partition, polled by any number of tasks: each batch goes to one of them.
#[derive(Default)]
struct Partition {
    rows: Mutex<PartitionStream>,
    /// Set before the tasks that wait are woken for the last time. No task waits for what is gone: each
    /// would wake the others for ever.
    is_gone: AtomicBool,
    /// The tasks that wait for a batch.
    waiting: Arc<Wakers>,
}

#[derive(Default)]
enum PartitionStream {
    #[default]
    Unasked,
    Ready(SendableRecordBatchStream),
    /// The input is at its end, or taken.
    Gone,
}

/// Wakes all tasks that wait: a task that is woken may not be polled again, and must not keep the
/// others waiting.
#[derive(Default)]
struct Wakers(Mutex<Vec<Waker>>);

impl Wakers {
    fn add(&self, waker: &Waker) {
        let mut wakers = self.0.lock();
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let wakers = std::mem::take(&mut *self.0.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Whether a plan reads files or memory, with no more than filters and projections above.
fn is_scan(plan: &dyn ExecutionPlan) -> bool {
    match plan.children().as_slice() {
        [] => plan.is::<DataSourceExec>(),
        [input] if plan.is::<FilterExec>() || plan.is::<ProjectionExec>() => {
            is_scan(input.as_ref())
        }
        _ => false,
    }
}

impl ProbeInputs {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        shared: bool,
    ) -> Self {
        let count = input.output_partitioning().partition_count();
        let partitions = (0..count).map(|_| Partition::default()).collect();
        // The one batch is in no reservation, and a filter or a projection takes little memory of its own.
        let is_limited = matches!(context.memory_pool().memory_limit(), MemoryLimit::Finite(_));
        let reads_ahead = !is_limited && is_scan(input.as_ref());
        Self { input, context, shared, reads_ahead, partitions }
    }

    pub(crate) fn are_shared(&self) -> bool {
        self.shared
    }

    /// Starts a partition unless it has been started. The first batch of a scan is read while the build side
    /// is made.
    pub(crate) fn ask(&self, partition: usize) -> Result<()> {
        match self.partitions.get(partition) {
            Some(Partition { rows, .. }) => self.start(partition, &mut rows.lock()),
            None => Ok(()),
        }
    }

    fn start(&self, partition: usize, rows: &mut PartitionStream) -> Result<()> {
        if let PartitionStream::Unasked = rows {
            let stream = self.input.execute(partition, Arc::clone(&self.context))?;
            *rows = PartitionStream::Ready(if self.reads_ahead {
                spawn_buffered(stream, 1)
            } else {
                stream
            });
        }
        Ok(())
    }

    /// The rows of a partition; `None` where a task has taken them.
    pub(crate) fn take(&self, partition: usize) -> Result<Option<SendableRecordBatchStream>> {
        self.ask(partition)?;
        let Some(Partition { rows, is_gone, .. }) = self.partitions.get(partition) else {
            return Ok(None);
        };
        is_gone.store(true, Ordering::Release);
        Ok(match std::mem::replace(&mut *rows.lock(), PartitionStream::Gone) {
            PartitionStream::Ready(stream) => Some(stream),
            PartitionStream::Unasked | PartitionStream::Gone => None,
        })
    }

    /// The rows of all partitions.
    pub(crate) fn take_all(&self) -> Result<Vec<SendableRecordBatchStream>> {
        let partitions = 0..self.partitions.len();
        partitions.filter_map(|partition| self.take(partition).transpose()).collect()
    }

    /// The next batch of a partition. A task that finds another one at it waits.
    fn poll(&self, partition: usize, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let Some(Partition { rows, is_gone, waiting }) = self.partitions.get(partition) else {
            return Poll::Ready(None);
        };
        if is_gone.load(Ordering::Acquire) {
            return Poll::Ready(None);
        }
        // First of all: whatever happens to the stream from here on wakes the task.
        waiting.add(cx.waker());
        let Some(mut rows) = rows.try_lock() else { return Poll::Pending };
        let polled = match self.start(partition, &mut rows) {
            Err(error) => Poll::Ready(Some(Err(error))),
            Ok(()) => match &mut *rows {
                PartitionStream::Ready(stream) => {
                    let waker = Waker::from(Arc::clone(waiting));
                    stream.poll_next_unpin(&mut Context::from_waker(&waker))
                }
                PartitionStream::Unasked | PartitionStream::Gone => Poll::Ready(None),
            },
        };
        if let Poll::Ready(None | Some(Err(_))) = &polled {
            *rows = PartitionStream::Gone;
            is_gone.store(true, Ordering::Release);
        }
        drop(rows);
        if polled.is_ready() {
            // Those that have found this task at it.
            waiting.wake_by_ref();
        }
        polled
    }
}

/// The rows that a partition of the join probes: those of the same partition of the input, then, in
/// one process, those that the other partitions have not come to. So all cores take part where the
/// input has few partitions, or one of them has most rows, as in a Parquet file of one row group.
pub(crate) struct ProbeRows {
    inputs: Arc<ProbeInputs>,
    partition: usize,
}

impl ProbeRows {
    pub(crate) fn new(inputs: &Arc<ProbeInputs>, partition: usize) -> Self {
        Self { inputs: Arc::clone(inputs), partition }
    }

    /// Whether other partitions of this process take rows of this one.
    pub(crate) fn are_shared(&self) -> bool {
        self.inputs.are_shared()
    }

    /// The next batch; `None` once there is none for this partition.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let own = self.inputs.poll(self.partition, cx);
        if !matches!(own, Poll::Ready(None)) || !self.inputs.are_shared() {
            return own;
        }
        let count = self.inputs.partitions.len();
        let mut all = Poll::Ready(None);
        for after in 0..count {
            match self.inputs.poll((self.partition + after) % count, cx) {
                Poll::Ready(None) => {}
                Poll::Pending => all = Poll::Pending,
                batch => return batch,
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use futures::future::poll_fn;

    use super::*;

    /// Partitions of one-row batches, by the number of their rows.
    fn inputs(partitions: &[i64], shared: bool) -> Arc<ProbeInputs> {
        let schema = Arc::new(Schema::new(vec![Field::new("row", DataType::Int64, false)]));
        let batch = |row| {
            let column = Arc::new(Int64Array::from(vec![row]));
            RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap()
        };
        let of_partition = |(number, &rows): (usize, &i64)| {
            (0..rows).map(|row| batch(1000 * number as i64 + row)).collect()
        };
        let all: Vec<Vec<RecordBatch>> = partitions.iter().enumerate().map(of_partition).collect();
        let input = MemorySourceConfig::try_new_exec(&all, Arc::clone(&schema), None).unwrap();
        Arc::new(ProbeInputs::new(input, Arc::default(), shared))
    }

    async fn rest(rows: &ProbeRows) -> Vec<i64> {
        let mut all = vec![];
        while let Some(batch) = poll_fn(|cx| rows.poll_next(cx)).await {
            all.push(batch.unwrap().column(0).as_primitive::<Int64Type>().value(0));
        }
        all
    }

    #[tokio::test]
    async fn a_partition_reads_the_others_after_its_own() {
        let inputs = inputs(&[2, 0, 3], true);
        assert_eq!(rest(&ProbeRows::new(&inputs, 2)).await, [2000, 2001, 2002, 0, 1]);
        assert!(rest(&ProbeRows::new(&inputs, 0)).await.is_empty());
        assert!(inputs.take_all().unwrap().is_empty());
    }

    /// A join with more partitions than its input.
    #[tokio::test]
    async fn a_partition_without_rows_of_its_own_reads_those_of_all() {
        let inputs = inputs(&[2, 3], true);
        assert_eq!(rest(&ProbeRows::new(&inputs, 5)).await, [1000, 1001, 1002, 0, 1]);
        assert!(rest(&ProbeRows::new(&inputs, 1)).await.is_empty());
    }

    /// Where the other partitions run elsewhere.
    #[tokio::test]
    async fn partitions_that_are_not_shared_are_left_alone() {
        let inputs = inputs(&[2, 0, 3], false);
        assert!(rest(&ProbeRows::new(&inputs, 1)).await.is_empty());
        assert_eq!(rest(&ProbeRows::new(&inputs, 0)).await, [0, 1]);
        assert!(inputs.take(2).unwrap().is_some() && inputs.take(2).unwrap().is_none());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn tasks_share_a_partition_and_all_of_them_end() {
        let inputs = inputs(&[0, 500, 0, 0], true);
        let tasks = (0..6).map(|partition| {
            let rows = ProbeRows::new(&inputs, partition);
            tokio::spawn(async move { rest(&rows).await })
        });
        let mut all: Vec<i64> = vec![];
        for task in tasks.collect::<Vec<_>>() {
            all.extend(task.await.unwrap());
        }
        all.sort_unstable();
        assert_eq!(all, (1000..1500).collect::<Vec<_>>());
    }

    /// The input reads the first batch of a scan ahead where there is no memory limit, and a thread is free.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_first_batch_of_a_scan_is_read_before_a_task_asks_for_it() {
        let inputs = inputs(&[500, 3], true);
        assert!(inputs.reads_ahead);
        (0..2).for_each(|partition| inputs.ask(partition).unwrap());
        let mut all = rest(&ProbeRows::new(&inputs, 1)).await;
        all.sort_unstable();
        assert!(all.into_iter().eq((0..500).chain(1000..1003)));
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(1 << 20, 1.0).build_arc().unwrap();
        let context = Arc::new(TaskContext::default().with_runtime(runtime));
        let of = |input: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>| {
            ProbeInputs::new(Arc::clone(input), Arc::clone(context), true).reads_ahead
        };
        assert!(!of(&inputs.input, &context));
        let merged = Arc::new(CoalescePartitionsExec::new(Arc::clone(&inputs.input)));
        assert!(!of(&(merged as Arc<dyn ExecutionPlan>), &Arc::default()));
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A task that finds another one at the stream is woken once that one has a batch.
    #[test]
    fn tasks_that_find_a_partition_taken_are_woken() {
        let inputs = inputs(&[3], true);
        let (first, second) = (Arc::new(Counting::default()), Arc::new(Counting::default()));
        let wakers = [&first, &second].map(|task| Waker::from(Arc::clone(task)));
        let rows = inputs.partitions[0].rows.lock();
        assert!(inputs.poll(0, &mut Context::from_waker(&wakers[1])).is_pending());
        drop(rows);
        assert_eq!(second.0.load(Ordering::Relaxed), 0);
        assert!(inputs.poll(0, &mut Context::from_waker(&wakers[0])).is_ready());
        assert_eq!(second.0.load(Ordering::Relaxed), 1);
    }

    /// A task whose own partition has ended waits for a batch of another one, and is not woken before.
    #[test]
    fn tasks_that_wait_do_not_wake_themselves_or_each_other() {
        let inputs = inputs(&[3, 0, 0], true);
        let tasks = [1, 2].map(|partition| {
            let task = Arc::new(Counting::default());
            (ProbeRows::new(&inputs, partition), Arc::clone(&task), Waker::from(task))
        });
        let held = inputs.partitions[0].rows.lock();
        for _ in 0..3 {
            for (rows, _, waker) in &tasks {
                assert!(rows.poll_next(&mut Context::from_waker(waker)).is_pending());
            }
        }
        let woken = || tasks.each_ref().map(|(_, task, _)| task.0.load(Ordering::Relaxed));
        // Once for each of the two partitions that have ended, at most.
        let before = woken();
        assert!(before.iter().all(|&times| times <= 2), "{before:?}");
        for (rows, _, waker) in &tasks {
            assert!(rows.poll_next(&mut Context::from_waker(waker)).is_pending());
        }
        assert_eq!(woken(), before);
        drop(held);
        let (rows, _, waker) = &tasks[0];
        assert!(rows.poll_next(&mut Context::from_waker(waker)).is_ready());
        assert_eq!(woken()[1], before[1] + 1);
    }
}
