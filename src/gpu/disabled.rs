//! Stands in for devices in a build without the feature `cuda`: there are none.

use std::convert::Infallible;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::gpu::abi::Sets;
use crate::gpu::{Capacities, DeviceError, Job, Staging};
use crate::set::SetCollection;

/// A CUDA device, of which this build has none.
#[derive(Debug)]
pub struct Device(Infallible);

impl Device {
    pub const SLOTS: usize = 0;

    /// An error.
    pub fn count() -> Result<u32, DeviceError> {
        Err(DeviceError::NotBuilt)
    }

    /// An error.
    pub fn open(_: u32) -> Result<Arc<Self>, DeviceError> {
        Err(DeviceError::NotBuilt)
    }

    pub fn opened(_: u32) -> Option<Arc<Self>> {
        None
    }

    pub fn close(_: u32) {}

    pub fn ordinal(&self) -> u32 {
        match self.0 {}
    }

    pub fn name(&self) -> &str {
        match self.0 {}
    }

    pub fn capability(&self) -> (i32, i32) {
        match self.0 {}
    }

    pub fn multiprocessors(&self) -> u32 {
        match self.0 {}
    }

    pub fn total_memory(&self) -> u64 {
        match self.0 {}
    }

    pub fn free_memory(&self) -> Result<u64, DeviceError> {
        match self.0 {}
    }

    pub fn is_lost(&self) -> bool {
        match self.0 {}
    }

    pub fn upload(&self, _: &SetCollection, _: bool) -> Result<ResidentSets, DeviceError> {
        match self.0 {}
    }

    pub fn staging(&self, _: Capacities) -> Result<Staging, DeviceError> {
        match self.0 {}
    }

    pub fn submit(&self, _: Job) {
        match self.0 {}
    }

    pub fn trim(&self) {
        match self.0 {}
    }
}

/// Sets in the memory of a device.
#[derive(Debug)]
pub struct ResidentSets(Infallible);

impl ResidentSets {
    pub fn bytes_of(_: &SetCollection, _: bool) -> u64 {
        0
    }

    pub fn sets(&self) -> Sets {
        match self.0 {}
    }

    pub fn rows(&self) -> u64 {
        match self.0 {}
    }

    pub fn bytes(&self) -> u64 {
        match self.0 {}
    }
}

/// Pinned host memory, of which there is none.
#[derive(Debug)]
#[allow(dead_code)]
pub struct PinnedBuffer(Infallible);

#[allow(dead_code)]
impl PinnedBuffer {
    pub fn start(&self) -> NonNull<u8> {
        match self.0 {}
    }

    pub fn bytes(&self) -> usize {
        match self.0 {}
    }
}

// As the real one has: who drops a chunk means it in either build.
impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        match self.0 {}
    }
}
