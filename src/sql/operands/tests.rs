use datafusion::sql::sqlparser::dialect::{GenericDialect, PostgreSqlDialect};
use rand::prelude::*;

use super::super::{parse_sql, rewrite_sql_with_dialect};
use super::*;

/// Compares a statement with its text in brackets, and with the expression that its tokens are parsed to.
#[track_caller]
fn check(dialect: &dyn Dialect, sql: &str, expected: &str) {
    let rewritten = rewrite_sql_with_dialect(sql, dialect).unwrap();
    assert_eq!(rewritten, expected);
    let parsed = |sql: &str| parse_sql(sql, dialect, 50).map(|s| s[0].to_string()).unwrap();
    assert_eq!(parsed(sql), parsed(expected), "{sql}");
}

#[test]
fn what_follows_a_right_operand_is_no_part_of_it() {
    for (sql, expected) in [
        ("a IS DISTINCT FROM b", ""),
        ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c"),
        ("a IS NOT DISTINCT FROM b OR c AND d", "(a IS NOT DISTINCT FROM b) OR c AND d"),
        ("x AND a IS DISTINCT FROM b AND c", "x AND (a IS DISTINCT FROM b) AND c"),
        ("x OR NOT a IS DISTINCT FROM b OR c", "x OR NOT (a IS DISTINCT FROM b) OR c"),
        (
            "a.x is  not\n distinct /* AND */ from b.y and c",
            "(a.x is  not\n distinct /* AND */ from b.y) and c",
        ),
        // Arithmetic, comparisons and their like belong to the operands.
        ("a IS DISTINCT FROM b + 1 AND c", "(a IS DISTINCT FROM b + 1) AND c"),
        ("a IS DISTINCT FROM b = c AND d", "(a IS DISTINCT FROM b = c) AND d"),
        ("a = b IS DISTINCT FROM c AND d", "(a = b IS DISTINCT FROM c) AND d"),
        ("a LIKE b IS DISTINCT FROM c AND d", "(a LIKE b IS DISTINCT FROM c) AND d"),
        ("a IS DISTINCT FROM b IN (1, 2) AND d", "(a IS DISTINCT FROM b IN (1, 2)) AND d"),
        ("a IS DISTINCT FROM b NOT LIKE 'x' OR d", "(a IS DISTINCT FROM b NOT LIKE 'x') OR d"),
        (
            "a IS DISTINCT FROM b BETWEEN 1 AND 2 AND c",
            "(a IS DISTINCT FROM b BETWEEN 1 AND 2) AND c",
        ),
        (
            "x BETWEEN 1 AND a IS DISTINCT FROM b AND c",
            "(x BETWEEN 1 AND a IS DISTINCT FROM b) AND c",
        ),
        (
            "y AND x BETWEEN 1 AND 2 IS DISTINCT FROM b AND c",
            "y AND (x BETWEEN 1 AND 2 IS DISTINCT FROM b) AND c",
        ),
        ("- a - -b IS DISTINCT FROM - c AND d", "(- a - -b IS DISTINCT FROM - c) AND d"),
        (
            "a::BIGINT IS DISTINCT FROM b::DOUBLE PRECISION AND c",
            "(a::BIGINT IS DISTINCT FROM b::DOUBLE PRECISION) AND c",
        ),
        ("a[1] IS DISTINCT FROM b[2] AND c", "(a[1] IS DISTINCT FROM b[2]) AND c"),
        (
            "d IS DISTINCT FROM DATE '2020-01-01' + INTERVAL '1' DAY AND c",
            "(d IS DISTINCT FROM DATE '2020-01-01' + INTERVAL '1' DAY) AND c",
        ),
        (
            "t AT TIME ZONE 'UTC' IS DISTINCT FROM u AND c",
            "(t AT TIME ZONE 'UTC' IS DISTINCT FROM u) AND c",
        ),
        ("x OR (a) IS DISTINCT FROM (b) OR c", "x OR ((a) IS DISTINCT FROM (b)) OR c"),
        ("x AND (a) IS DISTINCT FROM (b) AND c", "x AND ((a) IS DISTINCT FROM (b)) AND c"),
        ("(a, b) IS DISTINCT FROM (c, d) AND e", "((a, b) IS DISTINCT FROM (c, d)) AND e"),
        ("f(a) IS DISTINCT FROM left(b, 2) AND c", "(f(a) IS DISTINCT FROM left(b, 2)) AND c"),
        ("left(b, 2) IS DISTINCT FROM 'AND' AND c", "(left(b, 2) IS DISTINCT FROM 'AND') AND c"),
        (
            "count(*) OVER (PARTITION BY a) IS DISTINCT FROM 1 AND c",
            "(count(*) OVER (PARTITION BY a) IS DISTINCT FROM 1) AND c",
        ),
        (
            "\"IS\" IS DISTINCT FROM \"DISTINCT\" AND c",
            "(\"IS\" IS DISTINCT FROM \"DISTINCT\") AND c",
        ),
        ("a.distinct IS DISTINCT FROM b.and AND c", "(a.distinct IS DISTINCT FROM b.and) AND c"),
        (
            "a IS DISTINCT FROM $1 AND $2 IS NOT DISTINCT FROM b OR c",
            "(a IS DISTINCT FROM $1) AND ($2 IS NOT DISTINCT FROM b) OR c",
        ),
        // Another IS is applied to the whole.
        ("a IS DISTINCT FROM b IS TRUE", "(a IS DISTINCT FROM b) IS TRUE"),
        (
            "a IS NULL IS DISTINCT FROM b IS NULL AND c",
            "(a IS NULL IS DISTINCT FROM b) IS NULL AND c",
        ),
        (
            "a IS DISTINCT FROM b IS DISTINCT FROM c AND d",
            "((a IS DISTINCT FROM b) IS DISTINCT FROM c) AND d",
        ),
        ("a IS DISTINCT FROM NOT b AND c", "(a IS DISTINCT FROM NOT b) AND c"),
        ("a IS DISTINCT FROM NOT b IS NULL AND c", "(a IS DISTINCT FROM NOT b IS NULL) AND c"),
        (
            "a IS DISTINCT FROM NOT b IS DISTINCT FROM c AND d",
            "(a IS DISTINCT FROM NOT (b IS DISTINCT FROM c)) AND d",
        ),
        // CASE and subqueries.
        (
            "CASE WHEN a IS DISTINCT FROM b AND c THEN 1 ELSE d IS DISTINCT FROM e OR f END",
            "CASE WHEN (a IS DISTINCT FROM b) AND c THEN 1 ELSE (d IS DISTINCT FROM e) OR f END",
        ),
        (
            "CASE a WHEN 1 THEN b OR c END IS DISTINCT FROM CASE WHEN x AND y THEN 1 END AND z",
            "(CASE a WHEN 1 THEN b OR c END IS DISTINCT FROM CASE WHEN x AND y THEN 1 END) AND z",
        ),
        (
            "CASE WHEN (a) IS DISTINCT FROM b AND c THEN 1 END",
            "CASE WHEN ((a) IS DISTINCT FROM b) AND c THEN 1 END",
        ),
        (
            "a IS DISTINCT FROM (SELECT max(x) FROM t WHERE y IS DISTINCT FROM z AND w) AND c",
            "(a IS DISTINCT FROM (SELECT max(x) FROM t WHERE (y IS DISTINCT FROM z) AND w)) AND c",
        ),
        (
            "f(a IS DISTINCT FROM b AND c, d IS NOT DISTINCT FROM e)",
            "f((a IS DISTINCT FROM b) AND c, d IS NOT DISTINCT FROM e)",
        ),
        (
            "1 + 1, a IS DISTINCT FROM b AND c AS x, d",
            "1 + 1, (a IS DISTINCT FROM b) AND c AS x, d",
        ),
        ("DISTINCT (a) IS DISTINCT FROM b AND c", "DISTINCT ((a) IS DISTINCT FROM b) AND c"),
        ("'a IS DISTINCT FROM b AND c', $$ a IS DISTINCT FROM b AND c $$", ""),
    ] {
        let expected = if expected.is_empty() { sql } else { expected };
        for dialect in [&GenericDialect {} as &dyn Dialect, &PostgreSqlDialect {}] {
            let select = |list: &str| format!(" SELECT {list} FROM t WHERE z");
            check(dialect, &select(sql), &select(expected));
        }
    }
}

#[test]
fn every_clause_and_statement_is_read() {
    let generic = &GenericDialect {};
    for (sql, expected) in [
        (
            "SELECT 1 FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k AND a.id < b.id WHERE c IS DISTINCT FROM d OR e GROUP BY f IS DISTINCT FROM g OR h HAVING (i) IS DISTINCT FROM j AND k ORDER BY l IS DISTINCT FROM m OR n DESC",
            "SELECT 1 FROM a JOIN b ON (a.k IS NOT DISTINCT FROM b.k) AND a.id < b.id WHERE (c IS DISTINCT FROM d) OR e GROUP BY (f IS DISTINCT FROM g) OR h HAVING ((i) IS DISTINCT FROM j) AND k ORDER BY (l IS DISTINCT FROM m) OR n DESC",
        ),
        (
            "SELECT 1 FROM a SIMJOIN b ON a.k IS NOT DISTINCT FROM b.k AND j(a.t, b.t) >= 1",
            "SELECT 1 FROM a JOIN    b ON __simjoin_marker() OR (a.k IS NOT DISTINCT FROM b.k) AND j(a.t, b.t) >= 1",
        ),
        (
            "CREATE VIEW v AS SELECT a IS DISTINCT FROM b AND c FROM t; PREPARE p AS SELECT (a) IS DISTINCT FROM $1 OR c FROM t",
            "CREATE VIEW v AS SELECT (a IS DISTINCT FROM b) AND c FROM t; PREPARE p AS SELECT ((a) IS DISTINCT FROM $1) OR c FROM t",
        ),
        (
            "UPDATE t SET x = a IS DISTINCT FROM b AND c, y = d = e IS DISTINCT FROM f OR g WHERE h = i IS DISTINCT FROM j AND k",
            "UPDATE t SET x = (a IS DISTINCT FROM b) AND c, y = (d = e IS DISTINCT FROM f) OR g WHERE (h = i IS DISTINCT FROM j) AND k",
        ),
        (
            "COPY (SELECT a IS DISTINCT FROM b AND c FROM t) TO 'x.csv'",
            "COPY (SELECT (a IS DISTINCT FROM b) AND c FROM t) TO 'x.csv'",
        ),
        (
            "EXPLAIN SELECT a IS DISTINCT FROM b AND c FROM t",
            "EXPLAIN SELECT (a IS DISTINCT FROM b) AND c FROM t",
        ),
    ] {
        let rewritten = rewrite_sql_with_dialect(sql, generic).unwrap();
        assert_eq!(rewritten, expected);
        let parsed = |sql: &str| {
            let statements = parse_sql(sql, generic, 50).unwrap();
            statements.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(parsed(sql), parsed(expected));
    }
}

/// Chains of more operators than the parser may nest, and of more than are read twice in time.
#[test]
fn long_chains_are_read() {
    let sum = |count: usize| vec!["a"; count].join(" + ");
    let sql = format!("SELECT {0} AND {0} IS DISTINCT FROM {0} AND {0}", sum(500));
    let expected = format!("SELECT {0} AND ({0} IS DISTINCT FROM {0}) AND {0}", sum(500));
    assert_eq!(rewrite_sql_with_dialect(&sql, &GenericDialect {}).unwrap(), expected);
    let sql = format!("SELECT {}", vec!["a"; 3000].join(" IS DISTINCT FROM "));
    let rewritten = rewrite_sql_with_dialect(&sql, &GenericDialect {}).unwrap();
    assert_eq!(rewritten.matches('(').count(), 2998);
    let chain = vec!["a IS NOT DISTINCT FROM b"; 300].join(" AND ");
    let sql = format!("SELECT {chain}");
    assert_eq!(parse_sql(&sql, &GenericDialect {}, 50).unwrap().len(), 1);
    let rewritten = rewrite_sql_with_dialect(&sql, &GenericDialect {}).unwrap();
    assert_eq!(rewritten.matches("(a IS NOT DISTINCT FROM b) AND ").count(), 299);
}

#[test]
fn what_cannot_be_read_is_left_to_the_parser() {
    for sql in [
        "SELECT 1 IS DISTINCT FROM AND 2",
        "SELECT IS DISTINCT FROM 1 AND 2",
        "IS DISTINCT FROM",
        " IS NOT DISTINCT FROM x AND",
        "SELECT a IS DISTINCT FROM (b AND c",
        "SELECT a) IS DISTINCT FROM b AND c",
    ] {
        assert_eq!(rewrite_sql_with_dialect(sql, &GenericDialect {}).unwrap(), sql);
        assert!(parse_sql(sql, &GenericDialect {}, 50).is_err());
    }
}

/// An expression as text: with the brackets that precedence asks for, and with all.
fn draw(rng: &mut StdRng, depth: u32) -> (String, String, u8) {
    const NOT: u8 = 3;
    const IS: u8 = 4;
    if depth == 0 || rng.random_bool(0.15) {
        let name = ["a", "b.c", "1", "$1", "'x AND y'", "f(a, b)", "\"is\""];
        let name = name.choose(rng).unwrap().to_string();
        return (name.clone(), name, 20);
    }
    let operand = |rng: &mut StdRng, least: u8| {
        let (text, full, level) = draw(rng, depth - 1);
        let text = if level < least { format!("({text})") } else { text };
        (text, full)
    };
    let binary = |rng: &mut StdRng, op: &str, level: u8, left: u8, right: u8| {
        let (l, full_l) = operand(rng, left);
        let (r, full_r) = operand(rng, right);
        (format!("{l} {op} {r}"), format!("({full_l} {op} {full_r})"), level)
    };
    match rng.random_range(0..12) {
        0 | 1 => binary(rng, "OR", 1, 1, 2),
        2 | 3 => binary(rng, "AND", 2, 2, NOT),
        4 => binary(rng, "=", 6, 6, 7),
        5 => binary(rng, "+", 8, 8, 9),
        6 => {
            let (text, full) = operand(rng, NOT);
            (format!("NOT {text}"), format!("(NOT {full})"), NOT)
        }
        7 => {
            let (text, full) = operand(rng, IS);
            (format!("{text} IS NULL"), format!("({full} IS NULL)"), IS)
        }
        8 => {
            let (text, full) = operand(rng, 1);
            (format!("CASE WHEN {text} THEN 1 END"), format!("CASE WHEN {full} THEN 1 END"), 20)
        }
        n => {
            let op = ["IS DISTINCT FROM", "IS NOT DISTINCT FROM"][n % 2];
            binary(rng, op, IS, IS, 6)
        }
    }
}

#[test]
fn random_expressions_have_the_tree_of_their_brackets() {
    // Every bracket of the parsed text is left out, and every operator gets its own.
    fn tree(expr: &str) -> String {
        use datafusion::sql::sqlparser::ast::Expr;
        fn print(expr: &Expr) -> String {
            match expr {
                Expr::Nested(inner) => print(inner),
                Expr::BinaryOp { left, op, right } => {
                    format!("({} {op} {})", print(left), print(right))
                }
                Expr::UnaryOp { expr, .. } => format!("(NOT {})", print(expr)),
                Expr::IsNull(expr) => format!("({} IS NULL)", print(expr)),
                Expr::IsDistinctFrom(left, right) => {
                    format!("({} IS DISTINCT FROM {})", print(left), print(right))
                }
                Expr::IsNotDistinctFrom(left, right) => {
                    format!("({} IS NOT DISTINCT FROM {})", print(left), print(right))
                }
                Expr::Case { conditions, .. } => {
                    format!("CASE WHEN {} THEN 1 END", print(&conditions[0].condition))
                }
                leaf => leaf.to_string(),
            }
        }
        let parser = Parser::new(&GenericDialect {}).with_recursion_limit(500);
        print(&parser.try_with_sql(expr).unwrap().parse_expr().unwrap())
    }
    let mut rng = StdRng::seed_from_u64(5);
    let mut bracketed = 0;
    for _ in 0..3000 {
        let depth = rng.random_range(1..6);
        let (text, full, _) = draw(&mut rng, depth);
        let sql = format!("SELECT {text}");
        let rewritten = rewrite_sql_with_dialect(&sql, &GenericDialect {}).unwrap();
        bracketed += usize::from(rewritten != sql);
        let expression = rewritten.strip_prefix("SELECT ").unwrap();
        assert_eq!(tree(expression), full, "{sql}\n{rewritten}");
    }
    assert!(bracketed > 500, "{bracketed}");
}
