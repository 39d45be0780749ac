//! Statements whose trees are deep: they run, or are refused; nothing overflows the stack.

use std::fs;

use crate::cli::{Ran, folder, run};

/// Runs a statement from a file: it is longer than a command line may be.
fn run_file(sql: &str) -> Ran {
    let folder = folder();
    fs::write(folder.path().join("deep.sql"), sql).expect("a file");
    run(folder.path(), &["-q", "--format", "csv", "-f", "deep.sql"])
}

fn chain(n: usize, separator: &str, link: impl Fn(usize) -> String) -> String {
    (0..n).map(link).collect::<Vec<_>>().join(separator)
}

#[test]
fn long_chains_run() {
    for (sql, expected) in [
        (format!("SELECT {} AS n", chain(500, " AND ", |i| format!("{i} < 5000"))), "n\ntrue\n"),
        (format!("SELECT {} AS n", chain(500, " + ", |_| "1".into())), "n\n500\n"),
        (
            format!(
                "SELECT count(*) AS n FROM ({})",
                chain(300, " UNION ALL ", |_| { "SELECT x.id FROM 'sets.parquet' x".to_string() })
            ),
            "n\n1200\n",
        ),
    ] {
        let ran = run_file(&sql);
        assert_eq!(ran.out, expected, "{}: {}", &sql[..60], ran.err);
    }
}

#[test]
fn chains_that_no_stack_holds_are_refused() {
    for (sql, part) in [
        (format!("SELECT {}", chain(200_000, " AND ", |_| "x".into())), "the expression that ends"),
        (format!("SELECT {}", chain(200_000, " + ", |_| "1".into())), "operators"),
        (format!("SELECT 1{}", "::int".repeat(50_000)), "operators"),
        (format!("SELECT * FROM {}", chain(20_000, ", ", |i| format!("t t{i}"))), "joins"),
        (
            chain(20_000, " UNION ALL ", |_| {
                "SELECT 1 FROM t a SIMJOIN t b ON jaccard(a.x, b.x) >= 0.5 EXCEPT SELECT 2".into()
            }),
            "CREATE TABLE",
        ),
    ] {
        let ran = run_file(&sql);
        assert!(!ran.ok && ran.err.lines().count() == 1, "{}", ran.err);
        assert!(
            ran.err.starts_with("Error: deep.sql:1: ") && ran.err.contains(part),
            "{}",
            ran.err
        );
    }
}

#[test]
fn long_lists_are_not_deep() {
    let numbers = chain(100_000, ", ", |i| format!("-{i}"));
    let ran = run_file(&format!("SELECT -7 IN ({numbers}) AS n;"));
    assert_eq!(ran.out, "n\ntrue\n", "{}", ran.err);
    let rows = chain(100_000, ", ", |i| format!("(-{i})"));
    let ran = run_file(&format!("SELECT sum(column1) AS n FROM (VALUES {rows});"));
    assert_eq!(ran.out, "n\n-4999950000\n", "{}", ran.err);
}
