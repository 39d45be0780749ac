//! The executors and statements of a cluster, and the end of a statement.
//!
//! Ballista's scheduler lists neither by its protocol, so [`Control`] is a second service beside it.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ballista_core::JobId;
use ballista_core::serde::protobuf::job_status;
use ballista_scheduler::scheduler_server::SchedulerServer;
use ballista_scheduler::state::task_manager::JobOverview;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use parking_lot::Mutex;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use super::address::SchedulerAddress;
use super::reason::plain;
use super::state::in_use;

pub(super) type Server = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// The executors and statements that a scheduler knows.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClusterStatus {
    /// In the order of their addresses.
    #[prost(message, repeated, tag = "1")]
    pub executors: Vec<ExecutorState>,
    /// The oldest first.
    #[prost(message, repeated, tag = "2")]
    pub statements: Vec<StatementState>,
}

/// An executor as its scheduler sees it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecutorState {
    /// Its name.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its host and the port for rows.
    #[prost(string, tag = "2")]
    pub address: String,
    /// Tasks that it runs at the same time.
    #[prost(uint32, tag = "3")]
    pub cores: u32,
    /// Cores that tasks use.
    #[prost(uint32, tag = "4")]
    pub cores_in_use: u32,
    /// Seconds since it was last heard of.
    #[prost(uint64, tag = "5")]
    pub silent_seconds: u64,
}

/// A statement as the scheduler sees it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StatementState {
    /// Its name, by which it is cancelled.
    #[prost(string, tag = "1")]
    pub job: String,
    /// `queued`, `running`, `done`, `cancelled` or `failed`.
    #[prost(string, tag = "2")]
    pub state: String,
    /// Seconds that it has run, or ran.
    #[prost(double, tag = "3")]
    pub seconds: f64,
    /// Its stages that have ended.
    #[prost(uint32, tag = "4")]
    pub stages_done: u32,
    /// All of its stages.
    #[prost(uint32, tag = "5")]
    pub stages: u32,
    /// Its tasks that run.
    #[prost(uint32, tag = "6")]
    pub tasks: u32,
    /// Its text, as far as the client has told it.
    #[prost(string, tag = "7")]
    pub text: String,
    /// Why it failed.
    #[prost(string, tag = "8")]
    pub error: String,
}

impl StatementState {
    /// Whether the statement has not ended.
    pub fn goes_on(&self) -> bool {
        matches!(self.state.as_str(), "queued" | "running")
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct CancelRequest {
    #[prost(string, tag = "1")]
    job: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CancelResponse {}

/// The methods of the service.
const STATUS: &str = "/simjoin.Control/Status";
const CANCEL: &str = "/simjoin.Control/Cancel";

/// Answers on a scheduler.
#[derive(Clone)]
pub(super) struct Control {
    scheduler: Server,
    /// Statements that were cancelled here. A client sends one again that the scheduler ends by
    /// itself.
    cancelled: Arc<Mutex<HashSet<String>>>,
}

impl Control {
    pub(super) fn new(scheduler: Server) -> Self {
        Self { scheduler, cancelled: Arc::default() }
    }

    async fn cancel(&self, job: String) -> std::result::Result<(), Status> {
        let internal = |e: ballista_core::error::BallistaError| Status::internal(e.to_string());
        let known = self.status().await.map_err(internal)?.statements;
        let Some(found) = known.iter().find(|statement| statement.job == job) else {
            return Err(Status::not_found(format!("there is no statement {job}")));
        };
        if !found.goes_on() {
            let error = format!("statement {job} has ended: it is {}", found.state);
            return Err(Status::failed_precondition(error));
        }
        {
            let mut cancelled = self.cancelled.lock();
            cancelled.retain(|job| known.iter().any(|statement| statement.job == *job));
            cancelled.insert(job.clone());
        }
        log::info!("statement {job} is cancelled on request");
        self.scheduler.cancel_job(JobId::from(job)).await.map_err(internal)
    }

    async fn status(&self) -> ballista_core::error::Result<ClusterStatus> {
        let state = &self.scheduler.state;
        let active = state.task_manager.get_running_job_cache();
        let in_use = in_use(&active).await;
        let now = since_epoch();
        let executors = state.executor_manager.get_executors_state().await?.into_iter();
        let mut executors: Vec<_> = executors
            .map(|(executor, heard, _)| ExecutorState {
                cores_in_use: in_use.get(&executor.id).copied().unwrap_or(0),
                address: format!("{}:{}", executor.host, executor.port),
                cores: executor.specification.vcores,
                silent_seconds: heard.map_or(0, |heard| now.saturating_sub(heard).as_secs()),
                id: executor.id,
            })
            .collect();
        executors.sort_by(|a, b| (&a.address, &a.id).cmp(&(&b.address, &b.id)));
        let mut statements = vec![];
        for job in state.task_manager.get_all_jobs().await? {
            let tasks = match active.get(&job.job_id) {
                Some(cached) => cached.execution_graph.read().await.running_tasks().len(),
                None => 0,
            };
            let mut statement = statement(job, tasks, now);
            if statement.state == "failed" && self.cancelled.lock().contains(&statement.job) {
                statement.state = CANCELLED.to_string();
                statement.error.clear();
            }
            statements.push(statement);
        }
        // Names of statements grow with time.
        statements.sort_by(|a, b| a.job.cmp(&b.job));
        Ok(ClusterStatus { executors, statements })
    }
}

fn statement(job: JobOverview, tasks: usize, now: Duration) -> StatementState {
    let (state, error) = match job.status.status {
        Some(job_status::Status::Running(_)) => ("running", String::new()),
        Some(job_status::Status::Successful(_)) => ("done", String::new()),
        Some(job_status::Status::Failed(failed)) => ("failed", plain(&failed.error)),
        Some(job_status::Status::Queued(_)) | None => ("queued", String::new()),
    };
    let millis = |since: Duration| u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let end = if job.end_time == 0 { millis(now) } else { job.end_time };
    let ran = if job.start_time == 0 { 0 } else { end.saturating_sub(job.start_time) };
    StatementState {
        job: job.job_id.to_string(),
        state: state.to_string(),
        seconds: ran as f64 / 1000.0,
        stages_done: job.completed_stages as u32,
        stages: job.num_stages as u32,
        tasks: tasks as u32,
        text: job.job_name,
        error,
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl NamedService for Control {
    const NAME: &'static str = "simjoin.Control";
}

impl Service<http::Request<Body>> for Control {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                STATUS => {
                    let codec: ProstCodec<ClusterStatus, StatusRequest> = ProstCodec::default();
                    Grpc::new(codec).unary(this, request).await
                }
                CANCEL => {
                    let codec: ProstCodec<CancelResponse, CancelRequest> = ProstCodec::default();
                    Grpc::new(codec).unary(this, request).await
                }
                _ => Status::unimplemented("the scheduler has no such method").into_http(),
            })
        })
    }
}

impl UnaryService<StatusRequest> for Control {
    type Response = ClusterStatus;
    type Future = BoxFuture<Response<ClusterStatus>, Status>;

    fn call(&mut self, _: Request<StatusRequest>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let status = this.status().await;
            status.map(Response::new).map_err(|e| Status::internal(e.to_string()))
        })
    }
}

impl UnaryService<CancelRequest> for Control {
    type Response = CancelResponse;
    type Future = BoxFuture<Response<CancelResponse>, Status>;

    fn call(&mut self, request: Request<CancelRequest>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            this.cancel(request.into_inner().job).await?;
            Ok(Response::new(CancelResponse {}))
        })
    }
}

/// The state of a statement that was cancelled on request.
const CANCELLED: &str = "cancelled";

/// Calls a method of the service of a scheduler.
async fn call<Q, A>(
    scheduler: &SchedulerAddress,
    session: &SessionConfig,
    method: &'static str,
    request: Q,
) -> Result<A>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let channel = scheduler.channel(session).await?;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|e| exec_datafusion_err!("{scheduler}: {e}"))?;
    let path = http::uri::PathAndQuery::from_static(method);
    let codec: ProstCodec<Q, A> = ProstCodec::default();
    match client.unary(Request::new(request), path, codec).await {
        Ok(response) => Ok(response.into_inner()),
        Err(e) if e.code() == Code::Unimplemented => exec_err!(
            "the scheduler at {scheduler} does not list what it does: it is no scheduler of \
             simjoin, or one of another version"
        ),
        Err(e) => exec_err!("the scheduler at {scheduler} refuses: {}", e.message()),
    }
}

/// Asks a scheduler for its executors and statements, by the connections of a session
/// ([`client::session`](super::client::session)).
///
/// # Errors
///
/// An execution error when it cannot be reached, refuses, or is another program's.
pub async fn status(
    scheduler: &SchedulerAddress,
    session: &SessionConfig,
) -> Result<ClusterStatus> {
    call(scheduler, session, STATUS, StatusRequest {}).await
}

/// Cancels a statement that waits or runs.
///
/// # Errors
///
/// An execution error when there is no such statement, it has ended, or the scheduler cannot be
/// reached or refuses.
pub async fn cancel(
    scheduler: &SchedulerAddress,
    session: &SessionConfig,
    job: &str,
) -> Result<()> {
    let request = CancelRequest { job: job.to_string() };
    call(scheduler, session, CANCEL, request).await.map(|CancelResponse {}| ())
}

/// Whether a statement was cancelled on request. A scheduler that cannot say it knows of none.
pub(super) async fn was_cancelled(
    scheduler: &SchedulerAddress,
    session: &SessionConfig,
    job: &str,
) -> bool {
    let statements = status(scheduler, session).await.map(|status| status.statements);
    statements.unwrap_or_default().iter().any(|s| s.job == job && s.state == CANCELLED)
}
