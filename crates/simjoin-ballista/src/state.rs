//! The executors that a scheduler knows, and the end of statements that lose rows with one of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::{ExecutorHeartbeat, job_status, task_status};
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_scheduler::cluster::memory::InMemoryClusterState;
use ballista_scheduler::cluster::{BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::state::execution_graph::ExecutionGraphBox;
use ballista_scheduler::state::task_manager::JobInfoCache;
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use super::reason::LOST;

/// Ballista's cluster in memory, with two corrections.
///
/// *Lost rows.* When an executor is lost that has rows of a stage, Ballista 55 rolls back the
/// stages that read them, and runs all of their tasks again; but the rows that the first run of
/// such a stage gave on other executors stay among the inputs of the next, which then reads them
/// twice. So a statement that lost rows is given up here, before Ballista hears of the loss: none
/// of its tasks is handed out any more, and its error says [`LOST`]. One that only lost running
/// tasks goes on: they run again elsewhere, and no stage has read rows of theirs.
///
/// *Cores in use* are counted anew whenever tasks are handed out. Ballista keeps a number of free
/// cores, less those of each task that is handed out, more those of each that ends; of tasks whose
/// stage was rolled back it knows nothing any more when they end, and never gives their cores back.
pub(super) struct Executors {
    known: InMemoryClusterState,
    /// The statements of the last time that tasks were handed out; others have no tasks.
    jobs: Mutex<Arc<HashMap<JobId, JobInfoCache>>>,
    given_up: Mutex<HashSet<JobId>>,
    /// Receives each statement that is given up.
    tell: UnboundedSender<JobId>,
}

impl Executors {
    pub(super) fn new(tell: UnboundedSender<JobId>) -> Self {
        let known = InMemoryClusterState::default();
        Self { known, jobs: Mutex::default(), given_up: Mutex::default(), tell }
    }

    /// Gives up the statements that lost rows with an executor.
    async fn give_up_after(&self, executor_id: &str) {
        let jobs = Arc::clone(&self.jobs.lock());
        for (job_id, job) in jobs.iter() {
            let mut graph = job.execution_graph.write().await;
            if is_going_on(&graph) && has_rows_on(&graph, executor_id) {
                graph.fail_job(format!("{LOST} (executor {executor_id})"));
                self.given_up.lock().insert(job_id.clone());
                // Sending fails while the scheduler ends; the statement then ends with it.
                let _ = self.tell.send(job_id.clone());
            }
        }
    }

    /// The statements whose tasks may be handed out.
    fn going_on(
        &self,
        jobs: Arc<HashMap<JobId, JobInfoCache>>,
    ) -> Arc<HashMap<JobId, JobInfoCache>> {
        let mut given_up = self.given_up.lock();
        given_up.retain(|job_id| jobs.contains_key(job_id));
        if given_up.is_empty() {
            return jobs;
        }
        let going_on = jobs.iter().filter(|(job_id, _)| !given_up.contains(*job_id));
        Arc::new(going_on.map(|(job_id, job)| (job_id.clone(), job.clone())).collect())
    }
}

fn is_going_on(graph: &ExecutionGraphBox) -> bool {
    !matches!(
        graph.status().status,
        Some(job_status::Status::Successful(_) | job_status::Status::Failed(_))
    )
}

/// Whether a task has ended on the executor, so that its rows lie there.
fn has_rows_on(graph: &ExecutionGraphBox, executor_id: &str) -> bool {
    let tasks = graph.stages().values().filter_map(|stage| stage.task_infos()).flatten();
    tasks.into_iter().any(|task| match &task.task_status {
        task_status::Status::Successful(done) => done.executor_id == executor_id,
        _ => false,
    })
}

/// The cores that the tasks of statements use, by executor.
pub(super) async fn in_use(jobs: &HashMap<JobId, JobInfoCache>) -> HashMap<String, u32> {
    let mut used: HashMap<String, u32> = HashMap::new();
    for job in jobs.values() {
        let graph = job.execution_graph.read().await;
        for task in graph.running_tasks() {
            let cores = graph.task_vcores(task.stage_id, task.task_id).unwrap_or(0);
            *used.entry(task.executor_id).or_default() += cores;
        }
    }
    used
}

#[async_trait]
impl ClusterState for Executors {
    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        active_jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        *self.jobs.lock() = Arc::clone(&active_jobs);
        let used = in_use(&active_jobs).await;
        let counted = InMemoryClusterState::default();
        for executor in self.known.registered_executor_metadata().await {
            let total_vcores = executor.specification.vcores;
            let used = used.get(&executor.id).copied().unwrap_or(0);
            let cores = ExecutorData {
                executor_id: executor.id.clone(),
                total_vcores,
                available_vcores: total_vcores.saturating_sub(used),
            };
            counted.register_executor(executor, cores).await?;
        }
        let jobs = self.going_on(active_jobs);
        counted.bind_schedulable_tasks(distribution, jobs, executors).await
    }

    async fn unbind_tasks(&self, _: Vec<ExecutorSlot>) -> Result<()> {
        // Tasks that have ended use no cores when they are counted again.
        Ok(())
    }

    async fn register_executor(
        &self,
        metadata: ExecutorMetadata,
        spec: ExecutorData,
    ) -> Result<()> {
        self.known.register_executor(metadata, spec).await
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        self.known.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, executor_id: &str) -> Result<ExecutorMetadata> {
        self.known.get_executor_metadata(executor_id).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.known.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.known.save_executor_heartbeat(heartbeat).await
    }

    async fn remove_executor(&self, executor_id: &str) -> Result<()> {
        self.give_up_after(executor_id).await;
        self.known.remove_executor(executor_id).await
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.known.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, executor_id: &str) -> Option<ExecutorHeartbeat> {
        self.known.get_executor_heartbeat(executor_id)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.known.cluster_state_events().await
    }
}
