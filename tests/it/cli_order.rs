//! Rows come in the order of their query: on the screen, in files and in tables, with several threads
//! and more than ten batches.

use crate::cli::{folder, run};

/// Rows of a table, more than twelve batches.
const ROWS: i64 = 100_000;

/// A query with an order.
const ORDERED: &str =
    "SELECT (value * 7919) % 100003 AS v FROM generate_series(1, 100000) ORDER BY v";

fn expected() -> Vec<i64> {
    let mut values: Vec<i64> = (1..=ROWS).map(|value| value * 7919 % 100_003).collect();
    values.sort_unstable();
    values
}

/// The numbers that the last statement of `sql` prints, with four threads.
fn printed(folder: &std::path::Path, flags: &[&str], sql: &str) -> Vec<i64> {
    let sql = format!(
        "SET datafusion.execution.target_partitions = 4; \
         SET datafusion.optimizer.repartition_file_min_size = 0; {sql}"
    );
    let ran = run(folder, &[&["-q", "--format", "csv", "-c", &sql], flags].concat());
    assert!(ran.ok, "{sql}: {}", ran.err);
    let rows = ran.out.lines().rev().take_while(|line| *line != "v");
    let mut rows: Vec<i64> = rows.map(|line| line.parse().unwrap()).collect();
    rows.reverse();
    rows
}

#[test]
fn tables_views_and_files_keep_the_order_of_their_query() {
    let folder = folder();
    let sorted = expected();
    for flags in [&[][..], &["-m", "1g"]] {
        for sql in [
            ORDERED.to_string(),
            format!("CREATE TABLE t AS {ORDERED}; SELECT v FROM t"),
            format!(
                "CREATE TABLE t AS {ORDERED}; CREATE TABLE u AS SELECT * FROM t; SELECT v FROM u"
            ),
            format!("CREATE TABLE t (v BIGINT); INSERT INTO t {ORDERED}; SELECT v FROM t"),
            format!("CREATE VIEW w AS {ORDERED}; SELECT v FROM w"),
            format!("SELECT v FROM ({ORDERED}) AS w WHERE v >= 0"),
            format!("WITH w AS ({ORDERED}) SELECT v FROM w"),
            format!(
                "COPY ({ORDERED}) TO 'o.parquet'; CREATE TABLE t AS SELECT * FROM 'o.parquet'; SELECT v FROM t"
            ),
            format!(
                "COPY (SELECT v FROM ({ORDERED})) TO 'o.csv'; SELECT v FROM 'o.csv' ORDER BY v"
            ),
            format!(
                "CREATE TABLE t AS {ORDERED}; COPY t TO 't.parquet'; SELECT v FROM 't.parquet' LIMIT 100000"
            ),
        ] {
            assert_eq!(printed(folder.path(), flags, &sql), sorted, "{flags:?} {sql}");
        }
    }
}

#[test]
fn a_table_gives_its_first_rows_first() {
    let folder = folder();
    let sorted = expected();
    for (sql, expected) in [
        ("SELECT v FROM t LIMIT 3", &sorted[..3]),
        ("SELECT v FROM t LIMIT 20000 OFFSET 10000", &sorted[10_000..30_000]),
        ("SELECT v FROM t WHERE v % 1 = 0 AND v IS NOT NULL LIMIT 9000", &sorted[..9000]),
        ("SELECT v FROM 't.parquet' LIMIT 9000", &sorted[..9000]),
        ("INSERT INTO t SELECT v FROM t; SELECT v FROM t OFFSET 100000", &sorted[..]),
    ] {
        let sql = format!("CREATE TABLE t AS {ORDERED}; COPY t TO 't.parquet'; {sql}");
        assert_eq!(printed(folder.path(), &[], &sql), expected, "{sql}");
    }
}

#[test]
fn settings_are_shown_as_they_were_set() {
    let folder = folder();
    let name = "datafusion.execution.target_partitions";
    let sql = format!("SET {name} = 7; SHOW {name}");
    let ran = run(folder.path(), &["-q", "--format", "csv", "-c", &sql]);
    assert!(ran.ok && ran.out.ends_with(&format!("{name},7\n")), "{}{}", ran.out, ran.err);
}
