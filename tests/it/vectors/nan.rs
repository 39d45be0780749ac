//! Vectors with NaN, as normalising a vector of zeros makes them. In SIMJOIN, NEAREST and the results above
//! them a score that is NaN is as NULL; a plain join keeps DataFusion's order.

use datafusion::prelude::SessionContext;

use super::{nested_loop, strategies_of};
use crate::support::{
    Session, assert_contains, assert_same_rows, assert_uses_operator, explain, measured, number,
    rows, rows_of_tasks,
};
use crate::vector_oracle::Metric;

/// Rows on a circle, each of which is near the one before it and the one behind it. The vector of each
/// twentieth part was all zeros when it was normalised: 0 / 0, of either sign.
fn circle(count: i64) -> String {
    format!(
        "CREATE TABLE t AS
         SELECT id, id % 2 AS k, CASE WHEN id % {other} = 0 THEN [-(x / r), -(y / r)] ELSE [x / r, y / r] END AS v
         FROM (SELECT id, x, y, sqrt(x * x + y * y) AS r FROM
               (SELECT id, CASE WHEN id % {failed} = 0 THEN 0.0 ELSE cos(5.0 * id / {count}) END AS x,
                           CASE WHEN id % {failed} = 0 THEN 0.0 ELSE sin(5.0 * id / {count}) END AS y
                FROM (SELECT CAST(value AS INT) AS id FROM generate_series(1, {count}))))",
        failed = count / FAILED,
        other = 2 * count / FAILED,
    )
}

/// Rows on a circle.
const ROWS: i64 = 2000;
/// Rows among them whose vector has NaN.
const FAILED: i64 = 20;
/// The pairs of neighbours without them.
const PAIRS: i64 = ROWS - 1 - (2 * FAILED - 1);

/// Neighbours on the circle are 1/400 apart.
const CONDITIONS: [(Metric, &str); 3] = [
    (Metric::Euclidean, "array_distance(a.v, b.v) <= 0.003"),
    (Metric::Cosine, "cosine_distance(a.v, b.v) <= 4.5e-6"),
    (Metric::InnerProduct, "inner_product(a.v, b.v) >= 0.9999955"),
];

/// The ways of a join: in memory, from disk, in pieces, with little memory.
fn sessions() -> [Session; 4] {
    [
        Session::on_cpu(),
        Session { partitions: 5, batch_size: 100, ..Session::on_cpu() },
        Session::on_cpu().option("spill", "always").option("debug.spill_piece_rows", 700),
        Session { memory: Some(3 << 20), ..Session::on_cpu() },
    ]
}

async fn with_circle(session: &Session) -> SessionContext {
    let ctx = session.context();
    rows(&ctx, &circle(ROWS)).await;
    ctx
}

/// Whatever makes the pairs, a row with NaN is in none, and preserved rows stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vector_with_nan_matches_nothing_in_a_simjoin() {
    let pairs = PAIRS;
    for (way, session) in sessions().into_iter().enumerate() {
        for (metric, condition) in CONDITIONS {
            // The other ways with the strategy of choice.
            let strategies = strategies_of(metric);
            let count = if way == 0 { strategies.len() } else { 1 };
            for strategy in strategies.into_iter().take(count) {
                let ctx = with_circle(&session.clone().option("strategy", strategy)).await;
                let what = format!("{strategy} {session:?} {condition}");
                let counted = |join: &str, and: &str| {
                    format!("SELECT count(*) FROM t a {join} t b ON {condition}{and}")
                };
                let once = number(&ctx, &counted("SIMJOIN", " AND a.id < b.id")).await;
                assert_eq!(once, pairs, "{what}");
                let apart = number(&ctx, &counted("SIMJOIN", " AND a.k <> b.k")).await;
                assert_eq!(apart, 2 * pairs, "{what}");
                let listed = format!(
                    "SELECT count(*) FROM (SELECT a.id, b.id AS o FROM t a SIMJOIN t b ON \
                     {condition} AND a.id < b.id) q WHERE id % 100 = 0 OR o % 100 = 0 OR o <> id + 1"
                );
                assert_eq!(number(&ctx, &listed).await, 0, "{what}");
                let anti = counted("LEFT ANTI SIMJOIN", " AND a.id <> b.id");
                assert_eq!(number(&ctx, &anti).await, FAILED, "{what}");
                let semi = counted("RIGHT SEMI SIMJOIN", " AND a.id <> b.id");
                assert_eq!(number(&ctx, &semi).await, ROWS - FAILED, "{what}");
                let full = counted("FULL SIMJOIN", " AND a.id + 1 = b.id");
                assert_eq!(number(&ctx, &full).await, pairs + 2 * (ROWS - pairs), "{what}");
            }
        }
    }
}

/// More rows than some batches hold, and an index or an order among them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_with_nan_match_nothing_among_many() {
    let (count, pairs) = (30_000, 29_999 - 39);
    for session in [Session::on_cpu(), Session::on_cpu().option("spill", "always")] {
        let ctx = session.context();
        rows(&ctx, &circle(count)).await;
        let on = "t b ON array_distance(a.v, b.v) <= 0.0002";
        let once =
            format!("SELECT count(*), max(b.id - a.id) FROM t a SIMJOIN {on} AND a.id < b.id");
        assert_eq!(rows(&ctx, &once).await, [format!("{pairs} | 1")], "{session:?}");
        let alone = format!("SELECT count(*) FROM t a LEFT ANTI SIMJOIN {on}");
        assert_eq!(number(&ctx, &alone).await, FAILED, "{session:?}");
    }
}

/// Vectors whose numbers are finite or not, of both signs of NaN, and zeros.
const ODD: &str = "CREATE TABLE t AS
    SELECT CAST(value AS INT) AS id, value % 5 AS k,
           [CASE value % 11 WHEN 0 THEN 'NaN'::DOUBLE WHEN 1 THEN -'NaN'::DOUBLE WHEN 2 THEN 'inf'::DOUBLE
                            WHEN 3 THEN '-inf'::DOUBLE WHEN 4 THEN 1e200 ELSE value % 7 END,
            CASE value % 13 WHEN 0 THEN 'NaN'::DOUBLE WHEN 1 THEN 'inf'::DOUBLE WHEN 2 THEN 0.0
                            WHEN 3 THEN -1e200 ELSE value % 4 END] AS v,
           [CASE value % 9 WHEN 0 THEN -'NaN'::DOUBLE WHEN 1 THEN 'NaN'::DOUBLE ELSE value % 5 END, 1.0] AS w
    FROM generate_series(1, 120)";

/// The answer of a statement, by tasks where the session plans for them.
async fn answer(session: &Session, ctx: &SessionContext, sql: &str) -> Vec<String> {
    match session.tasks_of {
        Some(partitions) => rows_of_tasks(ctx, sql, vec![], partitions).await,
        None => rows(ctx, sql).await,
    }
}

/// The value of SIMJOIN's condition for the nested loop: NULL in place of NaN.
fn number_of(call: &str) -> String {
    format!("CASE WHEN isnan({call}) THEN NULL ELSE {call} END")
}

/// Every join type, of SIMJOIN with NULL in place of NaN, of JOIN as DataFusion compares NaN.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_score_that_is_nan_is_null_in_a_simjoin_and_ordered_in_a_join() {
    let oracle = nested_loop();
    rows(&oracle, ODD).await;
    let bounds =
        [("array_distance", "<= 3"), ("cosine_distance", "<= 0.2"), ("inner_product", ">= 5")];
    let (mut differs, mut statements) = (false, 0);
    for session in [
        Session::on_cpu(),
        Session::on_cpu().option("spill", "always").option("debug.spill_piece_rows", 50),
        Session { tasks_of: Some(1), ..Session::on_cpu() },
    ] {
        let ctx = session.context();
        rows(&ctx, ODD).await;
        for (function, bound) in bounds {
            for call in [format!("{function}(a.v, b.v)"), format!("{function}(b.v, a.v)")] {
                for kind in ["", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "RIGHT ANTI "] {
                    let columns = match kind {
                        "LEFT SEMI " => "a.id".to_string(),
                        "RIGHT ANTI " => "b.id".to_string(),
                        _ => format!("a.id, b.id, {call} IS NULL"),
                    };
                    let statement = |join: &str, value: &str, and: &str| {
                        format!(
                            "SELECT {columns} FROM t a {kind}{join} t b ON {value} {bound}{and}"
                        )
                    };
                    let further = ["", " AND a.k = b.k", " AND (a.id + b.id) % 3 <> 1"];
                    let and = further[(statements + statements / 6) % 3];
                    statements += 1;
                    let sql = statement("SIMJOIN", &call, and);
                    let expected = rows(&oracle, &statement("JOIN", &number_of(&call), and)).await;
                    assert_same_rows(&answer(&session, &ctx, &sql).await, &expected, &sql);
                    let stock = statement("JOIN", &call, and);
                    let of_stock = rows(&oracle, &stock).await;
                    let found = answer(&session, &ctx, &stock).await;
                    assert_same_rows(&found, &of_stock, &stock);
                    differs |= of_stock.len() != expected.len();
                }
            }
        }
    }
    assert!(differs);
}

/// EXPLAIN tells a plain join whose NaN is ordered from a SIMJOIN.
#[tokio::test]
async fn explain_says_where_nan_is_ordered() {
    let ctx = Session::on_cpu().context();
    rows(&ctx, ODD).await;
    let on = "t b ON array_distance(a.v, b.v) <= 3";
    let plain = assert_uses_operator(&ctx, &format!("SELECT a.id FROM t a JOIN {on}")).await;
    assert_contains(&plain, &["threshold=3, nan=ordered, "]);
    let simjoin = explain(&ctx, &format!("SELECT a.id FROM t a SIMJOIN {on}")).await;
    assert!(!simjoin.contains("nan="), "{simjoin}");
}

/// Whichever of two distances drives the join, the other one's NaN matches nothing either.
#[tokio::test]
async fn every_distance_of_a_simjoin_is_a_number() {
    let ctx = Session::on_cpu().context();
    rows(&ctx, ODD).await;
    let oracle = nested_loop();
    rows(&oracle, ODD).await;
    let calls = ["array_distance(a.v, b.v)", "array_distance(a.w, b.w)"];
    let mut counts = vec![];
    for bounds in [["<= 2", "<= 3"], ["<= 3", "<= 2"], ["<= 4", "BETWEEN 0 AND 4"]] {
        let on = |calls: [String; 2]| {
            let parts = calls.iter().zip(bounds).map(|(call, bound)| format!("{call} {bound}"));
            parts.collect::<Vec<_>>().join(" AND ")
        };
        let ours = on(calls.map(str::to_string));
        let sql = format!("SELECT a.id, b.id FROM t a LEFT SIMJOIN t b ON {ours}");
        let of_numbers = on(calls.map(number_of));
        let expected =
            rows(&oracle, &format!("SELECT a.id, b.id FROM t a LEFT JOIN t b ON {of_numbers}"))
                .await;
        assert_same_rows(&rows(&ctx, &sql).await, &expected, &sql);
        let stock = format!("SELECT a.id, b.id FROM t a LEFT JOIN t b ON {ours}");
        counts.push((expected.len(), rows(&oracle, &stock).await.len()));
        // A set drives, distances are conditions of its pairs.
        let with_sets = ours.replace(
            " AND array_distance(a.w",
            " AND jaccard([a.k], [b.k]) >= 1 AND array_distance(a.w",
        );
        let sql = format!("SELECT a.id, b.id FROM t a SIMJOIN t b ON {with_sets}");
        let of_keys = format!("SELECT a.id, b.id FROM t a JOIN t b ON {of_numbers} AND a.k = b.k");
        assert_same_rows(&rows(&ctx, &sql).await, &rows(&oracle, &of_keys).await, &sql);
    }
    assert!(counts.iter().any(|(ours, stock)| ours != stock), "{counts:?}");
}

/// A filter above a SIMJOIN narrows it, and brings no NaN back.
#[tokio::test]
async fn a_filter_above_a_simjoin_brings_no_nan_back() {
    let ctx = Session::on_cpu().context();
    rows(&ctx, ODD).await;
    let join = "SELECT count(*) FROM t a SIMJOIN t b ON array_distance(a.v, b.v) <= 4";
    let strict = "SELECT count(*) FROM t a SIMJOIN t b ON array_distance(a.v, b.v) <= 2";
    let narrowed = format!("{join} WHERE array_distance(a.v, b.v) <= 2");
    assert_eq!(number(&ctx, &narrowed).await, number(&ctx, strict).await);
    let exchanged = format!("{join} WHERE array_distance(b.v, a.v) <= 2");
    assert_eq!(number(&ctx, &exchanged).await, number(&ctx, strict).await);
}

/// Another length is an error also of a vector with NaN, in memory and from disk.
#[tokio::test]
async fn a_vector_with_nan_of_another_length_is_an_error() {
    let sessions = sessions();
    for session in [&sessions[0], &sessions[2]] {
        let ctx = session.context();
        let sql = "CREATE TABLE t AS VALUES (1, [1.0, 2.0]), (2, ['NaN'::DOUBLE, 1.0, 2.0])";
        rows(&ctx, sql).await;
        for function in ["array_distance", "cosine_distance"] {
            let sql = format!(
                "SELECT count(*) FROM t a SIMJOIN t b ON {function}(a.column2, b.column2) <= 1"
            );
            let message = crate::support::error(&ctx, &sql).await;
            assert_contains(&message, &["vectors of the same length"]);
        }
    }
}

/// One failed embedding is nobody's neighbour and has none, whatever the word of the join.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nan_does_not_rank_among_the_nearest() {
    let [memory, batches, disk, _] = sessions();
    let ways = [
        (&memory, "array_distance", "LEFT SIMJOIN"),
        (&memory, "cosine_distance", "LEFT JOIN"),
        (&batches, "array_distance", "LEFT JOIN"),
        (&disk, "cosine_distance", "LEFT SIMJOIN"),
    ];
    for (session, function, join) in ways {
        let ctx = with_circle(session).await;
        let nearest = format!(
            "SELECT a.id, b.id AS o, {function}(a.v, b.v) AS d FROM t a {join} t b NEAREST 1 WITH TIES \
             BY DISTANCE {function}(a.v, b.v) ON a.id <> b.id"
        );
        let sql = format!(
            "SELECT count(DISTINCT id), count(DISTINCT CASE WHEN o IS NULL THEN id END), \
             count(*) FILTER (WHERE o % 100 = 0), max(abs(id - o)), max(d) < 3e-3 FROM ({nearest}) q"
        );
        let expected = [format!("{ROWS} | {FAILED} | 0 | 1 | true")];
        assert_eq!(rows(&ctx, &sql).await, expected, "{session:?} {sql}");
    }
}

/// Scores that no family knows, of every type, and ranks above a join.
#[tokio::test]
async fn nan_of_any_score_does_not_rank() {
    let ctx = Session::on_cpu().context();
    let sql = "CREATE TABLE s AS VALUES (1, 0.0), (2, 1.0), (3, 'NaN'::DOUBLE), (4, -'NaN'::DOUBLE), (5, 9.0)";
    rows(&ctx, sql).await;
    for data_type in ["Float64", "Float32", "Float16"] {
        for (order, first) in [("DISTANCE", [2, 1]), ("SIMILARITY", [5, 5])] {
            let score = format!("arrow_cast(a.column2 * 0 + b.column2, '{data_type}')");
            let sql = format!(
                "SELECT a.column1, b.column1 FROM s a LEFT JOIN s b NEAREST 1 BY {order} {score} \
                 ON a.column1 <> b.column1"
            );
            let [of_first, of_second] = first;
            // Row 5 has no better one than row 2 by similarity.
            let of_fifth = if order == "DISTANCE" { 1 } else { 2 };
            let expected = [
                format!("1 | {of_first}"),
                format!("2 | {of_second}"),
                "3 | NULL".to_string(),
                "4 | NULL".to_string(),
                format!("5 | {of_fifth}"),
            ];
            assert_same_rows(&rows(&ctx, &sql).await, &expected, &sql);
        }
    }
}

/// A failed embedding makes no component of a whole table, and neither represents nor matches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nan_connects_represents_and_matches_nothing() {
    let ctx = with_circle(&Session::on_cpu()).await;
    let pairs = "SELECT a.id, b.id AS o, array_distance(a.v, b.v) AS d FROM t a LEFT SIMJOIN t b \
                 ON array_distance(a.v, b.v) <= 0.003 AND a.id < b.id";
    // An arc between two failed rows is a component, and so is each of these rows.
    let components = format!(
        "SELECT count(DISTINCT component), max(size), count(*) FILTER (WHERE size = 1) \
         FROM connected_components((SELECT id, o FROM ({pairs}) q))"
    );
    assert_eq!(rows(&ctx, &components).await, ["40 | 99 | 20"]);
    let kept = format!(
        "SELECT count(*) FILTER (WHERE kept), count(*) FILTER (WHERE isnan(score)) \
         FROM representatives(({pairs}), 'distance')"
    );
    // Every other row of an arc, and each failed one.
    assert_eq!(rows(&ctx, &kept).await, ["1020 | 0"]);
    for join in ["SIMJOIN", "JOIN"] {
        let matched = format!(
            "SELECT count(*), count(*) FILTER (WHERE isnan(score)), \
             count(*) FILTER (WHERE \"left\" % 100 = 0 OR \"right\" % 100 = 0) FROM one_to_one((\
             SELECT a.id, b.id, array_distance(a.v, b.v) FROM t a {join} t b \
             ON array_distance(a.v, b.v) <= 0.003), 'distance')"
        );
        // Each row with itself, but for the failed ones.
        assert_eq!(rows(&ctx, &matched).await, ["1980 | 0 | 0"], "{matched}");
    }
}

/// A given score that is NaN is as NULL: the worst one, of no threshold, and not taken.
#[tokio::test]
async fn given_scores_that_are_nan_are_null() {
    let ctx = Session::on_cpu().context();
    let sql = "CREATE TABLE p AS VALUES (1, 3, 'NaN'::DOUBLE), (2, 3, 0.5), (4, 6, -'NaN'::DOUBLE), (5, 6, 0.7)";
    rows(&ctx, sql).await;
    for order in ["", ", 'distance'"] {
        let sql = format!(
            "SELECT node, representative, kept, CAST(score * 10 AS INT) \
             FROM representatives((SELECT column1, column2, column3 AS score FROM p){order})"
        );
        let expected = [
            "1 | 1 | true | NULL",
            "2 | 2 | true | NULL",
            "3 | 2 | false | 5",
            "4 | 4 | true | NULL",
            "5 | 5 | true | NULL",
            "6 | 5 | false | 7",
        ];
        assert_same_rows(&rows(&ctx, &sql).await, &expected.map(str::to_string), &sql);
        let sql = format!(
            "SELECT \"left\", \"right\", CAST(score * 10 AS INT) FROM one_to_one((\
             SELECT column1, column2, column3 AS score FROM p){order})"
        );
        let expected = ["2 | 3 | 5", "5 | 6 | 7"].map(str::to_string);
        assert_same_rows(&rows(&ctx, &sql).await, &expected, &sql);
        let sql = format!(
            "SELECT node, component_0_6, size_0_6 FROM connected_components((SELECT * FROM p), [0.6]{order})"
        );
        let pair = if order.is_empty() { [5, 6, 5] } else { [2, 3, 2] };
        let [one, other, least] = pair;
        let expected: Vec<String> = (1..=6)
            .map(|node| match node == one || node == other {
                true => format!("{node} | {least} | 2"),
                false => format!("{node} | {node} | 1"),
            })
            .collect();
        assert_same_rows(&rows(&ctx, &sql).await, &expected, &sql);
    }
}

/// The rows with NaN are counted once, wherever they are read, and rows that a filter leaves out are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_with_nan_are_counted() {
    let names = ["left_nan_rows", "right_nan_rows"];
    for session in sessions() {
        let ctx = with_circle(&session).await;
        rows(&ctx, "CREATE TABLE u AS SELECT * FROM t WHERE id % 4 = 0").await;
        let of_two = "SELECT count(*) FROM t a SIMJOIN u b ON array_distance(a.v, b.v) <= 0.003";
        let (_, counts) = measured(&ctx, of_two, &names).await;
        assert_eq!(counts, [20, 20], "{session:?}");
        let filtered = format!("{of_two} AND a.id % 3 = 0 AND b.id > 1000");
        let (_, counts) = measured(&ctx, &filtered, &names).await;
        assert_eq!(counts, [6, 10], "{session:?}");
        let plain = of_two.replace("SIMJOIN", "JOIN");
        let (_, counts) = measured(&ctx, &plain, &names).await;
        assert_eq!(counts, [20, 20], "{session:?}");
        let of_one = of_two.replace("u b", "t b");
        let (_, counts) = measured(&ctx, &of_one, &names).await;
        assert_eq!(counts.iter().sum::<usize>(), 20, "{session:?}");
        if session.memory.is_none() {
            let nearest =
                "SELECT count(*) FROM t a SIMJOIN u b NEAREST BY DISTANCE array_distance(a.v, b.v)";
            let (_, counts) = measured(&ctx, nearest, &names).await;
            assert_eq!(counts, [20, 20], "{session:?}");
        }
    }
}
