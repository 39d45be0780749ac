//! The request to a strategy, and its cost.

use std::any::Any;
use std::fmt::{self, Debug, Display};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::collection::another_family;
use super::{DeviceChoice, GpuOptions, ItemId, MatchBuffer, PreparedJoin};
use crate::error::{Result, internal_error};
use crate::memory::Memory;
use crate::predicate::Side;
use crate::simd::Simd;
use crate::tuning::Tuning;
use crate::util::attached::Attached;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, filled};

/// The pairs of items that a join looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Every probe item with every build item.
    All,
    /// The probe items are the build items, the function is symmetric: every item with itself and
    /// with those before it in some order, so that each unordered pair is decided once. Either
    /// item of a pair may be given as the probe; [`MatchNeed::Exists`] has no meaning here.
    Unordered,
}

/// The rows that meet in a join, and the orders of its two sides in which a pair of them is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orders {
    /// Probe rows meet build rows: a match stands for itself.
    Given,
    /// The sides are two parts of one input, whose rows meet once: a match of a probe item and a
    /// build item stands for both orders of the two. The function is symmetric.
    Mirrored,
    /// The probe items are the build items: a match of two different items stands for both orders
    /// of them. The function is symmetric.
    Unordered,
}

impl Orders {
    /// The orders of a join that is not mirrored.
    pub fn of(pairing: Pairing) -> Self {
        match pairing {
            Pairing::All => Self::Given,
            Pairing::Unordered => Self::Unordered,
        }
    }

    /// The pairs of items that are looked at.
    pub fn pairing(self) -> Pairing {
        match self {
            Self::Given | Self::Mirrored => Pairing::All,
            Self::Unordered => Pairing::Unordered,
        }
    }
}

/// The matches that the operator needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchNeed {
    /// Whether a probe item has a match: one match for each probe item will do.
    Exists,
    /// The number of pairs of rows that match: matches as for [`MatchNeed::Pairs`], or, where that is
    /// cheaper, their [`RowPairCounts`](super::RowPairCounts).
    Count,
    /// Every matching pair.
    Pairs,
    /// Every matching pair with what its scores are computed from (the exact overlap of sets).
    Scores,
}

/// The nearest partners of each probe item: a bound of its own, which becomes stricter while they are found.
///
/// A strategy may give more matches than these: who asks leaves the others out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearestPartners {
    /// The build rows that the nearest partners have together, at least, where there are as many.
    pub rows: usize,
    /// Whether those in a tie with the last one are needed, too.
    pub with_ties: bool,
    /// The time that joins with bounds take instead, in nanoseconds of a core, where it is known.
    pub joins: Option<f64>,
}

/// The rows that are expected of the probe side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProbeRows(Option<u64>);

impl ProbeRows {
    /// An unknown number: the probe side is taken to be as large as the build side, which it is in a
    /// self-join.
    pub const UNKNOWN: Self = Self(None);

    /// About `rows` rows.
    pub fn expected(rows: u64) -> Self {
        Self(Some(rows))
    }

    /// The number of rows, where one is expected.
    pub fn count(self) -> Option<u64> {
        self.0
    }

    /// The ratio of probe rows to the rows of a build side of `build_rows` rows.
    pub fn ratio(self, build_rows: usize) -> f64 {
        self.0.map_or(1.0, |rows| rows.max(1) as f64 / build_rows.max(1) as f64)
    }
}

/// The matches that a join wants, and the means of the search for them.
#[derive(Debug, Clone, Copy)]
pub struct MatchSpec {
    /// The side that the probe items are on.
    pub probe: Side,
    /// The orders of its items that a match stands for.
    pub orders: Orders,
    /// The knowledge that the join needs of a match.
    pub need: MatchNeed,
    /// The partners of a probe item that are needed, where not all are.
    pub nearest: Option<NearestPartners>,
    /// The rows that are expected of the probe side.
    pub probe_rows: ProbeRows,
    /// At most this many candidates wait for verification.
    pub candidate_chunk: usize,
    /// At most this many matches wait for the operator.
    pub match_buffer: usize,
    /// The form of the vector kernels.
    pub simd: Simd,
    /// The use of a GPU, where there is one.
    pub gpu: GpuOptions,
    /// The sizes of what the search does at a time.
    pub tuning: Tuning,
}

/// Every pair of two sides, in buffers of usual size.
impl Default for MatchSpec {
    fn default() -> Self {
        /// Candidates and matches that wait.
        const BUFFER: usize = 1 << 14;
        Self {
            probe: Side::Left,
            orders: Orders::Given,
            need: MatchNeed::Pairs,
            nearest: None,
            probe_rows: ProbeRows::UNKNOWN,
            candidate_chunk: BUFFER,
            match_buffer: BUFFER,
            simd: Simd::detect(),
            gpu: GpuOptions::default(),
            tuning: Tuning::default(),
        }
    }
}

impl MatchSpec {
    /// The pairs of items that are looked at.
    pub fn pairing(&self) -> Pairing {
        self.orders.pairing()
    }

    /// The bytes of a full match buffer.
    pub fn buffer_bytes(&self) -> usize {
        MatchBuffer::new(self.match_buffer).footprint()
    }
}

/// The processor that a strategy runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The threads of the process alone.
    Cpu,
    /// A GPU, in part at least.
    Gpu,
}

/// An estimate of work, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Cost {
    /// Work of one core; several threads divide it.
    pub cpu: f64,
    /// Work of the device, beside the cores.
    pub device: f64,
    /// Copies to the device and back, beside both.
    pub transfer: f64,
    /// Time until the device can begin.
    pub setup: f64,
}

impl Cost {
    /// Work of the CPU alone.
    pub fn cpu(nanos: f64) -> Self {
        Self { cpu: nanos, ..Self::default() }
    }

    /// Work of cores and of the device.
    pub fn work(&self) -> f64 {
        self.cpu + self.device
    }

    /// The time that the work takes on `threads` threads, which share memory, caches and often
    /// cores: 16 of a Xeon with eight cores do the work of seven to twelve, two that of 1.7 to 1.9.
    pub fn elapsed(&self, threads: usize) -> f64 {
        /// Nanoseconds that a further thread adds to the phases of a join: waking it, waiting for it.
        const THREAD: f64 = 6e4;
        let threads = threads.max(1) as f64;
        let sharing = if self.cpu > 0.0 { (threads - 1.0) * THREAD } else { 0.0 };
        let cores = threads.powf(0.75);
        self.setup + (self.cpu / cores + sharing).max(self.device + self.transfer)
    }
}

/// The part of the work of a join that a sample of its pairs may take.
pub const SAMPLE_SHARE: f64 = 0.01;

/// Nanoseconds, shown in a readable unit.
pub struct Nanos(pub f64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            nanos if nanos < 1e6 => write!(f, "{:.0} µs", nanos / 1e3),
            nanos if nanos < 1e9 => write!(f, "{:.1} ms", nanos / 1e6),
            nanos => write!(f, "{:.1} s", nanos / 1e9),
        }
    }
}

/// The terms on which a strategy estimates its cost.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Whether no strategy of another name is compared: the estimate decides about parts of this one alone.
    pub is_only: bool,
    /// The time of the best strategy whose devices are open, in nanoseconds: a strategy on the CPU that
    /// takes more in any case need not look closer. Devices that are not open may turn out not to be there.
    pub open_device: Option<f64>,
    /// The resources for gathering figures.
    pub context: PrepareContext<'a>,
}

/// The estimate of a strategy.
#[derive(Debug)]
pub struct Estimate {
    /// The cost, where the strategy suits the data.
    pub cost: Option<Cost>,
    /// The way in which the CPU does the work, where there are several: words behind the estimate in
    /// EXPLAIN ANALYZE.
    pub manner: Option<&'static str>,
    parts: Box<dyn Any + Send + Sync>,
}

impl Estimate {
    /// An estimate with the parts of the strategy that it has chosen, which come back in
    /// [`Strategy::prepare`].
    pub fn new(cost: Option<Cost>, parts: impl Any + Send + Sync) -> Self {
        Self { cost, manner: None, parts: Box::new(parts) }
    }

    /// Adds [`Self::manner`] to the estimate.
    pub fn in_manner(self, manner: Option<&'static str>) -> Self {
        Self { manner, ..self }
    }

    /// The parts.
    ///
    /// # Errors
    ///
    /// An internal error when another strategy made the estimate.
    pub fn parts<T: Any>(&self) -> Result<&T> {
        self.parts.downcast_ref().ok_or_else(|| another_family::<T>())
    }
}

/// The operator's request for a device.
#[derive(Clone)]
pub struct DeviceRequest {
    /// The device that the options ask for.
    pub choice: DeviceChoice,
    /// Whether the probe items are the build items.
    pub self_join: bool,
    /// The estimated work of devices and of copies to them, in nanoseconds: little work is for few
    /// devices.
    pub work: f64,
    /// Told when the device fails in mid-join, or host memory for it is refused.
    pub on_failure: Arc<dyn Fn(String) + Send + Sync>,
}

impl fmt::Debug for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceRequest").field("choice", &self.choice).finish_non_exhaustive()
    }
}

/// Opens devices for the joins of a family.
pub trait DeviceOpener<J>: Debug + Send + Sync {
    /// Brings the build side to the devices that `request` names.
    ///
    /// # Errors
    ///
    /// When no device can be used.
    fn open(&self, join: &J, request: &DeviceRequest) -> Result<Arc<dyn DevicePlace>>;

    /// Whether the device is open that is taken where none is named.
    fn is_open(&self) -> bool;

    /// Adds up the nanoseconds that joins on the CPU lose because no device is open. Once the sum exceeds the time
    /// to open one, the opener may open a device for later joins.
    fn note_loss(&self, nanos: f64);
}

/// The devices of one join, with what lies there. Displayed by EXPLAIN ANALYZE.
pub trait DevicePlace: Any + Debug + Display + Send + Sync {
    /// Whether a strategy could not be had there, which the query has been told: another one may do.
    fn has_refused(&self) -> bool {
        false
    }

    /// The time that it took to bring the join there.
    fn start_times(&self) -> StartTimes {
        StartTimes::default()
    }
}

/// The time until devices could begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StartTimes {
    /// The time to open the devices and to load programs.
    pub opening: Duration,
    /// The time to copy collections to the devices.
    pub upload: Duration,
}

/// The resources for preparing a join.
#[derive(Debug, Clone, Copy)]
pub struct PrepareContext<'a> {
    /// Grown by what the prepared join allocates.
    pub reservation: &'a dyn Memory,
    /// Ends the work early.
    pub cancel: &'a CancelFlag,
    /// The threads that may work on it at once.
    pub threads: Threads,
    /// The rows that will probe the build collection, where they are known: otherwise estimates take
    /// them to be like those of the build side.
    pub probes: Option<&'a Probes>,
    /// The indexes that joins of the same build items by other bounds leave for each other.
    pub kept: Option<&'a Attached>,
}

impl<'a> PrepareContext<'a> {
    /// The resources of a join of which no more is known.
    pub fn new(reservation: &'a dyn Memory, cancel: &'a CancelFlag, threads: Threads) -> Self {
        Self { reservation, cancel, threads, probes: None, kept: None }
    }

    /// `len` copies of a value, written by all threads, by whose bytes the reservation grows.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub fn filled<T: Copy + Send + Sync>(&self, len: usize, value: T) -> Result<Vec<T>> {
        self.reservation.try_grow(len.saturating_mul(size_of::<T>()))?;
        Ok(filled(self.threads, len, value))
    }
}

/// The rows that will probe a build collection. A piece of a join from disk is probed by the rows of
/// all segments in its reach.
#[derive(Debug, Clone, Default)]
pub struct Probes {
    /// Ranges of positions on the [`Axis`](super::Axis), and how many rows lie there.
    pub parts: Vec<(Range<u32>, u64)>,
}

impl Probes {
    /// The number of rows.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|(_, rows)| rows).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An algorithm for the joins of a family.
pub trait Strategy<J: 'static>: Debug + Send + Sync {
    /// The name in options and EXPLAIN. A strategy on GPUs has the name of the one on the CPU that finds its
    /// pairs in the same way.
    fn name(&self) -> &'static str;

    /// The opener of the devices that it runs on. Without one, it runs on the CPU.
    fn devices(&self) -> Option<&'static dyn DeviceOpener<J>> {
        None
    }

    /// The processor that it runs on.
    fn placement(&self) -> Placement {
        if self.devices().is_some() { Placement::Gpu } else { Placement::Cpu }
    }

    /// Whether it finds the [nearest partners](MatchSpec::nearest) of items in less time than all of them.
    fn finds_nearest(&self) -> bool {
        false
    }

    /// The cost of the join, and the parts that it chooses. Figures that other strategies need as well stay
    /// with the join.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    fn estimate(&self, join: &mut J, terms: &Terms<'_>) -> Result<Estimate>;

    /// Builds what all probe partitions share (an index, signatures, a device copy). A strategy on GPUs gets
    /// the place that [`Self::devices`] have opened.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled; an internal error where a strategy on GPUs gets no place.
    fn prepare(
        &self,
        join: &J,
        estimate: &Estimate,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>>;
}

/// The place of a strategy on GPUs, as its family knows it.
///
/// # Errors
///
/// An internal error where there is none, or one of another family.
pub fn required_place<P: DevicePlace>(place: Option<&Arc<dyn DevicePlace>>) -> Result<Arc<P>> {
    let place = place.ok_or_else(|| internal_error!("a strategy on GPUs has no device"))?;
    let place: Arc<dyn Any + Send + Sync> = Arc::clone(place) as _;
    place.downcast().map_err(|_| another_family::<P>())
}

/// A strategy as lists of all families name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StrategyInfo {
    name: &'static str,
    on_cpu: bool,
    on_gpu: bool,
}

impl StrategyInfo {
    /// The strategy's name and placements.
    pub fn of<J: 'static>(strategy: &dyn Strategy<J>) -> Self {
        let [on_cpu, on_gpu] =
            [Placement::Cpu, Placement::Gpu].map(|place| strategy.placement() == place);
        Self { name: strategy.name(), on_cpu, on_gpu }
    }

    /// The strategies of a family, in their order. Those of one name are one entry, which runs wherever one of
    /// them does.
    pub fn listed<J: 'static>(strategies: &[&[&'static dyn Strategy<J>]]) -> Vec<Self> {
        let mut infos: Vec<Self> = vec![];
        for info in strategies.iter().copied().flatten().map(|strategy| Self::of(*strategy)) {
            match infos.iter_mut().find(|known| known.name == info.name) {
                Some(known) => {
                    known.on_cpu |= info.on_cpu;
                    known.on_gpu |= info.on_gpu;
                }
                None => infos.push(info),
            }
        }
        infos
    }

    /// [`Strategy::name`].
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether a strategy of the name runs there.
    pub fn runs_on(&self, placement: Placement) -> bool {
        match placement {
            Placement::Cpu => self.on_cpu,
            Placement::Gpu => self.on_gpu,
        }
    }
}

/// The work for neighbouring items, from `start` on. A join has at most [`WorkStep::MOST`].
#[derive(Debug, Clone, Copy)]
pub struct WorkStep {
    pub start: ItemId,
    /// The number of items.
    pub items: u32,
    /// The work for the first item, and its growth from each item to the next, in about
    /// nanoseconds.
    pub first: u64,
    pub slope: u64,
}

impl WorkStep {
    /// With more, blocking keys keep partners few and the work of all items alike.
    pub const MOST: usize = 1 << 12;

    /// Equal work for each of `items` items.
    pub fn even(items: u32) -> Vec<Self> {
        vec![Self { start: 0, items, first: 1, slope: 0 }]
    }
}
