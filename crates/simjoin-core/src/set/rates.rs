//! The speed of this processor in the kernels that estimates of costs are made of.

use std::sync::OnceLock;

use crate::simd::{Form, Simd};
use crate::tuning::Tuning;

/// The time of a kernel, on data in the cache, by that which the constants of the estimates say. They come from
/// joins on an AMD EPYC with AVX-512. The strategy or filter that has the kernel has its rate.
#[derive(Debug)]
pub(in crate::set) struct Rate {
    /// The rate that is expected of a form of the kernel.
    expected: fn(Form) -> f64,
    /// Measures the kernel; `None` where the clock says nothing.
    measure: fn(Simd) -> Option<f64>,
    /// The rates by form.
    measured: [OnceLock<f64>; 3],
}

impl Rate {
    /// A rate that has not been measured.
    pub(in crate::set) const fn new(
        expected: fn(Form) -> f64,
        measure: fn(Simd) -> Option<f64>,
    ) -> Self {
        Self { expected, measure, measured: [const { OnceLock::new() }; 3] }
    }

    /// The rate of a form of the kernel, measured where the process asks first: less than a tenth of
    /// a millisecond. For small sizes the expected one: estimates do not depend on the load of the machine.
    pub(in crate::set) fn of(&self, simd: Simd, tuning: Tuning) -> f64 {
        let expected = (self.expected)(simd.form());
        if tuning.is_small() {
            return expected;
        }
        let measure = || match (self.measure)(simd) {
            // A rate beyond these limits is a fault of the clock.
            Some(rate) => rate.clamp(expected / 4.0, expected * 4.0),
            None => expected,
        };
        *self.measured[simd.form() as usize].get_or_init(measure)
    }
}
