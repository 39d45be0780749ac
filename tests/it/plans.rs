//! Which statements the operator runs, and what their plans look like.

use datafusion::prelude::SessionContext;

use crate::joins::tables;
use crate::oracle::{JoinKind, Row, join};
use crate::support::{
    OPERATOR, Session, assert_contains, assert_same_rows, assert_uses_operator, context_of,
    explain, number, physical, register, rows,
};

fn context() -> SessionContext {
    let (a, b) = tables();
    context_of(&a, &b)
}

/// `(a.id, b.id)` of the pairs at `jaccard >= 0.5` for which `keep` holds.
fn pairs(keep: impl Fn(&Row, &Row) -> bool) -> Vec<String> {
    let (a, b) = tables();
    let alike = |x: &Row, y: &Row, s: Option<_>| {
        Some(crate::oracle::Measure::Jaccard.value(s?) >= 0.5 && keep(x, y))
    };
    let joined = join(JoinKind::Inner, &a, &b, &alike);
    joined.iter().flat_map(|(i, j)| Some(format!("{} | {}", a[(*i)?].id, b[(*j)?].id))).collect()
}

/// The same join, said in every way that DataFusion understands.
#[tokio::test]
async fn every_form_of_an_inner_join_is_recognised() {
    let ctx = context();
    rows(&ctx, "CREATE VIEW alike AS SELECT a.id AS x, b.id AS y FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.5").await;
    let expected = pairs(|_, _| true);
    assert_eq!(expected.len(), 6);
    for sql in [
        "SELECT a.id, b.id FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5",
        "SELECT a.id, b.id FROM a INNER SIMJOIN b ON jaccard(b.toks, a.toks) >= 0.5",
        "SELECT a.id, b.id FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.5",
        "SELECT a.id, b.id FROM a, b WHERE jaccard(a.toks, b.toks) >= 0.5",
        "SELECT a.id, b.id FROM a CROSS JOIN b WHERE 0.5 <= jaccard(a.toks, b.toks)",
        "SELECT a.id, b.id FROM a JOIN b ON true WHERE list_jaccard(a.toks, b.toks) >= 0.5",
        "SELECT a.id, b.id FROM a LEFT JOIN b ON true WHERE jaccard(a.toks, b.toks) >= 0.5",
        "SELECT a.id, b.id FROM a LEFT SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5 WHERE b.id > 0",
        "SELECT x.id, y.id FROM (SELECT * FROM a) x JOIN (SELECT * FROM b) y \
         ON jaccard(x.toks, y.toks) >= 0.5",
        "WITH x AS (SELECT id, toks AS t FROM a), y AS (SELECT id, toks AS u FROM b) \
         SELECT x.id, y.id FROM x JOIN y ON jaccard(t, u) >= 0.5",
        "WITH pairs AS (SELECT a.id AS x, b.id AS y FROM a SIMJOIN b \
         ON jaccard(a.toks, b.toks) >= 0.5) SELECT x, y FROM pairs",
        "SELECT x, y FROM alike",
        "SELECT * FROM (SELECT a.id, b.id AS bid FROM a SIMJOIN b \
         ON jaccard(a.toks, b.toks) >= 0.5) AS p",
        "SELECT a.id, b.id FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5 \
         UNION ALL SELECT 1, 2 AS two WHERE false",
        "SELECT a.id, b.id FROM a JOIN b ON jaccard(array_distinct(a.toks), b.toks) >= 0.5",
    ] {
        assert_uses_operator(&ctx, sql).await;
        assert_same_rows(&rows(&ctx, sql).await, &expected, sql);
    }
}

#[tokio::test]
async fn exists_and_in_become_semi_and_anti_joins() {
    let ctx = context();
    for (sql, expected) in [
        ("EXISTS (SELECT 1 FROM b WHERE jaccard(a.toks, b.toks) >= 0.5)", &["1", "2", "6"][..]),
        ("NOT EXISTS (SELECT 1 FROM b WHERE jaccard(a.toks, b.toks) >= 0.5)", &["3", "4", "5"]),
        (
            "EXISTS (SELECT 1 FROM b WHERE jaccard(a.toks, b.toks) >= 0.5 AND b.w > a.w AND b.id < 11)",
            &["1", "2", "6"],
        ),
        (
            "NOT EXISTS (SELECT 1 FROM b WHERE jaccard(a.toks, b.toks) >= 0.5 AND b.w < a.w)",
            &["2", "3", "4", "5"],
        ),
    ] {
        let sql = format!("SELECT a.id FROM a WHERE {sql}");
        let plan = assert_uses_operator(&ctx, &sql).await;
        assert!(!plan.contains("NestedLoopJoin"), "{plan}");
        let expected: Vec<String> = expected.iter().map(|l| l.to_string()).collect();
        assert_same_rows(&rows(&ctx, &sql).await, &expected, &sql);
    }
}

/// The operator takes one of several similarity conjuncts; the answer needs all of them.
#[tokio::test]
async fn several_similarity_conjuncts_are_all_applied() {
    let ctx = context();
    for on in [
        "jaccard(a.toks, b.toks) >= 0.5 AND containment(b.toks, a.toks) >= 1",
        "containment(b.toks, a.toks) = 1 AND overlap(a.toks, b.toks) >= 1 AND jaccard(a.toks, b.toks) >= 0.5",
    ] {
        let sql = format!("SELECT a.id, b.id FROM a SIMJOIN b ON {on}");
        assert_uses_operator(&ctx, &sql).await;
        let expected = pairs(|_, y| y.id == 11);
        assert_same_rows(&rows(&ctx, &sql).await, &expected, &sql);
    }
}

/// EXPLAIN says what the contract asks for.
#[tokio::test]
async fn explain_shows_the_join() {
    let ctx = context();
    let on = "ON jaccard(a.toks, b.toks) >= 0.5";
    let text = explain(&ctx, &format!("SELECT a.id, b.id FROM a LEFT SIMJOIN b {on}")).await;
    assert_contains(&text, &[OPERATOR, "jaccard", "0.5", "Left", "auto"]);
    rows(&ctx, "SET simjoin.strategy = 'ppjoin'").await;
    rows(&ctx, "SET simjoin.device = 'cpu'").await;
    let text = explain(&ctx, &format!("SELECT a.id FROM a LEFT ANTI SIMJOIN b {on}")).await;
    assert_contains(&text, &[OPERATOR, "LeftAnti", "ppjoin", "cpu"]);
    assert!(!text.contains("__simjoin("), "the marker is still there:\n{text}");
}

#[tokio::test]
async fn explain_analyze_shows_the_funnel() {
    let ctx = context();
    let sql =
        "EXPLAIN ANALYZE SELECT a.id, b.id FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5";
    let text = rows(&ctx, sql).await.join("\n");
    let line = text.lines().find(|l| l.contains(OPERATOR)).expect("the operator in the plan");
    assert_contains(line, &["output_rows=6", "candidates", "verified", "elapsed_compute"]);
}

/// Each scan of a plan with its projection and filters, sorted.
fn scans(plan: &str) -> Vec<String> {
    let lines = plan.lines().map(str::trim).filter(|l| l.starts_with("DataSourceExec"));
    let mut scans: Vec<String> = lines.map(String::from).collect();
    scans.sort();
    scans
}

fn filters(plan: &str) -> Vec<String> {
    let lines = plan.lines().map(str::trim).filter(|l| l.starts_with("FilterExec"));
    let mut filters: Vec<String> = lines.map(String::from).collect();
    filters.sort();
    filters
}

/// The operator changes neither what is read nor where filters are applied.
#[tokio::test]
async fn scans_and_filters_are_those_of_the_nested_loop() {
    let directory = tempfile::tempdir().expect("a folder");
    let (a, b) = tables();
    let mut plans = Vec::new();
    for recognize in [true, false] {
        // Two inputs on purpose: a self-join reads once.
        let session = Session::default().option("recognize_joins", recognize);
        let ctx = session.option("self_join", false).context();
        register(&ctx, "ma", &a);
        register(&ctx, "mb", &b);
        for name in ["a", "b"] {
            let file = directory.path().join(format!("{name}.parquet"));
            let file = file.display();
            if recognize {
                rows(&ctx, &format!("COPY m{name} TO '{file}' STORED AS PARQUET")).await;
            }
            let ddl = format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{file}'");
            rows(&ctx, &ddl).await;
        }
        for sql in [
            "SELECT a.id, b.w FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.5",
            "SELECT count(*) FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.5",
            "SELECT a.id FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.5 AND a.w < b.w",
            "SELECT a.id FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.5 WHERE a.w > 2 AND b.id > 1",
            "SELECT a.id FROM a JOIN b ON jaccard(a.toks, b.toks) >= 0.5 AND a.w > 2 AND b.id > 1",
            "SELECT b.name FROM a LEFT JOIN b ON jaccard(a.toks, b.toks) >= 0.5 AND b.w > 2",
            "SELECT a.name FROM a LEFT JOIN b ON jaccard(a.toks, b.toks) >= 0.5 WHERE a.id = 3",
            "SELECT x.id, y.id FROM a x JOIN a y ON jaccard(x.toks, y.toks) >= 0.5 AND x.id < y.id",
            "SELECT id FROM a WHERE EXISTS \
             (SELECT 1 FROM b WHERE jaccard(a.toks, b.toks) >= 0.5 AND b.w > 1)",
        ] {
            plans.push((recognize, sql, physical(&ctx, sql).await));
        }
    }
    let (with, without) = plans.split_at(plans.len() / 2);
    for ((_, sql, with), (_, _, without)) in with.iter().zip(without) {
        assert!(with.contains(OPERATOR) && !without.contains(OPERATOR), "{sql}\n{with}\n{without}");
        assert_eq!(scans(with), scans(without), "{sql}\n{with}\n{without}");
        assert_eq!(filters(with), filters(without), "{sql}\n{with}\n{without}");
    }
}

/// With equality conjuncts a plain join is a matter of cost; EXPLAIN says what was chosen and
/// why. SIMJOIN insists.
#[tokio::test]
async fn equality_conjuncts_leave_the_choice_to_cost() {
    let ctx = context();
    let on = "ON jaccard(a.toks, b.toks) >= 0.5 AND a.key = b.key";
    let simjoin = format!("SELECT a.id, b.id FROM a SIMJOIN b {on}");
    assert_uses_operator(&ctx, &simjoin).await;
    assert_same_rows(&rows(&ctx, &simjoin).await, &["1 | 10".to_string()], &simjoin);
    let plain = format!("SELECT a.id, b.id FROM a JOIN b {on}");
    for rows_per_key in ["0", "1000000"] {
        rows(&ctx, &format!("SET simjoin.hash_join_rows_per_key = {rows_per_key}")).await;
        assert_same_rows(&rows(&ctx, &plain).await, &["1 | 10".to_string()], &plain);
        assert_uses_operator(&ctx, &simjoin).await;
    }
}

/// Other joins of the session are planned as ever.
#[tokio::test]
async fn other_joins_are_left_alone() {
    let ctx = context();
    for (sql, expected) in [
        ("SELECT count(*) FROM a JOIN b ON a.key = b.key", 10),
        ("SELECT count(*) FROM a JOIN b ON a.id < b.id", 30),
        ("SELECT count(*) FROM a JOIN b ON array_has(a.toks, b.id - 10)", 8),
        ("SELECT count(*) FROM a CROSS JOIN b", 30),
    ] {
        crate::support::assert_declined(&ctx, sql).await;
        assert_eq!(number(&ctx, sql).await, expected, "{sql}");
    }
}
