//! Joins that the operator does not run: a plain join says why in EXPLAIN, SIMJOIN is an error that
//! says why.

use datafusion::prelude::SessionContext;

use crate::joins::tables;
use crate::support::{
    assert_contains, assert_declined, context_of, error, explain, number, rows, try_rows,
};

fn context() -> SessionContext {
    let (a, b) = tables();
    context_of(&a, &b)
}

/// Conditions over which no index of tokens helps, with the count of a plain join.
const NOT_INDEXABLE: [(&str, i64); 5] = [
    // Alternatives: neither is needed.
    ("jaccard(a.toks, b.toks) >= 0.5 OR a.id = 5", 11),
    // The bound is no constant.
    ("jaccard(a.toks, b.toks) >= a.w / 10.0", 4),
    // Both arguments are of one side.
    ("jaccard(a.toks, a.toks) >= 0.5", 20),
    // An argument mixes both sides.
    ("jaccard(array_concat(a.toks, b.toks), b.toks) >= 0.9", 2),
    // Falling in the measure.
    ("1 - jaccard(a.toks, b.toks) >= 0.5", 15),
];

#[tokio::test]
async fn plain_joins_without_a_usable_conjunct_are_declined() {
    let ctx = context();
    for (on, _) in NOT_INDEXABLE {
        let sql = format!("SELECT count(*) FROM a JOIN b ON {on}");
        assert_declined(&ctx, &sql).await;
        number(&ctx, &sql).await;
    }
}

#[tokio::test]
async fn simjoin_without_a_usable_conjunct_is_an_error_with_an_example() {
    let ctx = context();
    for (on, _) in NOT_INDEXABLE {
        let message = error(&ctx, &format!("SELECT count(*) FROM a SIMJOIN b ON {on}")).await;
        assert_contains(&message, &["SIMJOIN", ">="]);
    }
    for on in ["true", "a.key = b.key", "a.id < b.id", "NULL", "array_has(a.toks, b.id)"] {
        let message = error(&ctx, &format!("SELECT count(*) FROM a SIMJOIN b ON {on}")).await;
        assert_contains(&message, &["SIMJOIN", ">="]);
    }
}

/// A reason for someone who wonders why the join is slow.
#[tokio::test]
async fn explain_says_why_a_plain_join_is_not_run_by_the_operator() {
    let ctx = context();
    let text = explain(&ctx, "SELECT a.id FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0").await;
    assert_contains(&text, &["SimilarityJoinDeclined", "disjoint"]);
    let text =
        explain(&ctx, "SELECT a.id FROM a JOIN b ON jaccard(a.toks, b.toks) >= a.w / 10.0").await;
    assert_contains(&text, &["SimilarityJoinDeclined"]);
}

#[tokio::test]
async fn forms_that_have_no_condition_are_refused() {
    let ctx = context();
    for sql in [
        "SELECT * FROM a SIMJOIN b",
        "SELECT * FROM a SIMJOIN b WHERE jaccard(a.toks, b.toks) >= 0.5",
        "SELECT * FROM a SIMJOIN b USING (id)",
        "SELECT * FROM a NATURAL SIMJOIN b",
        "SELECT * FROM a CROSS SIMJOIN b",
        "SELECT * FROM a ASOF SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5",
    ] {
        error(&ctx, sql).await;
    }
    let message = error(&ctx, "SELECT * FROM a SIMJOIN b").await;
    assert_contains(&message, &["SIMJOIN", "ON"]);
    let message = error(&ctx, "SELECT * FROM a SIMJOIN b USING (id)").await;
    assert_contains(&message, &["SIMJOIN", "USING"]);
}

/// An outer join whose padding a WHERE throws away must not lose the insisting.
#[tokio::test]
async fn simjoin_insists_through_every_rewrite_of_the_optimizer() {
    let ctx = context();
    for sql in [
        "SELECT count(*) FROM a LEFT SIMJOIN b ON jaccard(a.toks, b.toks) >= 0 WHERE b.id = 10",
        "SELECT count(*) FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0 AND a.id = b.id",
        "SELECT count(*) FROM a SIMJOIN b ON a.id = b.id WHERE jaccard(a.toks, b.toks) >= 0",
        "SELECT count(*) FROM (SELECT * FROM a SIMJOIN b ON a.id = b.id) WHERE 1 = 1",
        "SELECT count(*) FROM a WHERE EXISTS \
         (SELECT 1 FROM b SIMJOIN b AS c ON b.id = c.id WHERE a.id = b.id)",
        "SELECT count(*) FROM a LEFT SEMI SIMJOIN b ON a.id = b.id",
    ] {
        let message = error(&ctx, sql).await;
        assert_contains(&message, &["SIMJOIN"]);
    }
}

#[tokio::test]
async fn simjoin_is_an_ordinary_word_elsewhere() {
    let ctx = context();
    for (sql, expected) in [
        ("SELECT simjoin FROM (VALUES (7)) AS t(simjoin)", "7"),
        ("SELECT id AS simjoin FROM a WHERE id = 2", "2"),
        ("SELECT simjoin.id FROM a AS simjoin WHERE simjoin.id = 5", "5"),
        ("SELECT \"SIMJOIN\".id FROM a \"SIMJOIN\" WHERE id = 1", "1"),
        ("SELECT 'a SIMJOIN b' -- a SIMJOIN b", "\"a SIMJOIN b\""),
        ("SELECT /* SIMJOIN */ 1", "1"),
    ] {
        assert_eq!(rows(&ctx, sql).await, [expected], "{sql}");
    }
    rows(&ctx, "CREATE TABLE simjoin AS SELECT * FROM a").await;
    let sql = "SELECT count(*) FROM simjoin SIMJOIN b ON jaccard(simjoin.toks, b.toks) >= 0.5";
    assert_eq!(number(&ctx, sql).await, 6);
    let sql = "select count(*) from a simjoin b on jaccard(a.toks, b.toks) >= 0.5";
    assert_eq!(number(&ctx, sql).await, 6);
    // The marker is no function for users.
    assert!(try_rows(&ctx, "SELECT __simjoin(true)").await.is_err());
}

/// `enable_piecewise_merge_join` makes the stock planner panic on such joins.
#[tokio::test]
async fn other_join_algorithms_of_the_session_do_not_interfere() {
    let ctx = context();
    for option in ["enable_piecewise_merge_join", "prefer_hash_join"] {
        for value in ["true", "false"] {
            rows(&ctx, &format!("SET datafusion.optimizer.{option} = {value}")).await;
            for join in ["JOIN", "SIMJOIN"] {
                let on = "jaccard(a.toks, b.toks) >= 0.5";
                let sql = format!("SELECT count(*) FROM a {join} b ON {on}");
                assert_eq!(number(&ctx, &sql).await, 6, "{option} = {value}: {sql}");
                let sql = format!("SELECT count(*) FROM a {join} b ON {on} AND a.key = b.key");
                assert_eq!(number(&ctx, &sql).await, 1, "{option} = {value}: {sql}");
            }
        }
    }
}
