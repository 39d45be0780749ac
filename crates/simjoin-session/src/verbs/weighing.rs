//! A compared column whose tokens are weighed.

use arrow::datatypes::DataType;

use super::measures::NamedMeasure;
use super::{OWN, Result, VerbError};

/// The weights of a compared column.
#[derive(Debug)]
pub(super) struct Weighing {
    /// The place of the column in the question.
    pub place: usize,
    /// The lists of tokens of both sides; a table stands for `{}`.
    pub tokens: [String; 2],
    /// The columns of the weighted sets.
    pub names: [String; 2],
    /// Whether both sides are one column of one table.
    pub is_one: bool,
}

/// The name of the column of the weighted sets of a side.
pub(super) fn weights_name(place: usize, side: usize, is_one: bool) -> String {
    match is_one || side == 0 {
        true => format!("{OWN}weights_{place}"),
        false => format!("{OWN}weights_{place}_right"),
    }
}

/// Checks that lists of two columns can be weighed together.
pub(super) fn check_lists(
    measure: &NamedMeasure,
    (left, of_left): (&str, &DataType),
    (right, of_right): (&str, &DataType),
) -> Result<()> {
    if of_left == of_right {
        return Ok(());
    }
    Err(VerbError::with_hint(
        format!(
            "{} weighs the tokens of {left} and of {right} together, and they are {of_left} and {of_right}",
            measure.name
        ),
        "cast one column to the type of the other",
    ))
}

/// The size of a weighted set in words, as it has no text.
pub(super) fn told_size(set: &str) -> String {
    format!("array_length({set}) || ' weighted tokens'")
}
