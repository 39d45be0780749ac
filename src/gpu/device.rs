//! A device, opened once for the whole process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::gpu::driver;
use crate::gpu::driver::{Context, Properties, Result};
use crate::gpu::kernels::VERIFY;
use crate::gpu::memory::PinnedPool;
use crate::gpu::module::Modules;
use crate::gpu::queue;
use crate::gpu::queue::Queue;
use crate::gpu::resident::{ResidentSets, Uploads};
use crate::gpu::{Capacities, DeviceError, Job, Staging};
use crate::set::SetCollection;

/// A CUDA device: a context, the kernels, and a queue of jobs that all who verify share.
#[derive(Debug)]
pub struct Device {
    ordinal: u32,
    properties: Properties,
    context: Arc<Context>,
    pinned: Arc<PinnedPool>,
    uploads: Uploads,
    queue: Queue,
}

/// The open devices. Never dropped: at the end of the process the driver may be gone already.
static OPEN: Mutex<BTreeMap<u32, Arc<Device>>> = Mutex::new(BTreeMap::new());

/// For how long the end of a lost device is waited for when it is opened again: the threads of its
/// queue end at once, and the queries that failed with it soon after.
const PATIENCE: Duration = Duration::from_secs(2);

impl Device {
    /// Jobs on the device at once; its memory for chunks is at most so many times the largest
    /// chunk, and half as much again.
    pub const SLOTS: usize = queue::SLOTS;

    /// How many devices there are, at least 1. Loads the driver, creates no context.
    pub fn count() -> Result<u32> {
        driver::guarded(driver::device_count)
    }

    /// Opens a device, or gives the one that is open. The first time it creates a context and
    /// loads the kernels, which takes some hundred milliseconds. A device that was lost can be
    /// opened anew once all that was made on it is dropped, for the process has one context for
    /// it; that is waited for, but not for long.
    pub fn open(ordinal: u32) -> Result<Arc<Self>> {
        let lost = {
            let mut open = OPEN.lock();
            match open.get(&ordinal) {
                Some(device) if !device.is_lost() => return Ok(Arc::clone(device)),
                _ => open.remove(&ordinal),
            }
        };
        // Outside of the lock, which the threads of its queue take before they end.
        drop(lost);
        driver::wait_for_lost(ordinal, PATIENCE);
        let mut open = OPEN.lock();
        // Somebody else may have been at the same.
        if let Some(device) = open.get(&ordinal).filter(|device| !device.is_lost()) {
            return Ok(Arc::clone(device));
        }
        let device = Arc::new(driver::guarded(|| Self::new(ordinal))?);
        let former = open.insert(ordinal, Arc::clone(&device));
        drop(open);
        drop(former);
        Ok(device)
    }

    /// The device if it is open and not lost.
    pub fn opened(ordinal: u32) -> Option<Arc<Self>> {
        OPEN.lock().get(&ordinal).filter(|device| !device.is_lost()).cloned()
    }

    /// Forgets the device, which gives all its memory back once nobody uses it any more.
    pub fn close(ordinal: u32) {
        // Dropped outside of the lock.
        let _device = OPEN.lock().remove(&ordinal);
    }

    fn new(ordinal: u32) -> Result<Self> {
        driver::load()?;
        let properties = Properties::of(ordinal)?;
        let context = Context::retain(ordinal)?;
        let _entered = context.enter()?;
        let modules = Modules::new(&context, &properties);
        modules.load(&VERIFY)?;
        let pinned = PinnedPool::new(&context);
        let uploads = Uploads::new(&context)?;
        let name = format!("cuda{ordinal}");
        let queue = Queue::start(&context, modules, &pinned, &name, forget)?;
        Ok(Self { ordinal, properties, pinned, uploads, queue, context: Arc::clone(&context) })
    }

    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// As the driver calls it.
    pub fn name(&self) -> &str {
        &self.properties.name
    }

    /// The compute capability, major and minor.
    pub fn capability(&self) -> (i32, i32) {
        self.properties.capability
    }

    pub fn multiprocessors(&self) -> u32 {
        self.properties.multiprocessors
    }

    /// The memory of the device, in bytes.
    pub fn total_memory(&self) -> u64 {
        self.properties.total_memory
    }

    /// What nobody uses of it at the moment.
    pub fn free_memory(&self) -> Result<u64> {
        self.healthy()?;
        self.noticing_loss(self.context.free_memory())
    }

    /// Whether the device has failed for good.
    pub fn is_lost(&self) -> bool {
        self.context.lost().is_some()
    }

    /// Copies the sets of a collection to the device and waits until they are there. `rows`: with
    /// the number of rows of each set, unless all have one.
    pub fn upload(&self, sets: &SetCollection, rows: bool) -> Result<ResidentSets> {
        self.healthy()?;
        self.noticing_loss((|| {
            let _entered = self.context.enter()?;
            let allocate = || ResidentSets::allocate(&self.context, sets, rows);
            let resident = match allocate() {
                Err(DeviceError::OutOfMemory { .. }) => {
                    self.queue.trim();
                    allocate()?
                }
                resident => resident?,
            };
            resident.fill(sets, &self.uploads, &self.pinned)?;
            Ok(resident)
        })())
    }

    /// An empty chunk in pinned memory, which is kept for the next one when it is dropped.
    pub fn staging(&self, capacities: Capacities) -> Result<Staging> {
        let bytes = capacities.bytes();
        let bytes = bytes.ok_or(DeviceError::HostOutOfMemory { bytes: u64::MAX })?;
        let memory = self.noticing_loss(self.pinned.take(bytes))?;
        Ok(Staging::new(&capacities, memory))
    }

    /// Has a chunk verified, after those that were submitted before. Never blocks: the answer goes
    /// to the job's [`Reply`](crate::gpu::Reply).
    pub fn submit(&self, job: Job) {
        self.queue.submit(job);
    }

    /// Frees the memory that is only kept for the next jobs, on the device and pinned.
    pub fn trim(&self) {
        self.queue.trim();
        self.pinned.trim();
    }

    fn healthy(&self) -> Result<()> {
        self.context.lost().cloned().map_or(Ok(()), Err)
    }

    fn noticing_loss<T>(&self, outcome: Result<T>) -> Result<T> {
        if self.is_lost() {
            forget(&self.context);
        }
        outcome
    }
}

/// Takes a lost device out of those that are open, so that its memory is freed once nobody uses it
/// and the next to open it starts anew.
fn forget(context: &Arc<Context>) {
    // Dropped outside of the lock.
    let _lost = {
        let mut open = OPEN.lock();
        let mut ordinals = open.iter();
        let is_this = |device: &Arc<Device>| Arc::ptr_eq(&device.context, context);
        let lost = ordinals.find(|(_, device)| is_this(device)).map(|(&ordinal, _)| ordinal);
        lost.and_then(|ordinal| open.remove(&ordinal))
    };
}
