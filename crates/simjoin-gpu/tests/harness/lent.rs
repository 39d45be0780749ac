//! A device for one test.

use std::sync::Arc;

use simjoin_gpu::runtime::{Device, DeviceError};

use crate::emulator::{self, Emulator, Gpu, gpu};

/// A device that this test has for itself, closed afterwards.
pub(crate) struct Lent {
    pub device: Option<emulator::Device>,
    pub ordinal: u32,
}

impl Lent {
    /// `None` where there is neither a GPU nor an emulator.
    pub(crate) fn new() -> Option<Self> {
        let device = match gpu()? {
            Gpu::Real => None,
            Gpu::Emulated(emulator) => Some(emulator.device()),
        };
        let ordinal = device.as_ref().map_or(0, emulator::Device::ordinal);
        Some(Self { device, ordinal })
    }

    /// `None` unless the device is emulated.
    pub(crate) fn emulated() -> Option<Self> {
        Emulator::get()?;
        Self::new()
    }

    pub(crate) fn fake(&self) -> &emulator::Device {
        self.device.as_ref().expect("an emulated device")
    }

    pub(crate) fn open(&self) -> Result<Arc<Device>, DeviceError> {
        Device::open(self.ordinal)
    }

    /// Asserts that no work is pending. Other tests use a real GPU at the same time.
    pub(crate) fn expect_idle(&self, device: &Device) {
        if self.device.is_some() {
            assert_eq!(device.pending(), 0);
        }
    }

    /// Asserts what the works of `device` may tell after one call of `function` has failed: one
    /// error at most, unless the device is lost; a loss only where the device is lost.
    pub(crate) fn expect_one_failure(
        &self,
        device: &Device,
        function: &str,
        errors: &[&DeviceError],
    ) {
        let lost = device.is_lost();
        // A thread that cannot make the context current cannot tell why.
        let told = self.fake().stat("lost") != 0;
        assert!(lost == told || function == "cuCtxSetCurrent" && lost, "{function}: {errors:?}");
        // The loss may show first where something is given back.
        let tell_loss = errors.iter().any(|error| matches!(error, DeviceError::Lost { .. }));
        assert!(lost || !tell_loss && errors.len() <= 1, "{function}: {errors:?}");
    }

    /// Waits until nothing is left on the device or pinned for it, once all users have let go.
    pub(crate) fn expect_nothing_left(&self) {
        match &self.device {
            Some(device) => device.expect_nothing_left(Device::close, "closed"),
            None => Device::close(self.ordinal),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        Device::close(self.ordinal);
    }
}
