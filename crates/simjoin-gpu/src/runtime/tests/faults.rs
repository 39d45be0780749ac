//! Failures of the driver.

use std::time::Duration;

use crate::runtime::Usage;
use crate::runtime::driver::Context;
use crate::runtime::memory::DeviceBuffer;
use crate::runtime::tests::*;

const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const UNAVAILABLE: i32 = 46;
const ILLEGAL_ADDRESS: i32 = 700;

/// An upload and ten works of two types and sizes, and how each was answered.
fn run(device: &Device) -> Vec<Result<(), DeviceError>> {
    let inbox = Inbox::new();
    let numbers: Vec<u32> = (0..500).collect();
    let resident = device.resident("numbers", 2000, |upload| upload.copy(0, &numbers));
    let mut answers = vec![];
    answers.extend(resident.err().map(Err));
    for number in 0..10 {
        let count = if number < 5 { 100 } else { 900 };
        match number % 2 {
            0 => inbox.fill(device, number, count),
            _ => answers.extend(inbox.echo(device, number, count).err().map(Err)),
        }
    }
    let forget = |answer: Result<Usage, DeviceError>| answer.map(|_| ());
    answers.extend(inbox.wait_for_all().into_iter().map(forget));
    answers
}

/// Whatever call of a driver's function fails, with whatever error: each work is answered once,
/// those that succeed rightly, and nothing is left behind.
#[test]
fn no_fault_loses_a_work_or_memory() {
    let Some(lent) = Lent::emulated() else { return };
    let functions = [
        "cuCtxSetCurrent",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuFuncGetAttribute",
        "cuFuncSetAttribute",
        "cuMemAlloc",
        "cuMemHostAlloc",
        "cuMemcpyHtoDAsync",
        "cuMemsetD8Async",
        "cuLaunchKernel",
        "cuMemcpyDtoHAsync",
        "cuEventRecord",
        "cuEventSynchronize",
        "cuEventElapsedTime",
        "cuStreamSynchronize",
    ];
    for function in functions {
        for nth in [1, 2, 7] {
            for error in [INVALID_VALUE, OUT_OF_MEMORY, UNAVAILABLE, ILLEGAL_ADDRESS] {
                let device = lent.open().unwrap();
                lent.fake().fault(function, nth, error);
                let answers = run(&device);
                let errors = answers.iter().filter_map(|answer| answer.as_ref().err());
                lent.expect_one_failure(&device, function, &errors.collect::<Vec<_>>());
                drop(device);
                lent.expect_nothing_left();
                lent.fake().reset();
            }
        }
    }
    let device = lent.open().unwrap();
    assert!(run(&device).iter().all(Result::is_ok));
}

#[test]
fn a_device_lost_in_mid_stream_fails_all_works_and_can_be_opened_again() {
    let Some(lent) = Lent::emulated() else { return };
    for nth in [1, 2, 4, 5] {
        let device = lent.open().unwrap();
        lent.fake().fault_async(nth, ILLEGAL_ADDRESS);
        let answers = run(&device);
        let lost = answers.last().unwrap().clone().unwrap_err();
        assert!(matches!(lost, DeviceError::Lost { code: ILLEGAL_ADDRESS, .. }), "{lost}");
        assert!(answers.iter().all(|answer| match answer {
            Ok(()) => true,
            Err(error) => *error == lost,
        }));
        assert!(Device::opened(lent.ordinal).is_none());
        // From now on every call on the lost device reports the loss.
        assert!(run(&device).iter().all(|answer| *answer == Err(lost.clone())));
        assert_eq!(device.free_memory(), Err(lost));
        drop(device);
        lent.expect_nothing_left();
        lent.fake().reset();
        let device = lent.open().unwrap();
        assert!(run(&device).iter().all(Result::is_ok));
        drop(device);
        lent.expect_nothing_left();
    }
}

/// The threads of the queue free the remains of a lost device; opening it anew waits for them.
#[test]
fn a_lost_device_can_be_opened_at_once() {
    let Some(lent) = Lent::emulated() else { return };
    // Each on a thread of the queue; the first stream to go is that of uploads.
    let slow = [("cuStreamDestroy", 2), ("cuModuleUnload", 1), ("cuDevicePrimaryCtxRelease", 1)];
    for (slow, nth) in slow {
        let device = lent.open().unwrap();
        lent.fake().fault_async(1, ILLEGAL_ADDRESS);
        assert!(run(&device).iter().any(Result::is_err));
        lent.fake().delay(slow, nth, Duration::from_millis(100));
        drop(device);
        let device = lent.open().unwrap_or_else(|error| panic!("{slow}: {error}"));
        assert!(run(&device).iter().all(Result::is_ok), "{slow}");
        drop(device);
        lent.expect_nothing_left();
        lent.fake().reset();
    }
}

/// While a query holds a lost device, opening the device reports the error that lost it.
#[test]
fn a_lost_device_that_is_still_in_use_is_not_opened() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    lent.fake().fault_async(1, ILLEGAL_ADDRESS);
    assert!(run(&device).iter().any(Result::is_err));
    let error = lent.open().unwrap_err().to_string();
    assert!(error.contains("an illegal memory access was encountered (error 700)"), "{error}");
    drop(device);
    assert!(run(&lent.open().unwrap()).iter().all(Result::is_ok));
}

/// A thread of the queue that cannot make the context current loses the device, which goes on with
/// what it was given: works are answered, and their memory given back, only after that.
#[test]
fn a_queue_without_its_context_waits_for_what_is_under_way() {
    let Some(lent) = Lent::emulated() else { return };
    // After the call that opens the device come those of the launcher and the collector, in any
    // order.
    for nth in [2, 3].repeat(4) {
        let held = lent.fake().hold();
        lent.fake().fault("cuCtxSetCurrent", nth, INVALID_VALUE);
        let device = lent.open().unwrap();
        // So that it is theirs which fails, and not one of this thread.
        std::thread::sleep(Duration::from_millis(20));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                drop(held);
            });
            assert!(run(&device).iter().any(Result::is_err));
            drop(device);
        });
        lent.expect_nothing_left();
        lent.fake().reset();
    }
}

/// A stream whose wait fails may still work, so that its device counts as lost. The error is the
/// driver's.
#[test]
fn a_stream_that_cannot_be_waited_for_loses_the_device() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    for _ in 0..2 {
        lent.fake().fault("cuStreamSynchronize", 1, INVALID_VALUE);
    }
    let error = device.resident("numbers", 8, |upload| upload.copy(0, &[7_u64])).unwrap_err();
    assert!(matches!(error, DeviceError::Failed { code: INVALID_VALUE, .. }), "{error}");
    let lost = device.free_memory().unwrap_err();
    let expected = "cuStreamSynchronize reports invalid argument (error 1);";
    assert!(lost.to_string().contains(expected), "{lost}");
}

#[test]
fn work_that_does_not_fit_is_answered_so_and_others_go_on() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let inbox = Inbox::new();
    for number in 0..6 {
        // The allocation, and the one after everything idle has been freed.
        if number == 2 {
            device.trim();
            lent.fake().fault("cuMemAlloc", 1, OUT_OF_MEMORY);
            lent.fake().fault("cuMemAlloc", 1, OUT_OF_MEMORY);
        }
        inbox.fill(&device, number, 500);
        match inbox.wait_for_all().remove(0) {
            Ok(_) => assert_ne!(number, 2),
            Err(DeviceError::OutOfMemory { what: "numbers", bytes, free }) => {
                assert_eq!(number, 2);
                assert!(bytes > 0 && free > 0);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Several joins may fill the device together: a work waits for those that hold the memory.
#[test]
fn works_take_turns_where_there_is_room_for_one() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let submit = |inbox: &Inbox, number: u32| match number % 2 {
        0 => inbox.fill(&device, number, 50_000),
        _ => inbox.echo(&device, number, 50_000).unwrap(),
    };
    let inbox = Inbox::new();
    submit(&inbox, 0);
    assert!(inbox.wait_for_all()[0].is_ok());
    let one = lent.fake().stat("allocated");
    device.trim();
    let context = Context::retain(lent.ordinal).unwrap();
    let _entered = context.enter().unwrap();
    let free = device.free_memory().unwrap();
    let ballast = DeviceBuffer::new(&context, "the rest", free - one - one / 2).unwrap();
    (0..40).for_each(|number| submit(&inbox, number));
    let (order, answers) = inbox.wait_in_order();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert!(order.is_sorted(), "{order:?}");
    drop(ballast);
}

/// One allocation may fail: idle memory is freed and it is tried again.
#[test]
fn what_is_idle_is_freed_where_memory_is_short() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    assert!(run(&device).iter().all(Result::is_ok));
    let idle = lent.fake().stat("allocated");
    assert!(idle > 0);
    lent.fake().fault("cuMemAlloc", 1, OUT_OF_MEMORY);
    let resident = device.resident("numbers", 8, |upload| upload.copy(0, &[7_u64])).unwrap();
    assert_eq!(lent.fake().stat("allocated"), resident.bytes());
    lent.fake().fault("cuMemHostAlloc", 1, OUT_OF_MEMORY);
    assert!(device.pinned(1 << 22).is_ok());
    lent.fake().fault("cuMemHostAlloc", 1, OUT_OF_MEMORY);
    lent.fake().fault("cuMemHostAlloc", 1, OUT_OF_MEMORY);
    device.trim();
    let error = device.pinned(1 << 22).unwrap_err();
    assert!(matches!(error, DeviceError::HostOutOfMemory { bytes } if bytes >= 1 << 22), "{error}");
}

/// Whatever call fails while a device is opened, it is an error and nothing is left.
#[test]
fn a_device_that_fails_to_open_leaves_nothing() {
    let Some(lent) = Lent::emulated() else { return };
    let functions = [
        ("cuDeviceGet", 1),
        ("cuDeviceGetName", 1),
        ("cuDeviceGetAttribute", 4),
        ("cuDeviceTotalMem", 1),
        ("cuDevicePrimaryCtxRetain", 1),
        ("cuCtxSetCurrent", 1),
        ("cuModuleLoadData", 1),
        ("cuStreamCreate", 2),
        ("cuEventCreate", 5),
        ("cuMemHostAlloc", 1),
    ];
    let open = || lent.open().and_then(|device| device.load(&FILL));
    for (function, nth) in functions {
        for error in [INVALID_VALUE, OUT_OF_MEMORY, UNAVAILABLE] {
            lent.fake().fault(function, nth, error);
            if (function, error) == ("cuMemHostAlloc", OUT_OF_MEMORY) {
                // The pinned pool frees its idle memory and tries again.
                lent.fake().fault(function, nth, error);
            }
            let outcome = open();
            assert!(outcome.is_err(), "{function} {error}");
            lent.expect_nothing_left();
            lent.fake().reset();
        }
    }
    assert!(open().is_ok());
}
