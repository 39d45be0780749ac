//! Statements as they are written, and what is wrong with them.

use datafusion::common::ScalarValue;

use super::{nested_loop, vectors_and_tokens};
use crate::oracle::{Cell, line};
use crate::support::{
    OPERATOR, Session, assert_contains, assert_same_rows, assert_uses_operator, error, explain,
    number, physical, rows, rows_with,
};
use crate::vector_oracle::Metric;

/// One of a set similarity and a distance in one ON drives the join, the other is a residual filter,
/// whatever their order.
#[tokio::test]
async fn a_set_similarity_and_a_distance_stand_in_one_condition() {
    let (ctx, oracle) = (Session::default().context(), nested_loop());
    vectors_and_tokens(&ctx).await;
    vectors_and_tokens(&oracle).await;
    let similar = "jaccard(a.toks, b.toks) >= 0.5";
    for distance in [
        "array_distance(a.v, b.v) <= 0.4",
        "inner_product(a.v, b.v) >= 0.9",
        "cosine_distance(a.v, b.v) < 0.1",
    ] {
        for (first, second) in [(similar, distance), (distance, similar)] {
            for kind in ["", "LEFT ", "FULL ", "LEFT ANTI "] {
                let columns = if kind == "LEFT ANTI " { "a.id" } else { "a.id, b.id" };
                let sql = |word: &str| {
                    format!("SELECT {columns} FROM a {kind}{word} b ON {first} AND {second}")
                };
                let plan = assert_uses_operator(&ctx, &sql("SIMJOIN")).await;
                let nodes = plan.matches(OPERATOR).count();
                assert_eq!(nodes, 1, "{plan}");
                let wanted = rows(&oracle, &sql("JOIN")).await;
                // Each row may have a partner.
                let least = usize::from(kind != "LEFT ANTI ");
                assert!((least..800).contains(&wanted.len()), "{}: {}", wanted.len(), sql("JOIN"));
                assert_same_rows(&rows(&ctx, &sql("SIMJOIN")).await, &wanted, &sql("SIMJOIN"));
            }
        }
    }
    // A measure and a distance of the matches, side by side.
    let sql = "SELECT a.id, b.id, jaccard(a.toks, b.toks), array_distance(a.v, b.v), \
               cosine_distance(b.v, a.v) FROM a JOIN b ON array_distance(a.v, b.v) <= 0.4";
    assert_uses_operator(&ctx, sql).await;
    assert_same_rows(&rows(&ctx, sql).await, &rows(&oracle, sql).await, sql);
}

/// Every way to write one condition.
#[tokio::test]
async fn a_condition_may_be_written_in_many_ways() {
    let ctx = Session::default().context();
    vectors_and_tokens(&ctx).await;
    let from = "SELECT count(*) FROM a SIMJOIN b ON";
    let wanted = number(&ctx, &format!("{from} array_distance(a.v, b.v) <= 0.5")).await;
    assert!(wanted > 100, "{wanted}");
    for condition in [
        "list_distance(a.v, b.v) <= 0.5",
        "array_distance(b.v, a.v) <= 0.5",
        "0.5 >= array_distance(a.v, b.v)",
        "array_distance(a.v, b.v) BETWEEN 0 AND 0.5",
        "array_distance(a.v, b.v) <= 0.25 + 0.25",
        "array_distance(a.v, b.v) <= CAST('0.5' AS DOUBLE)",
        "NOT (array_distance(a.v, b.v) > 0.5)",
        "CAST(array_distance(a.v, b.v) AS DOUBLE) <= 0.5",
        "array_distance(arrow_cast(a.v, 'LargeList(Float64)'), \
         arrow_cast(b.v, 'LargeList(Float64)')) <= 0.5",
        "array_distance(array_reverse(a.v), array_reverse(b.v)) <= 0.5",
    ] {
        let sql = format!("{from} {condition}");
        assert_eq!(number(&ctx, &sql).await, wanted, "{sql}");
    }
    let half = vec![ScalarValue::Float64(Some(0.5))];
    for condition in ["array_distance(a.v, b.v) <= $1", "$1 >= list_distance(a.v, b.v)"] {
        let sql = format!("{from} {condition}");
        assert_eq!(rows_with(&ctx, &sql, half.clone()).await, [wanted.to_string()], "{sql}");
    }
    for sql in [
        "SELECT count(*) FROM a, b WHERE array_distance(a.v, b.v) <= 0.5",
        "SELECT count(*) FROM a JOIN b ON true WHERE array_distance(a.v, b.v) <= 0.5",
    ] {
        assert_uses_operator(&ctx, sql).await;
        assert_eq!(number(&ctx, sql).await, wanted, "{sql}");
    }
    let products = number(&ctx, &format!("{from} inner_product(a.v, b.v) >= 0.5")).await;
    assert_eq!(number(&ctx, &format!("{from} dot_product(a.v, b.v) >= 0.5")).await, products);
    // The vectors near a given one are found without a join.
    let sql = "SELECT count(*) FROM a WHERE array_distance(a.v, [0.0, 1.0]) <= 0.5";
    assert!(!physical(&ctx, sql).await.contains(OPERATOR));
}

#[tokio::test]
async fn columns_that_hold_no_vectors_are_refused() {
    let ctx = Session::default().context();
    for (name, value) in [
        ("vectors", "[1.0, 2.0]"),
        ("texts", "['a', 'b']"),
        ("flags", "[true, false]"),
        ("nested", "[[1.0], [2.0]]"),
        ("plain", "'1, 2'"),
        ("number", "7.5"),
        ("record", "named_struct('x', 1.0)"),
    ] {
        rows(&ctx, &format!("CREATE TABLE {name} AS SELECT 1 AS id, {value} AS v")).await;
    }
    for function in ["array_distance", "cosine_distance", "inner_product"] {
        let bound = if function == "inner_product" { ">= 0.5" } else { "<= 0.5" };
        for (right, part) in
            [("nested", "List"), ("plain", "Utf8"), ("number", "Float64"), ("record", "Struct")]
        {
            for join in ["JOIN", "SIMJOIN"] {
                let sql = format!(
                    "SELECT count(*) FROM vectors x {join} {right} y ON {function}(x.v, y.v) {bound}"
                );
                assert_contains(&error(&ctx, &sql).await, &[function, part]);
            }
        }
        // Texts are cast to numbers, as DataFusion does, and some cannot be.
        let sql =
            format!("SELECT count(*) FROM texts x SIMJOIN texts y ON {function}(x.v, y.v) {bound}");
        assert_contains(&error(&ctx, &sql).await, &["'a'", "Float64"]);
    }
    for (sql, parts) in [
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distanc(x.v, y.v) <= 1",
            &["array_distanc"][..],
        ),
        ("SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distance(x.w, y.v) <= 1", &["w"]),
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distance(x.v) <= 1",
            &["array_distance"],
        ),
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distance(x.v, y.v) <= 'near'",
            &["near"],
        ),
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distance(x.v, y.v) > 1",
            &[
                "from below only",
                "a correct example: a SIMJOIN b ON array_distance(a.x, b.x) <= 0.5",
            ],
        ),
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON inner_product(x.v, y.v) < 1",
            &[
                "from above only",
                "a correct example: a SIMJOIN b ON inner_product(a.x, b.x) >= 0.8",
            ],
        ),
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distance(x.v, y.v) <= 1 OR x.id < y.id",
            &["similar in none of its parts", "array_distance(a.x, b.x) <= 0.5"],
        ),
    ] {
        assert_contains(&error(&ctx, sql).await, parts);
    }
}

/// Vectors of different lengths that meet are an error with advice, which helps.
#[tokio::test]
async fn vectors_of_different_lengths_are_an_error_unless_kept_apart() {
    for session in [Session::default(), Session { memory: Some(8 << 20), ..Session::default() }] {
        let ctx = session.context();
        rows(&ctx, "CREATE TABLE a AS VALUES (1, [1.0, 2.0]), (2, [4.0, 5.0, 6.0]), (3, NULL)")
            .await;
        for metric in Metric::ALL {
            let on = metric.at_most(&format!("{}(a.column2, b.column2)", metric.sql()), "0.1");
            let sql = format!("SELECT count(*) FROM a SIMJOIN a b ON {on}");
            let message = error(&ctx, &sql).await;
            let advice = ["same length", "2", "3", "cardinality"];
            assert_contains(&message, &advice);
            // The advice on both sides, and as a blocking key.
            let kept = "cardinality(a.column2) = 3 AND cardinality(b.column2) = 3";
            assert_eq!(number(&ctx, &format!("{sql} AND {kept}")).await, 1);
            let keyed = "cardinality(a.column2) = cardinality(b.column2)";
            assert_eq!(number(&ctx, &format!("{sql} AND {keyed}")).await, 2);
        }
    }
}

/// Rows without a vector match nothing, and outer joins keep them.
#[tokio::test]
async fn rows_without_a_vector_are_kept_by_outer_joins() {
    let ctx = Session::default().context();
    let values = "(1, [0.0, 0.0]), (2, NULL), (3, [1.0, NULL]), (4, [0.3, 0.4])";
    rows(
        &ctx,
        &format!("CREATE TABLE a AS SELECT column1 AS id, column2 AS v FROM (VALUES {values})"),
    )
    .await;
    let sql = "SELECT a.id, b.id, array_distance(a.v, b.v) FROM a FULL SIMJOIN a b \
               ON array_distance(a.v, b.v) <= 0.45";
    let zero = Cell::Float(0.0);
    let wanted: Vec<String> = [
        [Cell::Int(1), Cell::Int(1), zero.clone()],
        [Cell::Int(4), Cell::Int(4), zero],
        [Cell::Int(2), Cell::Null, Cell::Null],
        [Cell::Int(3), Cell::Null, Cell::Null],
        [Cell::Null, Cell::Int(2), Cell::Null],
        [Cell::Null, Cell::Int(3), Cell::Null],
    ]
    .iter()
    .map(|cells| line(cells))
    .collect();
    assert_same_rows(&rows(&ctx, sql).await, &wanted, sql);
    // A vector of zeros is at no cosine distance, not even from itself.
    let sql = "SELECT a.id FROM a LEFT ANTI SIMJOIN a b ON cosine_distance(a.v, b.v) <= 2";
    assert_same_rows(&rows(&ctx, sql).await, &["1".into(), "2".into(), "3".into()], sql);
    let sql = "SELECT count(*), count(b.x) FROM a LEFT SIMJOIN \
               (SELECT 1 AS x, arrow_cast(NULL, 'List(Float64)') AS v FROM a) b \
               ON array_distance(a.v, b.v) <= 1";
    assert_eq!(rows(&ctx, sql).await, ["4 | 0"]);
}

/// EXPLAIN names function, threshold and strategy.
#[tokio::test]
async fn explain_names_the_function_and_the_threshold() {
    let ctx = Session::on_cpu().context();
    vectors_and_tokens(&ctx).await;
    let sql = "SELECT a.id FROM a SIMJOIN b ON cosine_distance(a.v, b.v) < 0.25";
    let shown = explain(&ctx, sql).await;
    assert_contains(&shown, &["cosine_distance", "threshold=", "SetSimilarityJoinExec"]);
    let shown = explain(&ctx, &format!("ANALYZE {sql}")).await;
    assert_contains(&shown, &["nested-loop"]);
}
