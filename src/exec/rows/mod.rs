//! Rows of one side: their arguments, slices to be encoded, the columns kept of them, ranks, marks,
//! segments on disk.

pub(crate) mod arguments;
pub(crate) mod feed;
pub(crate) mod inputs;
pub(crate) mod payload;
mod ranked;
pub(crate) mod ranks;
pub(crate) mod segment;
pub(crate) mod slices;
pub(crate) mod visited;
