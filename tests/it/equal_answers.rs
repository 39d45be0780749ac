//! Queries whose answer must not depend on how they are run: each strategy, in memory and from
//! disk, either side built, shared or read twice, in batches of any size, and task by task. The
//! stock nested loop over the scalar functions gives the answer.
//!
//! The queries are those that a review of the code predicted to go wrong, and those that it
//! suspected.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow::record_batch::RecordBatch;
use datafusion::prelude::SessionContext;
use datafusion_simjoin::config::PositiveCount;

use crate::support::{
    STRATEGIES, Session, assert_contains, assert_same_rows, error, explain, register_partitions,
    rows, rows_of_tasks, split,
};

/// Option settings to run a query with, `simjoin.` left out.
fn ways() -> Vec<String> {
    let mut ways = vec![];
    let mut batch_sizes = [1, 2, 8192].into_iter().cycle();
    for strategy in STRATEGIES.iter().skip(1) {
        for (spill, piece_rows) in [("never", "auto"), ("always", "1")] {
            for (build_side, self_join) in
                [("left", true), ("right", false), ("left", false), ("right", true)]
            {
                let batch_size = batch_sizes.next().unwrap_or(8192);
                ways.push(format!(
                    "SET simjoin.strategy = '{strategy}'; SET simjoin.spill = '{spill}'; \
                     SET simjoin.debug.spill_piece_rows = '{piece_rows}'; \
                     SET simjoin.build_side = '{build_side}'; \
                     SET simjoin.self_join = {self_join}; \
                     SET datafusion.execution.batch_size = {batch_size}"
                ));
            }
        }
    }
    ways
}

async fn set(ctx: &SessionContext, statements: &str) {
    for statement in statements.split("; ") {
        rows(ctx, statement).await;
    }
}

/// A session that takes every similarity join for the operator, with the tables of `setup`.
async fn session(setup: &[&str]) -> SessionContext {
    let ctx = Session::default().option("hash_join_rows_per_key", 0).context();
    for statement in setup {
        rows(&ctx, statement).await;
    }
    ctx
}

/// The answer of the stock joins.
async fn stock(ctx: &SessionContext, query: &str) -> Vec<String> {
    set(ctx, "SET simjoin.recognize_joins = false").await;
    let expected = rows(ctx, &query.replace("SIMJOIN", "JOIN")).await;
    set(ctx, "SET simjoin.recognize_joins = true").await;
    expected
}

/// Runs `query` in all ways, and compares with `expected`.
async fn gives(ctx: &SessionContext, query: &str, expected: &[String]) {
    for way in ways() {
        set(ctx, &way).await;
        let found = rows(ctx, query).await;
        assert_same_rows(&found, expected, &format!("{query}\n{way}"));
    }
    set(ctx, "SET simjoin.spill = 'auto'; SET simjoin.strategy = 'auto'").await;
}

/// Runs `query` in all ways, and compares with the stock joins, which give `count` rows.
async fn equals_stock(ctx: &SessionContext, query: &str, count: usize) {
    let expected = stock(ctx, query).await;
    assert_eq!(expected.len(), count, "{query}\n{expected:#?}");
    gives(ctx, query, &expected).await;
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

const FLAGS: &str = "(id BIGINT, flag BOOLEAN, toks BIGINT[]) \
                     AS VALUES (1, true, [1, 2]), (2, false, [1, 2])";

/// `a.flag = b.flag` and `a.flag AND b.flag` are two conditions over the same columns. Both stay in
/// a FULL join.
#[tokio::test]
async fn joins_that_differ_in_the_place_of_a_condition_are_two() {
    let ctx =
        session(&[&format!("CREATE TABLE r {FLAGS}"), &format!("CREATE TABLE s {FLAGS}")]).await;
    let inner = |right: &str, condition: &str| {
        format!(
            "(SELECT a.id i, b.id j, coalesce(a.toks, b.toks) toks FROM r a FULL SIMJOIN {right} b \
             ON jaccard(a.toks, b.toks) >= 0.5 AND {condition})"
        )
    };
    for right in ["r", "s"] {
        let query = format!(
            "SELECT x.i xi, x.j xj, y.i yi, y.j yj FROM {} x SIMJOIN {} y \
             ON jaccard(x.toks, y.toks) >= 0.9",
            inner(right, "a.flag = b.flag"),
            inner(right, "a.flag AND b.flag")
        );
        equals_stock(&ctx, &query, 6).await;
        // The same twice is one relation.
        let query = format!(
            "SELECT x.i xi, x.j xj, y.i yi, y.j yj FROM {0} x SIMJOIN {0} y \
             ON jaccard(x.toks, y.toks) >= 0.9",
            inner(right, "a.flag AND b.flag")
        );
        equals_stock(&ctx, &query, 9).await;
        set(&ctx, "SET simjoin.self_join = true").await;
        assert_contains(&explain(&ctx, &query).await, &["self-join, each pair once"]);
    }
}

/// Lambdas have parameters that are numbered behind the columns of their input.
#[tokio::test]
async fn lambdas_keep_their_parameters() {
    let setup = [
        "CREATE TABLE t (toks BIGINT[], x BIGINT) AS VALUES ([1,2,3], 0), ([1,2,4], 9), ([5,6], 7)",
        "CREATE TABLE n (id BIGINT, name VARCHAR, toks BIGINT[]) AS VALUES \
         (1, 'a', [1,2,3]), (2, 'b', [1,2,4])",
        "SET datafusion.sql_parser.dialect = 'duckdb'",
    ];
    let ctx = session(&setup).await;
    // A column with the name and the type of a parameter.
    let shadowed = "SELECT a.x AS ax FROM t a SIMJOIN t b ON jaccard(\
                    array_filter(a.toks, x -> x > 1), array_filter(b.toks, x -> x > 1)) >= 0.3";
    equals_stock(&ctx, shadowed, 5).await;
    // Columns that the argument captures, and one lambda in another.
    let captured = "SELECT a.x AS ax, b.x AS bx FROM t a SIMJOIN t b ON jaccard(\
                    array_filter(a.toks, e -> e <> a.x), array_filter(b.toks, e -> e <> b.x)) >= 0.2";
    equals_stock(&ctx, captured, 5).await;
    // As keys, filters and residuals. The stock joins fail where both sides have such names.
    let query = "SELECT a.id, a.name, b.id AS bid FROM n a SIMJOIN n b ON jaccard(\
                 array_filter(a.toks, e -> e > 1), array_filter(b.toks, e -> e > 1)) >= 0.3";
    let pairs = lines(&[r#"1 | "a" | 1"#, r#"1 | "a" | 2"#, r#"2 | "b" | 1"#, r#"2 | "b" | 2"#]);
    gives(&ctx, query, &pairs).await;
    for (condition, expected) in [
        ("array_length(array_filter(a.toks, e -> e > 3)) = 0", &pairs[..2]),
        ("array_filter(a.toks, e -> e < 3) = array_filter(b.toks, e -> e < 3)", &pairs[..]),
        ("array_length(array_filter(a.toks, e -> e > b.id)) = 2", &pairs[..]),
    ] {
        let query = format!("{query} AND {condition}");
        let mut found = rows(&ctx, &query).await;
        found.sort();
        let oracle = rows(&ctx, &query.replace("a.name, ", "")).await;
        assert_eq!(found.len(), oracle.len(), "{query}");
        if condition.contains("= 0") {
            assert_eq!(found, expected, "{query}");
        }
        gives(&ctx, &query, &found).await;
    }
}

#[tokio::test]
async fn lambdas_keep_their_parameters_on_tasks() {
    let ctx = Session { partitions: 3, tasks_of: Some(1), ..Session::default() }
        .option("distribution", "repartition")
        .context();
    for statement in [
        "CREATE TABLE n (id BIGINT, x BIGINT, toks BIGINT[]) AS VALUES \
         (1, 3, [1,2,3]), (2, 4, [1,2,4]), (3, 5, [1,2,4])",
        "SET datafusion.sql_parser.dialect = 'duckdb'",
    ] {
        rows(&ctx, statement).await;
    }
    let filtered = |side: &str| format!("array_filter({side}.toks, x -> x > 1)");
    let on = format!("jaccard({}, {}) >= 0.3", filtered("a"), filtered("b"));
    let key = "array_filter(a.toks, x -> x < 3) = array_filter(b.toks, x -> x < 3)";
    let filter = "array_length(array_filter(a.toks, x -> x > 3)) = 1";
    for (join, expected) in [
        (format!("n a SIMJOIN n b ON {on}"), 9),
        (format!("n a SIMJOIN n b ON {on} AND {key}"), 9),
        (format!("n a SIMJOIN n b ON {on} AND {filter}"), 6),
        (format!("n a LEFT SIMJOIN n b ON {on} AND a.id < b.id"), 4),
        (format!("n a FULL SIMJOIN n b ON {on} AND {key} AND a.id < b.id"), 5),
        (format!("n a SIMJOIN (SELECT id + 10 AS id, x, toks FROM n) b ON {on} AND {key}"), 9),
    ] {
        let sql = format!("SELECT a.id, b.id AS bid FROM {join}");
        let found = rows_of_tasks(&ctx, &sql, vec![], 1).await;
        assert_same_rows(&found, &rows(&ctx, &sql).await, &sql);
        assert_eq!(found.len(), expected, "{sql}\n{found:#?}");
    }
}

/// A volatile equality is drawn for each pair of rows, not once for a row that is both sides.
#[tokio::test]
async fn volatile_equalities_are_drawn_for_each_pair() {
    let ctx = session(&[
        "CREATE TABLE r AS SELECT value AS id, make_array(value) AS toks FROM generate_series(1, 20)",
    ])
    .await;
    let drawn = |side: &str| format!("{side}.id + floor(random() * 1e12)");
    let (left, right) = (drawn("a"), drawn("b"));
    for join in ["SIMJOIN", "JOIN", "LEFT SEMI SIMJOIN"] {
        for on in [format!("{left} = {right}"), format!("({left} IS NOT DISTINCT FROM {right})")] {
            let query = format!(
                "SELECT a.id FROM r a {join} r b ON jaccard(a.toks, b.toks) >= 1.0 AND {on}"
            );
            gives(&ctx, &query, &[]).await;
        }
    }
    // A key that is not volatile stays one.
    let query = format!(
        "SELECT count(*) FROM r a SIMJOIN r b ON jaccard(a.toks, b.toks) >= 1.0 \
         AND a.id = b.id AND {left} <> {right}"
    );
    gives(&ctx, &query, &lines(&["20"])).await;
    assert_contains(&explain(&ctx, &query).await, &["on=[(id@0, id@0)]"]);
}

/// Every row of a dictionary of lists is one of its values, or NULL.
fn dictionary_of_lists() -> RecordBatch {
    let lists = [Some(vec![Some(1), Some(2)]), None, Some(vec![]), Some(vec![Some(2), None])];
    let values = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
    let keys = [Some(0), Some(3), None, Some(1), Some(2), Some(0), Some(3), Some(0)];
    let toks = DictionaryArray::<Int32Type>::new(Int32Array::from_iter(keys), values);
    let ids = Int64Array::from_iter_values(0..keys.len() as i64);
    let columns = [("id", Arc::new(ids) as ArrayRef), ("toks", Arc::new(toks) as ArrayRef)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

#[tokio::test]
async fn dictionaries_of_lists_are_lists() {
    let ctx =
        session(&["CREATE TABLE l (id BIGINT, toks BIGINT[]) AS VALUES (1, [2]), (2, [1, 2])"])
            .await;
    register_partitions(&ctx, "d", split(&dictionary_of_lists(), 2, 3));
    for (query, count) in [
        ("SELECT a.id, b.id AS bid FROM d a SIMJOIN d b ON jaccard(a.toks, b.toks) >= 0.5", 25),
        ("SELECT a.id, b.id AS bid FROM d a LEFT SIMJOIN l b ON jaccard(a.toks, b.toks) >= 0.6", 8),
        ("SELECT a.id, b.id AS bid FROM l a FULL SIMJOIN d b ON jaccard(a.toks, b.toks) >= 0.6", 8),
        ("SELECT a.id FROM d a LEFT ANTI SIMJOIN l b ON overlap(a.toks, b.toks) >= 1", 3),
    ] {
        equals_stock(&ctx, query, count).await;
    }
    let nulls = "SELECT 1 AS id, arrow_cast(NULL, 'Dictionary(Int32, List(Int64))') AS toks";
    rows(&ctx, &format!("CREATE TABLE nulls AS {nulls}")).await;
    let query =
        "SELECT a.id, b.id AS bid FROM nulls a LEFT SIMJOIN l b ON jaccard(a.toks, b.toks) >= 0.5";
    equals_stock(&ctx, query, 1).await;
    // On tasks, too, which read the lists' sizes first.
    let ctx = Session { partitions: 3, tasks_of: Some(1), ..Session::default() }
        .option("distribution", "repartition")
        .context();
    register_partitions(&ctx, "d", split(&dictionary_of_lists(), 2, 3));
    let query = "SELECT a.id, b.id AS bid FROM d a SIMJOIN d b ON jaccard(a.toks, b.toks) >= 0.5";
    let found = rows_of_tasks(&ctx, query, vec![], 1).await;
    assert_same_rows(&found, &stock(&ctx, query).await, query);
}

/// Buffers as large as an option allows: the session is slow to fill them, not to start.
#[tokio::test]
async fn options_at_their_extremes_change_no_answer() {
    let ctx = session(&[&format!("CREATE TABLE r {FLAGS}")]).await;
    let query = "SELECT count(*) FROM r a SIMJOIN r b ON jaccard(a.toks, b.toks) >= 0.5";
    let most = PositiveCount::MOST;
    for option in ["debug.match_buffer", "debug.candidate_chunk", "debug.spill_bands"] {
        for value in ["1", &most.to_string()] {
            for (strategy, spill) in [
                ("allpairs", "never"),
                ("ppjoin", "always"),
                ("bitmap", "auto"),
                ("groupjoin", "auto"),
            ] {
                set(
                    &ctx,
                    &format!("SET simjoin.{option} = {value}; SET simjoin.spill = '{spill}'"),
                )
                .await;
                set(&ctx, &format!("SET simjoin.strategy = '{strategy}'")).await;
                assert_eq!(rows(&ctx, query).await, ["4"], "{option} {value} {strategy} {spill}");
            }
        }
        for value in ["0", "16777217", "9223372036854775809", "18446744073709551615"] {
            let message = error(&ctx, &format!("SET simjoin.{option} = {value}")).await;
            assert_contains(&message, &[option, value, "a whole number from 1 to 16777216"]);
        }
        set(&ctx, &format!("SET simjoin.{option} = 64")).await;
    }
    for (option, values) in [
        ("debug.spill_piece_rows", ["1", "18446744073709551615"]),
        ("broadcast_limit", ["1", "18446744073709551615"]),
        ("cluster_partitions", ["1", "65536"]),
        ("hash_join_rows_per_key", ["0", "1e308"]),
        ("gpu.candidate_memory", ["1", "18446744073709551615"]),
        ("gpu.memory_limit", ["1", "18446744073709551615"]),
    ] {
        for value in values {
            set(&ctx, &format!("SET simjoin.{option} = '{value}'; SET simjoin.spill = 'always'"))
                .await;
            assert_eq!(rows(&ctx, query).await, ["4"], "{option} {value}");
        }
    }
    set(&ctx, "SET datafusion.execution.batch_size = 9223372036854775807").await;
    let pairs = "SELECT a.id, b.id AS bid FROM r a SIMJOIN r b ON jaccard(a.toks, b.toks) >= 0.5";
    assert_eq!(rows(&ctx, pairs).await.len(), 4);
}

const GUARDED: [&str; 2] = [
    "CREATE TABLE g (id BIGINT, f DOUBLE, k VARCHAR, w INT, toks BIGINT[]) AS VALUES \
     (1, 0.0, 'x', 1, [1,2,3]), (2, -1.0 * 0.0, 'x', NULL, [1,2,3]), \
     (3, CAST('NaN' AS DOUBLE), 'y', 3, [1,2]), (4, CAST('NaN' AS DOUBLE), NULL, 4, [2,3,3,NULL]), \
     (5, NULL, 'x', 5, [1,2,3]), (6, 1.5, 'y', 6, NULL), \
     (7, 1.5, 'z', 7, array_remove_all([1], 1)), (7, 2.5, 'z', 8, [9])",
    "CREATE VIEW scored AS SELECT a.id i, b.id j, jaccard(a.toks, b.toks) s, a.toks t \
     FROM g a JOIN g b ON jaccard(a.toks, b.toks) >= 0.3",
];

/// Keys and orders over floats with both zeros, NaN and NULL; conditions of one side; scores.
#[tokio::test]
async fn keys_orders_and_scores_of_odd_values() {
    let ctx = session(&GUARDED).await;
    for (query, count) in [
        (
            "SELECT a.id, b.id AS bid FROM g a JOIN g b ON jaccard(a.toks, b.toks) >= 0.3 AND a.f = b.f",
            9,
        ),
        (
            "SELECT a.id, b.id AS bid FROM g a FULL JOIN g b ON jaccard(a.toks, b.toks) >= 0.3 AND a.f < b.f",
            16,
        ),
        (
            "SELECT a.id FROM g a LEFT ANTI JOIN g b ON jaccard(a.toks, b.toks) >= 0.3 AND a.f <> b.f",
            4,
        ),
        (
            "SELECT b.id FROM g a RIGHT SEMI JOIN g b ON jaccard(a.toks, b.toks) >= 0.3 AND a.f >= b.f",
            5,
        ),
        (
            "SELECT a.id, b.id AS bid, jaccard(a.toks, b.toks) s, overlap(a.toks, b.toks) o, \
          containment(b.toks, a.toks) c FROM g a FULL JOIN g b ON jaccard(a.toks, b.toks) >= 0.3 \
          AND a.k = b.k AND a.w + b.w > 4 AND a.w < 6",
            14,
        ),
        (
            "SELECT a.id, b.id AS bid FROM g a JOIN g b ON jaccard(a.toks, b.toks) >= 0.3 \
          AND arrow_cast(a.k, 'Dictionary(Int8, Utf8)') = arrow_cast(b.k, 'Dictionary(Int32, LargeUtf8)')",
            11,
        ),
        (
            "SELECT a.id, b.id AS bid FROM g a LEFT JOIN g b ON jaccard(a.toks, b.toks) >= 0.3 \
          AND a.k IS NOT DISTINCT FROM b.k",
            14,
        ),
        (
            "SELECT id FROM g a WHERE NOT EXISTS (SELECT 1 FROM g b WHERE jaccard(a.toks, b.toks) >= 0.3 \
          AND a.k = b.k AND b.id > a.id)",
            6,
        ),
        (
            "SELECT id FROM g a WHERE a.w IN (SELECT b.w + 2 FROM g b WHERE jaccard(a.toks, b.toks) >= 0.3)",
            2,
        ),
    ] {
        equals_stock(&ctx, query, count).await;
    }
}

/// Counts per group, thresholds of every type, layouts behind an offset, joins of joins.
#[tokio::test]
async fn counts_thresholds_and_chains() {
    let ctx = session(&GUARDED).await;
    for (query, count) in [
        (
            "SELECT b.k, count(*) n, count(a.w) aw, count(a.id) ai FROM g a LEFT JOIN g b \
          ON containment(a.toks, b.toks) >= 0.5 AND a.id <> b.id GROUP BY b.k HAVING count(*) > 0",
            3,
        ),
        (
            "SELECT DISTINCT b.k FROM g a FULL JOIN g b ON jaccard(a.toks, b.toks) >= 0.9 AND a.id < b.id",
            4,
        ),
        (
            "SELECT count(*), count(b.id) FROM g a FULL JOIN g b ON jaccard(a.toks, b.toks) >= 0.9 AND a.id < b.id",
            1,
        ),
        (
            "SELECT a.id, b.id AS bid FROM (SELECT * FROM g ORDER BY id OFFSET 1) a JOIN g b \
          ON jaccard(arrow_cast(a.toks, 'ListView(Int32)'), arrow_cast(b.toks, 'LargeList(UInt8)')) >= 0.3",
            21,
        ),
        (
            "SELECT a.id, b.id AS bid FROM (VALUES (1, arrow_cast([18446744073709551615], 'List(UInt64)'))) a(id, t) \
          JOIN (VALUES (1, [-1]), (2, [9223372036854775807])) b(id, t) ON overlap(a.t, b.t) >= 1",
            0,
        ),
        (
            "SELECT count(*) FROM g a JOIN g b ON jaccard(a.toks, b.toks) >= CAST(0.666666666666667 AS DECIMAL(16,15))",
            1,
        ),
        (
            "SELECT count(*) FROM g a JOIN g b ON CAST(jaccard(a.toks, b.toks) AS REAL) = CAST(0.6666667 AS REAL)",
            1,
        ),
        (
            "SELECT count(*) FROM g a JOIN g b ON TRY_CAST(overlap(a.toks, b.toks) AS TINYINT) BETWEEN 2 AND 2",
            1,
        ),
        ("SELECT count(*) FROM g a JOIN g b ON NOT (0.5 > dice(a.toks, b.toks))", 1),
        (
            "SELECT p1.i, p1.s, p2.s AS s2, jaccard(p1.t, c.toks) s3, dice(p2.t, c.toks) s4 \
          FROM scored p1 JOIN scored p2 ON p1.j = p2.i JOIN g c ON jaccard(p1.t, c.toks) >= 0.6 \
          UNION ALL SELECT i, s, s + 0, s * 1, s / 1 FROM scored",
            602,
        ),
    ] {
        equals_stock(&ctx, query, count).await;
    }
}
