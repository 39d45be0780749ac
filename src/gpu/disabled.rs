//! Stands in for devices in a build without the feature `cuda`: there are none.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::gpu::{DeviceError, DeviceWork, Grid, Images, Pod};

type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// A CUDA device, of which this build has none.
#[derive(Debug)]
pub struct Device(Infallible);

impl Device {
    /// Works at once on a device, a divisor of its memory. No work is ever started.
    pub const SLOTS: usize = 1;

    /// An error.
    pub fn count() -> Result<u32> {
        Err(DeviceError::NotBuilt)
    }

    /// An error.
    pub fn open(_: u32) -> Result<Arc<Self>> {
        Err(DeviceError::NotBuilt)
    }

    /// The device if it is open and not lost.
    pub fn opened(_: u32) -> Option<Arc<Self>> {
        None
    }

    /// There is none.
    pub fn time_to_begin(_: u32) -> Option<Duration> {
        None
    }

    /// Forgets the device, which gives all its memory back at the end of its last query.
    pub fn close(_: u32) {}

    /// The number of the device, as CUDA counts them.
    pub fn ordinal(&self) -> u32 {
        match self.0 {}
    }

    /// As the driver calls it.
    pub fn name(&self) -> &str {
        match self.0 {}
    }

    /// The compute capability, major and minor.
    pub fn capability(&self) -> (i32, i32) {
        match self.0 {}
    }

    /// How many multiprocessors the device has.
    pub fn multiprocessors(&self) -> u32 {
        match self.0 {}
    }

    /// The memory of the device, in bytes.
    pub fn total_memory(&self) -> u64 {
        match self.0 {}
    }

    /// The free memory of the device, in bytes.
    pub fn free_memory(&self) -> Result<u64> {
        match self.0 {}
    }

    /// Whether the device has failed for good.
    pub fn is_lost(&self) -> bool {
        match self.0 {}
    }

    /// As with the feature `cuda`.
    pub fn load(&self, _: &'static Images) -> Result<()> {
        match self.0 {}
    }

    /// As with the feature `cuda`.
    pub fn resident(
        &self,
        _: &'static str,
        _: u64,
        _: impl FnOnce(&mut Upload<'_>) -> Result<()>,
    ) -> Result<Resident> {
        match self.0 {}
    }

    /// Whether the memory is that of this device, as it was opened.
    pub fn has(&self, _: &Resident) -> bool {
        match self.0 {}
    }

    /// As with the feature `cuda`.
    pub fn pinned(&self, _: usize) -> Result<PinnedBuffer> {
        match self.0 {}
    }

    /// As with the feature `cuda`.
    pub fn submit(&self, _: Box<dyn DeviceWork>) {
        match self.0 {}
    }

    /// Works submitted and not answered, across all joins.
    pub fn pending(&self) -> usize {
        match self.0 {}
    }

    /// Frees the memory that is only kept for the next works, on the device and pinned.
    pub fn trim(&self) {
        match self.0 {}
    }
}

/// Memory of a device that stays.
#[derive(Debug)]
pub struct Resident(Infallible);

impl Resident {
    pub fn address(&self) -> u64 {
        match self.0 {}
    }

    pub fn bytes(&self) -> u64 {
        match self.0 {}
    }

    pub fn is_lost(&self) -> bool {
        match self.0 {}
    }
}

/// Fills memory on a device.
#[derive(Debug)]
pub struct Upload<'a>(Infallible, PhantomData<&'a ()>);

impl Upload<'_> {
    pub fn copy<T: Pod>(&mut self, _: u64, _: &[T]) -> Result<()> {
        match self.0 {}
    }

    pub fn copy_each<T: Pod>(&mut self, _: u64, _: usize, _: impl Fn(usize) -> T) -> Result<()> {
        match self.0 {}
    }

    pub fn copy_filled<T: Pod>(
        &mut self,
        _: u64,
        _: usize,
        _: impl Fn(Range<usize>, &mut [T]),
    ) -> Result<()> {
        match self.0 {}
    }
}

/// Pinned host memory, of which there is none.
#[derive(Debug)]
pub struct PinnedBuffer(Infallible);

impl PinnedBuffer {
    pub fn start(&self) -> NonNull<u8> {
        match self.0 {}
    }

    pub fn bytes(&self) -> usize {
        match self.0 {}
    }

    pub fn is_lost(&self) -> bool {
        match self.0 {}
    }
}

// As the real one has: a caller that drops pinned memory means it in either build.
impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        match self.0 {}
    }
}

/// A kernel of a program that is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Kernel(Infallible);

impl Kernel {
    pub fn shared_words(&self) -> u32 {
        match self.0 {}
    }
}

/// Where a work issues its copies and kernels.
#[derive(Debug)]
pub struct Stage<'a>(Infallible, PhantomData<&'a ()>);

impl Stage<'_> {
    pub fn reserve(&mut self, _: &'static str, _: u64) -> Result<u64> {
        match self.0 {}
    }

    /// # Safety
    ///
    /// There is no stage.
    pub unsafe fn copy(&mut self, _: u64, _: &[u8]) -> Result<()> {
        match self.0 {}
    }

    pub fn clear(&mut self, _: u64, _: usize) -> Result<()> {
        match self.0 {}
    }

    pub fn kernel(&self, _: &'static Images, _: &'static str) -> Result<Kernel> {
        match self.0 {}
    }

    pub fn has(&self, _: &Resident) -> bool {
        match self.0 {}
    }

    /// # Safety
    ///
    /// There is no stage.
    pub unsafe fn launch<A: Copy>(&mut self, _: Kernel, _: Grid, _: A) -> Result<()> {
        match self.0 {}
    }

    pub fn note(&mut self, _: u64, _: usize) -> Result<()> {
        match self.0 {}
    }
}

/// The results of a work on the device.
#[derive(Debug)]
pub struct Results<'a>(Infallible, PhantomData<&'a ()>);

impl Results<'_> {
    pub fn note<T: Pod>(&self) -> Result<T> {
        match self.0 {}
    }

    pub fn fetch<T: Pod>(&mut self, _: u64, _: &mut [MaybeUninit<T>]) -> Result<()> {
        match self.0 {}
    }
}
