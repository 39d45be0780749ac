//! The verification kernels against a plain merge: every layout, form and block size, on a real
//! GPU where there is one and on the emulator elsewhere.
//!
//! A kernel is told the least overlap with which a pair matches and nothing of measures, so
//! overlaps around that least one are what there is to try.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use simjoin_gpu::runtime::Device;
use simjoin_published::verified::{Form, Layout};

use crate::emulator::gpu;
use crate::gpu_chunks::{Chunk, Sets, Trial};

const BLOCKS: [u32; 4] = [32, 64, 128, 256];
/// A device for tests that share it.
fn device() -> Option<Arc<Device>> {
    gpu()?;
    Some(Device::open(0).expect("device 0"))
}

#[test]
fn all_layouts_find_the_matches_of_small_and_large_sets() {
    let Some(device) = device() else { return };
    let mut rng = StdRng::seed_from_u64(41);
    let sizes = [0, 1, 2, 3, 7, 31, 32, 33, 64, 65, 127, 300, 1000, 1023];
    for layout in Layout::ALL {
        for block in BLOCKS {
            let mut probe = Sets::random(&mut rng, &sizes, 1500);
            let mut build = Sets::random(&mut rng, &[sizes, sizes].concat(), 1500);
            let factor = if rng.random() { 1 } else { 1000 };
            probe.spread(factor);
            build.spread(factor);
            let chunk = Chunk::random(&mut rng, probe, build, false);
            for _ in 0..4 {
                chunk.check(&device, &Trial::random(&mut rng, layout, block));
            }
        }
    }
}

#[test]
fn sets_that_are_longer_than_shared_memory_are_right() {
    let Some(device) = device() else { return };
    let mut rng = StdRng::seed_from_u64(42);
    let sizes = [1, 33, 1024, 2047, 2048, 50_000];
    for layout in Layout::ALL {
        for block in [32, 256] {
            let probe = Sets::random(&mut rng, &sizes, 120_000);
            let build = Sets::random(&mut rng, &sizes, 120_000);
            let chunk = Chunk::random(&mut rng, probe, build, false);
            let trial = Trial::random(&mut rng, layout, block);
            chunk.check(&device, &Trial { wide: true, ..trial });
        }
    }
}

#[test]
fn many_candidates_of_one_probe_set_and_few_of_many() {
    let Some(device) = device() else { return };
    let mut rng = StdRng::seed_from_u64(43);
    for (probes, builds) in [(1, 1200), (600, 2)] {
        for layout in Layout::ALL {
            let size = |rng: &mut StdRng, count| -> Vec<usize> {
                (0..count).map(|_| rng.random_range(0..12)).collect()
            };
            let (probes, builds) = (size(&mut rng, probes), size(&mut rng, builds));
            let probe = Sets::random(&mut rng, &probes, 20);
            let build = Sets::random(&mut rng, &builds, 20);
            let chunk = Chunk::random(&mut rng, probe, build, false);
            for block in [32, 128] {
                chunk.check(&device, &Trial::random(&mut rng, layout, block));
            }
        }
    }
}

/// The first group of a block prepares a large probe set for nothing: no thread may still be at it
/// when others have gone on to the next one.
#[test]
fn groups_without_open_pairs_do_not_disturb_those_that_follow() {
    let Some(device) = device() else { return };
    let mut rng = StdRng::seed_from_u64(46);
    for layout in Layout::ALL {
        let probe = Sets::random(&mut rng, &[900, 30].repeat(12), 1000);
        let build = Sets::random(&mut rng, &[40, 300, 500, 600, 700], 1000);
        let mut chunk = Chunk::random(&mut rng, probe, build, false);
        chunk.merge_all(|probe| probe % 2 == 0);
        for block in [64, 256] {
            for most_blocks in [1, 3, 5] {
                let mut trial = Trial::random(&mut rng, layout, block);
                trial.launch.shared_words = 8192;
                trial.launch.most_blocks = most_blocks;
                trial.exact = true;
                chunk.check(&device, &trial);
            }
        }
    }
}

#[test]
fn counts_of_a_self_join_tell_a_set_with_itself_apart() {
    let Some(device) = device() else { return };
    for layout in Layout::ALL {
        let mut rng = StdRng::seed_from_u64(44);
        let sizes: Vec<usize> = (1..40).collect();
        let probe = Sets::random(&mut rng, &sizes, 60);
        let mut rng = StdRng::seed_from_u64(44);
        let build = Sets::random(&mut rng, &sizes, 60);
        let chunk = Chunk::random(&mut rng, probe, build, true);
        assert!(chunk.expected_found().squares > 0);
        let mut trial = Trial::random(&mut rng, layout, 64);
        (trial.launch.form, trial.first_only) = (Form::Count, false);
        chunk.check(&device, &trial);
    }
}

#[test]
fn a_chunk_without_candidates_has_no_match() {
    let Some(device) = device() else { return };
    let mut rng = StdRng::seed_from_u64(45);
    let probe = Sets::random(&mut rng, &[3], 9);
    let build = Sets::random(&mut rng, &[], 9);
    let chunk = Chunk::random(&mut rng, probe, build, false);
    for layout in Layout::ALL {
        chunk.check(&device, &Trial::random(&mut rng, layout, 32));
    }
}
