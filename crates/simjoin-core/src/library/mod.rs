//! Joins of arrays in memory: columns in, pairs of row numbers out.
//!
//! ```text
//! Join, Nearest        what is asked: a measure, a threshold or a number of neighbours, options
//! column, measure      rows of Arrow arrays and of slices; the functions and their families
//! devices              strategies on devices, from a crate above
//! search               one side indexed, the other side probed by several threads
//! expand, pairs        matches of items become pairs of rows with their scores
//! nearest              rounds of searches, whose matches rank
//! ```

#![warn(missing_docs)]

mod collect;
mod column;
mod devices;
mod expand;
mod index;
mod join;
mod measure;
mod nearest;
mod options;
mod pairs;
mod probe;
mod search;

pub use column::{Column, Element, Row};
pub use devices::Devices;
pub use join::Join;
pub use measure::Measure;
pub use nearest::Nearest;
pub use pairs::{Pair, Pairs, SelfPairs};
