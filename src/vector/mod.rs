//! Vectors as a family of similarities: joins by `array_distance`, `cosine_distance` and
//! `inner_product`, DataFusion's own functions.
//!
//! ```text
//! numbers.rs      lists of any layout and number type, read as f64
//! metric.rs       the functions: value of a pair, threshold
//! encode.rs       rows to items       collection.rs  the distinct vectors of some rows
//! gather.rs       how they are found  order/         neighbours near each other, with boxes
//! stored.rs       rows on disk        axis.rs        their places
//! bounds.rs       what a product in f32 proves of a pair
//! tile.rs         products of a block of vectors with panels of sixteen
//! nested_loop.rs  every vector with every other      cursor.rs      one partition of it
//! index/          boxes around neighbours, by cells or by quantiles
//! device/         the nested loop on GPUs
//! family.rs, matcher.rs               what the operator sees
//! ```
//!
//! The answer is exact: a pair matches if and only if the function, evaluated in `f64` from left to
//! right, satisfies the threshold. The kernel computes inner products in `f32`; with the bounds of
//! both vectors a product proves that a pair matches, that it does not, or nothing, and then the
//! function decides.

mod axis;
mod bounds;
mod collection;
mod cursor;
mod device;
mod encode;
mod family;
mod gather;
mod index;
mod matcher;
mod metric;
mod nested_loop;
mod numbers;
mod order;
mod stored;
mod tile;

#[cfg(test)]
mod tests;

pub(crate) use family::VectorFamily;
