//! Descriptions of the table functions over pairs, for `\\h`. DataFusion has no place for them: they are no functions
//! of its own kinds.

use std::sync::LazyLock;

use datafusion::logical_expr::{DocSection, Documentation};

const SECTION: DocSection =
    DocSection { include: false, label: "Results of Pairs", description: None };

const PAIRS: &str = "a query in parentheses, a table, a view, a common table expression, or a file in quotes. Its \
    first two columns are the nodes of a pair, of one type. NULL in one of them declares the other as a node without a \
    partner; NULL in both is nothing.";

/// The descriptions of all of them.
pub(super) fn all() -> &'static [Documentation] {
    static ALL: LazyLock<[Documentation; 3]> =
        LazyLock::new(|| [connected_components(), representatives(), one_to_one()]);
    ALL.as_slice()
}

/// The name of the function that a description is of.
pub(super) fn name(documentation: &Documentation) -> &str {
    documentation.syntax_example.split('(').next().unwrap_or_default()
}

fn connected_components() -> Documentation {
    Documentation::builder(
        SECTION,
        "Tells what hangs together over any number of pairs. Gives a row for each node: node, component (the least \
         node that it is connected with) and size (the nodes there). With thresholds it gives a component and a size for \
         each, of the pairs whose score reaches it.",
        "connected_components(pairs[, thresholds[, order]])",
    )
    .with_argument("pairs", PAIRS)
    .with_argument("thresholds", "a list of numbers; then the third column of the pairs is a score.")
    .with_argument("order", ORDER)
    .with_sql_example(
        "SELECT * FROM connected_components((
  SELECT a.id, b.id FROM docs a LEFT SIMJOIN docs b
  ON jaccard(a.tokens, b.tokens) >= 0.8 AND a.id < b.id));
SELECT * FROM connected_components(scored_pairs, [0.9, 0.8]);",
    )
    .with_related_udf("representatives")
    .with_related_udf("one_to_one")
    .build()
}

fn representatives() -> Documentation {
    Documentation::builder(
        SECTION,
        "Tells which rows to keep. Goes through the nodes in their order and keeps each that is no partner of a kept \
         one before it. Gives a row for each node: node, representative (the kept partner of the best score, of ties the \
         least; a kept node itself), kept, and, where the pairs have a third column, score.",
        "representatives(pairs[, order])",
    )
    .with_argument("pairs", format!("{PAIRS} A third column, if any, is the score."))
    .with_argument("order", ORDER)
    .with_sql_example(
        "SELECT node, representative, score FROM representatives((
  SELECT a.id, b.id, jaccard(a.tokens, b.tokens) FROM docs a LEFT SIMJOIN docs b
  ON jaccard(a.tokens, b.tokens) >= 0.8 AND a.id < b.id)) WHERE NOT kept;",
    )
    .with_related_udf("connected_components")
    .with_related_udf("one_to_one")
    .build()
}

fn one_to_one() -> Documentation {
    Documentation::builder(
        SECTION,
        "Matches each row of two tables at most once. Takes the pairs from the best score on, ties by (left, right), \
         each left and each right node once, and gives them: left, right, score. Pairs with a NULL, also of the score, are \
         left out. To find the best match of each row, which several rows may share, write NEAREST 1.",
        "one_to_one(pairs[, order])",
    )
    .with_argument(
        "pairs",
        "a query in parentheses, a table, a view, a common table expression, or a file in quotes, of three columns: \
         the left node, the right node, the score.",
    )
    .with_argument("order", ORDER)
    .with_sql_example(
        "SELECT \"left\", \"right\", score FROM one_to_one((
  SELECT a.id, b.id, jaccard(a.tokens, b.tokens) FROM old a SIMJOIN new b
  ON jaccard(a.tokens, b.tokens) >= 0.7));",
    )
    .with_related_udf("connected_components")
    .with_related_udf("representatives")
    .build()
}

const ORDER: &str =
    "'similarity' (greater scores are better, the default) or 'distance' (lesser ones are).";
