//! The predicate of a similarity join: a function of two arguments, one of each side, and a bound.

mod bound;
mod function;

use std::fmt;

pub use bound::{Call, NanScore, Predicate};
pub use function::value_array;
pub use function::{Function, FunctionInfo, Order};

/// One side of the join, in the order of the query text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The side before the word JOIN.
    Left,
    /// The side after it.
    Right,
}

impl Side {
    /// The opposite side.
    pub fn other(self) -> Self {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Left => "left",
            Side::Right => "right",
        })
    }
}
