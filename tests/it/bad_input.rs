//! Wrong input gives an error that helps: never a panic, a hang or a wrong answer.

use std::fs;

use crate::joins::tables;
use crate::support::{
    Session, assert_contains, assert_uses_operator, context_of, error, number, register, rows,
};

#[tokio::test]
async fn tokens_that_cannot_be_compared_are_refused() {
    let ctx = Session::default().context();
    for sql in [
        "CREATE TABLE ints AS SELECT 1 AS id, [1, 2] AS toks",
        "CREATE TABLE texts AS SELECT 1 AS id, ['1', '2'] AS toks",
        "CREATE TABLE floats AS SELECT 1 AS id, [1.5, 2.5] AS toks",
        "CREATE TABLE flags AS SELECT 1 AS id, [true] AS toks",
        "CREATE TABLE nested AS SELECT 1 AS id, [[1], [2]] AS toks",
        "CREATE TABLE plain AS SELECT 1 AS id, 'one two' AS toks",
        "CREATE TABLE number AS SELECT 1 AS id, 7 AS toks",
    ] {
        rows(&ctx, sql).await;
    }
    for (left, right, part) in [
        ("ints", "texts", "jaccard"),
        ("floats", "floats", "Float64"),
        ("flags", "flags", "Boolean"),
        ("nested", "nested", "jaccard"),
        ("plain", "plain", "qgrams"),
        ("plain", "texts", "qgrams"),
        ("ints", "number", "Int64"),
    ] {
        for join in ["JOIN", "SIMJOIN"] {
            let sql = format!(
                "SELECT count(*) FROM {left} x {join} {right} y ON jaccard(x.toks, y.toks) >= 0.5"
            );
            assert_contains(&error(&ctx, &sql).await, &["jaccard", part]);
        }
    }
}

/// A column of NULLs, or of lists of NULLs, matches nothing and is no error.
#[tokio::test]
async fn untyped_nulls_match_nothing() {
    let (a, _) = tables();
    let ctx = Session::default().context();
    register(&ctx, "a", &a);
    for list in ["NULL", "[]", "[NULL]", "arrow_cast(NULL, 'List(Int64)')"] {
        let from = format!("FROM a LEFT SIMJOIN (SELECT 1 AS id, {list} AS toks FROM a) y");
        let sql = format!("SELECT count(*), count(y.id) {from} ON jaccard(a.toks, y.toks) >= 0.1");
        assert_eq!(rows(&ctx, &sql).await, ["6 | 0"], "{list}");
    }
}

#[tokio::test]
async fn names_that_do_not_exist_are_named() {
    let (a, b) = tables();
    let ctx = context_of(&a, &b);
    for (sql, parts) in [
        ("SELECT 1 FROM a SIMJOIN nosuch ON jaccard(a.toks, nosuch.toks) >= 0.5", &["nosuch"][..]),
        ("SELECT 1 FROM a SIMJOIN b ON jaccard(a.tocs, b.toks) >= 0.5", &["tocs"]),
        ("SELECT 1 FROM a SIMJOIN b ON jacard(a.toks, b.toks) >= 0.5", &["jacard"]),
        ("SELECT 1 FROM a SIMJOIN b ON jaccard(toks, b.toks) >= 0.5", &["toks"]),
        ("SELECT 1 FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 'high'", &["high"]),
        ("SELECT 1 FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= [1]", &[]),
        ("SELECT 1 FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >=", &[]),
        ("SELECT 1 FROM a SIMJOIN b ON (jaccard(a.toks, b.toks) >= 0.5", &[]),
        ("SELECT 1 FROM a SIMJOIN b ON jaccard(a.toks, b.toks)", &["Boolean"]),
        ("SELECT 'open FROM a SIMJOIN b ON", &[]),
    ] {
        assert_contains(&error(&ctx, sql).await, parts);
    }
}

/// A parameter that has no value is an error of the execution, not a hang or an empty answer.
#[tokio::test]
async fn a_parameter_without_a_value_is_an_error() {
    let (a, b) = tables();
    let ctx = context_of(&a, &b);
    for join in ["JOIN", "SIMJOIN"] {
        let sql = format!("SELECT count(*) FROM a {join} b ON jaccard(a.toks, b.toks) >= $1");
        error(&ctx, &sql).await;
    }
}

/// Errors of an argument's own evaluation reach the user.
#[tokio::test]
async fn an_error_inside_an_argument_is_reported() {
    let ctx = Session::default().context();
    rows(&ctx, "CREATE TABLE t AS SELECT * FROM (VALUES (1, '12'), (2, 'x')) AS v(id, s)").await;
    for side in ["l", "r"] {
        let sql = format!(
            "SELECT l.id FROM t l SIMJOIN t r ON jaccard([CAST({side}.s AS BIGINT)], \
             {}) >= 0.5",
            if side == "l" { "[r.id]" } else { "[l.id]" }
        );
        assert_contains(&error(&ctx, &sql).await, &["Cast"]);
    }
}

/// A Parquet file cut off anywhere is an error that says Parquet.
#[tokio::test]
async fn truncated_parquet_is_an_error() {
    let (a, _) = tables();
    let directory = tempfile::tempdir().expect("a folder");
    let whole = directory.path().join("whole.parquet");
    let ctx = Session::default().context();
    register(&ctx, "a", &a);
    rows(&ctx, &format!("COPY a TO '{}' STORED AS PARQUET", whole.display())).await;
    let bytes = fs::read(&whole).expect("the file");
    for (i, len) in [4, 8, bytes.len() / 2, bytes.len() - 9, bytes.len() - 1].iter().enumerate() {
        let cut = directory.path().join(format!("cut{i}.parquet"));
        fs::write(&cut, &bytes[..*len]).expect("a file");
        let ddl = format!(
            "CREATE EXTERNAL TABLE cut{i} (id BIGINT, toks BIGINT[]) STORED AS PARQUET LOCATION '{}'",
            cut.display()
        );
        rows(&ctx, &ddl).await;
        let sql =
            format!("SELECT count(*) FROM a SIMJOIN cut{i} c ON jaccard(a.toks, c.toks) >= 0.5");
        let message = error(&ctx, &sql).await;
        assert!(message.to_lowercase().contains("parquet"), "{message}");
    }
    // Garbage in the first column chunk, the footer intact.
    let mut garbled = bytes.clone();
    garbled[4..40].fill(0xa5);
    let file = directory.path().join("garbled.parquet");
    fs::write(&file, garbled).expect("a file");
    let ddl =
        format!("CREATE EXTERNAL TABLE garbled STORED AS PARQUET LOCATION '{}'", file.display());
    rows(&ctx, &ddl).await;
    let sql = "SELECT a.id, g.id FROM a SIMJOIN garbled g ON jaccard(a.toks, g.toks) >= 0.5";
    error(&ctx, sql).await;
}

/// Sets of a hundred thousand tokens, one million repeats, a single token: sizes far apart.
#[tokio::test]
async fn extreme_set_sizes_are_joined() {
    let ctx = Session::default().context();
    rows(
        &ctx,
        "CREATE TABLE huge AS SELECT 1 AS id, range(0, 100000) AS toks \
         UNION ALL SELECT 2, range(1, 100001) UNION ALL SELECT 3, [5] \
         UNION ALL SELECT 4, array_repeat(5, 1000000)",
    )
    .await;
    let sql = "SELECT x.id, y.id AS yid FROM huge x SIMJOIN huge y \
               ON jaccard(x.toks, y.toks) >= 0.9 AND x.id < y.id ORDER BY x.id";
    assert_uses_operator(&ctx, sql).await;
    assert_eq!(rows(&ctx, sql).await, ["1 | 2", "3 | 4"]);
    let sql = "SELECT count(*) FROM huge x SIMJOIN huge y ON containment(x.toks, y.toks) >= 1";
    assert_eq!(number(&ctx, sql).await, 10);
}
