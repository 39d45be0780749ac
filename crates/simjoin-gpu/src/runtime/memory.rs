//! Memory of devices, and host memory that they copy by themselves.

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{result, sys};
use parking_lot::Mutex;

use crate::runtime::DeviceError;
use crate::runtime::driver::{Context, OUT_OF_MEMORY, Result};
use crate::runtime::start;

/// A piece of device memory, freed when it is dropped.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    context: Arc<Context>,
    address: sys::CUdeviceptr,
    bytes: u64,
}

impl DeviceBuffer {
    /// Allocates uninitialised memory for `what` (a plural, for the error). The context is
    /// current.
    pub(super) fn new(context: &Arc<Context>, what: &'static str, bytes: u64) -> Result<Self> {
        let out_of_memory = || {
            let free = context.free_memory().unwrap_or(0);
            DeviceError::OutOfMemory { what, bytes, free }
        };
        // The driver refuses to allocate nothing.
        let bytes = bytes.max(1);
        let size = usize::try_from(bytes).map_err(|_| out_of_memory())?;
        // SAFETY: the context is current.
        let address = unsafe { result::malloc_sync(size) };
        match context.check("cuMemAlloc", address) {
            Ok(address) => Ok(Self { context: Arc::clone(context), address, bytes }),
            Err(DeviceError::Failed { code: OUT_OF_MEMORY, .. }) => Err(out_of_memory()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: this is the only owner; the driver ends its uses first.
        self.context.release("cuMemFree", || unsafe { result::free_sync(self.address) });
    }
}

/// Pinned host memory.
#[derive(Debug)]
struct HostBlock {
    context: Arc<Context>,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for HostBlock {}
// SAFETY: as above.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    /// Blocks are multiples of this.
    const UNIT: usize = 1 << 16;

    fn new(context: &Arc<Context>, bytes: usize) -> Result<Self> {
        let out_of_memory = || DeviceError::HostOutOfMemory { bytes: bytes as u64 };
        let bytes = bytes.max(1).checked_next_multiple_of(Self::UNIT).ok_or_else(out_of_memory)?;
        let _entered = context.enter()?;
        // SAFETY: the context is current. Cached memory (no flag), for the host reads it too.
        let start = start::PINNING.measure(|| unsafe { result::malloc_host(bytes, 0) });
        let start = match context.check("cuMemHostAlloc", start) {
            Err(DeviceError::Failed { code: OUT_OF_MEMORY, .. }) => return Err(out_of_memory()),
            start => NonNull::new(start?.cast()).ok_or_else(out_of_memory)?,
        };
        Ok(Self { context: Arc::clone(context), start, bytes })
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        self.context
            .release("cuMemFreeHost", || unsafe { result::free_host(self.start.as_ptr().cast()) });
    }
}

/// Gives out pinned memory and keeps what comes back: pinning costs as much as a copy or two.
#[derive(Debug)]
pub(crate) struct PinnedPool {
    context: Arc<Context>,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    blocks: Vec<HostBlock>,
    bytes: usize,
    /// The device is gone: nothing is kept any more.
    closed: bool,
}

impl PinnedPool {
    /// Idle bytes are never more.
    const IDLE_BYTES: usize = 512 << 20;

    pub(super) fn new(context: &Arc<Context>) -> Arc<Self> {
        Arc::new(Self { context: Arc::clone(context), idle: Mutex::default() })
    }

    /// Pinned memory of at least `bytes`, uninitialised or with the bytes of its last user.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Result<PinnedBuffer> {
        if let Some(lost) = self.context.lost() {
            return Err(lost.clone());
        }
        let idle = self.idle.lock().take(bytes);
        let block = match idle {
            Some(block) => block,
            None => match HostBlock::new(&self.context, bytes) {
                Err(DeviceError::HostOutOfMemory { .. }) => {
                    self.trim();
                    HostBlock::new(&self.context, bytes)?
                }
                block => block?,
            },
        };
        let (start, bytes) = (block.start, block.bytes);
        Ok(PinnedBuffer { start, bytes, block: Some(block), pool: Arc::clone(self) })
    }

    /// Frees idle blocks.
    pub(super) fn trim(&self) {
        let blocks = {
            let mut idle = self.idle.lock();
            idle.bytes = 0;
            std::mem::take(&mut idle.blocks)
        };
        // Outside of the lock: the driver takes its time.
        drop(blocks);
    }

    /// Frees idle blocks, and from now on every block that comes back.
    pub(super) fn close(&self) {
        self.idle.lock().closed = true;
        self.trim();
    }

    fn give(&self, block: HostBlock) {
        let mut idle = self.idle.lock();
        if idle.closed || self.context.lost().is_some() {
            drop(idle);
            drop(block);
            return;
        }
        let mut evicted = vec![];
        if block.bytes > Self::IDLE_BYTES {
            evicted.push(block);
        } else {
            idle.bytes += block.bytes;
            idle.blocks.push(block);
            while idle.bytes > Self::IDLE_BYTES {
                let oldest = idle.blocks.remove(0);
                idle.bytes -= oldest.bytes;
                evicted.push(oldest);
            }
        }
        drop(idle);
        drop(evicted);
    }
}

impl Idle {
    /// The smallest block that holds `bytes`, and not more than twice as many.
    fn take(&mut self, bytes: usize) -> Option<HostBlock> {
        let most = bytes.max(HostBlock::UNIT).saturating_mul(2);
        let fits = |block: &HostBlock| (bytes..=most).contains(&block.bytes);
        let sizes = self.blocks.iter().enumerate().filter(|(_, block)| fits(block));
        let (place, _) = sizes.min_by_key(|(_, block)| block.bytes)?;
        let block = self.blocks.remove(place);
        self.bytes -= block.bytes;
        Some(block)
    }
}

/// Pinned memory out of a [`PinnedPool`], to which it goes back when it is dropped.
#[derive(Debug)]
pub struct PinnedBuffer {
    start: NonNull<u8>,
    bytes: usize,
    /// Taken by `drop` alone.
    block: Option<HostBlock>,
    pool: Arc<PinnedPool>,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for PinnedBuffer {}
// SAFETY: as above.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the device that pinned it is lost. The host can still read it.
    pub fn is_lost(&self) -> bool {
        self.pool.context.lost().is_some()
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.give(block);
        }
    }
}
