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
    static ALL: LazyLock<[Documentation; 6]> = LazyLock::new(|| {
        [
            connected_components(),
            representatives(),
            one_to_one(),
            thresholds(),
            evaluate(),
            compare(),
        ]
    });
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

fn thresholds() -> Documentation {
    Documentation::builder(
        SECTION,
        "Tells what each of several thresholds would give. A row for each: threshold, pairs within it, added (the pairs that \
         only this step adds), rows_in_groups, groups, largest_group, and the three weakest of the added pairs as examples. \
         Reads the pairs twice.",
        "thresholds(pairs, thresholds[, order])",
    )
    .with_argument("pairs", format!("{PAIRS} The third column is the score, a fourth one a text that shows the pair."))
    .with_argument("thresholds", "a list of numbers.")
    .with_argument("order", ORDER)
    .with_sql_example(
        "SELECT * FROM thresholds((
  SELECT a.id, b.id, jaccard(a.tokens, b.tokens) FROM docs a SIMJOIN docs b
  ON jaccard(a.tokens, b.tokens) >= 0.5 AND a.id < b.id), [0.9, 0.8, 0.7, 0.6, 0.5]) ORDER BY threshold DESC;",
    )
    .with_related_udf("connected_components")
    .with_related_udf("evaluate")
    .build()
}

fn evaluate() -> Documentation {
    Documentation::builder(
        SECTION,
        "Holds links against true pairs. Gives links, true_links, true_pairs, precision, recall and f1: of all links, or a \
         row for each threshold of their scores. A pair that is there twice counts once, by its better score.",
        "evaluate(links, truth[, thresholds[, order]])",
    )
    .with_argument("links", "a query in parentheses, a table, a view or a file in quotes: the left row, the right row and, \
         with thresholds, the score.")
    .with_argument("truth", "the same of the true pairs: the left row, the right row.")
    .with_argument("thresholds", "a list of numbers.")
    .with_argument("order", ORDER)
    .with_sql_example("SELECT * FROM evaluate(links, truth, [0.9, 0.8, 0.7]) ORDER BY f1 DESC;")
    .with_related_udf("thresholds")
    .build()
}

fn compare() -> Documentation {
    Documentation::builder(
        SECTION,
        "Compares two values by every measure that they have: texts, sets or vectors. Gives each row of the query with the \
         measures, the elements that both have (shared) and that one has alone (left_only, right_only), and of texts the \
         changes from one to the other (edit_script).",
        "compare(values[, tokenizer])",
    )
    .with_argument("values", "a query in parentheses, a table, a view or a file in quotes; its first two columns are \
         compared, others are given as they are.")
    .with_argument("tokenizer", "how texts become sets: 'qgrams:3' (the default), 'words' or 'shingles:2'.")
    .with_sql_example(
        "SELECT * FROM compare((SELECT a.name, b.name, a.id FROM people a JOIN people b ON a.id = 1 AND b.id = 4));",
    )
    .with_related_udf("edit_script")
    .build()
}

const ORDER: &str =
    "'similarity' (greater scores are better, the default) or 'distance' (lesser ones are).";
