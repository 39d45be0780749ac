//! Every form of an operation against its definition on single lanes.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Bytes, Lanes, Simd, Words};

#[repr(align(64))]
struct Aligned([u64; 8]);

kernels! {
    /// The lanes of `count` words with at least `least` common bits.
    fn common_at_least[S: Words, ](a: &[Aligned], b: &[u64], least: i64) -> u8 {
        // SAFETY: `kernels!` provides the instruction set; the words are aligned references.
        unsafe {
            let mut count = S::zero();
            for (a, &b) in a.iter().zip(b) {
                count = S::add_common(count, S::load(a.0.as_ptr()), S::splat(b));
            }
            S::at_least(count, least)
        }
    }
}

kernels! {
    /// Compares what each operation gives with what it should give.
    fn check_lanes[S: Lanes, ](a: &[u32; 16], b: &[u32; 16], table: &[u32; 32]) -> () {
        // SAFETY: `kernels!` provides the instruction set; the lanes come from references.
        unsafe {
            let (x, y) = (S::load(a.as_ptr()), S::load(b.as_ptr()));
            let each = |f: &dyn Fn(u32, u32) -> u32| -> [u32; 16] {
                std::array::from_fn(|i| f(a[i], b[i]))
            };
            let check = |what: &str, found: S::Vector, expected: [u32; 16]| {
                assert_eq!(S::equal(found, S::load(expected.as_ptr())), u16::MAX, "{what}");
            };
            let mask = |f: &dyn Fn(u32, u32) -> bool| -> u16 {
                (0..16).map(|i| u16::from(f(a[i], b[i])) << i).sum()
            };
            let half = |v: u32, high: bool| i32::from((if high { v >> 16 } else { v }) as i16);
            check("add", S::add(x, y), each(&|a, b| a.wrapping_add(b)));
            check("sub", S::sub(x, y), each(&|a, b| a.wrapping_sub(b)));
            check("differing", S::differing(x, y), each(&|a, b| (a ^ b).count_ones()));
            check("shift_left", S::shift_left::<7>(x), each(&|a, _| a << 7));
            check("high", S::high(x), each(&|a, _| a >> 16));
            check("low", S::low(x), each(&|a, _| a & 0xFFFF));
            let dot = |a: u32, b: u32| {
                let products = [false, true].map(|h| half(a, h) * half(b, h));
                products[0].wrapping_add(products[1]) as u32
            };
            check("dot", S::dot(x, y), each(&dot));
            check("look_up", S::look_up(table, x), each(&|a, _| table[a as usize % 32]));
            check("splat", S::splat(a[3]), [a[3]; 16]);
            assert_eq!(S::less(x, y), mask(&|a, b| a < b));
            assert_eq!(S::less_or_equal(x, y), mask(&|a, b| a as i32 <= b as i32));
            assert_eq!(S::equal(x, y), mask(&|a, b| a == b));
            for count in 1..=16 {
                // No value beyond the first `count` may be touched.
                let part: Box<[u32]> = a[..count].into();
                let lanes = S::equal(S::load_part(part.as_ptr(), count), x);
                assert_eq!(lanes & ((1_u32 << count) - 1) as u16, (1_u32 << count).wrapping_sub(1) as u16);
            }
        }
    }
}

kernels! {
    /// Compares what each operation on bytes gives with what it should give.
    fn check_bytes[S: Bytes, ](a: &[i32; 16], b: &[i32; 16], sum: &[i32; 16]) -> () {
        // SAFETY: `kernels!` provides the instruction set; the lanes come from references.
        unsafe {
            let [x, y, z] = [a, b, sum].map(|lanes| S::load(lanes.as_ptr()));
            let check = |what: &str, found: S::Vector, expected: &dyn Fn(usize) -> i32| {
                let mut lanes = [0; 16];
                S::store(lanes.as_mut_ptr(), found);
                assert_eq!(lanes, std::array::from_fn(expected), "{what}");
            };
            check("add", S::add(x, y), &|i| a[i].wrapping_add(b[i]));
            check("and", S::and(x, y), &|i| a[i] & b[i]);
            check("splat", S::splat(b[7]), &|_| b[7]);
            check("add_products", S::add_products(z, x, y), &|i| {
                let byte = |k: i32| (a[i] >> (8 * k) & 0xFF) * i32::from((b[i] >> (8 * k)) as i8);
                (0..4).fold(sum[i], |sum, k| sum.wrapping_add(byte(k)))
            });
            let negative = (0..16).map(|i| u16::from(a[i] < 0) << i).sum::<u16>();
            assert_eq!(S::negative(x), negative);
        }
    }
}

#[test]
fn bytes_do_what_they_say_in_every_form() {
    let mut rng = StdRng::seed_from_u64(5);
    for _ in 0..2000 {
        let mut lanes = || -> [i32; 16] {
            std::array::from_fn(|_| match rng.random_range(0..3) {
                // The greatest bytes, of either sign.
                0 => i32::from_ne_bytes(
                    [(); 4].map(|()| [0, 1, 127, 128, 255][rng.random_range(0..5)]),
                ),
                1 => rng.random_range(-100..100),
                _ => rng.random(),
            })
        };
        let (a, b, sum) = (lanes(), lanes(), lanes());
        for &simd in Simd::available() {
            check_bytes(simd, &a, &b, &sum);
        }
    }
}

#[test]
fn lanes_do_what_they_say_in_every_form() {
    let mut rng = StdRng::seed_from_u64(3);
    let edges =
        [0, 1, 31, 32, 0x7FFF, 0x8000, 0xFFFF, 0x1_0000, 0x7FFF_FFFF, 0x8000_0000, u32::MAX];
    for _ in 0..2000 {
        let mut lane = || match rng.random_range(0..3) {
            0 => edges[rng.random_range(0..edges.len())],
            1 => rng.random_range(0..100),
            _ => rng.random(),
        };
        let a: [u32; 16] = std::array::from_fn(|_| lane());
        let b: [u32; 16] = std::array::from_fn(|i| if i % 5 == 0 { a[i] } else { lane() });
        let table: [u32; 32] = std::array::from_fn(|_| lane());
        for &simd in Simd::available() {
            check_lanes(simd, &a, &b, &table);
        }
    }
}

#[test]
fn common_bits_are_counted_in_every_form() {
    let mut rng = StdRng::seed_from_u64(4);
    for words in (0..=16).chain([31]) {
        for density in 1..4 {
            // From few bits to all of them.
            let mut word = || match density {
                1 => rng.random::<u64>() & rng.random::<u64>(),
                2 => rng.random(),
                _ => u64::MAX,
            };
            let a: Vec<Aligned> = (0..words).map(|_| Aligned([(); 8].map(|()| word()))).collect();
            let b: Vec<u64> = (0..words).map(|_| word()).collect();
            let counts: [i64; 8] = std::array::from_fn(|lane| {
                a.iter().zip(&b).map(|(a, b)| i64::from((a.0[lane] & b).count_ones())).sum()
            });
            for least in [-5, 0, 1, counts[0], counts[0] + 1, counts[7] - 1, 64 * 31, i64::MAX] {
                let expected: u8 = (0..8).map(|i| u8::from(counts[i] >= least) << i).sum();
                for &simd in Simd::available() {
                    assert_eq!(common_at_least(simd, &a, &b, least), expected, "{simd} {least}");
                }
            }
        }
    }
}
