//! The operator that has a cluster run a statement.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use ballista_core::client::BallistaClient;
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{ExecuteQueryParams, KeyValuePair, PartitionLocation};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion::prelude::SessionConfig;
use datafusion_proto::logical_plan::AsLogicalPlan;
use datafusion_proto::protobuf::LogicalPlanNode;
use futures::{Stream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tonic::transport::Channel;

use super::explain::{self, Stage};
use super::job::{Job, JobPhase};
use crate::address::SchedulerAddress;
use crate::control;
use crate::reason::{self, plain};

/// The time for which an abandoned statement waits for the scheduler's first answer.
const SUBMIT_PATIENCE: Duration = Duration::from_secs(10);

/// Has a scheduler run a logical plan and gives the rows, as one partition.
///
/// Every partition of the result is read to its end, and must hold as many rows as its task wrote:
/// fewer or more are an error. Dropping the stream cancels the statement.
#[derive(Debug)]
pub struct ClusterQueryExec {
    scheduler: SchedulerAddress,
    plan: LogicalPlan,
    /// The schema of EXPLAIN ANALYZE, where the statement's metrics are wanted and not its rows.
    analyzed: Option<SchemaRef>,
    /// The stages of an EXPLAIN ANALYZE that has run.
    stages: Arc<Mutex<Vec<Stage>>>,
    session_id: String,
    job: Job,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ClusterQueryExec {
    pub(super) fn new(
        scheduler: SchedulerAddress,
        plan: LogicalPlan,
        analyzed: Option<SchemaRef>,
        session_id: &str,
    ) -> Self {
        let schema = match &analyzed {
            Some(schema) => Arc::clone(schema),
            None => Arc::clone(plan.schema().inner()),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            job: Job::new(scheduler.clone()),
            scheduler,
            plan,
            analyzed,
            stages: Arc::default(),
            session_id: session_id.to_string(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The statement on the cluster.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The stages of an EXPLAIN ANALYZE, once it has given its rows; none of other statements.
    pub fn stages(&self) -> Vec<Stage> {
        self.stages.lock().clone()
    }

    /// The plan and the settings of the session as the scheduler takes them.
    fn query(&self, config: &SessionConfig) -> Result<ExecuteQueryParams> {
        let codec = config.ballista_logical_extension_codec();
        let node = LogicalPlanNode::try_from_logical_plan(&self.plan, codec.as_ref())
            .map_err(without_context)?;
        let mut plan = vec![];
        node.try_encode(&mut plan)?;
        let entries = config.options().entries().into_iter();
        let settings =
            entries.map(|entry| KeyValuePair { key: entry.key, value: entry.value }).collect();
        Ok(ExecuteQueryParams {
            query: Some(Query::LogicalPlan(plan)),
            settings,
            session_id: self.session_id.clone(),
            operation_id: String::new(),
        })
    }
}

impl DisplayAs for ClusterQueryExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "scheduler={}", self.scheduler),
            _ => write!(f, "ClusterQueryExec: scheduler={}", self.scheduler),
        }
    }
}

impl ExecutionPlan for ClusterQueryExec {
    fn name(&self) -> &str {
        "ClusterQueryExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("ClusterQueryExec has no inputs"),
        }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (plan, analyzed) = (self.plan.clone(), self.analyzed.clone());
        Ok(Arc::new(Self::new(self.scheduler.clone(), plan, analyzed, &self.session_id)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("ClusterQueryExec has one partition, not {partition}");
        }
        let config = context.session_config().clone();
        let run = StatementRun {
            scheduler: self.scheduler.clone(),
            query: self.query(&config)?,
            config,
            job: self.job.clone(),
            analyzed: self.analyzed.clone(),
            stages: Arc::clone(&self.stages),
            repeatable: !matches!(self.plan, LogicalPlan::Copy(_) | LogicalPlan::Dml(_)),
            schema: self.schema(),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = futures::stream::once(run.start()).try_flatten();
        Ok(Box::pin(StatementRows {
            schema: self.schema(),
            rows: Some(rows.boxed()),
            started: false,
            metrics,
            job: self.job.clone(),
            config: context.session_config().clone(),
            scheduler: self.scheduler.clone(),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The error without the places in DataFusion's sources that it came through.
fn without_context(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(_, inner) => without_context(*inner),
        error => error,
    }
}

type Batches = Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

/// One execution.
struct StatementRun {
    scheduler: SchedulerAddress,
    query: ExecuteQueryParams,
    config: SessionConfig,
    job: Job,
    analyzed: Option<SchemaRef>,
    stages: Arc<Mutex<Vec<Stage>>>,
    /// Whether the statement changes nothing.
    repeatable: bool,
    schema: SchemaRef,
}

/// The number of times that a statement is sent which loses rows with executors.
const ATTEMPTS: usize = 3;

impl StatementRun {
    /// Runs the statement, up to its rows.
    async fn start(self) -> Result<Batches> {
        let mut client = self.scheduler.connect(&self.config).await?;
        let mut attempt = 1;
        let partitions = loop {
            self.job.submit(&mut client, self.query.clone()).await?;
            match self.job.wait(&mut client).await {
                Ok(partitions) => break partitions,
                Err(e) if reason::is_loss(&e) && self.was_cancelled().await => {
                    return exec_err!("the statement was cancelled on the cluster");
                }
                // No row has been given yet, and a query changes nothing.
                Err(e) if self.repeatable && attempt < ATTEMPTS && reason::is_loss(&e) => {
                    self.job.forget(&mut client).await;
                    attempt += 1;
                }
                Err(e) => return Err(e),
            }
        };
        if let Some(schema) = self.analyzed {
            let stages = explain::stages(self.job.stages(&mut client).await?)?;
            let batch = explain::rows_of(&stages, schema)?;
            *self.stages.lock() = stages;
            self.job.end(&mut client, true).await;
            return Ok(futures::stream::iter([Ok(batch)]).boxed());
        }
        let rows = |p: &PartitionLocation| {
            p.partition_stats.as_ref().and_then(|s| usize::try_from(s.num_rows).ok())
        };
        let total = partitions.iter().filter_map(rows).sum();
        self.job.set_phase(JobPhase::Fetching { rows: 0, of: total });
        let fetch = Fetch { config: self.config, job: self.job.clone(), schema: self.schema };
        let parts = futures::stream::iter(partitions)
            .then(move |partition| fetch.clone().partition(partition))
            .try_flatten();
        let end = futures::stream::once(end(client, self.job)).filter_map(|()| async { None });
        Ok(parts.chain(end).boxed())
    }
}

impl StatementRun {
    async fn was_cancelled(&self) -> bool {
        let Some(job) = self.job.id() else { return false };
        control::was_cancelled(&self.scheduler, &self.config, &job).await
    }
}

async fn end(mut client: SchedulerGrpcClient<Channel>, job: Job) {
    job.end(&mut client, true).await;
}

/// Reads partitions of a result from the executors that have them.
#[derive(Clone)]
struct Fetch {
    config: SessionConfig,
    job: Job,
    schema: SchemaRef,
}

impl Fetch {
    async fn partition(self, partition: PartitionLocation) -> Result<Batches> {
        let layout = partition.layout();
        let PartitionLocation {
            partition_id: Some(id),
            executor_meta: Some(executor),
            partition_stats: Some(stats),
            file_id,
            ..
        } = partition
        else {
            return exec_err!("the scheduler does not say where a part of the result is");
        };
        let ballista = self.config.ballista_config();
        let port = u16::try_from(executor.port)
            .map_err(|_| exec_datafusion_err!("executor {} has no port", executor.id))?;
        let place = format!("executor {} at {}:{port}", executor.id, executor.host);
        let gone = |e: &dyn fmt::Display| {
            let reason = plain(&e.to_string());
            exec_datafusion_err!("a part of the result cannot be read from {place}: {reason}")
        };
        let mut client = BallistaClient::try_new(
            &executor.host,
            port,
            ballista.grpc_client_max_message_size(),
            ballista.use_tls(),
            self.config.ballista_override_create_grpc_client_endpoint(),
            RETRIES,
            RETRY_WAIT_MS,
            ballista.grpc_client_initial_connection_window_size(),
            ballista.grpc_client_initial_stream_window_size(),
        )
        .await
        .map_err(|e| gone(&e))?;
        let id = id.into();
        let batches = client
            .fetch_partition_proxied(&executor.id, &id, file_id, layout, &executor.host, port, true)
            .await
            .map_err(|e| gone(&e))?;
        let expected = usize::try_from(stats.num_rows).unwrap_or(0);
        let counted =
            CompletenessCheck { place, expected, rows: 0, job: self.job, schema: self.schema };
        Ok(counted.over(batches))
    }
}

/// The number of times that the client asks an executor again which does not answer, a second apart.
const RETRIES: u8 = 2;
const RETRY_WAIT_MS: u64 = 1000;

/// Checks that a partition has the rows that its task wrote.
struct CompletenessCheck {
    place: String,
    expected: usize,
    rows: usize,
    job: Job,
    schema: SchemaRef,
}

impl CompletenessCheck {
    fn over(self, batches: SendableRecordBatchStream) -> Batches {
        let read = |state: Option<(Self, SendableRecordBatchStream)>| async move {
            let Some((mut counted, mut batches)) = state else { return Ok(None) };
            match batches.next().await {
                Some(Ok(batch)) => {
                    counted.rows += batch.num_rows();
                    counted.job.fetched(batch.num_rows());
                    // Names and metadata are those of the plan that was sent.
                    let schema = Arc::clone(&counted.schema);
                    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                    let columns = batch.columns().to_vec();
                    let batch = RecordBatch::try_new_with_options(schema, columns, &rows)?;
                    Ok(Some((batch, Some((counted, batches)))))
                }
                Some(Err(e)) => {
                    let reason = plain(&e.to_string());
                    exec_err!("a part of the result was lost at {}: {reason}", counted.place)
                }
                None if counted.rows == counted.expected => Ok(None),
                None => exec_err!(
                    "a part of the result has {} rows at {}, but its task wrote {}",
                    counted.rows,
                    counted.place,
                    counted.expected
                ),
            }
        };
        futures::stream::try_unfold(Some((self, batches)), read).boxed()
    }
}

/// The rows of the statement, which is cancelled when they are no longer wanted.
struct StatementRows {
    schema: SchemaRef,
    /// None once they have ended.
    rows: Option<Batches>,
    /// Whether the statement may have been sent.
    started: bool,
    metrics: BaselineMetrics,
    job: Job,
    config: SessionConfig,
    scheduler: SchedulerAddress,
}

impl Stream for StatementRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.started = true;
        let Some(rows) = self.rows.as_mut() else { return Poll::Ready(None) };
        let polled = rows.poll_next_unpin(context);
        let polled = self.metrics.record_poll(polled);
        match &polled {
            Poll::Ready(None) => self.rows = None,
            Poll::Ready(Some(Err(_))) => self.abandon(),
            _ => {}
        }
        polled
    }
}

impl RecordBatchStream for StatementRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl StatementRows {
    /// Cancels the statement if it may be running, in a task of its own.
    fn abandon(&mut self) {
        let Some(mut rows) = self.rows.take().filter(|_| self.started) else { return };
        let (job, config, scheduler) =
            (self.job.clone(), self.config.clone(), self.scheduler.clone());
        let cancel = async move {
            // A statement on its way has no name to cancel it by: let it arrive first.
            let arrive = async {
                while job.id().is_none() {
                    tokio::select! {
                        next = rows.next() => if next.is_none_or(|next| next.is_err()) { break },
                        () = tokio::time::sleep(Duration::from_millis(10)) => {}
                    }
                }
            };
            let _ = tokio::time::timeout(SUBMIT_PATIENCE, arrive).await;
            drop(rows);
            if job.id().is_some()
                && let Ok(mut client) = scheduler.connect(&config).await
            {
                job.end(&mut client, false).await;
            }
            job.set_phase(JobPhase::Ended);
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(cancel)),
            // Without a runtime nothing can be sent; the scheduler runs the statement to its end.
            Err(_) => self.job.set_phase(JobPhase::Ended),
        }
    }
}

impl Drop for StatementRows {
    fn drop(&mut self) {
        self.abandon();
    }
}
