//! Parquet files whose statistics leave NaN out: statements over a file have the answers of the same
//! statements over a table in memory. Footers that contradict themselves are errors.

use std::fmt::Write as _;
use std::fs;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tempfile::tempdir;

use crate::cli::run;

const VALUES: [&str; 9] = ["1.0", "1.0", "NaN", "-0.0", "0.0", "5.5", "inf", "-inf", "-2.5"];

/// Statements over a table `from` whose rows are (id, x, y, n).
fn statements(from: &str) -> Vec<String> {
    let mut all = vec![
        format!("SELECT * FROM {from} ORDER BY id"),
        format!(
            "SELECT count(*) AS c, max(x) AS a, min(x) AS b, max(y) AS d, max(n) AS e, min(n) AS f FROM {from}"
        ),
        format!("SELECT id, x FROM {from} ORDER BY x DESC, id LIMIT 3"),
        format!("SELECT id, y FROM {from} ORDER BY y, id LIMIT 2"),
        format!("SELECT a.id, b.id AS o FROM {from} a JOIN {from} b ON a.x = b.x ORDER BY a.id, o"),
        format!("SELECT id FROM {from} WHERE x IN (5.5, arrow_cast('NaN', 'Float64')) ORDER BY id"),
        format!(
            "SELECT id FROM {from} WHERE x IS NOT DISTINCT FROM arrow_cast('NaN', 'Float64') ORDER BY id"
        ),
        format!("SELECT x, count(*) AS c FROM {from} GROUP BY x ORDER BY c, x"),
    ];
    for condition in
        ["x > 5.0", "x >= 1", "y > 1", "x <> 1.0", "NOT x <= 100.0", "x > n", "n = 7 AND y > 2"]
    {
        all.push(format!("SELECT id FROM {from} WHERE {condition} ORDER BY id"));
    }
    all
}

#[test]
fn floats_of_parquet_are_those_of_memory() {
    let mut rng = StdRng::seed_from_u64(48);
    for round in 0..12 {
        let folder = tempdir().expect("a folder");
        let rows = rng.random_range(1..40);
        // Few values, so that bounds are often equal.
        let known = VALUES.choose_multiple(&mut rng, 1 + round % 4).copied().collect::<Vec<_>>();
        let mut values = String::new();
        for id in 0..rows {
            let mut float = || match rng.random_range(0..12) {
                0 if round % 2 == 0 => "NULL".to_string(),
                1 | 2 => "'NaN'".to_string(),
                _ => format!("'{}'", known.choose(&mut rng).expect("a value")),
            };
            let (x, y) = (float(), float());
            let separator = if id == 0 { "" } else { ", " };
            write!(values, "{separator}({id}, {x}, {y}, 7)").expect("a text");
        }
        let made = format!(
            "CREATE TABLE m AS SELECT column1 AS id, arrow_cast(column2, 'Float64') AS x, \
             arrow_cast(column3, 'Float32') AS y, column4 AS n FROM (VALUES {values})"
        );
        let groups = [1, 3, 1000][round % 3];
        let mut script = format!(
            "SET datafusion.execution.parquet.max_row_group_size = {groups}; \
             SET datafusion.execution.parquet.pushdown_filters = {}; {made}; \
             COPY m TO 't.parquet'; CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION 't.parquet'; ",
            round % 4 == 3
        );
        let tables = ["m", "'t.parquet'", "e"];
        let of_tables = tables.map(statements);
        let count = of_tables[0].len();
        for place in 0..count {
            for (number, statements) in of_tables.iter().enumerate() {
                let statement = &statements[place];
                write!(script, "SELECT '{place}, {number}' AS mark; {statement}; ")
                    .expect("a text");
            }
        }
        let ran = run(folder.path(), &["-q", "--format", "csv", "-c", &script]);
        assert!(ran.ok, "{}", ran.err);
        // What stands behind the marks of three tables.
        let answers: Vec<&str> = ran.out.split("mark\n").skip(1).collect();
        assert_eq!(answers.len(), 3 * count, "{}", ran.out);
        for answers in answers.chunks(3) {
            let rows = answers.iter().map(|text| text.split_once('\n').expect("a mark").1);
            let rows: Vec<&str> = rows.collect();
            assert_eq!(rows[0], rows[1], "{} of {made}", answers[1]);
            assert_eq!(rows[0], rows[2], "{} of {made}", answers[2]);
        }
    }
}

/// The reader gives as many rows as the footer tells of, `count(*)` those of the row groups.
#[test]
fn a_footer_with_fewer_rows_than_its_row_groups_is_an_error() {
    let folder = tempdir().expect("a folder");
    let made = run(folder.path(), &["-q", "-c", "COPY (VALUES (1), (2)) TO 'a.parquet'"]);
    assert!(made.ok, "{}", made.err);
    let path = folder.path().join("a.parquet");
    let mut bytes = fs::read(&path).expect("the file");
    // The field `num_rows` of FileMetaData in Thrift's compact form, and the list of one row group behind it.
    let rows = [0x16, 2 << 1, 0x19, 0x1c];
    let places = bytes.windows(rows.len()).enumerate().filter(|(_, window)| *window == rows);
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    assert_eq!(places.len(), 1, "the footer has another form");
    bytes[places[0] + 1] = 0;
    fs::write(&path, bytes).expect("the file");
    for sql in ["SELECT * FROM 'a.parquet'", "SELECT count(*) FROM 'a.parquet'"] {
        let ran = run(folder.path(), &["-q", "-c", sql]);
        let told = "a.parquet is damaged: its footer tells of 0 rows, and its row groups have 2";
        assert!(!ran.ok && ran.err.contains(told), "{sql}: {} {}", ran.out, ran.err);
    }
}
