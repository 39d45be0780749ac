//! How fast this processor runs the kernels that the estimates of costs are made of.

use std::sync::OnceLock;

use crate::set::bitmap::test_rate;
use crate::set::filter::postings::scan_rate;
use crate::simd::{Form, Simd};

/// How much longer kernels take, on data in the cache, than the constants of the estimates say. Those
/// come from joins on an AMD EPYC with AVX-512, where the rates are 1.0 and 0.6.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Testing signatures against blocks.
    pub test: f64,
    /// Scanning postings.
    pub scan: f64,
}

impl Rates {
    /// The rates of a form of the kernels, measured where the process asks first: about a tenth of a
    /// millisecond.
    pub fn of(simd: Simd) -> Self {
        static MEASURED: [OnceLock<Rates>; 3] = [OnceLock::new(), OnceLock::new(), OnceLock::new()];
        // Estimates in tests do not depend on the load of the machine.
        if cfg!(test) {
            return Self::expected(simd.form());
        }
        *MEASURED[simd.form() as usize].get_or_init(|| Self::measure(simd))
    }

    fn expected(form: Form) -> Self {
        let (test, scan) = match form {
            Form::Avx512 => (1.0, 1.0),
            Form::Avx2 => (3.0, 2.0),
            Form::Portable => (6.0, 6.0),
        };
        Self { test, scan }
    }

    fn measure(simd: Simd) -> Self {
        let Self { test, scan } = Self::expected(simd.form());
        let measured = |expected: f64, rate: Option<f64>| match rate {
            // A rate beyond these limits is a fault of the clock.
            Some(rate) => rate.clamp(expected / 4.0, expected * 4.0),
            None => expected,
        };
        Self { test: measured(test, test_rate(simd)), scan: measured(scan, scan_rate(simd)) }
    }
}
