//! What happens when the driver fails.

use crate::gpu::driver::Context;
use crate::gpu::memory::DeviceBuffer;
use crate::gpu::tests::*;

const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const UNAVAILABLE: i32 = 46;
const ILLEGAL_ADDRESS: i32 = 700;

/// Ten jobs of two sizes and both forms, and how each was answered. Stagings are given back by the
/// threads of the queue.
fn run(device: &Device, sets: &Arc<SetCollection>) -> Vec<Result<(), DeviceError>> {
    let mut rng = StdRng::seed_from_u64(4);
    let inbox = Inbox::new();
    let mut answers = vec![];
    let mut cases = vec![];
    let resident = match device.upload(sets, true) {
        Ok(resident) => Some(Arc::new(resident)),
        Err(error) => {
            answers.push(Err(error));
            None
        }
    };
    for number in 0..10 {
        let case = Case::draw(&mut rng, sets, if number < 5 { 3 } else { 9 });
        let form = if number % 2 == 0 { Form::Pairs } else { Form::Count };
        let launch = launch(Layout::ALL[number % 4], form);
        match case.staging(device, resident.is_none(), form) {
            Ok(staging) => {
                let mut job = case.job(staging, launch, &inbox);
                job.probe = resident.clone();
                job.build = resident.clone();
                device.submit(job);
                cases.push((case, launch));
            }
            Err(error) => answers.push(Err(error)),
        }
    }
    for ((staging, outcome), (case, launch)) in inbox.wait_for_all().into_iter().zip(cases) {
        answers.push(outcome.map(|outcome| case.check(&launch, &staging, &outcome)));
    }
    answers
}

/// Whatever call of a driver's function fails, with whatever error: each job is answered once,
/// those that succeed rightly, and nothing is left behind.
#[test]
fn no_fault_loses_a_job_or_memory() {
    let Some(lent) = Lent::emulated() else { return };
    let sets = Arc::new(sets(&mut StdRng::seed_from_u64(1), 40, 20));
    let functions = [
        "cuCtxSetCurrent",
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
                let answers = run(&device, &sets);
                let errors: Vec<_> = answers.iter().filter_map(|a| a.as_ref().err()).collect();
                let context = format!("{function} {nth} {error}: {errors:?}");
                let lost = device.is_lost();
                // A thread that cannot make the context current cannot tell why.
                let told = lent.fake().stat("lost") != 0;
                assert!(lost == told || function == "cuCtxSetCurrent" && lost, "{context}");
                // The loss may show first where something is given back.
                assert!(lost || !errors.iter().any(|e| e.is_fatal()), "{context}");
                assert!(lost || errors.len() <= 1, "{context}");
                drop(device);
                lent.expect_nothing_left();
                lent.fake().reset();
            }
        }
    }
    let device = lent.open().unwrap();
    assert!(run(&device, &sets).iter().all(Result::is_ok));
}

#[test]
fn a_device_lost_in_mid_stream_fails_all_jobs_and_can_be_opened_again() {
    let Some(lent) = Lent::emulated() else { return };
    let sets = Arc::new(sets(&mut StdRng::seed_from_u64(1), 40, 20));
    for nth in [1, 2, 4, 10] {
        let device = lent.open().unwrap();
        lent.fake().fault_async(nth, ILLEGAL_ADDRESS);
        let answers = run(&device, &sets);
        let lost = answers.last().unwrap().clone().unwrap_err();
        assert!(matches!(lost, DeviceError::Lost { code: ILLEGAL_ADDRESS, .. }), "{lost}");
        assert!(answers.iter().all(|answer| match answer {
            Ok(()) => true,
            Err(error) => *error == lost,
        }));
        assert!(Device::opened(lent.ordinal).is_none());
        // What asks the lost device from now on is told so.
        assert!(run(&device, &sets).iter().all(|answer| *answer == Err(lost.clone())));
        assert_eq!(device.free_memory(), Err(lost));
        drop(device);
        lent.expect_nothing_left();
        lent.fake().reset();
        let device = lent.open().unwrap();
        assert!(run(&device, &sets).iter().all(Result::is_ok));
        drop(device);
        lent.expect_nothing_left();
    }
}

/// What is left of a lost device goes on threads of its own; who opens it anew waits for them.
#[test]
fn a_lost_device_can_be_opened_at_once() {
    let Some(lent) = Lent::emulated() else { return };
    let sets = Arc::new(sets(&mut StdRng::seed_from_u64(1), 40, 20));
    // Each on a thread of the queue; the first stream to go is that of uploads.
    let slow = [("cuStreamDestroy", 2), ("cuModuleUnload", 1), ("cuDevicePrimaryCtxRelease", 1)];
    for (slow, nth) in slow {
        let device = lent.open().unwrap();
        lent.fake().fault_async(1, ILLEGAL_ADDRESS);
        assert!(run(&device, &sets).iter().any(Result::is_err));
        lent.fake().delay(slow, nth, Duration::from_millis(100));
        drop(device);
        let device = lent.open().unwrap_or_else(|error| panic!("{slow}: {error}"));
        assert!(run(&device, &sets).iter().all(Result::is_ok), "{slow}");
        drop(device);
        lent.expect_nothing_left();
        lent.fake().reset();
    }
}

/// As long as somebody holds on to a lost device, opening it says what has become of it.
#[test]
fn a_lost_device_that_is_still_in_use_is_not_opened() {
    let Some(lent) = Lent::emulated() else { return };
    let sets = Arc::new(sets(&mut StdRng::seed_from_u64(1), 40, 20));
    let device = lent.open().unwrap();
    lent.fake().fault_async(1, ILLEGAL_ADDRESS);
    assert!(run(&device, &sets).iter().any(Result::is_err));
    let error = lent.open().unwrap_err().to_string();
    assert!(error.contains("an illegal memory access was encountered (error 700)"), "{error}");
    drop(device);
    assert!(run(&lent.open().unwrap(), &sets).iter().all(Result::is_ok));
}

/// A thread of the queue that cannot make the context current loses the device, which goes on with
/// what it was given: jobs are answered, and their memory given back, only after that.
#[test]
fn a_queue_without_its_context_waits_for_what_is_under_way() {
    let Some(lent) = Lent::emulated() else { return };
    let sets = Arc::new(sets(&mut StdRng::seed_from_u64(1), 40, 20));
    // After the call of who opens the device come those of the launcher and the collector, in any
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
            assert!(run(&device, &sets).iter().any(Result::is_err));
            drop(device);
        });
        lent.expect_nothing_left();
        lent.fake().reset();
    }
}

/// Nobody knows what a stream still does that cannot be waited for. The error is the driver's.
#[test]
fn a_stream_that_cannot_be_waited_for_loses_the_device() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let sets = sets(&mut StdRng::seed_from_u64(1), 40, 20);
    for _ in 0..2 {
        lent.fake().fault("cuStreamSynchronize", 1, INVALID_VALUE);
    }
    let error = device.upload(&sets, true).unwrap_err();
    assert!(matches!(error, DeviceError::Failed { code: INVALID_VALUE, .. }), "{error}");
    let lost = device.free_memory().unwrap_err();
    let expected = "cuStreamSynchronize reports invalid argument (error 1);";
    assert!(lost.to_string().contains(expected), "{lost}");
}

#[test]
fn a_chunk_that_does_not_fit_is_answered_so_and_others_go_on() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(1);
    let sets = Arc::new(sets(&mut rng, 40, 20));
    let case = Case::draw(&mut rng, &sets, 5);
    let inbox = Inbox::new();
    let launch = launch(Layout::ThreadPerPair, Form::Pairs);
    for number in 0..6 {
        // The allocation, and the one after everything idle has been freed.
        if number == 2 {
            Device::trim(&device);
            lent.fake().fault("cuMemAlloc", 1, OUT_OF_MEMORY);
            lent.fake().fault("cuMemAlloc", 1, OUT_OF_MEMORY);
        }
        let staging = case.staging(&device, true, Form::Pairs).unwrap();
        device.submit(case.job(staging, launch, &inbox));
        let (_, staging, outcome) = inbox.wait();
        match outcome {
            Ok(outcome) => {
                assert_ne!(number, 2);
                case.check(&launch, &staging, &outcome);
            }
            Err(DeviceError::OutOfMemory { bytes, free, .. }) => {
                assert_eq!(number, 2);
                assert!(bytes > 0 && free > 0);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Several joins may fill the device together: a chunk waits for those that hold the memory.
#[test]
fn chunks_take_turns_where_there_is_room_for_one() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let mut rng = StdRng::seed_from_u64(1);
    let sets = Arc::new(sets(&mut rng, 40, 20));
    let case = Case::draw(&mut rng, &sets, 30);
    let launch = launch(Layout::ThreadPerPair, Form::Pairs);
    let submit = |inbox: &Inbox| {
        let staging = case.staging(&device, true, Form::Pairs).unwrap();
        device.submit(case.job(staging, launch, inbox));
    };
    let inbox = Inbox::new();
    submit(&inbox);
    inbox.wait().2.unwrap();
    let chunk = lent.fake().stat("allocated");
    device.trim();
    let context = Context::retain(lent.ordinal).unwrap();
    let _entered = context.enter().unwrap();
    let free = device.free_memory().unwrap();
    let ballast = DeviceBuffer::new(&context, "the rest", free - chunk - chunk / 2).unwrap();
    let inbox = Inbox::new();
    (0..40).for_each(|_| submit(&inbox));
    for (staging, outcome) in inbox.wait_for_all() {
        case.check(&launch, &staging, &outcome.unwrap());
    }
    drop(ballast);
}

/// One allocation may fail: idle memory is freed and it is tried again.
#[test]
fn what_is_idle_is_freed_where_memory_is_short() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let sets = Arc::new(sets(&mut StdRng::seed_from_u64(1), 40, 20));
    assert!(run(&device, &sets).iter().all(Result::is_ok));
    let idle = lent.fake().stat("allocated");
    assert!(idle > 0);
    lent.fake().fault("cuMemAlloc", 1, OUT_OF_MEMORY);
    let resident = device.upload(&sets, false).unwrap();
    assert_eq!(lent.fake().stat("allocated"), resident.bytes());
    lent.fake().fault("cuMemHostAlloc", 1, OUT_OF_MEMORY);
    let capacities = Capacities { candidates: 1 << 22, ..Capacities::default() };
    assert!(device.staging(capacities).is_ok());
    lent.fake().fault("cuMemHostAlloc", 1, OUT_OF_MEMORY);
    lent.fake().fault("cuMemHostAlloc", 1, OUT_OF_MEMORY);
    device.trim();
    let error = device.staging(capacities).unwrap_err();
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
    for (function, nth) in functions {
        for error in [INVALID_VALUE, OUT_OF_MEMORY, UNAVAILABLE] {
            lent.fake().fault(function, nth, error);
            if (function, error) == ("cuMemHostAlloc", OUT_OF_MEMORY) {
                // It is tried again with what is idle freed.
                lent.fake().fault(function, nth, error);
            }
            let outcome = lent.open();
            assert!(outcome.is_err(), "{function} {error}");
            lent.expect_nothing_left();
            lent.fake().reset();
        }
    }
    assert!(lent.open().is_ok());
}
