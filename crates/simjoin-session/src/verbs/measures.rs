//! Measures and tokenizers by their names.

use super::kinds::ColumnKind;
use super::{Result, VerbError};
use datafusion_simjoin::config::nearest;
use datafusion_simjoin::functions::Tokenizer;

/// The values that a measure compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// Sets: lists, or texts cut into tokens.
    Sets,
    /// Weighted sets, or sets whose tokens are weighted by their rarity.
    Weighted,
    /// Sets whose tokens are weighted by their rarity.
    Rarity,
    /// Texts as they are.
    Texts,
    Vectors,
    /// Values of any type, which are equal or not.
    Any,
}

impl Values {
    /// Whether the values are sets, with weights or without.
    pub(super) fn are_of_sets(self) -> bool {
        self == Self::Sets || self.are_weighted()
    }

    /// Whether the measure's function takes weighted sets.
    pub(super) fn are_weighted(self) -> bool {
        matches!(self, Self::Weighted | Self::Rarity)
    }
}

/// A function that compares two values.
#[derive(Debug, PartialEq)]
pub(super) struct NamedMeasure {
    pub name: &'static str,
    pub function: &'static str,
    pub values: Values,
    pub is_distance: bool,
    /// The usual threshold.
    pub threshold: Option<f64>,
    /// Whether measure(a, b) = measure(b, a).
    pub is_symmetric: bool,
    /// A similarity up to 1 of the same values, for measures that are none.
    pub similarity: Option<&'static str>,
}

const fn similarity(
    name: &'static str,
    function: &'static str,
    values: Values,
    threshold: f64,
) -> NamedMeasure {
    let (is_distance, threshold) = (false, Some(threshold));
    NamedMeasure {
        name,
        function,
        values,
        is_distance,
        threshold,
        is_symmetric: true,
        similarity: None,
    }
}

const fn distance(name: &'static str, function: &'static str, values: Values) -> NamedMeasure {
    let similarity = Some(match values {
        Values::Vectors => "cosine_similarity",
        _ => "levenshtein_similarity",
    });
    let (is_distance, threshold, is_symmetric) = (true, None, true);
    NamedMeasure { name, function, values, is_distance, threshold, is_symmetric, similarity }
}

/// The equality of two values, which has a place in a weighted sum alone.
pub(super) const EQUAL: NamedMeasure = similarity("equal", "equal", Values::Any, 1.0);

/// All others.
const MEASURES: [NamedMeasure; 27] = [
    similarity("jaccard", "jaccard", Values::Sets, 0.8),
    similarity("dice", "dice", Values::Sets, 0.8),
    similarity("cosine", "set_cosine", Values::Sets, 0.8),
    similarity("set_cosine", "set_cosine", Values::Sets, 0.8),
    similarity("overlap_coefficient", "overlap_coefficient", Values::Sets, 0.8),
    NamedMeasure {
        is_symmetric: false,
        ..similarity("containment", "containment", Values::Sets, 0.8)
    },
    NamedMeasure {
        threshold: None,
        similarity: Some("overlap_coefficient"),
        ..similarity("overlap", "overlap", Values::Sets, 1.0)
    },
    similarity("tfidf", "weighted_cosine", Values::Rarity, 0.8),
    similarity("weighted_jaccard", "weighted_jaccard", Values::Weighted, 0.8),
    similarity("weighted_dice", "weighted_dice", Values::Weighted, 0.8),
    similarity("weighted_cosine", "weighted_cosine", Values::Weighted, 0.8),
    NamedMeasure {
        is_symmetric: false,
        ..similarity("weighted_containment", "weighted_containment", Values::Weighted, 0.8)
    },
    NamedMeasure {
        threshold: None,
        similarity: Some("weighted_cosine"),
        ..similarity("weighted_overlap", "weighted_overlap", Values::Weighted, 1.0)
    },
    distance("levenshtein", "levenshtein", Values::Texts),
    distance("damerau_levenshtein", "damerau_levenshtein", Values::Texts),
    distance("hamming", "hamming", Values::Texts),
    similarity("levenshtein_similarity", "levenshtein_similarity", Values::Texts, 0.8),
    similarity("indel_similarity", "indel_similarity", Values::Texts, 0.8),
    similarity("jaro", "jaro_similarity", Values::Texts, 0.9),
    similarity("jaro_similarity", "jaro_similarity", Values::Texts, 0.9),
    similarity("jaro_winkler", "jaro_winkler_similarity", Values::Texts, 0.9),
    similarity("jaro_winkler_similarity", "jaro_winkler_similarity", Values::Texts, 0.9),
    distance("euclidean", "array_distance", Values::Vectors),
    similarity("cosine", "cosine_similarity", Values::Vectors, 0.9),
    similarity("cosine_similarity", "cosine_similarity", Values::Vectors, 0.9),
    distance("cosine_distance", "cosine_distance", Values::Vectors),
    NamedMeasure {
        threshold: None,
        similarity: Some("cosine_similarity"),
        ..similarity("inner_product", "inner_product", Values::Vectors, 1.0)
    },
];

/// A measure, as programs in other languages list them.
#[derive(Debug, Clone, Copy)]
pub struct MeasureWords {
    /// The name.
    pub name: &'static str,
    /// The function of SQL.
    pub function: &'static str,
    /// The values: "set", "weighted" (sets or weighted sets), "rarity" (sets whose tokens are weighted), "string" or
    /// "vector".
    pub family: &'static str,
    /// Whether lesser values are better.
    pub is_distance: bool,
    /// The usual threshold.
    pub threshold: Option<f64>,
    /// Whether measure(a, b) = measure(b, a).
    pub is_symmetric: bool,
    /// A similarity up to 1 of the same values, for measures that are none.
    pub similarity: Option<&'static str>,
}

/// All measures of columns, without the equality of weighted sums.
pub fn measures() -> Vec<MeasureWords> {
    let words = |measure: &NamedMeasure| MeasureWords {
        name: measure.name,
        function: measure.function,
        family: match measure.values {
            Values::Sets => "set",
            Values::Weighted => "weighted",
            Values::Rarity => "rarity",
            Values::Texts => "string",
            Values::Vectors => "vector",
            Values::Any => "any",
        },
        is_distance: measure.is_distance,
        threshold: measure.threshold,
        is_symmetric: measure.is_symmetric,
        similarity: measure.similarity,
    };
    MEASURES.iter().map(words).collect()
}

impl NamedMeasure {
    /// The measures of a kind of columns.
    fn of_kind(kind: ColumnKind) -> impl Iterator<Item = &'static Self> {
        let serves = move |values: Values| match kind {
            ColumnKind::Text => values.are_of_sets() || values == Values::Texts,
            ColumnKind::Set => values.are_of_sets(),
            ColumnKind::Weighted => values == Values::Weighted,
            ColumnKind::Vector => values == Values::Vectors,
            ColumnKind::Integers | ColumnKind::IntegerVector => {
                values.are_of_sets() || values == Values::Vectors
            }
            ColumnKind::Other => false,
        };
        MEASURES.iter().filter(move |measure| serves(measure.values))
    }

    /// The other measures of a kind of columns, each function once.
    pub(super) fn others(kind: ColumnKind, than: &'static Self) -> Vec<&'static Self> {
        let mut others: Vec<&'static Self> = vec![];
        for measure in Self::of_kind(kind) {
            let is_new = |other: &&Self| other.function != measure.function;
            if is_new(&than) && others.iter().all(is_new) {
                others.push(measure);
            }
        }
        others
    }

    /// The measure of that name, or the usual one, for a column. `is_weighted` says that it is a part of a sum.
    pub(super) fn find(
        name: Option<&str>,
        kind: ColumnKind,
        column: &str,
        is_weighted: bool,
    ) -> Result<&'static Self> {
        if is_weighted && name == Some(EQUAL.name) {
            return Ok(&EQUAL);
        }
        if kind == ColumnKind::Other {
            return Err(VerbError::with_hint(
                format!("the column {column} has no similarity: it is neither a text nor a list"),
                match is_weighted {
                    true => "compare it as it is: COLUMN,equal,WEIGHT".to_string(),
                    false => format!(
                        "--key {column} has it in common; in SQL a condition may compare numbers and dates"
                    ),
                },
            ));
        }
        if kind == ColumnKind::IntegerVector && name.is_none() {
            return Err(VerbError::with_hint(
                format!(
                    "the column {column} has lists of integers of one length, which are vectors or sets"
                ),
                "--measure euclidean or cosine compares vectors, --measure jaccard the sets of their elements",
            ));
        }
        let usual = match kind {
            ColumnKind::Vector => "euclidean",
            ColumnKind::Weighted => "weighted_cosine",
            _ => "jaccard",
        };
        let name = name.unwrap_or(match is_weighted && kind == ColumnKind::Vector {
            true => "cosine",
            false => usual,
        });
        let mut known: Vec<&str> = vec![];
        for measure in Self::of_kind(kind) {
            if !known.contains(&measure.name) {
                known.push(measure.name);
            }
        }
        let mut named = Self::of_kind(kind).filter(|measure| measure.name == name);
        let found = match kind {
            // Sets come first.
            ColumnKind::IntegerVector => named.last(),
            _ => named.next(),
        };
        let Some(measure) = found else {
            let meant = nearest(name, known.iter().copied());
            let meant = meant.map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
            return Err(VerbError::with_hint(
                format!("the column {column} has no measure {name:?}"),
                format!("{meant}its measures are {}", known.join(", ")),
            ));
        };
        match measure.similarity {
            Some(similarity) if is_weighted => Err(VerbError::with_hint(
                format!(
                    "{name} has no place in a weighted sum, which is made of similarities up to 1"
                ),
                format!("{similarity} has the same values"),
            )),
            _ => Ok(measure),
        }
    }
}

/// The tokenizer where none is named.
pub(super) const USUAL_TOKENIZER: &str = "qgrams:3";

/// The expression of a text's tokens, without a tokenizer of its runs of 3 characters.
pub(super) fn tokens_of(tokenizer: Option<&str>, value: &str) -> Result<String> {
    let given = tokenizer.unwrap_or(USUAL_TOKENIZER);
    Tokenizer::expression(given, value).ok_or_else(|| {
        VerbError::with_hint(
            format!("{given:?} is no tokenizer"),
            "the tokenizers are qgrams:3 (runs of 3 characters), words and shingles:2 (runs of 2 words); any \
             length may stand behind the colon",
        )
    })
}
