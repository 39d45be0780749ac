//! CSV and JSON as tables: what is read is what stands in the file, or an error says where not.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use crate::cli::{Ran, run, simjoin};

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, content).expect("a file");
}

fn csv(folder: &Path, sql: &str) -> Ran {
    run(folder, &["-q", "--format", "csv", "-c", sql])
}

#[track_caller]
fn assert_prints(folder: &TempDir, sql: &str, expected: &str) {
    let ran = csv(folder.path(), sql);
    assert!(ran.ok, "{sql}: {}", ran.err);
    assert_eq!(ran.out, expected, "{sql}");
}

#[track_caller]
fn assert_fails(folder: &TempDir, sql: &str, parts: &[&str]) {
    let ran = csv(folder.path(), sql);
    assert!(!ran.ok, "{sql}: {}", ran.out);
    for part in parts {
        assert!(ran.err.contains(part), "{sql}: {part:?} is missing in {}", ran.err);
    }
    assert!(ran.err.lines().count() <= 2, "{sql}: {}", ran.err);
}

/// The output of a statement whose standard input gives these bytes.
#[track_caller]
fn piped(folder: &TempDir, sql: &str, input: &[u8]) -> String {
    let mut command = simjoin(folder.path());
    command.args(["-q", "--format", "csv", "-c", sql]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let ran: Ran = child.wait_with_output().expect("the binary ends").into();
    let _ = writer.join();
    assert!(ran.ok, "{sql}: {}", ran.err);
    ran.out
}

#[test]
fn a_column_of_csv_has_its_later_values() {
    let folder = folder();
    let mut text = "id,email,n,x\n".to_string();
    for id in 0..9_000 {
        let email = if id < 8_500 { String::new() } else { format!("u{id}@x.org") };
        let n = if id == 8_999 { "A12".to_string() } else { id.to_string() };
        let x = if id == 8_998 { "9.99" } else { "9" };
        writeln!(text, "{id},{email},{n},{x}").unwrap();
    }
    write(&folder, "late.csv", &text);
    let sql = "SELECT count(email) AS n, max(n) AS m, max(x) AS x, sum(id) AS s FROM ";
    let expected = "n,m,x,s\n500,A12,9.99,40495500\n";
    assert_prints(&folder, &format!("{sql} 'late.csv'"), expected);
    assert_eq!(piped(&folder, &format!("{sql} '/dev/stdin'"), text.as_bytes()), expected);
    let create = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'late.csv'; ";
    assert_prints(&folder, &format!("{create} {sql} t"), expected);
    // A column without any value is text.
    write(&folder, "empty.csv", "a,b\n1,\n2,\n");
    let types = "SELECT arrow_typeof(b) AS t, count(b) AS n FROM 'empty.csv' GROUP BY 1";
    assert_prints(&folder, types, "t,n\nUtf8,0\n");
}

#[test]
fn a_type_that_does_not_give_a_value_back_is_text() {
    let folder = folder();
    let codes = ["007", "12E500", "12E501", "1E2", "0012e345", "12e5", "+5"];
    let numbers = ["1.50", "1e-05", "-0.25", "3", "1e16", "1.5E3", "0.1"];
    let mut text = "code,number,id,near\n".to_string();
    for (row, (code, number)) in codes.iter().zip(numbers).enumerate() {
        let id = 9_223_372_036_854_775_808_u64 + row as u64;
        let near =
            if row == 3 { "NaN".to_string() } else { (9_007_199_254_740_992 + row).to_string() };
        writeln!(text, "{code},{number},{id},{near}").unwrap();
    }
    write(&folder, "codes.csv", &text);
    assert_prints(
        &folder,
        "SELECT count(DISTINCT code) AS c, count(DISTINCT id) AS i, count(DISTINCT near) AS n, \
         min(number) AS x, max(number) AS y FROM 'codes.csv'",
        "c,i,n,x,y\n7,7,7,-0.25,1e16\n",
    );
    assert_prints(
        &folder,
        "SELECT DISTINCT arrow_typeof(code) AS c, arrow_typeof(number) AS n, arrow_typeof(id) AS i \
         FROM 'codes.csv'",
        "c,n,i\nUtf8,Float64,UInt64\n",
    );
    let pairs = "SELECT count(*) AS n FROM 'codes.csv' a JOIN 'codes.csv' b ON a.code = b.code";
    assert_prints(&folder, pairs, "n\n7\n");
    // A declared type is the user's word.
    let declared = "CREATE EXTERNAL TABLE t (zip BIGINT) STORED AS CSV LOCATION 'zip.csv'; \
                    SELECT * FROM t";
    write(&folder, "zip.csv", "zip\n01427\n");
    assert_prints(&folder, declared, "zip\n1427\n");
    assert_prints(&folder, "SELECT * FROM 'zip.csv'", "zip\n01427\n");
}

#[test]
fn times_keep_their_fractions_and_zones() {
    let folder = folder();
    write(
        &folder,
        "t.csv",
        "a,b,c,d\n2024-02-29 10:00:00,2024-02-29T10:00:00+02:00,2024-02-29T10:00:00Z,2024-02-29\n\
         2024-02-29 10:00:00.25,2024-02-29T10:00:01+02:00,2024-02-29T10:00:00+01:00,2024-02-29 01:00:00\n",
    );
    assert_prints(
        &folder,
        "SELECT * FROM 't.csv'",
        "a,b,c,d\n\
         2024-02-29T10:00:00,2024-02-29T10:00:00+02:00,2024-02-29T10:00:00Z,2024-02-29\n\
         2024-02-29T10:00:00.250,2024-02-29T10:00:01+02:00,2024-02-29T10:00:00+01:00,2024-02-29 01:00:00\n",
    );
}

#[test]
fn numbers_of_json_are_those_of_the_file() {
    let folder = folder();
    let mut lines = String::new();
    for id in 0..9_000 {
        let late = id == 8_999;
        let p = if late { "9.99" } else { "9" };
        let s = if late { "1.5" } else { "1" };
        let extra = if late { ", \"note\": \"last\"" } else { "" };
        let h = 18_446_744_073_709_542_616_u64 + id;
        let big = if late { "0.5".to_string() } else { (9_007_199_254_740_993 + id).to_string() };
        writeln!(
            lines,
            "{{\"id\": {id}, \"p\": {p}, \"s\": {{\"x\": {s}}}, \"l\": [{p}, {s}], \"h\": {h}, \
             \"big\": {big}{extra}}}"
        )
        .unwrap();
    }
    let array = format!("[{}]", lines.trim_end().replace('\n', ",\n"));
    let query = |from: &str| {
        format!(
            "SELECT max(p) AS p, max(s['x']) AS x, max(l[1]) AS a, max(l[2]) AS b, \
             count(DISTINCT h) AS h, count(DISTINCT big) AS g, max(note) AS n FROM {from}"
        )
    };
    let expected = "p,x,a,b,h,g,n\n9.99,1.5,9.99,1.5,9000,9000,last\n";
    for (name, text) in [("late.ndjson", &lines), ("late.json", &array)] {
        write(&folder, name, text);
        assert_prints(&folder, &query(&format!("'{name}'")), expected);
        let copied = format!("CREATE TABLE t AS SELECT * FROM '{name}'; {}", query("t"));
        let ran = csv(folder.path(), &copied);
        assert!(ran.ok && ran.out == expected, "{}{}", ran.out, ran.err);
        assert_eq!(piped(&folder, &query("'/dev/stdin'"), text.as_bytes()), expected);
    }
    // Declared integers are not cut.
    let declared = "CREATE EXTERNAL TABLE t (id BIGINT, p BIGINT) STORED AS JSON LOCATION \
                    'late.ndjson'; SELECT sum(p) FROM t";
    let parts = ["reading late.ndjson", "row 9000", "column p", "'9.99' is no Int64", "TEXT"];
    assert_fails(&folder, declared, &parts);
    let text = declared.replace("p BIGINT", "p TEXT").replace("sum", "max");
    assert_prints(&folder, &text, "max(t.p)\n9.99\n");
    let list = "CREATE EXTERNAL TABLE t (l BIGINT[]) STORED AS JSON LOCATION 'late.json'; \
                SELECT l FROM t WHERE l[1] = 0";
    assert_fails(&folder, list, &["reading late.json", "row 9000", "column l[]", "'9.99'"]);
}

#[test]
fn json_may_stand_on_several_lines() {
    let folder = folder();
    let pretty = "[\n  {\n    \"id\": 1,\n    \"t\": \"a]\\\"b\"\n  },\n  {\n    \"id\": 2,\n    \
                  \"t\": null\n  }\n]\n";
    write(&folder, "pretty.json", pretty);
    write(&folder, "objects.json", "{\n \"id\": 1}\n{\n \"id\": 2\n}\n");
    write(&folder, "bom.ndjson", "\u{feff}{\"id\": 1}\n{\"id\": 2}\n");
    let utf16: Vec<u8> =
        format!("\u{feff}{pretty}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    write(&folder, "utf16.json", utf16);
    for name in ["pretty.json", "objects.json", "bom.ndjson", "utf16.json"] {
        assert_prints(&folder, &format!("SELECT id FROM '{name}' ORDER BY id"), "id\n1\n2\n");
    }
    // Larger than the parts that partitions read.
    let rows: Vec<String> = (0..30_000)
        .map(|id| {
            format!("{{\n \"id\": {id},\n \"t\": \"some words, as in a text of a record\"\n}}")
        })
        .collect();
    write(&folder, "large.json", format!("[{}]", rows.join(",\n")));
    write(&folder, "large.ndjson", rows.join("\n"));
    let lines: Vec<String> = rows.iter().map(|row| row.replace('\n', "")).collect();
    write(&folder, "lines.ndjson", format!("\u{feff}{}", lines.join("\n")));
    for name in ["large.json", "large.ndjson", "lines.ndjson"] {
        let sql = format!("SELECT count(*) AS n, sum(id) AS s, min(id) AS m FROM '{name}'");
        assert_prints(&folder, &sql, "n,s,m\n30000,449985000,0\n");
    }
    let declared = "CREATE EXTERNAL TABLE t (id BIGINT) STORED AS JSON LOCATION 'large.json'; \
                    SELECT sum(id) AS s FROM t";
    assert_prints(&folder, declared, "s\n449985000\n");
    for (text, parts) in [
        ("[{\"a\": 1},\n{\"a\": 2}", &["no end"][..]),
        ("{\"a\": 1}\n{\"a\": 1,}\n", &["line 2", "no JSON"]),
        ("{\"a\": 1}\n{\"a\": [2]}\n", &["column a", "row 1", "row 2"]),
        ("{\"a\": NaN}\n", &["line 1", "null"]),
    ] {
        write(&folder, "wrong.json", text);
        assert_fails(&folder, "SELECT * FROM 'wrong.json'", &[&["wrong.json"][..], parts].concat());
    }
}

/// Partitions read parts of a file of more than 1 MiB.
#[test]
fn line_breaks_in_quotes_end_no_row() {
    let folder = folder();
    let mut text = "id,text\n".to_string();
    for id in 0..6_000 {
        let lines = format!("alpha {id}, beta\n{id},\"\"gamma\"\"\n").repeat(9);
        writeln!(text, "{id},\"{lines}\"").unwrap();
    }
    write(&folder, "notes.csv", &text);
    let sql = "SELECT count(*) AS n, sum(id) AS s, min(length(text)) AS l FROM ";
    let expected = "n,s,l\n6000,17997000,216\n";
    assert_prints(&folder, &format!("{sql} 'notes.csv'"), expected);
    assert_eq!(piped(&folder, &format!("{sql} '/dev/stdin'"), text.as_bytes()), expected);
    let declared =
        "CREATE EXTERNAL TABLE t (id BIGINT, text TEXT) STORED AS CSV LOCATION 'notes.csv'; ";
    assert_prints(&folder, &format!("{declared} {sql} t"), expected);
    let windows = text.replace('\n', "\r\n");
    write(&folder, "windows.csv", windows);
    let sql = "SELECT count(*) AS n, sum(id) AS s FROM 'windows.csv'";
    assert_prints(&folder, sql, "n,s\n6000,17997000\n");
}

#[test]
fn pipes_are_read_out_of_their_compression() {
    let folder = folder();
    let rows = "SELECT value AS id, 'text ' || value AS t FROM generate_series(1, 30000)";
    for (format, compression) in
        [("CSV", "gzip"), ("JSON", "gzip"), ("JSON", "bzip2"), ("JSON", "xz"), ("CSV", "zstd")]
    {
        let copy = format!(
            "COPY ({rows}) TO 'x.data' STORED AS {format} OPTIONS ('format.compression' '{compression}')"
        );
        assert!(csv(folder.path(), &copy).ok, "{copy}");
        let bytes = fs::read(folder.path().join("x.data")).unwrap();
        let sql = "SELECT count(*) AS n, sum(id) AS s FROM '/dev/stdin'";
        assert_eq!(piped(&folder, sql, &bytes), "n,s\n30000,450015000\n", "{copy}");
        let declared = format!(
            "CREATE EXTERNAL TABLE t (id BIGINT, t TEXT) STORED AS {format} LOCATION '/dev/stdin' \
             OPTIONS ('format.compression' '{compression}'); SELECT sum(id) AS s FROM t"
        );
        assert_eq!(piped(&folder, &declared, &bytes), "s\n450015000\n", "{copy}");
    }
    for format in ["PARQUET", "ARROW"] {
        assert!(csv(folder.path(), &format!("COPY ({rows}) TO 'y.data' STORED AS {format}")).ok);
        let gzip = Command::new("gzip").args(["-c", "y.data"]).current_dir(folder.path()).output();
        let bytes = gzip.expect("gzip").stdout;
        let sql = "SELECT sum(id) AS s FROM '/dev/stdin'";
        assert_eq!(piped(&folder, sql, &bytes), "s\n450015000\n", "{format}");
    }
    let array = "[\n {\"id\": 1},\n {\"id\": 2}\n]";
    assert_eq!(piped(&folder, "SELECT id FROM '/dev/stdin'", array.as_bytes()), "id\n1\n2\n");
    write(&folder, "packed.csv", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_fails(&folder, "SELECT * FROM 'packed.csv'", &["packed.csv", "is compressed", ".gz"]);
}

#[test]
fn columns_of_one_name_are_all_read() {
    let folder = folder();
    write(&folder, "two.csv", "id,name,name,name_1,,\n1,a,b,c,d,e\n");
    assert_prints(&folder, "SELECT * FROM 'two.csv'", "id,name,name_2,name_1,,_1\n1,a,b,c,d,e\n");
    assert_prints(&folder, "SELECT name_2 AS x FROM 'two.csv'", "x\nb\n");
}

#[test]
fn rows_of_another_length_are_told_with_a_cure() {
    let folder = folder();
    let rows: String = (1..=9_000).map(|id| format!("{id},a{id}\n")).collect();
    write(&folder, "long.csv", format!("id,name\n{rows}9001,a,b\n9002,c\n"));
    let parts = ["long.csv", "row 9001 (line 9002) has 3 fields", "the header has 2"];
    assert_fails(&folder, "SELECT * FROM 'long.csv'", &parts);
    let cure = "CREATE EXTERNAL TABLE t (\"id\" TEXT, \"name\" TEXT, more TEXT) STORED AS CSV LOCATION \
                'long.csv' OPTIONS ('format.truncated_rows' 'true')";
    assert!(csv(folder.path(), "SELECT * FROM 'long.csv'").err.contains(cure));
    let sql = format!("{cure}; SELECT id, name, more FROM t WHERE id::INT > 8999");
    assert_prints(&folder, &sql, "id,name,more\n9000,a9000,\n9001,a,b\n9002,c,\n");
    write(&folder, "short.csv", format!("id,name\n{rows}9001\n"));
    let sql = "SELECT count(*), count(name) FROM 'short.csv'";
    assert_fails(
        &folder,
        sql,
        &["row 9001 (line 9002) has 1 field,", "'format.truncated_rows' 'true'"],
    );
    let cure = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'short.csv' OPTIONS \
                ('format.truncated_rows' 'true'); SELECT count(*) AS a, count(name) AS b FROM t";
    assert_prints(&folder, cure, "a,b\n9001,9000\n");
    write(&folder, "title.csv", "Report of May\nid,name\n1,a\n");
    assert_fails(&folder, "SELECT * FROM 'title.csv'", &["title above the header", "tail -n +2"]);
    // Declared types are checked while the rows are read.
    write(&folder, "typed.csv", format!("id,name\n{rows}x9,z\n"));
    let sql = "CREATE EXTERNAL TABLE t (id BIGINT, name TEXT) STORED AS CSV LOCATION 'typed.csv'; \
               SELECT sum(id) FROM t";
    assert_fails(&folder, sql, &["typed.csv", "row 9001", "column id", "'x9' is no Int64", "TEXT"]);
}

/// The option keeps the rows from being looked at, as those of a file that is too large for it are.
#[test]
fn rows_that_were_not_looked_at_are_checked() {
    let folder = folder();
    for (late, parts) in [
        ("007,1.5,2024-01-01,\n", &["column a", "'007' is no Int64"][..]),
        ("7,12E500,2024-01-01,\n", &["column b", "'12E500' is no Float64"]),
        ("7,9007199254740993,2024-01-01,\n", &["column b", "'9007199254740993'"]),
        ("7,1,2024-01-01 10:00:00,\n", &["column c", "is no Date32"]),
        ("7,1\n", &["has 2 fields", "4 columns"]),
    ] {
        let rows: String = (1..=30_000).map(|id| format!("{id},{id}.5,2024-01-01,\n")).collect();
        write(&folder, "late.csv", format!("a,b,c,d\n{rows}{late}"));
        let create = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'late.csv' OPTIONS \
                      ('format.schema_infer_max_rec' '1000')";
        let parts = [&["late.csv", "row 30001"][..], parts].concat();
        assert_fails(&folder, &format!("{create}; SELECT * FROM t"), &parts);
    }
    write(&folder, "late.csv", format!("a,b\n{}7,x\n", "1,\n".repeat(30_000)));
    let create = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'late.csv' OPTIONS \
                  ('format.schema_infer_max_rec' '1000')";
    assert_prints(
        &folder,
        &format!("{create}; SELECT count(b) AS n, sum(a) AS s FROM t"),
        "n,s\n1,30007\n",
    );
    for (late, parts) in [
        ("{\"a\": 9.99}\n", &["column a", "'9.99' is no Int64"][..]),
        ("{\"a\": 9, \"b\": 1}\n", &["column 'b' missing"]),
        ("{\"a\": \"x\"}\n", &["column a", "'x' is no Int64"]),
    ] {
        let rows: String = (1..=30_000).map(|id| format!("{{\"a\": {id}}}\n")).collect();
        write(&folder, "late.ndjson", format!("{rows}{late}"));
        let create = "CREATE EXTERNAL TABLE t STORED AS JSON LOCATION 'late.ndjson' OPTIONS \
                      ('format.schema_infer_max_rec' '1000')";
        let parts = [&["late.ndjson", "row 30001", "declare"][..], parts].concat();
        assert_fails(&folder, &format!("{create}; SELECT * FROM t"), &parts);
    }
}

/// The types of a table stay, and the rows are those of the file.
#[test]
fn a_file_that_was_written_anew_is_checked() {
    let folder = folder();
    write(&folder, "x.ndjson", "{\"p\": 9}\n{\"p\": 10}\n");
    write(&folder, "x.csv", "p\n9\n10\n");
    for (name, format, error) in
        [("x.ndjson", "JSON", "'9.99' is no Int64"), ("x.csv", "CSV", "'007' is no Int64")]
    {
        let table = format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{name}'");
        let value = if format == "JSON" { "9.99" } else { "'007'" };
        let copy = format!("COPY (SELECT {value} AS p) TO '{name}' STORED AS {format}");
        let sql = format!("{table}; SELECT sum(p) AS s FROM t; {copy}; SELECT p FROM t");
        let ran = csv(folder.path(), &sql);
        assert!(!ran.ok && ran.out.starts_with("s\n19\n"), "{}{}", ran.out, ran.err);
        assert!(ran.err.contains(error) && ran.err.contains("row 1"), "{}", ran.err);
    }
}

#[test]
fn a_null_regex_is_applied() {
    let folder = folder();
    let rows: String =
        (1..=9_000).map(|id| format!("{id},{}\n", if id % 3 == 0 { "NA" } else { "5" })).collect();
    write(&folder, "na.csv", format!("id,x\n{rows}"));
    for columns in ["", "(id BIGINT, x BIGINT) "] {
        let sql = format!(
            "CREATE EXTERNAL TABLE t {columns}STORED AS CSV LOCATION 'na.csv' OPTIONS \
             ('format.null_regex' '^NA$'); SELECT count(x) AS n, sum(x) AS s FROM t"
        );
        assert_prints(&folder, &sql, "n,s\n6000,30000\n");
    }
    let wrong = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'na.csv' OPTIONS \
                 ('format.null_regex' '(')";
    assert_fails(&folder, wrong, &["null_regex", "no regular expression"]);
    let wrong = "CREATE EXTERNAL TABLE t (id BIGINT) STORED AS CSV LOCATION 'na.csv' OPTIONS \
                 ('format.comment' '#', 'format.terminator' ';'); SELECT * FROM t";
    assert_fails(&folder, wrong, &["format.comment", "format.terminator ';'"]);
}

#[test]
fn texts_of_other_encodings_are_read_or_told() {
    let folder = folder();
    let text = "\u{feff}id;name\n".to_string()
        + &(0..40_000).map(|id| format!("{id};Zoë {id}\n")).collect::<String>();
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for bytes in [little, big] {
        write(&folder, "utf16.csv", &bytes);
        let sql = "SELECT count(*) AS n, sum(id) AS s, min(name) AS m FROM ";
        let expected = "n,s,m\n40000,799980000,Zoë 0\n";
        assert_prints(&folder, &format!("{sql} 'utf16.csv'"), expected);
        assert_eq!(piped(&folder, &format!("{sql} '/dev/stdin'"), &bytes), expected);
    }
    write(&folder, "latin.csv", b"id,t\n1,a\n2,caf\xe9\n");
    let parts = ["latin.csv", "row 2 (line 3), column t", "UTF-8", "iconv -f latin1"];
    assert_fails(&folder, "SELECT * FROM 'latin.csv'", &parts);
    write(&folder, "windows.csv", b"id,t\n1,\x93caf\xe9\x94\n");
    assert_fails(&folder, "SELECT * FROM 'windows.csv'", &["iconv -f cp1252"]);
}

#[test]
fn files_of_one_table_may_have_types_of_different_width() {
    let folder = folder();
    let copies = "COPY (SELECT arrow_cast(value, 'Int32') AS id, \
                  arrow_cast([value, 0.5], 'List(Float32)') AS v FROM generate_series(1, 9000)) TO \
                  'p/a.parquet'; COPY (SELECT value + 3000000000 AS id, [0.1, 0.5] AS v \
                  FROM generate_series(1, 9000)) TO 'p/b.parquet'";
    assert!(csv(folder.path(), copies).ok);
    let sql = "SELECT count(*) AS n, max(id) AS m, min(id) AS l, min(v[1]) AS v FROM ";
    let expected = "n,m,l,v\n18000,3000009000,1,0.1\n";
    assert_prints(&folder, &format!("{sql} 'p'"), expected);
    let create = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'p/'; ";
    assert_prints(&folder, &format!("{create} {sql} t"), expected);
    assert!(csv(folder.path(), "COPY (SELECT 'x' AS id, [1] AS v) TO 'p/c.parquet'").ok);
    assert_fails(
        &folder,
        "SELECT * FROM 'p'",
        &["p/c.parquet", "declare the columns", "UNION ALL"],
    );
    write(&folder, "j/a.json", "{\"v\": [1, 2]}\n");
    write(&folder, "j/b.json", "{\"v\": [1.5, 2]}\n");
    assert_prints(&folder, "SELECT sum(v[1]) AS s FROM 'j'", "s\n2.5\n");
}

/// A cell that the generator writes, as it is printed.
fn cell(random: &mut StdRng, kind: usize) -> String {
    match kind {
        0 => random.random_range(-1_000_000_i64..1_000_000).to_string(),
        1 => format!("{}.{}", random.random_range(0..1000), random.random_range(1..9)),
        2 => random.random_range(i64::MAX as u64 - 5..=u64::MAX).to_string(),
        3 => format!("{:03}", random.random_range(0..100)),
        4 => format!("{}E{}", random.random_range(1..20), random.random_range(1..500)),
        5 => ["true", "false"][random.random_range(0..2)].to_string(),
        6 => format!("2024-02-{:02}", random.random_range(1..30)),
        7 => format!("a\nb,\"{}\"\nc", random.random_range(0..100)),
        8 => format!("Ω{}", random.random_range(0..100)),
        9 => (9_007_199_254_740_980_i64 + random.random_range(0..50)).to_string(),
        _ => String::new(),
    }
}

/// Rows whose columns change their kind at a late row.
fn rows(random: &mut StdRng) -> Vec<Vec<String>> {
    let count = [3, 999, 1_000, 1_001, 8_192, 8_193, 20_000][random.random_range(0..7)];
    let columns: Vec<[usize; 2]> = (0..random.random_range(1..6))
        .map(|_| [random.random_range(0..11), random.random_range(0..11)])
        .collect();
    let late = [count, count - 1, count / 2][random.random_range(0..3)];
    let row = |row: usize| {
        let id = row.to_string();
        let cells = columns.iter().map(|kinds| match random.random_range(0..10) {
            0 => String::new(),
            _ => cell(random, kinds[usize::from(row >= late)]),
        });
        std::iter::once(id).chain(cells).collect()
    };
    (0..count).map(row).collect()
}

/// The fields of CSV as the program prints it.
fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut is_quoted) = (vec![], vec![], String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                field.push('"');
                characters.next();
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut field)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            character => field.push(character),
        }
    }
    rows
}

/// Whether a printed field is the cell: the very text, or an integer in a column of fractions, which hold it.
fn is_cell(printed: &str, cell: &str) -> bool {
    let whole = cell.parse::<i128>().ok().filter(|whole| whole.to_string() == cell);
    let is_same = whole.is_some_and(|whole| {
        whole as f64 as i128 == whole && printed.parse::<f64>().is_ok_and(|f| f == whole as f64)
    });
    printed == cell || is_same && printed.contains(['.', 'e'])
}

#[test]
fn drawn_files_are_read_as_they_were_written() {
    let folder = folder();
    let mut random = StdRng::seed_from_u64(4_811);
    for round in 0..36 {
        let rows = rows(&mut random);
        let width = rows[0].len();
        let names: Vec<String> = (0..width).map(|column| format!("c{column}")).collect();
        let name = if round % 2 == 0 { "drawn.csv" } else { "drawn.ndjson" };
        let mut text = String::new();
        if round % 2 == 0 {
            writeln!(text, "{}", names.join(",")).unwrap();
            for row in &rows {
                let fields = row.iter().map(|field| match field.contains(['"', '\n', ',']) {
                    true => format!("\"{}\"", field.replace('"', "\"\"")),
                    false => field.clone(),
                });
                writeln!(text, "{}", fields.collect::<Vec<_>>().join(",")).unwrap();
            }
        } else {
            for row in &rows {
                let fields = row.iter().zip(&names).filter(|(field, _)| !field.is_empty());
                let fields = fields.map(|(field, name)| {
                    let number = field.strip_prefix('-').unwrap_or(field);
                    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
                        && !number.contains('-')
                        && (number.len() == 1
                            || !number.starts_with('0')
                            || number.starts_with("0."));
                    match is_number || field == "true" || field == "false" {
                        true => format!("\"{name}\": {field}"),
                        false => format!("\"{name}\": {:?}", field),
                    }
                });
                writeln!(text, "{{{}}}", fields.collect::<Vec<_>>().join(", ")).unwrap();
            }
        }
        write(&folder, name, &text);
        let ran = csv(folder.path(), &format!("SELECT * FROM '{name}'"));
        assert!(ran.ok, "round {round}: {}", ran.err);
        let printed = parse(&ran.out);
        let header: Vec<Option<usize>> =
            names.iter().map(|name| printed[0].iter().position(|n| n == name)).collect();
        assert_eq!(printed.len(), rows.len() + 1, "round {round}");
        let mut by_id = vec![None; rows.len()];
        for row in &printed[1..] {
            let id = header[0].and_then(|place| row[place].parse::<usize>().ok());
            by_id[id.expect("a number")] = Some(row);
        }
        for (row, printed) in rows.iter().zip(by_id) {
            let printed = printed.expect("each row");
            for (cell, place) in row.iter().zip(&header) {
                // A key without values is no column.
                let field = place.map_or("", |place| printed[place].as_str());
                let is_code = round % 2 == 1 && cell.contains('E');
                let same_number = is_code && field.parse::<f64>() == cell.parse::<f64>();
                assert!(is_cell(field, cell) || same_number, "round {round}: {cell:?} {field:?}");
            }
        }
    }
}
