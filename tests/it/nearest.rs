//! Joins with nearest rows: on disk, by the tasks of a cluster, and when they are given up. Their answers
//! are compared with nested loops in the library and in [`crate::fuzz`].

use std::path::Path;
use std::time::{Duration, Instant};

use datafusion::common::DataFusionError;
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::spill::{files_in, runtime_in};
use crate::support::{
    Session, assert_contains, assert_same_rows, explain, measured, plan, rows, rows_of_tasks,
    try_rows,
};

const TABLES: [&str; 2] = [
    "CREATE TABLE a AS SELECT value AS id, CASE WHEN value % 11 > 0 THEN value % 4 END AS k,
            CASE WHEN value % 13 > 0 THEN left(md5(CAST(value AS VARCHAR)), CAST(3 + value % 5 AS INT)) END AS s,
            [CAST(value % 7 AS DOUBLE), value % 5, CASE WHEN value = 9 THEN 'NaN'::DOUBLE ELSE 1 END] AS v
     FROM generate_series(1, 150)",
    "CREATE TABLE b AS SELECT value AS id, value % 3 AS k, left(md5(CAST(value * 7 AS VARCHAR)), 5) AS s,
            [CAST(value % 6 AS DOUBLE), value % 4, 2] AS v
     FROM generate_series(1, 90)",
];

const STATEMENTS: [&str; 8] = [
    "SELECT a.id, b.id AS other, jaccard(qgrams(a.s, 2), qgrams(b.s, 2)) AS j FROM a SIMJOIN b NEAREST 3 WITH TIES \
     BY SIMILARITY jaccard(qgrams(a.s, 2), qgrams(b.s, 2))",
    "SELECT a.id, b.id AS other FROM a LEFT SIMJOIN a b NEAREST 2 WITH TIES BY DISTANCE levenshtein(a.s, b.s) \
     ON a.id <> b.id AND a.k = b.k",
    "SELECT a.id, b.id AS other, array_distance(a.v, b.v) AS d FROM a LEFT SIMJOIN b NEAREST 4 WITH TIES \
     BY DISTANCE array_distance(a.v, b.v) ON a.id % 3 > 0 AND b.id % 5 > 0",
    "SELECT a.id, inner_product(a.v, b.v) AS p FROM a SIMJOIN a b NEAREST 5 BY SIMILARITY inner_product(a.v, b.v)",
    "SELECT a.id, b.id AS other FROM a SIMJOIN b NEAREST 200 WITH TIES BY SIMILARITY jaro_similarity(a.s, b.s)",
    "SELECT a.id, b.s FROM a JOIN b NEAREST 2 WITH TIES BY DISTANCE abs(a.id - b.id * 2) ON a.k = b.k",
    "SELECT a.id FROM a JOIN b NEAREST 2 BY DISTANCE a.id",
    "SELECT a.id, b.id AS other FROM a LEFT SIMJOIN (SELECT * FROM b WHERE id > 1000) b NEAREST 2 \
     BY DISTANCE levenshtein(a.s, b.s)",
];

async fn with_tables(ctx: SessionContext) -> SessionContext {
    for table in TABLES {
        rows(&ctx, table).await;
    }
    ctx
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_share_the_left_rows() {
    let alone = with_tables(Session::default().context()).await;
    for tasks in [2, 3, 7] {
        let session = Session { partitions: tasks, tasks_of: Some(1), ..Session::default() };
        let ctx = with_tables(session.context()).await;
        for sql in STATEMENTS {
            let shown = explain(&ctx, sql).await;
            assert_contains(&shown, &["NearestJoinExec", "mode=broadcast"]);
            let expected = rows(&alone, sql).await;
            for partitions in [1, 2] {
                let found = rows_of_tasks(&ctx, sql, vec![], partitions).await;
                assert_same_rows(&found, &expected, &format!("{tasks} tasks\n{sql}\n{shown}"));
            }
        }
        let any = "SELECT a.id FROM a SIMJOIN (SELECT * FROM b LIMIT 20) b NEAREST BY DISTANCE levenshtein(a.s, b.s)";
        assert!(!explain(&ctx, any).await.contains("mode=broadcast"));
        assert!(!rows_of_tasks(&ctx, any, vec![], 1).await.is_empty());
    }
}

/// Pieces of a few rows, of which each meets each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_on_disk_give_the_rows_of_memory() {
    let alone = with_tables(Session::default().context()).await;
    for piece_rows in [20, 64] {
        let session = Session::on_cpu().option("spill", "always");
        let session = session.option("debug.spill_piece_rows", piece_rows);
        let ctx = with_tables(session.context()).await;
        for sql in STATEMENTS {
            let metrics = ["right_pieces", "left_pieces"];
            let (found, pieces) = measured(&ctx, sql, &metrics).await;
            assert_same_rows(&found, &rows(&alone, sql).await, sql);
            // The last statement has no right rows.
            let least = if sql == STATEMENTS[7] { 0 } else { 90_usize.div_ceil(piece_rows) };
            assert!(pieces[0] >= least && pieces[1] >= least, "{pieces:?} {sql}");
        }
    }
}

/// Waits until a statement that has ended holds nothing.
async fn until_gone(ctx: &SessionContext, dir: &Path, what: &str) {
    let start = Instant::now();
    let held = || (files_in(dir), ctx.runtime_env().memory_pool.reserved());
    while held() != (0, 0) {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?} stay: {what}", held());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const MANY: &str = "CREATE TABLE t AS SELECT value AS id, left(md5(CAST(value AS VARCHAR)), 6) AS s \
                    FROM generate_series(1, 3000)";

const OF_MANY: &str =
    "SELECT a.id, b.id AS other FROM t a SIMJOIN t b NEAREST 3 BY DISTANCE levenshtein(a.s, b.s)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_memory_of_a_search_vanish() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session { memory: Some(64 << 20), ..Session::on_cpu() };
    let session = session.option("spill", "always").option("debug.spill_piece_rows", 1000);
    let ctx = session.context_with(runtime_in(dir.path(), 1 << 30));
    rows(&ctx, MANY).await;
    let mut stream = plan(&ctx, OF_MANY).await.unwrap().execute_stream().await.unwrap();
    assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
    assert!(files_in(dir.path()) > 0, "nothing was written");
    while stream.next().await.is_some() {}
    drop(stream);
    until_gone(&ctx, dir.path(), "after the end").await;
    for polls in 0..20 {
        let mut stream = plan(&ctx, OF_MANY).await.unwrap().execute_stream().await.unwrap();
        for _ in 0..polls {
            let next = tokio::time::timeout(Duration::from_millis(20), stream.next()).await;
            if let Ok(None) = next {
                break;
            }
        }
        drop(stream);
        until_gone(&ctx, dir.path(), "after cancellation").await;
    }
    let failing = format!("{OF_MANY} ON 10 / (a.id - 2500) > -20");
    assert_contains(&try_rows(&ctx, &failing).await.unwrap_err().to_string(), &["ivide by zero"]);
    until_gone(&ctx, dir.path(), "after a failure").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::on_cpu().option("spill", "always");
    for limit in [1, 10_000] {
        let ctx = session.context_with(runtime_in(dir.path(), limit));
        rows(&ctx, MANY).await;
        let error = try_rows(&ctx, OF_MANY).await.expect_err("the disk is too small");
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
        assert_contains(&error.to_string(), &["could not write more than", "--disk-limit"]);
        until_gone(&ctx, dir.path(), "after a full disk").await;
    }
}

#[tokio::test]
async fn conditions_of_candidates_may_ask_subqueries() {
    let ctx = Session::default().context();
    let table = "CREATE TABLE a AS SELECT * FROM (VALUES (1, 'abc', 1), (2, 'abd', 2), (3, 'xbd', 1)) v(id, s, k)";
    rows(&ctx, table).await;
    let by = "BY DISTANCE levenshtein(a.s, b.s)";
    let of_right =
        "b.id NOT IN (SELECT 2) AND EXISTS (SELECT 1 FROM a c WHERE c.id = b.k AND c.k = 1)";
    let cases: [(String, &[&str]); 5] = [
        (format!("SIMJOIN a b NEAREST 1 {by} ON b.id IN (SELECT 2)"), &["1 | 2", "2 | 2", "3 | 2"]),
        (format!("SIMJOIN a b NEAREST 1 {by} ON a.id IN (SELECT 2)"), &["2 | 2"]),
        (
            format!("LEFT SIMJOIN a b NEAREST 1 {by} ON {of_right} AND a.k = b.k"),
            &["1 | 1", "2 | NULL", "3 | 3"],
        ),
        (
            format!("LEFT JOIN a b NEAREST 5 {by} ON EXISTS (SELECT 1 FROM a c WHERE c.id > 5)"),
            &["1 | NULL", "2 | NULL", "3 | NULL"],
        ),
        (
            format!("SIMJOIN a b NEAREST 1 {by} ON b.id > (SELECT max(id) - 1 FROM a)"),
            &["1 | 3", "2 | 3", "3 | 3"],
        ),
    ];
    for (join, expected) in cases {
        let sql = format!("SELECT a.id, b.id AS o FROM a {join} ORDER BY 1, 2");
        assert_eq!(rows(&ctx, &sql).await, expected, "{sql}");
    }
    for (join, expected) in [
        (
            format!("LEFT SIMJOIN a b NEAREST 1 {by} ON a.id IN (SELECT 2)"),
            "condition of the right table,",
        ),
        (
            format!("SIMJOIN a b NEAREST 1 {by} ON a.id + b.id IN (SELECT 2)"),
            "condition of the right table or of the left one",
        ),
    ] {
        let sql = format!("SELECT a.id, b.id AS o FROM a {join}");
        assert_contains(&try_rows(&ctx, &sql).await.unwrap_err().to_string(), &[expected]);
    }
}

#[tokio::test]
async fn numbers_and_scores_are_checked() {
    let ctx = Session::default().context();
    rows(&ctx, "CREATE TABLE a AS SELECT value AS id, CAST(value AS VARCHAR) AS s FROM generate_series(1, 3)").await;
    for most in
        ["18446744073709551615", "99999999999999999999", "99999999999999999999999999999999999"]
    {
        let sql = format!(
            "SELECT count(*) FROM a SIMJOIN a b NEAREST {most} BY DISTANCE levenshtein(a.s, b.s)"
        );
        assert_eq!(rows(&ctx, &sql).await, ["9"], "{most}");
    }
    for (clause, expected) in [
        ("NEAREST 0 BY DISTANCE levenshtein(a.s, b.s)", "found 0"),
        ("NEAREST 1.5 BY DISTANCE levenshtein(a.s, b.s)", "found 1.5"),
        ("NEAREST 1 BY DISTANCE a.id < b.id", "the score is a condition: a.id < b.id"),
        (
            "NEAREST 1 BY DISTANCE a.id IS NULL ON a.id <> b.id",
            "the score is a condition: a.id IS NULL",
        ),
        (
            "NEAREST 1 BY DISTANCE a.id IN (1, 2) AND b.id = 1",
            "the score is a condition: a.id IN (1, 2) AND b.id = 1",
        ),
    ] {
        let sql = format!("SELECT a.id FROM a JOIN a b {clause}");
        assert_contains(&try_rows(&ctx, &sql).await.unwrap_err().to_string(), &[expected]);
    }
}
