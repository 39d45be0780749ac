//! The eight join types on small tables, with the answers written out.

use crate::oracle::{Row, ints};
use crate::support::{
    Session, assert_same_rows, assert_uses_operator, context_of, number, register, rows,
};

fn row(id: i64, toks: crate::oracle::List, key: Option<i64>, name: Option<&str>, w: i64) -> Row {
    Row { id, toks, key, name: name.map(String::from), w: Some(w) }
}

/// Rows 3 and 4 of `a`, and 12 and 13 of `b`, have no set or an empty one; `a` 1 and 6 are equal.
pub fn tables() -> (Vec<Row>, Vec<Row>) {
    let a = vec![
        row(1, ints([1, 2, 3]), Some(1), Some("x"), 5),
        row(2, ints([2, 1, 2]), Some(2), None, 1),
        row(3, None, Some(1), Some("x"), 2),
        row(4, ints([]), Some(1), Some("x"), 3),
        row(5, ints([7, 8, 9]), None, Some("y"), 4),
        row(6, ints([3, 2, 1]), None, None, 6),
    ];
    let b = vec![
        row(10, ints([1, 2, 3, 4]), Some(1), Some("x"), 7),
        row(11, ints([1, 2]), None, None, 2),
        row(12, None, Some(1), Some("x"), 9),
        row(13, Some(vec![None, None]), Some(1), Some("x"), 9),
        row(14, ints([50]), Some(2), Some("y"), 1),
    ];
    (a, b)
}

async fn check(join: &str, on: &str, columns: &str, expected: &[&str]) {
    let (a, b) = tables();
    let expected: Vec<String> = expected.iter().map(|l| l.to_string()).collect();
    for build_side in ["auto", "left", "right"] {
        let ctx = Session::default().option("build_side", build_side).context();
        register(&ctx, "a", &a);
        register(&ctx, "b", &b);
        let sql = format!("SELECT {columns} FROM a {join} SIMJOIN b ON {on}");
        assert_uses_operator(&ctx, &sql).await;
        assert_same_rows(&rows(&ctx, &sql).await, &expected, &format!("{sql} ({build_side})"));
    }
}

const ALIKE: &str = "jaccard(a.toks, b.toks) >= 0.5";

const MATCHES: [&str; 6] = ["1 | 10", "1 | 11", "2 | 10", "2 | 11", "6 | 10", "6 | 11"];

#[tokio::test]
async fn inner_join_gives_the_pairs() {
    check("", ALIKE, "a.id, b.id", &MATCHES).await;
    check("INNER", ALIKE, "a.id, b.id", &MATCHES).await;
}

#[tokio::test]
async fn left_join_keeps_left_rows_without_a_match() {
    let alone = ["3 | NULL", "4 | NULL", "5 | NULL"];
    check("LEFT", ALIKE, "a.id, b.id", &[&MATCHES[..], &alone].concat()).await;
    check("LEFT OUTER", ALIKE, "a.id, b.id", &[&MATCHES[..], &alone].concat()).await;
}

#[tokio::test]
async fn right_join_keeps_right_rows_without_a_match() {
    let alone = ["NULL | 12", "NULL | 13", "NULL | 14"];
    check("RIGHT", ALIKE, "a.id, b.id", &[&MATCHES[..], &alone].concat()).await;
}

#[tokio::test]
async fn full_join_keeps_both() {
    let alone = ["3 | NULL", "4 | NULL", "5 | NULL", "NULL | 12", "NULL | 13", "NULL | 14"];
    check("FULL", ALIKE, "a.id, b.id", &[&MATCHES[..], &alone].concat()).await;
    check("FULL OUTER", ALIKE, "a.id, b.id", &[&MATCHES[..], &alone].concat()).await;
}

#[tokio::test]
async fn semi_joins_give_a_row_once() {
    check("LEFT SEMI", ALIKE, "a.id", &["1", "2", "6"]).await;
    check("RIGHT SEMI", ALIKE, "b.id", &["10", "11"]).await;
}

#[tokio::test]
async fn anti_joins_give_the_rows_without_a_match() {
    check("LEFT ANTI", ALIKE, "a.id", &["3", "4", "5"]).await;
    check("RIGHT ANTI", ALIKE, "b.id", &["12", "13", "14"]).await;
}

/// A NULL key equals nothing, so that only `(1, 10)` is left.
#[tokio::test]
async fn null_keys_do_not_match() {
    let on = "jaccard(a.toks, b.toks) >= 0.5 AND a.key = b.key";
    check("", on, "a.id, b.id", &["1 | 10"]).await;
    check("LEFT SEMI", on, "a.id", &["1"]).await;
    check("LEFT ANTI", on, "a.id", &["2", "3", "4", "5", "6"]).await;
    let alone = ["2 | NULL", "3 | NULL", "4 | NULL", "5 | NULL", "6 | NULL"];
    check("LEFT", on, "a.id, b.id", &[&["1 | 10"], &alone[..]].concat()).await;
}

#[tokio::test]
async fn null_keys_match_under_is_not_distinct_from() {
    let on = "jaccard(a.toks, b.toks) >= 0.5 AND (a.key IS NOT DISTINCT FROM b.key)";
    check("", on, "a.id, b.id", &["1 | 10", "6 | 11"]).await;
    let both = format!("{on} AND (a.name IS NOT DISTINCT FROM b.name)");
    check("", &both, "a.id, b.id", &["1 | 10", "6 | 11"]).await;
    check("RIGHT ANTI", on, "b.id", &["12", "13", "14"]).await;
    let mixed = "jaccard(a.toks, b.toks) >= 0.5 AND (a.key IS NOT DISTINCT FROM b.key) \
                 AND a.name = b.name";
    check("", mixed, "a.id, b.id", &["1 | 10"]).await;
}

/// A condition on the preserved side decides about matching, not about staying.
#[tokio::test]
async fn one_sided_conditions_keep_preserved_rows() {
    let on = "jaccard(a.toks, b.toks) >= 0.5 AND a.id > 1 AND b.id = 10";
    check("", on, "a.id, b.id", &["2 | 10", "6 | 10"]).await;
    let alone = ["1 | NULL", "3 | NULL", "4 | NULL", "5 | NULL"];
    check("LEFT", on, "a.id, b.id", &[&["2 | 10", "6 | 10"], &alone[..]].concat()).await;
    let alone = ["NULL | 11", "NULL | 12", "NULL | 13", "NULL | 14"];
    check("RIGHT", on, "a.id, b.id", &[&["2 | 10", "6 | 10"], &alone[..]].concat()).await;
    check("LEFT SEMI", on, "a.id", &["2", "6"]).await;
    check("LEFT ANTI", on, "a.id", &["1", "3", "4", "5"]).await;
    check("RIGHT ANTI", on, "b.id", &["11", "12", "13", "14"]).await;
}

#[tokio::test]
async fn residual_conditions_decide_about_pairs() {
    let on = "jaccard(a.toks, b.toks) >= 0.5 AND a.w < b.w";
    let pairs = ["1 | 10", "2 | 10", "2 | 11", "6 | 10"];
    check("", on, "a.id, b.id", &pairs).await;
    check("RIGHT SEMI", on, "b.id", &["10", "11"]).await;
    let on = "jaccard(a.toks, b.toks) >= 0.5 AND a.w > b.w";
    check("LEFT ANTI", on, "a.id", &["2", "3", "4", "5"]).await;
    let alone = ["NULL | 10", "NULL | 12", "NULL | 13", "NULL | 14"];
    let all = [&["1 | 11", "6 | 11", "2 | NULL", "3 | NULL", "4 | NULL", "5 | NULL"], &alone[..]];
    check("FULL", on, "a.id, b.id", &all.concat()).await;
}

#[tokio::test]
async fn an_empty_input_leaves_only_preserved_rows() {
    let (a, _) = tables();
    for build_side in ["auto", "left", "right"] {
        let ctx = Session::default().option("build_side", build_side).context();
        register(&ctx, "a", &a);
        register(&ctx, "b", &[]);
        for (kind, expected) in [
            ("INNER", 0),
            ("LEFT", 6),
            ("RIGHT", 0),
            ("FULL", 6),
            ("LEFT SEMI", 0),
            ("LEFT ANTI", 6),
        ] {
            for (left, right, kind) in [("a", "b", kind.to_string()), ("b", "a", mirrored(kind))] {
                let sql = format!(
                    "SELECT count(*) FROM {left} AS l {kind} SIMJOIN {right} AS r \
                     ON jaccard(l.toks, r.toks) >= 0.5"
                );
                assert_eq!(number(&ctx, &sql).await, expected, "{sql}");
            }
        }
    }
}

fn mirrored(kind: &str) -> String {
    if kind.contains("LEFT") {
        kind.replace("LEFT", "RIGHT")
    } else {
        kind.replace("RIGHT", "LEFT")
    }
}

/// The lists, names and NULLs of both sides come through, also beside padding.
#[tokio::test]
async fn payload_columns_come_through() {
    let (a, b) = tables();
    let ctx = context_of(&a, &b);
    let sql = "SELECT a.*, b.toks, b.name FROM a LEFT SIMJOIN b \
               ON jaccard(a.toks, b.toks) >= 0.6 WHERE a.id <> 6";
    assert_uses_operator(&ctx, sql).await;
    let expected = [
        r#"1 | [1, 2, 3] | 1 | "x" | 5 | [1, 2, 3, 4] | "x""#,
        r#"1 | [1, 2, 3] | 1 | "x" | 5 | [1, 2] | NULL"#,
        r#"2 | [2, 1, 2] | 2 | NULL | 1 | [1, 2] | NULL"#,
        r#"3 | NULL | 1 | "x" | 2 | NULL | NULL"#,
        r#"4 | [] | 1 | "x" | 3 | NULL | NULL"#,
        r#"5 | [7, 8, 9] | NULL | "y" | 4 | NULL | NULL"#,
    ];
    assert_same_rows(&rows(&ctx, sql).await, &expected.map(String::from), sql);
}

/// Any expression of one side is an argument; NULL elements and repeats of text do not count.
#[tokio::test]
async fn arguments_may_be_expressions() {
    let ctx = Session::default().context();
    for sql in [
        "CREATE TABLE p AS VALUES (1, 'Night'), (2, 'day'), (3, NULL), (4, '')",
        "CREATE TABLE q AS VALUES (1, 'nights'), (2, 'DAYS'), (3, ''), (4, NULL)",
    ] {
        rows(&ctx, sql).await;
    }
    let sql = "SELECT p.column1, q.column1 FROM p LEFT SIMJOIN q \
               ON jaccard(qgrams(lower(p.column2), 2), qgrams(lower(q.column2), 2)) >= 0.6";
    assert_uses_operator(&ctx, sql).await;
    let expected = ["1 | 1", "2 | 2", "3 | NULL", "4 | NULL"].map(String::from);
    assert_same_rows(&rows(&ctx, sql).await, &expected, sql);
}

#[tokio::test]
async fn chains_of_joins_work() {
    let (a, b) = tables();
    let ctx = context_of(&a, &b);
    let sql = "SELECT a.id, b.id, c.id FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.7 \
               SIMJOIN a AS c ON dice(c.toks, b.toks) >= 0.7 AND c.id <> a.id";
    let plan = assert_uses_operator(&ctx, sql).await;
    assert_eq!(plan.matches(crate::support::OPERATOR).count(), 2, "{plan}");
    // b 10 has dice 6/7 with a 1 and a 6, b 11 has 4/5 with both and 1 with a 2.
    let expected = ["1 | 10 | 6", "6 | 10 | 1", "2 | 11 | 1", "2 | 11 | 6"].map(String::from);
    assert_same_rows(&rows(&ctx, sql).await, &expected, sql);

    let sql = "SELECT a.id, b.id, c.w FROM a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.7 \
               JOIN a AS c ON c.id = a.id LEFT JOIN b AS d ON d.w = a.w";
    assert_uses_operator(&ctx, sql).await;
    let expected = ["1 | 10 | 5", "2 | 11 | 1", "6 | 10 | 6"].map(String::from);
    assert_same_rows(&rows(&ctx, sql).await, &expected, sql);
}

#[tokio::test]
async fn a_join_of_joins_in_parentheses_works() {
    let (a, b) = tables();
    let ctx = context_of(&a, &b);
    let sql = "SELECT count(*) FROM a SIMJOIN (b SIMJOIN b AS c ON jaccard(b.toks, c.toks) >= 0.5) \
               ON overlap(a.toks, c.toks) >= 2";
    assert_uses_operator(&ctx, sql).await;
    // (10,10) (10,11) (11,10) (11,11) (14,14), each c of the first four with a 1, 2 and 6.
    assert_eq!(number(&ctx, sql).await, 12);
}
