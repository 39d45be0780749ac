//! Devices that verify candidates.

use std::sync::Arc;

use simjoin_core::engine::{MatchNeed, Pairing};
use simjoin_core::set::runs::SetId;
use simjoin_core::set::{Candidate, JoinSpec, SetCollection};
use simjoin_gpu::runtime::DeviceError;
use simjoin_gpu::set::device::DeviceJoin;

use super::abi::{Group, NarrowCandidate};
use super::launch::VERIFY;
use super::{Capacities, Form, Staging};

/// Room for the required overlaps of a probe size (narrow candidates).
const TABLE: usize = (NarrowCandidate::MAX_SIZE as usize + 1) * size_of::<u32>();
/// Bytes of the sets of a gathered chunk, for each byte of candidates. [`DeviceJoin::candidate_memory`] leaves room
/// for both.
const GATHERED_PROBE: usize = 2;
const GATHERED_BUILD: usize = 8;

/// The devices of a join that verify its candidates, in chunks.
#[derive(Debug)]
pub(super) struct VerifyingDevices {
    pub join: Arc<DeviceJoin>,
    /// The form of the kernels' answers.
    pub form: Form,
    /// Bytes of candidates in a chunk.
    chunk_memory: usize,
    /// Bytes of the largest build set: a chunk has room for it, whatever the limit.
    greatest_set: usize,
}

impl VerifyingDevices {
    /// The devices of a join with `build`, which load the kernels.
    ///
    /// # Errors
    ///
    /// Where no device can.
    pub(super) fn new(
        join: &Arc<DeviceJoin>,
        build: &SetCollection,
        spec: &JoinSpec,
    ) -> Result<Self, DeviceError> {
        join.devices.on_each(|_, device| device.load(&VERIFY))?;
        // The numbers of gathered sets do not tell whether a set meets itself.
        let numbered = join.has_build() || spec.pairing == Pairing::All;
        let counts = spec.need == MatchNeed::Count && numbered;
        Ok(Self {
            join: Arc::clone(join),
            form: if counts { Form::Count } else { Form::Pairs },
            chunk_memory: join.candidate_memory as usize,
            greatest_set: build.runs().greatest_size() as usize * size_of::<u32>(),
        })
    }

    /// An empty chunk in memory that some device has pinned (all devices of a host can copy it), or in
    /// other memory where none can.
    ///
    /// # Errors
    ///
    /// Where it takes more than the address space.
    pub(super) fn staging(&self, wide: bool) -> Result<Staging, DeviceError> {
        let capacities = self.capacities(wide);
        let devices = self.join.devices.by_queue(0);
        let pinned = devices.iter().find_map(|(_, device)| Staging::pin(device, &capacities).ok());
        pinned.map_or_else(|| Staging::on_heap(&capacities), Ok)
    }

    /// The candidates of a chunk.
    pub(super) fn chunk_candidates(&self, wide: bool) -> usize {
        let size = if wide { size_of::<Candidate>() } else { size_of::<NarrowCandidate>() };
        (self.chunk_memory / size).max(1)
    }

    /// The most bytes that a pack of either width takes: pinned memory, and the notes about
    /// gathered sets.
    pub(super) fn pack_bytes(&self) -> usize {
        let of = |wide: bool| {
            let noted = match self.join.has_build() {
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
    pub(super) fn capacities(&self, wide: bool) -> Capacities {
        let candidates = self.chunk_candidates(wide);
        let groups = (candidates / 4).max(2);
        let gathers_probe = !self.join.has_probe();
        let gathers_build = !self.join.has_build();
        let tokens = |gathers: bool, share: usize| {
            if gathers { (share * self.chunk_memory).max(self.greatest_set) } else { 0 }
        };
        let sets = |gathers: bool, number: usize| if gathers { number } else { 0 };
        let rows = |sets: usize| if self.join.counts_rows { sets * size_of::<u32>() } else { 0 };
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
