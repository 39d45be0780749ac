//! The operators of a plan that has run, with their metrics.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, displayable};

/// The text before the predicate in the description of a similarity join.
const JOIN: &str = "SetSimilarityJoinExec: ";

/// An operator of a plan that has run.
#[derive(Debug)]
pub struct Operator {
    /// The number of operators above.
    pub depth: usize,
    /// The line of the plan.
    pub description: String,
    /// The counters.
    pub metrics: MetricsSet,
}

impl Operator {
    /// The predicate, where the operator is a similarity join.
    pub fn predicate(&self) -> Option<&str> {
        let text = self.description.strip_prefix(JOIN)?;
        Some(text.split_once(", threshold=").map_or(text, |(predicate, _)| predicate))
    }

    /// The type of the operator.
    pub fn name(&self) -> &str {
        self.description.split([':', ' ']).next().unwrap_or_default()
    }

    /// The sum of a counter over the partitions; 0 where there is none.
    pub fn count(&self, name: &str) -> u64 {
        sum(&self.metrics, name).unwrap_or(0)
    }

    /// The sum of the counters whose names have this start.
    pub fn count_of_all(&self, start: &str) -> u64 {
        let metrics = self.metrics.iter().filter(|metric| metric.value().name().starts_with(start));
        metrics.map(|metric| metric.value().as_usize() as u64).sum()
    }

    /// The time of a counter.
    pub fn time(&self, name: &str) -> Duration {
        Duration::from_nanos(self.count(name))
    }
}

/// The sum of a counter over the partitions; `None` where there is none.
/// [`MetricsSet::sum_by_name`] finds no counters that DataFusion has names for, such as `output_rows`.
pub fn sum(metrics: &MetricsSet, name: &str) -> Option<u64> {
    let values = metrics.iter().map(|metric| metric.value()).filter(|value| value.name() == name);
    values.map(|value| value.as_usize() as u64).reduce(|sum, value| sum + value)
}

/// Every operator of a plan, each before its inputs.
pub fn operators(plan: &Arc<dyn ExecutionPlan>, depth: usize, found: &mut Vec<Operator>) {
    let description = displayable(plan.as_ref()).one_line().to_string();
    let metrics = plan.metrics().unwrap_or_default();
    found.push(Operator { depth, description: description.trim_end().to_string(), metrics });
    plan.children().into_iter().for_each(|child| operators(child, depth + 1, found));
}

#[cfg(test)]
pub(crate) mod tests {
    use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, Time};

    use super::*;

    /// An operator with counters and times in milliseconds, by name.
    pub(crate) fn operator(
        description: &str,
        counts: &[(&'static str, usize)],
        millis: &[(&'static str, u64)],
    ) -> Operator {
        let mut metrics = MetricsSet::new();
        for (name, value) in counts {
            let count = Count::new();
            count.add(*value);
            let value = MetricValue::Count { name: (*name).into(), count };
            metrics.push(Arc::new(Metric::new(value, None)));
        }
        for (name, value) in millis {
            let time = Time::new();
            time.add_duration(Duration::from_millis(*value));
            let value = match *name {
                "elapsed_compute" => MetricValue::ElapsedCompute(time),
                name => MetricValue::Time { name: name.into(), time },
            };
            metrics.push(Arc::new(Metric::new(value, None)));
        }
        Operator { depth: 1, description: description.to_string(), metrics }
    }
}
