//! Nodes of pairs: their types, and the order in which they stand.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::results::{Pair, components, representatives};
use crate::support::{
    Session, assert_contains, assert_same_rows, plan, register_partitions, rows, rows_of_tasks,
};

/// Rows with texts without quotes, and floats without their bits.
async fn plain_rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let plain = |cell: &str| cell.trim_matches('"').split('#').next().unwrap_or("").to_string();
    let plain_row = |row: &String| row.split(" | ").map(plain).collect::<Vec<_>>().join(" | ");
    rows(ctx, sql).await.iter().map(plain_row).collect()
}

/// SQL of one value in types that hold each other without loss, by groups of such types.
const GROUPS: [&[&str]; 9] = [
    &[
        "CAST(7 AS TINYINT)",
        "CAST(7 AS SMALLINT)",
        "CAST(7 AS INT)",
        "CAST(7 AS BIGINT)",
        "CAST(7 AS TINYINT UNSIGNED)",
        "CAST(7 AS BIGINT UNSIGNED)",
        "CAST(7 AS DECIMAL(10, 2))",
        "arrow_cast(7, 'Decimal256(50, 3)')",
        "arrow_cast(CAST(7 AS SMALLINT), 'Dictionary(Int8, Int16)')",
    ],
    &["CAST(7 AS REAL)", "CAST(7 AS DOUBLE)"],
    &[
        "arrow_cast('7', 'Utf8')",
        "arrow_cast('7', 'LargeUtf8')",
        "arrow_cast('7', 'Utf8View')",
        "arrow_cast('7', 'Dictionary(Int32, Utf8)')",
    ],
    &[
        "arrow_cast('7', 'Binary')",
        "arrow_cast('7', 'BinaryView')",
        "arrow_cast(arrow_cast('7', 'Binary'), 'FixedSizeBinary(1)')",
    ],
    &["true"],
    &[
        "DATE '1970-01-08'",
        "arrow_cast(DATE '1970-01-08', 'Date64')",
        "arrow_cast('1970-01-08', 'Timestamp(s)')",
        "arrow_cast('1970-01-08', 'Timestamp(ms)')",
    ],
    &[
        "arrow_cast('1970-01-08T00:00:00Z', 'Timestamp(s, \"UTC\")')",
        "arrow_cast('1970-01-08T00:00:00Z', 'Timestamp(ns, \"+02:00\")')",
    ],
    &["arrow_cast([7], 'List(Int32)')", "[7]", "arrow_cast([7], 'LargeList(Int16)')"],
    &["named_struct('n', 7)", "named_struct('n', CAST(7 AS INT))"],
];

/// Integers that floats hold exactly.
fn is_narrow(sql: &str, float: &str) -> bool {
    let narrow = ["TINYINT", "SMALLINT", "TINYINT UNSIGNED", "Int16"];
    let is_int = sql == "CAST(7 AS INT)" && float.contains("DOUBLE");
    is_int
        || narrow
            .iter()
            .any(|name| sql.ends_with(&format!("{name})")) || sql.contains("Int8, Int16"))
}

/// Two types are one where each value stays what it is; otherwise the statement is not planned.
#[tokio::test]
async fn nodes_are_of_types_that_hold_each_other() {
    let ctx = Session::default().context();
    let all =
        || GROUPS.iter().enumerate().flat_map(|(g, group)| group.iter().map(move |v| (g, *v)));
    for (left_place, (left_group, left)) in all().enumerate() {
        for (right_place, (right_group, right)) in all().enumerate() {
            // Planning takes its time: of the pairs of two groups, every fourth one.
            if left_group.abs_diff(right_group) > 1 && !(left_place + right_place).is_multiple_of(4)
            {
                continue;
            }
            let is_exact_float = match (left_group, right_group) {
                (0, 1) => is_narrow(left, right),
                (1, 0) => is_narrow(right, left),
                _ => false,
            };
            for function in ["connected_components", "representatives"] {
                let sql =
                    format!("SELECT count(*) FROM {function}((SELECT {left} AS x, {right} AS y))");
                if left_group == right_group || is_exact_float {
                    assert_eq!(rows(&ctx, &sql).await, ["1"], "{sql}");
                    continue;
                }
                let error = plan(&ctx, &sql).await.expect_err(&sql).to_string();
                assert_contains(
                    &error,
                    &[function, "first column x is", "second column y is", "cast one"],
                );
            }
            let sql = format!(
                "SELECT arrow_typeof(\"left\") = arrow_typeof(x), arrow_typeof(\"right\") = arrow_typeof(y) \
                 FROM one_to_one((SELECT {left} AS x, {right} AS y, 1)), (SELECT {left} AS x, {right} AS y)"
            );
            if !sql.contains("Dictionary") {
                assert_eq!(rows(&ctx, &sql).await, ["true | true"], "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn ids_that_a_cast_would_join_are_an_error() {
    let ctx = Session::default().context();
    let text = "SELECT * FROM connected_components((SELECT * FROM (VALUES (7, '007'), (12, 'A1')) v(x, y)))";
    let error = plan(&ctx, text).await.unwrap_err().to_string();
    assert_contains(&error, &["v.x is Int64", "v.y is Utf8", "CAST(v.x AS VARCHAR)"]);
    let cured = "SELECT node, size FROM connected_components((
                   SELECT CAST(x AS VARCHAR), y FROM (VALUES (7, '007'), (12, 'A1')) v(x, y)))";
    assert_same_rows(
        &plain_rows(&ctx, cured).await,
        &["007 | 2", "12 | 2", "7 | 2", "A1 | 2"].map(String::from),
        "",
    );

    // 2^53 and 2^53 + 1 are one double.
    let great = "SELECT * FROM representatives((
                   SELECT 9007199254740993 AS x, CAST(9007199254740992 AS DOUBLE) AS y))";
    let error = plan(&ctx, great).await.unwrap_err().to_string();
    assert_contains(&error, &["x is Int64", "y is Float64", "CAST(y AS BIGINT)"]);
    let unsigned = "SELECT count(*) FROM connected_components((
                      SELECT -1 AS x, arrow_cast('18446744073709551615', 'UInt64') AS y))";
    assert_eq!(rows(&ctx, unsigned).await, ["2"]);
    // A column of NULLs alone is of any type.
    let alone = "SELECT node, size FROM connected_components((SELECT 'a', NULL UNION ALL SELECT 'b', NULL))";
    assert_same_rows(&plain_rows(&ctx, alone).await, &["a | 1", "b | 1"].map(String::from), "");
}

/// Values in the order of nodes, with SQL that makes a text of one.
fn ordered_nodes() -> Vec<(ArrayRef, &'static str)> {
    let floats = [f64::NEG_INFINITY, -2.0, -1.0, -0.0, 0.0, 1.5, f64::INFINITY, f64::NAN];
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![]),
        Some(vec![None]),
        Some(vec![None, None]),
        Some(vec![None, Some(1)]),
        Some(vec![Some(1)]),
        Some(vec![Some(1), None]),
        Some(vec![Some(1), Some(1)]),
        Some(vec![Some(2)]),
    ]);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![
        None,
        None,
        Some(1),
        Some(1),
        Some(1),
        Some(2),
        Some(2),
        Some(3),
    ]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![
        None,
        Some("b"),
        None,
        Some(""),
        Some("c"),
        None,
        Some("a"),
        None,
    ]));
    let fields = Fields::from(vec![
        Field::new("p", DataType::Int64, true),
        Field::new("q", DataType::Utf8, true),
    ]);
    let structs = StructArray::new(fields, vec![numbers, texts], None);
    let inner = ListArray::from_iter_primitive::<Int64Type, _, _>([
        None,
        Some(vec![]),
        Some(vec![None]),
        Some(vec![Some(0)]),
        Some(vec![Some(0), None]),
        Some(vec![Some(0), Some(0)]),
        Some(vec![Some(5)]),
        Some(vec![Some(6)]),
    ]);
    let fields = Fields::from(vec![Field::new("l", inner.data_type().clone(), true)]);
    let nested = StructArray::new(fields, vec![Arc::new(inner)], None);
    vec![
        (Arc::new(Float64Array::from(floats.to_vec())), "CAST($ AS VARCHAR)"),
        (Arc::new(lists), "array_to_string($, ',', 'null')"),
        (
            Arc::new(structs),
            "coalesce(CAST($['p'] AS VARCHAR), 'null') || coalesce($['q'], 'null')",
        ),
        (Arc::new(nested), "coalesce(array_to_string($['l'], ',', 'null'), 'none')"),
    ]
}

/// Nodes whose order `<` or `greatest` does not know have the results of their places in the order of a sort.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn nodes_of_any_type_have_the_results_of_their_order() {
    let mut rng = StdRng::seed_from_u64(5);
    for (nodes, text) in ordered_nodes() {
        for case in 0..12 {
            let tasks = (case % 4 == 3).then_some(2);
            let batch_size = [1, 3, 8192][case % 3];
            let session = Session { batch_size, tasks_of: tasks, ..Session::default() };
            let ctx = session.context();
            let names = Names::register(&ctx, &nodes, text).await;
            let count = rng.random_range(1..14);
            let mut node = || rng.random_bool(0.85).then(|| rng.random_range(0..8_i64));
            let mut pairs: Vec<Pair> = (0..count).map(|_| (node(), node(), None)).collect();
            pairs.iter_mut().for_each(|pair| pair.2 = Some(f64::from(rng.random_range(0..3_u32))));
            pairs.shuffle(&mut rng);
            register_pairs(&ctx, &nodes, &pairs);
            let run = async |sql: String| match tasks {
                Some(tasks) => rows_of_tasks(&ctx, &sql, vec![], tasks).await,
                None => rows(&ctx, &sql).await,
            };
            let what = format!("{pairs:?} of {}", nodes.data_type());
            let of = |column: &str| text.replace('$', column);

            let found = run(format!(
                "SELECT {}, {}, size FROM connected_components((SELECT x, y FROM p))",
                of("node"),
                of("component")
            ));
            let expected = components(&pairs).into_iter();
            let expected: Vec<String> = expected
                .map(|(node, (least, size))| {
                    format!("{} | {} | {size}", names.of(node), names.of(least))
                })
                .collect();
            assert_same_rows(&found.await, &expected, &what);

            let found = run(format!(
                "SELECT {}, {}, kept, CAST(score AS BIGINT) FROM representatives((SELECT * FROM p))",
                of("node"),
                of("representative")
            ));
            let expected = representatives(&pairs, false).into_iter();
            let expected: Vec<String> = expected
                .map(|(node, (kept, score))| {
                    let score = score.map_or("NULL".to_string(), |score| score.to_string());
                    format!("{} | {} | {} | {score}", names.of(node), names.of(kept), node == kept)
                })
                .collect();
            assert_same_rows(&found.await, &expected, &what);
        }
    }
}

/// The texts of nodes by their places in the order.
struct Names(BTreeMap<i64, String>);

impl Names {
    async fn register(ctx: &SessionContext, nodes: &ArrayRef, text: &str) -> Self {
        let places: ArrayRef = Arc::new(Int64Array::from_iter_values(0..nodes.len() as i64));
        let batch = RecordBatch::try_from_iter([("i", places), ("n", Arc::clone(nodes))]).unwrap();
        register_partitions(ctx, "v", vec![vec![batch]]);
        let sql = format!("SELECT {} FROM v ORDER BY i", text.replace('$', "n"));
        let names: BTreeMap<i64, String> = (0..).zip(rows(ctx, &sql).await).collect();
        let distinct: std::collections::BTreeSet<&String> = names.values().collect();
        assert_eq!(distinct.len(), nodes.len(), "{names:?}");
        Self(names)
    }

    fn of(&self, node: i64) -> &str {
        &self.0[&node]
    }
}

fn register_pairs(ctx: &SessionContext, nodes: &ArrayRef, pairs: &[Pair]) {
    let column = |of: fn(&Pair) -> Option<i64>| {
        let places: Int64Array = pairs.iter().map(of).collect();
        arrow::compute::take(nodes, &places, None).unwrap()
    };
    let scores: ArrayRef = Arc::new(pairs.iter().map(|pair| pair.2).collect::<Float64Array>());
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("x", column(|pair| pair.0), true),
        ("y", column(|pair| pair.1), true),
        ("s", scores, true),
    ]);
    let batch = batch.unwrap();
    let half = batch.num_rows() / 2;
    let parts = [(0, half), (half, batch.num_rows() - half)];
    let parts = parts.map(|(from, rows)| vec![batch.slice(from, rows)]);
    register_partitions(ctx, "p", parts.to_vec());
}

/// -0.0 and 0.0 are two nodes, of which `<` makes no pair.
#[tokio::test]
async fn joins_of_zeros_of_both_signs_give_all_nodes() {
    let ctx = Session::default().context();
    let table = "CREATE TABLE t AS SELECT column1 AS x, column2 AS s FROM
                 VALUES (-0.0::DOUBLE, 'same'), (0.0, 'same'), (1.0, 'same'), (2.0, 'other')";
    plan(&ctx, table).await.unwrap().collect().await.unwrap();
    let pairs = "SELECT a.x, b.x AS y FROM t a LEFT SIMJOIN t b ON levenshtein(a.s, b.s) <= 1 AND a.x < b.x";
    let sql = format!("SELECT node, representative, kept FROM representatives(({pairs}))");
    let expected =
        ["-0.0 | -0.0 | true", "0.0 | 0.0 | true", "1.0 | -0.0 | false", "2.0 | 2.0 | true"];
    assert_same_rows(&plain_rows(&ctx, &sql).await, &expected.map(String::from), &sql);
    let zeros = pairs.replace("a.x < b.x", "a.x < b.x WHERE a.x < 1 AND (b.x < 1 OR b.x IS NULL)");
    let zeros = zeros.replace("t b", "(SELECT * FROM t WHERE x < 1) b");
    let sql = format!("SELECT node, component, size FROM connected_components(({zeros}))");
    let expected = ["-0.0 | -0.0 | 1", "0.0 | 0.0 | 1"].map(String::from);
    assert_same_rows(&plain_rows(&ctx, &sql).await, &expected, &sql);
}

/// A pair whose score is NULL ranks behind all others, reaches no threshold, and is no match.
#[tokio::test]
async fn pairs_without_a_score_are_pairs_of_an_unknown_one() {
    let ctx = Session::default().context();
    let pairs = "SELECT column1 AS x, column2 AS y, column3 AS s FROM
                 VALUES (1, 9, NULL), (2, 9, 0.1), (3, 8, NULL)";
    for order in ["similarity", "distance"] {
        let sql = format!("SELECT * FROM representatives(({pairs}), '{order}')");
        let expected = [
            "1 | 1 | true | NULL",
            "2 | 2 | true | NULL",
            "3 | 3 | true | NULL",
            "8 | 3 | false | NULL",
            "9 | 2 | false | 0.1",
        ];
        assert_same_rows(&plain_rows(&ctx, &sql).await, &expected.map(String::from), &sql);
        let sql = format!("SELECT * FROM one_to_one(({pairs}), '{order}')");
        assert_eq!(plain_rows(&ctx, &sql).await, ["2 | 9 | 0.1"], "{sql}");
        let sql = format!(
            "SELECT node, component_0_1, size_0_1 FROM connected_components(({pairs}), [0.1], '{order}')"
        );
        let expected = ["1 | 1 | 1", "2 | 2 | 2", "3 | 3 | 1", "8 | 8 | 1", "9 | 2 | 2"];
        assert_same_rows(&plain_rows(&ctx, &sql).await, &expected.map(String::from), &sql);
    }
}

/// The functions read tables, views and common table expressions by their names, as the query of them.
#[tokio::test]
async fn pairs_have_a_name() {
    let ctx = Session::default().context();
    for sql in [
        "CREATE TABLE \"Pairs\" AS SELECT column1 AS x, column2 AS y, column3 AS s FROM \
         VALUES (1, 2, 0.9), (2, 3, 0.5), (7, 8, 0.8)",
        "CREATE VIEW v AS SELECT * FROM \"Pairs\" WHERE s > 0.6",
    ] {
        plan(&ctx, sql).await.unwrap().collect().await.unwrap();
    }
    let all = "SELECT * FROM one_to_one((SELECT * FROM \"Pairs\"), 'distance') ORDER BY score";
    let expected = ["2 | 3 | 0.5", "7 | 8 | 0.8", "1 | 2 | 0.9"];
    assert_eq!(plain_rows(&ctx, all).await, expected);
    for name in ["\"Pairs\"", "public.\"Pairs\"", "datafusion . public . \"Pairs\""] {
        let sql = all.replace("(SELECT * FROM \"Pairs\")", name);
        assert_eq!(plain_rows(&ctx, &sql).await, expected, "{sql}");
    }
    for sql in [
        "SELECT node, size FROM connected_components(v, [0.6]) AS c(node, least, size)",
        "WITH p AS (SELECT x, y FROM v) SELECT node, size FROM Connected_Components(p)",
        "SELECT node, size FROM (WITH v AS (SELECT x, y FROM v) SELECT * FROM connected_components(v))",
    ] {
        let found = plain_rows(&ctx, sql).await;
        assert_same_rows(&found, &["1 | 2", "2 | 2", "7 | 2", "8 | 2"].map(String::from), sql);
    }
    // A text that was not rewritten.
    let error = ctx.sql("SELECT * FROM connected_components(v)").await.unwrap_err().to_string();
    assert_contains(&error, &["connected_components((SELECT * FROM v))", "simjoin_sql"]);
}
