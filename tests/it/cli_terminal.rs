//! Output that a person sees: control characters, the width of the terminal, plans in words.

use std::fs;

use crate::cli::{Ran, folder, run, simjoin};
#[cfg(unix)]
use crate::pty::Prompt;

const ESCAPE: char = '\x1b';

/// A cell, a heading and a name that clear the screen and set the title, as SQL.
const NASTY: &str = "SELECT 'x\x1b[2J\x1b]0;t\x07\u{9b}\u{202e}' AS \"h\x1b[1m\"";

#[test]
fn control_characters_of_data_and_names_are_shown_as_text() {
    let folder = folder();
    let table = run(folder.path(), &["-q", "-c", NASTY]);
    let shown = "x\\x1B[2J\\x1B]0;t\\x07\\u009B\\u202E";
    assert!(table.out.contains(shown) && table.out.contains("h\\x1B[1m"), "{:?}", table.out);
    assert!(!table.out.contains([ESCAPE, '\x07', '\u{9b}', '\u{202e}']), "{:?}", table.out);
    // Files keep the data.
    let csv = run(folder.path(), &["-q", "--format", "csv", "-c", NASTY]);
    assert_eq!(csv.out, "h\x1b[1m\nx\x1b[2J\x1b]0;t\x07\u{9b}\u{202e}\n");
    for sql in [
        "SELECT * FROM 'no\x1b[31mfile.csv'",
        "SELECT \"a\x1b[31m\" FROM 'sets.parquet'",
        "SELECT CAST('\x1b[31m' AS INT)",
    ] {
        let ran = run(folder.path(), &["-q", "-c", sql]);
        assert!(!ran.ok && ran.err.contains("\\x"), "{sql:?}: {:?}", ran.err);
        assert!(!ran.err.contains([ESCAPE, '\x07']), "{sql:?}: {:?}", ran.err);
    }
}

#[cfg(unix)]
#[test]
fn a_terminal_gets_no_control_characters_of_data() {
    let folder = folder();
    fs::write(folder.path().join("nasty.csv"), "h\nx\x1b[2J\x07\n").expect("a file");
    let mut prompt = Prompt::start(folder.path());
    for (format, shown) in
        [("table", "x\\x1B[2J\\x07"), ("csv", "x\\x1B[2J\\x07"), ("json", "x\\u001b[2J\\u0007")]
    {
        prompt.enter(&format!("\\pset format {format}"));
        prompt.expect("> ");
        prompt.enter("SELECT * FROM 'nasty.csv';");
        let printed = prompt.expect(shown) + &prompt.expect("> ");
        assert!(!printed.contains(['\x07']) && !printed.contains("\x1b[2J"), "{printed:?}");
    }
}

#[cfg(unix)]
#[test]
fn tables_are_fitted_to_the_terminal() {
    let folder = folder();
    let mut prompt = Prompt::start_in(folder.path(), 40);
    let sql = "SELECT 7 AS n, 'a text that is wider than this terminal, by some words' AS text;";
    let wide = "| 7 | a text that is wider than this terminal, by some words |";
    prompt.enter(sql);
    prompt.expect(&format!("| 7 | {:32} |", "a text that is wider than this"));
    prompt.expect(&format!("|   | {:32} |", "terminal, by some words"));
    prompt.expect("> ");
    // Three columns of text have no room beside each other.
    let three = "SELECT repeat('a ', 20) AS x, repeat('b ', 20) AS y, repeat('c ', 20) AS z;";
    prompt.enter(three);
    prompt.expect("-[ RECORD 1 ]-");
    prompt.expect("\nx | a a a");
    prompt.expect("> ");
    prompt.enter("\\x off");
    prompt.expect("> ");
    prompt.enter(three);
    prompt.expect("| x ");
    prompt.expect("> ");
    prompt.enter("\\x on");
    prompt.expect("> ");
    prompt.enter("SELECT 8 AS n;");
    prompt.expect("n | 8");
    prompt.expect("> ");
    prompt.enter("\\pset columns inf");
    prompt.expect("> ");
    prompt.enter("\\x off");
    prompt.expect("> ");
    prompt.enter(sql);
    prompt.expect(wide);
}

#[test]
fn tables_outside_of_a_terminal_are_fitted_on_demand() {
    let folder = folder();
    let sql = "SELECT 7 AS n, repeat('word ', 50) AS text";
    let ran = run(folder.path(), &["-q", "-c", sql]);
    assert!(ran.out.lines().all(|line| line.len() > 250), "{}", ran.out);
    let ran = run(folder.path(), &["-q", "--columns", "60", "-c", sql]);
    assert!(ran.out.lines().all(|line| line.len() == 60), "{}", ran.out);
    let ran = run(folder.path(), &["-q", "--expanded", "on", "-c", sql]);
    assert!(
        ran.out.starts_with("-[ RECORD 1 ]") && ran.out.contains("\nn    | 7\n"),
        "{}",
        ran.out
    );
    assert_eq!(ran.out.lines().count(), 3);
}

const JOIN: &str = "SELECT count(*) FROM 'sets.parquet' x SIMJOIN 'sets.parquet' y \
                    ON jaccard(x.toks, y.toks) >= 0.7 AND x.id < y.id";

/// One counter a line, after a summary in words; programs get DataFusion's form.
#[test]
fn explain_analyze_is_for_people_in_the_table_format() {
    let folder = folder();
    let analyze = |arguments: &[&str], explain: &str| -> Ran {
        let sql = format!("{explain} {JOIN}");
        simjoin(folder.path()).args(arguments).args(["-c", &sql]).output().unwrap().into()
    };
    let ran = analyze(&["-q"], "EXPLAIN ANALYZE");
    assert!(ran.ok, "{}", ran.err);
    let summary = ran.out.lines().nth(3).expect("a row");
    assert!(summary.starts_with("| Summary ") && summary.contains(" elapsed, "), "{}", ran.out);
    assert!(ran.out.contains(" in jaccard(x.toks, y.toks) >= 0.7, most of it ("), "{}", ran.out);
    for line in ["build side", "build_rows", "4", "candidates", "matches", "chosen="] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    assert!(!ran.out.contains("build_rows="), "{}", ran.out);
    let narrow = analyze(&["-q", "--columns", "80"], "EXPLAIN ANALYZE");
    assert!(narrow.out.lines().all(|line| line.chars().count() <= 80), "{}", narrow.out);
    let csv = analyze(&["-q", "--format", "csv"], "EXPLAIN ANALYZE");
    assert!(csv.out.contains("metrics=[") && !csv.out.contains("Summary"), "{}", csv.out);
    let verbose = analyze(&["-q"], "EXPLAIN ANALYZE VERBOSE");
    for part in ["| Summary ", "Plan with Full Metrics", "cpu", "probe_rows="] {
        assert!(verbose.out.contains(part), "{part}: {}", verbose.out);
    }
    let other = run(folder.path(), &["-q", "-c", "EXPLAIN ANALYZE SELECT 1"]);
    assert!(!other.out.contains("Summary") && other.out.contains("metrics="), "{}", other.out);
}

#[test]
fn json_keeps_the_keys_of_nulls() {
    let folder = folder();
    let sql = "SELECT 1 AS a, NULL AS c";
    for (format, expected) in
        [("json", "[{\"a\":1,\"c\":null}]\n"), ("nd-json", "{\"a\":1,\"c\":null}\n")]
    {
        let ran = run(folder.path(), &["-q", "--format", format, "-c", sql]);
        assert_eq!(ran.out, expected, "{}", ran.err);
    }
}

/// Names that users of other systems type lead to the ones here.
#[test]
fn names_of_other_systems_are_understood() {
    let folder = folder();
    let from = "SELECT 1 FROM 'names.csv' a SIMJOIN 'names.csv' b ON";
    for (sql, parts) in [
        (
            format!("{from} a.name = b.name"),
            &[
                "jaccard, dice",
                "jaro_winkler_similarity or inner_product >= a constant",
                "levenshtein",
                "array_distance",
            ][..],
        ),
        (
            format!("{from} levenshtein(a.name, b.name) <> 1"),
            &["the distance must be compared by <=", "levenshtein_similarity(a, b)"],
        ),
        ("SELECT jaro_winkler('a', 'b')".to_string(), &["jaro_winkler_similarity(a, b)"]),
        ("SELECT id FROM 'names.csv' ORDER BY [1.0] <-> [2.0]".to_string(), &["array_distance"]),
        (
            "SELECT 1 FROM 'sets.parquet' a, LATERAL (SELECT 1 FROM 'sets.parquet' b \
             ORDER BY jaccard(a.toks, b.toks) LIMIT 3)"
                .to_string(),
            &["reads toks of the query around it", "NEAREST 5 BY SIMILARITY"],
        ),
        (
            "SELECT 1 FROM 'names.csv' a SIMJOIN 'names.csv' b ON a.id <> b.id \
             NEAREST 2 BY DISTANCE levenshtein(a.name, b.name)"
                .to_string(),
            &["NEAREST stands before ON", "NEAREST 5 BY DISTANCE levenshtein(a.s, b.s) ON"],
        ),
        (
            "SELECT a.id FROM 'names.csv' a, 'names.csv' b ORDER BY levenshtein(a.name, b.name) \
             LIMIT 2 BY a.id"
                .to_string(),
            &["NEAREST 5 BY"],
        ),
        ("SELECT * FROM vector_search(1, 2)".to_string(), &["NEAREST 5 BY"]),
        ("SELECT normalize('a', NFC)".to_string(), &["normalize(text, 'NFC')"]),
        ("SELECT 'a' IS NFC NORMALIZED".to_string(), &["x = normalize(x, 'NFC')"]),
        ("SELECT strip_accents('é')".to_string(), &["unaccent(text) drops accents"]),
        ("SELECT bit_count(7)".to_string(), &["overlap(a.bits, b.bits) >= 64 - 6"]),
        ("SELECT 1 # 2".to_string(), &["a ^ b"]),
        (
            format!("{from} hamming(a.id, b.id) <= 6"),
            &["hamming expects text, found Int64", "overlap(a.bits, b.bits) >= 64 - 6"],
        ),
        (
            format!("{from} levenshtein(a.id, b.id) <= 1"),
            &["levenshtein expects text, found Int64", "zip TEXT"],
        ),
        (
            format!("{from} jaro_winkler_similarity(a.name, b.name) >= 0.9 OR a.id < b.id"),
            &["similar in none of its parts"],
        ),
    ] {
        let ran = run(folder.path(), &["-q", "-c", &sql]);
        assert!(!ran.ok, "{sql}");
        for part in parts {
            assert!(ran.err.contains(part), "{sql}: {part:?} is missing in {}", ran.err);
        }
        assert!(!ran.err.contains("var_sample"), "{}", ran.err);
    }
    let shown = run(folder.path(), &["-q", "-c", "SHOW FUNCTIONS LIKE '%distance'"]);
    for name in ["array_distance", "cosine_distance"] {
        assert!(shown.out.contains(name), "{}\n{}", shown.out, shown.err);
    }
}

#[test]
fn two_tokenizers_and_unknown_variables_are_warned_of() {
    let folder = folder();
    let sql = "SELECT count(*) AS n FROM 'names.csv' a SIMJOIN 'names.csv' b \
               ON jaccard(word_tokens(a.name), qgrams(b.name, 3)) >= 0.1";
    let ran: Ran = simjoin(folder.path())
        .args(["-q", "--format", "csv", "-c", sql])
        .env("DATAFUSION_EXECUTION_BATCH_SIZ", "5")
        .output()
        .unwrap()
        .into();
    assert!(ran.ok && ran.out.starts_with("n\n"), "{}", ran.err);
    let warnings: Vec<&str> = ran.err.lines().collect();
    assert_eq!(warnings.len(), 2, "{}", ran.err);
    assert!(warnings[0].contains("Did you mean DATAFUSION_EXECUTION_BATCH_SIZE?"), "{}", ran.err);
    assert!(warnings[1].contains("word_tokens(…) with those of qgrams(…, 3)"), "{}", ran.err);
}

/// The bound of docs/sql.md, for texts of few letters: of those with more than 2 · 2 different
/// 2-grams, q-grams find every pair within two edits.
#[test]
fn q_grams_find_every_pair_within_an_edit_distance() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = "CREATE TABLE t AS SELECT value AS id, translate(left(md5(value::text), \
                 3 + value % 7), '0123456789abcdef', 'abcdabcdabcdabcd') AS s \
                 FROM generate_series(1, 400)";
    let grams = "greatest(cardinality(qgrams(a.s, 2)), cardinality(qgrams(b.s, 2)))";
    for (common, edits) in [(1, 1), (1, 2), (2, 2), (1, 3)] {
        let near = format!(
            "levenshtein(a.s, b.s) <= {edits} AND a.id < b.id AND {grams} >= {common} + 2 * {edits}"
        );
        let overlap = format!("overlap(qgrams(a.s, 2), qgrams(b.s, 2)) >= {common}");
        let counts = [
            format!("SELECT count(*) AS n FROM t a JOIN t b ON {near}"),
            format!("SELECT count(*) AS n FROM t a SIMJOIN t b ON {overlap} AND {near}"),
        ]
        .map(|sql| {
            let ran = run(folder.path(), &["-q", "--format", "csv", "-c", table, "-c", &sql]);
            assert!(ran.ok, "{}", ran.err);
            ran.out
        });
        assert_eq!(counts[0], counts[1], "{common} {edits}");
        assert_ne!(counts[0], "n\n0\n", "{common} {edits}");
    }
}
