//! Chunks, devices and memory when calls of the driver fail, on the emulator.

use std::thread;

use cudarc::driver::sys::CUresult;
use rand::SeedableRng;
use rand::rngs::StdRng;
use simjoin_gpu::runtime::{Device, DeviceError};
use simjoin_published::verified::{Form, Launch, Layout};

use crate::emulator::Emulator;
use crate::gpu_chunks::{Chunk, Sets, Trial};

const TRIAL: Trial = Trial {
    launch: Launch {
        layout: Layout::LanesPerPair,
        form: Form::Pairs,
        block: 64,
        shared_words: 1024,
        most_blocks: u32::MAX,
    },
    wide: false,
    exact: true,
    first_only: false,
};

fn chunk(seed: u64) -> Chunk {
    let mut rng = StdRng::seed_from_u64(seed);
    let sizes: Vec<usize> = (0..30).collect();
    let probe = Sets::random(&mut rng, &sizes[..10], 40);
    let build = Sets::random(&mut rng, &sizes, 40);
    Chunk::random(&mut rng, probe, build, false)
}

/// Has a chunk verified; checks what was found.
fn verify(device: &Device, chunk: &Chunk) -> Result<(), DeviceError> {
    let staging = chunk.staging(device, TRIAL.wide)?;
    let outcome = chunk.submit(device, staging, &TRIAL).recv().expect("an answer");
    chunk.compare(&TRIAL, &outcome?);
    Ok(())
}

#[test]
fn chunks_of_many_threads_are_in_flight_together() {
    let Some(emulator) = Emulator::get() else { return };
    let lease = emulator.device();
    let device = Device::open(lease.ordinal()).unwrap();
    let held = lease.hold();
    thread::scope(|scope| {
        for seed in 0..4 {
            let device = &device;
            scope.spawn(move || {
                let chunk = chunk(seed);
                let answers: Vec<_> = (0..10)
                    .map(|_| chunk.staging(device, TRIAL.wide).unwrap())
                    .map(|staging| chunk.submit(device, staging, &TRIAL))
                    .collect();
                for answer in answers {
                    let outcome = answer.recv().unwrap();
                    chunk.compare(&TRIAL, &outcome.unwrap());
                }
            });
        }
        lease.expect_at_least("in_flight", Device::SLOTS as u64);
        drop(held);
    });
    assert_eq!(lease.stat("launches"), 40);
    assert_eq!(lease.stat("max_in_flight"), Device::SLOTS as u64);
    drop(device);
    lease.expect_nothing_left(Device::close, "closed");
}

/// An error of the hardware outlives the context.
#[test]
fn a_device_lost_for_good_says_so_whenever_it_is_opened() {
    let Some(emulator) = Emulator::get() else { return };
    let lease = emulator.device();
    let device = Device::open(lease.ordinal()).unwrap();
    lease.fault_async(1, CUresult::CUDA_ERROR_ECC_UNCORRECTABLE as i32);
    let error = verify(&device, &chunk(4)).unwrap_err();
    assert!(error.to_string().contains("ECC"), "{error}");
    drop(device);
    // It has been closed already.
    lease.expect_nothing_left(|_| {}, "lost");
    for _ in 0..2 {
        let error = Device::open(lease.ordinal()).unwrap_err();
        assert!(error.to_string().contains("ECC"), "{error}");
    }
    lease.reset();
    verify(&Device::open(lease.ordinal()).unwrap(), &chunk(4)).unwrap();
    lease.expect_nothing_left(Device::close, "closed");
}

/// Fails each call of the driver in turn, from the opening of a device to the end of its second
/// chunk, in every way: the answer is right or an error, and nothing remains.
#[test]
fn any_call_may_fail() {
    let Some(emulator) = Emulator::get() else { return };
    let lease = emulator.device();
    let chunk = chunk(5);
    let run = || -> Result<(), DeviceError> {
        let device = Device::open(lease.ordinal())?;
        verify(&device, &chunk)?;
        device.trim();
        verify(&device, &chunk)
    };
    let calls = {
        run().unwrap();
        lease.expect_nothing_left(Device::close, "without a fault");
        lease.stat("calls") as u32
    };
    assert!(calls > 50, "{calls}");
    for error in [
        CUresult::CUDA_ERROR_INVALID_VALUE,
        CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    ] {
        let mut failures = 0;
        for call in 1..=calls {
            lease.fault("*", call, error as i32);
            failures += u32::from(run().is_err());
            lease.expect_nothing_left(Device::close, &format!("call {call}, {error:?}"));
            lease.reset();
        }
        // Some calls only give back, some are made again.
        assert!(failures > calls / 3, "{failures} of {calls}, {error:?}");
    }
}
