use std::borrow::Cow;

use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, SnowflakeDialect};
use rand::prelude::*;

use super::{MARKER_FUNCTION, parse_sql, rewrite_sql, rewrite_sql_with_dialect};

/// `«` and `»` around the rewritten words keep the table of cases readable: `«SIMJOIN»` becomes
/// `JOIN   `, `ON!` gets the marker and `«LEFT»` is put in.
fn expected(marked: &str) -> String {
    marked
        .replace("«SIMJOIN»", "JOIN   ")
        .replace("«LEFT»", "LEFT ")
        .replace("ON!", "ON __simjoin_marker() OR")
}

fn input(marked: &str) -> String {
    marked.replace("«SIMJOIN»", "SIMJOIN").replace("«LEFT»", "").replace("ON!", "ON")
}

#[track_caller]
fn check(dialect: &dyn Dialect, marked: &str) {
    let sql = input(marked);
    let rewritten = rewrite_sql_with_dialect(&sql, dialect).unwrap();
    assert_eq!(rewritten, expected(marked));
    let from_text = DFParser::parse_sql_with_dialect(&rewritten, dialect)
        .unwrap_or_else(|e| panic!("{rewritten}\n{e}"));
    let from_tokens = parse_sql(&sql, dialect, 50).unwrap();
    let print = |statements: std::collections::VecDeque<Statement>| {
        statements.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(print(from_text), print(from_tokens));
}

#[test]
fn nearest_clauses_become_conditions() {
    for (sql, expected) in [
        (
            "SELECT * FROM a SIMJOIN b NEAREST 10 BY SIMILARITY j(a.t, b.t)",
            "SELECT * FROM a JOIN    b ON __simjoin_nearest(true, false) = 10 OR \
             __simjoin_similarity() <= j(a.t, b.t)",
        ),
        (
            "SELECT * FROM a LEFT JOIN b y EXACT nearest $1 with ties by distance d on p OR q WHERE r",
            "SELECT * FROM a LEFT JOIN b y  ON __simjoin_nearest(false, true) = $1   OR \
             __simjoin_distance() <= d OR __simjoin_candidates() OR p OR q WHERE r",
        ),
        (
            "SELECT * FROM a SIMJOIN b APPROX NEAREST BY DISTANCE d LEFT JOIN c ON p",
            "SELECT * FROM a JOIN    b  ON __simjoin_nearest(true, false) = 1 OR \
             __simjoin_distance() <= d LEFT JOIN c ON p",
        ),
        (
            "SELECT * FROM a SIMJOIN (b SIMJOIN c NEAREST 2 BY DISTANCE d) ON p",
            "SELECT * FROM a JOIN    (b JOIN    c ON __simjoin_nearest(true, false) = 2 OR \
             __simjoin_distance() <= d) ON __simjoin_marker() OR p",
        ),
        (
            "SELECT * FROM a JOIN b NEAREST 2 BY DISTANCE d ON p SIMJOIN c NEAREST 3 BY SIMILARITY s",
            "SELECT * FROM a JOIN b ON __simjoin_nearest(false, false) = 2 OR __simjoin_distance() \
             <= d OR __simjoin_candidates() OR p JOIN    c ON __simjoin_nearest(true, false) = 3 OR \
             __simjoin_similarity() <= s",
        ),
        // Names.
        ("SELECT nearest FROM a nearest JOIN b ON p", ""),
        ("SELECT * FROM a JOIN b nearest ON nearest.x = a.x", ""),
        ("SELECT * FROM a JOIN nearest ON p JOIN b exact ON q", ""),
        ("SELECT * FROM nearest GROUP BY distance", ""),
    ] {
        let rewritten = rewrite_sql(sql).unwrap();
        assert_eq!(rewritten, if expected.is_empty() { sql } else { expected });
        let of_text = DFParser::parse_sql(&rewritten).unwrap();
        let of_tokens = parse_sql(sql, &GenericDialect {}, 50).unwrap();
        assert_eq!(of_text[0].to_string(), of_tokens[0].to_string());
    }
    for (sql, expected) in [
        ("SELECT * FROM a SIMJOIN b NEAREST 3", "needs BY"),
        ("SELECT * FROM a SIMJOIN b NEAREST BY x", "needs DISTANCE or SIMILARITY"),
        ("SELECT * FROM a JOIN b NEAREST -2 BY DISTANCE x", "a positive number"),
        ("SELECT * FROM a JOIN b NEAREST k BY DISTANCE x", "a positive number, found k"),
        ("SELECT * FROM a RIGHT JOIN b NEAREST BY DISTANCE x", "exchange the tables"),
        ("SELECT * FROM a LEFT SEMI SIMJOIN b NEAREST BY DISTANCE x", "[INNER | LEFT [OUTER]]"),
        ("SELECT * FROM a SIMJOIN b NEAREST 2 WITH TIES ON x", "needs BY"),
        ("SELECT * FROM a SIMJOIN /*! b NEAREST */ BY DISTANCE x", ""),
    ] {
        match rewrite_sql(sql) {
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains(expected) && error.contains("line 1"), "{sql}\n{error}");
            }
            Ok(_) => assert_eq!(expected, "", "{sql}"),
        }
    }
}

/// Any order of words is rewritten, refused or left alone.
#[test]
fn soups_of_nearest_clauses_are_survived() {
    let words = [
        "NEAREST",
        "BY",
        "DISTANCE",
        "SIMILARITY",
        "WITH",
        "TIES",
        "ON",
        "p",
        "1",
        "-",
        "$1",
        "EXACT",
        "APPROX",
        "(",
        ")",
        "LEFT",
        "JOIN b",
        "SIMJOIN c",
        ",",
        "WHERE",
        ".",
        "/*! x */",
        "é",
    ];
    let mut rng = StdRng::seed_from_u64(8);
    let mut rewritten = 0;
    for _ in 0..5_000 {
        let mut sql = "SELECT * FROM a SIMJOIN b NEAREST".to_string();
        for _ in 0..rng.random_range(0..16) {
            sql.push(' ');
            sql.push_str(words.choose(&mut rng).unwrap());
        }
        let _ = parse_sql(&sql, &GenericDialect {}, 50);
        rewritten += usize::from(rewrite_sql(&sql).is_ok());
    }
    assert!(rewritten > 50, "{rewritten}");
}

#[test]
fn joins_are_marked() {
    for marked in [
        "SELECT * FROM a «SIMJOIN» b ON! jaccard(a.t, b.t) >= 0.8",
        "SELECT * FROM a INNER «SIMJOIN» b ON! j(a.t, b.t) >= 0.8",
        "SELECT * FROM a LEFT «SIMJOIN» b ON! j(a.t, b.t) >= 0.8",
        "SELECT * FROM a LEFT OUTER «SIMJOIN» b ON! p",
        "SELECT * FROM a RIGHT «SIMJOIN» b ON! p",
        "SELECT * FROM a RIGHT OUTER «SIMJOIN» b ON! p",
        "SELECT * FROM a FULL «SIMJOIN» b ON! p",
        "SELECT * FROM a FULL OUTER «SIMJOIN» b ON! p",
        "SELECT * FROM a LEFT SEMI «SIMJOIN» b ON! p",
        "SELECT * FROM a LEFT ANTI «SIMJOIN» b ON! p",
        "SELECT * FROM a RIGHT SEMI «SIMJOIN» b ON! p",
        "SELECT * FROM a RIGHT ANTI «SIMJOIN» b ON! p",
        "SELECT * FROM a «LEFT»SEMI «SIMJOIN» b ON! p",
        "SELECT * FROM a «LEFT»ANTI «SIMJOIN» b ON! p",
        "SELECT * FROM a x «SIMJOIN» a y ON! p AND x.id < y.id",
        "SELECT * FROM a AS x «SIMJOIN» a AS y ON! p OR q",
        "SELECT * FROM s.a «SIMJOIN» c.s.b ON! p WHERE a.x > 1 GROUP BY a.x ORDER BY 1 LIMIT 3",
        r#"SELECT * FROM "a b" «SIMJOIN» "SIMJOIN" "x" ON! p"#,
        "SELECT * FROM 'a.parquet' «SIMJOIN» 'b.parquet' AS b ON! p",
        "SELECT * FROM 'a.parquet' a «SIMJOIN» 'b.parquet' b ON! p;",
        // Subqueries, functions, LATERAL, brackets.
        "SELECT * FROM (SELECT 1) a «SIMJOIN» (SELECT 2) AS b ON! p",
        "SELECT * FROM a «SIMJOIN» (VALUES (1, 2), (3, 4)) b(x, y) ON! p",
        "SELECT * FROM a «SIMJOIN» (WITH c AS (SELECT 1), d AS (SELECT 2) SELECT * FROM c, d) b ON! p",
        "SELECT * FROM range(1, 2) «SIMJOIN» generate_series(1, 3) AS s(v) ON! p",
        "SELECT * FROM a «SIMJOIN» LATERAL (SELECT a.x) b ON! p",
        "SELECT * FROM a «SIMJOIN» UNNEST([1, 2]) AS b ON! p",
        "SELECT * FROM (a «SIMJOIN» b ON! p)",
        "SELECT * FROM ((a «SIMJOIN» b ON! p) JOIN c ON q)",
        "SELECT * FROM a «SIMJOIN» (b JOIN c ON q) ON! p",
        "SELECT * FROM a «SIMJOIN» (b «SIMJOIN» c ON! q) ON! p",
        "SELECT * FROM a «SIMJOIN» (b) ON! p",
        "SELECT * FROM a «SIMJOIN» (b) x ON! p",
        // Chains.
        "SELECT * FROM a «SIMJOIN» b ON! p «SIMJOIN» c ON! q",
        "SELECT * FROM a «SIMJOIN» b ON! p LEFT JOIN c ON q «LEFT»ANTI «SIMJOIN» d ON! r",
        "SELECT * FROM a JOIN b USING (id) «SIMJOIN» c ON! p",
        "SELECT * FROM a CROSS JOIN b «SIMJOIN» c ON! p",
        "SELECT * FROM a NATURAL JOIN b «SIMJOIN» c ON! p CROSS JOIN d",
        "SELECT * FROM x, a «SIMJOIN» b ON! p, c «SIMJOIN» d ON! q",
        "SELECT * FROM a JOIN b ON a.x IS DISTINCT FROM b.x «SIMJOIN» c ON! p",
        "SELECT * FROM a JOIN b ON a.x IS NOT NULL AND b.y LIKE 'z' «SIMJOIN» c ON! p",
        "SELECT * FROM a JOIN b ON left(a.x, 1) = b.x LEFT «SIMJOIN» c ON! p",
        "SELECT * FROM a JOIN b ON CASE WHEN a.x THEN b.y ELSE false END «SIMJOIN» c ON! p",
        "SELECT * FROM a JOIN b ON a.x IN (SELECT x FROM d «SIMJOIN» e ON! q) «SIMJOIN» c ON! p",
        // Where the query may stand.
        "SELECT (SELECT count(*) FROM a «SIMJOIN» b ON! p) + 1 FROM c",
        "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM a «SIMJOIN» b ON! p)",
        "WITH c AS (SELECT * FROM a «SIMJOIN» b ON! p) SELECT * FROM c «SIMJOIN» d ON! q",
        "SELECT 1 FROM a «SIMJOIN» b ON! p UNION ALL SELECT 2 FROM c «SIMJOIN» d ON! q",
        "CREATE VIEW v AS SELECT * FROM a «SIMJOIN» b ON! p",
        "CREATE TABLE v AS SELECT * FROM a «SIMJOIN» b ON! p",
        "INSERT INTO v SELECT * FROM a «SIMJOIN» b ON! p",
        "COPY (SELECT * FROM a «SIMJOIN» b ON! p) TO 'x.parquet' STORED AS PARQUET",
        "EXPLAIN ANALYZE SELECT * FROM a «SIMJOIN» b ON! p",
        "PREPARE q AS SELECT * FROM a «SIMJOIN» b ON! j(a.t, b.t) >= $1",
        "SELECT 1; SELECT * FROM a «SIMJOIN» b ON! p; SET simjoin.device = 'cpu'; SELECT 2",
        "FROM a |> «SIMJOIN» b ON! p |> WHERE simjoin > 1 |> LEFT «SIMJOIN» c ON! q",
        // Comments, literals, white space and letters outside ASCII stay.
        "SELECT 'é SIMJOIN', e'\\n' -- SIMJOIN\nFROM a /* « SIMJOIN\n» */ «SIMJOIN»\n\tb -- ON\nON!\n  p\r\n",
        "SELECT 'ß\n日本' AS \"simjoin\" FROM a «SIMJOIN» b ON! a.x = '''SIMJOIN b'''",
        // The name and the join together.
        "SELECT simjoin FROM simjoin «SIMJOIN» simjoin AS b ON! simjoin.x = b.simjoin «SIMJOIN» c ON! q",
        "SELECT * FROM a AS simjoin «SIMJOIN» b ON! simjoin.x = b.x",
        "SELECT * FROM a «SIMJOIN» simjoin ON! p",
        "SELECT * FROM a «SIMJOIN» simjoin b ON! p",
        "SELECT * FROM a «SIMJOIN» sample ON! p",
        "SELECT * FROM a «SIMJOIN» b simjoin ON! a.x = simjoin.x WHERE simjoin.y",
        // An alias without AS before the join.
        "SELECT * FROM t simjoin «SIMJOIN» t b ON! simjoin.x = b.x",
        "SELECT * FROM t simjoin «SIMJOIN» t AS b ON! p",
        "SELECT * FROM t simjoin «SIMJOIN» t \"b\" ON! p",
        "SELECT * FROM t simjoin «SIMJOIN» s.t ON! p",
        "SELECT * FROM t simjoin «SIMJOIN» (SELECT 1) b ON! p",
        "SELECT * FROM t simjoin «SIMJOIN» ((b JOIN c ON q)) ON! p",
        "SELECT * FROM t simjoin «SIMJOIN» range(1, 2) b ON! p",
        "SELECT * FROM t simjoin «SIMJOIN» LATERAL (SELECT 1) b ON! p",
        "SELECT * FROM 't.csv' simjoin «SIMJOIN» 'b.csv' ON! p «SIMJOIN» c ON! q",
        "SELECT * FROM t simjoin LEFT «SIMJOIN» t b ON! p",
        // The first SIMJOIN is the join where both readings are right.
        "SELECT * FROM a «SIMJOIN» simjoin b(x) ON! p",
        "SELECT * FROM a «SIMJOIN» simjoin b(x, y) ON! p",
        "SELECT * FROM a «SIMJOIN» simjoin(1, 2) ON! p",
    ] {
        check(&GenericDialect {}, marked);
    }
    let lower = "select * from a left semi SimJoin b on p";
    assert_eq!(
        rewrite_sql(lower).unwrap(),
        "select * from a left semi JOIN    b on __simjoin_marker() OR p"
    );
}

#[test]
fn conditions_match_their_joins_from_the_inside() {
    let dialect = SnowflakeDialect {};
    check(&dialect, "SELECT * FROM a JOIN b LEFT JOIN c ON q ON p");
    check(&dialect, "SELECT * FROM a JOIN t simjoin «SIMJOIN» t b ON! p ON q");
    check(&dialect, "SELECT * FROM a «SIMJOIN» simjoin LEFT JOIN c ON q ON! p");
    check(&dialect, "SELECT * FROM a JOIN b INNER «SIMJOIN» c ON! q ON p");
    check(&dialect, "SELECT * FROM a «SIMJOIN» b JOIN c ON q ON! p");
    check(&dialect, "SELECT * FROM a «SIMJOIN» b INNER «SIMJOIN» c ON! q ON! p");
    check(&dialect, "SELECT * FROM a «SIMJOIN» b JOIN (c «SIMJOIN» d ON! r) ON q ON! p");
}

#[test]
fn the_name_stays_a_name() {
    for sql in [
        "SET simjoin.device = 'cpu'",
        "SHOW simjoin.strategy",
        "RESET simjoin.device",
        "SELECT simjoin FROM t",
        "SELECT simjoin, t.simjoin, simjoin.x, simjoin(1) AS simjoin FROM t",
        "SELECT * FROM simjoin",
        "SELECT * FROM simjoin b",
        "SELECT * FROM simjoin JOIN b ON simjoin.x = b.x",
        "SELECT * FROM a, simjoin",
        "SELECT * FROM a JOIN simjoin ON a.x = simjoin.x",
        "SELECT * FROM simjoin(1, 2)",
        "SELECT * FROM simjoin.simjoin.simjoin",
        "SELECT * FROM a AS simjoin",
        "SELECT * FROM a simjoin",
        "SELECT * FROM a simjoin;",
        "SELECT * FROM a simjoin WHERE simjoin.x = 1",
        "SELECT * FROM a simjoin, b",
        "SELECT * FROM a simjoin JOIN b ON simjoin.x = b.x",
        "SELECT * FROM a simjoin LEFT JOIN b USING (x)",
        "SELECT * FROM b JOIN a simjoin ON simjoin.x = b.x",
        "SELECT * FROM b JOIN a simjoin USING (x)",
        "SELECT * FROM a simjoin (x, y) WHERE x = 1",
        "SELECT * FROM a simjoin(x) WHERE x = 1",
        "SELECT * FROM (SELECT 1) simjoin",
        "SELECT * FROM (SELECT * FROM a simjoin) b",
        "SELECT * FROM a simjoin UNION SELECT * FROM b simjoin ORDER BY 1",
        "SELECT * FROM a JOIN b ON simjoin = b.x AND NOT simjoin AND x IN (simjoin, 1)",
        "SELECT * FROM a JOIN b ON a.x = simjoin AND b.simjoin",
        "SELECT * FROM a JOIN b ON a.x = b.x WHERE simjoin",
        "SELECT count(*) AS simjoin FROM a GROUP BY simjoin ORDER BY simjoin",
        "SELECT extract(day FROM simjoin) FROM a",
        "SELECT a IS DISTINCT FROM simjoin FROM b",
        "SELECT 'a SIMJOIN b' FROM t -- SIMJOIN b\n/* a SIMJOIN b */",
        r#"SELECT * FROM a "SIMJOIN""#,
        "WITH simjoin AS (SELECT 1) SELECT * FROM simjoin",
        "CREATE TABLE simjoin (simjoin INT)",
        "INSERT INTO simjoin VALUES (1)",
        "INSERT INTO t SELECT * FROM a simjoin ON CONFLICT DO NOTHING",
        "DROP TABLE simjoin",
        "DELETE FROM simjoin WHERE x = 1",
        "UPDATE simjoin SET x = 1",
        "COPY simjoin TO 'x.csv'",
        "DESCRIBE simjoin",
        "SELECT simjoins, asimjoin FROM simjoin_b",
    ] {
        let rewritten = rewrite_sql(sql).unwrap_or_else(|e| panic!("{sql}\n{e}"));
        assert!(matches!(rewritten, Cow::Borrowed(same) if same == sql), "{sql} -> {rewritten}");
        parse_sql(sql, &GenericDialect {}, 50).unwrap_or_else(|e| panic!("{sql}\n{e}"));
    }
}

#[test]
fn what_cannot_be_rewritten_says_where_and_how() {
    for (sql, parts) in [
        (
            "SELECT * FROM a CROSS SIMJOIN b",
            ["CROSS SIMJOIN", "line 1, column 17", "is no join type"],
        ),
        (
            "SELECT *\nFROM a\n  NATURAL LEFT SIMJOIN b",
            ["NATURAL LEFT SIMJOIN", "line 3, column 3", "is no join type"],
        ),
        ("SELECT * FROM a ASOF SIMJOIN b ON p", ["ASOF SIMJOIN", "column 17", "no join type"]),
        ("SELECT * FROM a FULL SEMI SIMJOIN b ON p", ["FULL SEMI", "column 17", "no join type"]),
        ("SELECT * FROM a OUTER SIMJOIN b ON p", ["OUTER SIMJOIN", "column 17", "no join type"]),
        (
            "SELECT * FROM a SIMJOIN b USING (x)",
            ["SIMJOIN … USING", "line 1, column 17", "needs an ON condition"],
        ),
        ("SELECT * FROM a SIMJOIN b", ["SIMJOIN", "line 1, column 17", "has no ON condition"]),
        ("SELECT * FROM a SIMJOIN b;", ["SIMJOIN", "line 1, column 17", "has no ON condition"]),
        ("SELECT * FROM (a SIMJOIN b)", ["SIMJOIN", "line 1, column 18", "has no ON condition"]),
        ("SELECT * FROM a SIMJOIN b WHERE x", ["SIMJOIN", "column 17", "has no ON condition"]),
        ("SELECT * FROM a SIMJOIN b, c", ["SIMJOIN", "column 17", "has no ON condition"]),
        ("SELECT * FROM a SIMJOIN b JOIN c ON p", ["SIMJOIN", "column 17", "has no ON condition"]),
        ("SELECT * FROM a SIMJOIN ON p", ["SIMJOIN", "column 17", "needs a table on its right"]),
        ("SELECT * FROM a x SIMJOIN WHERE p", ["SIMJOIN", "column 19", "found WHERE"]),
        ("SELECT * FROM a LEFT SIMJOIN", ["SIMJOIN", "column 22", "found the end of the text"]),
        ("SELECT * FROM a INNER SIMJOIN JOIN b ON p", ["SIMJOIN", "column 23", "found JOIN"]),
        (
            "SELECT 1;\nSELECT * FROM a JOIN b ON é SIMJOIN",
            ["SIMJOIN", "line 2, column 29", "needs a table"],
        ),
        (
            "SELECT * FROM a /*! x SIMJOIN b ON */ p",
            ["SIMJOIN", "line 1, column 20", "executable comment"],
        ),
    ] {
        let error = rewrite_sql(sql).expect_err(sql).to_string();
        for part in parts {
            assert!(error.contains(part), "{sql}\n{error}");
        }
        if !error.contains("executable") {
            assert!(error.contains(">= 0.8"), "no example: {error}");
            assert!(parse_sql(sql, &GenericDialect {}, 50).is_err(), "{sql}");
        }
    }
}

#[test]
fn parser_errors_point_into_the_original_text() {
    let sql = "SELECT *\nFROM a SEMI SIMJOIN b ON p\n  WHERE x y";
    let error = parse_sql(sql, &GenericDialect {}, 50).unwrap_err().to_string();
    assert!(error.contains("Line: 3"), "{error}");
    let sql = "SELECT * FROM a SEMI SIMJOIN b ON p WHERE )";
    let error = parse_sql(sql, &GenericDialect {}, 50).unwrap_err().to_string();
    assert!(error.contains("Column: 43"), "{error}");
}

#[test]
fn text_without_the_word_is_untouched() {
    for sql in ["", ";", "SELECT 'open", "\u{0}(((", "SELECT \"x", "/* SIM JOIN"] {
        assert!(matches!(rewrite_sql(sql).unwrap(), Cow::Borrowed(same) if same == sql));
    }
    // It holds the word, but no tokens: the parser reports it.
    let open = "SELECT 'a SIMJOIN b";
    assert_eq!(rewrite_sql(open).unwrap(), open);
    assert!(parse_sql(open, &GenericDialect {}, 50).is_err());
}

/// Any text of tokens gives a rewriting or an error; taking the edits back gives the text.
#[test]
fn token_soup_does_not_break_it() {
    let words = [
        "SIMJOIN",
        "simjoin",
        "JOIN",
        "ON",
        "FROM",
        "SELECT",
        "LEFT",
        "SEMI",
        "ANTI",
        "CROSS",
        "a",
        "b",
        "\"q\"",
        "'s'",
        "(",
        ")",
        ",",
        ";",
        ".",
        "AS",
        "USING",
        "WHERE",
        "=",
        "AND",
        "NOT",
        "IN",
        "WITH",
        "|>",
        "[",
        "]",
        "{",
        "}",
        "LATERAL",
        "/* é */",
        "--x\n",
        "1",
        "*",
        "/*!",
        "*/",
        "/*! SIMJOIN */",
        "'",
        "$1",
        "日",
        "::",
        "\n",
        "SAMPLE",
        "DISTINCT",
        "IS",
    ];
    let mut rng = StdRng::seed_from_u64(7);
    let (mut rewritten_texts, mut errors) = (0, 0);
    for _ in 0..5_000 {
        let length = rng.random_range(1..25);
        let mut sql = String::new();
        for _ in 0..length {
            // Weight what makes a FROM clause, so that some of the soup is a join.
            let word = match rng.random_range(0..10) {
                0 => "FROM a",
                1 => "SIMJOIN b",
                2 => "ON p",
                _ => words.choose(&mut rng).unwrap(),
            };
            sql.push_str(word);
            sql.push(' ');
        }
        let _ = parse_sql(&sql, &GenericDialect {}, 50);
        match rewrite_sql(&sql) {
            Err(error) => {
                errors += 1;
                let error = error.to_string();
                assert!(error.contains("line ") && error.contains("column "), "{sql}\n{error}");
            }
            Ok(Cow::Borrowed(same)) => assert_eq!(same, sql),
            Ok(Cow::Owned(rewritten)) => {
                rewritten_texts += 1;
                let back = rewritten
                    .replace(&format!(" {MARKER_FUNCTION}() OR"), "")
                    .replace("JOIN   ", "SIMJOIN")
                    .replace("LEFT SEMI", "SEMI")
                    .replace("LEFT ANTI", "ANTI");
                let same = sql.replace("simjoin", "SIMJOIN");
                let same = same.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI");
                assert_eq!(back.replace("simjoin", "SIMJOIN"), same);
            }
        }
    }
    assert!(rewritten_texts > 50 && errors > 500, "{rewritten_texts} {errors}");
}
