//! The functions of SQL: six similarity measures over lists read as sets, five over weighted sets, three tokenizers that
//! turn text into such lists, six distances and similarities of texts, the cosine
//! similarity of vectors, three functions that make spellings of a text alike, one that tells how two texts differ, and
//! the makers of weighted sets, of which three are window functions.
//!
//! ```text
//! similarity.rs     SimilarityUdf: types, errors, evaluation over columns and scalars
//! columns.rs          the lists of an argument, row by row
//! integers.rs         sets of integers where they lie; set::intersection counts what they share
//! overlap.rs          sets of text and binary, sorted row by row
//! scores.rs           the values of a measure
//! tokenizer.rs      Tokenizer: their names
//! tokenize.rs       TokenizerUdf: types, errors, evaluation
//! token_lists.rs      q-grams, words and shingles of one row, appended to a List<Utf8>
//! weighted.rs       WeightedUdf: similarities of weighted sets
//! strings.rs        StringUdf: distances and similarities of two texts
//! levenshtein.rs    LevenshteinUdf: DataFusion's function, quicker
//! cosine.rs         CosineSimilarityUdf: 1 - DataFusion's cosine_distance
//! text_arguments.rs   advice for arguments that are no texts
//! comparison.rs     the query of compare, with every measure
//! edit_script.rs    EditScriptUdf: the changes from one text to another
//! fold              TextFoldUdf: normal forms, accents, case
//! weights           TokenCountsUdf, WeighUdf, CollectionWeightsUdf: tokens with weights
//! documentation.rs  what SHOW FUNCTIONS and information_schema.routines say
//! ```
//!
//! These functions are the oracle of the join: a similarity join gives the rows that evaluating
//! them pair by pair gives. They share only [`Measure::value`] and the intersection of runs of integers
//! with the operator.

mod columns;
mod comparison;
mod cosine;
mod documentation;
mod edit_script;
mod fold;
mod integers;
mod levenshtein;
mod overlap;
mod scores;
mod similarity;
mod strings;
mod text_arguments;
mod token_lists;
mod tokenize;
mod tokenizer;
mod vectors;
mod weighted;
mod weights;

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::functions::string::levenshtein::LevenshteinFunc;
use datafusion::logical_expr::{ScalarUDF, WindowUDF};

pub(crate) use comparison::comparison_query;
pub use cosine::CosineSimilarityUdf;
pub(crate) use cosine::ExpandCosineSimilarity;
pub use edit_script::EditScriptUdf;
pub use fold::{TextFold, TextFoldUdf};
pub use levenshtein::LevenshteinUdf;
pub use similarity::SimilarityUdf;
pub use strings::StringUdf;
pub use tokenize::TokenizerUdf;
pub(crate) use tokenize::text_source;
pub use tokenizer::Tokenizer;
pub(crate) use vectors::{evaluate as vector_function, is_cosine_distance, metric_of};
pub(crate) use weighted::weighted_measure_of;
pub use weighted::{WeightedUdf, weighted_udf};
pub use weights::{CollectionWeightsUdf, TokenCountsUdf, WeighUdf, Weighting};

use crate::set::Measure;
pub use crate::string::StringFunction;
pub use crate::weighted::WeightedMeasure;

static SIMILARITY: LazyLock<[Arc<ScalarUDF>; 6]> =
    LazyLock::new(|| Measure::ALL.map(|m| Arc::new(ScalarUDF::from(SimilarityUdf::new(m)))));

static TOKENIZERS: LazyLock<[Arc<ScalarUDF>; 3]> =
    LazyLock::new(|| Tokenizer::ALL.map(|t| Arc::new(ScalarUDF::from(TokenizerUdf::new(t)))));

static STRINGS: LazyLock<[Arc<ScalarUDF>; 6]> =
    LazyLock::new(|| StringFunction::OWN.map(|f| Arc::new(ScalarUDF::from(StringUdf::new(f)))));

static FOLDS: LazyLock<[Arc<ScalarUDF>; 3]> =
    LazyLock::new(|| TextFold::ALL.map(|f| Arc::new(ScalarUDF::from(TextFoldUdf::new(f)))));

static LEVENSHTEIN: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(LevenshteinUdf::default())));

static COSINE_SIMILARITY: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(CosineSimilarityUdf::default())));

static EDIT_SCRIPT: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(EditScriptUdf::default())));

static TOKEN_COUNTS: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(TokenCountsUdf::default())));

static WEIGH: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(WeighUdf::default())));

static WEIGHTINGS: LazyLock<[Arc<WindowUDF>; 3]> = LazyLock::new(|| {
    Weighting::ALL.map(|w| Arc::new(WindowUDF::from(CollectionWeightsUdf::new(w))))
});

/// The weighted set of a list, with the number of each token's occurrences.
pub fn token_counts_udf() -> Arc<ScalarUDF> {
    Arc::clone(&TOKEN_COUNTS)
}

/// The weighted set of a list of tokens and a list of their weights.
pub fn weigh_udf() -> Arc<ScalarUDF> {
    Arc::clone(&WEIGH)
}

/// The window function that weighs tokens by `weighting`.
pub fn weighting_udwf(weighting: Weighting) -> Arc<WindowUDF> {
    Arc::clone(&WEIGHTINGS[weighting as usize])
}

/// Every window function that this crate adds to those of DataFusion, ready to register. The join works without
/// them: a session may have functions of its own under their names.
pub fn windows() -> Vec<Arc<WindowUDF>> {
    WEIGHTINGS.to_vec()
}

/// The changes from one text to another.
pub fn edit_script_udf() -> Arc<ScalarUDF> {
    Arc::clone(&EDIT_SCRIPT)
}

/// The cosine similarity of two vectors.
pub fn cosine_similarity_udf() -> Arc<ScalarUDF> {
    Arc::clone(&COSINE_SIMILARITY)
}

/// DataFusion's `levenshtein`, evaluated many pairs at a time. Sessions have it in the place of
/// DataFusion's, which gives the same values.
pub fn levenshtein() -> Arc<ScalarUDF> {
    Arc::clone(&LEVENSHTEIN)
}

/// Every scalar function that this crate adds to those of DataFusion, each with its aliases, ready to register.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    let joined = SIMILARITY.iter().chain(TOKENIZERS.iter()).chain(STRINGS.iter());
    let others = [&*COSINE_SIMILARITY, &*EDIT_SCRIPT, &*TOKEN_COUNTS, &*WEIGH];
    let joined = joined.chain(FOLDS.iter()).chain(others);
    joined.map(Arc::clone).chain(WeightedMeasure::ALL.map(weighted_udf)).collect()
}

/// The function that makes spellings of a text alike.
pub fn fold_udf(fold: TextFold) -> Arc<ScalarUDF> {
    Arc::clone(&FOLDS[fold as usize])
}

/// Whether the join works without `udf`: a session may have a function of its own under that name.
pub(crate) fn is_dispensable(udf: &ScalarUDF) -> bool {
    let inner = udf.inner();
    let makes_weights = inner.is::<TokenCountsUdf>() || inner.is::<WeighUdf>();
    makes_weights
        || inner.is::<TextFoldUdf>()
        || inner.is::<CosineSimilarityUdf>()
        || inner.is::<EditScriptUdf>()
}

/// The function that computes `measure`.
pub fn similarity_udf(measure: Measure) -> Arc<ScalarUDF> {
    Arc::clone(&SIMILARITY[measure as usize])
}

/// The function that runs `tokenizer`.
pub fn tokenizer_udf(tokenizer: Tokenizer) -> Arc<ScalarUDF> {
    Arc::clone(&TOKENIZERS[tokenizer as usize])
}

/// The measure that `udf` computes, `None` when it is not a function of this crate.
///
/// The implementation decides, not the name: a `jaccard` that a user registered is not ours.
pub fn measure_of(udf: &ScalarUDF) -> Option<Measure> {
    udf.inner().downcast_ref::<SimilarityUdf>().map(SimilarityUdf::measure)
}

/// The function that computes a distance or similarity of texts.
pub fn string_udf(function: StringFunction) -> Arc<ScalarUDF> {
    match StringFunction::OWN.iter().position(|own| *own == function) {
        Some(place) => Arc::clone(&STRINGS[place]),
        None => levenshtein(),
    }
}

/// The function of two texts that `udf` computes, `None` when it is not a function of this crate.
pub fn string_function_of(udf: &ScalarUDF) -> Option<StringFunction> {
    match udf.inner().downcast_ref::<StringUdf>() {
        Some(udf) => Some(udf.function()),
        None => (udf.inner().is::<LevenshteinUdf>() || is_levenshtein(udf))
            .then_some(StringFunction::Levenshtein),
    }
}

/// Whether `udf` is DataFusion's `levenshtein`; the implementation decides, not the name.
pub(crate) fn is_levenshtein(udf: &ScalarUDF) -> bool {
    udf.inner().is::<LevenshteinFunc>()
}

/// Whether neither the order nor the repeats of a list argument count for the value of `udf`.
pub(crate) fn reads_lists_as_sets(udf: &ScalarUDF) -> bool {
    measure_of(udf).is_some()
}

/// The error of a call with too few or too many arguments.
fn wrong_count<T>(name: &str, takes: &str, found: &[DataType], example: &str) -> Result<T> {
    let types: Vec<String> = found.iter().map(ToString::to_string).collect();
    let count = match found.len() {
        0 => "none".to_string(),
        1 => format!("one argument ({})", types[0]),
        more => format!("{more} arguments ({})", types.join(", ")),
    };
    plan_err!("{name} takes {takes}, found {count}; for example: {example}")
}

/// The functions as expressions, for plans and DataFrames built in Rust.
pub mod expr_fn {
    use datafusion::logical_expr::{Expr, lit};

    use super::{
        StringFunction, TextFold, Tokenizer, WeightedMeasure, Weighting, cosine_similarity_udf,
        edit_script_udf, fold_udf, similarity_udf, string_udf, token_counts_udf, tokenizer_udf,
        weigh_udf, weighted_udf, weighting_udwf,
    };
    use crate::set::Measure;

    /// `|a ∩ b| / |a ∪ b|`
    pub fn jaccard(a: Expr, b: Expr) -> Expr {
        similarity(Measure::Jaccard, a, b)
    }

    /// `2 |a ∩ b| / (|a| + |b|)`
    pub fn dice(a: Expr, b: Expr) -> Expr {
        similarity(Measure::Dice, a, b)
    }

    /// `|a ∩ b| / sqrt(|a| |b|)`
    pub fn set_cosine(a: Expr, b: Expr) -> Expr {
        similarity(Measure::Cosine, a, b)
    }

    /// `|a ∩ b|`, an `Int64`
    pub fn overlap(a: Expr, b: Expr) -> Expr {
        similarity(Measure::Overlap, a, b)
    }

    /// `|a ∩ b| / min(|a|, |b|)`
    pub fn overlap_coefficient(a: Expr, b: Expr) -> Expr {
        similarity(Measure::OverlapCoefficient, a, b)
    }

    /// `|a ∩ b| / |a|`
    pub fn containment(a: Expr, b: Expr) -> Expr {
        similarity(Measure::Containment, a, b)
    }

    /// The value of a distance or similarity of two texts.
    pub fn string_function(function: StringFunction, a: Expr, b: Expr) -> Expr {
        string_udf(function).call(vec![a, b])
    }

    /// The value of `measure` over two lists read as sets.
    pub fn similarity(measure: Measure, a: Expr, b: Expr) -> Expr {
        similarity_udf(measure).call(vec![a, b])
    }

    /// The value of a similarity of two weighted sets.
    pub fn weighted_similarity(measure: WeightedMeasure, a: Expr, b: Expr) -> Expr {
        weighted_udf(measure).call(vec![a, b])
    }

    /// `1 - cosine_distance(a, b)`, of two vectors
    pub fn cosine_similarity(a: Expr, b: Expr) -> Expr {
        cosine_similarity_udf().call(vec![a, b])
    }

    /// The distinct runs of `q` characters of `text`.
    pub fn qgrams(text: Expr, q: Expr) -> Expr {
        tokenizer_udf(Tokenizer::QGrams).call(vec![text, q])
    }

    /// The lower-cased words of `text`.
    pub fn word_tokens(text: Expr) -> Expr {
        tokenizer_udf(Tokenizer::WordTokens).call(vec![text])
    }

    /// The runs of `k` consecutive elements of `list`, each joined by spaces.
    pub fn shingles(list: Expr, k: Expr) -> Expr {
        tokenizer_udf(Tokenizer::Shingles).call(vec![list, k])
    }

    /// `text` in the normal form of Unicode that `form` names: `'NFC'`, `'NFD'`, `'NFKC'` or `'NFKD'`.
    pub fn normalize(text: Expr, form: Expr) -> Expr {
        fold_udf(TextFold::Normalize).call(vec![text, form])
    }

    /// `text` without accents.
    pub fn unaccent(text: Expr) -> Expr {
        fold_udf(TextFold::Unaccent).call(vec![text])
    }

    /// `text` by Unicode's case folding.
    pub fn casefold(text: Expr) -> Expr {
        fold_udf(TextFold::Casefold).call(vec![text])
    }

    /// The changes that make `b` of `a`, marked among what both have.
    pub fn edit_script(a: Expr, b: Expr) -> Expr {
        edit_script_udf().call(vec![a, b])
    }

    /// The weighted set of `list`, with the number of each token's occurrences.
    pub fn token_counts(list: Expr) -> Expr {
        token_counts_udf().call(vec![list])
    }

    /// The weighted set of `tokens`, whose weights are the list `weights`.
    pub fn weigh(tokens: Expr, weights: Expr) -> Expr {
        weigh_udf().call(vec![tokens, weights])
    }

    /// The weighted set of `tokens` by tf-idf, over all rows; a window function, which `partition_by` divides.
    pub fn tfidf(tokens: Expr) -> Expr {
        weighting_udwf(Weighting::Tfidf).call(vec![tokens])
    }

    /// The weighted set of `tokens` by their inverse document frequency; a window function.
    pub fn idf(tokens: Expr) -> Expr {
        weighting_udwf(Weighting::Idf).call(vec![tokens])
    }

    /// The weighted set of `tokens` by BM25 with its parameters, usually 1.2 and 0.75; a window function.
    pub fn bm25_weights(tokens: Expr, k1: f64, b: f64) -> Expr {
        weighting_udwf(Weighting::Bm25).call(vec![tokens, lit(k1), lit(b)])
    }
}
