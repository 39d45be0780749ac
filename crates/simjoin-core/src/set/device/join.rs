//! The state that all partitions of a join share on devices.

use std::fmt;
use std::sync::Arc;

use crate::engine::{DeviceRequest, MatchNeed, Pairing};
use crate::gpu::{Device, DeviceError};
use crate::offload::{Devices, OpenDevices};
use crate::set::candidates::Candidate;
use crate::set::collection::SetCollection;
use crate::set::device::abi::{Group, NarrowCandidate};
use crate::set::device::launch::VERIFY;
use crate::set::device::{Capacities, Form, ResidentSets, Staging};
use crate::set::join_spec::JoinSpec;
use crate::set::runs::SetId;

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
    /// The devices.
    pub devices: Arc<Devices>,
    /// By device: the build sets on it. Without them they travel with the candidates. All devices
    /// hold them, or none does: so a chunk suits every device.
    builds: Vec<Option<ResidentSets>>,
    /// The form of the kernels' answers.
    pub form: Form,
    /// Whether the row counts of sets travel with gathered sets.
    pub(crate) counts_rows: bool,
    /// Bytes of candidates in a chunk.
    chunk_memory: usize,
    /// Bytes of the largest build set: a chunk has room for it, whatever the limit.
    greatest_set: usize,
}

impl fmt::Display for DeviceJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.devices.fmt(f)
    }
}

impl DeviceJoin {
    /// Opens the devices that the request names, and brings the build side there if it fits.
    ///
    /// # Errors
    ///
    /// Where no device can be used.
    pub fn open(
        build: &SetCollection,
        spec: &JoinSpec,
        request: &DeviceRequest,
    ) -> Result<Arc<Self>, DeviceError> {
        OpenDevices::open(request, &spec.gpu, |open| Self::on(open, build, spec, request))
    }

    /// The join on devices that are open.
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
        mut open: OpenDevices,
        build: &SetCollection,
        spec: &JoinSpec,
        request: &DeviceRequest,
    ) -> Result<Arc<Self>, DeviceError> {
        let there = |device: &Device| ResidentSets::bytes_on(device, build);
        let limits = open.limits(&VERIFY, spec.gpu.memory_limit, there)?;
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
        let fits = ResidentSets::bytes_of(build, counts_rows) <= room;
        let builds = open.place("the sets", |device| match fits {
            true => ResidentSets::on(device, build, counts_rows).map(Some),
            false => Ok(None),
        })?;
        let resident = builds.iter().any(Option::is_some);
        let remark = (!resident).then_some("sets travel with candidates");
        // The numbers of gathered sets do not tell whether a set meets itself.
        let numbered = resident || spec.pairing == Pairing::All;
        Ok(Arc::new(Self {
            devices: Arc::new(Devices::new(open, limit, remark, request)),
            builds,
            form: if count && numbered { Form::Count } else { Form::Pairs },
            counts_rows,
            chunk_memory: chunk_memory as usize,
            greatest_set: build.runs().greatest_size() as usize * size_of::<u32>(),
        }))
    }

    /// Whether the devices hold the build sets.
    pub(crate) fn has_build(&self) -> bool {
        self.builds.iter().any(Option::is_some)
    }

    /// Whether they hold the probe sets.
    pub(crate) fn has_probe(&self) -> bool {
        self.devices.self_join && self.has_build()
    }

    /// The build sets on a device, where they are there.
    pub(crate) fn build_on(&self, number: usize) -> Option<&ResidentSets> {
        self.builds.get(number)?.as_ref()
    }

    /// Makes something of the build sets on every device that holds them, by its number. A device
    /// that fails to is left out.
    ///
    /// # Errors
    ///
    /// Where all fail.
    pub(crate) fn on_each<T: Send>(
        &self,
        make: impl Fn(&Arc<Device>, ResidentSets) -> Result<T, DeviceError> + Sync,
    ) -> Result<Vec<Option<T>>, DeviceError> {
        self.devices.on_each(|number, device| {
            let sets = self.build_on(number).ok_or(DeviceError::NoDevice)?;
            make(device, sets.clone())
        })
    }

    /// An empty chunk in memory that some device has pinned (all devices of a host can copy it), or in
    /// other memory where none can.
    ///
    /// # Errors
    ///
    /// Where it takes more than the address space.
    pub fn staging(&self, wide: bool) -> Result<Staging, DeviceError> {
        let capacities = self.capacities(wide);
        let devices = self.devices.by_queue(0);
        let pinned = devices.iter().find_map(|(_, device)| Staging::pin(device, &capacities).ok());
        pinned.map_or_else(|| Staging::on_heap(&capacities), Ok)
    }

    /// The candidates of a chunk.
    pub(crate) fn chunk_candidates(&self, wide: bool) -> usize {
        let size = if wide { size_of::<Candidate>() } else { size_of::<NarrowCandidate>() };
        (self.chunk_memory / size).max(1)
    }

    /// The most bytes that a pack of either width takes: pinned memory, and the notes about
    /// gathered sets.
    pub(crate) fn pack_bytes(&self) -> usize {
        let of = |wide: bool| {
            let noted = match self.has_build() {
                true => 0,
                // A hash table of pairs of numbers, half full after it has grown, and a list.
                false => self.chunk_candidates(wide) * (2 * 9 + 2 * size_of::<SetId>()),
            };
            self.capacities(wide).bytes().map_or(usize::MAX, |bytes| bytes.saturating_add(noted))
        };
        of(false).max(of(true))
    }

    /// The room of a chunk. Candidates lie in few groups: a group holds candidates of one probe
    /// set.
    pub fn capacities(&self, wide: bool) -> Capacities {
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
        }
    }
}
