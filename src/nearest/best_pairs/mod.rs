//! The best pairs of a join: `ORDER BY score LIMIT k` above it, `rank() OVER (PARTITION BY a.id ORDER BY
//! score) <= k`, or `one_to_one`.
//!
//! ```text
//! left, right ─► held in memory ─► a sample of both, joined ─► bound of the round
//!                      │                                              │ wider, where a round
//!                      │                                              ▼ finds fewer than k pairs
//!                      ├────────────────────────────────────► similarity join ─► k pairs ─► output
//!                      ▼ where it does not fit, or few pairs are expected
//!              the join as planned
//! ```
//!
//! A join by a bound finds every pair whose score is within it. Where these are k or more, the k best of
//! all pairs are among them. Rows between the operator and the sort are not counted, nor is their order
//! decided here: pairs whose score is that of the k-th are all given out, unless nothing else orders them.
//!
//! The best pairs of each row of a side are its neighbours (`each_row`), with all that tie. The pairs of a
//! one-to-one match are taken by falling bounds (`one_to_one`) of items, which are rows that only their nodes
//! tell apart (`items`).

mod each_row;
mod held;
mod items;
mod node;
mod one_to_one;
mod search;
#[cfg(test)]
mod tests;
mod top;

pub use node::BestPairsExec;
