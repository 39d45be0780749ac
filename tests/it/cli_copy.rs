//! COPY: what would be lost is refused, and so is what cannot be written.

use std::fs;

use crate::cli::{Ran, folder, run};

fn copy(folder: &std::path::Path, query: &str, to: &str) -> Ran {
    run(folder, &["-q", "--format", "csv", "-c", &format!("COPY ({query}) TO {to}")])
}

const PAIRS: &str = "FROM 'sets.parquet' x SIMJOIN 'sets.parquet' y \
    ON jaccard(x.toks, y.toks) >= 0.7 AND x.id < y.id";

#[test]
fn two_columns_of_one_name_are_refused() {
    let folder = folder();
    for to in ["'p.parquet'", "'p.csv'", "'p.json'", "'p/' STORED AS ARROW"] {
        let ran = copy(folder.path(), &format!("SELECT x.id, y.id {PAIRS}"), to);
        assert!(!ran.ok, "{to}");
        for part in ["two columns with the name id", "x.id AS x_id", "y.id AS y_id"] {
            assert!(ran.err.contains(part), "{to}: {}", ran.err);
        }
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
    assert!(fs::read_dir(folder.path()).unwrap().count() == 2, "a file was left");
    // Names are compared as they are written.
    let ran = copy(folder.path(), &format!("SELECT x.id, y.id AS \"ID\" {PAIRS}"), "'p.parquet'");
    assert!(ran.ok, "{}", ran.err);
    // As a prepared statement, too.
    let sql = "PREPARE p AS COPY (SELECT 1 AS id, 2 AS id) TO 'q.parquet'; EXECUTE p;";
    assert!(!run(folder.path(), &["-q", "-c", sql]).ok);
    assert!(!folder.path().join("q.parquet").exists());
}

#[test]
fn csv_without_a_place_for_lists_says_so_and_leaves_no_file() {
    let folder = folder();
    for (column, part) in [
        ("toks", "array_to_string(toks, ' ')"),
        ("{'a': id} AS s", "s['field']"),
        ("map(['a'], [id]) AS m", "map_keys(m)"),
    ] {
        let ran =
            copy(folder.path(), &format!("SELECT id, {column} FROM 'sets.parquet'"), "'p.csv'");
        assert!(!ran.ok && ran.err.contains(part), "{column}: {}", ran.err);
        assert!(!folder.path().join("p.csv").exists());
    }
    let query = "SELECT id, array_to_string(toks, ' ') AS toks FROM 'sets.parquet' WHERE id = 1";
    let ran = copy(folder.path(), query, "'p.csv'");
    assert!(ran.ok, "{}", ran.err);
    assert_eq!(fs::read_to_string(folder.path().join("p.csv")).unwrap(), "id,toks\n1,a b c\n");
    let ran = copy(folder.path(), "SELECT id, toks FROM 'sets.parquet'", "'p.json'");
    assert!(ran.ok, "{}", ran.err);
}

#[test]
fn files_go_where_they_went_before() {
    let folder = folder();
    fs::create_dir(folder.path().join("there.csv")).expect("a folder");
    for (to, read) in [
        ("'a.parquet'", "a.parquet"),
        ("'new/folders/a.csv'", "new/folders/a.csv"),
        ("'with space & #1.csv'", "with space & #1.csv"),
        ("'parts/' STORED AS PARQUET", "parts/"),
        ("'hive/' STORED AS PARQUET PARTITIONED BY (part)", "hive/"),
        ("'bare' STORED AS CSV", "bare/"),
        ("'there.csv' STORED AS CSV", "there.csv/"),
    ] {
        let ran = copy(folder.path(), "SELECT 7 AS id, 'x' AS part", to);
        assert!(ran.ok && ran.out == "count\n1\n", "{to}: {}{}", ran.out, ran.err);
        assert!(folder.path().join(read).exists(), "{to}");
    }
    let left: Vec<_> = walk(folder.path()).into_iter().filter(|p| p.contains("probe")).collect();
    assert_eq!(left, Vec::<String>::new());
    // A table on files.
    let sql = "CREATE EXTERNAL TABLE t (id BIGINT) STORED AS PARQUET LOCATION 'table/';
        INSERT INTO t VALUES (1), (2); SELECT count(*) AS n FROM t";
    let ran = run(folder.path(), &["-q", "--format", "csv", "-c", sql]);
    assert!(ran.ok && ran.out.ends_with("n\n2\n"), "{}{}", ran.out, ran.err);
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(walk(&path));
        }
        found.push(path.display().to_string());
    }
    found
}

#[test]
fn a_place_that_takes_no_file_is_an_error() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").expect("a file");
    for to in ["'file/x.csv'", "'file/' STORED AS CSV"] {
        let ran = copy(folder.path(), "SELECT 1", to);
        assert!(!ran.ok && ran.err.contains("no file can be created in"), "{to}: {}", ran.err);
    }
}

/// There, the object store tries again and again.
#[cfg(target_os = "linux")]
#[test]
fn a_file_system_without_new_files_is_an_error() {
    let folder = folder();
    for to in ["'/proc/x.parquet'", "'/proc/' STORED AS PARQUET", "'/proc/x.csv'"] {
        let ran = copy(folder.path(), "SELECT 1 AS id", to);
        assert!(
            !ran.ok && ran.err.contains("no file can be created in /proc"),
            "{to}: {}",
            ran.err
        );
    }
    let sql = "CREATE EXTERNAL TABLE t (id BIGINT) STORED AS PARQUET LOCATION '/proc/self/fdinfo/';
        INSERT INTO t VALUES (1)";
    let ran = run(folder.path(), &["-q", "-c", sql]);
    assert!(!ran.ok && ran.err.contains("no file can be created in"), "{}", ran.err);
}
