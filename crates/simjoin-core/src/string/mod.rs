//! Texts as a family of similarities: joins by the edit distance, and by Jaro's and Winkler's similarity.
//!
//! ```text
//! function.rs     the functions        threshold.rs    what a bound allows two lengths
//! rules/          their definitions    value.rs        of two texts
//! encode.rs       rows to items        collection.rs   the distinct texts of some rows
//! gather.rs       how they are found   alphabet.rs     scalars as codes of six bits
//! axis.rs         places, by length    boxes/          an index of similar texts
//! lanes/          the edit distances of 64 texts at a time
//! deletions/      an index of what is left after deletions: deletion_join.rs joins by it
//! columns/        a function of two columns, outside joins
//! finder.rs       the build items for a probe item
//! decide.rs       pairs that are left  cursor.rs       one partition of the join
//! prepared.rs     a join by lanes      page.rs         which texts codes tell apart
//! strategies.rs   what is compared     join.rs         the figures for it
//! family.rs, matcher.rs                what the operator sees
//! ```
//!
//! A text is a sequence of Unicode scalar values. Filters look at codes of them, of which several scalars may
//! share one: distances of codes are never greater than those of scalars, and what codes do not tell is
//! decided on the scalars.

pub mod alphabet;
mod axis;
pub mod boxes;
pub mod collection;
mod columns;
pub mod cursor;
pub mod decide;
mod deletion_join;
mod deletions;
mod encode;
mod family;
pub mod finder;
pub mod function;
pub mod gather;
pub mod join;
mod lanes;
mod matcher;
mod page;
pub mod prepared;
mod rules;
mod strategies;
pub mod threshold;
pub mod value;

#[cfg(test)]
mod tests;

pub use columns::{ColumnValues, TextColumn, Unequal};
pub use family::StringFamily;
pub use function::StringFunction;
pub use join::StringJoin;
pub use strategies::STRATEGIES;
pub use value::Value;
