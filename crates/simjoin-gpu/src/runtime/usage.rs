//! The times and bytes of a work on its device.

/// The use that a work made of its device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub times: Times,
    pub bytes_to_device: u64,
    pub bytes_from_device: u64,
}

/// The parts of the time of a work. Times on the device leave out the time in which the device did earlier
/// works, so that their sums are the times for which its engines were busy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    pub to_device_nanos: u64,
    pub kernel_nanos: u64,
    pub from_device_nanos: u64,
    /// From [`Device::submit`](crate::runtime::Device::submit) until the work was issued.
    pub queued_nanos: u64,
    /// Device idle time before this work, across all joins.
    pub idle_nanos: u64,
}
