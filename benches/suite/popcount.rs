//! A bare popcount loop: what a second thread gains on this machine when nothing is shared.

use std::hint::black_box;
use std::time::Instant;

/// Words of each thread's two arrays: 32 KiB together, which every first-level cache holds.
const WORDS: usize = 2048;

/// Passes over the arrays that take about half a second on one core.
const PASSES: usize = 1 << 20;

/// Seconds for the same work on one thread and cut in `threads` parts; the best of three runs
/// each, by turns.
pub fn seconds(threads: usize) -> (f64, f64) {
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..3 {
        best.0 = best.0.min(run(1));
        best.1 = best.1.min(run(threads));
    }
    best
}

/// The gain of `threads` threads over one.
pub fn gain(threads: usize) -> f64 {
    if threads == 1 {
        return 1.0;
    }
    let (one, many) = seconds(threads);
    one / many
}

fn run(threads: usize) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let fill = |seed: usize| -> Vec<u64> {
                    (0..WORDS).map(|i| (i + seed) as u64 * 0x9E37_79B9_7F4A_7C15).collect()
                };
                let (a, b) = (fill(thread), fill(thread + 7));
                let mut sum = 0;
                for _ in 0..PASSES / threads {
                    sum += common_bits(black_box(&a), black_box(&b));
                }
                black_box(sum);
            });
        }
    });
    start.elapsed().as_secs_f64()
}

fn common_bits(a: &[u64], b: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vpopcntdq") {
            // SAFETY: the processor has the features that the function is compiled for.
            return unsafe { x86::common_bits_avx512(a, b) };
        }
        if is_x86_feature_detected!("popcnt") {
            // SAFETY: as above.
            return unsafe { x86::common_bits_popcnt(a, b) };
        }
    }
    common_bits_portable(a, b)
}

/// Inlined into functions compiled for the processor's registers, which vectorise it.
#[inline(always)]
fn common_bits_portable(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).map(|(a, b)| u64::from((a & b).count_ones())).sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    pub fn common_bits_avx512(a: &[u64], b: &[u64]) -> u64 {
        super::common_bits_portable(a, b)
    }

    #[target_feature(enable = "popcnt")]
    pub fn common_bits_popcnt(a: &[u64], b: &[u64]) -> u64 {
        super::common_bits_portable(a, b)
    }
}
