//! The search of nearest vectors on devices, as the family calls it.

use std::fmt::Debug;
use std::ops::Range;

use crate::engine::{DeviceChoice, GpuOptions};
use crate::memory::Memory;
use crate::tuning::Tuning;
use crate::vector::bands::Bands;
use crate::vector::metric::Metric;

/// Finds nearest vectors on devices.
pub trait NearestOnDevices: Debug + Send + Sync {
    /// Whether the device is open that is taken where none is named.
    fn is_open(&self) -> bool;

    /// Whether a device may find `neighbours` of each row among `right` vectors of some dimensions.
    fn may_find(&self, neighbours: usize, right: u32, dimensions: u32) -> bool;

    /// Finds the neighbours of left vectors on as many devices of a choice as there is work for.
    ///
    /// # Errors
    ///
    /// The reason why they are not found.
    fn find(
        &self,
        vectors: &NearestVectors<'_>,
        choice: DeviceChoice,
        options: &GpuOptions,
        reservation: &dyn Memory,
    ) -> Result<Bands, Declined>;
}

/// The vectors of a search.
pub struct NearestVectors<'a> {
    pub metric: Metric,
    pub neighbours: usize,
    /// Whether columns in a tie with the last neighbour are wanted, too.
    pub with_ties: bool,
    pub dimensions: u32,
    pub left: &'a dyn SideNumbers,
    /// `None` where the left vectors are both sides.
    pub right: Option<&'a dyn SideNumbers>,
    /// By dimension, the number near which most vectors lie; none for cosines.
    pub centre: Vec<f64>,
    pub tuning: Tuning,
}

/// The vectors of a side, all of one number of dimensions, by number.
pub trait SideNumbers: Sync {
    /// The number of vectors.
    fn count(&self) -> u32;

    /// Writes their numbers at some places, one vector behind the other; whether all of them are `f32`.
    fn write_narrow(&self, places: Range<usize>, to: &mut [f32]) -> bool;

    /// Writes their numbers at some places as `f64`.
    fn write_wide(&self, places: Range<usize>, to: &mut [f64]);
}

/// The reason why a device has found nothing.
#[derive(Debug)]
pub struct Declined(pub String);
