//! From Arrow lists to dense integer sets.
//!
//! [`BuildEncoder`] gives each token of the build side an id
//! ([`Dictionary`](crate::values::Dictionary)) and drops repeated sets; any number of encoders
//! share the batches. `finish` makes one collection of their rows: `merge` gives common ids to what
//! several encoders have read and ranks to tokens, rare ones first (`token_order`), `ascending` puts those of a set in this order, `order` sorts the distinct sets
//! by blocking key and size, `rows` finds the rows of each, `arrange` lays them out in CSR form
//! ([`SetCollection`](super::SetCollection)).
//! [`ProbeEncoder`] does the same for each probe batch with the build side's dictionary, whose ids
//! have become ranks, and leaves out sets that can have no partner (`partners`). `stored_tokens` has the
//! type of the lists in which tokens go to disk.

pub(crate) mod arena;
pub(crate) mod arrange;
mod ascending;
pub(crate) mod batch;
pub(crate) mod builder;
pub(crate) mod distinct;
pub(crate) mod finish;
mod merge;
mod order;
pub(crate) mod partners;
pub(crate) mod probe_encoder;
mod rows;
mod shares;
pub(crate) mod stored_tokens;
#[cfg(test)]
mod tests;
pub(crate) mod token_order;

pub use builder::BuildEncoder;
pub use finish::finish;
pub(crate) use probe_encoder::{ProbeEncoder, ProbeScratch};
