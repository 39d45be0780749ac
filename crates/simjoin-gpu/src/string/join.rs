//! The devices of a join of texts.

use std::sync::Arc;

use simjoin_core::string::collection::Strings;
use simjoin_core::string::finder::counts_as_lanes;
use simjoin_core::string::threshold::Threshold;

use crate::engine::{DeviceRequest, MatchNeed, MatchSpec, Pairing};
use crate::offload::tiles::capacity;
use crate::offload::{Devices, OpenDevices, device_place};
use crate::runtime::{Device, DeviceError};
use crate::string::columns::{PackedColumns, TEXTS};
use crate::string::packed::word_count;
use crate::string::work::{JobSettings, TextForm};

/// Matches that a work has room for, at most.
const MOST_MATCHES: u32 = 1 << 22;

/// The devices of a join, which have room for the texts of its build side.
#[derive(Debug)]
pub(super) struct StringDevices {
    pub(super) devices: Arc<Devices>,
    pub(super) settings: JobSettings,
}

device_place!(StringDevices);

impl StringDevices {
    /// Opens the devices that the request names.
    ///
    /// # Errors
    ///
    /// Where no device can be used, or the build side does not fit.
    pub(super) fn open(
        build: &Strings,
        threshold: Threshold,
        spec: &MatchSpec,
        request: &DeviceRequest,
    ) -> Result<Arc<Self>, DeviceError> {
        OpenDevices::open(request, &spec.gpu, |open| {
            Self::on(open, build, (threshold, spec), request)
        })
    }

    /// The join on devices that are open.
    ///
    /// # Errors
    ///
    /// Where none can be used, or the build side does not fit.
    pub(super) fn on(
        mut open: OpenDevices,
        build: &Strings,
        (threshold, spec): (Threshold, &MatchSpec),
        request: &DeviceRequest,
    ) -> Result<Arc<Self>, DeviceError> {
        open.load(&TEXTS)?;
        let limits = open.limits(spec.gpu.memory_limit, |_| 0)?;
        // A work may go to any device, so it suits the smallest.
        let memory = limits.into_iter().min().unwrap_or(0);
        let settings = JobSettings {
            form: TextForm {
                decides: counts_as_lanes(threshold.function),
                unordered: spec.pairing() == Pairing::Unordered,
            },
            capacity: capacity(memory, spec.gpu.candidate_memory, 1).min(MOST_MATCHES),
            dense_pairs: 0,
            counts: spec.need == MatchNeed::Count,
            first_only: spec.need == MatchNeed::Exists,
            same: false,
        };
        let works = Device::SLOTS as u64 * settings.buffer_bytes();
        let words = word_count(build, 0..build.len());
        let bytes = PackedColumns::bytes_of(build.len(), words).saturating_add(works);
        if bytes > memory || u32::try_from(words).is_err() {
            return Err(DeviceError::OutOfMemory {
                what: "the texts of the join",
                bytes,
                free: memory,
            });
        }
        let devices = Arc::new(Devices::new(open, memory, None, request));
        Ok(Arc::new(Self { devices, settings }))
    }
}
