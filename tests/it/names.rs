//! Columns under the names that the planner gives to columns of its own.

use datafusion::prelude::SessionContext;

use crate::support::{Session, assert_contains, assert_same_rows, error, rows, rows_of_tasks};

/// Names of scores, counts, tiles and whatever else plans of similarity joins hold.
const NAMES: [&str; 12] = [
    "__simjoin_count",
    "__simjoin_count_left",
    "__simjoin_count_right_1",
    "sum(__simjoin_count)",
    "sum(__simjoin_count_right)",
    "count(*)",
    "__simjoin_jaccard_left",
    "__simjoin_jaccard_left_1",
    "__simjoin_match_jaccard_left",
    "__simjoin_tile",
    "__simjoin_0",
    "similarity",
];

/// `#` stands for the name. Subqueries without an alias have columns without a qualifier.
const STATEMENTS: [&str; 7] = [
    "SELECT a.# AS g, count(*) AS n FROM t a LEFT JOIN u b ON jaccard(a.toks, b.toks) >= 0.5
     GROUP BY a.#",
    "SELECT a.# AS g, count(*) AS n, count(b.#) AS m, count(b.id) AS k
     FROM t a FULL JOIN t b ON jaccard(a.toks, b.toks) >= 0.5 GROUP BY a.#",
    "SELECT g, count(*) AS n FROM (SELECT toks, # AS g FROM t) JOIN (SELECT toks AS other FROM u)
     ON jaccard(toks, other) >= 0.5 GROUP BY g",
    "SELECT #, count(*) AS n FROM (SELECT toks, # FROM t) JOIN (SELECT toks AS other FROM u)
     ON jaccard(toks, other) >= 0.5 GROUP BY #",
    "SELECT #, id, jaccard(toks, other) AS s
     FROM (SELECT toks, # FROM t) LEFT JOIN (SELECT id, toks AS other FROM u)
     ON jaccard(toks, other) >= 0.5 AND jaccard(toks, other) * 5 + # < 6 + id",
    "SELECT a.#, b.#, jaccard(a.toks, b.toks) AS s FROM t a JOIN u b
     ON jaccard(a.toks, b.toks) >= 0.5 WHERE a.# < b.# + 3 ORDER BY s, 1, 2",
    "SELECT a.#, c.#, jaccard(a.toks, b.toks) AS s, jaccard(b.toks, c.toks) AS r
     FROM t a JOIN u b ON jaccard(a.toks, b.toks) >= 0.5
     JOIN t c ON jaccard(b.toks, c.toks) >= 0.5 AND a.# <= c.#",
];

async fn tables(session: &Session, name: &str) -> SessionContext {
    let ctx = session.context();
    for table in ["t", "u"] {
        let create = format!(
            "CREATE TABLE {table} AS SELECT column1 AS id, column2 AS \"{name}\", column3 AS toks
             FROM (VALUES (1, 5, [1, 2, 3]), (2, 5, [1, 2]), (3, NULL, [2, 3]), (4, 7, [8]),
                          (5, 6, NULL))"
        );
        rows(&ctx, &create).await;
    }
    ctx
}

#[tokio::test]
async fn columns_may_have_names_of_the_planner() {
    for name in NAMES {
        let ctx = tables(&Session::default(), name).await;
        let cluster = Session { tasks_of: Some(1), ..Session::default() };
        let cluster = tables(&cluster.option("distribution", "repartition"), name).await;
        for statement in STATEMENTS {
            let statement = statement.replace('#', &format!("\"{name}\""));
            rows(&ctx, "SET simjoin.recognize_joins = false").await;
            let expected = rows(&ctx, &statement).await;
            assert!(!expected.is_empty());
            rows(&ctx, "SET simjoin.recognize_joins = true").await;
            let insists = statement.replace(" JOIN ", " SIMJOIN ");
            for statement in [&statement, &insists] {
                assert_same_rows(&rows(&ctx, statement).await, &expected, statement);
            }
            let found = rows_of_tasks(&cluster, &statement, vec![], 1).await;
            assert_same_rows(&found, &expected, &statement);
        }
    }
}

/// NaN lies beyond infinity on the side of its sign, so that the sign says what satisfies a
/// threshold next to it.
#[tokio::test]
async fn thresholds_that_nan_meets_are_told_apart_by_its_sign() {
    let ctx = Session::default().context();
    rows(&ctx, "CREATE TABLE l AS SELECT column1 AS v FROM (VALUES ([1.0, 2.0]), ([3.0, 4.0]))")
        .await;
    let negative_nan = "-CAST('NaN' AS DOUBLE)";
    for (predicate, satisfies) in [
        ("array_distance(a.v, b.v) < CAST('-inf' AS DOUBLE)".to_string(), "only NaN"),
        (format!("array_distance(a.v, b.v) <= {negative_nan}"), "only NaN"),
        ("array_distance(a.v, b.v) < CAST('NaN' AS DOUBLE)".to_string(), "every number"),
        (format!("inner_product(a.v, b.v) >= {negative_nan}"), "every number"),
        ("inner_product(a.v, b.v) >= CAST('NaN' AS DOUBLE)".to_string(), "only NaN"),
        ("inner_product(a.v, b.v) > CAST('inf' AS DOUBLE)".to_string(), "only NaN"),
    ] {
        let message = error(&ctx, &format!("SELECT 1 FROM l a SIMJOIN l b ON {predicate}")).await;
        assert_contains(&message, &[satisfies, "satisfies it; the threshold must be a number"]);
        // The words are true of numbers.
        let plain = format!("SELECT 1 FROM l a JOIN l b ON {predicate}");
        let pairs = if satisfies == "only NaN" { 0 } else { 4 };
        assert_eq!(rows(&ctx, &plain).await.len(), pairs, "{predicate}");
    }
}
