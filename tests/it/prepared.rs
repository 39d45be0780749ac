//! Prepared statements, whose queries DataFusion optimizes before it analyzes them, and views over joins
//! with nearest rows inside of them: every answer is that of the query with its values.

use datafusion::common::ScalarValue;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion_simjoin::plan::KeepUnanalyzed;
use datafusion_simjoin::{SimJoinContextExt, install, rewrite_sql};

use crate::support::{
    Session, assert_contains, assert_same_rows, error, plan, rows, rows_of_tasks,
};

async fn small() -> SessionContext {
    let ctx = Session::default().context();
    let table = "CREATE TABLE a AS SELECT * FROM (VALUES (1, 'abc', 1, [1,2]), (2, 'abd', 2, [1,2]), \
                 (3, 'xbd', 1, [1,3])) v(id, s, k, t)";
    rows(&ctx, table).await;
    let view = "CREATE VIEW nearest_of AS SELECT a.id, b.id AS o, b.k FROM a SIMJOIN a b NEAREST 1 \
                BY DISTANCE levenshtein(a.s, b.s)";
    rows(&ctx, view).await;
    ctx
}

/// Prepares a query, executes it with values and deallocates it.
async fn executed(ctx: &SessionContext, query: &str, values: &str) -> Vec<String> {
    rows(ctx, &format!("PREPARE p AS {query}")).await;
    let execute =
        if values.is_empty() { "EXECUTE p".into() } else { format!("EXECUTE p({values})") };
    let mut found = rows(ctx, &execute).await;
    // By DataFusion's own function, which sees the prepared plan.
    let stock = ctx.sql(&execute).await.unwrap();
    let again = crate::support::lines(&stock.collect().await.unwrap());
    assert_same_rows(&again, &found, query);
    rows(ctx, "DEALLOCATE p").await;
    found.sort();
    found
}

#[tokio::test]
async fn nearest_rows_are_those_of_the_query() {
    let ctx = small().await;
    let by = "BY DISTANCE levenshtein(a.s, b.s)";
    let all = ["1 | 1", "1 | 2", "1 | 3", "2 | 1", "2 | 2", "2 | 3", "3 | 1", "3 | 2", "3 | 3"];
    let itself = ["1 | 1", "2 | 2", "3 | 3"];
    let unmatched = ["1 | NULL", "2 | NULL", "3 | NULL"];
    let one_key = ["1 | 1", "1 | 3", "2 | 2", "3 | 1", "3 | 3"];
    let cases: Vec<(String, &str, &[&str])> = vec![
        // A condition on the right side above the ranking stays there.
        (format!("SIMJOIN a b NEAREST 1 {by} WHERE b.k = 2"), "", &["2 | 2"]),
        (format!("LEFT SIMJOIN a b NEAREST 1 {by} WHERE b.k = 2"), "", &["2 | 2"]),
        (format!("JOIN a b NEAREST 1 {by} WHERE b.k = 2"), "", &["2 | 2"]),
        ("JOIN a b NEAREST 1 BY DISTANCE abs(a.id - b.id) WHERE b.k = 2".into(), "", &["2 | 2"]),
        (format!("SIMJOIN a b NEAREST 1 {by} WHERE b.k = $1"), "2", &["2 | 2"]),
        (format!("SIMJOIN a b NEAREST $1 {by} WHERE b.k = $2"), "1, 2", &["2 | 2"]),
        (format!("SIMJOIN a b NEAREST $1 {by}"), "9", &all),
        // A condition that is simplified away.
        (format!("SIMJOIN a b NEAREST 5 {by} ON false AND a.id >= $1"), "1", &[]),
        (format!("SIMJOIN a b NEAREST $1 {by} ON false"), "5", &[]),
        (format!("SIMJOIN a b NEAREST 5 {by} ON 1 = 2"), "", &[]),
        (format!("SIMJOIN a b NEAREST 5 {by} ON false AND a.k = b.k"), "", &[]),
        (format!("LEFT SIMJOIN a b NEAREST $1 {by} ON false"), "5", &unmatched),
        (format!("SIMJOIN a b NEAREST 1 {by} ON true"), "", &itself),
        (format!("LEFT SIMJOIN a b NEAREST 1 {by} ON a.id = a.id"), "", &itself),
        // A condition over both sides above the ranking.
        (format!("SIMJOIN a b NEAREST $1 {by} WHERE a.k = b.k"), "5", &one_key),
        (
            format!("SIMJOIN a b NEAREST $1 {by} WHERE a.id < b.id"),
            "5",
            &["1 | 2", "1 | 3", "2 | 3"],
        ),
        (
            format!("SIMJOIN a b NEAREST 5 {by} WHERE a.k <> b.k"),
            "",
            &["1 | 2", "2 | 1", "2 | 3", "3 | 2"],
        ),
        (
            format!("SIMJOIN a b NEAREST 1 {by} ON a.id <> b.id AND a.k = b.k"),
            "",
            &["1 | 3", "3 | 1"],
        ),
    ];
    for (join, values, expected) in cases {
        let query = format!("SELECT a.id, b.id AS o FROM a {join}");
        assert_eq!(executed(&ctx, &query, values).await, expected, "{query}");
    }
    // As without parameters: the score reads one side.
    let one_side = "PREPARE p(BIGINT, VARCHAR) AS SELECT a.id FROM a SIMJOIN a b NEAREST $1 BY DISTANCE \
                    levenshtein(a.s, $2)";
    rows(&ctx, one_side).await;
    assert_contains(&error(&ctx, "EXECUTE p(1, 'abc')").await, &["NEAREST cannot run"]);
}

#[tokio::test]
async fn views_and_results_of_nearest_rows_are_those_of_the_query() {
    let ctx = small().await;
    for (query, values, expected) in [
        ("SELECT id, o FROM nearest_of WHERE k = 2", "", vec!["2 | 2"]),
        ("SELECT id, o FROM nearest_of WHERE k = $1", "2", vec!["2 | 2"]),
        (
            "SELECT * FROM connected_components((SELECT id, o FROM nearest_of WHERE k = $1))",
            "2",
            vec!["2 | 2 | 1"],
        ),
        (
            "SELECT node, kept FROM representatives((SELECT id, o FROM nearest_of WHERE k = $1))",
            "1",
            vec!["1 | true", "3 | true"],
        ),
        (
            "SELECT \"left\", \"right\" FROM one_to_one((SELECT a.id, b.id, levenshtein(a.s, b.s) \
             FROM a SIMJOIN a b NEAREST $1 BY DISTANCE levenshtein(a.s, b.s) ON a.id <> b.id \
             WHERE b.k = $2), 'distance')",
            "1, 2",
            vec!["1 | 2"],
        ),
        (
            "SELECT id FROM a WHERE id IN (SELECT o FROM nearest_of WHERE k = $1) ORDER BY id",
            "1",
            vec!["1", "3"],
        ),
        (
            "WITH n AS (SELECT a.id, b.k FROM a SIMJOIN a b NEAREST $1 BY DISTANCE levenshtein(a.s, b.s)) \
             SELECT count(*) FROM n WHERE k = $2",
            "1, 2",
            vec!["1"],
        ),
    ] {
        assert_eq!(executed(&ctx, query, values).await, expected, "{query}");
    }
}

#[tokio::test]
async fn a_condition_of_one_side_is_one_of_a_similarity_join() {
    let ctx = small().await;
    let join = "SELECT a.id, b.id AS o FROM a SIMJOIN a b ON jaccard(a.t, b.t) >= $1";
    let pairs = ["1 | 1", "1 | 2", "3 | 3"];
    for (query, values, expected) in [
        (format!("{join} AND a.k = 1"), "0.9", pairs.to_vec()),
        (format!("{join} AND b.k = 1"), "0.9", vec!["1 | 1", "2 | 1", "3 | 3"]),
        (format!("{join} AND a.k = $2"), "0.9, 1", pairs.to_vec()),
        (format!("{join} AND false"), "0.9", vec![]),
        (join.replace("$1", "0.9 AND a.k = 1"), "", pairs.to_vec()),
        (
            format!("{} AND b.k = 1", join.replace("SIMJOIN", "LEFT SIMJOIN")),
            "0.9",
            vec!["1 | 1", "2 | 1", "3 | 3"],
        ),
        (
            format!("{} AND a.k = b.k", join.replace("SIMJOIN", "FULL SIMJOIN")),
            "0.9",
            vec!["1 | 1", "2 | 2", "3 | 3"],
        ),
    ] {
        assert_eq!(executed(&ctx, &query, values).await, expected, "{query}");
    }
    rows(&ctx, "CREATE TABLE found (id BIGINT, o BIGINT)").await;
    rows(&ctx, &format!("PREPARE fill AS INSERT INTO found {join} AND a.k = 1")).await;
    assert_eq!(rows(&ctx, "EXECUTE fill(0.9)").await, ["3"]);
    assert_eq!(rows(&ctx, "SELECT * FROM found ORDER BY id, o").await, pairs);
    // As without PREPARE.
    for condition in ["true", "jaccard([1], [1]) >= 0.5", "a.id = b.id"] {
        rows(&ctx, &format!("PREPARE p AS SELECT a.id FROM a SIMJOIN a b ON {condition}")).await;
        let message = error(&ctx, "EXECUTE p").await;
        assert_contains(&message, &["SIMJOIN needs a similarity predicate over both sides"]);
        rows(&ctx, "DEALLOCATE p").await;
    }
    rows(&ctx, &format!("PREPARE p AS {join}")).await;
    assert_contains(&error(&ctx, "EXECUTE p(0.0)").await, &["the threshold must be above 0"]);
    assert_contains(&error(&ctx, "EXECUTE p").await, &["expects 1 parameters"]);
}

/// More rows than a batch, by tasks and in one process, with frames that go on from a prepared query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_queries_of_many_rows_are_run_by_tasks() {
    let table = "CREATE TABLE m AS SELECT value AS id, value % 7 AS k, \
                 left(md5(CAST(value AS VARCHAR)), 4) AS s FROM generate_series(1, 10000)";
    let query = "SELECT a.id, b.id AS o, levenshtein(a.s, b.s) AS d FROM m a SIMJOIN m b NEAREST $1 \
                 WITH TIES BY DISTANCE levenshtein(a.s, b.s) ON a.id <> b.id AND a.k = $2 WHERE b.k = $3";
    let direct = query.replace("$1", "2").replace("$2", "3").replace("$3", "5");
    let alone = Session::on_cpu().context();
    rows(&alone, table).await;
    let expected = rows(&alone, &direct).await;
    assert!(expected.len() > 300, "{}", expected.len());
    let session = Session { partitions: 3, tasks_of: Some(1), ..Session::on_cpu() };
    for session in [Session::on_cpu(), session] {
        let ctx = session.context();
        rows(&ctx, table).await;
        rows(&ctx, &format!("PREPARE p AS {query}")).await;
        let found = match session.tasks_of {
            Some(tasks) => rows_of_tasks(&ctx, "EXECUTE p(2, 3, 5)", vec![], tasks).await,
            None => rows(&ctx, "EXECUTE p(2, 3, 5)").await,
        };
        assert_same_rows(&found, &expected, "EXECUTE");
        let frame = ctx.sql("EXECUTE p(2, 3, 5)").await.unwrap();
        ctx.register_table("executed", frame.into_view()).unwrap();
        let count = "SELECT count(*) FROM executed WHERE d >= 0";
        assert_eq!(rows(&ctx, count).await, [expected.len().to_string()]);
        rows(&ctx, &format!("PREPARE q AS {} AND o > $1", count)).await;
        assert_eq!(rows(&ctx, "EXECUTE q(0)").await, [expected.len().to_string()]);
    }
}

#[tokio::test]
async fn programs_see_the_query_of_an_execute() {
    let ctx = small().await;
    let prepare =
        "PREPARE p AS SELECT a.id FROM a SIMJOIN a b ON jaccard(a.t, b.t) >= $1 AND a.k = 1";
    ctx.sql(&rewrite_sql(prepare).unwrap()).await.unwrap();
    let frame = ctx.simjoin_sql("EXECUTE p(0.5)").await.unwrap();
    assert_contains(&frame.logical_plan().display_indent().to_string(), &["Join", "Float64(0.5)"]);
    let frame = ctx.sql("EXECUTE p(0.5)").await.unwrap();
    assert_eq!(frame.schema().field(0).name(), "id");
    assert_eq!(frame.clone().count().await.unwrap(), 3);
    // The optimizer by itself, which a program may call.
    let query = plan(&ctx, "SELECT id, o FROM nearest_of WHERE k = 2").await.unwrap();
    let (state, query) = query.into_parts();
    let optimized = state.optimizer().optimize(query, &state, |_, _| {}).unwrap();
    let frame = datafusion::prelude::DataFrame::new(state, optimized);
    assert_eq!(crate::support::lines(&frame.collect().await.unwrap()), ["2 | 2"]);
}

/// A session that has lost the rule answers with errors where it can tell.
#[tokio::test]
async fn a_session_without_the_rule_tells_what_it_lacks() {
    let builder = SessionStateBuilder::new().with_default_features();
    let ctx = SessionContext::new_with_state(install(builder).unwrap().build());
    ctx.remove_optimizer_rule(KeepUnanalyzed::NAME);
    rows(&ctx, "CREATE TABLE a AS SELECT 1 AS id, 'x' AS s, 1 AS k").await;
    let by = "BY DISTANCE levenshtein(a.s, b.s)";
    for (on, expected) in [
        ("ON false", "optimized before it was analyzed"),
        ("WHERE a.k = b.k", "optimized before it was analyzed"),
    ] {
        let sql = format!("PREPARE p AS SELECT a.id FROM a SIMJOIN a b NEAREST 1 {by} {on}");
        rows(&ctx, &sql).await;
        assert_contains(&error(&ctx, "EXECUTE p").await, &[expected]);
        rows(&ctx, "DEALLOCATE p").await;
    }
    for part in
        ["__simjoin_nearest(true, true) = 1", "__simjoin_candidates()", "__simjoin_distance() <= 1"]
    {
        let message = error(&ctx, &format!("SELECT 1 FROM a WHERE {part}")).await;
        assert_contains(&message, &["belongs to the ON of a join with a NEAREST clause"]);
    }
}

#[tokio::test]
async fn parameters_are_substituted_in_subqueries_too() {
    let ctx = small().await;
    let query = "SELECT a.id, b.id AS o FROM a SIMJOIN a b ON jaccard(a.t, b.t) >= $1 \
                 WHERE a.id IN (SELECT id FROM a WHERE k = $2) AND b.id < (SELECT max(id) + $3 FROM a)";
    assert_eq!(executed(&ctx, query, "0.9, 1, 0").await, ["1 | 1", "1 | 2"]);
    let values = [ScalarValue::from(0.9), ScalarValue::from(1_i64), ScalarValue::from(0_i64)];
    let frame = plan(&ctx, query).await.unwrap().with_param_values(values.to_vec()).unwrap();
    assert!(!matches!(frame.logical_plan(), LogicalPlan::Extension(_)));
    assert_eq!(frame.count().await.unwrap(), 2);
}

/// The optimizers of PREPARE and of EXECUTE both name what a query computes twice.
#[tokio::test]
async fn names_of_two_optimizers_differ() {
    let ctx = Session::default().context();
    let table = "CREATE TABLE m AS SELECT arrow_cast(column1, 'List(Float32)') AS v, \
                 arrow_cast(column2, 'FixedSizeList(2 x Float16)') AS u, column3 AS id \
                 FROM (VALUES ([1.1, 2.2], [1.1, 2.2], 1), ([3.3, 0.1], [3.5, 0.1], 2))";
    rows(&ctx, table).await;
    let distances = "array_distance(arrow_cast(a.v, 'List(Float64)'), b.u) AS d, \
                     array_distance(b.u, arrow_cast(a.v, 'List(Float64)')) AS e";
    for query in [
        format!("SELECT {distances} FROM m a, m b WHERE a.id = b.id"),
        format!("SELECT {distances} FROM m a SIMJOIN m b ON array_distance(a.v, b.u) <= 1"),
        format!(
            "SELECT {distances} FROM m a JOIN m b \
             ON array_distance(arrow_cast(a.v, 'List(Float64)'), b.u) <= 1"
        ),
        format!("SELECT * FROM (SELECT {distances} FROM m a, m b) WHERE d <= 1 AND e <= 1"),
    ] {
        let mut expected = rows(&ctx, &query).await;
        expected.sort();
        assert_eq!(expected.len(), 2, "{query}: {expected:?}");
        assert!(expected.iter().all(|row| !row.starts_with("0.0#")), "{query}: {expected:?}");
        assert_eq!(executed(&ctx, &query, "").await, expected, "{query}");
    }
}
