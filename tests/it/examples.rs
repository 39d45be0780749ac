//! Runs every file of `sql-examples` through the binary and compares what it prints with the
//! `.out` file beside it.
//!
//! `UPDATE_EXAMPLES=1` writes the `.out` files, to be read in the diff.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::run;

/// The repository, where the examples are run.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The names of the examples that have a file with this extension.
fn examples(extension: &str) -> BTreeSet<String> {
    let folder = fs::read_dir(root().join("sql-examples")).expect("sql-examples");
    folder
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_string()))
        .collect()
}

/// One after the other: one of them writes a file, which it reads again.
#[test]
fn every_example_prints_what_is_kept_beside_it() {
    let update = std::env::var_os("UPDATE_EXAMPLES").is_some();
    let names = examples("sql");
    assert!(names.len() >= 8, "{names:?}");
    // What COPY writes goes there; a target folder elsewhere may leave none here.
    fs::create_dir_all(root().join("target")).expect("a folder for output");
    let mut wrong = vec![];
    for name in &names {
        let ran = run(root(), &["-f", &format!("sql-examples/{name}.sql")]);
        assert!(ran.ok && ran.err.is_empty(), "{name}: {}", ran.err);
        let printed = normalized(&ran.out);
        let kept: PathBuf = root().join(format!("sql-examples/{name}.out"));
        if update {
            fs::write(&kept, printed).expect("an output file");
        } else if fs::read_to_string(&kept).ok().as_ref() != Some(&printed) {
            wrong.push(format!("{name} prints\n{printed}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nnot what the .out files have; UPDATE_EXAMPLES=1 writes them",
        wrong.join("\n")
    );
    let outputs = examples("out");
    assert_eq!(
        outputs, names,
        "each .sql file needs its .out file, and each .out file a .sql file"
    );
}

/// The output of a run without the parts that differ from run to run: times, the values of metrics
/// but for the number of output rows, and the summary that is derived from them.
fn normalized(printed: &str) -> String {
    // A table's lines are as wide as its widest cell, which depends on the metrics.
    let tables: Vec<&str> = printed.split_inclusive("\n\n").collect();
    tables.into_iter().map(normalized_table).collect()
}

fn normalized_table(table: &str) -> String {
    let has_metrics = table.contains("metrics=[");
    // Of the summary its first line stays.
    let mut in_summary = false;
    let lines = table.lines().filter(|line| {
        let goes_on = in_summary && line.starts_with("|  ");
        in_summary = goes_on || line.starts_with("| Summary ");
        !goes_on
    });
    let lines = lines.map(|line| {
        if line.starts_with("Elapsed ") {
            return "Elapsed … seconds.".to_string();
        }
        if !has_metrics {
            return line.to_string();
        }
        if line.starts_with("+-") {
            return line
                .split('+')
                .map(|part| part.get(..19).unwrap_or(part))
                .collect::<Vec<_>>()
                .join("+");
        }
        match line.strip_suffix('|') {
            Some(row) if row.starts_with("| Summary ") => "| Summary | … |".to_string(),
            Some(row) => format!("{} |", without_value(&without_values(row.trim_end()))),
            None => line.to_string(),
        }
    });
    lines.map(|line| line + "\n").collect()
}

/// Blanks the values between `metrics=[` and `]`, and the strategy chosen with its estimate and why
/// it runs on the CPU.
fn without_values(line: &str) -> String {
    // The strategy depends on the processor.
    let line = match (line.find("chosen="), line.find("), cpu")) {
        (Some(start), Some(end)) => {
            let rest = &line[end + "), cpu".len()..];
            let (why, rest) = match rest.strip_prefix(" (").and_then(|why| why.split_once(')')) {
                Some((_, rest)) => (" (…)", rest),
                None => ("", rest),
            };
            format!("{}chosen=… (estimated …), cpu{why}{rest}", &line[..start])
        }
        _ => line.to_string(),
    };
    let Some((plan, metrics)) = line.split_once("metrics=[") else { return line };
    let metrics = metrics.strip_suffix(']').expect("metrics end the line");
    let blanked: Vec<String> = metrics
        .split(", ")
        .filter(|metric| !metric.is_empty())
        .map(|metric| match metric.split_once('=') {
            Some(("output_rows", _)) | None => metric.to_string(),
            Some((name, _)) => format!("{name}=…"),
        })
        .collect();
    format!("{plan}metrics=[{}]", blanked.join(", "))
}

/// Blanks the value of a counter that has a line of its own, but for the number of output rows.
fn without_value(line: &str) -> String {
    let Some((indent, counter)) = line.rsplit_once("|       ") else { return line.to_string() };
    let Some((name, value)) = counter.trim_start().split_once(' ') else {
        return line.to_string();
    };
    if name == "output_rows" || !value.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
        return line.to_string();
    }
    let name_at = counter.len() - counter.trim_start().len();
    format!("{indent}|       {}{name} …", &counter[..name_at])
}

#[test]
fn values_that_differ_from_run_to_run_are_blanked() {
    let printed = "\
+-------------------+---------------------------------------------------------+
| plan_type         | plan                                                    |
+-------------------+---------------------------------------------------------+
| Plan with Metrics | X: a=1, metrics=[output_rows=7, bytes=1.0 KB, time=3ns] |
|                   |   Y: metrics=[]                                         |
+-------------------+---------------------------------------------------------+
1 row(s) fetched. 
Elapsed 0.014 seconds.

";
    let expected = "\
+-------------------+-------------------+
| plan_type         | plan |
+-------------------+-------------------+
| Plan with Metrics | X: a=1, metrics=[output_rows=7, bytes=…, time=…] |
|                   |   Y: metrics=[] |
+-------------------+-------------------+
1 row(s) fetched. 
Elapsed … seconds.

";
    assert_eq!(normalized(printed), expected);
    assert_eq!(
        without_values("J: chosen=x (estimated 1.5 ms; y 2.0 ms), cpu"),
        "J: chosen=… (estimated …), cpu"
    );
    assert_eq!(
        without_values("J: chosen=x (estimated 1 ms), cpu (1 ms; with a GPU 5 ms), metrics=[a=1]"),
        "J: chosen=… (estimated …), cpu (…), metrics=[a=…]"
    );
    assert_eq!(
        without_value("|     |         build_bytes      1.2 MB"),
        "|     |         build_bytes …"
    );
    assert_eq!(
        without_value("|     |         output_rows      7"),
        "|     |         output_rows      7"
    );
    assert_eq!(without_value("|     |       build side"), "|     |       build side");
    let table = "+---+\n| a |\n+---+\n| 1 |\n+---+\n";
    assert_eq!(normalized(table), table);
}
