//! The documentation that `SHOW FUNCTIONS` and `information_schema.routines` show.

use std::sync::LazyLock;

use datafusion::logical_expr::Documentation;
use datafusion::logical_expr::scalar_doc_sections::{DOC_SECTION_ARRAY, DOC_SECTION_STRING};

use super::tokenizer::Tokenizer;
use crate::set::Measure;
use crate::string::StringFunction;

static MEASURES: LazyLock<[Documentation; 6]> = LazyLock::new(|| Measure::ALL.map(measure));

static TOKENIZERS: LazyLock<[Documentation; 3]> = LazyLock::new(|| Tokenizer::ALL.map(tokenizer));

pub(super) fn of_measure(measure: Measure) -> &'static Documentation {
    &MEASURES[measure as usize]
}

static STRINGS: LazyLock<[Documentation; 7]> = LazyLock::new(|| StringFunction::ALL.map(string));

pub(super) fn of_string_function(function: StringFunction) -> &'static Documentation {
    &STRINGS[function as usize]
}

pub(super) fn of_tokenizer(tokenizer: Tokenizer) -> &'static Documentation {
    &TOKENIZERS[tokenizer as usize]
}

/// A prompt with a query and its answer, as DataFusion's own documentation has them.
pub(super) fn example(query: &str, answer: &str) -> String {
    let rule = "-".repeat(answer.chars().count() + 2);
    format!("```sql\n> {query}\n+{rule}+\n| {answer} |\n+{rule}+\n```")
}

fn measure(measure: Measure) -> Documentation {
    let (description, call, answer) = match measure {
        Measure::Jaccard => (
            "Returns the Jaccard similarity of two lists read as sets: the number of common \
             elements divided by the number of distinct elements of both.",
            "jaccard([1, 2, 3], [2, 3, 4])",
            "0.5",
        ),
        Measure::Dice => (
            "Returns the Sørensen–Dice similarity of two lists read as sets: twice the number of \
             common elements divided by the sum of both sizes.",
            "dice([1, 2, 3, 4], [3, 4, 5, 6])",
            "0.5",
        ),
        Measure::Cosine => (
            "Returns the cosine similarity of two lists read as sets: the number of common \
             elements divided by the square root of the product of both sizes. (For vectors of \
             numbers see `cosine_distance`.)",
            "set_cosine([1, 2], [2, 3, 4, 5, 6, 7, 8, 9])",
            "0.25",
        ),
        Measure::Overlap => (
            "Returns the number of common elements of two lists read as sets.",
            "overlap([1, 2, 2, 3], [2, 3, 4])",
            "2",
        ),
        Measure::OverlapCoefficient => (
            "Returns the overlap coefficient of two lists read as sets: the number of common \
             elements divided by the size of the smaller set.",
            "overlap_coefficient([1, 2], [2, 3, 4])",
            "0.5",
        ),
        Measure::Containment => (
            "Returns the share of the first list's elements that the second contains, both lists \
             read as sets.",
            "containment([1, 2, 3, 4], [4, 5])",
            "0.25",
        ),
    };
    let argument = "List of integers, text or binary. Repeated elements count once, NULL elements \
                    are ignored; a NULL list gives NULL, an empty set 0.";
    let name = measure.name();
    let builder = Documentation::builder(DOC_SECTION_ARRAY, description, format!("{name}(a, b)"))
        .with_sql_example(example(&format!("SELECT {call};"), answer))
        .with_argument("a", argument)
        .with_argument("b", argument);
    let builder = measure
        .aliases()
        .iter()
        .fold(builder, |b, alias| b.with_alternative_syntax(format!("{alias}(a, b)")));
    Measure::ALL
        .into_iter()
        .filter(|&m| m != measure)
        .fold(builder, |b, other| b.with_related_udf(other.name()))
        .build()
}

fn tokenizer(tokenizer: Tokenizer) -> Documentation {
    let builder = match tokenizer {
        Tokenizer::QGrams => Documentation::builder(
            DOC_SECTION_STRING,
            "Returns the distinct runs of `q` characters of a text, in the order of their first \
             occurrence. Nothing is padded and case is kept; a text shorter than `q` is its own \
             single token, an empty text has none.",
            "qgrams(text, q)",
        )
        .with_sql_example(example("SELECT qgrams('banana', 3);", "[ban, ana, nan]"))
        .with_argument("text", "Text; NULL gives NULL.")
        .with_argument("q", "Number of Unicode characters, at least 1; NULL gives NULL."),
        Tokenizer::WordTokens => Documentation::builder(
            DOC_SECTION_STRING,
            "Returns the words of a text: the maximal runs of letters and digits, in lower case, \
             in order, repetitions kept. A combining mark goes on with the word that it follows, a \
             joiner or soft hyphen with the word in which it stands. One word in two normal forms is \
             two: normalize(text, 'NFC') before makes one of them.",
            "word_tokens(text)",
        )
        .with_sql_example(example(
            "SELECT word_tokens('To be, or not to be');",
            "[to, be, or, not, to, be]",
        ))
        .with_argument("text", "Text; NULL gives NULL."),
        Tokenizer::Shingles => Documentation::builder(
            DOC_SECTION_ARRAY,
            "Returns the runs of `k` consecutive elements of a list, each joined by spaces. NULL \
             elements are skipped; a list shorter than `k` gives one shingle of all its elements, \
             an empty list none.",
            "shingles(list, k)",
        )
        .with_sql_example(example(
            "SELECT shingles(word_tokens('To be, or not'), 2);",
            "[to be, be or, or not]",
        ))
        .with_argument("list", "List of text or integers; NULL gives NULL.")
        .with_argument("k", "Number of elements, at least 1; NULL gives NULL."),
    };
    Tokenizer::ALL
        .into_iter()
        .filter(|&t| t != tokenizer)
        .fold(builder, |b, other| b.with_related_udf(other.name()))
        .build()
}

fn string(function: StringFunction) -> Documentation {
    let (description, call, answer) = match function {
        StringFunction::Levenshtein => (
            "Returns the Levenshtein distance of two texts: the fewest insertions, deletions and \
             replacements of characters that turn one into the other.",
            "levenshtein('kitten', 'sitting')",
            "3",
        ),
        StringFunction::LevenshteinSimilarity => (
            "Returns the Levenshtein similarity of two texts: 1 minus their Levenshtein distance divided \
             by the length of the longer text; 1 for two empty texts.",
            "levenshtein_similarity('four', 'fort')",
            "0.5",
        ),
        StringFunction::DamerauLevenshtein => (
            "Returns the Damerau-Levenshtein distance of two texts: the fewest insertions, deletions and \
             replacements of characters, and exchanges of neighbouring ones, that turn one into the \
             other. What was exchanged may be edited again.",
            "damerau_levenshtein('martha', 'marhta')",
            "1",
        ),
        StringFunction::IndelSimilarity => (
            "Returns the indel similarity of two texts: 1 minus the fewest insertions and deletions of \
             characters that turn one into the other, divided by the sum of the lengths; 1 for two empty \
             texts.",
            "indel_similarity('abcd', 'abxd')",
            "0.75",
        ),
        StringFunction::Hamming => (
            "Returns the number of places at which two texts of one length differ. Texts of different \
             lengths are an error.",
            "hamming('karolin', 'kathrin')",
            "3",
        ),
        StringFunction::Jaro => (
            "Returns Jaro's similarity of two texts: the mean of the shares of their characters that have \
             an equal partner near them, and of the share of those that stand in the same order.",
            "jaro_similarity('abcd', 'abcdabcd')",
            "0.8333333333333334",
        ),
        StringFunction::JaroWinkler => (
            "Returns the Jaro-Winkler similarity of two texts: Jaro's similarity, raised above 0.7 by a \
             tenth of what it lacks of 1 for each of up to four characters at which both texts begin \
             alike.",
            "jaro_winkler_similarity('abcd', 'abcdabcd')",
            "0.9",
        ),
    };
    let argument = "Text of any length; characters are Unicode scalar values. NULL gives NULL.";
    let name = function.name();
    let builder = Documentation::builder(DOC_SECTION_STRING, description, format!("{name}(a, b)"))
        .with_sql_example(example(&format!("SELECT {call};"), answer))
        .with_argument("a", argument)
        .with_argument("b", argument);
    StringFunction::ALL
        .into_iter()
        .filter(|&f| f != function)
        .fold(builder, |b, other| b.with_related_udf(other.name()))
        .build()
}
