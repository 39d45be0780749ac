//! Stages that check the files they read, and note the checksums of those they write.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::BallistaError;
use ballista_core::execution_plans::range_shuffle::index_path as range_index_path;
use ballista_core::execution_plans::sort_shuffle::get_index_path;
use ballista_core::execution_plans::{
    RangeShuffleReaderExec, ShuffleReaderExec, create_shuffle_path,
};
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_core::serde::scheduler::PartitionLocation;
use ballista_executor::execution_engine::{ExecutionEngine, QueryStageExecutor};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;

use super::files::{check_partition, seal};

/// Makes checked stages of those of an engine.
pub(in crate::executor) struct CheckedEngine(pub Arc<dyn ExecutionEngine>);

impl ExecutionEngine for CheckedEngine {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        global_output_partition_ids: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let inputs = Arc::new(inputs_of(&plan)?);
        let stage = self.0.create_query_stage_exec(
            job_id.clone(),
            stage_id,
            task_id,
            global_output_partition_ids,
            plan,
            work_dir,
            config,
        )?;
        let work_dir = work_dir.to_string();
        Ok(Arc::new(CheckedStage { stage, inputs, job_id, stage_id, work_dir }))
    }
}

/// The places of all rows that a stage reads.
fn inputs_of(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<PartitionLocation>> {
    let mut inputs = vec![];
    plan.apply(|node| {
        if let Some(reader) = node.downcast_ref::<ShuffleReaderExec>() {
            inputs.extend(reader.partition.iter().flatten().cloned());
        } else if let Some(reader) = node.downcast_ref::<RangeShuffleReaderExec>() {
            inputs.extend(reader.partition.iter().flatten().cloned());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(inputs)
}

/// A stage of a task.
#[derive(Debug)]
struct CheckedStage {
    stage: Arc<dyn QueryStageExecutor>,
    inputs: Arc<Vec<PartitionLocation>>,
    job_id: JobId,
    stage_id: usize,
    work_dir: String,
}

impl fmt::Display for CheckedStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stage.fmt(f)
    }
}

#[async_trait]
impl QueryStageExecutor for CheckedStage {
    async fn execute_query_stage(
        &self,
        task_id: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        let (inputs, work_dir) = (Arc::clone(&self.inputs), self.work_dir.clone());
        blocking(move || inputs.iter().try_for_each(|input| check_input(input, &work_dir))).await?;
        let written = self.stage.execute_query_stage(task_id, context).await?;
        let files = self.files_of(&written)?;
        blocking(move || files.iter().try_for_each(|path| seal(path))).await?;
        Ok(written)
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        self.stage.collect_plan_metrics()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.stage.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.stage.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.stage.collect_column_stats()
    }
}

impl CheckedStage {
    /// The files that hold `written`, their indexes included.
    fn files_of(&self, written: &[ShuffleWritePartition]) -> Result<BTreeSet<PathBuf>> {
        let mut files = BTreeSet::new();
        for part in written {
            let data = create_shuffle_path(
                &self.work_dir,
                &self.job_id,
                self.stage_id,
                part.partition_id as usize,
                part.file_id,
                part.is_sort_shuffle,
            )?;
            let indexes = [get_index_path(&data), range_index_path(&data)];
            files.extend(indexes.into_iter().filter(|index| index.exists()));
            files.insert(data);
        }
        Ok(files)
    }
}

/// Checks rows that lie in the folder of this executor. Others are checked by the one that serves
/// them.
fn check_input(input: &PartitionLocation, work_dir: &str) -> Result<()> {
    let path = input.path(work_dir)?;
    let path = Path::new(&path);
    if !path.exists() {
        return Ok(());
    }
    let (stage, partition) = (input.partition_id.stage_id, input.partition_id.partition_id);
    check_partition(path, partition).map_err(|error| {
        let message = error.strip_backtrace();
        log::warn!("{message}");
        // The scheduler takes the rows for lost.
        let executor = input.executor_meta.id.clone();
        let lost = BallistaError::FetchFailed(executor, stage, partition, message);
        DataFusionError::External(Box::new(lost))
    })
}

/// Runs work that waits for the disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(exec_datafusion_err!("checking shuffle files: {error}")))
}
