//! Inputs without rows, without batches, and files without row groups.

use crate::oracle::{Row, ints};
use crate::support::{Session, assert_same_rows, register, rows};

/// Queries over `a`, which has rows, and a side without any.
const QUERIES: [&str; 9] = [
    "SELECT a.id, b.id AS bid, b.name FROM a {kind} SIMJOIN {empty} b ON {on}",
    "SELECT a.id, b.id AS bid, jaccard(a.toks, b.toks) s FROM {empty} b {kind} SIMJOIN a ON {on}",
    "SELECT count(*), count(a.id), count(b.id), count(b.w) FROM a {kind} SIMJOIN {empty} b ON {on}",
    "SELECT count(*), count(a.id), count(b.id), count(b.w) FROM {empty} b {kind} SIMJOIN a ON {on}",
    "SELECT a.name, count(b.w), count(*) FROM a {kind} SIMJOIN {empty} b ON {on} GROUP BY a.name",
    "SELECT a.name, count(b.w), count(*) FROM {empty} b {kind} SIMJOIN a ON {on} GROUP BY a.name",
    "SELECT b.name, count(a.w), count(*) FROM a {kind} SIMJOIN {empty} b ON {on} GROUP BY b.name",
    "SELECT a.id FROM a {kind} SIMJOIN {empty} b ON {on} AND a.w < b.w AND a.key = b.key",
    "SELECT a.id, b.name FROM {empty} a {kind} SIMJOIN {empty} b ON {on} AND a.id < b.id",
];

/// Inputs without rows: a filter over a file, a file, a table, and views whose
/// emptiness is known when they are planned, and not.
const EMPTY: [&str; 5] = [
    "(SELECT * FROM '{dir}/full.parquet' WHERE id < 0)",
    "'{dir}/empty.parquet'",
    "no_rows",
    "(SELECT * FROM a WHERE false)",
    "(SELECT * FROM a WHERE length(name) > 99)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_join_with_an_empty_side_equals_the_stock_join() {
    let table: Vec<Row> = (0..12)
        .map(|i| Row {
            name: (i % 4 > 0).then(|| format!("n{}", i % 3)),
            w: (i % 5 > 0).then_some(i),
            key: Some(i % 2),
            ..Row::of(i, ints([i / 3, 50 + i / 3]))
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    for spill in ["auto", "always"] {
        let session = Session::default().option("hash_join_rows_per_key", 0);
        let ctx = session.option("spill", spill).context().enable_url_table();
        register(&ctx, "a", &table);
        register(&ctx, "no_rows", &[]);
        for (file, condition) in [("full", "true"), ("empty", "id < 0")] {
            let copy = format!(
                "COPY (SELECT * FROM a WHERE {condition}) TO '{path}/{file}.parquet' STORED AS PARQUET"
            );
            rows(&ctx, &copy).await;
        }
        for query in QUERIES {
            for empty in EMPTY {
                for kind in ["INNER", "LEFT", "RIGHT", "FULL"] {
                    let sql = query
                        .replace("{kind}", kind)
                        .replace("{empty}", &empty.replace("{dir}", path))
                        .replace("{on}", "jaccard(a.toks, b.toks) >= 0.5");
                    let found = rows(&ctx, &sql).await;
                    rows(&ctx, "SET simjoin.recognize_joins = false").await;
                    let expected = rows(&ctx, &sql.replace("SIMJOIN", "JOIN")).await;
                    rows(&ctx, "SET simjoin.recognize_joins = true").await;
                    assert_same_rows(&found, &expected, &sql);
                }
            }
        }
    }
}
