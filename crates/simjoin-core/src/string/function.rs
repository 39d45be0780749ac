//! The functions over two texts.

use arrow::datatypes::DataType;

use crate::error::{Result, internal_err};
use crate::predicate::{Function, FunctionInfo, Order};

/// The family's name.
pub(super) const FAMILY: &str = "string";

const fn info(name: &'static str, order: Order) -> FunctionInfo {
    type Properties =
        (fn([&DataType; 2]) -> DataType, &'static str, [f64; 2], &'static [f64], &'static str);
    let (data_type, example, range, rounds, least_similar): Properties = match order {
        Order::Distance => (
            |_| DataType::Int64,
            "<= 2",
            [0.0, i32::MAX as f64],
            &[1.0, 2.0, 3.0, 5.0, 8.0, 15.0],
            "the greatest distance satisfies it; the threshold must be below it",
        ),
        Order::Similarity => (
            |_| DataType::Float64,
            ">= 0.8",
            [0.0, 1.0],
            &[0.9, 0.8, 0.7, 0.55, 0.4],
            "texts without a common character, whose similarity is 0, satisfy it; the threshold must be \
             greater than 0",
        ),
    };
    FunctionInfo {
        family: FAMILY,
        name,
        data_type,
        example,
        is_symmetric: true,
        orders_nan: false,
        is_partial: false,
        order,
        range,
        is_reflexive: true,
        least_is_far: false,
        rounds,
        least_similar,
    }
}

/// The type of DataFusion's `levenshtein`.
fn of_levenshtein(arguments: [&DataType; 2]) -> DataType {
    let types = arguments.map(|mut argument| {
        while let DataType::Dictionary(_, values) = argument {
            argument = values;
        }
        argument
    });
    match types.contains(&&DataType::LargeUtf8) && !types.contains(&&DataType::Utf8View) {
        true => DataType::Int64,
        false => DataType::Int32,
    }
}

/// By the number of the function.
static FUNCTIONS: [FunctionInfo; 7] = [
    FunctionInfo { data_type: of_levenshtein, ..info("levenshtein", Order::Distance) },
    info("levenshtein_similarity", Order::Similarity),
    info("damerau_levenshtein", Order::Distance),
    info("indel_similarity", Order::Similarity),
    FunctionInfo { is_partial: true, ..info("hamming", Order::Distance) },
    info("jaro_similarity", Order::Similarity),
    info("jaro_winkler_similarity", Order::Similarity),
];

/// A function over two texts, which are read as sequences of Unicode scalar values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StringFunction {
    /// The fewest insertions, deletions and replacements: DataFusion's own function.
    Levenshtein,
    /// `1 - levenshtein / greatest(lengths)`.
    LevenshteinSimilarity,
    /// The fewest insertions, deletions, replacements and exchanges of neighbours, where what was
    /// exchanged may be edited again.
    DamerauLevenshtein,
    /// `1 - (insertions and deletions) / (sum of the lengths)`.
    IndelSimilarity,
    /// The number of places that differ, of texts of one length.
    Hamming,
    /// Jaro's similarity.
    Jaro,
    /// Jaro's similarity, raised by a common beginning: Winkler's.
    JaroWinkler,
}

impl StringFunction {
    /// Every function, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Levenshtein,
        Self::LevenshteinSimilarity,
        Self::DamerauLevenshtein,
        Self::IndelSimilarity,
        Self::Hamming,
        Self::Jaro,
        Self::JaroWinkler,
    ];

    /// The functions that DataFusion lacks.
    pub const OWN: [Self; 6] = [
        Self::LevenshteinSimilarity,
        Self::DamerauLevenshtein,
        Self::IndelSimilarity,
        Self::Hamming,
        Self::Jaro,
        Self::JaroWinkler,
    ];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        FUNCTIONS[self as usize].name
    }

    /// Whether the value is a number of edits.
    pub fn is_distance(self) -> bool {
        matches!(FUNCTIONS[self as usize].order, Order::Distance)
    }

    pub const fn function(self) -> Function {
        Function::new(&FUNCTIONS[self as usize])
    }

    /// The function of the family behind a function of a join.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub(super) fn of(function: Function) -> Result<Self> {
        match Self::ALL.into_iter().find(|known| known.function() == function) {
            Some(known) => Ok(known),
            None => internal_err!("{function:?} is no function of texts"),
        }
    }
}
