//! Passes over a [`SetSimilarityJoin`](crate::plan::SetSimilarityJoin).

pub(crate) mod best;
pub(crate) mod counts;
pub(crate) mod narrow;
pub(crate) mod ranked;
pub(crate) mod score_push;
pub(crate) mod scores;
pub(crate) mod self_join;
#[cfg(test)]
mod tests;
