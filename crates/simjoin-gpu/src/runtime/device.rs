//! A device, opened once for the whole process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::runtime::driver;
use crate::runtime::driver::{Context, Properties, Result};
use crate::runtime::memory::{DeviceBuffer, PinnedBuffer, PinnedPool};
use crate::runtime::module::Modules;
use crate::runtime::queue;
use crate::runtime::queue::Queue;
use crate::runtime::resident::{Resident, Upload, Uploads};
use crate::runtime::start;
use crate::runtime::{DeviceError, DeviceWork, Images};

/// A CUDA device: a context, the programs on it, and a queue of works that all joins share.
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

/// Held by the thread that opens a device, by ordinal.
static OPENING: Mutex<BTreeMap<u32, Arc<Mutex<()>>>> = Mutex::new(BTreeMap::new());

/// The time for which the opening of a lost device waits for its end: the threads of its queue end
/// at once, and the queries that failed with it soon after.
const PATIENCE: Duration = Duration::from_secs(2);

impl Device {
    /// Works on the device at once. Its memory for them is at most 1.5 × `SLOTS` times the memory
    /// of the largest work.
    pub const SLOTS: usize = queue::SLOTS;

    /// The number of devices, at least 1. Loads the driver, creates no context.
    pub fn count() -> Result<u32> {
        driver::guarded(driver::device_count)
    }

    /// Opens a device, or gives the one that is open. The first time it creates a context, which
    /// takes some hundred milliseconds; several devices open side by side. A device that was lost
    /// can be opened anew once all that was made on it is dropped, for the process has one context
    /// for it; the call waits for that, but not for long.
    pub fn open(ordinal: u32) -> Result<Arc<Self>> {
        if let Some(device) = Self::opened(ordinal) {
            return Ok(device);
        }
        let gate = Arc::clone(OPENING.lock().entry(ordinal).or_default());
        let _gate = gate.lock();
        let lost = {
            let mut open = OPEN.lock();
            match open.get(&ordinal) {
                // Another thread has opened it meanwhile.
                Some(device) if !device.is_lost() => return Ok(Arc::clone(device)),
                _ => open.remove(&ordinal),
            }
        };
        // Outside of the lock, which the threads of its queue take before they end.
        drop(lost);
        driver::wait_for_lost(ordinal, PATIENCE);
        let device = Arc::new(driver::guarded(|| Self::new(ordinal))?);
        OPEN.lock().insert(ordinal, Arc::clone(&device));
        Ok(device)
    }

    /// The device if it is open and not lost.
    pub fn opened(ordinal: u32) -> Option<Arc<Self>> {
        OPEN.lock().get(&ordinal).filter(|device| !device.is_lost()).cloned()
    }

    /// The time until the device can begin, measured on this device or another one where the
    /// process has opened one. Asks nothing of the driver. `None` where the build has no devices.
    pub fn time_to_begin(ordinal: u32) -> Option<Duration> {
        Some(start::time_to_begin(Self::opened(ordinal).is_some()))
    }

    /// Forgets the device, which gives all its memory back at the end of its last query.
    pub fn close(ordinal: u32) {
        // Dropped outside of the lock.
        let _device = OPEN.lock().remove(&ordinal);
    }

    fn new(ordinal: u32) -> Result<Self> {
        driver::load()?;
        start::OPENING.measure(|| Self::on_driver(ordinal))
    }

    fn on_driver(ordinal: u32) -> Result<Self> {
        let properties = Properties::of(ordinal)?;
        let context = Context::retain(ordinal)?;
        let _entered = context.enter()?;
        let modules = Modules::new(&context, &properties);
        let pinned = PinnedPool::new(&context);
        let uploads = Uploads::new(&context)?;
        let name = format!("cuda{ordinal}");
        let queue = Queue::start(&context, modules, &pinned, &name, forget)?;
        Ok(Self { ordinal, properties, pinned, uploads, queue, context: Arc::clone(&context) })
    }

    /// The number of the device, as CUDA counts them.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The driver's name for the device.
    pub fn name(&self) -> &str {
        &self.properties.name
    }

    /// The compute capability, major and minor.
    pub fn capability(&self) -> (i32, i32) {
        self.properties.capability
    }

    /// The number of multiprocessors of the device.
    pub fn multiprocessors(&self) -> u32 {
        self.properties.multiprocessors
    }

    /// The memory of the device, in bytes.
    pub fn total_memory(&self) -> u64 {
        self.properties.total_memory
    }

    /// The free memory of the device, in bytes.
    pub fn free_memory(&self) -> Result<u64> {
        self.healthy()?;
        self.noticing_loss(self.context.free_memory())
    }

    /// Whether the device has failed for good.
    pub fn is_lost(&self) -> bool {
        self.context.lost().is_some()
    }

    /// Loads a program, unless it is there.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where no image of it runs on the device.
    pub fn load(&self, images: &'static Images) -> Result<()> {
        self.healthy()?;
        self.noticing_loss((|| {
            let _entered = self.context.enter()?;
            start::LOADING.measure(|| self.queue.modules().load(images))
        })())
    }

    /// Makes memory for `what` (a plural, for errors) that stays on the device, and waits until it
    /// is filled.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where the device has too little, idle memory of the queue
    /// included.
    pub fn resident(
        &self,
        what: &'static str,
        bytes: u64,
        fill: impl FnOnce(&mut Upload<'_>) -> Result<()>,
    ) -> Result<Resident> {
        self.healthy()?;
        self.noticing_loss((|| {
            let _entered = self.context.enter()?;
            let allocate = || DeviceBuffer::new(&self.context, what, bytes);
            let memory = match allocate() {
                Err(DeviceError::OutOfMemory { .. }) => {
                    self.queue.trim();
                    allocate()?
                }
                memory => memory?,
            };
            self.uploads.fill(&memory, &self.pinned, fill)?;
            Ok(Resident::new(memory))
        })())
    }

    /// Whether the memory is that of this device, as it was opened.
    pub fn has(&self, resident: &Resident) -> bool {
        resident.is_of(&self.context)
    }

    /// Pinned memory of at least `bytes`, with anything in it. When it is dropped it is kept for
    /// the next caller.
    pub fn pinned(&self, bytes: usize) -> Result<PinnedBuffer> {
        self.noticing_loss(self.pinned.take(bytes))
    }

    /// Queues a work behind those that were submitted before. Never blocks: the answer goes to
    /// [`DeviceWork::answer`].
    pub fn submit(&self, work: Box<dyn DeviceWork>) {
        self.queue.submit(work);
    }

    /// Works submitted and not answered, across all joins.
    pub fn pending(&self) -> usize {
        self.queue.pending()
    }

    /// Frees the memory that is only kept for the next works, on the device and pinned.
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

/// Takes a lost device out of the open ones: its memory is freed at the end of its last query, and
/// the next call of [`Device::open`] starts anew.
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
