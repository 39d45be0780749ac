//! Vectors as a family of similarities: joins by `array_distance`, `cosine_distance` and
//! `inner_product`, DataFusion's own functions.
//!
//! ```text
//! metric.rs       the functions: value of a pair, threshold
//! numbers.rs      lists of any layout and number type        width.rs       numbers of either width
//! encode.rs       rows to items       collection.rs  the distinct vectors of some rows
//! gather.rs       how they are found  order/         neighbours near each other, with boxes
//! boxes.rs        those boxes         stored.rs      rows on disk
//! axis.rs         their places
//! middle.rs       where most vectors lie            nan.rs         pairs whose value is NaN
//! tile/           products of rows with panels      filter.rs      how a product decides pairs
//! aligned.rs      elements that begin a line of the cache
//! bounds.rs       filters in f32 and their proofs   bytes.rs       the same of 8-bit integers
//! rounding.rs     numbers as f32, and what they are off
//! verify.rs       pairs in f64, by sums in lanes
//! cost.rs         the time for pairs                choice.rs      the filter that a join takes
//! nested_loop/    every vector with every other, on the CPU
//! nearest/        nearest vectors at once           bands.rs        what it finds
//! index/          boxes around neighbours, by cells or by quantiles
//! join.rs         a join and its figures            strategies.rs  the ways to run it, compared by these
//! family.rs, matcher.rs               what the operator sees
//! ```
//!
//! The answer is exact: a pair matches if and only if the function, evaluated in `f64` from left to
//! right, satisfies the threshold. The kernel computes inner products in `f32` or of bytes; with the bounds of
//! both vectors a product proves that a pair matches, that it does not, or nothing, and then the
//! function decides.

mod aligned;
mod axis;
pub mod bands;
pub mod bounds;
pub mod boxes;
mod bytes;
mod choice;
pub mod collection;
pub mod cost;
mod encode;
mod family;
mod filter;
pub mod gather;
mod index;
pub mod join;
mod matcher;
pub mod metric;
pub mod middle;
pub mod nan;
pub mod nearest;
pub mod nested_loop;
pub mod numbers;
pub mod order;
mod rounding;
mod stored;
mod strategies;
mod tile;
pub mod verify;
pub mod width;

#[cfg(test)]
mod tests;

pub use family::VectorFamily;
pub use metric::Metric;
pub use strategies::STRATEGIES;
