//! The documentation that `SHOW FUNCTIONS` and `information_schema.routines` show.

use std::sync::LazyLock;

use datafusion::logical_expr::Documentation;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_ARRAY;
use datafusion::logical_expr::window_doc_sections::DOC_SECTION_ANALYTICAL;

use super::collection::Weighting;
use crate::functions::documentation::example;

const SET: &str = "A weighted set is a list of structs with the fields token and weight, an unsigned integer of 32 \
                   bits, with each token once, in the order of first appearance.";

const TOKENS: &str =
    "List of integers, text or binary. NULL elements are ignored; a NULL list gives NULL.";

pub(super) static TOKEN_COUNTS: LazyLock<Documentation> = LazyLock::new(|| {
    let description = format!(
        "Returns the weighted set of a list: its distinct tokens, each with the number of its occurrences. {SET}"
    );
    Documentation::builder(DOC_SECTION_ARRAY, description, "token_counts(list)")
        .with_sql_example(example(
            "SELECT token_counts(['a', 'b', 'a']);",
            "[{token: a, weight: 2}, {token: b, weight: 1}]",
        ))
        .with_argument("list", TOKENS)
        .with_related_udf("weigh")
        .build()
});

pub(super) static WEIGH: LazyLock<Documentation> = LazyLock::new(|| {
    let description = format!(
        "Returns the weighted set of a list of tokens and a list of their weights. The weights of a repeated token \
         add up. A pair with a NULL, or with weight 0, is left out. {SET}"
    );
    Documentation::builder(DOC_SECTION_ARRAY, description, "weigh(tokens, weights)")
        .with_sql_example(example(
            "SELECT weigh(['a', 'b', 'a'], [3, 1, 4]);",
            "[{token: a, weight: 7}, {token: b, weight: 1}]",
        ))
        .with_argument("tokens", TOKENS)
        .with_argument(
            "weights",
            "List of integers from 0 to 4294967295, of the same length as tokens. Fractions become such integers \
             by CAST(round(65536 * w) AS BIGINT).",
        )
        .with_related_udf("token_counts")
        .build()
});

static WEIGHTINGS: LazyLock<[Documentation; 3]> = LazyLock::new(|| Weighting::ALL.map(weighting));

pub(super) fn of_weighting(weighting: Weighting) -> &'static Documentation {
    &WEIGHTINGS[weighting as usize]
}

fn weighting(weighting: Weighting) -> Documentation {
    let (weight, syntax, call, answer) = match weighting {
        Weighting::Tfidf => (
            "the number of its occurrences in the row times log2((1 + n) / (1 + df)) + 1 / ln 2, the smooth inverse \
             document frequency ln((1 + n) / (1 + df)) + 1 in another unit",
            "tfidf(tokens)",
            "tfidf(['a', 'b', 'a'])",
            "[{token: a, weight: 189096}, {token: b, weight: 94548}]",
        ),
        Weighting::Idf => (
            "log2((1 + n) / (1 + df)) + 1 / ln 2, the smooth inverse document frequency ln((1 + n) / (1 + df)) + 1 \
             in another unit",
            "idf(tokens)",
            "idf(['a', 'b', 'a'])",
            "[{token: a, weight: 94548}, {token: b, weight: 94548}]",
        ),
        Weighting::Bm25 => (
            "its part in the score of BM25: ln(1 + (n - df + 0.5) / (df + 0.5)) * f * (k1 + 1) / (f + k1 * (1 - b + \
             b * len / avglen)), where f is the number of its occurrences in the row, len the length of the list, \
             and avglen the mean of the lengths",
            "bm25_weights(tokens, k1, b)",
            "bm25_weights(['a', 'b'])",
            "[{token: a, weight: 18854}, {token: b, weight: 18854}]",
        ),
    };
    let description = format!(
        "Returns the weighted set of a row's tokens. The weight of a token is {weight}; n is the number of the \
         partition's rows, without NULL lists, and df of those with the token. Weights are multiples of 1/65536, \
         rounded to the nearest. All rows of the partition count: ORDER BY and a frame in OVER make no \
         difference. {SET}"
    );
    let builder = Documentation::builder(DOC_SECTION_ANALYTICAL, description, syntax)
        .with_sql_example(example(&format!("SELECT {call} OVER ();"), answer))
        .with_argument("tokens", TOKENS);
    let builder = match weighting {
        Weighting::Bm25 => builder
            .with_alternative_syntax("bm25_weights(tokens)")
            .with_argument(
                "k1",
                "Literal number of at least 0, what repeats may add; 1.2 without it.",
            )
            .with_argument(
                "b",
                "Literal number from 0 to 1, the share of lengths; 0.75 without it.",
            ),
        _ => builder,
    };
    let others = Weighting::ALL.into_iter().filter(|&other| other != weighting);
    others.fold(builder, |builder, other| builder.with_related_udf(other.name())).build()
}
