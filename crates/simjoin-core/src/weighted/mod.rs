//! Weighted sets: lists of tokens with whole numbers for weights.
//!
//! Sums of weights, and of their products, are integers, so that no order of adding changes a value. Each module uses
//! only those that stand before it:
//!
//! ```text
//! measure.rs      the similarities            column.rs       lists of tokens and weights
//! rows.rs         rows that have been read    value.rs        the values of pairs of rows
//! axis.rs         rows by their total         collection.rs   distinct weighted sets
//! gather.rs       from rows to sets           encode.rs       rows in memory and on disk
//! signature.rs    tokens in bits              limits.rs       the weight that matches share
//! postings.rs     prefixes of sets, by token
//! join.rs         what strategies share       probe.rs        a set on its way through the lists
//! lookup.rs       the cursors                 strategies.rs, matcher.rs, family.rs
//! ```

mod axis;
mod collection;
mod column;
mod encode;
mod family;
mod gather;
mod join;
mod limits;
mod lookup;
mod matcher;
mod measure;
mod postings;
mod probe;
mod rows;
mod signature;
mod strategies;
#[cfg(test)]
mod tests;
mod value;

pub use column::{is_weighted_set, token_kind};
pub use family::WeightedFamily;
pub use measure::WeightedMeasure;
pub use value::PairValues;
