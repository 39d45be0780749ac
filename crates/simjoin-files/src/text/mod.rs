//! Text files, CSV and JSON: what their columns are, and their rows.
//!
//! ```text
//! bytes (`files::input`) ─► records, shape ─► guess: the types of the columns (values)
//!                    │
//!                    └─► open: cuts of files between partitions ─► rows: batches, or the row at fault
//! ```
//!
//! A type is guessed only where it holds every value that was looked at exactly ([`values`]); anything else
//! is text. Where not all rows were looked at, the reader checks the later ones ([`rule`]).

mod csv_rows;
mod cuts;
mod guess;
mod json_array;
mod json_rows;
mod merge;
mod open;
mod records;
mod rows;
mod rule;
mod shape;
mod values;

pub(super) use cuts::Cuts;
pub(super) use guess::{Guess, Texts, guess};
pub(super) use merge::common_schema;
pub(super) use open::{TextScan, morselizer};
pub(super) use rule::Rule;
