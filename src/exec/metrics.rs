//! The funnel of a join, as EXPLAIN ANALYZE shows it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time,
};

use parking_lot::Mutex;

use crate::engine::{DeviceFunnel, Funnel, StartTimes};
use crate::spec::Side;

/// Counts the rows of each side whose value has [no score but NaN](crate::spec::NanScore) with any other. A
/// side without one has no counter.
#[derive(Debug, Clone, Default)]
pub struct NanRows {
    counters: Arc<[OnceLock<Count>; 2]>,
    /// `None` where nothing is counted.
    metrics: Option<ExecutionPlanMetricsSet>,
}

impl NanRows {
    /// The names of the counters.
    pub const NAMES: [&'static str; 2] = ["left_nan_rows", "right_nan_rows"];

    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        Self { counters: Arc::default(), metrics: Some(metrics.clone()) }
    }

    pub(crate) fn add(&self, side: Side, rows: usize) {
        if let Some(metrics) = self.metrics.as_ref().filter(|_| rows > 0) {
            let name = Self::NAMES[side as usize];
            let counter = self.counters[side as usize]
                .get_or_init(|| MetricBuilder::new(metrics).global_counter(name));
            counter.add(rows);
        }
    }
}

/// Counters of the build side.
#[derive(Debug, Clone)]
pub(crate) struct BuildMetrics {
    /// Rows read.
    pub rows: Count,
    /// Rows that have an item.
    pub item_rows: Count,
    /// Items: distinct values, those of each blocking key by themselves.
    pub items: Count,
    /// Distinct elementary values: tokens of sets, symbols of texts, numbers of vectors.
    pub values: Count,
    /// Distinct blocking keys.
    pub keys: Count,
    /// Rows whose value has NaN: of both sides, where rows go to disk.
    pub nan_rows: NanRows,
    /// Bytes reserved at the peak while building, and kept while probing.
    pub peak_bytes: Gauge,
    pub bytes: Gauge,
    /// The time that goes by from the first look at the input until all rows are encoded, or on disk.
    pub read_elapsed: Time,
    /// Time to encode rows, without the time to read them.
    pub encode_time: Time,
    /// The time that goes by while values and items are put in order.
    pub order_time: Time,
    /// The time that goes by while the chosen strategy prepares the join.
    pub index_time: Time,
    choice_time: Time,
    metrics: ExecutionPlanMetricsSet,
}

impl BuildMetrics {
    /// Counters for all rows, read again from disk: they were counted when the input was read.
    pub(crate) fn of_reloaded(&self) -> Self {
        Self { rows: Count::new(), nan_rows: NanRows::default(), ..self.clone() }
    }

    /// Counters for a piece of the rows on disk, which is read while the join is under way.
    pub(crate) fn of_piece(&self) -> Self {
        Self { read_elapsed: Time::new(), ..self.of_reloaded() }
    }

    /// The clock of the partitions that probe a build side which is there now.
    pub(crate) fn probe_clock(&self) -> ProbeClock {
        let elapsed = MetricBuilder::new(&self.metrics).subset_time("probe_elapsed", 0);
        ProbeClock { started: Instant::now(), noted: Mutex::default(), elapsed }
    }

    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).global_counter(name);
        let time = |name: &'static str| MetricBuilder::new(metrics).subset_time(name, 0);
        Self {
            rows: counter("build_rows"),
            item_rows: counter("build_item_rows"),
            items: counter("build_items"),
            values: counter("build_values"),
            keys: counter("build_keys"),
            nan_rows: NanRows::new(metrics),
            peak_bytes: MetricBuilder::new(metrics).peak_memory_usage("build_peak_bytes", 0),
            bytes: MetricBuilder::new(metrics).peak_memory_usage("build_bytes", 0),
            read_elapsed: time("read_elapsed"),
            encode_time: time("build_encode_time"),
            order_time: time("order_time"),
            index_time: time("index_time"),
            choice_time: time("choice_time"),
            metrics: metrics.clone(),
        }
    }

    /// Adds the time that a choice took: to estimate, and to start on devices.
    pub(crate) fn note_choice(&self, took: Duration, starts: StartTimes) {
        let StartTimes { opening, upload } = starts;
        self.choice_time.add_duration(took.saturating_sub(opening + upload));
        let of_devices = [("device_open_time", opening), ("device_upload_time", upload)];
        for (name, time) in of_devices.into_iter().filter(|(_, time)| !time.is_zero()) {
            MetricBuilder::new(&self.metrics).subset_time(name, 0).add_duration(time);
        }
    }
}

/// The time that goes by from the end of the build until the last partition has probed it.
#[derive(Debug)]
pub(crate) struct ProbeClock {
    started: Instant,
    /// The part of that time that the counter holds.
    noted: Mutex<Duration>,
    elapsed: Time,
}

impl ProbeClock {
    /// Notes that a partition is still at work.
    pub(crate) fn note(&self) {
        let mut noted = self.noted.lock();
        let now = self.started.elapsed();
        self.elapsed.add_duration(now.saturating_sub(*noted));
        *noted = now;
    }
}

/// Counters of a join on disk.
#[derive(Debug)]
pub(crate) struct DiskMetrics {
    /// Bands of positions on the axis, times parts by blocking key.
    pub bands: Count,
    /// Pieces of the build side that were indexed.
    pub passes: Count,
    /// Probe rows read from disk: a row comes once for each piece that it meets.
    pub visits: Count,
    /// Rows and bytes (before compression) of the build side, and of the probe side.
    sides: [(Count, Count); 2],
}

impl DiskMetrics {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).global_counter(name);
        Self {
            bands: counter("spill_bands"),
            passes: counter("spill_passes"),
            visits: counter("spill_probe_visits"),
            sides: [
                (counter("build_spilled_rows"), counter("build_spilled_bytes")),
                (counter("probe_spilled_rows"), counter("probe_spilled_bytes")),
            ],
        }
    }

    /// Counts the rows and bytes of a side on disk.
    pub(crate) fn note_side(&self, is_build: bool, rows: u64, bytes: usize) {
        let (all_rows, all_bytes) = &self.sides[usize::from(!is_build)];
        all_rows.add(rows as usize);
        all_bytes.add(bytes);
    }
}

/// Counters of one probe partition, shared by the cursors that work for it.
#[derive(Debug, Clone)]
pub(crate) struct ProbeCounters {
    pub baseline: BaselineMetrics,
    pub rows: Count,
    pub nan_rows: NanRows,
    /// Items of each batch; in a self-join those of the build side.
    pub items: Count,
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
}

/// The counters of a probe partition, and the work of one cursor that they already hold.
#[derive(Debug)]
pub(crate) struct ProbeMetrics {
    pub counters: ProbeCounters,
    last: Funnel,
    /// There from the first use of a device on.
    device: Option<DeviceMetrics>,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
}

/// The figures of a device for one probe partition.
#[derive(Debug)]
struct DeviceMetrics {
    chunks: Count,
    candidates: Count,
    bytes_to: Count,
    bytes_from: Count,
    /// By kernel, from its first launch on.
    kernel_times: Vec<(&'static str, Time)>,
    copy_time: Time,
    wait_time: Time,
    idle_time: Time,
    failed_chunks: Count,
}

impl DeviceMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        let time = |name: &'static str| MetricBuilder::new(metrics).subset_time(name, partition);
        Self {
            chunks: counter("device_chunks"),
            candidates: counter("device_candidates"),
            bytes_to: counter("device_bytes_to"),
            bytes_from: counter("device_bytes_from"),
            kernel_times: vec![],
            copy_time: time("device_copy_time"),
            wait_time: time("device_wait_time"),
            idle_time: time("device_idle_time"),
            failed_chunks: counter("device_failed_chunks"),
        }
    }

    fn update(
        &mut self,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
        now: &DeviceFunnel,
        then: &DeviceFunnel,
    ) {
        let counts = [
            (&self.chunks, now.chunks - then.chunks),
            (&self.candidates, now.candidates - then.candidates),
            (&self.bytes_to, now.bytes_to - then.bytes_to),
            (&self.bytes_from, now.bytes_from - then.bytes_from),
            (&self.failed_chunks, now.failed_chunks - then.failed_chunks),
        ];
        counts.iter().for_each(|(count, more)| count.add(*more as usize));
        let times = [
            (&self.copy_time, now.copy_nanos - then.copy_nanos),
            (&self.wait_time, now.wait_nanos - then.wait_nanos),
            (&self.idle_time, now.idle_nanos - then.idle_nanos),
        ];
        times.iter().for_each(|(time, more)| time.add_duration(Duration::from_nanos(*more)));
        for (name, nanos) in now.kernels.iter() {
            let place = self.kernel_times.iter().position(|(of, _)| *of == name);
            let place = place.unwrap_or_else(|| {
                let metric = format!("device_kernel_time_{name}");
                let time = MetricBuilder::new(metrics).subset_time(metric, partition);
                self.kernel_times.push((name, time));
                self.kernel_times.len() - 1
            });
            let more = Duration::from_nanos(nanos - then.kernels.of(name));
            self.kernel_times[place].1.add_duration(more);
        }
    }
}

impl ProbeCounters {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        let time = |name: &'static str| MetricBuilder::new(metrics).subset_time(name, partition);
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            rows: counter("probe_rows"),
            nan_rows: NanRows::new(metrics),
            items: counter("probe_items"),
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
        }
    }
}

impl ProbeMetrics {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counters = ProbeCounters::new(metrics, partition);
        Self {
            counters,
            last: Funnel::default(),
            device: None,
            metrics: metrics.clone(),
            partition,
        }
    }

    /// The same counters, for another cursor.
    pub(crate) fn again(&self) -> Self {
        Self {
            counters: self.counters.clone(),
            last: Funnel::default(),
            device: None,
            metrics: self.metrics.clone(),
            partition: self.partition,
        }
    }

    /// The output has ended. In a join from disk, further cursors may add to the same counters.
    pub(crate) fn finish(&self) {
        let c = &self.counters;
        let times = [&c.encode_time, &c.filter_time, &c.verify_time, &c.output_time];
        let nanos: usize = times.iter().map(|t| t.value()).sum();
        let elapsed = c.baseline.elapsed_compute();
        let more = nanos.saturating_sub(elapsed.value());
        elapsed.add_duration(Duration::from_nanos(more as u64));
        c.baseline.done();
    }

    /// Adds what a cursor has done since the last call.
    pub(crate) fn update(&mut self, funnel: Funnel) {
        let last = std::mem::replace(&mut self.last, funnel);
        let counters = &self.counters;
        let add = |metric: &Count, now: u64, then: u64| metric.add((now - then) as usize);
        add(&counters.postings, funnel.postings, last.postings);
        add(&counters.prefix_pairs, funnel.prefix_pairs, last.prefix_pairs);
        add(&counters.candidates, funnel.candidates, last.candidates);
        add(&counters.verified, funnel.verified, last.verified);
        add(&counters.matches, funnel.matches, last.matches);
        let time = |metric: &Time, now: u64, then: u64| {
            metric.add_duration(Duration::from_nanos(now - then));
        };
        time(&counters.filter_time, funnel.filter_nanos, last.filter_nanos);
        time(&counters.verify_time, funnel.verify_nanos, last.verify_nanos);
        if funnel.device.chunks > 0 {
            let new = || DeviceMetrics::new(&self.metrics, self.partition);
            let device = self.device.get_or_insert_with(new);
            device.update(&self.metrics, self.partition, &funnel.device, &last.device);
        }
    }
}
