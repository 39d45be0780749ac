//! A GPU for tests: a real one where the machine has one, the emulator of `kernels/emulator`
//! elsewhere.
//!
//! The emulator is a shared library that calls itself `libcuda.so`. It is compiled once for its
//! sources, beside the test executable, and loaded by its path; what asks for `libcuda.so` after
//! that gets the library of that name which is loaded already. So [`gpu`] must come before
//! anything that loads the driver, and one process has either the emulator or the real driver.
//!
//! Environment:
//!
//! - `SIMJOIN_TEST_GPU=emulator`: the emulator even where there is a GPU;
//! - `SIMJOIN_REQUIRE_EMULATOR`: its absence (no C++ compiler) is a failure, not a reason to skip;
//! - `CXX`: the C++ compiler;
//! - `EMULATOR_*`: see `kernels/emulator/state.h`.

mod build;

use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// For how long a test waits for what other threads do in no time, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The device that the tests of this process run on.
#[derive(Debug, Clone, Copy)]
pub enum Gpu {
    Real,
    Emulated(&'static Emulator),
}

/// The GPU to test on; `None`, said on stderr, where there is none and no C++ compiler either.
///
/// # Panics
///
/// When the emulator does not compile or load, or when it is required and cannot be built.
pub fn gpu() -> Option<Gpu> {
    static CHOICE: OnceLock<Option<Gpu>> = OnceLock::new();
    *CHOICE.get_or_init(|| {
        let forced = std::env::var("SIMJOIN_TEST_GPU").is_ok_and(|value| value == "emulator");
        if !forced && real_devices() > 0 {
            return Some(Gpu::Real);
        }
        let path = match build::library() {
            Ok(path) => path,
            Err(reason) if std::env::var_os("SIMJOIN_REQUIRE_EMULATOR").is_some() => {
                panic!("SIMJOIN_REQUIRE_EMULATOR is set, but {reason}")
            }
            Err(reason) => {
                eprintln!("tests on the CUDA emulator are skipped: {reason}");
                return None;
            }
        };
        // Lives as long as the process, like a driver.
        Some(Gpu::Emulated(Box::leak(Box::new(Emulator::load(path)))))
    })
}

/// The devices of the machine's own driver.
fn real_devices() -> c_int {
    let Some(driver) = Library::open(Path::new("libcuda.so.1")) else { return 0 };
    let mut count = 0;
    // SAFETY: the signatures are those of the CUDA driver API.
    let outcome = unsafe {
        let init: unsafe extern "C" fn(u32) -> c_int = driver.symbol(c"cuInit");
        let get_count: unsafe extern "C" fn(*mut c_int) -> c_int =
            driver.symbol(c"cuDeviceGetCount");
        if init(0) == 0 { get_count(&mut count) } else { 1 }
    };
    if outcome == 0 { count } else { 0 }
}

/// The emulator, loaded.
#[derive(Debug)]
pub struct Emulator {
    path: PathBuf,
    fault: unsafe extern "C" fn(c_int, *const c_char, c_int, c_int),
    fault_async: unsafe extern "C" fn(c_int, c_int, c_int),
    delay: unsafe extern "C" fn(c_int, *const c_char, c_int, c_int),
    hold: unsafe extern "C" fn(c_int, c_int),
    reset: unsafe extern "C" fn(c_int),
    stat: unsafe extern "C" fn(c_int, *const c_char) -> c_longlong,
    /// The ordinals that [`Emulator::device`] has to give.
    idle: Mutex<Vec<u32>>,
    returned: Condvar,
}

impl Emulator {
    /// The emulator; `None` where tests are skipped or run on a real GPU.
    pub fn get() -> Option<&'static Self> {
        match gpu()? {
            Gpu::Real => None,
            Gpu::Emulated(emulator) => Some(emulator),
        }
    }

    fn load(path: PathBuf) -> Self {
        let library = Library::open(&path)
            .unwrap_or_else(|| panic!("{} does not load: {}", path.display(), Library::error()));
        // SAFETY: kernels/emulator/control.cpp has these signatures.
        unsafe {
            Self {
                path,
                fault: library.symbol(c"simjoin_emulator_fault"),
                fault_async: library.symbol(c"simjoin_emulator_fault_async"),
                delay: library.symbol(c"simjoin_emulator_delay"),
                hold: library.symbol(c"simjoin_emulator_hold"),
                reset: library.symbol(c"simjoin_emulator_reset"),
                stat: library.symbol(c"simjoin_emulator_stat"),
                // Device 0 is left to tests that name no device.
                idle: Mutex::new((1..64).rev().collect()),
                returned: Condvar::new(),
            }
        }
    }

    /// The file, `libcuda.so`. A process whose `LD_LIBRARY_PATH` has its folder uses the emulator.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A device, other than 0, that no other test has until the guard is dropped. Waits for one.
    ///
    /// # Panics
    ///
    /// When none comes back, or those that did remain in use.
    pub fn device(&'static self) -> Device {
        let start = Instant::now();
        let mut idle = self.idle();
        loop {
            // Threads of the test before may still be giving back what they had on a device.
            let unused = idle.iter().rposition(|&ordinal| self.stat(ordinal, "contexts") == 0);
            if let Some(place) = unused {
                let device = Device { emulator: self, ordinal: idle.remove(place) };
                device.reset();
                return device;
            }
            assert!(start.elapsed() < 5 * PATIENCE, "no device comes free; given back: {idle:?}");
            let waited = self.returned.wait_timeout(idle, Duration::from_millis(2));
            idle = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<u32>> {
        // A failed test has poisoned it; the list is still right.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call fail on a device: [`Device::fault`].
    pub fn fault(&self, ordinal: u32, function: &str, nth: u32, error: i32) {
        let name = CString::new(function).expect("a name");
        // SAFETY: the string outlives the call.
        unsafe { (self.fault)(ordinal as c_int, name.as_ptr(), nth as c_int, error) }
    }

    /// Makes work fail on a device: [`Device::fault_async`].
    pub fn fault_async(&self, ordinal: u32, nth: u32, error: i32) {
        // SAFETY: no memory is passed.
        unsafe { (self.fault_async)(ordinal as c_int, nth as c_int, error) }
    }

    /// Delays a call on a device: [`Device::delay`].
    pub fn delay(&self, ordinal: u32, function: &str, nth: u32, time: Duration) {
        let name = CString::new(function).expect("a name");
        let millis = c_int::try_from(time.as_millis()).expect("a short time");
        // SAFETY: the string outlives the call.
        unsafe { (self.delay)(ordinal as c_int, name.as_ptr(), nth as c_int, millis) }
    }

    /// A counter of a device, by its name in kernels/emulator/state.h (`launches`, `allocated`, …),
    /// or `lost`, the error that has lost the device.
    ///
    /// # Panics
    ///
    /// When there is no such device or counter.
    pub fn stat(&self, ordinal: u32, name: &str) -> u64 {
        let text = CString::new(name).expect("a name");
        // SAFETY: the string outlives the call.
        let value = unsafe { (self.stat)(ordinal as c_int, text.as_ptr()) };
        u64::try_from(value).unwrap_or_else(|_| panic!("device {ordinal} has no counter {name}"))
    }
}

/// A device of the emulator that one test has for itself; reset when it is given to the next.
#[derive(Debug)]
pub struct Device {
    emulator: &'static Emulator,
    ordinal: u32,
}

impl Device {
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Makes the `nth` call (1: the next) of a driver function on this device return `error`, a
    /// `CUresult`. Errors that stand for a lost device stay until [`Device::reset`].
    pub fn fault(&self, function: &str, nth: u32, error: i32) {
        self.emulator.fault(self.ordinal, function, nth, error);
    }

    /// Makes the kernel of the `nth` launch (1: the next) end with `error` after the launch itself
    /// has succeeded.
    pub fn fault_async(&self, nth: u32, error: i32) {
        self.emulator.fault_async(self.ordinal, nth, error);
    }

    /// Makes the `nth` call (1: the next) of a driver function on this device take so much longer.
    /// The last release of a context is delayed after it was given up and before it is gone.
    pub fn delay(&self, function: &str, nth: u32, time: Duration) {
        self.emulator.delay(self.ordinal, function, nth, time);
    }

    /// Has kernels wait before they start, until the guard is dropped.
    pub fn hold(&self) -> Held<'_> {
        // SAFETY: no memory is passed.
        unsafe { (self.emulator.hold)(self.ordinal as c_int, 1) }
        Held(self)
    }

    /// Forgets faults, delays and what has lost the device, and sets sums and maxima to where they begin.
    pub fn reset(&self) {
        // SAFETY: no memory is passed.
        unsafe { (self.emulator.reset)(self.ordinal as c_int) }
    }

    /// A count of this device: [`Emulator::stat`].
    pub fn stat(&self, name: &str) -> u64 {
        self.emulator.stat(self.ordinal, name)
    }
}

impl Device {
    /// Waits until a counter is at least so high.
    ///
    /// # Panics
    ///
    /// When it never is.
    pub fn expect_at_least(&self, name: &str, value: u64) {
        let start = Instant::now();
        while self.stat(name) < value {
            assert!(start.elapsed() < PATIENCE, "{name}: {}, not {value}", self.stat(name));
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until nothing is left on the device or pinned for it, for queues end on threads of
    /// their own. `close` closes a device by its ordinal: again and again, for a query that was
    /// given up may open it once more before it notices.
    ///
    /// # Panics
    ///
    /// When something stays, or went only with the context, or was given back while it was in use.
    pub fn expect_nothing_left(&self, close: impl Fn(u32), context: &str) {
        const COUNTERS: [&str; 8] =
            ["allocated", "pinned", "streams", "events", "modules", "contexts", "leaked", "strays"];
        let start = Instant::now();
        loop {
            close(self.ordinal);
            let left: Vec<_> = COUNTERS
                .iter()
                .map(|name| (*name, self.stat(name)))
                .filter(|(_, count)| *count > 0)
                .collect();
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{context}: left are {left:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The hold on a device from [`Device::hold`] on.
#[must_use]
#[derive(Debug)]
pub struct Held<'a>(&'a Device);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: no memory is passed.
        unsafe { (self.0.emulator.hold)(self.0.ordinal as c_int, 0) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // What a failed test has left on its device must not fail others.
        if !thread::panicking() {
            self.emulator.idle().push(self.ordinal);
            self.emulator.returned.notify_one();
        }
    }
}

/// A shared library, never unloaded.
struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Option<Self> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
        // SAFETY: the string outlives the call; initialisers of a driver have no requirement.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// The reason of the last failure to open.
    fn error() -> String {
        // SAFETY: the string lives until the next call of this thread.
        let text = unsafe { libc::dlerror() };
        if text.is_null() {
            return "unknown error".to_string();
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// # Safety
    ///
    /// `F` is the type of the function of that name.
    unsafe fn symbol<F: Copy>(&self, name: &CStr) -> F {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        // SAFETY: the library is open.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!address.is_null(), "the library has no function {name:?}");
        // SAFETY: as the caller promises.
        unsafe { std::mem::transmute_copy(&address) }
    }
}
