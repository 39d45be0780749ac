//! `IS [NOT] DISTINCT FROM` and what follows it, in the command line and in programs.

use crate::program::simjoin;
use crate::support::{Session, rows};

/// Names, and a flag that is NULL in some rows.
const NAMES: &str = "CREATE TABLE n AS SELECT * FROM (VALUES (1, 'ann', true, 'x'), (2, 'anne', true, 'x'), \
     (3, 'bob', NULL, NULL), (4, 'bobb', NULL, NULL), (5, 'anna', false, 'y')) v(id, s, f, g)";

const STATEMENTS: [(&str, &[&str]); 12] = [
    (
        "SELECT a.id, b.id AS o FROM n a SIMJOIN n b ON levenshtein(a.s, b.s) <= 1 \
         AND a.f IS NOT DISTINCT FROM b.f AND a.id < b.id ORDER BY 1, 2",
        &["1 | 2", "3 | 4"],
    ),
    (
        "SELECT a.id, b.id AS o FROM n a SIMJOIN n b ON levenshtein(a.s, b.s) <= 1 \
         AND a.g IS NOT DISTINCT FROM b.g AND a.id < b.id ORDER BY 1, 2",
        &["1 | 2", "3 | 4"],
    ),
    (
        "SELECT a.id, b.id AS o FROM n a JOIN n b ON a.g IS NOT DISTINCT FROM b.g AND a.id < b.id ORDER BY 1, 2",
        &["1 | 2", "3 | 4"],
    ),
    (
        "SELECT a.id, b.id AS o FROM n a SIMJOIN n b NEAREST 1 BY DISTANCE levenshtein(a.s, b.s) \
         ON a.f IS NOT DISTINCT FROM b.f AND a.id <> b.id ORDER BY 1",
        &["1 | 2", "2 | 1", "3 | 4", "4 | 3"],
    ),
    (
        "SELECT node, size FROM connected_components((SELECT a.id, b.id FROM n a SIMJOIN n b ON \
         levenshtein(a.s, b.s) <= 1 AND a.f IS NOT DISTINCT FROM b.f AND a.id < b.id)) ORDER BY 1",
        &["1 | 2", "2 | 2", "3 | 2", "4 | 2"],
    ),
    ("SELECT id FROM n WHERE f IS DISTINCT FROM true AND id > 3 ORDER BY 1", &["4", "5"]),
    ("SELECT id FROM n WHERE f IS NOT DISTINCT FROM NULL AND id = 3", &["3"]),
    ("SELECT id FROM n WHERE NOT f IS DISTINCT FROM NULL OR id = 1 ORDER BY 1", &["1", "3", "4"]),
    (
        "SELECT id FROM n GROUP BY id, f HAVING f IS DISTINCT FROM false AND count(*) > 1 OR id = 2",
        &["2"],
    ),
    (
        "SELECT CASE WHEN f IS DISTINCT FROM true AND id > 3 THEN 1 ELSE 2 END AS c FROM n ORDER BY id",
        &["2", "2", "2", "1", "1"],
    ),
    (
        "SELECT id FROM n WHERE id IN (SELECT id FROM n WHERE f IS DISTINCT FROM NULL AND id < 5) ORDER BY 1",
        &["1", "2"],
    ),
    (
        "SELECT f IS DISTINCT FROM NULL IS TRUE AS x FROM n ORDER BY id",
        &["true", "true", "false", "false", "true"],
    ),
];

#[tokio::test]
async fn what_follows_is_no_part_of_the_operand() {
    let ctx = Session::default().context();
    rows(&ctx, NAMES).await;
    for (sql, expected) in STATEMENTS {
        assert_eq!(rows(&ctx, sql).await, expected, "{sql}");
        // Through a view, and prepared.
        let alone = sql.split(" ORDER BY ").next().unwrap();
        rows(&ctx, &format!("CREATE OR REPLACE VIEW w AS {alone}")).await;
        let mut sorted = expected.to_vec();
        sorted.sort();
        let mut found = rows(&ctx, "SELECT * FROM w").await;
        found.sort();
        assert_eq!(found, sorted, "{alone}");
        rows(&ctx, &format!("PREPARE p AS {sql}")).await;
        assert_eq!(rows(&ctx, "EXECUTE p").await, expected, "{sql}");
        rows(&ctx, "DEALLOCATE p").await;
    }
    rows(
        &ctx,
        "CREATE OR REPLACE VIEW w AS SELECT id FROM n WHERE f IS DISTINCT FROM true AND id > 3",
    )
    .await;
    let definition = "SELECT definition FROM information_schema.views WHERE table_name = 'w'";
    let shown = rows(&ctx, definition).await;
    assert!(shown[0].contains("WHERE (f IS DISTINCT FROM true) AND id > 3"), "{shown:?}");
}

#[test]
fn the_command_line_reads_it_as_programs_do() {
    for (sql, expected) in STATEMENTS {
        let ran =
            simjoin().args(["-q", "--format", "csv", "-c", NAMES, "-c", sql]).output().unwrap();
        let found = String::from_utf8(ran.stdout).unwrap();
        let found: Vec<String> =
            found.lines().skip(1).map(|line| line.replace(',', " | ")).collect();
        assert_eq!(found, expected, "{sql}");
    }
    // Places and texts of errors are those of the text as it was written.
    for (sql, expected) in [
        ("SELECT 1 IS DISTINCT FROM 2 AND 3 4 5", "Line: 1, Column: 35"),
        ("SELECT 1 IS DISTINCT FROM AND 2", "found: 2 at Line: 1, Column: 31"),
    ] {
        let ran = simjoin().args(["-q", "-c", sql]).output().unwrap();
        let error = String::from_utf8(ran.stderr).unwrap();
        assert!(error.contains(expected), "{sql}\n{error}");
    }
}

/// All values of three columns, by the brackets that PostgreSQL's precedence puts.
#[tokio::test]
async fn every_operand_has_the_values_of_its_brackets() {
    let ctx = Session::default().context();
    let values = "(VALUES (1), (2), (NULL))";
    let table = format!(
        "CREATE TABLE t AS SELECT x, y, z FROM {values} a(x), {values} b(y), {values} c(z)"
    );
    rows(&ctx, &table).await;
    for (written, meant) in [
        ("x IS DISTINCT FROM y AND z = 1", "(x IS DISTINCT FROM y) AND z = 1"),
        ("x IS NOT DISTINCT FROM y OR z = 1", "(x IS NOT DISTINCT FROM y) OR z = 1"),
        (
            "z = 1 AND x IS DISTINCT FROM y OR z = 2",
            "((z = 1) AND (x IS DISTINCT FROM y)) OR z = 2",
        ),
        ("NOT x IS DISTINCT FROM y AND z = 1", "(NOT (x IS DISTINCT FROM y)) AND z = 1"),
        ("x IS DISTINCT FROM y + 1 AND z = 1", "(x IS DISTINCT FROM (y + 1)) AND z = 1"),
        ("x = y IS DISTINCT FROM z = 1 OR x = 2", "((x = y) IS DISTINCT FROM (z = 1)) OR x = 2"),
        (
            "x < y IS NOT DISTINCT FROM NOT z = 1 AND x = 2",
            "((x < y) IS NOT DISTINCT FROM (NOT (z = 1))) AND x = 2",
        ),
        (
            "x = 1 IS DISTINCT FROM y BETWEEN 1 AND z AND z = 2",
            "((x = 1) IS DISTINCT FROM (y BETWEEN 1 AND z)) AND z = 2",
        ),
        (
            "x IN (1, y) IS DISTINCT FROM z IN (2) AND x = 1",
            "((x IN (1, y)) IS DISTINCT FROM (z IN (2))) AND x = 1",
        ),
        ("x IS NULL IS DISTINCT FROM y IS NULL", "((x IS NULL) IS DISTINCT FROM y) IS NULL"),
        (
            "x IS DISTINCT FROM y IS DISTINCT FROM (z = 1) AND z = 2",
            "((x IS DISTINCT FROM y) IS DISTINCT FROM (z = 1)) AND z = 2",
        ),
    ] {
        let select = |e: &str| format!("SELECT {e} AS e FROM t ORDER BY x, y, z");
        // The types of some do not go together, whatever the brackets.
        let found = crate::support::try_rows(&ctx, &select(written)).await;
        let expected = crate::support::try_rows(&ctx, &select(meant)).await;
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{written}"),
            (Err(found), Err(expected)) => assert_eq!(found.to_string(), expected.to_string()),
            (found, expected) => panic!("{written}: {found:?} and {expected:?}"),
        }
    }
}
