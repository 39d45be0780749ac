//! Limits of the command line: what they cover, and that statements do not lift them.

use crate::cli::{Ran, folder, run};

/// Runs statements, one `-c` each.
fn statements(flags: &[&str], statements: &[&str]) -> Ran {
    let folder = folder();
    let of_statement = statements.iter().flat_map(|sql| ["-c", sql]);
    let arguments: Vec<&str> = ["-q", "--format", "csv"]
        .iter()
        .copied()
        .chain(flags.iter().copied())
        .chain(of_statement)
        .collect();
    run(folder.path(), &arguments)
}

fn assert_refused(ran: &Ran, parts: &[&str]) {
    assert!(!ran.ok, "{}", ran.out);
    for part in parts {
        assert!(ran.err.contains(part), "{part:?} is missing in {}", ran.err);
    }
}

/// A table of 12 MB.
const TABLE: &str =
    "CREATE TABLE t AS SELECT value, repeat('x', 1000) AS r FROM generate_series(1, 12000)";
const COUNT: &str = "SELECT count(*) AS n, sum(length(r)) AS s FROM t";

/// Batches of few rows hold the memory of thousands each.
#[test]
fn tables_of_many_small_batches_take_what_their_rows_do() {
    let file = "COPY (SELECT value AS id, 'a text of row ' || value AS s, 'short' AS t \
                FROM generate_series(1, 2000)) TO 'x.parquet' OPTIONS ('format.max_row_group_size' 1)";
    let ran = statements(
        &["-m", "8m"],
        &[
            file,
            "CREATE TABLE t AS SELECT * FROM 'x.parquet'",
            "INSERT INTO t SELECT * FROM 'x.parquet' WHERE id <= 10",
            "SELECT count(*) AS n, sum(id) AS i, min(s) AS s, count(DISTINCT t) AS t FROM t",
        ],
    );
    assert_eq!(ran.out.lines().last(), Some("2010,2001055,a text of row 1,1"), "{}", ran.err);
}

/// The memory that DataFusion's sorts set aside follows the limit, unless it has been set.
#[test]
fn sorts_begin_under_small_limits() {
    let sql = "SELECT value FROM generate_series(1, 1000) ORDER BY value * 7 % 1000, value";
    for limit in ["4m", "6m", "16m"] {
        let ran = statements(&["-m", limit], &[sql]);
        assert!(ran.out.ends_with("\n714\n857\n"), "{limit}: {}", ran.err);
        assert_eq!(ran.out.lines().count(), 1001);
    }
    let set = "SET datafusion.execution.sort_spill_reservation_bytes = 10000000";
    assert_refused(&statements(&["-m", "6m"], &[set, sql]), &["sort_spill_reservation_bytes"]);
}

#[test]
fn tables_count_in_the_memory_limit() {
    let ran = statements(&["-m", "64m"], &[TABLE, COUNT]);
    assert_eq!(ran.out, "n,s\n12000,12000000\n", "{}", ran.err);
    let ran = statements(&["-m", "8m"], &[TABLE]);
    assert_refused(&ran, &["the table t does not fit into the memory limit", "COPY"]);
    // Tables stay counted until they are dropped.
    let other = TABLE.replace("TABLE t", "TABLE u");
    let ran = statements(&["-m", "20m"], &[TABLE, &other]);
    assert_refused(&ran, &["the table u does not fit"]);
    let ran = statements(
        &["-m", "20m"],
        &[
            TABLE,
            "DROP TABLE t",
            &other,
            &other.replace("CREATE", "CREATE OR REPLACE").replace("12000", "12"),
        ],
    );
    assert!(ran.ok, "{}", ran.err);
    let insert = "INSERT INTO t SELECT value, repeat('y', 1000) FROM generate_series(1, 12000)";
    let ran = statements(&["-m", "20m", "--keep-going"], &[TABLE, insert, COUNT]);
    assert_refused(&ran, &["the table t does not fit"]);
    assert_eq!(ran.out, "n,s\n12000,12000000\n", "{}", ran.err);
    let ran = statements(&["-m", "64m"], &[TABLE, insert, COUNT]);
    assert_eq!(ran.out, "count\n12000\nn,s\n24000,24000000\n", "{}", ran.err);
    // A join has what tables leave.
    let join = "SELECT count(*) AS n FROM t a SIMJOIN t b \
                ON jaccard(make_array(a.value), make_array(b.value)) >= 1.0";
    let ran = statements(&["-m", "18m"], &[TABLE, join]);
    assert_eq!(ran.out, "n\n12000\n", "{}", ran.err);
}

#[test]
fn statements_about_tables_are_those_of_datafusion() {
    for (sql, out, error) in [
        ("CREATE TABLE t AS SELECT 1 AS a, 2 AS a", "", "a"),
        ("CREATE TABLE IF NOT EXISTS u AS SELECT 3 AS a", "a\n1\n", ""),
        ("CREATE TABLE u AS SELECT 3 AS a", "", "already exists"),
        ("CREATE OR REPLACE TABLE u AS SELECT a + 1 AS a FROM u", "a\n2\n", ""),
        ("INSERT INTO u VALUES (1), (5)", "count\n2\na\n1\n1\n5\n", ""),
        ("CREATE TABLE t (a INT NOT NULL, b TEXT DEFAULT 'x')", "a\n1\n", ""),
    ] {
        for limit in [&["-m", "1g"][..], &[]] {
            let create = "CREATE TABLE u AS SELECT 1 AS a";
            let ran = statements(limit, &[create, sql, "SELECT a FROM u ORDER BY a"]);
            assert_eq!((ran.out.as_str(), ran.ok), (out, error.is_empty()), "{sql}: {}", ran.err);
            assert!(ran.err.contains(error), "{sql}: {}", ran.err);
        }
    }
}

#[test]
fn a_statement_does_not_lift_the_memory_limit() {
    let set = |limit: &str| format!("SET datafusion.runtime.memory_limit = '{limit}'");
    let ran = statements(&["-m", "8m"], &[&set("1G"), "SELECT 1"]);
    assert_refused(
        &ran,
        &["memory_limit cannot be 1024.0 MB", "--memory-limit 8.0 MB", "--soft-limits"],
    );
    let refused = ["the table t does not fit"];
    let ran = statements(&["-m", "8m", "--keep-going"], &[&set("1G"), TABLE]);
    assert_refused(&ran, &refused);
    for lifts in [
        "RESET datafusion.runtime.memory_limit",
        "PREPARE p AS SELECT 1",
        "SET datafusion.runtime.temp_directory = '.'",
    ] {
        assert_refused(&statements(&["-m", "8m"], &[lifts, TABLE]), &refused);
    }
    // Down and up again, to what the flag gives.
    let ran = statements(&["-m", "64m"], &[&set("32M"), &set("4M"), TABLE]);
    assert_refused(&ran, &refused);
    let ran = statements(&["-m", "64m"], &[&set("4M"), &set("64M"), TABLE, COUNT]);
    assert_eq!(ran.out, "n,s\n12000,12000000\n", "{}", ran.err);
    let reset = "RESET datafusion.runtime.memory_limit";
    let ran = statements(&["-m", "64m"], &[&set("4M"), reset, TABLE, COUNT]);
    assert_eq!(ran.out, "n,s\n12000,12000000\n", "{}", ran.err);
    let ran = statements(&["-m", "8m", "--soft-limits"], &[&set("1G"), TABLE, COUNT]);
    assert_eq!(ran.out, "n,s\n12000,12000000\n", "{}", ran.err);
    let ran = statements(&[], &[&set("1G"), TABLE, COUNT]);
    assert_eq!(ran.out, "n,s\n12000,12000000\n", "{}", ran.err);
}

#[test]
fn a_statement_does_not_lift_the_disk_limit() {
    let set = |limit: &str| format!("SET datafusion.runtime.max_temp_directory_size = '{limit}'");
    let ran = statements(&["-d", "1m"], &[&set("10G"), "SELECT 1"]);
    assert_refused(&ran, &["cannot be 10.0 GB", "--disk-limit 1024.0 KB", "--soft-limits"]);
    // 4 MB of rows.
    let join = "SELECT count(*) AS n FROM (SELECT value AS id, range(value, value + 20) AS t \
                FROM generate_series(1, 25000)) a SIMJOIN (SELECT value + 0 AS id, \
                range(value, value + 20) AS t FROM generate_series(1, 25000)) b \
                ON jaccard(a.t, b.t) >= 0.99";
    let spill = "SET simjoin.spill = 'always'";
    for lifts in [
        &set("10G"),
        "RESET datafusion.runtime.max_temp_directory_size",
        "SET datafusion.runtime.temp_directory = '.'",
        "RESET datafusion.runtime.temp_directory",
    ] {
        let ran = statements(&["-d", "1m", "--keep-going"], &[lifts, spill, join]);
        assert_refused(&ran, &["--disk-limit"]);
        assert_eq!(ran.out, "", "{lifts}");
    }
    for flags in [&["-d", "1m", "--soft-limits"][..], &["-d", "1g"], &[]] {
        let ran = statements(flags, &[&set("900M"), spill, join]);
        assert_eq!(ran.out, "n\n25000\n", "{}", ran.err);
    }
}
