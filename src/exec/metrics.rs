//! The funnel of a join, as EXPLAIN ANALYZE shows it.

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time,
};

use crate::strategy::Funnel;

/// Counters of the build side.
#[derive(Debug, Clone)]
pub(super) struct BuildMetrics {
    /// Rows read.
    pub rows: Count,
    /// Rows that have a set.
    pub sets: Count,
    /// Distinct (blocking key, set).
    pub distinct_sets: Count,
    /// Distinct tokens.
    pub tokens: Count,
    /// Distinct blocking keys.
    pub keys: Count,
    /// Bytes reserved at the peak while building, and kept while probing.
    pub peak_bytes: Gauge,
    pub bytes: Gauge,
    /// Reading the input is not part of it.
    pub encode_time: Time,
    pub index_time: Time,
}

impl BuildMetrics {
    pub fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).global_counter(name);
        Self {
            rows: counter("build_rows"),
            sets: counter("build_sets"),
            distinct_sets: counter("build_distinct_sets"),
            tokens: counter("build_tokens"),
            keys: counter("build_keys"),
            peak_bytes: MetricBuilder::new(metrics).peak_memory_usage("build_peak_bytes", 0),
            bytes: MetricBuilder::new(metrics).peak_memory_usage("build_bytes", 0),
            encode_time: MetricBuilder::new(metrics).subset_time("build_encode_time", 0),
            index_time: MetricBuilder::new(metrics).subset_time("index_time", 0),
        }
    }
}

/// Counters of one probe partition.
#[derive(Debug)]
pub(super) struct ProbeMetrics {
    pub baseline: BaselineMetrics,
    pub rows: Count,
    pub distinct_sets: Count,
    postings: Count,
    prefix_pairs: Count,
    candidates: Count,
    verified: Count,
    matches: Count,
    /// Pairs of rows offered to the residual filter.
    pub residual_rows: Count,
    pub peak_bytes: Gauge,
    pub encode_time: Time,
    filter_time: Time,
    verify_time: Time,
    pub output_time: Time,
    last: Funnel,
}

impl ProbeMetrics {
    pub fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        let time = |name: &'static str| MetricBuilder::new(metrics).subset_time(name, partition);
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            rows: counter("probe_rows"),
            distinct_sets: counter("probe_distinct_sets"),
            postings: counter("postings"),
            prefix_pairs: counter("prefix_pairs"),
            candidates: counter("candidates"),
            verified: counter("verified"),
            matches: counter("matches"),
            residual_rows: counter("residual_rows"),
            peak_bytes: MetricBuilder::new(metrics)
                .peak_memory_usage("probe_peak_bytes", partition),
            encode_time: time("probe_encode_time"),
            filter_time: time("filter_time"),
            verify_time: time("verify_time"),
            output_time: time("output_time"),
            last: Funnel::default(),
        }
    }

    /// The last update.
    pub fn finish(&mut self, funnel: Funnel) {
        self.update(funnel);
        let times = [&self.encode_time, &self.filter_time, &self.verify_time, &self.output_time];
        let nanos: usize = times.iter().map(|t| t.value()).sum();
        let compute = std::time::Duration::from_nanos(nanos as u64);
        self.baseline.elapsed_compute().add_duration(compute);
    }

    /// Adds what a cursor has done since the last call.
    pub fn update(&mut self, funnel: Funnel) {
        let last = std::mem::replace(&mut self.last, funnel);
        let add = |metric: &Count, now: u64, then: u64| metric.add((now - then) as usize);
        add(&self.postings, funnel.postings, last.postings);
        add(&self.prefix_pairs, funnel.prefix_pairs, last.prefix_pairs);
        add(&self.candidates, funnel.candidates, last.candidates);
        add(&self.verified, funnel.verified, last.verified);
        add(&self.matches, funnel.matches, last.matches);
        let time = |metric: &Time, now: u64, then: u64| {
            metric.add_duration(std::time::Duration::from_nanos(now - then));
        };
        time(&self.filter_time, funnel.filter_nanos, last.filter_nanos);
        time(&self.verify_time, funnel.verify_nanos, last.verify_nanos);
    }
}
