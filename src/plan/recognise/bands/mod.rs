//! Bands as keys: rows whose values lie further apart than a condition allows do not meet.
//!
//! ```text
//! abs(a.amount - b.amount) <= 0.01          left row:  one bucket of width w
//!        │ find.rs: a.amount - b.amount     right row: the buckets from amount - 0.01 to amount + 0.01
//!        ▼          in [-0.01, 0.01]                   │ bucket.rs
//! keys.rs: left bucket = right bucket, right rows once for each of their buckets
//! ```
//!
//! A left row has one bucket, so that a pair meets once. The condition itself is evaluated for the pairs that meet:
//! buckets only leave out, and their ends are wider than the arithmetic of any type rounds.

mod bucket;
mod find;
mod keys;

pub(crate) use bucket::functions;
pub(crate) use keys::block_by_bands;
