//! From matching pairs of items to the rows of the answer.

pub(crate) mod blocks;
pub(crate) mod consume;
pub(crate) mod emit;
pub(crate) mod output;
pub(crate) mod pairs;
pub(crate) mod payload;
pub(crate) mod ranks;
pub(crate) mod visited;
