//! Joins that do not fit into memory.
//!
//! Out of core is no strategy but a driver above them. Both sides go to disk once, cut into bands
//! ([`bands`]: by a hash of the blocking key, where there is one, then by the row's position on the
//! family's axis; rows that match only equal ones by a hash of their items). The build side then comes
//! back a piece at a time, as much as memory holds: a few bands, or a block of a band that is larger.
//! Each piece is encoded and indexed by itself, and probed by the segments of the probe side whose
//! positions are in reach of its own.
//!
//! ```text
//!  build input ─► values, keys, columns ─► bands ─► segments ─► piece ─► BuildSide ──┐
//!  probe input ─► values, keys, columns ─► bands ─► segments that a piece meets ─► ProbeStream
//!                                                                                  │
//!                                      partitions ◄── queue of output batches ◄────┘
//! ```
//!
//! A build row is in one piece, and every probe row that can match it meets that piece, which
//! decides whether the build row has a match. A probe row may meet several pieces; a bit for each
//! probe row tells whether it has a match, and the last piece that it meets gives it out. In a
//! self-join that finds each pair once a piece is joined with itself, then with the rows behind it.
//!
//! Too little memory for a piece halves it, before any of its answer has been given.
//!
//! The rows lie in the store of [`crate::disk`].

mod bands;
mod choices;
mod context;
mod driver;
mod plan;
mod queue;
mod store;
mod stored;
mod writer;

pub(crate) use choices::ShowChoices;
pub(crate) use driver::{SpilledBuild, SpilledJoin};
pub(crate) use store::{Built, SpillRequest};
