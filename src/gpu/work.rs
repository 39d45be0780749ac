//! Work for a device, and its answers.

use std::fmt::Debug;

use crate::gpu::{DeviceError, Results, Stage};

/// Work for the queue of a device. Any number of types share one queue.
///
/// The queue calls `issue`, then `finish`, then `answer`, each on a thread of its own; `answer`
/// comes last and exactly once, whatever fails before. A panic in `issue` or `finish` is the
/// answer to that work alone.
pub trait DeviceWork: Debug + Send {
    /// Issues copies and kernels without waiting for any of them. The launcher calls it in the
    /// order of submission. Work that issues nothing is answered at once, without `finish`.
    ///
    /// # Errors
    ///
    /// After [`DeviceError::OutOfMemory`] the queue frees idle memory, waits for other work to end
    /// and calls `issue` again; the error is the answer where nothing else holds memory. Any other
    /// error is the answer.
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError>;

    /// Takes the results, once everything that was issued has passed. The collector calls it in
    /// the order of submission.
    ///
    /// # Errors
    ///
    /// An error is the answer.
    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError>;

    /// Takes the answer. Nothing of the work is under way any more. It must not block: all other
    /// work waits meanwhile.
    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>);
}

/// The use that a work made of its device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub times: Times,
    pub bytes_to_device: u64,
    pub bytes_from_device: u64,
}

/// Where the time of a work went. The times on the device leave out those in which it worked for
/// earlier work, so that their sums are the times for which its engines were busy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    pub to_device_nanos: u64,
    pub kernel_nanos: u64,
    pub from_device_nanos: u64,
    /// From [`Device::submit`](crate::gpu::Device::submit) until the work was issued.
    pub queued_nanos: u64,
    /// Device idle time before this work, across all joins.
    pub idle_nanos: u64,
}

/// The threads of a launch, in one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in words of 4 bytes.
    pub shared_words: u32,
}

/// Plain data: without padding, and any bits are a value.
///
/// # Safety
///
/// The type has no padding, any bits are a value of it, and its alignment divides 256.
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

// SAFETY: no bytes.
unsafe impl Pod for () {}
// SAFETY: floating-point numbers.
unsafe impl Pod for f32 {}
// SAFETY: as above.
unsafe impl Pod for f64 {}
// SAFETY: integers.
unsafe impl Pod for u8 {}
// SAFETY: as above.
unsafe impl Pod for u32 {}
// SAFETY: as above.
unsafe impl Pod for u64 {}
