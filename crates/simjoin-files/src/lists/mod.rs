//! Columns of lists of numbers, read from Parquet page by page without a detour.
//!
//! DataFusion's reader spends most of its time on the levels of such columns, a place for each
//! element, and copies their elements several times. Here the rows that are read, and the other
//! columns, still come from DataFusion's reader, with the number of each row in the file;
//! the lists of these rows are added to them.
//!
//! ```text
//! DataFusion's scan ─► other columns, row numbers ─┐
//!                                                  ├─► scan ─► batches
//! column (of the schema) ─► chunk ─► page ─► rows ─┘
//!                                     │
//!                                  levels
//! ```
//!
//! Left to DataFusion: lists that the file holds in another type than the table or in rare
//! encodings, and columns that a scan computes with.

mod chunk;
mod column;
mod levels;
mod page;
mod rows;
mod scan;
#[cfg(test)]
mod tests;

pub(super) use scan::morselizer;
