//! The state that all partitions of a join share on devices.

use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::join::SetJoin;
use simjoin_core::set::join_spec::JoinSpec;

use crate::engine::{DeviceRequest, MatchNeed};
use crate::offload::{Devices, OpenDevices, Opener, device_place};
use crate::runtime::{Device, DeviceError};
use crate::set::device::ResidentSets;

/// The least and the greatest bytes of candidates of a work; a few MiB keep a device busy.
const CANDIDATE_MEMORY: (u64, u64) = (256, 64 << 20);
/// Bytes of a work for each byte of candidates: these, their matches, and sets that travel.
const WORK_SHARE: u64 = 13;

/// The devices of a join of sets, one or several, with the build sets.
#[derive(Debug)]
pub struct DeviceJoin {
    /// The devices.
    pub devices: Arc<Devices>,
    /// By device: the build sets on it. Without them they travel with works. All devices hold them, or none
    /// does: so a work suits every device.
    builds: Vec<Option<ResidentSets>>,
    /// Whether matches are counted by the numbers of rows of their sets.
    pub counts_rows: bool,
    /// Bytes of candidates for which works have room, beside the sets: half of the limit at most.
    pub candidate_memory: u64,
}

device_place!(DeviceJoin);

/// Opens the devices of joins of sets.
pub static OPENER: Opener<SetJoin> =
    Opener(|join, request| Ok(DeviceJoin::open(&join.build, &join.spec, request)?));

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
        let limits = open.limits(spec.gpu.memory_limit, there)?;
        // A work may go to any device, so it suits the smallest.
        let limit = limits.into_iter().min().unwrap_or(0);
        let counts_rows =
            spec.need == MatchNeed::Count && !(request.self_join && build.has_no_repeats());
        let most = limit / 2 / (Device::SLOTS as u64 * WORK_SHARE);
        let candidate_memory =
            spec.gpu.candidate_memory.min(most).clamp(CANDIDATE_MEMORY.0, CANDIDATE_MEMORY.1);
        let works = Device::SLOTS as u64 * WORK_SHARE * candidate_memory;
        let fits = ResidentSets::bytes_of(build, counts_rows) <= limit.saturating_sub(works);
        let builds = open.place("the sets", |device| match fits {
            true => ResidentSets::on(device, build, counts_rows).map(Some),
            false => Ok(None),
        })?;
        let resident = builds.iter().any(Option::is_some);
        let remark = (!resident).then_some("sets travel with candidates");
        let devices = Arc::new(Devices::new(open, limit, remark, request));
        Ok(Arc::new(Self { devices, builds, counts_rows, candidate_memory }))
    }

    /// Whether the devices hold the build sets.
    pub fn has_build(&self) -> bool {
        self.builds.iter().any(Option::is_some)
    }

    /// Whether they hold the probe sets.
    pub fn has_probe(&self) -> bool {
        self.devices.self_join && self.has_build()
    }

    /// The build sets on a device, where they are there.
    pub fn build_on(&self, number: usize) -> Option<&ResidentSets> {
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
}
