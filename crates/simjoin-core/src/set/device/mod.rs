//! Sets and candidates on devices.
//!
//! A [`VerifyJob`] is one type of work for a device: candidates, and sets that are not resident
//! ([`ResidentSets`]), in pinned memory ([`Staging`]). The kernels are in `kernels/`, the layout of memory
//! that they and the host share in [`abi`].

pub mod abi;
pub mod join;
mod launch;
pub(in crate::set) mod pack;
mod published;
mod resident;
mod shape;
mod staging;
#[cfg(test)]
mod tests;
mod work;

pub use join::DeviceJoin;
pub use launch::{Launch, Layout};
pub use resident::ResidentSets;
pub use shape::ChunkShape;
pub use shape::Form;
pub use staging::{Capacities, Section, Staging};
pub use work::{Outcome, Reply, VerifyJob};
