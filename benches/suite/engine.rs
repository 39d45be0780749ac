//! The engine below SQL: a prepared join, probed by threads that take ranges from a counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ExtensionOptions;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion_simjoin::SimJoinOptions;
use datafusion_simjoin::config::{DeviceChoice, GpuOptions, StrategyName};
use datafusion_simjoin::internals::engine::{
    AnyMatcher, Argument, Collection, DeviceRequest, Family, Funnel, MatchBuffer, MatchNeed,
    MatchSpec, Orders, Pairing, Placement, PrepareContext, PreparedJoin, ProbeUnit, Progress,
};
use datafusion_simjoin::internals::set::{Measure, SetCollection, SetFamily};
use datafusion_simjoin::internals::simd::Simd;
use datafusion_simjoin::internals::strategies;
use datafusion_simjoin::internals::util::cancel::CancelFlag;
use datafusion_simjoin::internals::util::parallel::Threads;
use datafusion_simjoin::spec::{Call, Predicate, Side};

use crate::data;
use crate::gpu::verify::Unpark;
use crate::machine;
use crate::memory::PeakPool;

/// Reads a strategy as `simjoin.strategy` does.
pub fn strategy(name: &str) -> Result<StrategyName, String> {
    let mut options = SimJoinOptions::default();
    options.set("strategy", name).map_err(|error| error.strip_backtrace())?;
    Ok(options.strategy)
}

/// Reads a device as `simjoin.device` does.
pub fn device(name: &str) -> Result<DeviceChoice, String> {
    let mut options = SimJoinOptions::default();
    options.set("device", name).map_err(|error| error.strip_backtrace())?;
    Ok(options.device)
}

/// Devices, one after the other.
#[derive(Debug, Clone)]
pub struct Devices(pub Vec<DeviceChoice>);

/// Reads a list of devices: in `cpu,cuda:0,1,cuda` the number 1 belongs to the device before it.
pub fn devices(list: &str) -> Result<Devices, String> {
    let mut names: Vec<String> = vec![];
    for part in list.split(',') {
        match names.last_mut() {
            Some(last) if part.parse::<u32>().is_ok() => {
                last.push(',');
                last.push_str(part);
            }
            _ => names.push(part.to_string()),
        }
    }
    names.iter().map(|name| device(name)).collect::<Result<_, _>>().map(Devices)
}

/// Reads the name of a form of the vector kernels.
pub fn simd(name: &str) -> Result<Simd, String> {
    Simd::named(name).ok_or_else(|| {
        let names: Vec<String> = Simd::available().iter().map(Simd::to_string).collect();
        format!("this processor runs {}", names.join(", "))
    })
}

/// The form that `SIMJOIN_DEBUG_SIMD` asks for, otherwise the fastest one.
pub fn default_simd() -> Simd {
    SimJoinOptions::from_env().map_or_else(|_| Simd::detect(), |options| options.simd.form())
}

/// The strategies of sets that run on the CPU.
pub fn fixed_strategies() -> impl Iterator<Item = StrategyName> {
    let on_cpu =
        strategies::of_sets().into_iter().filter(|strategy| strategy.runs_on(Placement::Cpu));
    on_cpu.map(|strategy| StrategyName::new(strategy.name()))
}

/// `auto`, and the strategies among which it chooses on the CPU.
pub fn strategies_on_cpu() -> impl Iterator<Item = StrategyName> {
    [StrategyName::AUTO].into_iter().chain(fixed_strategies())
}

/// The predicate and the strategy of a join.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    pub measure: Measure,
    pub threshold: f64,
    pub strategy: StrategyName,
    /// The form of the vector kernels.
    pub simd: Simd,
    pub threads: usize,
    pub device: DeviceChoice,
    pub gpu: GpuOptions,
}

impl Point {
    /// A Jaccard join on one thread of the CPU.
    pub fn jaccard(threshold: f64, strategy: StrategyName) -> Self {
        Self {
            measure: Measure::Jaccard,
            threshold,
            strategy,
            simd: default_simd(),
            threads: 1,
            device: DeviceChoice::Cpu,
            gpu: GpuOptions::default(),
        }
    }
}

impl Point {
    /// A join by a measure, as a request says.
    pub fn of(measure: Measure, threshold: f64, request: &Request) -> Self {
        let Request { strategy, device, threads, simd, gpu, .. } = *request;
        Self { measure, threshold, strategy, simd, threads, device, gpu }
    }
}

/// The times and the matches of a join of a collection with itself.
#[derive(Debug, Clone)]
pub struct Joined {
    /// The strategy that ran.
    pub strategy: &'static str,
    /// Its estimate, in nanoseconds.
    pub estimate: f64,
    /// The choice with its reasons, as EXPLAIN ANALYZE shows it.
    pub choice: String,
    /// Choosing the strategy, in wall time.
    pub choose_seconds: f64,
    /// Choosing and preparing it.
    pub prepare_seconds: f64,
    pub probe_seconds: f64,
    /// Processor time of both, of all threads; wall time where the system does not tell.
    pub processor_seconds: f64,
    /// Pairs of different rows whose sets match; unordered for symmetric measures.
    pub row_pairs: u64,
    pub funnel: Funnel,
    /// The most memory reserved, the collection itself left out.
    pub reserved_bytes: usize,
}

impl Joined {
    /// Wall time of index and join, encoding left out.
    pub fn seconds(&self) -> f64 {
        self.prepare_seconds + self.probe_seconds
    }
}

/// Joins a collection with itself and counts the row pairs.
pub fn self_join(sets: &Arc<SetCollection>, point: &Point) -> Result<Joined> {
    let call = Call { function: point.measure.function(), first: Side::Left };
    let types = DataType::new_list(DataType::UInt32, true);
    let predicate = Predicate::new(call, point.threshold);
    let family = SetFamily::default().with_devices(simjoin_gpu::set::STRATEGIES);
    let family = family.with_comparisons(simjoin_published::OF_SETS);
    let matcher = family.bind(predicate, [Argument::of_type(&types); 2])?;
    let build: Arc<dyn Collection> = Arc::<SetCollection>::clone(sets);
    let request = Request {
        strategy: point.strategy,
        device: point.device,
        threads: point.threads,
        symmetric: point.measure.is_symmetric(),
        simd: point.simd,
        gpu: point.gpu,
    };
    self_join_of(matcher.as_ref(), &build, &request)
}

/// How items of any family are joined.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    pub strategy: StrategyName,
    pub device: DeviceChoice,
    pub threads: usize,
    /// Whether each unordered pair is made once.
    pub symmetric: bool,
    pub simd: Simd,
    pub gpu: GpuOptions,
}

/// Joins a collection of any family with itself and counts the row pairs.
pub fn self_join_of(
    matcher: &dyn AnyMatcher,
    build: &Arc<dyn Collection>,
    request: &Request,
) -> Result<Joined> {
    let options = SimJoinOptions::from_env()?;
    let Request { strategy, device, threads, symmetric, simd, gpu } = *request;
    let spec = MatchSpec {
        orders: if symmetric { Orders::Unordered } else { Orders::Given },
        // As `count(*)` does; pairs of rows themselves where each pair comes in both orders.
        need: if symmetric { MatchNeed::Count } else { MatchNeed::Pairs },
        candidate_chunk: options.candidate_chunk.get(),
        match_buffer: options.match_buffer.get(),
        simd,
        gpu,
        ..MatchSpec::default()
    };
    let pool = Arc::new(PeakPool::default());
    let shared: Arc<dyn MemoryPool> = Arc::clone(&pool) as _;
    let reservation = MemoryConsumer::new("join").register(&shared);
    let cancel = CancelFlag::default();

    let processor_start = machine::processor_seconds();
    let start = Instant::now();
    let context = PrepareContext::new(&reservation, &cancel, Threads::usual(threads));
    let (self_join, work, on_failure) = (true, f64::INFINITY, Arc::new(|_| {}));
    let of_device = DeviceRequest { choice: device, self_join, work, on_failure };
    let mut choice = matcher.choose(strategy, build, &spec, &of_device, context)?;
    let choose_seconds = start.elapsed().as_secs_f64();
    let prepared = choice.prepare(context)?;
    let prepare_seconds = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let parts = probe_on_threads(&*prepared, build, &spec, threads, &shared)?;
    let probe_seconds = start.elapsed().as_secs_f64();
    let processor = machine::processor_seconds_since(processor_start);
    let mut funnel = Funnel::default();
    for part in &parts {
        add(&mut funnel, &part.funnel);
    }
    let chosen = choice.chosen();
    Ok(Joined {
        strategy: chosen.strategy,
        estimate: chosen.work,
        choice: chosen.to_string(),
        choose_seconds,
        prepare_seconds,
        probe_seconds,
        processor_seconds: processor.unwrap_or(prepare_seconds + probe_seconds),
        row_pairs: parts.iter().map(|part| part.row_pairs).sum(),
        funnel,
        reserved_bytes: pool.peak(),
    })
}

struct Part {
    row_pairs: u64,
    funnel: Funnel,
}

/// The work of the threads of a prepared self-join that counts.
pub fn funnel_of(
    prepared: &dyn PreparedJoin,
    sets: &Arc<SetCollection>,
    threads: usize,
    pool: &Arc<dyn MemoryPool>,
) -> Result<Funnel> {
    let options = SimJoinOptions::from_env()?;
    let spec = MatchSpec {
        orders: Orders::Unordered,
        need: MatchNeed::Count,
        candidate_chunk: options.candidate_chunk.get(),
        match_buffer: options.match_buffer.get(),
        simd: default_simd(),
        ..MatchSpec::default()
    };
    let mut funnel = Funnel::default();
    let items: Arc<dyn Collection> = Arc::<SetCollection>::clone(sets);
    for part in probe_on_threads(prepared, &items, &spec, threads, pool)? {
        add(&mut funnel, &part.funnel);
    }
    Ok(funnel)
}

/// Probes with all items, in ranges as the operator cuts them.
fn probe_on_threads(
    prepared: &dyn PreparedJoin,
    items: &Arc<dyn Collection>,
    spec: &MatchSpec,
    threads: usize,
    pool: &Arc<dyn MemoryPool>,
) -> Result<Vec<Part>> {
    let next = AtomicU32::new(0);
    let share = (items.groups().len() / (threads as u32 * 32)).clamp(1, 1024);
    let share = share.max(prepared.least_range()).next_multiple_of(prepared.range_unit());
    data::on_threads(threads, || probe(prepared, items, spec, &next, share, pool))
}

fn probe(
    prepared: &dyn PreparedJoin,
    items: &Arc<dyn Collection>,
    spec: &MatchSpec,
    next: &AtomicU32,
    share: u32,
    pool: &Arc<dyn MemoryPool>,
) -> Result<Part> {
    let reservation = MemoryConsumer::new("probe").register(pool);
    let mut matches = MatchBuffer::new(spec.match_buffer);
    reservation.try_grow(matches.footprint())?;
    let mut cursor = prepared.open(&reservation)?;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let (groups, end) = (items.groups(), items.groups().len());
    let rows = |item| groups.slots(item..item + 1).len() as u64;
    let mut row_pairs = 0;
    for number in 0.. {
        let start = next.fetch_add(share, Ordering::Relaxed).min(end);
        if start == end {
            cursor.finish();
        } else {
            let range = start..(start + share).min(end);
            cursor.feed(ProbeUnit::new(number, Arc::clone(items), range))?;
        }
        let progress = loop {
            let progress = match cursor.poll(&mut context, &mut matches) {
                Poll::Ready(progress) => progress?,
                Poll::Pending => {
                    std::thread::park();
                    continue;
                }
            };
            for found in matches.matches() {
                let (probe, build) = (rows(found.probe), rows(found.build));
                row_pairs += match (found.probe == found.build, spec.pairing()) {
                    (false, _) => probe * build,
                    (true, Pairing::Unordered) => probe * (probe - 1) / 2,
                    (true, Pairing::All) => probe * (probe - 1),
                };
            }
            let counts = matches.counts();
            row_pairs += counts.cross + (counts.squares - counts.rows) / 2;
            matches.clear();
            if matches!(progress, Progress::NeedsInput | Progress::Ended) {
                break progress;
            }
        };
        if progress == Progress::Ended {
            break;
        }
    }
    Ok(Part { row_pairs, funnel: cursor.funnel() })
}

/// Adds up what threads have done.
pub fn add(sum: &mut Funnel, part: &Funnel) {
    sum.postings += part.postings;
    sum.prefix_pairs += part.prefix_pairs;
    sum.candidates += part.candidates;
    sum.verified += part.verified;
    sum.matches += part.matches;
    sum.filter_nanos += part.filter_nanos;
    sum.verify_nanos += part.verify_nanos;
    let (sum, part) = (&mut sum.device, &part.device);
    sum.chunks += part.chunks;
    sum.candidates += part.candidates;
    sum.bytes_to += part.bytes_to;
    sum.bytes_from += part.bytes_from;
    sum.kernels.merge(&part.kernels);
    sum.copy_nanos += part.copy_nanos;
    sum.wait_nanos += part.wait_nanos;
    sum.idle_nanos += part.idle_nanos;
    sum.failed_chunks += part.failed_chunks;
}

/// Reads a measure's name.
pub fn measure(name: &str) -> Result<Measure, String> {
    name.parse().map_err(|()| {
        let names: Vec<&str> = Measure::ALL.iter().map(|m| m.name()).collect();
        format!("the measures are {}", names.join(", "))
    })
}
