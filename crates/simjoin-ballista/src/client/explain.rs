//! The stages of a statement with their metrics, for EXPLAIN ANALYZE.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use ballista_core::serde::protobuf::{JobStageMetrics, OperatorMetricsSet, operator_metric};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::physical_plan::metrics::MetricsSet;

/// A stage that has run.
#[derive(Debug, Clone)]
pub struct Stage {
    /// Its number, in the order in which stages ran, and its partitions, for people.
    pub name: String,
    /// Each operator before its inputs.
    pub operators: Vec<StageOperator>,
}

/// An operator of a stage that has run.
#[derive(Debug, Clone)]
pub struct StageOperator {
    /// The number of operators of the stage above this one.
    pub depth: usize,
    /// The operator, as EXPLAIN has it.
    pub description: String,
    /// Its metrics of all tasks.
    pub metrics: MetricsSet,
}

/// The stages in the order in which they ran.
pub(super) fn stages(stages: Vec<JobStageMetrics>) -> Result<Vec<Stage>> {
    let stage = |(at, stage): (usize, JobStageMetrics)| {
        let name = match stage.partitions {
            1 => format!("Stage {} (1 partition)", at + 1),
            partitions => format!("Stage {} ({partitions} partitions)", at + 1),
        };
        let operators = stage.operators.into_iter().map(|operator| {
            let set = OperatorMetricsSet { metrics: operator.metrics };
            let metrics = set.try_into().map_err(|e| {
                exec_datafusion_err!(
                    "the metrics of {} cannot be read: {e}",
                    operator.operator_type
                )
            })?;
            let depth = operator.depth as usize;
            Ok(StageOperator { depth, description: operator.operator_desc, metrics })
        });
        Ok(Stage { name, operators: operators.collect::<Result<_>>()? })
    };
    stages.into_iter().enumerate().map(stage).collect()
}

/// One row for each stage: its plan, each operator with its metrics summed over the tasks.
pub(super) fn rows_of(stages: &[Stage], schema: SchemaRef) -> Result<RecordBatch> {
    let names = StringArray::from_iter_values(stages.iter().map(|stage| &stage.name));
    let plans = StringArray::from_iter_values(stages.iter().map(plan));
    let columns: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(plans)];
    Ok(RecordBatch::try_new(schema, columns)?)
}

fn plan(stage: &Stage) -> String {
    let mut text = String::new();
    for StageOperator { depth, description, metrics } in &stage.operators {
        let metrics = metrics.aggregate_by_name().sorted_for_display().timestamps_removed();
        let indent = "  ".repeat(*depth);
        text.push_str(&format!("{indent}{description}, metrics=[{metrics}]\n"));
    }
    text
}

/// The rows that a stage gave.
pub(super) fn rows_written(stage: &JobStageMetrics) -> usize {
    let Some(writer) = stage.operators.first() else { return 0 };
    let rows = writer.metrics.iter().filter_map(|metric| match &metric.metric {
        Some(operator_metric::Metric::OutputRows(rows)) => Some(*rows as usize),
        _ => None,
    });
    rows.sum()
}
