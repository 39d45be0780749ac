//! The tasks of an executor: what the scheduler asks of it, and how a task runs.

use std::path::{Component, Path};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ballista_core::JobId;
use ballista_core::error::BallistaError;
use ballista_core::execution_plans::{
    RangeShuffleReaderExec, RangeShuffleWriterExec, ShuffleReaderExec, ShuffleWriterExec,
    SortShuffleWriterExec,
};
use ballista_core::serde::BallistaCodec;
use ballista_core::serde::protobuf::executor_grpc_server::ExecutorGrpc;
use ballista_core::serde::protobuf::{
    CancelTasksParams, CancelTasksResult, FailedTask, LaunchMultiTaskParams, LaunchMultiTaskResult,
    LaunchTaskParams, LaunchTaskResult, OperatorMetricsSet, RemoveJobDataParams,
    RemoveJobDataResult, ShuffleWritePartition, StopExecutorParams, StopExecutorResult,
    SuccessfulTask, TaskStatus, task_status,
};
use ballista_core::serde::scheduler::from_proto::{get_task_definition, get_task_definition_vec};
use ballista_core::serde::scheduler::{PartitionLocation, TaskDefinition, TaskKey};
use ballista_executor::execution_engine::{ExecutionEngine, QueryStageExecutor};
use ballista_executor::executor::Executor;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::{Request, Response, Status};

use super::work_dir::WorkDirLimit;
use crate::log::{self as cluster_log, in_job};
use crate::reason::WORK_DIR_LIMIT;
use simjoin_files::storage::{self, DataDirs};

/// A message to the scheduler on tasks.
pub(super) enum Report {
    Ended(TaskStatus),
    /// Answered when everything before it has been told.
    Flush(oneshot::Sender<()>),
}

pub(super) type Codec = BallistaCodec<LogicalPlanNode, PhysicalPlanNode>;

/// The service that a scheduler hands tasks to.
#[derive(Clone)]
pub(super) struct Tasks {
    pub executor: Arc<Executor>,
    pub engine: Arc<dyn ExecutionEngine>,
    pub codec: Codec,
    /// The threads that tasks run on.
    pub threads: Handle,
    pub reports: mpsc::UnboundedSender<Report>,
    /// Tasks that run, or have ended and were not told of yet.
    pub running: watch::Sender<usize>,
    /// Receives the reason for which the scheduler stops the executor.
    pub stop: mpsc::UnboundedSender<String>,
    pub limit: Option<Arc<WorkDirLimit>>,
    pub data_dirs: Option<DataDirs>,
}

/// A running task in the count of them.
struct RunningTask(watch::Sender<usize>);

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

impl Tasks {
    /// Starts tasks on the threads of tasks.
    fn start(&self, tasks: Vec<TaskDefinition>) {
        for task in tasks {
            let this = self.clone();
            self.running.send_modify(|running| *running += 1);
            let counted = RunningTask(self.running.clone());
            let job = task.job_id.to_string();
            let run = async move {
                let status = this.run(task).await;
                // The process ends when nobody listens.
                let _ = this.reports.send(Report::Ended(status));
                drop(counted);
            };
            self.threads.spawn(in_job(job, run));
        }
    }

    /// Runs a task to its end, and says how it ended.
    async fn run(&self, task: TaskDefinition) -> TaskStatus {
        let start_exec_time = millis();
        let key =
            TaskKey { job_id: task.job_id.clone(), stage_id: task.stage_id, task_id: task.task_id };
        let (stage_attempt_num, launch_time) = (task.stage_attempt_num as u32, task.launch_time);
        let name = format!(
            "task {}.{} of stage {}.{}",
            task.task_id, task.task_attempt_num, task.stage_id, stage_attempt_num
        );
        log::info!("{name} starts");
        let (result, metrics) = match self.prepare(&key, task) {
            Ok((stage, context)) => {
                let result = self.execute(&key, &stage, context).await;
                let metrics = stage.collect_plan_metrics().into_iter().map(TryInto::try_into);
                // Metrics that cannot be told are left out, as for a task that did not start.
                let metrics: std::result::Result<Vec<OperatorMetricsSet>, BallistaError> =
                    metrics.collect();
                (result.and_then(|parts| done(&self.executor, stage.as_ref(), parts)), metrics)
            }
            Err(e) => (Err(e.into()), Ok(vec![])),
        };
        let status = match result {
            Ok(done) => {
                log::info!("{name} is done");
                task_status::Status::Successful(done)
            }
            Err(e) => {
                let failed = FailedTask::from(told(e));
                cluster_log::task_failed(&name, &failed);
                task_status::Status::Failed(failed)
            }
        };
        TaskStatus {
            task_id: key.task_id as u32,
            job_id: key.job_id.to_string(),
            stage_id: key.stage_id as u32,
            stage_attempt_num,
            launch_time,
            start_exec_time,
            end_exec_time: millis(),
            metrics: metrics.unwrap_or_default(),
            status: Some(status),
        }
    }

    /// The stage of a task with the context that it runs in.
    fn prepare(
        &self,
        key: &TaskKey,
        task: TaskDefinition,
    ) -> Result<(Arc<dyn QueryStageExecutor>, Arc<TaskContext>)> {
        check(&key.job_id, &task.plan)?;
        if let Some(data_dirs) = &self.data_dirs {
            data_dirs.check_sinks(&task.plan)?;
        }
        let stage = self.engine.create_query_stage_exec(
            key.job_id.clone(),
            key.stage_id,
            key.task_id,
            task.global_output_partition_ids,
            task.plan,
            &self.executor.work_dir,
            &task.session_config,
        )?;
        let runtime = self.executor.produce_runtime_for_session(
            &task.session_id,
            &task.session_config,
            task.vcores_consumed,
        )?;
        let functions = task.function_registry;
        let name = format!("{}/{}/{}", key.job_id, key.stage_id, key.task_id);
        let context = TaskContext::new(
            Some(name),
            task.session_id,
            task.session_config,
            functions.scalar_functions.clone(),
            functions.higher_order_functions.clone(),
            functions.aggregate_functions.clone(),
            functions.window_functions.clone(),
            runtime,
        );
        Ok((stage, Arc::new(context)))
    }

    /// Runs a stage, which ends early where its statement fills the work folder.
    async fn execute(
        &self,
        key: &TaskKey,
        stage: &Arc<dyn QueryStageExecutor>,
        context: Arc<TaskContext>,
    ) -> std::result::Result<Vec<ShuffleWritePartition>, BallistaError> {
        let run = self.executor.execute_query_stage(key.clone(), Arc::clone(stage), context);
        let Some(limit) = &self.limit else { return run.await };
        let mut limited = limit.task(&key.job_id);
        tokio::pin!(run);
        let parts = tokio::select! {
            parts = &mut run => parts?,
            error = limited.too_much() => {
                let (job, stage, task) = (key.job_id.clone(), key.stage_id, key.task_id);
                self.executor.cancel_task(job, stage, task).await?;
                let _ = run.await;
                return Err(error.into());
            }
        };
        limited.finish().await?;
        Ok(parts)
    }

    /// The tasks of a message, which tasks of this crate's plans can be read from.
    fn read(
        &self,
        message: ballista_core::serde::protobuf::MultiTaskDefinition,
    ) -> std::result::Result<Vec<TaskDefinition>, BallistaError> {
        let functions = &self.executor.function_registry;
        get_task_definition_vec(
            message,
            Arc::clone(&self.executor.runtime_producer),
            self.executor.produce_config(),
            functions.scalar_functions.clone(),
            functions.aggregate_functions.clone(),
            functions.window_functions.clone(),
            functions.higher_order_functions.clone(),
            self.codec.clone(),
        )
    }
}

/// The message on a task that is done.
fn done(
    executor: &Executor,
    stage: &dyn QueryStageExecutor,
    partitions: Vec<ShuffleWritePartition>,
) -> std::result::Result<SuccessfulTask, BallistaError> {
    Ok(SuccessfulTask {
        executor_id: executor.metadata.id.clone(),
        partitions,
        runtime_stats: stage.collect_runtime_stats_reports(),
        window_state: stage.collect_window_state_reports()?,
        task_column_stats: stage.collect_column_stats(),
    })
}

/// The error in the words of who started the executor.
fn told(error: BallistaError) -> BallistaError {
    let BallistaError::DataFusionError(error) = error else { return error };
    let error = storage::without_layers(*error);
    // The disk manager names an option that executors have not.
    match error.to_string() {
        text if text.contains("datafusion.runtime.max_temp_directory_size") => {
            let error = format!(
                "spilled data of an executor takes more than its {WORK_DIR_LIMIT}: allow more \
                 there, or have more executors share the statement"
            );
            DataFusionError::Execution(error).into()
        }
        _ => BallistaError::DataFusionError(Box::new(error)),
    }
}

/// Refuses a plan that names files of the executor beside those of its statement: a scheduler sends
/// none.
fn check(job: &JobId, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    plain_name(job)?;
    let locations = |all: &[Vec<PartitionLocation>]| {
        all.iter().flatten().try_for_each(|location| plain_name(&location.partition_id.job_id))
    };
    let is_writer = |plan: &Arc<dyn ExecutionPlan>| {
        plan.is::<ShuffleWriterExec>()
            || plan.is::<SortShuffleWriterExec>()
            || plan.is::<RangeShuffleWriterExec>()
    };
    let mut writers = 0;
    plan.apply(|plan| {
        writers += usize::from(is_writer(plan));
        if let Some(reader) = plan.downcast_ref::<ShuffleReaderExec>() {
            locations(&reader.partition)?;
        }
        if let Some(reader) = plan.downcast_ref::<RangeShuffleReaderExec>() {
            locations(&reader.partition)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match writers {
        1 => Ok(()),
        writers => exec_err!("a task has one writer of rows at its root, not {writers}"),
    }
}

/// Refuses a name of a statement that is more than one part of a path.
pub(super) fn plain_name(job: &JobId) -> Result<()> {
    let mut parts = Path::new(job.as_str()).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(()),
        _ => exec_err!("'{job}' is no name of a statement"),
    }
}

fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[tonic::async_trait]
impl ExecutorGrpc for Tasks {
    async fn launch_task(
        &self,
        request: Request<LaunchTaskParams>,
    ) -> std::result::Result<Response<LaunchTaskResult>, Status> {
        let functions = &self.executor.function_registry;
        let read = |task| {
            get_task_definition(
                task,
                Arc::clone(&self.executor.runtime_producer),
                self.executor.produce_config(),
                functions.scalar_functions.clone(),
                functions.aggregate_functions.clone(),
                functions.window_functions.clone(),
                functions.higher_order_functions.clone(),
                self.codec.clone(),
            )
        };
        let tasks = request.into_inner().tasks.into_iter().map(read);
        let tasks = tasks.collect::<std::result::Result<Vec<_>, _>>();
        self.start(tasks.map_err(|e| Status::invalid_argument(e.to_string()))?);
        Ok(Response::new(LaunchTaskResult { success: true }))
    }

    async fn launch_multi_task(
        &self,
        request: Request<LaunchMultiTaskParams>,
    ) -> std::result::Result<Response<LaunchMultiTaskResult>, Status> {
        let mut failed_jobs = vec![];
        for message in request.into_inner().multi_tasks {
            let job = message.job_id.clone();
            match self.read(message) {
                Ok(tasks) => self.start(tasks),
                Err(e) => {
                    log::error!("tasks of job {job} cannot be read: {e}");
                    failed_jobs.push(job);
                }
            }
        }
        failed_jobs.dedup();
        Ok(Response::new(LaunchMultiTaskResult { failed_jobs }))
    }

    async fn stop_executor(
        &self,
        request: Request<StopExecutorParams>,
    ) -> std::result::Result<Response<StopExecutorResult>, Status> {
        let StopExecutorParams { executor_id, reason, .. } = request.into_inner();
        if executor_id == self.executor.metadata.id {
            // The process ends when nobody listens.
            let _ = self.stop.send(reason);
        } else {
            log::warn!("the scheduler stops another executor, {executor_id}, at this port");
        }
        Ok(Response::new(StopExecutorResult {}))
    }

    async fn cancel_tasks(
        &self,
        request: Request<CancelTasksParams>,
    ) -> std::result::Result<Response<CancelTasksResult>, Status> {
        let mut cancelled = true;
        for task in request.into_inner().task_infos {
            let (stage, number) = (task.stage_id as usize, task.task_id as usize);
            let job = task.job_id.as_str();
            log::info!("task {number} of stage {stage} of job {job} is cancelled");
            if let Err(e) = self.executor.cancel_task(job.into(), stage, number).await {
                log::error!("task {number} of stage {stage} of job {job} goes on: {e}");
                cancelled = false;
            }
        }
        Ok(Response::new(CancelTasksResult { cancelled }))
    }

    async fn remove_job_data(
        &self,
        request: Request<RemoveJobDataParams>,
    ) -> std::result::Result<Response<RemoveJobDataResult>, Status> {
        let RemoveJobDataParams { job_id, remove_stage_ids } = request.into_inner();
        let job = JobId::from(job_id);
        plain_name(&job).map_err(|e| Status::invalid_argument(e.to_string()))?;
        let folder = Path::new(&self.executor.work_dir).join(job.as_str());
        let stages = remove_stage_ids.iter().map(|stage| folder.join(stage.to_string()));
        let folders = match remove_stage_ids.is_empty() {
            true => vec![folder],
            false => stages.collect(),
        };
        for folder in folders {
            match tokio::fs::remove_dir_all(&folder).await {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    let error = format!("{} cannot be removed: {e}", folder.display());
                    return Err(Status::internal(error));
                }
                _ => {}
            }
        }
        Ok(Response::new(RemoveJobDataResult {}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_statements_are_one_part_of_a_path() {
        plain_name(&JobId::new("038FTPTXP8000")).unwrap();
        for wrong in ["", ".", "..", "../x", "/etc", "a/b", "a/../b"] {
            plain_name(&JobId::new(wrong)).unwrap_err();
        }
    }
}
