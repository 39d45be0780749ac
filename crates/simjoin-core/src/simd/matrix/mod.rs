//! Units that multiply tiles of bytes.
//!
//! A tile has sixteen rows of sixteen places of 32 bits. A product adds to each place of a tile of sums the
//! inner product of a row of one tile, four signed bytes a place, with a column of another, four unsigned
//! bytes a place. A unit has eight tiles.

#![cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, reason = "units of x86 processors")
)]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
#[cfg(test)]
mod emulated;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use amx::Amx;
#[cfg(test)]
pub use emulated::Emulated;

/// The rows of a tile, and the places of a row.
pub(crate) const TILE: usize = 16;

/// The unit of a [`Simd`](super::Simd).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    /// None: products are those of vectors.
    Absent,
    /// Intel's Advanced Matrix Extensions, with permission of the kernel.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Amx,
    /// The definition of each instruction.
    #[cfg(test)]
    Emulated,
}

/// The tiles of a thread, for as long as the value lives: dropping it gives them back, so that they are not
/// saved with each switch of threads. There is one value in a thread at a time.
///
/// # Safety
///
/// Every method needs a processor that has the unit, and permission to use it: a [`Matrix`] of a
/// [`Simd`](super::Simd) is the proof. Tiles are numbered from 0 to 7. Of rows, `stride` elements apart, each
/// has [`TILE`] elements that are readable or, to be stored, writable.
pub(crate) trait MatrixUnit {
    unsafe fn begin() -> Self;
    unsafe fn zero<const TO: usize>(&mut self);
    unsafe fn load<const TO: usize>(&mut self, from: *const i32, stride: usize);
    unsafe fn store<const FROM: usize>(&mut self, to: *mut i32, stride: usize);
    /// Adds the products of the rows of a tile of signed bytes and the columns of one of unsigned bytes.
    unsafe fn add_products<const TO: usize, const ROWS: usize, const COLUMNS: usize>(&mut self);
}

#[cfg(test)]
mod tests;
