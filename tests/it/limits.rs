//! Bounded memory, early stops, cancellation, and odd consumers of the output.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::DataFusionError;
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::cases::{Pattern, Tables};
use crate::oracle::{JoinKind, Measure, Row, ints, join};
use crate::support::{
    Session, assert_same_rows, batch_of, lines, number, plan, plan_text, register,
    register_partitions, rows, uses_operator,
};

use arrow::datatypes::DataType;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const ALIKE: &str = "jaccard(a.toks, b.toks) >= 0.5";

fn small() -> (Vec<Row>, Vec<Row>) {
    let mut rng = StdRng::seed_from_u64(31);
    let mut tables = Tables::new(&mut rng, 20);
    let a = tables.rows(70, Pattern::Mixed, &DataType::Int64, 0);
    let b = tables.rows(90, Pattern::Mixed, &DataType::Int64, 50);
    (a, b)
}

fn expected(kind: JoinKind, a: &[Row], b: &[Row]) -> Vec<String> {
    let alike = |_: &Row, _: &Row, s: Option<_>| Some(Measure::Jaccard.value(s?) >= 0.5);
    let id = |i: Option<i64>| i.map_or("NULL".to_string(), |i| i.to_string());
    let joined = join(kind, a, b, &alike);
    let pairs = joined.iter().map(|(i, j)| (i.map(|i| a[i].id), j.map(|j| b[j].id)));
    pairs.map(|(i, j)| format!("{} | {}", id(i), id(j))).collect()
}

/// `n` sets of `width` tokens, all different.
pub fn many(n: i64, width: i64) -> Vec<Row> {
    let mut rng = StdRng::seed_from_u64(41);
    let mut set = || ints((0..width).map(|_| rng.random_range(0..1_000_000)));
    (0..n).map(|id| Row::of(id, set())).collect()
}

/// Registers batches that own their memory: a slice would be counted as large as the whole.
pub fn register_many(ctx: &SessionContext, name: &str, rows: &[Row]) {
    let batch = |rows: &[Row]| batch_of(rows, &DataType::Int64, crate::lists::Layout::List);
    let mut partitions = vec![Vec::new(), Vec::new()];
    for (i, rows) in rows.chunks(1024).enumerate() {
        partitions[i % 2].push(batch(rows));
    }
    register_partitions(ctx, name, partitions);
}

/// Where nothing may go to disk, a build side that does not fit is a resource error that says who
/// asked, or it fits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_little_memory_is_a_resource_error() {
    let rows = many(20_000, 20);
    let mut refused = 0;
    for memory in [10_000, 1 << 19, 3 << 19, 4 << 20, 512 << 20] {
        for kind in ["INNER", "FULL", "LEFT ANTI"] {
            let session = Session { memory: Some(memory), ..Session::default() };
            let ctx = session.option("spill", "never").context();
            register_many(&ctx, "a", &rows);
            register_many(&ctx, "b", &rows);
            let columns = if kind == "LEFT ANTI" { "a.id" } else { "a.id AS x, b.id AS y" };
            let sql = format!("SELECT {columns} FROM a {kind} SIMJOIN b ON {ALIKE}");
            let result = plan(&ctx, &sql).await.expect("a plan").collect().await;
            match result {
                Ok(batches) => {
                    let found: usize = batches.iter().map(|b| b.num_rows()).sum();
                    assert_eq!(found, if kind == "LEFT ANTI" { 0 } else { rows.len() }, "{sql}");
                }
                Err(e) => {
                    assert!(memory < 512 << 20, "{memory} bytes do not do: {e}");
                    assert!(matches!(e.find_root(), DataFusionError::ResourcesExhausted(_)), "{e}");
                    assert!(e.to_string().contains("SetSimilarityJoin"), "{e}");
                    refused += 1;
                }
            }
            assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0, "{sql} kept memory");
        }
    }
    assert!(refused >= 6, "10 kB and 512 KiB cannot do");
}

/// Texts of 100,000 characters take what their function needs, for ASCII and other texts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_texts_are_joined_under_small_limits() {
    for (letters, bytes) in [("abcdefghij", 16 << 20), ("äbcdefghiß", 24 << 20)] {
        // The last one is near to none of the others.
        let table = format!(
            "CREATE TABLE t AS SELECT value AS id, \
             CASE WHEN value < 6 THEN repeat('{letters}', 10000) || repeat('x', value) || value \
             ELSE repeat('jihgfedcba', 10000) END AS s FROM generate_series(1, 6)"
        );
        for condition in [
            "levenshtein(a.s, b.s) <= 4",
            "levenshtein(a.s, b.s) <= 40",
            "damerau_levenshtein(a.s, b.s) <= 2",
            "levenshtein_similarity(a.s, b.s) >= 0.99996",
            "indel_similarity(a.s, b.s) >= 0.99998",
            "jaro_winkler_similarity(a.s, b.s) >= 0.99999",
        ] {
            let sql = format!(
                "SELECT a.id, b.id AS o FROM t a SIMJOIN t b ON {condition} AND a.id < b.id"
            );
            let answer = async |memory: Option<usize>, partitions: usize| {
                let ctx = Session { memory, partitions, ..Session::on_cpu() }.context();
                plan(&ctx, &table).await.unwrap().collect().await.unwrap();
                rows(&ctx, &sql).await
            };
            let expected = answer(None, 2).await;
            let near = expected.iter().filter(|row| !row.contains('6')).count();
            assert!(near >= 4 && near == expected.len(), "{condition}: {expected:?}");
            for partitions in [1, 2, 8] {
                let found = answer(Some(bytes), partitions).await;
                assert_same_rows(&found, &expected, &format!("{condition}, {partitions}"));
            }
        }
    }
}

/// The pairs of two inputs with one set, 36 million, pass through a small pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_size_of_the_output_does_not_set_the_memory() {
    let equal: Vec<Row> = (0..6_000).map(|id| Row::of(id, ints([1, 2, 3]))).collect();
    let ctx = Session { memory: Some(24 << 20), ..Session::default() }.context();
    register_many(&ctx, "a", &equal);
    register_many(&ctx, "b", &equal);
    let sql = format!("SELECT a.id AS x, b.id AS y FROM a SIMJOIN b ON {ALIKE}");
    let mut stream = plan(&ctx, &sql).await.unwrap().execute_stream().await.unwrap();
    let mut found = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.unwrap();
        assert!(batch.num_rows() <= 8192, "{} rows in a batch", batch.num_rows());
        found += batch.num_rows();
    }
    assert_eq!(found, 36_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_stops_the_work_early() {
    let equal: Vec<Row> = (0..50_000).map(|id| Row::of(id, ints([1, 2, 3]))).collect();
    let ctx = Session { memory: Some(64 << 20), ..Session::default() }.context();
    register_many(&ctx, "a", &equal);
    // 2.5 billion pairs: to make them all would take far longer than anyone waits.
    for sql in [
        "SELECT x.id, y.id AS z FROM a x SIMJOIN a y ON jaccard(x.toks, y.toks) >= 0.5 LIMIT 10",
        "SELECT x.id, y.id AS z FROM a x FULL SIMJOIN a y ON jaccard(x.toks, y.toks) >= 0.5 LIMIT 10",
    ] {
        let start = Instant::now();
        assert_eq!(rows(&ctx, sql).await.len(), 10);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}

/// Dropping the stream ends the work and gives the memory back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_stream_cancels() {
    let equal: Vec<Row> = (0..30_000).map(|id| Row::of(id, ints([1, 2, 3]))).collect();
    let ctx = Session { memory: Some(64 << 20), partitions: 4, ..Session::default() }.context();
    register_many(&ctx, "a", &equal);
    let sql = "SELECT x.id, y.id AS z FROM a x SIMJOIN a y ON jaccard(x.toks, y.toks) >= 0.5";
    let mut stream = plan(&ctx, sql).await.unwrap().execute_stream().await.unwrap();
    assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
    let start = Instant::now();
    drop(stream);
    let pool = &ctx.runtime_env().memory_pool;
    while pool.reserved() > 0 {
        assert!(start.elapsed() < Duration::from_secs(2), "{} bytes stay", pool.reserved());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// While a long join runs, its runtime of one thread still does other things.
#[tokio::test(flavor = "current_thread")]
async fn a_long_join_yields_to_the_runtime() {
    let equal: Vec<Row> = (0..40_000).map(|id| Row::of(id, ints([1, 2, 3]))).collect();
    let ctx = Session { partitions: 1, ..Session::default() }.context();
    register_many(&ctx, "a", &equal);
    // Every pair is made and thrown away: 1.6 billion of them.
    let sql = "SELECT x.id FROM a x SIMJOIN a y ON jaccard(x.toks, y.toks) >= 0.5 \
               AND x.id + y.id < 0";
    let join = async { plan(&ctx, sql).await.unwrap().collect().await };
    let timed = tokio::time::timeout(Duration::from_millis(500), join);
    let start = Instant::now();
    assert!(timed.await.is_err(), "1.6 billion pairs in half a second?");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

async fn physical_plan(ctx: &SessionContext, kind: &str) -> Arc<dyn ExecutionPlan> {
    let sql = format!("SELECT a.id AS x, b.id AS y FROM a {kind} SIMJOIN b ON {ALIKE}");
    let plan = plan(ctx, &sql).await.unwrap().create_physical_plan().await.unwrap();
    assert!(uses_operator(&plan_text(&plan)));
    plan
}

async fn run(ctx: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let batches = datafusion::physical_plan::collect(Arc::clone(plan), ctx.task_ctx()).await;
    lines(&batches.unwrap())
}

const KINDS: [(&str, JoinKind); 4] = [
    ("INNER", JoinKind::Inner),
    ("LEFT", JoinKind::Left),
    ("RIGHT", JoinKind::Right),
    ("FULL", JoinKind::Full),
];

/// Every join type, in memory and from disk.
fn kinds_and_spill() -> impl Iterator<Item = ((&'static str, JoinKind), &'static str)> {
    KINDS.into_iter().flat_map(|kind| [(kind, "auto"), (kind, "always")])
}

fn three_partitions(spill: &str) -> SessionContext {
    let session = Session { partitions: 3, ..Session::default() };
    session.option("spill", spill).option("debug.spill_piece_rows", 20).context()
}

#[tokio::test]
async fn a_plan_can_run_again_after_a_reset() {
    let (a, b) = small();
    for ((name, kind), spill) in kinds_and_spill() {
        let ctx = three_partitions(spill);
        register(&ctx, "a", &a);
        register(&ctx, "b", &b);
        let expected = expected(kind, &a, &b);
        let plan = physical_plan(&ctx, name).await;
        assert_same_rows(&run(&ctx, &plan).await, &expected, "first run");
        let again = datafusion::physical_plan::execution_plan::reset_plan_states(plan).unwrap();
        assert_same_rows(&run(&ctx, &again).await, &expected, "second run");
    }
}

/// One partition after the other, each to its end before the next begins, in both directions.
#[tokio::test]
async fn partitions_may_be_read_one_after_the_other() {
    let (a, b) = small();
    for ((name, kind), spill) in kinds_and_spill() {
        for backwards in [false, true] {
            let ctx = three_partitions(spill);
            register(&ctx, "a", &a);
            register(&ctx, "b", &b);
            let plan = physical_plan(&ctx, name).await;
            let mut streams = execute_stream_partitioned(plan, ctx.task_ctx()).unwrap();
            if backwards {
                streams.reverse();
            }
            let mut found = Vec::new();
            for mut stream in streams {
                let read = async {
                    let mut batches = Vec::new();
                    while let Some(batch) = stream.next().await {
                        batches.push(batch.unwrap());
                    }
                    batches
                };
                let batches = tokio::time::timeout(Duration::from_secs(60), read).await;
                found.extend(lines(&batches.expect("a partition waits for another one")));
            }
            assert_same_rows(&found, &expected(kind, &a, &b), name);
        }
    }
}

/// Whoever reads one partition and drops the others is not left hanging.
#[tokio::test]
async fn one_partition_alone_ends() {
    let (a, b) = small();
    for ((name, _), spill) in kinds_and_spill() {
        let ctx = three_partitions(spill);
        register(&ctx, "a", &a);
        register(&ctx, "b", &b);
        let plan = physical_plan(&ctx, name).await;
        let mut streams = execute_stream_partitioned(plan, ctx.task_ctx()).unwrap();
        let mut last = streams.pop().expect("a partition");
        drop(streams);
        let read = async { while last.next().await.is_some() {} };
        let ended = tokio::time::timeout(Duration::from_secs(60), read).await;
        assert!(ended.is_ok(), "{name} waits for a partition without a reader");
    }
}

/// The operator runs anew in each round of a recursive query.
#[tokio::test]
async fn a_recursive_query_joins_in_every_round() {
    let rows: Vec<Row> = (0..8).map(|i| Row::of(i, ints(i..i + 4))).collect();
    let ctx = Session::default().context();
    register(&ctx, "a", &rows);
    // Set i overlaps set i + 1 in three of five tokens, and set i + 2 in two of six.
    let sql = "WITH RECURSIVE near AS (\
                 SELECT id, toks FROM a WHERE id = 0 \
                 UNION ALL \
                 SELECT a.id, a.toks FROM near JOIN a ON jaccard(near.toks, a.toks) >= 0.6 \
                 AND a.id > near.id) \
               SELECT count(*) FROM near";
    assert_eq!(number(&ctx, sql).await, 8);
}
