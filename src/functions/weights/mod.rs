//! The makers of weighted sets: lists of structs of a `token` and its `weight`, a `UInt32`.
//!
//! ```text
//! sets.rs           the type of weighted sets, and arrays of them
//! bags.rs           the distinct tokens of each row, with what they amount to there
//! counts.rs         TokenCountsUdf: token_counts(list)
//! weigh.rs          WeighUdf: weigh(tokens, weights)
//! logarithm.rs      logarithms to base 2 by arithmetic of integers
//! collection.rs     weights of tokens by the rows that have them: tf-idf, idf, BM25
//! window.rs         CollectionWeightsUdf: these weights as window functions
//! documentation.rs  what SHOW FUNCTIONS and information_schema.routines say
//! ```

mod bags;
mod collection;
mod counts;
mod documentation;
mod logarithm;
mod sets;
mod weigh;
mod window;

pub use collection::Weighting;
pub use counts::TokenCountsUdf;
#[cfg(test)]
pub(super) use logarithm::log2_ratio;
pub(in crate::functions) use sets::type_of;
pub use weigh::WeighUdf;
pub use window::CollectionWeightsUdf;
