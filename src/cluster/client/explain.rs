//! The stages of a statement with their metrics, for EXPLAIN ANALYZE.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use ballista_core::serde::protobuf::{JobStageMetrics, OperatorMetricsSet, operator_metric};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::physical_plan::metrics::MetricsSet;

/// One row for each stage, in the order in which they ran: its plan, each operator with its
/// metrics summed over the tasks.
pub(super) fn analyzed(stages: &[JobStageMetrics], schema: SchemaRef) -> Result<RecordBatch> {
    let names = stages.iter().enumerate().map(|(at, stage)| match stage.partitions {
        1 => format!("Stage {} (1 partition)", at + 1),
        partitions => format!("Stage {} ({partitions} partitions)", at + 1),
    });
    let names: StringArray = names.map(Some).collect();
    let plans = stages.iter().map(plan).collect::<Result<Vec<_>>>()?;
    let plans = StringArray::from_iter_values(plans);
    let columns: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(plans)];
    Ok(RecordBatch::try_new(schema, columns)?)
}

fn plan(stage: &JobStageMetrics) -> Result<String> {
    let mut text = String::new();
    for operator in &stage.operators {
        let set = OperatorMetricsSet { metrics: operator.metrics.clone() };
        let metrics: MetricsSet = set.try_into().map_err(|e| {
            exec_datafusion_err!("the metrics of {} cannot be read: {e}", operator.operator_type)
        })?;
        let metrics = metrics.aggregate_by_name().sorted_for_display().timestamps_removed();
        let indent = "  ".repeat(operator.depth as usize);
        text.push_str(&format!("{indent}{}, metrics=[{metrics}]\n", operator.operator_desc));
    }
    Ok(text)
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
