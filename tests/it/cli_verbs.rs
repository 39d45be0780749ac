//! Verbs of the command line, against statements written by hand.

use std::fs;
use std::path::Path;

use crate::cli::{Ran, run, run_with_input};

pub(crate) fn verb(folder: &Path, line: &str) -> Ran {
    run(folder, &line.split(' ').collect::<Vec<_>>())
}

/// The lines that a verb prints as CSV.
pub(crate) fn lines(folder: &Path, line: &str) -> Vec<String> {
    let ran = verb(folder, &format!("{line} -q --format csv"));
    assert!(ran.ok, "{line}: {}", ran.err);
    ran.out.lines().map(str::to_string).collect()
}

/// The lines of a statement.
fn rows(folder: &Path, sql: &str) -> Vec<String> {
    let ran = run(folder, &["-q", "--format", "csv", "-c", sql]);
    assert!(ran.ok, "{sql}: {}", ran.err);
    ran.out.lines().map(str::to_string).collect()
}

pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub(crate) const REFERENCES: &str = "sql-examples/data/references.parquet";

/// References without the numbers of rows: their ids tell them.
fn references(query: &str) -> String {
    query.replace("refs", &format!("'{REFERENCES}'"))
}

#[test]
fn pairs_of_a_file_are_those_of_a_join() {
    let found = lines(
        root(),
        &format!("pairs {REFERENCES} --on title --key year --at-least 0.7 --id id --show title"),
    );
    let mut expected = rows(
        root(),
        &references(
            "SELECT a.id AS left, b.id AS right, jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) AS score, \
             a.title AS title_left, b.title AS title_right FROM refs a JOIN refs b ON \
             jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) >= 0.7 AND a.year = b.year AND a.id < b.id",
        ),
    );
    // The ids of the file do not rise with its rows: either row may be the left one.
    let unordered = |line: &String| {
        let mut cells: Vec<&str> = line.splitn(3, ',').collect();
        cells[..2].sort_unstable();
        (cells[0].to_string(), cells[1].to_string(), cells[2].split(',').next().map(str::to_string))
    };
    assert_eq!(found[0], "left,right,score,title_left,title_right");
    assert!(found.len() > 500, "{}", found.len());
    let mut found: Vec<_> = found[1..].iter().map(unordered).collect();
    let mut wanted: Vec<_> = expected.drain(1..).map(|line| unordered(&line)).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn weights_make_the_sum_of_sql() {
    let folder = tempfile::tempdir().expect("a folder");
    let few = folder.path().join("few.parquet").display().to_string();
    rows(
        root(),
        &references(&format!("COPY (SELECT * FROM refs ORDER BY id LIMIT 500) TO '{few}'")),
    );
    let found = lines(
        root(),
        &format!(
            "nearest {few} --on title,dice,0.6,words --on author,levenshtein_similarity,0.3 \
             --on year,equal,0.1 -k 2 --with-ties --at-least 0.3 --id id"
        )
        .replace("             ", ""),
    );
    let parts = "dice(word_tokens(a.title), word_tokens(b.title)) AS title_score, \
                 levenshtein_similarity(a.author, b.author) AS author_score, \
                 CASE WHEN a.year = b.year THEN 1.0 WHEN a.year <> b.year THEN 0.0 END AS year_score";
    let sum = "0.6 * coalesce(dice(word_tokens(a.title), word_tokens(b.title)), 0.0) + \
               0.3 * coalesce(levenshtein_similarity(a.author, b.author), 0.0) + \
               CASE WHEN a.year = b.year THEN 0.1 ELSE 0.0 END";
    // A nested loop over all pairs, ranked by a window function.
    let expected = rows(
        root(),
        &format!(
            "SELECT left, right, score, title_score, author_score, year_score FROM (SELECT *, rank() OVER \
             (PARTITION BY left ORDER BY score DESC) AS place FROM (SELECT a.id AS left, b.id AS right, \
             {sum} AS score, {parts} FROM '{few}' a CROSS JOIN '{few}' b WHERE a.id <> b.id) \
             WHERE score >= 0.3) WHERE place <= 2"
        ),
    );
    let without_shown = |line: &String| line.split(',').take(6).collect::<Vec<_>>().join(",");
    let mut found: Vec<String> = found[1..].iter().map(without_shown).collect();
    let mut expected = expected[1..].to_vec();
    assert!(found.len() > 100, "{}", found.len());
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// Names with quotes, commas and equals signs are reached; a file that is read in parts has the same numbers of rows in
/// the statements that are shown; a verb that fails leaves the file of the result as it was.
#[test]
fn names_numbers_and_files_are_safe() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    fs::write(path.join("t.csv"), "\"q\"\"u'o\",\"a,b=c\"\nxyz,1\nxyz,2\n").unwrap();
    let names = [
        "dedupe",
        "t.csv",
        "--on",
        "\"q\"\"u'o\"",
        "--keep",
        "max:\"a,b=c\"",
        "--at-least",
        "1",
        "-q",
    ];
    let ran = run(path, &[&names[..], &["--format", "csv"]].concat());
    assert!(ran.ok && ran.out == "\"q\"\"u'o\",\"a,b=c\"\nxyz,2\n", "{} {}", ran.out, ran.err);
    let shown =
        ["pairs", "t.csv", "--on", "\"q\"\"u'o\"", "--show", "\"a,b=c\"", "-q", "--format", "csv"];
    assert!(run(path, &shown).out.ends_with("1,2,1.0,1,2\n"));

    let sql = "COPY (SELECT i AS id, concat('name ', (i * 7919) % 90001) AS name, md5(CAST(i AS VARCHAR)) AS other, \
               md5(CAST(i + 1 AS VARCHAR)) AS more FROM generate_series(1, 150000) AS t(i) ORDER BY i) TO 'large.csv'";
    assert!(run(path, &["-q", "-c", sql]).ok);
    assert!(fs::metadata(path.join("large.csv")).unwrap().len() > 11 << 20);
    let line = "dedupe large.csv --on name --tokenizer words --at-least 1 --keep last";
    assert!(verb(path, &format!("{line} -o kept.parquet --audit dropped.csv")).ok);
    let shown = verb(path, &format!("{line} -o kept2.parquet --audit dropped2.csv --explain"));
    let ran = run(path, &["-q", "-c", &shown.out]);
    assert!(ran.ok, "{}", ran.err);
    let read = |file: &str| fs::read_to_string(path.join(file)).unwrap();
    assert!(read("dropped.csv").lines().count() > 50_000);
    assert!(read("dropped.csv") == read("dropped2.csv"), "the numbers of rows differ");

    fs::write(path.join("kept.csv"), "as it was\n").unwrap();
    let ran = verb(path, &format!("{line} -o kept.csv -m 1m"));
    assert!(!ran.ok && read("kept.csv") == "as it was\n", "{}", ran.err);
    let left = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
}

/// A file of many batches, whose rows repeat with small changes.
fn many(folder: &Path) {
    let sql = "COPY (SELECT i AS id, concat('name ', (i * 7919) % 4001, ' of ', i % 3) AS name, \
               md5(CAST(i AS VARCHAR)) AS other FROM generate_series(1, 30000) AS t(i) ORDER BY i) \
               TO 'many.csv'";
    assert!(run(folder, &["-q", "-c", sql]).ok);
}

#[test]
fn rows_that_stay_and_rows_that_go_are_all_rows_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    many(folder.path());
    for (keep, is_first) in [("first", true), ("last", false), ("max:id", false)] {
        let ran = verb(
            folder.path(),
            &format!(
                "dedupe many.csv --on name --tokenizer words --at-least 1 --keep {keep} -o kept.csv \
                 --audit dropped.csv"
            )
            .replace("                 ", ""),
        );
        assert!(ran.ok && ran.out.is_empty(), "{} {}", ran.out, ran.err);
        assert!(ran.err.contains(" of 30000 rows stay, "), "{}", ran.err);
        let of = |file: &str, column: usize| -> Vec<usize> {
            let text = fs::read_to_string(folder.path().join(file)).expect("a result");
            let cell = |line: &str| line.split(',').nth(column).unwrap().parse().unwrap();
            text.lines().skip(1).map(cell).collect()
        };
        let (kept, dropped, by) = (of("kept.csv", 0), of("dropped.csv", 0), of("dropped.csv", 1));
        assert!(kept.is_sorted() && dropped.is_sorted(), "{keep}");
        assert!(dropped.len() > 1000);
        let mut all: Vec<usize> = kept.iter().chain(&dropped).copied().collect();
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=30000), "{keep}");
        // Which row stays of those of one name.
        let is_kept = |row: &usize| kept.binary_search(row).is_ok();
        assert!(
            by.iter().all(is_kept) && dropped.iter().zip(&by).all(|(d, k)| (k < d) == is_first)
        );
    }
    let grouped = lines(
        folder.path(),
        "clusters many.csv --on name --tokenizer words --at-least 1 --grouped",
    );
    assert_eq!(grouped[0], "id,name,other,cluster,cluster_size");
    let size = |line: &String| line.rsplit(',').next().unwrap().parse::<usize>().unwrap();
    assert!(grouped[1..].iter().map(size).is_sorted_by(|a, b| a >= b));
    assert!(grouped[1..].iter().all(|line| size(line) > 1));
}

#[test]
fn links_and_matches_keep_what_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("ours.csv"), "name,city\nJane Doe,Oslo\nJane Do,Oslo\nAnn,Rome\n")
        .unwrap();
    fs::write(
        folder.path().join("theirs.csv"),
        "label,town\nJane Doe,Oslo\nJane Doe,Bonn\nEve,Rome\n",
    )
    .unwrap();
    let line = "link ours.csv theirs.csv --on name=label --key city=town --at-least 0.6";
    assert_eq!(
        lines(folder.path(), line),
        [
            "left,right,score,name_left,label_right",
            "1,1,1.0,Jane Doe,Jane Doe",
            "2,1,0.8333333333333334,Jane Do,Jane Doe",
        ]
    );
    assert_eq!(
        lines(folder.path(), &format!("{line} --how full --show city,town")),
        [
            "left,right,score,city_left,town_right",
            "1,1,1.0,Oslo,Oslo",
            "2,1,0.8333333333333334,Oslo,Oslo",
            "3,,,Rome,",
            ",2,,,Bonn",
            ",3,,,Rome",
        ]
    );
    let matched = line.replace("link", "match");
    assert_eq!(lines(folder.path(), &matched).len(), 2);
    let nearest =
        "nearest ours.csv theirs.csv --on name=label --all --measure levenshtein --at-most 1";
    assert_eq!(
        lines(folder.path(), nearest),
        [
            "left,right,score,name_left,label_right",
            "1,1,0,Jane Doe,Jane Doe",
            "2,1,1,Jane Do,Jane Doe",
            "3,,,Ann,",
        ]
    );
}

#[test]
fn pipes_and_formats_are_those_of_statements() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "n\nabcd\nabce\nabcd\n";
    let ran = run_with_input(
        folder.path(),
        &["dedupe", "-", "--on", "n", "--at-least", "1", "-q", "--format", "csv"],
        text,
    );
    assert!(ran.ok, "{}", ran.err);
    assert_eq!(ran.out, "n\nabcd\nabce\n");
    // Other programs read nothing but rows; what is told goes to standard error.
    let told = run_with_input(
        folder.path(),
        &["dedupe", "-", "--on", "n", "--at-least", "1", "--format", "csv"],
        text,
    );
    assert!(
        told.out == ran.out && told.err.contains("2 of 3 rows stay"),
        "{} {}",
        told.out,
        told.err
    );
    fs::write(folder.path().join("t.csv"), text).unwrap();
    for file in ["kept.parquet", "kept.json", "kept.arrow"] {
        let ran = verb(folder.path(), &format!("dedupe t.csv --on n --at-least 1 -o {file}"));
        assert!(ran.ok && ran.out.is_empty(), "{}", ran.err);
        assert_eq!(rows(folder.path(), &format!("SELECT count(*) AS c FROM '{file}'")), ["c", "2"]);
    }
    // The statements that are shown give the same.
    let shown = verb(folder.path(), "dedupe t.csv --on n --at-least 1 --keep last --explain");
    assert!(shown.ok, "{}", shown.err);
    let ran = run(folder.path(), &["-q", "--format", "csv", "-c", &shown.out]);
    assert!(ran.ok && ran.out.ends_with("n\nabce\nabcd\n"), "{} {}", ran.out, ran.err);
}

#[test]
fn thresholds_tell_what_each_one_gives() {
    let line = format!("{REFERENCES} --on title --at-least 0.6");
    let found = lines(root(), &format!("thresholds {line}"));
    assert_eq!(found[0], "threshold,pairs,added,rows_in_groups,groups,largest_group,examples");
    assert_eq!(found.len(), 10);
    let mut added = 0;
    for (row, threshold) in found[1..].iter().zip([1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6])
    {
        let cells: Vec<&str> = row.splitn(7, ',').collect();
        let number = |cell: usize| cells[cell].parse::<usize>().unwrap();
        assert_eq!(cells[0].parse::<f64>().unwrap(), threshold);
        added += number(2);
        assert_eq!(number(1), added, "{row}");
        let at = line.replace("0.6", cells[0]);
        assert_eq!(lines(root(), &format!("pairs {at}")).len() - 1, added, "{row}");
        // The rows of groups, and the groups, as another verb has them.
        let grouped = lines(root(), &format!("clusters {at} --grouped"));
        assert_eq!(grouped.len() - 1, number(3), "{row}");
        let cluster = |line: &String| line.rsplit(',').nth(1).unwrap().to_string();
        let groups: std::collections::BTreeSet<String> = grouped[1..].iter().map(cluster).collect();
        assert_eq!(groups.len(), number(4), "{row}");
        assert_eq!(grouped[1].rsplit(',').next(), Some(cells[5]), "{row}");
        assert_eq!(cells[6].is_empty(), number(2) == 0, "{row}");
    }
    let edits =
        "thresholds sql-examples/data/people.csv --on name --measure levenshtein --at-most 3";
    let found = lines(root(), edits);
    let steps: Vec<&str> = found[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(steps, ["0.0", "1.0", "2.0", "3.0"]);
    assert!(found[2].contains("Jane Doe ~ Jane Do"), "{found:?}");
    let sum = "thresholds sql-examples/data/people.csv --on name,1 --on phone,equal,2 --at-least 1.5 --step 0.5";
    let steps: Vec<String> = lines(root(), sum)[1..].to_vec();
    assert!(
        steps.len() == 4 && steps[0].starts_with("3.0,") && steps[3].starts_with("1.5,"),
        "{steps:?}"
    );
    for (line, text) in [
        ("--on title --at-least 0.9 --step 0", "the step is above 0"),
        ("--on title --measure levenshtein", "no default threshold"),
        ("--on title --measure overlap --at-least 3", "no best score"),
    ] {
        let ran = verb(root(), &format!("thresholds {REFERENCES} {line}"));
        assert!(!ran.ok && ran.err.contains(text), "{line}: {}", ran.err);
    }
}

#[test]
fn links_are_held_against_the_truth() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
    // A pair twice, of which the better score counts; one without an end.
    write("links.csv", "left,right,score\n1,a,1.0\n2,b,0.9\n2,b,0.5\n3,c,0.8\n4,x,0.75\n5,,0.9\n");
    write("truth.csv", "ours,theirs\n1,a\n2,b\n4,d\n9,z\n1,a\n");
    let found = lines(folder.path(), "evaluate links.csv truth.csv");
    assert_eq!(found[0], "threshold,links,true_links,true_pairs,precision,recall,f1");
    assert_eq!(found[1], "1.0,1,1,4,1.0,0.25,0.4");
    let at =
        |threshold: &str| found.iter().find(|line| line.starts_with(threshold)).unwrap().as_str();
    assert_eq!(at("0.9,"), "0.9,2,2,4,1.0,0.5,0.6666666666666666");
    assert_eq!(at("0.8,"), "0.8,3,2,4,0.6666666666666666,0.5,0.5714285714285714");
    assert_eq!(found.last().unwrap(), "0.75,4,2,4,0.5,0.5,0.5");
    // Rows of one table, without scores, in either order.
    write("pairs.csv", "a,b\n2,1\n3,4\n");
    write("known.csv", "a,b\n1,2\n5,6\n");
    assert_eq!(
        lines(folder.path(), "evaluate pairs.csv known.csv --unordered"),
        ["links,true_links,true_pairs,precision,recall,f1", "2,1,2,0.5,0.5,0.5"]
    );
    assert_eq!(lines(folder.path(), "evaluate pairs.csv known.csv")[1], "2,0,2,0.0,0.0,0.0");
    write("one.csv", "a\n1\n");
    let ran = verb(folder.path(), "evaluate one.csv known.csv");
    assert!(!ran.ok && ran.err.contains("the first two columns tell"), "{}", ran.err);
    let ran = verb(folder.path(), "evaluate links.csv truth.csv -o figures.csv");
    assert!(ran.ok && ran.out.is_empty(), "{}", ran.err);
    assert_eq!(
        rows(folder.path(), "SELECT count(*) AS n FROM 'figures.csv'")[1],
        (found.len() - 1).to_string()
    );
}

#[test]
fn spellings_are_folded_where_they_are_compared_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = ["Łódź  Ltd.", "lodz ltd", "O’Brien & Sons", "OBRIEN  SONS ", "Other"];
    fs::write(folder.path().join("t.csv"), format!("name\n{}\n", names.join("\n"))).unwrap();
    let line = "pairs t.csv --on name --at-least 1";
    assert_eq!(lines(folder.path(), line).len(), 1);
    assert_eq!(lines(folder.path(), &format!("{line} --fold lower,accents,punctuation")).len(), 1);
    let folded = format!("{line} --fold spaces,punctuation,accents,lower");
    assert_eq!(
        lines(folder.path(), &folded),
        [
            "left,right,score,name_left,name_right",
            "1,2,1.0,Łódź  Ltd.,lodz ltd",
            "3,4,1.0,O’Brien & Sons,OBRIEN  SONS ",
        ]
    );
    let kept = lines(folder.path(), &folded.replace("pairs", "dedupe"));
    assert_eq!(kept, ["name", "Łódź  Ltd.", "O’Brien & Sons", "Other"]);
    let shown = verb(folder.path(), &format!("{folded} --explain"));
    let ran = run(folder.path(), &["-q", "--format", "csv", "-c", &shown.out]);
    assert!(ran.ok && ran.out.contains("1,2,1.0,"), "{} {}", shown.out, ran.err);
    let ran = verb(folder.path(), &format!("{line} --fold case"));
    assert!(!ran.ok && ran.err.contains("lower, accents, punctuation, spaces"), "{}", ran.err);
}

#[test]
fn mistakes_say_what_would_work() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("t.csv"), "name,city,born\nJane,Oslo,1990\nJan,Oslo,1991\n")
        .unwrap();
    for (line, text) in [
        ("pairs t.csv --on nam", "did you mean name?"),
        ("pairs t.csv --on name --on city", "has no weight"),
        ("pairs t.csv --on name,0.5 --on city,0.5", "--at-least 0.80 is one"),
        ("pairs t.csv --on name,0.5 --on city,0.5 --at-least 2", "the weights add up to 1"),
        ("pairs t.csv --on name,x", "the weight \"x\" is no number"),
        ("pairs t.csv --on name,0", "is not above 0"),
        ("pairs t.csv --on city,equal,1 --at-least 1", "compared by a similarity"),
        ("pairs t.csv --on name --measure levenstein", "did you mean levenshtein?"),
        ("pairs t.csv --on name --measure levenshtein", "no default threshold"),
        (
            "pairs t.csv --on name --measure levenshtein --at-least 1",
            "give --at-most, not --at-least",
        ),
        ("pairs t.csv --on name --at-most 1", "give --at-least, not --at-most"),
        ("pairs t.csv --on name --tokenizer letters", "the tokenizers are"),
        ("pairs t.csv --on name --measure jaro --tokenizer words", "takes no tokenizer"),
        ("pairs t.csv --on born", "neither a text nor a list"),
        ("pairs t.csv --on name --key town", "its columns are name, city, born"),
        ("pairs t.csv --on name --show nam", "did you mean name?"),
        ("pairs t.csv --on name --key city=born", "do not compare"),
        ("pairs t.csv --on name --at-least 80", "similarities are above 0, up to 1"),
        ("pairs t.csv --on name --at-least 0", "similarities are above 0, up to 1"),
        ("pairs t.csv --on name --at-least nan", "similarities are above 0, up to 1"),
        ("pairs t.csv --on name --measure hamming --at-most -1", "from 0 on"),
        ("pairs t.csv --on name --measure overlap --at-least 0", "counts common elements"),
        ("pairs t.csv --on name -o pairs.xlsx", "name it .csv, .json, .parquet or .arrow"),
        ("pairs t.csv --on name -o pairs", "name it .csv"),
        ("dedupe t.csv --on name -o x.csv --audit x.csv", "name one file"),
        ("pairs t.csv --on name --show \"name", "a double quote is not closed"),
        ("pairs t.csv --on \"name", "a double quote is not closed"),
        ("pairs none.csv --on name", "none.csv"),
        (
            "dedupe t.csv --on name,0.5 --on city,0.5 --at-least 0.5 --keep longest",
            "several are compared",
        ),
        ("dedupe t.csv --on name --keep max:age", "has no column age"),
    ] {
        let ran = verb(folder.path(), line);
        assert!(!ran.ok && ran.out.is_empty(), "{line}: {}", ran.out);
        assert!(ran.err.contains(text) && ran.err.starts_with("Error: "), "{line}: {}", ran.err);
    }
    for (line, text) in [
        ("dedupe t.csv", "--on <COLUMN>"),
        ("dedupe t.csv --on name --keep oldest", "max:COLUMN"),
        ("nearest t.csv --on name -k 0", "0 is not in 1.."),
        ("dedup t.csv --on name", "'dedupe'"),
    ] {
        let ran = verb(folder.path(), line);
        assert!(!ran.ok && ran.err.contains(text), "{line}: {}", ran.err);
    }
}
