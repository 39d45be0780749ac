//! A GPU for some of the sessions: that of the machine, or an emulated one.

/// Where candidates are verified, in the words of `simjoin.device`.
pub struct VerifiedOn {
    pub option: String,
    /// Keeps an emulated device from other tests.
    #[cfg(unix)]
    _lease: Option<crate::emulator::Device>,
}

impl VerifiedOn {
    #[cfg(unix)]
    pub fn new() -> Option<Self> {
        use crate::emulator::{Device, Gpu, gpu};
        let lease = match gpu()? {
            Gpu::Real => None,
            Gpu::Emulated(emulator) => Some(emulator.device()),
        };
        let ordinal = lease.as_ref().map_or(0, Device::ordinal);
        Some(Self { option: format!("cuda:{ordinal}"), _lease: lease })
    }

    #[cfg(not(unix))]
    pub fn new() -> Option<Self> {
        None
    }
}
