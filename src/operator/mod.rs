//! Helpers of DataFusion's operators: kinds of errors, shared futures, streams as a plan, nodes of one
//! input, the bytes of rows, the sizes of a session.

pub(crate) mod errors;
pub(crate) mod once;
pub(crate) mod one_input;
pub(crate) mod row_bytes;
pub(crate) mod streams;
pub(crate) mod tuning;
