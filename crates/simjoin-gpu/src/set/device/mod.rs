//! Sets on devices.
//!
//! The build sets of a join lie on all of its devices, or travel with works ([`DeviceJoin`]). The kernels are in
//! `kernels/`, the layout of memory that they and the host share in [`abi`].

pub mod abi;
mod copies;
mod costs;
mod join;
mod resident;
#[cfg(test)]
mod tests;

pub use costs::sending;
pub use join::{DeviceJoin, OPENER};
pub use resident::ResidentSets;
