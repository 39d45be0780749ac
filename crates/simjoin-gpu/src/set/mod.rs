//! Sets of tokens on devices.
//!
//! ```text
//! device/      sets on devices
//! offload/     what joins wholly on devices share
//! bitmap/      signatures in tiles: `bitmap`
//! bwjoin/      an inverted index: `bwjoin`
//! scancount/   overlaps of large sets: `scancount`
//! strategies.rs  their list
//! ```

pub mod bitmap;
pub mod bwjoin;
pub mod device;
pub mod offload;
pub mod scancount;
mod strategies;
#[cfg(test)]
mod tests;

pub use self::strategies::STRATEGIES;
