//! Text files, CSV and JSON: what their columns are, and their rows.
//!
//! ```text
//! input (out of compression and UTF-16) ─► records, shape ─► guess: the types of the columns (values)
//!                    │
//!                    └─► open: cuts of files between partitions ─► rows: batches, or the row at fault
//! ```
//!
//! A type is guessed only where it holds every value that was looked at exactly ([`values`]); anything else
//! is text. Where not all rows were looked at, the reader checks the later ones ([`rule`]).

mod csv_rows;
mod cuts;
mod guess;
mod input;
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
pub(crate) use input::Look;
pub(super) use input::{For, Input, open as open_input, plain};
pub(super) use merge::common_schema;
pub(super) use open::{Scan, morselizer};
pub(super) use rule::Rule;
