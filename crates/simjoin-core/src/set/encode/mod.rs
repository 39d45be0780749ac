//! From Arrow lists to dense integer sets.
//!
//! [`BuildEncoder`] gives each token of the build side an id
//! ([`Dictionary`](crate::values::dictionary::Dictionary)) and drops repeated sets; any number of encoders
//! share the batches. [`finish`](finish()) makes one collection of their rows. [`ProbeEncoder`] does
//! the same for each probe batch with the build side's dictionary, whose ids have become ranks, and
//! leaves out sets that can have no partner.
//!
//! ```text
//! arena.rs          tokens of many sets           distinct.rs      sets, each once
//! batch.rs          the tokens of a batch         stored_tokens.rs the type of lists on disk
//! builder.rs        the build side                merge.rs         what several encoders have read
//! shares.rs         sets by their hashes          token_order.rs   tokens, rare ones first
//! ascending.rs      the tokens of a set in order  order.rs         sets, by key and size
//! rows.rs           the rows of each set          arrange.rs       all of it in CSR form
//! partners.rs       sets that can match           probe_encoder.rs the probe side
//! finish.rs         the collection
//! ```

pub(crate) mod arena;
pub(crate) mod arrange;
mod ascending;
pub mod batch;
pub mod builder;
pub mod distinct;
pub mod finish;
mod merge;
mod order;
pub mod partners;
pub(crate) mod probe_encoder;
mod rows;
mod shares;
pub mod stored_tokens;
#[cfg(test)]
mod tests;
pub(crate) mod token_order;

pub use builder::BuildEncoder;
pub use finish::finish;
pub use probe_encoder::{ProbeEncoder, ProbeScratch};
