//! What all partitions of a join share on devices.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::DataFusionError;
use parking_lot::Mutex;

use crate::config::DeviceChoice;
use crate::engine::{DeviceRequest, MatchNeed, Pairing};
use crate::gpu::{Device, DeviceError};
use crate::set::Candidate;
use crate::set::JoinSpec;
use crate::set::device::abi::{Group, NarrowCandidate};
use crate::set::device::places::{OpenDevices, Place, Places};
use crate::set::device::{Capacities, Form, ResidentSets};
use crate::set::{SetCollection, SetId};

/// The least and the greatest bytes of candidates in a chunk. A partition pins three chunks or
/// more, each with several times these bytes; a few MiB keep a device busy.
const CHUNK_MEMORY: (u64, u64) = (256, 64 << 20);
/// Room for the required overlaps of a probe size (narrow candidates).
const TABLE: usize = (NarrowCandidate::MAX_SIZE as usize + 1) * size_of::<u32>();
/// Bytes of the sets of a gathered chunk, for each byte of candidates.
const GATHERED_PROBE: usize = 2;
const GATHERED_BUILD: usize = 8;

/// A join whose candidates are verified on one device or several.
#[derive(Debug)]
pub struct DeviceJoin {
    /// The devices, with the build sets where those fit.
    pub(crate) places: Places,
    /// The probe sets are the build sets: units are ranges of one collection.
    pub(crate) self_join: bool,
    /// Whether the query insists on the device.
    pub(crate) demanded: bool,
    /// The form of the kernels' answers.
    pub(crate) form: Form,
    /// Whether the row counts of sets travel with gathered sets.
    pub(crate) counts_rows: bool,
    /// Bytes of each device that the join may fill, its copy of the build sets included.
    pub(crate) memory: u64,
    /// Bytes of candidates in a chunk.
    chunk_memory: usize,
    /// Bytes of the largest build set: a chunk has room for it, whatever the limit.
    greatest_set: usize,
    /// The messages about devices that failed in mid-join.
    failures: Mutex<Vec<String>>,
    /// Whether a strategy cannot be had on the devices.
    pub(in crate::set) has_refused: AtomicBool,
    /// Whether host memory was refused.
    refused: AtomicBool,
    request: DeviceRequest,
}

impl fmt::Display for DeviceJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.places.fmt(f)
    }
}

impl DeviceJoin {
    /// Opens the devices that the request names, and brings the build side there if it fits:
    /// `cuda` names all that are visible, `auto` the first one.
    ///
    /// # Errors
    ///
    /// Where no device can be used.
    pub fn open(
        build: &SetCollection,
        spec: &JoinSpec,
        request: &DeviceRequest,
    ) -> Result<Arc<Self>, DeviceError> {
        Self::on(OpenDevices::open(request.choice)?, build, spec, request)
    }

    /// The same on devices that are open.
    ///
    /// # Errors
    ///
    /// Where none can be used.
    pub fn try_new(
        devices: Vec<Arc<Device>>,
        build: &SetCollection,
        spec: &JoinSpec,
        request: &DeviceRequest,
    ) -> Result<Arc<Self>, DeviceError> {
        Self::on(OpenDevices::from(devices), build, spec, request)
    }

    fn on(
        mut devices: OpenDevices,
        build: &SetCollection,
        spec: &JoinSpec,
        request: &DeviceRequest,
    ) -> Result<Arc<Self>, DeviceError> {
        let limits = devices.limits(spec.gpu.memory_limit, build)?;
        // A chunk may go to any device, so it suits the smallest.
        let limit = limits.into_iter().min().unwrap_or(0);
        // Half of the limit is enough for the chunks, with their matches and gathered sets.
        let chunk_share = 3 + GATHERED_PROBE as u64 + GATHERED_BUILD as u64;
        let chunk_memory =
            spec.gpu.candidate_memory.min(limit / 2 / (Device::SLOTS as u64 * chunk_share));
        let chunk_memory = chunk_memory.clamp(CHUNK_MEMORY.0, CHUNK_MEMORY.1);
        let count = spec.need == MatchNeed::Count;
        let counts_rows = count && !(request.self_join && build.has_no_repeats());
        let room = limit.saturating_sub(Device::SLOTS as u64 * chunk_share * chunk_memory);
        let places = devices.place(build, counts_rows, room)?;
        // The numbers of gathered sets do not tell whether a set meets itself.
        let numbered = places.are_resident() || spec.pairing == Pairing::All;
        Ok(Arc::new(Self {
            places,
            self_join: request.self_join,
            demanded: matches!(request.choice, DeviceChoice::Cuda(_)),
            form: if count && numbered { Form::Count } else { Form::Pairs },
            counts_rows,
            memory: limit,
            chunk_memory: chunk_memory as usize,
            greatest_set: build.runs().greatest_size() as usize * size_of::<u32>(),
            failures: Mutex::default(),
            has_refused: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            request: request.clone(),
        }))
    }

    /// Whether the devices hold the build sets.
    pub(crate) fn has_build(&self) -> bool {
        self.places.are_resident()
    }

    /// Whether they hold the probe sets.
    pub(crate) fn has_probe(&self) -> bool {
        self.self_join && self.has_build()
    }

    /// Whether nothing more should be sent: no device is left.
    pub(crate) fn has_failed(&self) -> bool {
        self.places.have_failed()
    }

    /// Notes that a device failed. Its chunks go to another device from now on, or to the CPU.
    pub(crate) fn note_failure(&self, place: usize, error: &DeviceError) {
        let (first, all) = self.places.note_failure(place);
        // A query that insists on devices ends with the error of the last device.
        if !first || all && self.demanded {
            return;
        }
        let ordinal = self.places.get(place).map_or(0, |place| place.device.ordinal());
        let mut failures = self.failures.lock();
        failures.push(match all {
            true => format!("then cpu: {error}"),
            false => format!("then without cuda:{ordinal}: {error}"),
        });
        (self.request.on_failure)(failures.join(", "));
    }

    /// Notes that `what` does not fit on the devices, which have not failed. A query that insists on
    /// devices has them verify; otherwise another strategy may do.
    pub(crate) fn note_unfit(&self, what: &str, error: &DeviceError) {
        (self.request.on_failure)(format!("without {what}: {error}"));
        self.refuse();
    }

    /// Notes that a strategy cannot be had on the devices.
    fn refuse(&self) {
        self.has_refused.store(!self.demanded, Ordering::Relaxed);
    }

    /// Makes something of the build sets on every device that holds them, by place of the join. A
    /// device that fails to is left out.
    ///
    /// # Errors
    ///
    /// Where all fail.
    pub(crate) fn on_each<T>(
        &self,
        make: impl Fn(&Place, ResidentSets) -> Result<T, DeviceError>,
    ) -> Result<Vec<Option<T>>, DeviceError> {
        let mut outcome = Err(DeviceError::NoDevice);
        let mut all = vec![];
        for number in 0..self.places.len() {
            let place = self.places.get(number);
            let held = place.and_then(|place| Some((place, place.build.clone()?)));
            let made = held.ok_or(DeviceError::NoDevice);
            match made.and_then(|(place, sets)| make(place, sets)) {
                Ok(made) => {
                    all.push(Some(made));
                    outcome = Ok(());
                }
                Err(error) => {
                    all.push(None);
                    self.note_failure(number, &error);
                    outcome = outcome.or(Err(error));
                }
            }
        }
        if outcome.is_err() {
            self.refuse();
        }
        outcome.map(|()| all)
    }

    /// Notes that a partition got no memory to fill chunks in; it verifies on the CPU until it
    /// does.
    pub(crate) fn note_refusal(&self, error: &DataFusionError) {
        if !self.refused.swap(true, Ordering::Relaxed) && !self.has_failed() {
            let text = error.to_string();
            // Consumers of memory follow, a line each.
            let what = text.lines().next().unwrap_or_default();
            (self.request.on_failure)(format!("partly cpu: {what}"));
        }
    }

    /// The most candidates that fit into a chunk of either kind.
    pub fn chunk_capacity(&self) -> usize {
        self.chunk_candidates(true)
    }

    /// The candidates of a chunk.
    pub(crate) fn chunk_candidates(&self, wide: bool) -> usize {
        let size = if wide { size_of::<Candidate>() } else { size_of::<NarrowCandidate>() };
        (self.chunk_memory / size).max(1)
    }

    /// The most bytes that a pack of either width takes: pinned memory, and the notes about
    /// gathered sets.
    pub(crate) fn pack_bytes(&self) -> Result<usize, DeviceError> {
        let of = |wide: bool| {
            let noted = match self.has_build() {
                true => 0,
                // A hash table of pairs of numbers, half full after it has grown, and a list.
                false => self.chunk_candidates(wide) * (2 * 9 + 2 * size_of::<SetId>()),
            };
            self.capacities(wide).bytes()?.checked_add(noted)
        };
        match (of(false), of(true)) {
            (Some(narrow), Some(wide)) => Ok(narrow.max(wide)),
            _ => Err(DeviceError::HostOutOfMemory { bytes: u64::MAX }),
        }
    }

    /// The room of a chunk. Candidates lie in few groups: a group holds candidates of one probe
    /// set.
    pub(crate) fn capacities(&self, wide: bool) -> Capacities {
        let candidates = self.chunk_candidates(wide);
        let groups = (candidates / 4).max(2);
        let gathers_probe = !self.has_probe();
        let gathers_build = !self.has_build();
        let tokens = |gathers: bool, share: usize| {
            if gathers { (share * self.chunk_memory).max(self.greatest_set) } else { 0 }
        };
        let sets = |gathers: bool, number: usize| if gathers { number } else { 0 };
        let rows = |sets: usize| if self.counts_rows { sets * size_of::<u32>() } else { 0 };
        let (probes, builds) = (sets(gathers_probe, groups), sets(gathers_build, candidates));
        let offsets = |sets: usize| if sets > 0 { (sets + 1) * size_of::<u64>() } else { 0 };
        Capacities {
            groups: (groups + 1) * size_of::<Group>(),
            candidates: match wide {
                true => candidates * size_of::<Candidate>(),
                false => candidates * size_of::<NarrowCandidate>(),
            },
            required: if wide { 0 } else { TABLE.max(self.chunk_memory / 8) },
            probe_tokens: tokens(gathers_probe, GATHERED_PROBE),
            probe_offsets: offsets(probes),
            probe_rows: rows(probes),
            build_tokens: tokens(gathers_build, GATHERED_BUILD),
            build_offsets: offsets(builds),
            build_rows: rows(builds),
            matches: match self.form {
                Form::Pairs => candidates * size_of::<crate::engine::Match>(),
                Form::Count => 0,
            },
        }
    }
}
