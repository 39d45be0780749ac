//! Errors on the command line: one clear line on standard error, and a status that is
//! not zero.

use std::fs;

use crate::cli::{Ran, folder, run, run_with_input, simjoin};

/// Fails unless the command failed with one line that has all `parts`.
fn assert_one_line(ran: &Ran, parts: &[&str]) {
    assert!(!ran.ok, "status 0 and\n{}", ran.out);
    let lines: Vec<&str> = ran.err.lines().filter(|l| !l.trim().is_empty()).collect();
    assert!(
        lines.len() == 1 || lines.len() == 2 && lines[1].to_lowercase().contains("hint"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    for part in parts {
        assert!(ran.err.contains(part), "{part:?} is missing in {}", ran.err);
    }
}

#[test]
fn names_that_do_not_exist_are_named() {
    let folder = folder();
    for (sql, part) in [
        ("SELECT * FROM nosuch", "nosuch"),
        ("SELECT nosuch FROM 'sets.parquet'", "nosuch"),
        ("SELECT nosuch(id) FROM 'sets.parquet'", "nosuch"),
        ("SELECT * FROM 'nosuch.parquet'", "nosuch.parquet"),
        ("SELEC 1", "SELEC"),
        ("SET simjoin.stratgy = 'auto'", "stratgy"),
        ("SELECT jaccard('a', 'b')", "qgrams"),
    ] {
        let ran = run(folder.path(), &["-q", "--format", "csv", "-c", sql]);
        assert_eq!(ran.out, "", "{sql}");
        assert_one_line(&ran, &[part]);
    }
}

#[test]
fn a_refused_simjoin_says_what_would_work() {
    let folder = folder();
    let from = "SELECT count(*) FROM 'sets.parquet' x SIMJOIN 'sets.parquet' y";
    for on in ["", " ON x.id = y.id", " ON jaccard(x.toks, y.toks) >= 0"] {
        let ran = run(folder.path(), &["-q", "-c", &format!("{from}{on}")]);
        assert_one_line(&ran, &["SIMJOIN"]);
    }
}

#[cfg(not(feature = "ballista"))]
#[test]
fn a_build_without_clusters_names_the_feature() {
    let folder = folder();
    for args in [&["scheduler"][..], &["executor"], &["--scheduler", "localhost", "-c", "SELECT 1"]]
    {
        assert_one_line(
            &run(folder.path(), args),
            &["the feature ballista", "--features ballista"],
        );
    }
}

/// A statement that fails ends the commands, and what ran before has been printed.
#[test]
fn an_error_in_the_middle_stops_the_rest() {
    let folder = folder();
    let commands = [
        "-q",
        "--format",
        "csv",
        "-c",
        "SELECT 1 AS a",
        "-c",
        "SELECT nosuch",
        "-c",
        "SELECT 2 AS b",
    ];
    let ran = run(folder.path(), &commands);
    assert!(!ran.ok);
    assert_eq!(ran.out, "a\n1\n", "{}", ran.err);
    let input = "SELECT nosuch;\n";
    assert!(!run_with_input(folder.path(), &["-q"], input).ok, "standard input");
    fs::write(folder.path().join("wrong.sql"), input).expect("a file");
    assert!(!run(folder.path(), &["-q", "-f", "wrong.sql"]).ok, "a file");
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    let folder = folder();
    for arguments in [
        &["--format", "yaml", "-c", "SELECT 1"][..],
        &["--memory-limit", "lots", "-c", "SELECT 1"],
        &["--maxrows", "-3", "-c", "SELECT 1"],
        &["--nosuch"],
        &["-f", "nosuch.sql"],
    ] {
        let ran = run(folder.path(), arguments);
        assert!(!ran.ok, "{arguments:?}");
        assert!(!ran.err.is_empty() && !ran.err.contains("panicked"), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn a_truncated_parquet_file_is_an_error() {
    let folder = folder();
    let bytes = fs::read(folder.path().join("sets.parquet")).expect("the file");
    for len in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(folder.path().join("cut.parquet"), &bytes[..len]).expect("a file");
        let sql = "SELECT count(*) FROM 'sets.parquet' x SIMJOIN 'cut.parquet' y \
                   ON jaccard(x.toks, y.toks) >= 0.5";
        let ran = run(folder.path(), &["-q", "--format", "csv", "-c", sql]);
        assert_eq!(ran.out, "", "{len} bytes");
        assert_one_line(&ran, &[]);
    }
}

#[test]
fn a_memory_limit_that_does_not_do_is_a_resource_error() {
    let folder = folder();
    let sql = "SELECT count(*) AS n FROM (SELECT value AS id, [value, value + 1] AS toks \
               FROM generate_series(1, 300000)) x SIMJOIN (SELECT value + 0 AS id, \
               [value, value + 1] AS toks FROM generate_series(1, 300001)) y \
               ON jaccard(x.toks, y.toks) >= 0.5";
    let ran = run(folder.path(), &["-q", "--memory-limit", "100k", "-c", sql]);
    assert_one_line(&ran, &["memory limit", "SetSimilarityJoin"]);
    // From disk, and in memory.
    for limit in ["4m", "1g"] {
        let ran =
            run(folder.path(), &["-q", "--format", "csv", "--memory-limit", limit, "-c", sql]);
        assert_eq!(ran.out, "n\n300000\n", "{}", ran.err);
    }
}

#[test]
fn options_come_from_the_environment() {
    let folder = folder();
    let show = ["-q", "--format", "csv", "-c", "SHOW simjoin.strategy"];
    let ran: Ran = simjoin(folder.path())
        .args(show)
        .env("SIMJOIN_STRATEGY", "ppjoin")
        .output()
        .unwrap()
        .into();
    assert!(ran.out.ends_with("simjoin.strategy,ppjoin\n"), "{}\n{}", ran.out, ran.err);
    let ran: Ran =
        simjoin(folder.path()).args(show).env("SIMJOIN_STRATEGY", "fast").output().unwrap().into();
    assert_one_line(&ran, &["SIMJOIN_STRATEGY", "ppjoin"]);
}
