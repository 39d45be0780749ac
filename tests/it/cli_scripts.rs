//! Scripts: where statements end, what runs when one of them fails, and what is told beside the
//! answers.

use std::fs;

use crate::cli::{Ran, folder, run, run_with_input, simjoin};

fn csv(folder: &std::path::Path, sql: &str) -> Ran {
    run(folder, &["-q", "--format", "csv", "-c", sql])
}

/// Statements are parsed when their turn comes, wherever they stand: a file may be endless, and SET
/// may change how the rest is read.
#[test]
fn what_stands_before_a_mistake_runs() {
    let folder = folder();
    let sql = "SELECT 1 AS a; SELEC 2; SELECT 3 AS c;\n";
    fs::write(folder.path().join("mixed.sql"), sql).expect("a file");
    for (ran, place) in [
        (run(folder.path(), &["-q", "--format", "csv", "-c", sql]), ""),
        (run(folder.path(), &["-q", "--format", "csv", "-f", "mixed.sql"]), "mixed.sql:1: "),
        (run_with_input(folder.path(), &["-q", "--format", "csv"], sql), ""),
    ] {
        assert!(!ran.ok);
        assert_eq!(ran.out, "a\n1\n");
        let expected = "Expected: an SQL statement, found: SELEC at Line: 1, Column: 16\n";
        assert_eq!(ran.err, format!("Error: {place}{expected}"));
    }
}

#[test]
fn a_script_may_keep_going() {
    let folder = folder();
    let sql = "SELECT 1 AS a;\nSELECT nosuch;\n\\nosuch\n\\i nosuch.sql\nSELECT 3 AS c;\n";
    fs::write(folder.path().join("mixed.sql"), sql).expect("a file");
    for ran in [
        run(folder.path(), &["-q", "--format", "csv", "--keep-going", "-f", "mixed.sql"]),
        run_with_input(folder.path(), &["-q", "--format", "csv", "--keep-going"], sql),
        run(
            folder.path(),
            &["-q", "--format", "csv", "--keep-going", "-c", "\\i mixed.sql", "-c", "\\?x"],
        ),
    ] {
        assert!(!ran.ok, "the status tells of the mistakes");
        assert_eq!(ran.out, "a\n1\nc\n3\n", "{}", ran.err);
        assert!(ran.err.matches("Error: ").count() >= 3, "{}", ran.err);
    }
    assert!(run(folder.path(), &["-q", "--keep-going", "-c", "SELECT 1"]).ok);
}

#[test]
fn a_file_of_a_windows_editor_runs() {
    let folder = folder();
    fs::write(folder.path().join("bom.sql"), "\u{feff}SELECT 1 AS a;\r\nSELECT 2 AS b;\r\n")
        .unwrap();
    let ran = run(folder.path(), &["-q", "--format", "csv", "-f", "bom.sql"]);
    assert_eq!(ran.out, "a\n1\nb\n2\n", "{}", ran.err);
}

#[test]
fn a_bare_word_brings_a_tip() {
    let folder = folder();
    for (word, tip) in [("query.sql", "-f query.sql"), ("SELECT 1", "-c 'SELECT 1'")] {
        let output = simjoin(folder.path()).arg(word).output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(2));
        let told = String::from_utf8(output.stderr).expect("text");
        assert!(told.contains("tip: ") && told.contains(tip), "{told}");
    }
}

#[test]
fn a_threshold_that_nothing_reaches_is_told() {
    let folder = folder();
    let from = "SELECT count(*) AS n FROM 'sets.parquet' x SIMJOIN 'sets.parquet' y ON";
    let ran = csv(folder.path(), &format!("{from} jaccard(x.toks, y.toks) >= 80"));
    assert_eq!(ran.out, "n\n0\n");
    assert!(
        ran.err.starts_with("Warning: no pair can satisfy jaccard(x.toks, y.toks) >= 80: "),
        "{}",
        ran.err
    );
    let ran = csv(folder.path(), &format!("{from} jaccard(x.toks, y.toks) >= 1"));
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("n\n3\n", ""));
}

#[test]
fn vectors_with_nan_are_told() {
    let folder = folder();
    let table = "CREATE TABLE t AS SELECT id, [x / r, y / r] AS v FROM (SELECT id, x, y, sqrt(x * x + y * y) AS r \
                 FROM (VALUES (1, 3.0, 4.0), (2, 0.0, 0.0), (3, 3.1, 4.0), (4, 0.0, 0.0)) t(id, x, y)); ";
    let on = "ON array_distance(a.v, b.v) <= 0.1 AND a.id < b.id";
    let near = "NEAREST 1 BY DISTANCE array_distance(a.v, b.v) ON a.id <> b.id";
    let one = "(SELECT * FROM t WHERE id < 4) a";
    for (from, rows, expected) in [
        (
            format!("t a SIMJOIN t b {on}"),
            "1,3\n",
            "Note: 2 rows have NaN in v: array_distance gives NaN there, so that they match nothing\n",
        ),
        (
            format!("{one} SIMJOIN t b {on}"),
            "1,3\n",
            "Note: 1 row of the left side has NaN in v: array_distance gives NaN there, so that it matches \
             nothing\nNote: 2 rows of the right side have NaN in v: array_distance gives NaN there, so that \
             they match nothing\n",
        ),
        (
            format!("t a SIMJOIN t b {near}"),
            "1,3\n3,1\n",
            "Note: 2 rows have NaN in v: array_distance gives NaN there, so that they do not rank\n",
        ),
    ] {
        let sql = format!("{table}SELECT a.id, b.id AS o FROM {from} ORDER BY 1, 2");
        let ran = csv(folder.path(), &sql);
        assert_eq!(
            (ran.out.as_str(), ran.err.as_str()),
            (format!("id,o\n{rows}").as_str(), expected)
        );
    }
    let sql = format!("{table}SELECT count(*) AS n FROM t a JOIN t b {on}");
    let ran = csv(folder.path(), &sql);
    assert!(
        ran.err.starts_with(
            "Note: 2 rows have NaN in v: array_distance gives NaN there, which a plain JOIN compares as \
             ORDER BY does: below or above every number by its sign. SIMJOIN leaves it out\n"
        ),
        "{}",
        ran.err
    );
}

#[test]
fn a_variable_that_sets_nothing_is_told() {
    let folder = folder();
    let mut command = simjoin(folder.path());
    command.args(["-q", "--format", "csv", "-c", "SELECT 1 AS a"]);
    let ran: Ran = command.env("SIMJOIN_NOPE", "1").output().expect("the binary starts").into();
    assert_eq!(ran.out, "a\n1\n");
    let parts = ["Warning: SIMJOIN_NOPE ", "SIMJOIN_STRATEGY", "SIMJOIN_DEBUG_GPU_LAYOUT"];
    assert!(parts.iter().all(|part| ran.err.contains(part)), "{}", ran.err);
}

#[test]
fn options_are_listed_and_reset() {
    let folder = folder();
    let ran = csv(folder.path(), "SHOW simjoin");
    assert!(
        ran.out.starts_with("name,value,description\nsimjoin.broadcast_limit,64M,"),
        "{}",
        ran.out
    );
    let sql = "SET simjoin.strategy = 'ppjoin'; RESET simjoin.strategy; SHOW simjoin.strategy";
    let ran = csv(folder.path(), sql);
    assert_eq!(ran.out, "name,value\nsimjoin.strategy,auto\n", "{}", ran.err);
}

#[test]
fn a_view_is_shown_as_it_was_written() {
    let folder = folder();
    let view = "CREATE VIEW pairs AS SELECT x.id, y.id AS other FROM 'sets.parquet' AS x LEFT ANTI \
                SIMJOIN 'sets.parquet' AS y ON jaccard(x.toks, y.toks) >= 0.7 OR x.id = y.id";
    let view = view.replace("LEFT ANTI SIMJOIN", "SIMJOIN").replace(" OR x.id", " AND x.id");
    let ran =
        csv(folder.path(), &format!("{view}; SHOW CREATE TABLE pairs; SELECT count(*) FROM pairs"));
    assert!(ran.ok && ran.out.contains(&view), "{}{}", ran.out, ran.err);
    assert!(!ran.out.contains("__simjoin"), "{}", ran.out);
}

#[test]
fn functions_have_a_page_each() {
    let folder = folder();
    let ran = run(folder.path(), &["-q", "-c", "\\h word_tokens"]);
    assert!(ran.out.starts_with("word_tokens(text)\n"), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("NFC") && ran.out.lines().all(|line| line.len() <= 82), "{}", ran.out);
    for name in ["connected_components", "representatives", "one_to_one"] {
        let ran = run(folder.path(), &["-q", "-c", &format!("\\h {name}")]);
        assert!(ran.out.starts_with(&format!("{name}(pairs")), "{}{}", ran.out, ran.err);
        assert!(ran.out.contains("(table function over pairs)"), "{}", ran.out);
        assert!(
            ran.out.contains("Example") && ran.out.lines().all(|line| line.len() <= 82),
            "{}",
            ran.out
        );
        let ran = run(folder.path(), &["-q", "--format", "csv", "-c", "\\h"]);
        assert!(ran.out.contains(&format!("{name},TABLE\n")), "{}", ran.out);
    }
    let ran = run(folder.path(), &["-q", "-c", "\\h nosuch"]);
    assert!(!ran.ok && ran.err.contains("no function nosuch"), "{}", ran.err);
}

#[test]
fn a_wrong_number_of_arguments_is_told_in_words() {
    let folder = folder();
    for (call, expected) in [
        (
            "jaccard([1])",
            "jaccard takes two lists of tokens, found one argument (List(Int64)); for \
                          example: jaccard(a.tokens, b.tokens)",
        ),
        ("overlap()", "overlap takes two lists of tokens, found none;"),
        ("sorensen_dice([1], [2], [3])", "dice takes two lists of tokens, found 3 arguments ("),
        ("qgrams('a')", "qgrams takes a text and the length q, found one argument (Utf8);"),
        ("word_tokens('a', 2)", "word_tokens takes a text, found 2 arguments (Utf8, Int64);"),
        ("shingles()", "shingles takes a list and the length k, found none; for example:"),
    ] {
        let ran = csv(folder.path(), &format!("SELECT {call}"));
        assert!(!ran.ok && ran.err.contains(expected), "{call}: {}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
}

#[test]
fn json_keeps_columns_of_one_name_apart() {
    let folder = folder();
    for (format, expected) in
        [("json", "[{\"id\":1,\"id:1\":2}]\n"), ("nd-json", "{\"id\":1,\"id:1\":2}\n")]
    {
        let sql = "SELECT x.id, y.id FROM (SELECT 1 AS id) x, (SELECT 2 AS id) y";
        let ran = run(folder.path(), &["-q", "--format", format, "-c", sql]);
        assert_eq!(ran.out, expected, "{}", ran.err);
    }
}
