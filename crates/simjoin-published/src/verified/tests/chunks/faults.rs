//! Failures of the driver.

use crate::verified::tests::chunks::*;

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
    let resident = match ResidentSets::on(device, sets, true) {
        Ok(resident) => Some(resident),
        Err(error) => {
            answers.push(Err(error));
            None
        }
    };
    for number in 0..10 {
        let case = Case::draw(&mut rng, sets, if number < 5 { 3 } else { 9 });
        let form = if number % 2 == 0 { Form::Pairs } else { Form::Count };
        let launch = launch(Layout::ALL[number % 4], form);
        match case.staging(device, resident.is_none()) {
            Ok(staging) => {
                let mut job = case.job(staging, launch, &inbox);
                job.probe = resident.clone();
                job.build = resident.clone();
                job.submit(device);
                cases.push((case, launch));
            }
            Err(error) => answers.push(Err(error)),
        }
    }
    for (outcome, (case, launch)) in inbox.wait_for_all().into_iter().zip(cases) {
        answers.push(outcome.map(|outcome| case.check(&launch, &outcome)));
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
                let errors = answers.iter().filter_map(|answer| answer.as_ref().err());
                lent.expect_one_failure(&device, function, &errors.collect::<Vec<_>>());
                sets.attached().clear();
                drop(device);
                lent.expect_nothing_left();
                lent.fake().reset();
            }
        }
    }
    let device = lent.open().unwrap();
    assert!(run(&device, &sets).iter().all(Result::is_ok));
}
