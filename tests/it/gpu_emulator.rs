//! The CUDA emulator itself: what its kernels compute, and that it catches what they do wrong.

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Barrier;
use std::time::Duration;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUresult};

use crate::emulator::{Device, Emulator};

/// The argument of the kernels in kernels/emulator/self_test.cu.
#[repr(C)]
struct SelfTest {
    input: u64,
    out: u64,
    sum: u64,
    count: u32,
}

/// A device's context with one stream and one array for each field of [`SelfTest`].
struct Bench {
    device: Device,
    handle: sys::CUdevice,
    stream: sys::CUstream,
    input: sys::CUdeviceptr,
    out: sys::CUdeviceptr,
    sum: sys::CUdeviceptr,
    words: usize,
}

impl Bench {
    /// Arrays of `words` numbers; the input counts from 0. `None` where there is no emulator.
    fn new(words: usize) -> Option<Self> {
        let device = Emulator::get()?.device();
        result::init().unwrap();
        let handle = result::device::get(device.ordinal() as i32).unwrap();
        let numbers: Vec<u32> = (0..words as u32).collect();
        // SAFETY: the context is current and outlives what is made in it.
        unsafe {
            let context = result::primary_ctx::retain(handle).unwrap();
            result::ctx::set_current(context).unwrap();
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
            let input = result::malloc_sync(4 * words).unwrap();
            let out = result::malloc_sync(4 * words).unwrap();
            let sum = result::malloc_sync(8).unwrap();
            result::memcpy_htod_sync(input, &numbers).unwrap();
            result::memset_d8_sync(out, 0, 4 * words).unwrap();
            result::memset_d8_sync(sum, 0, 8).unwrap();
            Some(Self { device, handle, stream, input, out, sum, words })
        }
    }

    /// Launches a kernel and waits for it.
    fn run(&self, kernel: &str, grid: u32, block: u32, count: u32) -> Result<(), DriverError> {
        let module = self.launch(self.stream, kernel, grid, block, count)?;
        // SAFETY: the stream lives, and nothing of the module runs behind.
        unsafe {
            result::stream::synchronize(self.stream)?;
            result::module::unload(module)
        }
    }

    /// Launches a kernel of a module, which the caller unloads.
    fn launch(
        &self,
        stream: sys::CUstream,
        kernel: &str,
        grid: u32,
        block: u32,
        count: u32,
    ) -> Result<sys::CUmodule, DriverError> {
        let image = format!(".version 8.0\n.target sm_80\n.visible .entry {kernel}()");
        let image = CString::new(image).unwrap();
        let mut test = SelfTest { input: self.input, out: self.out, sum: self.sum, count };
        let mut arguments = [ptr::from_mut(&mut test).cast::<c_void>()];
        // SAFETY: the kernels take this argument.
        unsafe {
            let module = result::module::load_data(image.as_ptr().cast())?;
            let function = result::module::get_function(module, CString::new(kernel).unwrap())?;
            let blocks = (grid, 1, 1);
            let threads = (block, 1, 1);
            result::launch_kernel(function, blocks, threads, 4 * block, stream, &mut arguments)?;
            Ok(module)
        }
    }

    fn out(&self) -> Vec<u32> {
        let mut numbers = vec![0; self.words];
        // SAFETY: the array has that many.
        unsafe { result::memcpy_dtoh_sync(&mut numbers, self.out).unwrap() };
        numbers
    }

    fn sum(&self) -> u64 {
        let mut number = [0];
        // SAFETY: one number.
        unsafe { result::memcpy_dtoh_sync(&mut number, self.sum).unwrap() };
        number[0]
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: the test alone has them. On a lost device each call returns the error again.
        unsafe {
            for address in [self.input, self.out, self.sum] {
                let _ = result::free_sync(address);
            }
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.handle);
        }
        if !std::thread::panicking() {
            assert_eq!(self.device.stat("allocated"), 0);
        }
    }
}

fn failure(outcome: Result<(), DriverError>) -> CUresult {
    outcome.map_or_else(|error| error.0, |()| CUresult::CUDA_SUCCESS)
}

#[test]
fn threads_and_blocks_know_where_they_are() {
    let Some(bench) = Bench::new(3 * 64) else { return };
    bench.run("self_test_indices", 3, 64, 0).unwrap();
    let expected: Vec<u32> =
        (0..3).flat_map(|block| (0..64).map(move |thread| block << 16 | thread)).collect();
    assert_eq!(bench.out(), expected);
    assert_eq!(bench.device.stat("launches"), 1);
    assert_eq!(bench.device.stat("blocks"), 3);
}

#[test]
fn shuffles_exchange_within_their_width_and_mask() {
    let Some(bench) = Bench::new(8 * 32) else { return };
    bench.run("self_test_shuffles", 1, 32, 0).unwrap();
    let expected: Vec<u32> = (0..32u32)
        .flat_map(|lane| {
            [
                5,
                lane / 8 * 8 + 1,
                if lane < 3 { lane } else { lane - 3 },
                if lane % 16 + 3 < 16 { lane + 3 } else { lane },
                lane ^ 16,
                31,
                0u32.wrapping_sub(if lane.is_multiple_of(4) { lane } else { lane - 1 }),
                if lane < 16 { 15 } else { 16 },
            ]
        })
        .collect();
    assert_eq!(bench.out(), expected);
}

#[test]
fn votes_collect_the_lanes_of_the_mask() {
    let Some(bench) = Bench::new(4 * 32) else { return };
    bench.run("self_test_votes", 1, 32, 0).unwrap();
    let thirds = (0..32).step_by(3).fold(0u32, |lanes, lane| lanes | 1 << lane);
    let each = [thirds, 1, 0, thirds.count_ones() + 1 + 31];
    assert_eq!(bench.out(), each.repeat(32));
}

#[test]
fn barriers_order_shared_memory() {
    let Some(bench) = Bench::new(4 * 128) else { return };
    bench.run("self_test_block_sum", 4, 128, 0).unwrap();
    let sums: Vec<u32> = (0..4).map(|block| (block * 128..(block + 1) * 128).sum()).collect();
    assert_eq!(bench.out()[..4], sums);
}

#[test]
fn a_missing_barrier_shows() {
    let Some(bench) = Bench::new(128) else { return };
    bench.run("self_test_missing_barrier", 1, 128, 0).unwrap();
    let expected: Vec<u32> = (0..128).rev().collect();
    assert_ne!(bench.out(), expected);
}

#[test]
fn atomics_lose_nothing() {
    let Some(bench) = Bench::new(2) else { return };
    bench.run("self_test_atomics", 10, 96, 0).unwrap();
    assert_eq!(bench.out(), [959, 2 * 960]);
    assert_eq!(bench.sum(), 960 << 32);
}

#[test]
fn threads_that_wait_for_ever_fail_the_launch() {
    for kernel in ["self_test_barrier_not_reached", "self_test_shuffle_not_reached"] {
        let Some(bench) = Bench::new(1) else { return };
        bench.run(kernel, 1, 64, 999).unwrap();
        let error = failure(bench.run(kernel, 1, 64, 33));
        assert_eq!(error, CUresult::CUDA_ERROR_LAUNCH_FAILED, "{kernel}");
        assert_eq!(bench.device.stat("lost"), CUresult::CUDA_ERROR_LAUNCH_FAILED as u64);
    }
}

#[test]
fn stray_accesses_fail_the_launch() {
    // Behind 64 words is a page that is not there, behind 60 a pattern.
    for (kernel, words) in [
        ("self_test_null", 64),
        ("self_test_write_behind", 64),
        ("self_test_write_behind", 60),
        ("self_test_read_far_behind", 64),
        ("self_test_shared_behind", 64),
        ("self_test_endless_stack", 64),
    ] {
        let Some(bench) = Bench::new(words) else { return };
        let error = failure(bench.run(kernel, 1, 64, words as u32));
        assert_eq!(error, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "{kernel}");
        // Nothing works on a lost device.
        let again = failure(bench.run("self_test_indices", 1, 1, 0));
        assert_eq!(again, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "{kernel}");
    }
}

#[test]
fn memory_freed_before_its_use_is_an_illegal_address() {
    let Some(bench) = Bench::new(64) else { return };
    // SAFETY: the emulator is to find the error.
    unsafe {
        let array = result::malloc_sync(4).unwrap();
        // The array waits for an event behind a kernel of another stream that does not start yet.
        let busy = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).unwrap();
        let held = bench.device.hold();
        let module = bench.launch(busy, "self_test_indices", 1, 64, 0).unwrap();
        result::event::record(event, busy).unwrap();
        result::stream::wait_event(
            bench.stream,
            event,
            sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT,
        )
        .unwrap();
        result::memset_d8_async(array, 0, 4, bench.stream).unwrap();
        result::free_sync(array).unwrap();
        drop(held);
        let error = failure(result::stream::synchronize(bench.stream));
        assert_eq!(error, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        let _ = result::module::unload(module);
        let _ = result::event::destroy(event);
        let _ = result::stream::destroy(busy);
    }
}

#[test]
fn faults_come_at_the_call_asked_for_and_losses_stay() {
    let Some(bench) = Bench::new(64) else { return };
    bench.device.fault("cuMemAlloc", 2, CUresult::CUDA_ERROR_OUT_OF_MEMORY as i32);
    // SAFETY: freed below.
    unsafe {
        let first = result::malloc_sync(16).unwrap();
        let error = result::malloc_sync(16).expect_err("injected").0;
        assert_eq!(error, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let third = result::malloc_sync(16).unwrap();
        result::free_sync(first).unwrap();
        result::free_sync(third).unwrap();
    }
    bench.device.fault_async(2, CUresult::CUDA_ERROR_ECC_UNCORRECTABLE as i32);
    bench.run("self_test_indices", 1, 64, 0).unwrap();
    let lost = failure(bench.run("self_test_indices", 1, 64, 0));
    assert_eq!(lost, CUresult::CUDA_ERROR_ECC_UNCORRECTABLE);
    let lost = failure(result::mem_get_info().map(|_| ()));
    assert_eq!(lost, CUresult::CUDA_ERROR_ECC_UNCORRECTABLE);
    bench.device.reset();
    bench.run("self_test_indices", 1, 64, 0).unwrap();
}

/// A context that is made while the one before it ends is not ended with that.
#[test]
fn a_context_is_made_anew_only_after_its_end() {
    let Some(emulator) = Emulator::get() else { return };
    let device = emulator.device();
    result::init().unwrap();
    let handle = result::device::get(device.ordinal() as i32).unwrap();
    // SAFETY: what is made in a context is used as long as that is retained.
    unsafe {
        result::primary_ctx::retain(handle).unwrap();
        device.delay("cuDevicePrimaryCtxRelease", 1, Duration::from_millis(200));
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                result::primary_ctx::release(handle).unwrap();
            });
            barrier.wait();
            std::thread::sleep(Duration::from_millis(50));
            let context = result::primary_ctx::retain(handle).unwrap();
            result::ctx::set_current(context).unwrap();
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
            let array = result::malloc_sync(4).unwrap();
            // For as long as the other thread would have taken.
            std::thread::sleep(Duration::from_millis(200));
            result::memset_d8_async(array, 0, 4, stream).unwrap();
            result::stream::synchronize(stream).unwrap();
            result::free_sync(array).unwrap();
            result::stream::destroy(stream).unwrap();
            result::primary_ctx::release(handle).unwrap();
        });
    }
    assert_eq!(["contexts", "leaked"].map(|name| device.stat(name)), [0, 0]);
}

/// The next test has a device only once the one before has let go of it.
#[test]
fn devices_are_lent_when_nobody_uses_them() {
    let Some(emulator) = Emulator::get() else { return };
    let first = emulator.device();
    let ordinal = first.ordinal();
    result::init().unwrap();
    let handle = result::device::get(ordinal as i32).unwrap();
    // SAFETY: nothing is made in the context.
    unsafe {
        result::primary_ctx::retain(handle).unwrap();
        drop(first);
        let others: Vec<_> = (0..3).map(|_| emulator.device()).collect();
        assert!(others.iter().all(|device| device.ordinal() != ordinal));
        result::primary_ctx::release(handle).unwrap();
    }
}

#[test]
fn device_memory_runs_out() {
    let Some(bench) = Bench::new(1) else { return };
    let (free, total) = result::mem_get_info().unwrap();
    assert_eq!(total - free, 4 + 4 + 8);
    // SAFETY: freed below.
    unsafe {
        let most = result::malloc_sync(free).unwrap();
        let error = result::malloc_sync(1).expect_err("all is taken").0;
        assert_eq!(error, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        result::free_sync(most).unwrap();
    }
    assert_eq!(bench.device.stat("max_allocated"), total as u64);
}

#[test]
fn images_are_looked_at() {
    let Some(bench) = Bench::new(1) else { return };
    let load = |image: &[u8]| {
        // SAFETY: the images end as their kinds do.
        unsafe { result::module::load_data(image.as_ptr().cast()) }.map_err(|error| error.0)
    };
    let newer = b".version 9.0\n.target sm_80\n\0";
    assert_eq!(load(newer), Err(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
    let other_card = b".version 8.0\n.target sm_100\n\0";
    assert_eq!(load(other_card), Err(CUresult::CUDA_ERROR_INVALID_PTX));
    assert_eq!(load(b"no image\0"), Err(CUresult::CUDA_ERROR_INVALID_IMAGE));
    let mut machine_code = [0; 64];
    machine_code[..5].copy_from_slice(b"\x7fELF\x02");
    machine_code[18] = 190;
    machine_code[48] = 80;
    assert_eq!(load(&machine_code), Err(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU));
    machine_code[48] = 90;
    let module = load(&machine_code).unwrap();
    // SAFETY: the module is loaded.
    let missing = unsafe { result::module::get_function(module, c"verify".into()) };
    assert_eq!(missing.expect_err("the image has none").0, CUresult::CUDA_ERROR_NOT_FOUND);
    drop(bench);
}

#[test]
fn the_embedded_images_have_the_kernels_of_the_sources() {
    let Some(bench) = Bench::new(1) else { return };
    let folder =
        std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("kernels/images");
    let verify = |layouts: [&str; 2]| -> Vec<String> {
        let forms =
            |layout: &&str| ["pairs", "count"].map(|form| format!("verify_{layout}_{form}"));
        layouts.iter().flat_map(forms).collect()
    };
    let tiles = |kernels: &[&str]| -> Vec<String> {
        let widths = |kernel: &&str| [256, 512, 1024].map(|bits| format!("tiles_{kernel}_{bits}"));
        let decide = ["hits", "units"]
            .iter()
            .flat_map(|what| ["pairs", "count"].map(|form| format!("tiles_decide_{what}_{form}")));
        let fixed = ["tiles_sign", "tiles_unite"].map(String::from);
        kernels.iter().flat_map(widths).chain(decide).chain(fixed).collect()
    };
    let images = [
        ("verify.sm_90.cubin", verify(["lanes_per_pair", "block_per_pair"])),
        ("verify.ptx", verify(["lanes_per_pair", "block_per_pair"])),
        ("published.sm_90.cubin", verify(["thread_per_probe", "thread_per_pair"])),
        ("published.ptx", verify(["thread_per_probe", "thread_per_pair"])),
        ("tiles.sm_90a.cubin", tiles(&["count", "product", "warpgroup"])),
        ("tiles.ptx", tiles(&["count"])),
    ];
    for (name, kernels) in images {
        let mut image = std::fs::read(folder.join(name)).unwrap();
        image.push(0);
        // SAFETY: machine code or text that ends with 0.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) }.unwrap();
        for kernel in kernels.into_iter().map(|kernel| CString::new(kernel).unwrap()) {
            // SAFETY: the module is loaded.
            let function = unsafe { result::module::get_function(module, kernel.clone()) };
            assert!(function.is_ok(), "{name} has no {kernel:?}");
        }
    }
    drop(bench);
}
