//! Neighbours as searches find them.

use std::ops::Range;

use crate::memory::Reservation;

/// The neighbours of some left vectors, by their places from `rows.start` on.
#[derive(Debug)]
pub struct NeighbourBand {
    pub rows: Range<u32>,
    pub starts: Vec<u32>,
    pub counts: Vec<u32>,
    /// The numbers of right vectors, and the values of the function.
    pub columns: Vec<u32>,
    pub values: Vec<f64>,
    pub memory: Reservation,
    /// The time of a device's kernels; 0 on the CPU.
    pub nanos: u64,
}

/// The neighbours of all left vectors, band by band.
#[derive(Debug)]
pub struct Bands {
    /// The device with the time of its kernels, or the CPU, for EXPLAIN ANALYZE.
    pub device: String,
    pub bands: Vec<NeighbourBand>,
}
