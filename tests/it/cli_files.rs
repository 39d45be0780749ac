//! Files as tables: their names, what they hold by mistake, and errors that name them.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::cli::{Ran, run, simjoin};

fn csv(folder: &Path, statements: &[&str]) -> Ran {
    let mut arguments = vec!["-q", "--format", "csv"];
    arguments.extend(statements.iter().flat_map(|sql| ["-c", *sql]));
    run(folder, &arguments)
}

#[track_caller]
fn assert_prints(folder: &Path, statements: &[&str], expected: &str) {
    let ran = csv(folder, statements);
    assert!(ran.ok, "{statements:?}: {}", ran.err);
    assert_eq!(ran.out, expected, "{statements:?}");
}

/// Fails unless the statement fails with one line of error, and perhaps a hint, that has all parts.
#[track_caller]
fn assert_fails(folder: &Path, statement: &str, parts: &[&str]) {
    let ran = csv(folder, &[statement]);
    assert!(!ran.ok, "{statement}: {}", ran.out);
    for part in parts {
        assert!(ran.err.contains(part), "{statement}: {part:?} is missing in {}", ran.err);
    }
    for part in ["panicked", "bug"] {
        assert!(!ran.err.contains(part), "{statement}: {}", ran.err);
    }
    assert!(ran.err.lines().count() <= 2, "{statement}: {}", ran.err);
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, content).expect("a file");
}

/// DataFusion keeps the list of a folder for as long as the session lives.
#[test]
fn files_that_come_during_a_session_are_read() {
    let folder = folder();
    let count = ["'l'", "'l/*.parquet'"].map(|from| format!("SELECT count(*) AS n FROM {from}"));
    let a = "COPY (SELECT 1 AS x) TO 'l/a.parquet'";
    let b = "COPY (SELECT 2 AS x) TO 'l/b.parquet'";
    assert_prints(
        folder.path(),
        &[a, &count[0], &count[1], b, &count[0], &count[1]],
        "count\n1\nn\n1\nn\n1\ncount\n1\nn\n2\nn\n2\n",
    );
    let table = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'l/'";
    let of_table = "SELECT count(*) AS n FROM t";
    let insert = "INSERT INTO t VALUES (3)";
    let join = "SELECT count(*) AS n FROM 'l' a SIMJOIN 'l' b ON jaccard([a.x], [b.x]) >= 1";
    assert_prints(
        folder.path(),
        &[table, of_table, &count[0], insert, of_table, &count[0], join],
        "n\n2\nn\n2\ncount\n1\nn\n3\nn\n3\nn\n3\n",
    );
}

/// A file of the same length and, where clocks are coarse, of the same time.
#[test]
fn a_file_that_is_written_anew_is_read_anew() {
    let folder = folder();
    let copy = |x: u32| format!("COPY (SELECT {x} AS x) TO 'a.parquet'");
    let most = "SELECT max(x) AS x FROM 'a.parquet'";
    let mut statements = vec![];
    let mut expected = String::new();
    for x in 1..9 {
        statements.extend([copy(x), most.to_string()]);
        expected.push_str(&format!("count\n1\nx\n{x}\n"));
    }
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    assert_prints(folder.path(), &statements, &expected);
}

#[test]
fn names_with_characters_of_patterns_are_names() {
    let folder = folder();
    for name in ["list[1].csv", "report?.csv", "a*b.csv", "t:1.csv", "new[2]/x.csv"] {
        let (copy, read) =
            (format!("COPY (SELECT 1 AS x) TO '{name}'"), format!("SELECT * FROM '{name}'"));
        assert_prints(folder.path(), &[&copy, &read], "count\n1\nx\n1\n");
        assert!(folder.path().join(name).is_file(), "{name}");
        let table = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{name}'");
        assert_prints(folder.path(), &[&table, "SELECT * FROM t"], "x\n1\n");
    }
    // Without a file of that very name, it is a pattern.
    let copy = "COPY (SELECT 7 AS x) TO 'real1.csv'";
    let read = "SELECT * FROM 'real[1].csv'";
    assert_prints(folder.path(), &[copy, read], "count\n1\nx\n7\n");
    let copy = "COPY (SELECT 5 AS x) TO 'real[1].csv'";
    assert_prints(folder.path(), &[copy, read], "count\n1\nx\n5\n");
}

/// Files in the folder of the program decide nothing about tables.
#[test]
fn folders_do_not_take_the_names_of_tables() {
    let folder = folder();
    write(&folder, "orders/a.csv", "x\n5\n6\n");
    let path = folder.path();
    assert_fails(
        path,
        "SELECT * FROM orders",
        &["'datafusion.public.orders' not found", "FROM 'orders'"],
    );
    assert_fails(path, "SELECT * FROM \"orders\"", &["not found"]);
    assert_prints(
        path,
        &["SELECT sum(x) AS s FROM 'orders'", "SELECT sum(x) AS s FROM 'orders/'"],
        "s\n11\ns\n11\n",
    );
    let copy = "COPY 'orders' TO 'copy.csv'; EXPLAIN SELECT 1 FROM 'orders' WHERE false";
    assert!(csv(path, &[copy]).ok, "{}", csv(path, &[copy]).err);
    for create in [
        "CREATE TABLE orders AS SELECT 1 AS id",
        "CREATE VIEW orders AS SELECT 1 AS id",
        "CREATE TABLE orders (id BIGINT); INSERT INTO orders VALUES (1)",
        "CREATE TABLE IF NOT EXISTS orders AS SELECT 1 AS id",
        "CREATE EXTERNAL TABLE orders (id BIGINT) STORED AS CSV LOCATION 'one.csv'",
    ] {
        write(&folder, "one.csv", "id\n1\n");
        let ran = csv(path, &[create, "SELECT id, orders.id AS o FROM orders"]);
        assert!(ran.ok && ran.out.ends_with("id,o\n1,1\n"), "{create}: {}{}", ran.out, ran.err);
    }
    // A table goes before the folder, however its name is written.
    let both = [
        "CREATE TABLE orders AS SELECT 7 AS x",
        "SELECT x FROM 'orders'",
        "SELECT x FROM 'orders/' ORDER BY x",
    ];
    assert_prints(path, &both, "x\n7\nx\n5\n6\n");
    write(&folder, "book.xlsx", "PK");
    assert_fails(path, "SELECT * FROM 'book.xlsx'", &["book.xlsx", "save", "CSV"]);
}

#[test]
fn a_tilde_is_the_home_directory() {
    let folder = folder();
    let home = folder.path().join("home");
    write(&folder, "home/s.sql", "SELECT 2 AS y;\n");
    let sql = "COPY (SELECT 1 AS x) TO '~/t.csv'; SELECT * FROM '~/t.csv'; \
               CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '~/t.csv'; SELECT * FROM t;";
    for (arguments, expected) in [
        (["-c", sql], "count\n1\nx\n1\nx\n1\n"),
        (["-c", "\\i ~/s.sql"], "y\n2\n"),
        (["-f", "~/s.sql"], "y\n2\n"),
    ] {
        let mut command = simjoin(folder.path());
        command.args(["-q", "--format", "csv"]).args(arguments).env("HOME", &home);
        let ran: Ran = command.output().expect("the binary starts").into();
        assert_eq!((ran.out.as_str(), ran.err.as_str()), (expected, ""), "{arguments:?}");
    }
    assert!(home.join("t.csv").is_file() && !folder.path().join("~").exists());
}

#[test]
fn empty_files_are_told_where_the_format_has_none() {
    let folder = folder();
    assert!(csv(folder.path(), &["COPY (SELECT 1 AS x) TO 'p/a.parquet'"]).ok);
    for name in ["zero.parquet", "zero.csv", "zero.arrow", "p/b.parquet", "q/zero.tsv"] {
        write(&folder, name, "");
    }
    for (from, named) in [
        ("'zero.parquet'", "zero.parquet is empty"),
        ("'zero.csv'", "zero.csv is empty"),
        ("'zero.arrow'", "zero.arrow is empty"),
        ("'p'", "p/b.parquet is empty"),
        ("'q/*.tsv'", "q/zero.tsv is empty"),
    ] {
        assert_fails(folder.path(), &format!("SELECT count(*) FROM {from}"), &[named]);
    }
    let create = "CREATE EXTERNAL TABLE t (x BIGINT) STORED AS PARQUET LOCATION 'p/'; \
                  SELECT count(*) FROM t";
    assert_fails(folder.path(), create, &["p/b.parquet is empty"]);
    // No lines are no rows.
    write(&folder, "zero.json", "");
    assert_prints(folder.path(), &["SELECT count(*) AS n FROM 'zero.json'"], "n\n0\n");
    let headless = "CREATE EXTERNAL TABLE t (x BIGINT) STORED AS CSV LOCATION 'zero.csv' \
                    OPTIONS ('format.has_header' 'false'); SELECT count(*) AS n FROM t";
    assert_prints(folder.path(), &[headless], "n\n0\n");
    // Programs keep such files beside their data.
    write(&folder, "s/_SUCCESS", "");
    write(&folder, "s/part-0.csv", "x\n1\n");
    let declared =
        "CREATE EXTERNAL TABLE t (x BIGINT) STORED AS CSV LOCATION 's/'; SELECT * FROM t";
    assert_prints(folder.path(), &["SELECT * FROM 's'", declared], "x\n1\nx\n1\n");
}

#[test]
fn csv_files_of_one_table_have_the_same_columns() {
    let folder = folder();
    write(&folder, "m/a.csv", "x,y\n1,2\n");
    for other in ["y,x\n20,10\n", "x,y,z\n1,2,3\n", "x\n1\n"] {
        write(&folder, "m/b.csv", other);
        let create = "CREATE EXTERNAL TABLE t (x BIGINT, y BIGINT) STORED AS CSV LOCATION 'm/'; \
                      SELECT * FROM t";
        for statement in ["SELECT * FROM 'm'", "SELECT x FROM 'm/*.csv'", create] {
            let header = other.lines().next().unwrap().replace(',', ", ");
            let parts = ["m/a.csv has the columns x, y,", "m/b.csv", header.as_str()];
            assert_fails(folder.path(), statement, &parts);
        }
    }
    write(&folder, "m/b.csv", "\u{feff}x,\"y\"\r\n3,4\r\n");
    assert_prints(folder.path(), &["SELECT * FROM 'm' ORDER BY x"], "x,y\n1,2\n3,4\n");
    // A folder of several formats is no table.
    write(&folder, "m/c.json", "{\"x\": 1}\n");
    assert_fails(folder.path(), "SELECT * FROM 'm'", &["a.csv", "c.json", "'m/*.csv'"]);
}

#[test]
fn delimiters_are_those_of_the_file() {
    let folder = folder();
    write(&folder, "semi.csv", "id;name\n1;\"a;b\"\n");
    write(&folder, "tabs.csv", "id\tname\n1\ta\n");
    write(&folder, "t.tsv", "id\tname\n1\t\"a,b\"\n");
    write(&folder, "one.csv", "text\n\"a; b\"\n");
    write(&folder, "l.jsonl", "{\"id\":1}\n");
    write(&folder, "array.json", "[{\"id\":1},\n{\"id\":2}]\n");
    for (from, expected) in [
        ("semi.csv", "id,name\n1,a;b\n"),
        ("tabs.csv", "id,name\n1,a\n"),
        ("t.tsv", "id,name\n1,\"a,b\"\n"),
        ("one.csv", "text\na; b\n"),
        ("l.jsonl", "id\n1\n"),
        ("array.json", "id\n1\n2\n"),
    ] {
        assert_prints(folder.path(), &[&format!("SELECT * FROM '{from}'")], expected);
    }
    for (create, expected) in [
        ("STORED AS CSV LOCATION 'semi.csv'", "id,name\n1,a;b\n"),
        ("STORED AS TSV LOCATION 't.tsv'", "id,name\n1,\"a,b\"\n"),
        ("STORED AS CSV LOCATION 't.tsv'", "id,name\n1,\"a,b\"\n"),
        (
            "STORED AS CSV LOCATION 'semi.csv' OPTIONS ('format.delimiter' '|')",
            "id;name\n\"1;\"\"a;b\"\"\"\n",
        ),
    ] {
        let create = format!("CREATE EXTERNAL TABLE t {create}");
        assert_prints(folder.path(), &[&create, "SELECT * FROM t"], expected);
    }
    for (copy, read) in [
        ("'o.tsv'", "o.tsv"),
        ("'o.tsv.gz' STORED AS TSV OPTIONS ('format.compression' 'gzip')", "o.tsv.gz"),
        ("'o.jsonl'", "o.jsonl"),
        ("'o.csv' OPTIONS ('format.delimiter' ';')", "o.csv"),
    ] {
        let copy = format!("COPY (SELECT 1 AS id, 'a b' AS name) TO {copy}");
        let read = format!("SELECT id, name FROM '{read}'");
        assert_prints(folder.path(), &[&copy, &read], "count\n1\nid,name\n1,a b\n");
    }
    assert_eq!(fs::read_to_string(folder.path().join("o.tsv")).unwrap(), "id\tname\n1\ta b\n");
}

#[test]
fn errors_of_readers_name_the_file() {
    let folder = folder();
    let copy = "COPY (SELECT value AS x, 'text' || value AS s FROM generate_series(1, 20000)) \
                TO 'd/a.parquet'";
    assert!(csv(folder.path(), &[copy, "COPY (SELECT 1 AS x) TO 'a.arrow'"]).ok);
    let whole = fs::read(folder.path().join("d/a.parquet")).unwrap();
    let cut = &whole[..whole.len() - 20];
    for (name, bytes) in [("d/b.parquet", cut), ("e/x.parquet", &whole[..2000])] {
        write(&folder, name, bytes);
    }
    let arrow = fs::read(folder.path().join("a.arrow")).unwrap();
    write(&folder, "cut.arrow", &arrow[..arrow.len() - 10]);
    write(&folder, "no.arrow", b"ARROW1\0\0\x07\x07\x07\x07");
    let rows: String = (0..1500).map(|i| format!("{i},{i}\n")).collect();
    write(&folder, "type.csv", format!("id,code\n{rows}1500,A12\n"));
    write(&folder, "few.csv", format!("id,code\n{rows}1500\n"));
    write(&folder, "latin.csv", b"id,t\n1,\xff\n");
    write(&folder, "bad.json", "{\"a\":1}\n{\"a\":\n");
    for (statement, parts) in [
        ("SELECT count(*) FROM 'd/*.parquet'", &["reading d/b.parquet", "Parquet"][..]),
        ("SELECT count(*) FROM 'd'", &["reading d/b.parquet"]),
        ("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'd/'", &["reading d/b.parquet"]),
        (
            "CREATE EXTERNAL TABLE t (x BIGINT) STORED AS PARQUET LOCATION 'd/'; \
             SELECT count(*) FROM t",
            &["reading d/b.parquet"],
        ),
        ("CREATE TABLE t AS SELECT * FROM 'e/x.parquet'", &["reading e/x.parquet"]),
        ("SELECT * FROM 'cut.arrow'", &["cut.arrow is no Arrow file"]),
        ("SELECT * FROM 'no.arrow'", &["no.arrow is no Arrow file"]),
        (
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'type.csv' OPTIONS \
             ('format.schema_infer_max_rec' '1000'); SELECT sum(code) FROM t",
            &["reading type.csv", "row 1501", "column code", "'A12'", "(id BIGINT"],
        ),
        ("SELECT count(*) FROM 'few.csv'", &["reading few.csv", "'format.truncated_rows'"]),
        ("SELECT * FROM 'latin.csv'", &["reading latin.csv", "UTF-8", "iconv"]),
        ("SELECT * FROM 'bad.json'", &["reading bad.json"]),
    ] {
        assert_fails(folder.path(), statement, parts);
    }
    // The error of an expression is not one of the file.
    let computed = csv(folder.path(), &["SELECT 1 / (x - x) FROM 'd/a.parquet'"]);
    assert!(!computed.ok && !computed.err.contains("d/a.parquet"), "{}", computed.err);
}

/// The footer says that it is longer than the file, or of a negative length.
#[test]
fn panics_of_readers_are_errors_that_name_the_file() {
    let folder = folder();
    assert!(csv(folder.path(), &["COPY (SELECT 1 AS x) TO 'a.parquet'"]).ok);
    let whole = fs::read(folder.path().join("a.parquet")).unwrap();
    for length in [i32::MAX, -5] {
        let mut lying = whole.clone();
        let place = lying.len() - 8;
        lying[place..place + 4].copy_from_slice(&length.to_le_bytes());
        write(&folder, "lying.parquet", lying);
        assert_fails(folder.path(), "SELECT * FROM 'lying.parquet'", &["reading lying.parquet"]);
    }
}

#[test]
fn paths_on_other_machines_are_refused_without_talk_of_bugs() {
    let folder = folder();
    for statement in [
        "SELECT * FROM 's3://bucket/x.parquet'",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'https://host/x.csv'",
        "COPY (SELECT 1) TO 'http://host/x.csv'",
    ] {
        assert_fails(folder.path(), statement, &["reads and writes local files", "://"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_with_the_file() {
    let folder = folder();
    let rows = "SELECT value AS x FROM generate_series(1, 100000)";
    for format in ["CSV", "JSON", "PARQUET"] {
        let copy = format!("COPY ({rows}) TO '/dev/full' STORED AS {format}");
        assert_fails(folder.path(), &copy, &["writing /dev/full: the disk is full", "Hint: free"]);
    }
}

#[test]
fn scripts_that_are_no_text_are_told_with_their_line() {
    let folder = folder();
    write(&folder, "u.sql", b"SELECT 1 AS a;\nSELECT '\xff';\n");
    let ran = run(folder.path(), &["-q", "--format", "csv", "-f", "u.sql"]);
    assert!(!ran.ok && ran.out == "a\n1\n", "{}{}", ran.out, ran.err);
    assert_eq!(ran.err, "Error: u.sql: line 2 is no text in UTF-8, from byte 9 of the line on\n");
}

#[cfg(target_os = "linux")]
#[test]
fn an_endless_line_is_an_error() {
    let folder = folder();
    let ran = run(folder.path(), &["-q", "-f", "/dev/zero"]);
    assert!(!ran.ok, "{}", ran.out);
    assert_eq!(ran.err, "Error: /dev/zero: line 1 is longer than 64 MiB\n");
}
