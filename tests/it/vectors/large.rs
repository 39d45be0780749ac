//! Joins of many or large vectors, by every strategy, under limits.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{float_list, random, register, strategies_of, table};
use crate::support::{Session, assert_contains, error, number, register_partitions, rows};
use crate::vector_oracle::Metric;

/// Equal vectors are joined once: their pairs are counted, not made.
#[tokio::test]
async fn pairs_of_equal_vectors_are_counted_without_being_made() {
    let ctx = Session::default().context();
    let sql = "CREATE TABLE t AS SELECT value AS id, [value % 3, 1.0] AS v \
               FROM generate_series(1, 300000)";
    rows(&ctx, sql).await;
    let on = "ON array_distance(a.v, b.v) <= 0.5";
    let squares = 3 * 100_000_i64.pow(2);
    assert_eq!(number(&ctx, &format!("SELECT count(*) FROM t a SIMJOIN t b {on}")).await, squares);
    let once = format!("SELECT count(*) FROM t a SIMJOIN t b {on} AND a.id < b.id");
    assert_eq!(number(&ctx, &once).await, (squares - 300_000) / 2);
    let counts = format!(
        "SELECT max(n), min(n), count(*) FROM \
         (SELECT a.id, count(*) AS n FROM t a SIMJOIN t b {on} GROUP BY a.id)"
    );
    assert_eq!(rows(&ctx, &counts).await, ["100000 | 100000 | 300000"]);
}

/// Larger joins give one answer in memory, from disk, under a limit, by every strategy, with and
/// without reading the table once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn larger_joins_agree_in_memory_and_under_limits() {
    let mut rng = StdRng::seed_from_u64(9);
    let centres = random(&mut rng, 40, 24);
    let vectors: Vec<Vec<f64>> = (0..2500)
        .map(|i| centres[i % 40].iter().map(|c| c + rng.random_range(-0.15..0.15)).collect())
        .collect();
    let list =
        DataType::FixedSizeList(Arc::new(Field::new_list_field(DataType::Float32, true)), 24);
    for metric in Metric::ALL {
        let call = format!("{}(x.v, y.v)", metric.sql());
        let bound = match metric {
            Metric::Euclidean => "0.55",
            Metric::Cosine => "0.02",
            Metric::InnerProduct => "9.5",
        };
        let summary = |and: &str| {
            format!(
                "SELECT count(*), sum(i), sum(j), bit_xor(i * 1000003 + j), min(s), max(s) FROM \
                 (SELECT x.id AS i, y.id AS j, {call} AS s FROM t x SIMJOIN t y ON {}{and})",
                metric.at_most(&call, bound)
            )
        };
        for and in [" AND x.id < y.id", " AND x.k = y.k"] {
            let sql = summary(and);
            let mut wanted: Option<Vec<String>> = None;
            for session in [
                Session::on_cpu(),
                Session { partitions: 5, batch_size: 100, ..Session::on_cpu() },
                Session::on_cpu().option("spill", "always").option("debug.spill_piece_rows", 700),
                Session { memory: Some(5 << 20), partitions: 4, ..Session::on_cpu() },
                Session::on_cpu().option("self_join", false),
                Session::on_cpu().option("debug.simd", "portable"),
            ] {
                for strategy in strategies_of(metric) {
                    let ctx = session.clone().option("strategy", strategy).context();
                    register(&ctx, "t", &vectors, &list);
                    let found = rows(&ctx, &sql).await;
                    let wanted = wanted.get_or_insert_with(|| found.clone());
                    assert_eq!(&found, wanted, "{strategy} {session:?} {sql}");
                }
            }
            let pairs = wanted.expect("an answer");
            let count: i64 = pairs[0].split(" | ").next().unwrap().parse().unwrap();
            assert!((2000..2_000_000).contains(&count), "{count} pairs: {sql}");
        }
    }
}

/// Vectors as long as a batch, and one that fills memory.
#[tokio::test]
async fn vectors_of_many_dimensions_are_joined() {
    let ctx = Session::on_cpu().context();
    let sql = "CREATE TABLE t AS SELECT i AS id, array_resize([CAST(i AS FLOAT)], 300000, 0.5) AS v \
               FROM (VALUES (1), (2), (4)) AS x(i)";
    rows(&ctx, sql).await;
    let sql = "SELECT a.id, b.id FROM t a SIMJOIN t b \
               ON array_distance(a.v, b.v) <= 1 AND a.id < b.id";
    assert_eq!(rows(&ctx, sql).await, ["1 | 2"]);
    let small = Session { memory: Some(2 << 20), ..Session::on_cpu() }.context();
    let batch = table(&[vec![0.5; 300_000], vec![1.0; 300_000]], &float_list());
    register_partitions(&small, "t", vec![vec![batch]]);
    let message = error(&small, sql).await;
    assert_contains(&message, &["Resources exhausted"]);
}
