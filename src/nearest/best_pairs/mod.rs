//! The best pairs of a join: `ORDER BY score LIMIT k` above it, `rank() OVER (PARTITION BY a.id ORDER BY
//! score) <= k`, or `one_to_one`.
//!
//! ```text
//! left, right ─► held in memory ─► a sample of both, joined ─► bound of the round
//!                  or on disk                                      │ wider, where a round
//!                      │                                           ▼ finds fewer than k pairs
//!                      └────────────────────────────────► similarity join ─► k pairs ─► output
//!
//! held.rs       the rows of an input, which are read several times
//! input.rs      both inputs: all rows, or the build side and a window of the others
//! search.rs     joins of rows in memory, and of samples
//! top.rs        the best pairs of these
//! first.rs      the first pairs of all
//! each_row.rs   the best pairs of each row
//! one_to_one.rs a match of rows that are partners of one row each, by items.rs
//! matched.rs    a match of rows on disk
//! node.rs       the plan node
//! ```
//!
//! A join by a bound finds every pair whose score is within it. Where these are k or more, the k best of
//! all pairs are among them. Rows between the operator and the sort are not counted, nor is their order
//! decided here: all pairs within the bound are given out.
//!
//! The first pairs of all are found in each task of a cluster among its own rows. The best pairs of each row of a
//! side are its neighbours (`each_row`), with all that tie. The pairs of a one-to-one match are taken by falling
//! bounds (`one_to_one`) of items, which are rows that only their nodes tell apart (`items`). Rows on disk are matched
//! by themselves (`matched`). A match is made in one process, on a cluster by one task. Neighbours need all rows in the
//! memory of one process; otherwise the join runs as it was planned.

mod each_row;
mod first;
mod held;
mod input;
mod items;
mod matched;
mod node;
mod one_to_one;
mod search;
#[cfg(test)]
mod tests;
mod top;

pub use node::BestPairsExec;
