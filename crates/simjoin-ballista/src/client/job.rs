//! A statement that a scheduler runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_core::BALLISTA_VERSION;
use ballista_core::serde::protobuf::execute_query_failure_result::Failure;
use ballista_core::serde::protobuf::execute_query_result::Result as Submitted;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, CleanJobDataParams, ExecuteQueryParams, GetJobMetricsParams,
    GetJobStatusParams, JobStageMetrics, PartitionLocation, job_status,
};
use ballista_core::version::{check_compatibility, insert_version_header, version_from_metadata};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::address::SchedulerAddress;
use crate::reason::{failure, plain};

/// The wait between two questions for a job's state, which grows while it runs.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The wait between two questions for the stages of a job whose progress is shown.
const STAGES_INTERVAL: Duration = Duration::from_secs(1);

/// The time for which a scheduler that does not answer is asked again.
const SCHEDULER_PATIENCE: Duration = Duration::from_secs(10);

/// The phase of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPhase {
    /// The client sends the job, the scheduler plans it, or the job waits for executors.
    Waiting,
    /// Stages run: `stages_done` have ended, and the last of them gave `rows` rows.
    Running {
        /// Stages that have ended.
        stages_done: usize,
        /// Rows of the last of them.
        rows: usize,
    },
    /// Rows come from the executors.
    Fetching {
        /// Rows read so far.
        rows: usize,
        /// Rows of the whole result.
        of: usize,
    },
    /// The job has ended: its rows were read, it failed, or it was cancelled.
    Ended,
}

/// A statement on a cluster: its state, and a way to end it.
#[derive(Debug, Clone)]
pub struct Job(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    scheduler: SchedulerAddress,
    id: Mutex<Option<String>>,
    phase: watch::Sender<JobPhase>,
    /// Whether the progress is shown, which needs the stages.
    watched: std::sync::atomic::AtomicBool,
}

impl Job {
    pub(super) fn new(scheduler: SchedulerAddress) -> Self {
        let shared = Shared {
            scheduler,
            id: Mutex::new(None),
            phase: watch::Sender::new(JobPhase::Waiting),
            watched: false.into(),
        };
        Self(Arc::new(shared))
    }

    /// The scheduler's name for it, once it has been accepted.
    pub fn id(&self) -> Option<String> {
        self.0.id.lock().clone()
    }

    /// Its phase. After the first call the client asks for the stages as well.
    pub fn phase(&self) -> JobPhase {
        self.0.watched.store(true, std::sync::atomic::Ordering::Relaxed);
        self.0.phase.borrow().clone()
    }

    /// Waits until it has ended, and a cancelled one until the scheduler knows.
    pub async fn ended(&self) {
        let mut phase = self.0.phase.subscribe();
        // The sender lives as long as this.
        let _ = phase.wait_for(|phase| *phase == JobPhase::Ended).await;
    }

    pub(super) fn set_phase(&self, phase: JobPhase) {
        self.0.phase.send_replace(phase);
    }

    /// Counts `more` rows as read.
    pub(super) fn fetched(&self, more: usize) {
        self.0.phase.send_modify(|phase| {
            if let JobPhase::Fetching { rows, .. } = phase {
                *rows += more;
            }
        });
    }

    /// Hands the plan to the scheduler.
    pub(super) async fn submit(
        &self,
        client: &mut SchedulerGrpcClient<Channel>,
        query: ExecuteQueryParams,
    ) -> Result<()> {
        let mut request = Request::new(query);
        insert_version_header(request.metadata_mut());
        let response = client.execute_query(request).await.map_err(|e| self.refused(&e))?;
        let version = version_from_metadata(response.metadata());
        check_compatibility(Some(BALLISTA_VERSION), version).map_err(DataFusionError::Execution)?;
        match response.into_inner().result {
            Some(Submitted::Success(success)) => {
                *self.0.id.lock() = Some(success.job_id);
                Ok(())
            }
            Some(Submitted::Failure(failure)) => {
                let reason = match failure.failure {
                    Some(
                        Failure::PlanParsingFailure(reason)
                        | Failure::SqlParsingFailure(reason)
                        | Failure::SessionNotFound(reason),
                    ) => plain(&reason),
                    None => "it gave no reason".to_string(),
                };
                exec_err!("the scheduler at {} refused the statement: {reason}", self.0.scheduler)
            }
            None => exec_err!("the scheduler at {} gave no answer", self.0.scheduler),
        }
    }

    /// Waits until the job is done, and gives where its rows are.
    pub(super) async fn wait(
        &self,
        client: &mut SchedulerGrpcClient<Channel>,
    ) -> Result<Vec<PartitionLocation>> {
        let Some(job_id) = self.id() else {
            return exec_err!("a statement was waited for before it was sent");
        };
        let mut wait = SHORTEST_WAIT;
        let mut stages_due = Instant::now();
        let mut silent_since = None;
        loop {
            let asked = client.get_job_status(GetJobStatusParams { job_id: job_id.clone() }).await;
            let status = match asked {
                Ok(response) => response.into_inner().status,
                // The scheduler may be short of time; its end is another matter.
                Err(e) if matches!(e.code(), Code::Unavailable | Code::DeadlineExceeded) => {
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > SCHEDULER_PATIENCE {
                        return Err(self.lost(&e));
                    }
                    tokio::time::sleep(LONGEST_WAIT).await;
                    continue;
                }
                Err(e) => return Err(self.lost(&e)),
            };
            silent_since = None;
            match status.and_then(|status| status.status) {
                Some(job_status::Status::Successful(done)) => return Ok(done.partition_location),
                Some(job_status::Status::Failed(failed)) => return Err(failure(&failed.error)),
                Some(job_status::Status::Running(_)) => {
                    if self.0.watched.load(std::sync::atomic::Ordering::Relaxed)
                        && stages_due <= Instant::now()
                    {
                        self.look_at_stages(client, &job_id).await;
                        stages_due = Instant::now() + STAGES_INTERVAL;
                    }
                }
                Some(job_status::Status::Queued(_)) | None => {}
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn look_at_stages(&self, client: &mut SchedulerGrpcClient<Channel>, job_id: &str) {
        let metrics = GetJobMetricsParams { job_id: job_id.to_string() };
        // Only a display hangs on it.
        if let Ok(metrics) = client.get_job_metrics(metrics).await {
            let stages = metrics.into_inner().stages;
            let rows = stages.last().map_or(0, super::explain::rows_written);
            self.set_phase(JobPhase::Running { stages_done: stages.len(), rows });
        }
    }

    /// The plans of the job's stages with their metrics.
    pub(super) async fn stages(
        &self,
        client: &mut SchedulerGrpcClient<Channel>,
    ) -> Result<Vec<JobStageMetrics>> {
        let job_id = self.id().unwrap_or_default();
        match client.get_job_metrics(GetJobMetricsParams { job_id }).await {
            Ok(response) => Ok(response.into_inner().stages),
            Err(e) => exec_err!("the scheduler gives no metrics of the statement: {}", e.message()),
        }
    }

    /// Cancels the job on the scheduler, so that the statement can be sent again.
    pub(super) async fn forget(&self, client: &mut SchedulerGrpcClient<Channel>) {
        let job_id = self.0.id.lock().take();
        if let Some(job_id) = job_id {
            let _ = client.cancel_job(CancelJobParams { job_id }).await;
        }
        self.set_phase(JobPhase::Waiting);
    }

    /// Ends the job on the scheduler: a running one is cancelled, the rows of one that is done are
    /// removed. Its executors would remove them later; failures are theirs to mend.
    pub(super) async fn end(&self, client: &mut SchedulerGrpcClient<Channel>, done: bool) {
        if let Some(job_id) = self.id() {
            let _ = match done {
                true => {
                    let all = CleanJobDataParams { job_id, remove_stage_ids: vec![] };
                    client.clean_job_data(all).await.map(drop)
                }
                false => client.cancel_job(CancelJobParams { job_id }).await.map(drop),
            };
        }
        self.set_phase(JobPhase::Ended);
    }

    fn refused(&self, status: &Status) -> DataFusionError {
        let scheduler = &self.0.scheduler;
        match status.code() {
            Code::ResourceExhausted | Code::OutOfRange => exec_datafusion_err!(
                "the statement, with its tables in memory, is too large for the scheduler at \
                 {scheduler}: {}",
                status.message()
            ),
            Code::Unavailable | Code::DeadlineExceeded => self.lost(status),
            _ => exec_datafusion_err!(
                "the scheduler at {scheduler} refused the statement: {}",
                plain(status.message())
            ),
        }
    }

    fn lost(&self, status: &Status) -> DataFusionError {
        exec_datafusion_err!(
            "the scheduler at {} is gone, and the statement with it: {}",
            self.0.scheduler,
            plain(status.message())
        )
    }
}
