//! Vectors as a family of similarities: joins by `array_distance`, `cosine_distance` and
//! `inner_product`, DataFusion's own functions.
//!
//! ```text
//! numbers.rs      lists of any layout and number type, read as f64
//! metric.rs       the functions: value of a pair, threshold
//! encode.rs       rows to items       collection.rs  the distinct vectors of some rows
//! gather.rs       how they are found  order/         neighbours near each other, with boxes
//! boxes.rs        boxes around groups of them       copies.rs      their copies on devices
//! stored.rs       rows on disk        axis.rs        their places
//! bounds.rs       what a product in f32 proves      bytes.rs       the same of 8-bit integers
//! filter.rs       what both have in common          choice.rs      which of them a join takes
//! panels.rs       the build side, written for it    tile.rs        products with its panels
//! nested_loop.rs  every vector with every other     cursor.rs      one partition of it
//! block.rs        vectors that meet panels          counts.rs      matches that are only counted
//! second.rs       f32 where bytes do not do         verify.rs      pairs in f64, by sums in lanes
//! middle.rs       where most vectors lie            nan.rs         pairs whose value is NaN
//! index/          boxes around neighbours, by cells or by quantiles
//! device/         the nested loop on GPUs
//! family.rs, matcher.rs               what the operator sees
//! ```
//!
//! The answer is exact: a pair matches if and only if the function, evaluated in `f64` from left to
//! right, satisfies the threshold. The kernel computes inner products in `f32` or of bytes; with the bounds of
//! both vectors a product proves that a pair matches, that it does not, or nothing, and then the
//! function decides.

mod axis;
mod block;
mod bounds;
mod boxes;
mod bytes;
mod choice;
pub(crate) mod collection;
mod copies;
mod counts;
mod cursor;
pub(crate) mod device;
mod encode;
mod family;
mod filter;
mod gather;
mod index;
mod matcher;
pub(crate) mod metric;
mod middle;
mod nan;
pub(crate) mod nested_loop;
mod numbers;
mod order;
mod panels;
mod second;
mod stored;
mod tile;
mod verify;

#[cfg(test)]
mod tests;

pub(crate) use family::VectorFamily;
pub(crate) use matcher::STRATEGIES;
