//! The `simjoin` command line; see [`simjoin_cli`].

use std::ffi::{c_int, c_long};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let has_stdout = HAS_STDOUT.load(Ordering::Relaxed);
    simjoin_cli::run(std::env::args_os(), give_memory_back, has_stdout).into()
}

/// Whether standard output was open when the process began.
static HAS_STDOUT: AtomicBool = AtomicBool::new(true);

/// Called before `main`, and before the standard library, which opens /dev/null where a standard
/// stream is closed.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: the call takes a number and reads no memory.
        let is_open = unsafe { libc::fcntl(1, libc::F_GETFD) } != -1;
        HAS_STDOUT.store(is_open, Ordering::Relaxed);
    }
    look
};

unsafe extern "C" {
    safe fn mi_version() -> c_int;
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// Lets the allocator keep little of what is freed; `MIMALLOC_*` in the environment have the last
/// word.
///
/// As it comes, mimalloc keeps free memory for a second, and of the areas of 4 MiB that hold
/// blocks of 64 to 512 KiB whatever has once been used: beside a join with a limit of 20 MB over
/// 150 MB, instead of 40.
fn give_memory_back() {
    /// In `mi_option_t` of mimalloc 3.3: milliseconds.
    const PURGE_DELAY: c_int = 15;
    /// As well: KiB.
    const ARENA_MAX_OBJECT_SIZE: c_int = 45;
    // The numbers are those of that version. With another one, memory is kept as it comes.
    if mi_version() / 100 == 303 {
        // SAFETY: the functions are mimalloc's own, which is linked in; no other thread runs yet.
        unsafe {
            mi_option_set_default(PURGE_DELAY, 10);
            // Less than those areas, which then come from the system and go back to it.
            mi_option_set_default(ARENA_MAX_OBJECT_SIZE, (4 << 10) - 64);
        }
    }
}
