//! Verbs that compare weighted sets, against statements written by hand.

use std::fs;
use std::path::Path;

use crate::cli::run;
use crate::cli_verbs::{lines, verb};

const OURS: &str = "name\nAcme Trading Company\nBorn & Söhne Company\n\nCafé Müller Company\nacme trading company ltd\n";
const THEIRS: &str =
    "id,title\n1,ACME Trading Company\n2,Company\n3,\n4,Café Müller\n5,Born Company\n";

fn files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("ours.csv"), OURS.replace("\n\n", "\n\"\"\n")).expect("a file");
    fs::write(folder.path().join("theirs.csv"), THEIRS).expect("a file");
    folder
}

/// The lines of statements.
fn rows(folder: &Path, sql: &str) -> Vec<String> {
    let ran = run(folder, &["-q", "--format", "csv", "-c", sql]);
    assert!(ran.ok, "{sql}: {}", ran.err);
    ran.out.lines().map(str::to_string).collect()
}

/// One table with the weights of both files, by one window.
fn weighed(tokens: &str) -> String {
    format!(
        "CREATE TABLE ours AS SELECT row_number() OVER () AS n, name AS t FROM 'ours.csv'; \
         CREATE TABLE theirs AS SELECT row_number() OVER () AS n, title AS t FROM 'theirs.csv'; \
         CREATE TABLE w AS SELECT side, n, t, tfidf({tokens}) OVER () AS w FROM (SELECT 0 AS side, * FROM ours \
         UNION ALL SELECT 1, * FROM theirs);"
    )
}

const OWN: &str = "CREATE TABLE ours AS SELECT row_number() OVER () AS n, name AS t FROM 'ours.csv'; \
                   CREATE TABLE w AS SELECT n, t, tfidf(word_tokens(t)) OVER () AS w FROM ours;";

#[test]
fn rows_of_one_file_are_weighted_by_their_rarity() {
    let folder = files();
    let found = lines(
        folder.path(),
        "pairs ours.csv --on name --measure tfidf --tokenizer words --at-least 0.1 --show name",
    );
    let expected = rows(
        folder.path(),
        &format!(
            "{OWN} SELECT a.n AS left, b.n AS right, weighted_cosine(a.w, b.w) AS score, a.t AS name_left, \
             b.t AS name_right FROM w a, w b WHERE weighted_cosine(a.w, b.w) >= 0.1 AND a.n < b.n ORDER BY 1, 2"
        ),
    );
    assert_eq!(found, expected);
    assert!(found.len() > 4, "{found:?}");
    // Folded texts are weighed as they are compared.
    let folded = lines(
        folder.path(),
        "dedupe ours.csv --on name --measure weighted_dice --fold lower,accents --tokenizer words --at-least 0.7",
    );
    assert_eq!(folded.len(), 5, "{folded:?}");
    let groups = lines(
        folder.path(),
        "clusters ours.csv --on name --measure tfidf --fold lower --at-least 0.7 --grouped",
    );
    assert_eq!(groups.len(), 3, "{groups:?}");
}

#[test]
fn rows_of_two_files_have_one_scale() {
    let folder = files();
    for (tokenizer, tokens) in [("words", "word_tokens(t)"), ("qgrams:3", "qgrams(t, 3)")] {
        let weighed = weighed(tokens);
        let join = |on: &str, order: &str| {
            rows(
                folder.path(),
                &format!(
                    "{weighed} SELECT a.n AS left, b.n AS right, weighted_cosine(a.w, b.w) AS score FROM \
                     (SELECT * FROM w WHERE side = 0) a {on} ORDER BY {order}"
                ),
            )
        };
        let by = |line: &str| {
            let line =
                format!("{line} --on name=title --measure tfidf --tokenizer {tokenizer} --show id");
            let cut = |line: String| line.split(',').take(3).collect::<Vec<_>>().join(",");
            lines(folder.path(), &line).into_iter().map(cut).collect::<Vec<_>>()
        };
        let theirs = "(SELECT * FROM w WHERE side = 1) b ON weighted_cosine(a.w, b.w)";
        let found = by("link ours.csv theirs.csv --how left --at-least 0.2");
        assert_eq!(found, join(&format!("LEFT JOIN {theirs} >= 0.2"), "1, 2"));
        assert!(found.len() > 6, "{found:?}");
        let nearest = by("nearest ours.csv theirs.csv -k 2");
        let best = "SIMJOIN (SELECT * FROM w WHERE side = 1) b NEAREST 2 BY SIMILARITY weighted_cosine(a.w, b.w)";
        assert_eq!(nearest, join(best, "1, 3 DESC, 2"));
        let matched = by("match ours.csv theirs.csv --at-least 0.2");
        assert!(
            matched.len() > 2 && matched.iter().all(|line| found.contains(line)),
            "{matched:?}"
        );
    }
}

#[test]
fn weights_of_tokens_are_a_part_of_a_sum() {
    let folder = files();
    let found = lines(
        folder.path(),
        "pairs ours.csv --on name,tfidf,0.5,words --on name,jaro_winkler,0.5 --at-least 0.4 --show name",
    );
    let expected = rows(
        folder.path(),
        &format!(
            "{OWN} SELECT * FROM (SELECT a.n AS left, b.n AS right, 0.5 * weighted_cosine(a.w, b.w) + \
             0.5 * jaro_winkler_similarity(a.t, b.t) AS score FROM w a, w b WHERE a.n < b.n) WHERE score >= 0.4 \
             ORDER BY 1, 2"
        ),
    );
    let cut = |line: &String| line.split(',').take(3).collect::<Vec<_>>().join(",");
    assert_eq!(found.iter().map(cut).collect::<Vec<_>>(), expected);
    assert!(found[0].starts_with("left,right,score,name_score,name_score_2"), "{}", found[0]);
}

#[test]
fn every_verb_takes_weights() {
    let folder = files();
    let question = "--on name=title --measure tfidf --tokenizer words --at-least 0.3";
    for line in [
        format!("thresholds ours.csv theirs.csv {question}"),
        format!("join ours.csv theirs.csv {question}"),
        format!("compare ours.csv theirs.csv 1 1 {question}"),
        "compare ours.csv 1 5 --on name --measure tfidf".to_string(),
        "nearest ours.csv --on name --measure weighted_overlap".to_string(),
        "pairs ours.csv --on name=name --measure weighted_containment --at-least 0.4".to_string(),
    ] {
        assert!(lines(folder.path(), &line).len() > 1, "{line}");
    }
    let compared = lines(folder.path(), &format!("compare ours.csv theirs.csv 1 1 {question}"));
    assert!(compared.iter().any(|line| line.contains("tfidf of words >= 0.3")), "{compared:?}");
    let page = verb(folder.path(), &format!("report ours.csv theirs.csv {question} -o page.html"));
    assert!(page.ok, "{}", page.err);
    fs::write(folder.path().join("links.csv"), "left,right\n1,1\n").expect("a file");
    fs::write(folder.path().join("truth.csv"), "left,right\n1,1\n2,4\n").expect("a file");
    let line = format!(
        "evaluate links.csv truth.csv --of ours.csv --of theirs.csv {question} --missed missed.csv"
    );
    let ran = verb(folder.path(), &line);
    assert!(ran.ok, "{}", ran.err);
    let missed = fs::read_to_string(folder.path().join("missed.csv")).expect("a file");
    assert!(missed.contains("tfidf of name_title is 0."), "{missed}");
}

#[test]
fn weighted_sets_are_compared_as_they_are() {
    let folder = files();
    rows(
        folder.path(),
        "COPY (SELECT name, token_counts(word_tokens(name)) AS bag FROM 'ours.csv') TO 'bags.parquet'",
    );
    let found = lines(folder.path(), "pairs bags.parquet --on bag --at-least 0.3 --show name");
    let same = "--measure weighted_cosine --at-least 0.3 --show name";
    assert_eq!(found, lines(folder.path(), &format!("pairs bags.parquet --on bag {same}")));
    assert!(found.len() > 2, "{found:?}");
    assert!(lines(folder.path(), "compare bags.parquet 1 5 --on bag").len() > 2);
    assert!(lines(folder.path(), "thresholds bags.parquet --on bag --at-least 0.3").len() > 2);
    let refused = verb(folder.path(), "pairs bags.parquet --on bag --measure tfidf");
    assert!(refused.err.contains("has no measure \"tfidf\""), "{}", refused.err);
    let refused = verb(folder.path(), "link bags.parquet ours.csv --on bag=name");
    assert!(refused.err.contains("do not compare"), "{}", refused.err);
}

#[test]
fn the_statements_of_weights_run() {
    let folder = files();
    let question =
        "link ours.csv theirs.csv --on name=title --measure tfidf --at-least 0.3 --fold lower";
    let told = verb(folder.path(), &format!("{question} --explain"));
    assert!(told.ok && told.out.contains("UNION ALL"), "{}{}", told.out, told.err);
    fs::write(folder.path().join("told.sql"), &told.out).expect("a file");
    let ran = run(folder.path(), &["-q", "--format", "csv", "-f", "told.sql"]);
    assert!(ran.ok, "{}", ran.err);
    let ran: Vec<_> = ran.out.lines().map(str::to_string).collect();
    assert_eq!(ran, lines(folder.path(), question));
}
