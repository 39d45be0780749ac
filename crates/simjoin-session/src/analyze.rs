//! EXPLAIN ANALYZE for people: a summary in words, and one counter a line for similarity joins.
//!
//! The text takes the place of DataFusion's text in the table format. CSV and JSON, EXPLAIN ANALYZE
//! VERBOSE and other formats of plans keep what DataFusion prints.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::common::Result;
use datafusion::common::format::ExplainFormat;
use datafusion::execution::memory_pool::human_readable_size;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use indicatif::HumanCount;

use super::cluster;
use super::operator::{Operator, operators};
use super::phases::Took;
use super::summary::{self, Ran};

/// An EXPLAIN ANALYZE that people read.
pub struct Analyzed {
    plan: Arc<dyn ExecutionPlan>,
    ran: Ran,
    keeps_text: bool,
}

impl Analyzed {
    /// The statement whose plans these are; `None` for other statements, and for EXPLAIN ANALYZE in a
    /// form that programs read.
    pub fn of(asked: &LogicalPlan, plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let LogicalPlan::Analyze(asked) = asked else { return None };
        let Some(analyze) = plan.downcast_ref::<AnalyzeExec>() else {
            let plan = Arc::clone(plan);
            return Some(Self { plan, ran: Ran::OnCluster, keeps_text: asked.verbose });
        };
        (*analyze.format() == ExplainFormat::Indent).then(|| Self {
            plan: Arc::clone(analyze.input()),
            ran: Ran::Here,
            keeps_text: analyze.verbose()
                || analyze.show_statistics()
                || analyze.metric_categories().is_some(),
        })
    }

    /// The operators under the names that the rows have: the whole plan, or the stages of a cluster.
    fn parts(&self) -> Vec<(String, Vec<Operator>)> {
        match self.ran {
            Ran::Here => {
                let mut plan = vec![];
                operators(&self.plan, 0, &mut plan);
                vec![("Plan with Metrics".to_string(), plan)]
            }
            Ran::OnCluster => cluster::stages(&self.plan),
        }
    }

    /// The rows with a summary before them, if the plan has a similarity join, and plans with one
    /// counter a line.
    pub fn rewrite(&self, batch: RecordBatch, took: Took) -> Result<RecordBatch> {
        let parts = self.parts();
        let all: Vec<&Operator> = parts.iter().flat_map(|(_, operators)| operators).collect();
        let Some(summary) = summary::of(&all, took, self.ran) else { return Ok(batch) };
        let [types, texts] = [0, 1].map(|column| batch.column(column).as_string_opt::<i32>());
        let (Some(types), Some(texts)) = (types, texts) else { return Ok(batch) };
        let text_of = |name| parts.iter().find(|part| part.0 == name).map(|part| text_of(&part.1));
        let rows = types.iter().zip(texts).map(|(name, text)| {
            let rewritten = name.filter(|_| !self.keeps_text).and_then(text_of);
            (name, rewritten.or_else(|| text.map(str::to_string)))
        });
        let rows = [(Some("Summary"), Some(summary))].into_iter().chain(rows);
        let (types, texts): (Vec<Option<&str>>, Vec<Option<String>>) = rows.unzip();
        let (types, texts) = (StringArray::from(types), StringArray::from(texts));
        let columns: Vec<ArrayRef> = vec![Arc::new(types), Arc::new(texts)];
        Ok(RecordBatch::try_new(batch.schema(), columns)?)
    }
}

/// The summary of a plan that has run in this process, and its text; `None` for a plan without a
/// similarity join.
pub fn of_plan(plan: &Arc<dyn ExecutionPlan>, took: Took) -> Option<(String, String)> {
    let mut found = vec![];
    operators(plan, 0, &mut found);
    let summary = summary::of(&found.iter().collect::<Vec<_>>(), took, Ran::Here)?;
    Some((summary, text_of(&found)))
}

/// The plan, a line for each operator, and one for each counter of a similarity join.
fn text_of(plan: &[Operator]) -> String {
    let mut text = String::new();
    for operator in plan {
        let indent = "  ".repeat(operator.depth);
        let shown = operator.metrics.aggregate_by_name().sorted_for_display().timestamps_removed();
        // Writing to a String does not fail.
        let _ = match operator.predicate() {
            None => writeln!(text, "{indent}{}, metrics=[{shown}]", operator.description),
            Some(_) => write!(text, "{}", of_join(&indent, &operator.description, &shown)),
        };
    }
    text
}

/// Parts of a join's description that begin a line.
const PARTS: [&str; 3] = ["strategy=", "mode=", "chosen="];

fn of_join(indent: &str, description: &str, metrics: &MetricsSet) -> String {
    let mut text = format!("{indent}{description}");
    for part in PARTS {
        text = text.replacen(&format!(", {part}"), &format!(",\n{indent}    {part}"), 1);
    }
    text.push('\n');
    for (title, phase) in phases(metrics) {
        let _ = writeln!(text, "{indent}    {title}");
        for value in phase {
            let _ = writeln!(text, "{indent}      {:<26} {:>12}", value.name(), shown(value));
        }
    }
    text
}

/// The phases of a join, with their counters in the order of the work. Counters of other names
/// follow these.
const PHASES: [(&str, &[&str]); 6] = [
    (
        "build side",
        &[
            "build_rows",
            "build_item_rows",
            "build_items",
            "build_values",
            "build_keys",
            "read_elapsed",
            "build_encode_time",
            "order_time",
            "choice_time",
            "index_time",
            "build_bytes",
            "build_peak_bytes",
        ],
    ),
    (
        "probe side",
        &["probe_rows", "probe_items", "probe_elapsed", "probe_encode_time", "probe_peak_bytes"],
    ),
    (
        "pairs",
        &[
            "left_nan_rows",
            "right_nan_rows",
            "postings",
            "prefix_pairs",
            "candidates",
            "verified",
            "matches",
            "filter_time",
            "verify_time",
        ],
    ),
    ("GPU", &[]),
    ("disk", &[]),
    (
        "result",
        &[
            "residual_rows",
            "output_rows",
            "output_batches",
            "output_bytes",
            "output_time",
            "elapsed_compute",
        ],
    ),
];

/// The phase of a counter, and its place there.
fn phase_of(name: &str) -> (usize, usize) {
    let listed = PHASES.iter().enumerate().find_map(|(phase, (_, names))| {
        Some((phase, names.iter().position(|known| *known == name)?))
    });
    let by_name = || match name {
        name if name.starts_with("device_") => (3, usize::MAX),
        name if name.contains("spill") => (4, usize::MAX),
        _ => (5, usize::MAX),
    };
    listed.unwrap_or_else(by_name)
}

/// The counters by phase.
fn phases(metrics: &MetricsSet) -> Vec<(&'static str, Vec<&MetricValue>)> {
    let mut phases: Vec<(&str, Vec<&MetricValue>)> =
        PHASES.iter().map(|(title, _)| (*title, vec![])).collect();
    for metric in metrics.iter() {
        phases[phase_of(metric.value().name()).0].1.push(metric.value());
    }
    phases.retain(|(_, values)| !values.is_empty());
    for (_, values) in &mut phases {
        values.sort_by_key(|value| (phase_of(value.name()).1, value.name().to_string()));
    }
    phases
}

/// The value with its unit: counts in full, sizes and times rounded.
fn shown(value: &MetricValue) -> String {
    match value {
        MetricValue::Count { name, count } if name.contains("bytes") => {
            human_readable_size(count.value())
        }
        MetricValue::Count { count, .. }
        | MetricValue::OutputRows(count)
        | MetricValue::OutputBatches(count)
        | MetricValue::SpillCount(count)
        | MetricValue::SpilledRows(count) => HumanCount(count.value() as u64).to_string(),
        // Each time that is added up is a nanosecond at least.
        MetricValue::ElapsedCompute(time) | MetricValue::Time { time, .. }
            if time.value() < 100 =>
        {
            "0".to_string()
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::tests::operator;

    #[test]
    fn each_counter_of_a_join_has_a_line_in_its_phase() {
        let join = operator(
            "SetSimilarityJoinExec: jaccard(a.t, b.t) >= Float64(0.8), threshold=0.8, strategy=auto, \
             device=auto, chosen=ppjoin (estimated 2.1 ms), cpu",
            &[
                ("matches", 3050),
                ("candidates", 7210),
                ("build_rows", 3000),
                ("device_bytes_to", 5 << 20),
                ("spill_passes", 4),
                ("anything_new", 1),
            ],
            &[("filter_time", 2), ("verify_time", 0)],
        );
        let scan = operator("DataSourceExec: file_groups={1}", &[("files", 1)], &[]);
        let text = text_of(&[join, scan]);
        let expected = "  SetSimilarityJoinExec: jaccard(a.t, b.t) >= Float64(0.8), threshold=0.8,
      strategy=auto, device=auto,
      chosen=ppjoin (estimated 2.1 ms), cpu
      build side
        build_rows                        3,000
      pairs
        candidates                        7,210
        matches                           3,050
        filter_time                      2.00ms
        verify_time                           0
      GPU
        device_bytes_to                  5.0 MB
      disk
        spill_passes                          4
      result
        anything_new                          1
  DataSourceExec: file_groups={1}, metrics=[files=1]
";
        assert_eq!(text, expected, "{text}");
    }
}
