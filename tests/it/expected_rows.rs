//! How many probe rows a join of two inputs expects, and what becomes of a join that gets more.

use std::fs;

use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;

use crate::lists::Layout;
use crate::oracle::{Row, ints};
use crate::support::{Session, assert_contains, batch_of, plan, register_partitions, rows, split};

fn table(n: i64) -> Vec<Row> {
    (0..n).map(|i| Row::of(i, ints([i % 50, i % 50 + 100, i % 7 + 200]))).collect()
}

fn session() -> SessionContext {
    let ctx = Session::on_cpu().option("build_side", "left").context();
    for (name, n) in [("few", 40), ("many", 3000)] {
        let batch = batch_of(&table(n), &DataType::Int64, Layout::List);
        register_partitions(&ctx, name, split(&batch, 2, 500));
    }
    ctx
}

async fn analyzed(ctx: &SessionContext, sql: &str) -> String {
    let batches = plan(ctx, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap().collect().await;
    arrow::util::pretty::pretty_format_batches(&batches.unwrap()).unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_and_files_say_how_many_rows_come() {
    let ctx = session();
    let on = "ON jaccard(a.toks, b.toks) >= 0.9";
    let shown = analyzed(&ctx, &format!("SELECT count(*) FROM few a SIMJOIN many b {on}")).await;
    assert_contains(&shown, &["expecting 3000 probe rows (by statistics)"]);

    // A row of the probe file has as many bytes as one of the other.
    let folder = tempfile::tempdir().unwrap();
    for (name, n) in [("l", 20), ("r", 2000)] {
        let rows: String = (0..n).map(|i| format!("{:06},w{:03} x\n", i, i % 100)).collect();
        let file = folder.path().join(format!("{name}.csv"));
        fs::write(&file, format!("id,text\n{rows}")).unwrap();
        let sql =
            format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{}'", file.display());
        rows_of(&ctx, &sql).await;
    }
    let on_words = "ON jaccard(word_tokens(a.text), word_tokens(b.text)) >= 0.9";
    let shown = analyzed(&ctx, &format!("SELECT count(*) FROM l a SIMJOIN r b {on_words}")).await;
    assert_contains(&shown, &["probe rows (by the bytes of both sides)"]);
    let expected = shown.split("expecting ").nth(1).and_then(|rest| rest.split(' ').next());
    let expected: u64 = expected.unwrap().parse().unwrap();
    assert!((1500..=2500).contains(&expected), "{expected} {shown}");

    // Nothing is known of rows that are unnested.
    rows_of(&ctx, "CREATE VIEW unnested AS SELECT unnest([id, id]) AS id, toks FROM many").await;
    let join = format!("SELECT count(*) FROM few a SIMJOIN unnested b {on}");
    let shown = analyzed(&ctx, &join).await;
    assert_contains(&shown, &["expecting as many as build rows, for want of statistics"]);
    // A self-join needs no expectation.
    let shown = analyzed(&ctx, &format!("SELECT count(*) FROM few a SIMJOIN few b {on}")).await;
    assert!(!shown.contains("expecting"), "{shown}");
    // However it is chosen.
    let counted = rows(&ctx, &join).await;
    for strategy in ["allpairs", "bitmap"] {
        rows_of(&ctx, &format!("SET simjoin.strategy = '{strategy}'")).await;
        assert_eq!(rows(&ctx, &join).await, counted, "{strategy}");
    }
}

async fn rows_of(ctx: &SessionContext, sql: &str) {
    rows(ctx, sql).await;
}
