//! The driver and its handles.
//!
//! cudarc's `result` layer underneath: its safe layer keeps an error of a destructor and gives it
//! to the next call of any thread, hides the function that failed, and loads modules only together
//! with NVRTC. The handles here know their context, name each call in its errors, and remember when
//! the device is lost.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use parking_lot::{Condvar, Mutex};

use crate::runtime::DeviceError;

/// CUDA 12.4, the first to load PTX 8.4.
const NEEDED: i32 = 12040;

pub(super) type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// Loads the driver; cheap once it has been.
pub(super) fn load() -> Result<()> {
    static LOADED: OnceLock<()> = OnceLock::new();
    if LOADED.get().is_some() {
        return Ok(());
    }
    // cudarc panics where the library, or a function in it, is missing.
    guarded(|| {
        // SAFETY: loading the driver has no requirement.
        if !unsafe { sys::is_culib_present() } {
            return Err(DeviceError::NoDriver("libcuda was not found".into()));
        }
        let mut found = 0;
        // SAFETY: the version may be asked for before the driver is initialised.
        let version = unsafe { sys::cuDriverGetVersion(&mut found).result() };
        version.map_err(|e| failed("cuDriverGetVersion", e))?;
        if found < NEEDED {
            return Err(DeviceError::DriverTooOld { found, needed: NEEDED });
        }
        result::init().map_err(|e| match e.0 {
            sys::CUresult::CUDA_ERROR_NO_DEVICE => DeviceError::NoDevice,
            sys::CUresult::CUDA_ERROR_STUB_LIBRARY => {
                DeviceError::NoDriver("libcuda is the stub of a CUDA toolkit".into())
            }
            sys::CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => DeviceError::NoDriver(message(e)),
            _ => failed("cuInit", e),
        })
    })?;
    LOADED.get_or_init(|| ());
    Ok(())
}

/// The number of devices, at least 1.
pub(crate) fn device_count() -> Result<u32> {
    load()?;
    let count = result::device::get_count().map_err(|e| failed("cuDeviceGetCount", e))?;
    match u32::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(DeviceError::NoDevice),
    }
}

/// The result of `work`, or an error that the driver is unusable where `work` panics.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(DeviceError::NoDriver(panic_message(&*panic))))
}

pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic").to_owned()
}

fn failed(call: &'static str, error: DriverError) -> DeviceError {
    DeviceError::Failed { call, code: error.0 as i32, message: message(error) }
}

fn message(error: DriverError) -> String {
    match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => "unknown error".into(),
    }
}

/// Whether no call on the device will succeed after this error.
fn is_sticky(code: i32) -> bool {
    matches!(
        code,
        // deinitialized, device unavailable
        4 | 46
        // invalid context (destroyed under our feet)
        | 201
        // uncorrectable ECC error, NVLink error
        | 214 | 220
        // illegal address, timeout, context destroyed, assertion, hardware stack error, illegal
        // instruction, misaligned address, invalid address space, invalid program counter,
        // launch failure
        | 700 | 702 | 709 | 710 | 714
            ..=719
        // contained error; system not ready; external device
        | 721 | 802 | 911
        // unknown
        | 999
    )
}

/// Out of device memory, or of memory to pin.
pub(crate) const OUT_OF_MEMORY: i32 = sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as i32;

/// The primary context of a device, which the process shares.
///
/// Everything made in it holds it: the memory of a context ends with it.
#[derive(Debug)]
pub(super) struct Context {
    ordinal: u32,
    device: sys::CUdevice,
    handle: sys::CUcontext,
    /// The error that made the device unusable.
    lost: OnceLock<DeviceError>,
}

// SAFETY: contexts may be used on any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// The [`Context`]s of each device. The driver has one context for them, which it makes anew only
/// after the last of them was released.
static HELD: Mutex<BTreeMap<u32, Held>> = Mutex::new(BTreeMap::new());
/// Signals that the last context of a device was released.
static RELEASED: Condvar = Condvar::new();

#[derive(Debug, Default)]
struct Held {
    contexts: usize,
    /// The device was lost with them.
    lost: bool,
}

/// Waits until the context with which a device was lost is released, but not much longer than
/// `patience`.
pub(crate) fn wait_for_lost(ordinal: u32, patience: Duration) {
    let end = Instant::now() + patience;
    let mut held = HELD.lock();
    while held.get(&ordinal).is_some_and(|held| held.lost) {
        if RELEASED.wait_until(&mut held, end).timed_out() {
            return;
        }
    }
}

/// The properties of a device.
#[derive(Debug, Clone)]
pub(super) struct Properties {
    pub name: String,
    pub capability: (i32, i32),
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may have.
    pub shared_memory: u32,
    pub total_memory: u64,
}

impl Properties {
    /// The properties of a device, without creating a context. The driver has been loaded.
    pub(super) fn of(ordinal: u32) -> Result<Self> {
        use sys::CUdevice_attribute as Attribute;
        let device = device(ordinal)?;
        let name = result::device::get_name(device).map_err(|e| failed("cuDeviceGetName", e))?;
        let get = |attribute| {
            // SAFETY: the device is the driver's.
            unsafe { result::device::get_attribute(device, attribute) }
                .map_err(|e| failed("cuDeviceGetAttribute", e))
        };
        let capability = (
            get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let multiprocessors = get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let shared = get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        // SAFETY: as above.
        let total_memory = unsafe { result::device::total_mem(device) };
        let total_memory = total_memory.map_err(|e| failed("cuDeviceTotalMem", e))?;
        Ok(Self {
            name,
            capability,
            multiprocessors: multiprocessors.max(1) as u32,
            shared_memory: shared.max(0) as u32,
            total_memory: total_memory as u64,
        })
    }
}

fn device(ordinal: u32) -> Result<sys::CUdevice> {
    let count = device_count()?;
    if ordinal >= count {
        return Err(DeviceError::NoSuchDevice { ordinal, count });
    }
    result::device::get(ordinal as i32).map_err(|e| failed("cuDeviceGet", e))
}

impl Context {
    /// The primary context of a device; made where the process has none yet.
    pub(super) fn retain(ordinal: u32) -> Result<Arc<Self>> {
        let device = device(ordinal)?;
        // SAFETY: the device is the driver's.
        let handle = unsafe { result::primary_ctx::retain(device) };
        let handle = handle.map_err(|e| match e.0 as i32 {
            OUT_OF_MEMORY => DeviceError::OutOfMemory { what: "a context", bytes: 0, free: 0 },
            _ => failed("cuDevicePrimaryCtxRetain", e),
        })?;
        HELD.lock().entry(ordinal).or_default().contexts += 1;
        Ok(Arc::new(Self { ordinal, device, handle, lost: OnceLock::new() }))
    }

    /// The error that made the device unusable.
    pub(super) fn lost(&self) -> Option<&DeviceError> {
        self.lost.get()
    }

    /// Says that the device is unusable, for an error of the driver's or (code 0) a reason of this
    /// crate. The first error says most; later ones only repeat it.
    pub(super) fn lose(&self, call: &'static str, code: i32, message: String) -> DeviceError {
        let first = || {
            HELD.lock().entry(self.ordinal).or_default().lost = true;
            DeviceError::Lost { ordinal: self.ordinal, call, code, message }
        };
        self.lost.get_or_init(first).clone()
    }

    /// Turns the outcome of a call into ours.
    pub(super) fn check<T>(
        &self,
        call: &'static str,
        outcome: Result<T, DriverError>,
    ) -> Result<T> {
        let error = match outcome {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let code = error.0 as i32;
        if !is_sticky(code) {
            return Err(failed(call, error));
        }
        Err(self.lose(call, code, message(error)))
    }

    /// Makes the context current on this thread, and the former one when the guard is dropped: the
    /// thread may belong to a program with contexts of its own.
    pub(super) fn enter(&self) -> Result<Entered> {
        let (entered, outcome) = self.enter_anyway();
        outcome.map(|()| entered)
    }

    /// Enters the context, with a guard even after an error: the context may be current nevertheless, as
    /// where the driver only reports an earlier failure.
    fn enter_anyway(&self) -> (Entered, Result<()>) {
        let former = match self.check("cuCtxGetCurrent", result::ctx::get_current()) {
            Ok(former) => former,
            Err(error) => return (Entered { former: None }, Err(error)),
        };
        if former == Some(self.handle) {
            return (Entered { former: None }, Ok(()));
        }
        // SAFETY: the context is retained.
        let outcome =
            self.check("cuCtxSetCurrent", unsafe { result::ctx::set_current(self.handle) });
        (Entered { former: Some(former.unwrap_or(ptr::null_mut())) }, outcome)
    }

    /// Gives something of the context back, whatever became of the device. An error leaves nothing
    /// to be done, for everything ends with its context, but it may tell that the device is lost.
    pub(super) fn release(
        &self,
        call: &'static str,
        give_back: impl FnOnce() -> Result<(), DriverError>,
    ) {
        let (_entered, _) = self.enter_anyway();
        let _ = self.check(call, give_back());
    }

    /// Free bytes on the device.
    pub(super) fn free_memory(&self) -> Result<u64> {
        let _entered = self.enter()?;
        let (free, _) = self.check("cuMemGetInfo", result::mem_get_info())?;
        Ok(free as u64)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: everything made in the context is gone. An error leaves nothing to be done.
        let _ = unsafe { result::primary_ctx::release(self.device) };
        let mut held = HELD.lock();
        match held.get_mut(&self.ordinal) {
            Some(held) if held.contexts > 1 => held.contexts -= 1,
            _ => {
                held.remove(&self.ordinal);
                RELEASED.notify_all();
            }
        }
    }
}

/// A thread's stay in a context, which [`Context::enter`] begins.
#[must_use]
pub(crate) struct Entered {
    /// The context to be made current again, which may be none at all.
    former: Option<sys::CUcontext>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(former) = self.former {
            // SAFETY: it was current before. An error leaves nothing to be done.
            let _ = unsafe { result::ctx::set_current(former) };
        }
    }
}

/// A stream that does not wait for the default one.
#[derive(Debug)]
pub(super) struct Stream {
    context: Arc<Context>,
    handle: sys::CUstream,
}

// SAFETY: streams may be used on any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// The context is current.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self> {
        let handle = result::stream::create(result::stream::StreamKind::NonBlocking);
        let handle = context.check("cuStreamCreate", handle)?;
        Ok(Self { context: Arc::clone(context), handle })
    }

    pub(super) fn handle(&self) -> sys::CUstream {
        self.handle
    }

    /// Waits until all that was issued is done.
    pub(super) fn wait(&self) -> Result<()> {
        // SAFETY: the stream lives.
        let waited = unsafe { result::stream::synchronize(self.handle) };
        self.context.check("cuStreamSynchronize", waited)
    }

    /// Waits until no work of the stream is under way, so that its memory may be given back. Where
    /// that cannot be known, the device counts as lost. The error is the one of the first attempt.
    pub(super) fn settle(&self) -> Result<()> {
        let waited = self.wait();
        if waited.is_err() {
            // A thread that could not make the context current counts the device as lost; the
            // device itself knows nothing of it and works on.
            let (_entered, _) = self.context.enter_anyway();
            if let Err(DeviceError::Failed { call, code, message }) = self.wait() {
                self.context.lose(call, code, message);
            }
        }
        waited
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: this is the only handle. The driver ends its work first.
        self.context.release("cuStreamDestroy", || unsafe { result::stream::destroy(self.handle) });
    }
}

/// A point in a stream and the time when it was passed.
#[derive(Debug)]
pub(crate) struct Event {
    context: Arc<Context>,
    handle: sys::CUevent,
}

// SAFETY: events may be used on any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event; waiting for it puts the thread to sleep. The context is current.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self> {
        let handle = result::event::create(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC);
        let handle = context.check("cuEventCreate", handle)?;
        Ok(Self { context: Arc::clone(context), handle })
    }

    pub(super) fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both live, in one context.
        let recorded = unsafe { result::event::record(self.handle, stream.handle) };
        self.context.check("cuEventRecord", recorded)
    }

    pub(super) fn wait(&self) -> Result<()> {
        // SAFETY: the event lives.
        let waited = unsafe { result::event::synchronize(self.handle) };
        self.context.check("cuEventSynchronize", waited)
    }

    /// Nanoseconds from this event to a later one, negative where that is the earlier one. Both
    /// have been passed.
    pub(super) fn nanos_to(&self, later: &Self) -> Result<i64> {
        // SAFETY: both live, in one context.
        let millis = unsafe { result::event::elapsed(self.handle, later.handle) };
        let millis = self.context.check("cuEventElapsedTime", millis)?;
        Ok((f64::from(millis) * 1e6) as i64)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: this is the only handle.
        self.context.release("cuEventDestroy", || unsafe { result::event::destroy(self.handle) });
    }
}
