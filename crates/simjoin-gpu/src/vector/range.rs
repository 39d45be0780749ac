//! Whether the numbers of vectors are integers of 8 bits, or are less a centre: products of such vectors
//! are exact. A device looks at them where they lie.

use std::sync::Arc;

use simjoin_core::vector::collection::Vectors;
use simjoin_core::vector::metric::Metric;

use crate::offload::ask;
use crate::runtime::{Device, DeviceError, LaunchGrid, Stage};
use crate::util::evenly::Evenly;
use crate::vector::abi::{NumberRange, RANGE_OFFSET, Ranging};
use crate::vector::columns::Preparation;
use crate::vector::resident::ResidentVectors;
use crate::vector::shape::{VECTORS, VectorShape};

const THREADS: u32 = 256;

/// The preparation of `count` vectors as integers instead of as halves; `None` where these are other
/// numbers, or the kernels have no form for them.
///
/// # Errors
///
/// Where the device fails.
pub(super) fn prepared_as_integers(
    device: &Arc<Device>,
    vectors: &ResidentVectors,
    halves: Preparation,
    count: u32,
) -> Result<Option<Preparation>, DeviceError> {
    let Preparation { threshold, shape, dimensions, .. } = halves;
    // Sums of integers do not decide cosines.
    let has_form = threshold.metric != Metric::Cosine && !threshold.is_void();
    let shape = VectorShape::of_integers(shape.kernel, dimensions).filter(|_| has_form);
    let Some(shape) = shape else { return Ok(None) };
    let ranging = Ranging {
        values: vectors.values(),
        present: vectors.present(),
        range: 0,
        count,
        dimensions,
        wide: vectors.are_wide().into(),
        reserved: 0,
    };
    let vectors = vectors.clone();
    let range = range_of(device, ranging, move |stage| vectors.is_at(stage))?;
    let centre = range.centre(threshold.metric);
    Ok(centre.map(|centre| Preparation { shape, centre, ..halves }))
}

impl NumberRange {
    /// The range of the numbers of some vectors.
    pub(super) fn of_sample(vectors: &Vectors) -> Self {
        const SAMPLED: u32 = 1 << 8;
        let mut range = Self::default();
        for item in Evenly::new(vectors.len(), SAMPLED).iter() {
            for number in vectors.vector(item) {
                if number.abs() < f64::from(RANGE_OFFSET) && number.fract() == 0.0 {
                    range.below = range.below.max((RANGE_OFFSET - number as i32) as u32);
                    range.above = range.above.max((RANGE_OFFSET + number as i32) as u32);
                } else {
                    range.others = 1;
                }
            }
        }
        range
    }

    /// The range of these numbers and of others.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            below: self.below.max(other.below),
            above: self.above.max(other.above),
            others: self.others | other.others,
            reserved: 0,
        }
    }

    /// The integer that leaves integers of 8 bits when it is subtracted from all numbers. Products have
    /// no centre but 0.
    pub(super) fn centre(self, metric: Metric) -> Option<i32> {
        if self.others != 0 || self.below == 0 || self.above == 0 {
            return None;
        }
        let least = RANGE_OFFSET - self.below as i32;
        let greatest = self.above as i32 - RANGE_OFFSET;
        let fits = |centre: i32| {
            let range = i32::from(i8::MIN)..=i32::from(i8::MAX);
            range.contains(&(least - centre)) && range.contains(&(greatest - centre))
        };
        let other = (metric == Metric::Euclidean).then_some(least - i32::from(i8::MIN));
        [Some(0), other].into_iter().flatten().find(|&centre| fits(centre))
    }
}

/// The range of the numbers of vectors on a device. `is_at` holds them, and says whether they are on the device of a
/// stage.
///
/// # Errors
///
/// Where the device fails.
pub(super) fn range_of(
    device: &Device,
    ranging: Ranging,
    is_at: impl Fn(&Stage<'_>) -> bool + Send + 'static,
) -> Result<NumberRange, DeviceError> {
    let blocks = ranging.count.div_ceil(THREADS / 8).clamp(1, 8 * device.multiprocessors());
    ask(device, move |stage| {
        if !is_at(stage) {
            return Err(DeviceError::Internal("numbers of another device".to_string()));
        }
        let bytes = size_of::<NumberRange>();
        let range = stage.reserve("the range of numbers", bytes as u64)?;
        stage.clear(0, bytes)?;
        let kernel = stage.kernel(&VECTORS, "vectors_range")?;
        let ranging = Ranging { range, ..ranging };
        let grid = LaunchGrid { blocks, threads: THREADS, shared_words: 0 };
        // SAFETY: the kernel takes a `Ranging`. The work holds the vectors, and the range has been
        // cleared.
        unsafe { stage.launch(kernel, grid, ranging)? };
        stage.note(0, bytes)
    })
}
