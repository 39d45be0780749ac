//! The numbers of a vector, rounded to `f32`, and what they are off.
//!
//! The proofs of `bounds.rs` are about these sums.

use super::width::Number;
use crate::simd::{Floats, kernels};

/// The rounding of an `f32`.
pub(super) const U32: f64 = 1.0 / (1 << 24) as f64;
/// 2⁻⁴³, far above the rounding of a single `f64`.
pub(super) const U64: f64 = U32 * U32 * 32.0;

/// Sums over the numbers of a vector x: of the squares of x, of x̂, and of what x̂ is off. In lanes:
/// additions wait for each other.
#[derive(Default)]
pub(super) struct Sums([[f64; SUM_LANES]; 3]);

const SUM_LANES: usize = 8;

impl Sums {
    #[inline(always)]
    fn add(&mut self, lane: usize, number: f64, exact: f64) {
        let float = f64::from(exact as f32);
        let off = (float - exact).abs() + exact.abs() * U64;
        let [given, square, error] = &mut self.0;
        given[lane] += number * number;
        square[lane] += float * float;
        error[lane] += off * off;
    }

    pub(super) fn total(&self) -> [f64; 3] {
        self.0.map(|lanes| lanes.iter().sum())
    }
}

/// The changes of numbers before they are rounded: those that have a centre become (v − c) · `scale`, the others
/// v · `factor`.
#[derive(Clone, Copy)]
pub(super) struct Changes {
    pub scale: f64,
    pub factor: f64,
}

impl Changes {
    #[inline(always)]
    fn moved(self, number: impl Number, centre: f64) -> f64 {
        (number.wide() - centre) * self.scale
    }

    #[inline(always)]
    fn plain(self, number: impl Number) -> f64 {
        number.wide() * self.factor
    }
}

kernels! {
    /// The sums of a vector whose first numbers have a centre.
    pub(super) fn sums_of[F: Floats, ; T: Number](
        vector: &[T],
        centre: &[f64],
        changes: Changes,
    ) -> Sums {
        let mut sums = Sums::default();
        let (front, back) = vector.split_at(centre.len());
        let (numbers, last) = front.as_chunks::<SUM_LANES>();
        let (centres, last_centres) = centre.as_chunks::<SUM_LANES>();
        for (numbers, centres) in numbers.iter().zip(centres) {
            for lane in 0..SUM_LANES {
                let exact = changes.moved(numbers[lane], centres[lane]);
                sums.add(lane, numbers[lane].wide(), exact);
            }
        }
        for (lane, (number, centre)) in last.iter().zip(last_centres).enumerate() {
            sums.add(lane, number.wide(), changes.moved(*number, *centre));
        }
        let (numbers, last) = back.as_chunks::<SUM_LANES>();
        for numbers in numbers {
            for lane in 0..SUM_LANES {
                sums.add(lane, numbers[lane].wide(), changes.plain(numbers[lane]));
            }
        }
        for (lane, number) in last.iter().enumerate() {
            sums.add(lane, number.wide(), changes.plain(*number));
        }
        sums
    }
}

/// Numbers that are written at once.
const WRITTEN: usize = 16;

kernels! {
    /// Gives the changed numbers of a vector to `write`, rounded.
    pub(super) fn floats_of[F: Floats, ; T: Number](
        vector: &[T],
        centre: &[f64],
        changes: Changes,
        write: &mut impl FnMut(&[f32]),
    ) {
        let mut floats = [0.0; WRITTEN];
        let (front, back) = vector.split_at(centre.len());
        let (numbers, last) = front.as_chunks::<WRITTEN>();
        let (centres, last_centres) = centre.as_chunks::<WRITTEN>();
        for (numbers, centres) in numbers.iter().zip(centres) {
            for place in 0..WRITTEN {
                floats[place] = changes.moved(numbers[place], centres[place]) as f32;
            }
            write(&floats);
        }
        for (number, centre) in last.iter().zip(last_centres) {
            write(&[changes.moved(*number, *centre) as f32]);
        }
        let (numbers, last) = back.as_chunks::<WRITTEN>();
        for numbers in numbers {
            for place in 0..WRITTEN {
                floats[place] = changes.plain(numbers[place]) as f32;
            }
            write(&floats);
        }
        for number in last {
            write(&[changes.plain(*number) as f32]);
        }
    }
}
