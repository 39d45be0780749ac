//! The physical operator.

mod similarity_join;
mod spec;

pub use similarity_join::{JoinInput, SetSimilarityJoinExec};
pub use spec::{
    CountOf, MeasureCall, Need, OutputColumn, Residual, ResidualColumn, Side, SimilarityJoin,
};
