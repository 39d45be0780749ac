//! `NOT IN` with a similarity in its subquery: of the similar rows, one with an equal value or a
//! NULL refuses the row. DataFusion's own null-aware join looks at the NULLs of all rows, so that
//! `NOT EXISTS` over the same condition, left to the stock nested loop, gives the answer here.

use crate::support::{
    OPERATOR, Session, assert_contains, assert_same_rows, explain, physical, rows,
};

const TABLES: [&str; 2] = [
    "CREATE TABLE a AS SELECT value AS id, nullif(value % 5, 3) AS k,
            CASE WHEN value % 7 > 0 THEN 'n' || (value % 4) END AS n,
            CASE WHEN value % 11 > 0 THEN range(value % 13, value % 13 + 4) END AS t,
            [sin(value), cos(value)] AS v
     FROM generate_series(1, 60)",
    "CREATE TABLE b AS SELECT value AS id, nullif(value % 6, 2) AS k,
            CASE WHEN value % 5 > 0 THEN 'n' || (value % 6) END AS n,
            CASE WHEN value % 10 > 0 THEN range(value % 17, value % 17 + 5) END AS t,
            [cos(value), sin(value)] AS v
     FROM generate_series(1, 50)",
];

/// The value that NOT IN looks for, the column that it looks in, and the condition by which rows of it count.
const CASES: [[&str; 3]; 6] = [
    ["a.k", "b.k", "jaccard(a.t, b.t) >= 0.5"],
    ["a.k", "b.k", "jaccard(a.t, b.t) >= 0.8"],
    ["a.n", "b.n", "dice(b.t, a.t) >= 0.3 AND a.id < b.id"],
    ["a.k + 1", "b.k * 2", "overlap(a.t, b.t) >= 2 AND b.id % 3 > 0"],
    ["a.k", "b.id", "array_distance(a.v, b.v) <= 0.4"],
    ["a.k", "b.k", "jaccard(a.t, b.t) >= 0.5 AND b.k IS NOT NULL"],
];

#[tokio::test]
async fn similar_rows_alone_are_looked_at() {
    for (spill, partitions) in [("never", 1), ("never", 3), ("always", 2)] {
        let session = Session { partitions, batch_size: 16, ..Session::on_cpu() };
        let session = session.option("spill", spill).option("debug.spill_piece_rows", 7);
        let ctx = session.context();
        for table in TABLES {
            rows(&ctx, table).await;
        }
        for [value, among, similar] in CASES {
            let exists = format!(
                "SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b
                 WHERE {similar} AND ({value} = {among}) IS NOT FALSE)"
            );
            rows(&ctx, "SET simjoin.recognize_joins = false").await;
            let expected = rows(&ctx, &exists).await;
            assert!((1..60).contains(&expected.len()), "{exists}: {} rows", expected.len());
            rows(&ctx, "SET simjoin.recognize_joins = true").await;
            let query = format!(
                "SELECT a.id FROM a WHERE {value} NOT IN (SELECT {among} FROM b WHERE {similar})"
            );
            assert_same_rows(&rows(&ctx, &query).await, &expected, &query);
            assert_contains(&physical(&ctx, &query).await, &[OPERATOR]);
            assert_same_rows(&rows(&ctx, &exists).await, &expected, &exists);
        }
    }
}

/// Where several equalities may be that of NOT IN, the join is left alone, and EXPLAIN says so.
#[tokio::test]
async fn several_equalities_are_left_to_the_stock_join() {
    let ctx = Session::on_cpu().context();
    for table in TABLES {
        rows(&ctx, table).await;
    }
    let query = "SELECT a.id FROM a WHERE a.k NOT IN
                 (SELECT b.k FROM b WHERE jaccard(a.t, b.t) >= 0.5 AND a.n = b.n)";
    let text = explain(&ctx, query).await;
    assert_contains(&text, &["null-aware anti join (NOT IN)"]);
    assert!(!text.contains(OPERATOR), "{text}");
}
