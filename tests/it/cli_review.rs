//! Comparisons, evaluations, marks and pages of the command line.

use std::fs;

use crate::cli_verbs::{REFERENCES, lines, root, verb};

const PEOPLE: &str = "sql-examples/data/people.csv";

#[test]
fn two_rows_are_compared_by_every_part() {
    let found = lines(root(), &format!("compare {PEOPLE} 1 6 --on name --key city --at-least 0.7"));
    assert_eq!(found[0], "part,what,left,right,value,holds");
    let line = |start: &str| {
        let found = found.iter().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start} is missing in {found:#?}", found = found)).clone()
    };
    assert_eq!(
        line(",similar"),
        ",similar,,,\"no: jaccard of name is 0.6666666666666666, below 0.7\","
    );
    assert_eq!(line("city,key"), "city,key,Oslo,Oslo,equal,true");
    assert_eq!(line("name,jaccard"), "name,jaccard of qgrams:3 >= 0.7,,,0.6666666666666666,false");
    assert_eq!(
        line("name,elements of one"),
        "name,elements of one alone,,\"\"\" jr\"\" \"\"e j\"\" \"\"oe \"\"\",3,"
    );
    assert_eq!(line("name,changes"), "name,changes from left to right,,,Jane Doe{+ jr+},");
    assert_eq!(line("name,levenshtein,"), "name,levenshtein,,,3,");
    assert_eq!(line("name,hamming,"), "name,hamming,,,,");
    let similar =
        lines(root(), &format!("compare {PEOPLE} {PEOPLE} 1 6 --on name --at-least 0.6 --id id"));
    assert_eq!(similar[1], ",similar,,,yes,");
    // A key that differs, a missing value, a sum, and spellings.
    let sum = format!(
        "compare {PEOPLE} 1 2 --on name,0.5 --on phone,equal,0.5 --key city --at-least 0.9 --fold lower"
    );
    let found = lines(root(), &sum);
    assert_eq!(found[1], ",similar,,,\"no: city differs; the weighted sum is 0.0, below 0.9\",");
    assert!(found.contains(&"name,compared as,jane doe,john roe,,".to_string()), "{found:#?}");
    assert!(found.contains(&"phone,\"equal, weight 0.5\",,,,".to_string()), "{found:#?}");
    assert!(found.contains(&"phone,part of the sum,,,0.0,".to_string()), "{found:#?}");
    for (line, parts) in [
        (
            format!("compare {PEOPLE} 1 99 --on name"),
            ["has no row of the number 99", "--id COLUMN"],
        ),
        (format!("compare {PEOPLE} 1 x --on name"), ["x is no number of a row", "--id COLUMN"]),
        (
            format!("compare {PEOPLE} Oslo 1 --on name --id city"),
            ["3 rows of the city Oslo", "numbers"],
        ),
        (format!("compare {PEOPLE} 1 --on name"), ["found 2", "FILE [OTHER] LEFT RIGHT"]),
    ] {
        let ran = verb(root(), &line);
        assert!(!ran.ok && parts.iter().all(|part| ran.err.contains(part)), "{line}: {}", ran.err);
    }
}

#[test]
fn missed_pairs_have_their_reasons() {
    let folder = tempfile::tempdir().expect("a folder");
    let people = root().join(PEOPLE).display().to_string();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("links.csv", "left,right,score\n1,4,0.83\n1,6,0.67\n4,6,0.56\n");
    write("truth.csv", "a,b\n1,4\n6,1\n2,5\n3,7\n1,99\n4,2\n");
    let question = format!("--of {people} --on name --key city --at-least 0.5 --id id");
    let found = lines(
        folder.path(),
        &format!("evaluate links.csv truth.csv --unordered --missed missed.csv {question}"),
    );
    assert_eq!(
        found.last().expect("a line"),
        "0.56,3,2,6,0.6666666666666666,0.3333333333333333,0.4444444444444444"
    );
    let missed = fs::read_to_string(folder.path().join("missed.csv")).expect("missed pairs");
    let expected = [
        "left,right,reason,score,left_value,right_value",
        "1,99,no row of people.csv,,Jane Doe,",
        "2,4,\"city differs; jaccard of name is 0.0, below 0.5\",0.0,John Roe,Jane Do",
        "2,5,\"jaccard of name is 0.375, below 0.5\",0.375,John Roe,Jon Roe",
        "3,7,\"jaccard of name is 0.375, below 0.5\",0.375,Ann Poe,Anne Poe",
    ];
    assert_eq!(missed.lines().collect::<Vec<_>>(), expected);
    // Similar rows that are no link, and no question at all.
    write("links.csv", "left,right\n1,4\n");
    lines(
        folder.path(),
        &format!("evaluate links.csv truth.csv --unordered --missed missed.csv {question}"),
    );
    let missed = fs::read_to_string(folder.path().join("missed.csv")).expect("missed pairs");
    assert!(missed.contains("1,6,\"similar, but no link\",0.6666666666666666,"), "{missed}");
    lines(folder.path(), "evaluate links.csv truth.csv --missed missed.csv");
    let missed = fs::read_to_string(folder.path().join("missed.csv")).expect("missed pairs");
    assert_eq!(missed.lines().nth(1), Some("1,99,no link"));
    let ran = verb(folder.path(), &format!("evaluate links.csv truth.csv --of {people}"));
    assert!(!ran.ok && ran.err.contains("--on"), "{}", ran.err);
}

#[test]
fn truth_may_be_groups_or_marks() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("links.csv", "left,right,score\n4,1,0.83\n1,6,0.67\n5,3,0.56\n");
    write("groups.csv", "row,grp\n1,a\n4,a\n6,a\n2,b\n5,b\n7,\n8,\n");
    let found = lines(folder.path(), "evaluate links.csv groups.csv --groups truth");
    assert_eq!(
        found.last().expect("a line"),
        "0.56,3,2,4,0.6666666666666666,0.5,0.5714285714285714"
    );
    // Clusters have their groups behind the columns of the file.
    write("clusters.csv", "id,name,cluster,cluster_size\n1,x,1,2\n4,y,1,2\n2,z,2,1\n");
    let found = lines(folder.path(), "evaluate clusters.csv groups.csv --groups both");
    assert_eq!(found[1], "1,1,4,1.0,0.25,0.4");
    // Marks: of pairs that nobody has marked nothing is known.
    write("marks.csv", "left,right,label\n4,1,Yes\n1,6,no\n5,3,unsure\n2,5,yes\n");
    let found = lines(folder.path(), "evaluate links.csv marks.csv");
    assert_eq!(found.last().expect("a line"), "0.67,2,1,2,0.5,0.5,0.5");
}

#[test]
fn marked_pairs_join_and_part_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let people = root().join(PEOPLE).display().to_string();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("marks.csv", "left,right,label\n6,1,yes\n4,1,no\n3,7,unsure\n99,1,yes\n2,2,no\n");
    let question = "--on name --at-least 0.7 --labels marks.csv";
    let found = lines(folder.path(), &format!("dedupe {people} {question} --audit dropped.csv"));
    let kept: Vec<&str> = found[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(kept, ["1", "2", "3", "4", "5", "7"]);
    let dropped = fs::read_to_string(folder.path().join("dropped.csv")).expect("dropped rows");
    assert_eq!(dropped.lines().nth(1), Some("6,1,,Jane Doe jr,Jane Doe"));
    // By the order of another column, and told by one.
    let by = lines(folder.path(), &format!("dedupe {people} {question} --keep max:id --id id"));
    let kept: Vec<&str> = by[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(kept, ["2", "3", "4", "5", "6", "7"]);
    let found = lines(folder.path(), &format!("clusters {people} {question} --grouped --id id"));
    let grouped: Vec<&str> =
        found[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(grouped, ["1", "6"]);
    write("marks.csv", "a,b,mark\n6,1,yes\n");
    let ran = verb(folder.path(), &format!("dedupe {people} {question}"));
    assert!(!ran.ok && ran.err.contains("marks.csv has no column label"), "{}", ran.err);
}

#[test]
fn pages_have_the_pairs_of_the_join() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = |page: &str| {
        let page = fs::read_to_string(folder.path().join(page)).expect("a page");
        let start = page.find("id=\"data\">").expect("the data") + "id=\"data\">".len();
        let end = page[start..].find("</script>").expect("the end of the data") + start;
        page[start..end].to_string()
    };
    let references = root().join(REFERENCES).display().to_string();
    let report =
        format!("report {references} --on title --key year --at-least 0.8 --id id -o page.html");
    let ran = verb(folder.path(), &report);
    assert!(ran.ok && ran.err.contains("result: page.html"), "{}", ran.err);
    let page = data("page.html");
    let pairs = lines(root(), &format!("pairs {REFERENCES} --on title --key year --at-least 0.65"));
    let scores =
        page.split("\"score\":[").nth(1).and_then(|rest| rest.split(']').next()).expect("scores");
    assert_eq!(scores.split(',').count(), pairs.len() - 1);
    for part in
        ["\"at\":0.8", "\"weakest\":0.65", "\"left_out\":0", "\"total\":3000", "the same year"]
    {
        assert!(page.contains(part), "{part} is missing in {}", &page[..500]);
    }
    // Few of the pairs, marks, two files, and cells that no browser may run.
    fs::write(
        folder.path().join("a.csv"),
        "id,name\n1,<img src=x onerror=alert(1)>\n2,<img src=x onerror=alert(2)>\n3,\n",
    )
    .expect("a file");
    fs::write(folder.path().join("marks.csv"), "left,right,label\n1,2,no\n").expect("a file");
    let line =
        "report a.csv a.csv --on name --at-least 0.5 --most 3 --labels marks.csv -o two.html";
    let ran = verb(folder.path(), line);
    assert!(ran.ok, "{}", ran.err);
    let page = data("two.html");
    assert!(
        !page.contains('<') && page.contains("\\u003cimg src=x onerror=alert(1)\\u003e"),
        "{page}"
    );
    assert!(
        page.contains("\"left_out\":1") && page.contains("\"labels\":[[\"1\",\"2\",\"no\"]]"),
        "{page}"
    );
    let found = lines(folder.path(), "report a.csv --on name --at-least 0.5 -o x.html --explain");
    assert!(found.iter().any(|line| line.contains("__simjoin_reported")), "{found:?}");
    for (line, part) in [
        ("report a.csv --on name", "-o report.html"),
        ("report a.csv --on name -o x.csv", "name it .html"),
        (
            "report a.csv --on name --at-least 0.8 --down-to 0.9 -o x.html",
            "is not weaker than the threshold 0.8",
        ),
    ] {
        let ran = verb(folder.path(), line);
        assert!(!ran.ok && ran.err.contains(part), "{line}: {}", ran.err);
    }
}

#[test]
fn ids_are_told_as_they_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    // Of ids that are texts 1.10 is not 1.1; of numbers 1.50 is 1.5.
    write("texts.csv", "id,name\n1.1,aaaa bbbb\n1.10,cccc dddd\nA2,eeee ffff\n2.5,gggg hhhh\n");
    write("numbers.csv", "id,name\n1.0,aaaa bbbb\n2.0,aaaa bbbb\n3.5,eeee ffff\n");
    write("marks.csv", "left,right,Label\n1.10,2.5,yes\n");
    let clusters = |file: &str| {
        lines(
            folder.path(),
            &format!("clusters {file} --on name --id id --labels marks.csv --grouped"),
        )
    };
    let found = clusters("texts.csv");
    let ids: Vec<&str> = found[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(ids, ["1.10", "2.5"]);
    write("marks.csv", "left,right,label\n1,2,no\n");
    assert_eq!(clusters("numbers.csv").len(), 1);
    let found = lines(folder.path(), "compare numbers.csv 1.00 2 --on name --id id");
    assert_eq!(found[1], ",similar,,,yes,");
    write("links.csv", "left,right\n1.1,A2\n1.10,A3\n,7\n");
    write("truth.csv", "left,right\n1.10,A3\n1.10,A2\n4,\n");
    assert_eq!(
        lines(folder.path(), "evaluate links.csv truth.csv --unordered")[1],
        "2,1,2,0.5,0.5,0.5"
    );
    // Marks that are none are counted.
    write("marks.csv", "left,right,label\n1,2,unsure\n1,99,yes\n");
    let ran = verb(folder.path(), "dedupe numbers.csv --on name --labels marks.csv -o kept.csv");
    assert!(ran.ok && ran.err.contains("0 of 2 marked pairs are used"), "{}", ran.err);
    for (marks, flags, part) in [
        ("left,right,label\n1,2,ja\n", "", "marks.csv has the label ja"),
        ("left,right,label,told_by\n1,2,no,id\n", "", "--id id tells rows by it"),
        ("left,right,label,told_by\n1,2,no,row\n", " --id id", "leave out --id"),
        ("left,right,label,told_by\n1,2,no,place\n", "", "a page made in Python"),
    ] {
        write("marks.csv", marks);
        let ran =
            verb(folder.path(), &format!("dedupe numbers.csv --on name --labels marks.csv{flags}"));
        assert!(!ran.ok && ran.err.contains(part), "{marks}: {}", ran.err);
    }
    let ran = verb(folder.path(), "dedupe numbers.csv --on name -o numbers.csv");
    assert!(!ran.ok && ran.err.contains("name another file"), "{}", ran.err);
    write("other.csv", "left,right\nx,y\n");
    let ran = verb(folder.path(), "evaluate links.csv other.csv");
    assert!(
        ran.ok && ran.err.contains("Warning: no row of a true pair is a row of a link"),
        "{}",
        ran.err
    );
    // A column of labels in the data, and an input that would be overwritten.
    write("labelled.csv", "label,name\nx,aaaa bbbb\ny,aaaa bbbc\n");
    write("marks.csv", "left,right,label\n1,2,yes\n");
    let found =
        lines(folder.path(), "dedupe labelled.csv --on name --at-least 0.9 --labels marks.csv");
    assert_eq!(found, ["label,name", "x,aaaa bbbb"]);
    let ran = verb(folder.path(), "evaluate links.csv truth.csv --missed links.csv");
    assert!(
        !ran.ok && ran.err.contains("would have the missed pairs in place of its rows"),
        "{}",
        ran.err
    );
}

#[test]
fn distances_are_evaluated_from_the_least_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("links.csv", "left,right,score\n1,2,1\n3,4,3\n5,6,2\n1,2,3\n");
    write("truth.csv", "left,right\n1,2\n3,4\n");
    let found = lines(folder.path(), "evaluate links.csv truth.csv --at-most 4");
    assert_eq!(found[1], "1.0,1,1,2,1.0,0.5,0.6666666666666666");
    assert_eq!(found.last().expect("a line"), "3.0,3,2,2,0.6666666666666666,1.0,0.8");
    let told = verb(folder.path(), "evaluate links.csv truth.csv --at-most 4").err;
    assert!(told.contains("Best F1: 0.8000 at 3"), "{told}");
    let by_measure = lines(folder.path(), "evaluate links.csv truth.csv --measure levenshtein");
    assert_eq!(by_measure, found);
}

#[test]
fn texts_of_two_lengths_have_no_hamming_distance() {
    let found =
        lines(root(), &format!("compare {PEOPLE} 1 4 --on name --measure hamming --at-most 1"));
    assert_eq!(found[1], ",similar,,,no: hamming of name is missing,");
    let pairs = lines(
        root(),
        &format!("pairs {PEOPLE} --on name,jaccard,0.5 --on name,jaro_winkler,0.5 --at-least 0.6"),
    );
    assert_eq!(pairs[0], "left,right,score,name_score,name_score_2,name_left,name_right");
}

#[test]
fn joined_rows_have_the_columns_of_both_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("a.csv", "id,name\n1,Jane Doe\n2,John Roe\n");
    write("b.csv", "id,label,city\n7,Jane Do,Oslo\n8,Ann,Rome\n");
    let join = |how: &str| {
        lines(
            folder.path(),
            &format!("join a.csv b.csv --on name=label --at-least 0.8 --how {how}"),
        )
    };
    assert_eq!(
        join("inner"),
        ["id,name,id_right,label,city,score", "1,Jane Doe,7,Jane Do,Oslo,0.8333333333333334"]
    );
    assert_eq!(join("left")[2], "2,John Roe,,,,");
    assert_eq!(join("full")[3], ",,8,Ann,Rome,");
    assert_eq!(join("semi"), ["id,name", "1,Jane Doe"]);
    assert_eq!(join("anti"), ["id,name", "2,John Roe"]);
}

#[test]
fn thresholds_of_two_files_are_those_of_links() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("a.csv", "name\nJane Doe\nJohn Roe\nAnn Poe\n");
    write("b.csv", "label\nJane Do\nJohn Roe\nJane Doe\n");
    let found =
        lines(folder.path(), "thresholds a.csv b.csv --on name=label --at-least 0.5 --step 0.25");
    let expected = [
        "threshold,pairs,added,rows_in_groups,groups,largest_group,examples",
        "1.0,2,2,4,2,2,Jane Doe ~ Jane Doe; John Roe ~ John Roe",
        "0.75,3,1,5,2,3,Jane Doe ~ Jane Do",
        "0.5,3,0,5,2,3,",
    ];
    // Pairs of one score are in no order.
    let sorted = |line: &str| {
        let mut parts: Vec<&str> = line.split([',', ';']).map(str::trim).collect();
        parts.sort_unstable();
        parts.join(",")
    };
    let [found, expected] =
        [found.iter().map(|line| sorted(line)).collect::<Vec<_>>(), expected.map(sorted).to_vec()];
    assert_eq!(found, expected);
}
