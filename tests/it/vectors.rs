//! Joins by DataFusion's functions over vectors, against nested loops and against the functions'
//! definitions in [`crate::vector_oracle`]. Random statements are in [`crate::fuzz`].

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, Int64Array, ListBuilder, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::oracle::{Cell, line};
use crate::support::{
    OF_VECTORS, Session, assert_contains, assert_same_rows, assert_uses_operator, error, explain,
    number, physical, register_partitions, rows, rows_with, split,
};
use crate::vector_oracle::{Metric, literal};

/// A list column of Float64.
fn lists(vectors: &[Vec<f64>]) -> ArrayRef {
    let mut lists = ListBuilder::new(Float64Builder::new());
    for vector in vectors {
        lists.values().append_slice(vector);
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn table(vectors: &[Vec<f64>], data_type: &DataType) -> RecordBatch {
    let ids = Int64Array::from_iter_values(0..vectors.len() as i64);
    let keys = Int64Array::from_iter_values((0..vectors.len() as i64).map(|id| id % 3));
    let vectors = cast(&lists(vectors), data_type).expect("a list type");
    let columns = [("id", Arc::new(ids) as ArrayRef), ("v", vectors), ("k", Arc::new(keys) as _)];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// Registers vectors with their numbers as `id`, and `k`, in two partitions of small batches.
fn register(ctx: &SessionContext, name: &str, vectors: &[Vec<f64>], data_type: &DataType) {
    register_partitions(ctx, name, split(&table(vectors, data_type), 2, 16));
}

fn list_of(element: DataType) -> DataType {
    DataType::new_list(element, true)
}

fn float_list() -> DataType {
    list_of(DataType::Float64)
}

fn random(rng: &mut StdRng, count: usize, d: usize) -> Vec<Vec<f64>> {
    (0..count).map(|_| (0..d).map(|_| rng.random_range(-1.0..1.0)).collect()).collect()
}

/// The lines (id, id, value) of the pairs that `holds` keeps.
fn expected(
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    metric: Metric,
    holds: impl Fn(f64) -> bool,
) -> Vec<String> {
    let mut lines = vec![];
    for (i, x) in (0..).zip(a) {
        for (j, y) in (0..).zip(b) {
            if let Some(value) = metric.value(x, y).filter(|value| holds(*value)) {
                lines.push(line(&[Cell::Int(i), Cell::Int(j), Cell::Float(value)]));
            }
        }
    }
    lines
}

/// Both operators at a threshold, which is the value of some pair, and at its neighbours.
async fn check_around(
    ctx: &SessionContext,
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    metric: Metric,
    t: f64,
) {
    let call = format!("{}(a.v, b.v)", metric.sql());
    let (or_equal, strictly) = if metric.is_distance() { ("<=", "<") } else { (">=", ">") };
    for (operator, t) in
        [(or_equal, t.next_down()), (or_equal, t), (strictly, t), (or_equal, t.next_up())]
    {
        let bound = literal(t);
        let sql =
            format!("SELECT a.id, b.id, {call} FROM a SIMJOIN b ON {call} {operator} {bound}");
        let holds = |value: f64| {
            let order = value.total_cmp(&t);
            let more_similar = if metric.is_distance() { order.is_lt() } else { order.is_gt() };
            more_similar || (operator == or_equal && order.is_eq())
        };
        assert_same_rows(&rows(ctx, &sql).await, &expected(a, b, metric, holds), &sql);
    }
}

/// The distance of any pair is a threshold that includes this pair or not, as the operator says.
#[tokio::test]
async fn the_value_of_every_pair_is_a_sharp_threshold() {
    let mut rng = StdRng::seed_from_u64(1);
    for d in [1, 3, 19] {
        let (a, b) = (random(&mut rng, 5, d), random(&mut rng, 20, d));
        let ctx = Session::default().context();
        register(&ctx, "a", &a, &float_list());
        register(&ctx, "b", &b, &float_list());
        for metric in Metric::ALL {
            for _ in 0..6 {
                let (x, y) = (&a[rng.random_range(0..5)], &b[rng.random_range(0..20)]);
                let value = metric.value(x, y).expect("no vector of zeros");
                check_around(&ctx, &a, &b, metric, value).await;
            }
        }
    }
}

/// Vectors for which `f32` proves nothing, or the wrong thing where a bound forgets an error: far from
/// zero and near each other, next to each other, of every magnitude, sums that cancel.
fn adversarial(rng: &mut StdRng, kind: usize, count: usize, d: usize) -> Vec<Vec<f64>> {
    let mut vectors: Vec<Vec<f64>> = vec![];
    for i in 0..count {
        let vector = match kind {
            0 => (0..d).map(|_| 1e7 + rng.random::<f64>()).collect(),
            1 if i % 2 == 1 => {
                let mut near = vectors[i - 1].clone();
                let place = rng.random_range(0..d);
                near[place] = near[place].next_up();
                near
            }
            1 => (0..d).map(|_| rng.random_range(-1.0..1.0)).collect(),
            2 => {
                let exponent = rng.random_range(-30..=30);
                (0..d).map(|_| rng.random_range(-1.0..1.0) * 10_f64.powi(exponent)).collect()
            }
            // A large number and its opposite around small ones.
            3 => (0..d)
                .map(|j| match j {
                    0 => 1e15,
                    1 => -1e15,
                    _ => rng.random_range(0.0..1e-3),
                })
                .collect(),
            4 => (0..d).map(|_| f64::from_bits(rng.random_range(0..1 << 20))).collect(),
            _ => (0..d).map(|_| f64::from(rng.random_range(-3_i8..=3)) / 3.0).collect(),
        };
        vectors.push(vector);
    }
    vectors
}

#[tokio::test]
async fn values_that_single_precision_cannot_tell_apart_are_told_apart() {
    let mut rng = StdRng::seed_from_u64(2);
    for kind in 0..6 {
        for d in [2, 40, 130] {
            let a = adversarial(&mut rng, kind, 40, d);
            // The same vectors and others, so that distances of 0 occur.
            let mut b = adversarial(&mut rng, kind, 20, d);
            b.extend_from_slice(&a[..10]);
            let ctx = Session::default().context();
            register(&ctx, "a", &a, &float_list());
            register(&ctx, "b", &b, &float_list());
            for metric in Metric::ALL {
                let mut values: Vec<f64> = a
                    .iter()
                    .flat_map(|x| b.iter().filter_map(|y| metric.value(x, y)))
                    .filter(|value| !value.is_nan())
                    .collect();
                values.sort_by(f64::total_cmp);
                if values.is_empty() {
                    continue;
                }
                let most_similar = |share: usize| match metric.is_distance() {
                    true => values[values.len() / share],
                    false => values[values.len() - 1 - values.len() / share],
                };
                check_around(&ctx, &a, &b, metric, most_similar(100)).await;
                check_around(&ctx, &a, &b, metric, most_similar(4)).await;
            }
        }
    }
}

/// A session in which DataFusion's nested loop runs every join.
fn nested_loop() -> SessionContext {
    Session::default().option("recognize_joins", false).context()
}

/// Lists of every layout and type that the functions take, and list views behind a cast.
#[tokio::test]
async fn every_list_type_joins_with_every_other() {
    let mut rng = StdRng::seed_from_u64(3);
    let whole = |rng: &mut StdRng| {
        (0..24).map(|_| (0..4).map(|_| f64::from(rng.random_range(0_i8..4))).collect()).collect()
    };
    let vectors: [Vec<Vec<f64>>; 2] = [whole(&mut rng), whole(&mut rng)];
    let elements = [
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt64,
    ];
    let layouts: [fn(Arc<Field>) -> DataType; 5] = [
        DataType::List,
        DataType::LargeList,
        DataType::ListView,
        DataType::LargeListView,
        |item| DataType::FixedSizeList(item, 4),
    ];
    let (ctx, oracle) = (Session::default().context(), nested_loop());
    let mut types = vec![];
    for element in &elements {
        for layout in layouts {
            types.push(layout(Arc::new(Field::new_list_field(element.clone(), true))));
        }
    }
    for (i, data_type) in types.iter().enumerate() {
        for ctx in [&ctx, &oracle] {
            register(ctx, &format!("a{i}"), &vectors[0], data_type);
            register(ctx, &format!("b{i}"), &vectors[1], data_type);
        }
    }
    for i in 0..types.len() {
        let j = rng.random_range(0..types.len());
        let argument = |name: &str, data_type: &DataType| match data_type {
            DataType::ListView(_) => format!("arrow_cast({name}.v, 'List(Float64)')"),
            DataType::LargeListView(_) => format!("arrow_cast({name}.v, 'LargeList(Float64)')"),
            _ => format!("{name}.v"),
        };
        let (x, y) = (argument("x", &types[i]), argument("y", &types[j]));
        // `array_distance` of a List and a LargeList fails in DataFusion.
        let metric = [Metric::Cosine, Metric::InnerProduct][i % 2];
        let call = format!("{}({x}, {y})", metric.sql());
        let condition = match metric {
            Metric::Cosine => format!("{call} <= 0.2"),
            _ => format!("{call} >= 12"),
        };
        let on = |word: &str| {
            format!("SELECT x.id, y.id, {call} FROM a{i} x LEFT {word} b{j} y ON {condition}")
        };
        let wanted = rows(&oracle, &on("JOIN")).await;
        assert!(wanted.len() > 24, "{}", on("JOIN"));
        assert_same_rows(&rows(&ctx, &on("SIMJOIN")).await, &wanted, &on("SIMJOIN"));
    }
}

/// Two tables of vectors and tokens.
async fn vectors_and_tokens(ctx: &SessionContext) {
    for (name, step) in [("a", 3), ("b", 5)] {
        let sql = format!(
            "CREATE TABLE {name} AS SELECT value AS id, [sin(value), cos(value * {step})] AS v, \
             [value % 4, value % 5 + 10, value % 3 + 20] AS toks FROM generate_series(1, 80)"
        );
        rows(ctx, &sql).await;
    }
}

/// Of a set similarity and a distance in one ON one drives the join, the other is a residual filter,
/// whatever their order.
#[tokio::test]
async fn a_set_similarity_and_a_distance_stand_in_one_condition() {
    let (ctx, oracle) = (Session::default().context(), nested_loop());
    vectors_and_tokens(&ctx).await;
    vectors_and_tokens(&oracle).await;
    let similar = "jaccard(a.toks, b.toks) >= 0.5";
    for distance in [
        "array_distance(a.v, b.v) <= 0.4",
        "inner_product(a.v, b.v) >= 0.9",
        "cosine_distance(a.v, b.v) < 0.1",
    ] {
        for (first, second) in [(similar, distance), (distance, similar)] {
            for kind in ["", "LEFT ", "FULL ", "LEFT ANTI "] {
                let columns = if kind == "LEFT ANTI " { "a.id" } else { "a.id, b.id" };
                let sql = |word: &str| {
                    format!("SELECT {columns} FROM a {kind}{word} b ON {first} AND {second}")
                };
                let plan = assert_uses_operator(&ctx, &sql("SIMJOIN")).await;
                let nodes = plan.matches(crate::support::OPERATOR).count();
                assert_eq!(nodes, 1, "{plan}");
                let wanted = rows(&oracle, &sql("JOIN")).await;
                // Each row may have a partner.
                let least = usize::from(kind != "LEFT ANTI ");
                assert!((least..800).contains(&wanted.len()), "{}: {}", wanted.len(), sql("JOIN"));
                assert_same_rows(&rows(&ctx, &sql("SIMJOIN")).await, &wanted, &sql("SIMJOIN"));
            }
        }
    }
    // A measure and a distance of the matches, side by side.
    let sql = "SELECT a.id, b.id, jaccard(a.toks, b.toks), array_distance(a.v, b.v), \
               cosine_distance(b.v, a.v) FROM a JOIN b ON array_distance(a.v, b.v) <= 0.4";
    assert_uses_operator(&ctx, sql).await;
    assert_same_rows(&rows(&ctx, sql).await, &rows(&oracle, sql).await, sql);
}

/// Every way to write one condition.
#[tokio::test]
async fn a_condition_may_be_written_in_many_ways() {
    let ctx = Session::default().context();
    vectors_and_tokens(&ctx).await;
    let from = "SELECT count(*) FROM a SIMJOIN b ON";
    let wanted = number(&ctx, &format!("{from} array_distance(a.v, b.v) <= 0.5")).await;
    assert!(wanted > 100, "{wanted}");
    for condition in [
        "list_distance(a.v, b.v) <= 0.5",
        "array_distance(b.v, a.v) <= 0.5",
        "0.5 >= array_distance(a.v, b.v)",
        "array_distance(a.v, b.v) BETWEEN 0 AND 0.5",
        "array_distance(a.v, b.v) <= 0.25 + 0.25",
        "array_distance(a.v, b.v) <= CAST('0.5' AS DOUBLE)",
        "NOT (array_distance(a.v, b.v) > 0.5)",
        "CAST(array_distance(a.v, b.v) AS DOUBLE) <= 0.5",
        "array_distance(arrow_cast(a.v, 'LargeList(Float64)'), \
         arrow_cast(b.v, 'LargeList(Float64)')) <= 0.5",
        "array_distance(array_reverse(a.v), array_reverse(b.v)) <= 0.5",
    ] {
        let sql = format!("{from} {condition}");
        assert_eq!(number(&ctx, &sql).await, wanted, "{sql}");
    }
    let half = vec![ScalarValue::Float64(Some(0.5))];
    for condition in ["array_distance(a.v, b.v) <= $1", "$1 >= list_distance(a.v, b.v)"] {
        let sql = format!("{from} {condition}");
        assert_eq!(rows_with(&ctx, &sql, half.clone()).await, [wanted.to_string()], "{sql}");
    }
    for sql in [
        "SELECT count(*) FROM a, b WHERE array_distance(a.v, b.v) <= 0.5",
        "SELECT count(*) FROM a JOIN b ON true WHERE array_distance(a.v, b.v) <= 0.5",
    ] {
        assert_uses_operator(&ctx, sql).await;
        assert_eq!(number(&ctx, sql).await, wanted, "{sql}");
    }
    let products = number(&ctx, &format!("{from} inner_product(a.v, b.v) >= 0.5")).await;
    assert_eq!(number(&ctx, &format!("{from} dot_product(a.v, b.v) >= 0.5")).await, products);
    // The vectors near a given one are found without a join.
    let sql = "SELECT count(*) FROM a WHERE array_distance(a.v, [0.0, 1.0]) <= 0.5";
    assert!(!physical(&ctx, sql).await.contains(crate::support::OPERATOR));
}

#[tokio::test]
async fn columns_that_hold_no_vectors_are_refused() {
    let ctx = Session::default().context();
    for (name, value) in [
        ("vectors", "[1.0, 2.0]"),
        ("texts", "['a', 'b']"),
        ("flags", "[true, false]"),
        ("nested", "[[1.0], [2.0]]"),
        ("plain", "'1, 2'"),
        ("number", "7.5"),
        ("record", "named_struct('x', 1.0)"),
    ] {
        rows(&ctx, &format!("CREATE TABLE {name} AS SELECT 1 AS id, {value} AS v")).await;
    }
    for function in ["array_distance", "cosine_distance", "inner_product"] {
        let bound = if function == "inner_product" { ">= 0.5" } else { "<= 0.5" };
        for (right, part) in
            [("nested", "List"), ("plain", "Utf8"), ("number", "Float64"), ("record", "Struct")]
        {
            for join in ["JOIN", "SIMJOIN"] {
                let sql = format!(
                    "SELECT count(*) FROM vectors x {join} {right} y ON {function}(x.v, y.v) {bound}"
                );
                assert_contains(&error(&ctx, &sql).await, &[function, part]);
            }
        }
        // Texts are cast to numbers, as DataFusion does, and some cannot be.
        let sql =
            format!("SELECT count(*) FROM texts x SIMJOIN texts y ON {function}(x.v, y.v) {bound}");
        assert_contains(&error(&ctx, &sql).await, &["'a'", "Float64"]);
    }
    for (sql, parts) in [
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distanc(x.v, y.v) <= 1",
            &["array_distanc"][..],
        ),
        ("SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distance(x.w, y.v) <= 1", &["w"]),
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distance(x.v) <= 1",
            &["array_distance"],
        ),
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distance(x.v, y.v) <= 'near'",
            &["near"],
        ),
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distance(x.v, y.v) > 1",
            &[
                "from below only",
                "a correct example: a SIMJOIN b ON array_distance(a.x, b.x) <= 0.5",
            ],
        ),
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON inner_product(x.v, y.v) < 1",
            &[
                "from above only",
                "a correct example: a SIMJOIN b ON inner_product(a.x, b.x) >= 0.8",
            ],
        ),
        (
            "SELECT 1 FROM vectors x SIMJOIN vectors y ON array_distance(x.v, y.v) <= 1 OR x.id = y.id",
            &["under OR", "array_distance(a.x, b.x) <= 0.5"],
        ),
    ] {
        assert_contains(&error(&ctx, sql).await, parts);
    }
}

/// Vectors of different lengths that meet are an error with advice, which helps.
#[tokio::test]
async fn vectors_of_different_lengths_are_an_error_unless_kept_apart() {
    for session in [Session::default(), Session { memory: Some(8 << 20), ..Session::default() }] {
        let ctx = session.context();
        rows(&ctx, "CREATE TABLE a AS VALUES (1, [1.0, 2.0]), (2, [4.0, 5.0, 6.0]), (3, NULL)")
            .await;
        for metric in Metric::ALL {
            let on = metric.at_most(&format!("{}(a.column2, b.column2)", metric.sql()), "0.1");
            let sql = format!("SELECT count(*) FROM a SIMJOIN a b ON {on}");
            let message = error(&ctx, &sql).await;
            let advice = ["same length", "2", "3", "cardinality"];
            assert_contains(&message, &advice);
            // The advice on both sides, and as a blocking key.
            let kept = "cardinality(a.column2) = 3 AND cardinality(b.column2) = 3";
            assert_eq!(number(&ctx, &format!("{sql} AND {kept}")).await, 1);
            let keyed = "cardinality(a.column2) = cardinality(b.column2)";
            assert_eq!(number(&ctx, &format!("{sql} AND {keyed}")).await, 2);
        }
    }
}

/// Rows without a vector match nothing, and outer joins keep them.
#[tokio::test]
async fn rows_without_a_vector_are_kept_by_outer_joins() {
    let ctx = Session::default().context();
    let values = "(1, [0.0, 0.0]), (2, NULL), (3, [1.0, NULL]), (4, [0.3, 0.4])";
    rows(
        &ctx,
        &format!("CREATE TABLE a AS SELECT column1 AS id, column2 AS v FROM (VALUES {values})"),
    )
    .await;
    let sql = "SELECT a.id, b.id, array_distance(a.v, b.v) FROM a FULL SIMJOIN a b \
               ON array_distance(a.v, b.v) <= 0.45";
    let zero = Cell::Float(0.0);
    let wanted: Vec<String> = [
        [Cell::Int(1), Cell::Int(1), zero.clone()],
        [Cell::Int(4), Cell::Int(4), zero],
        [Cell::Int(2), Cell::Null, Cell::Null],
        [Cell::Int(3), Cell::Null, Cell::Null],
        [Cell::Null, Cell::Int(2), Cell::Null],
        [Cell::Null, Cell::Int(3), Cell::Null],
    ]
    .iter()
    .map(|cells| line(cells))
    .collect();
    assert_same_rows(&rows(&ctx, sql).await, &wanted, sql);
    // A vector of zeros is at no cosine distance, not even from itself.
    let sql = "SELECT a.id FROM a LEFT ANTI SIMJOIN a b ON cosine_distance(a.v, b.v) <= 2";
    assert_same_rows(&rows(&ctx, sql).await, &["1".into(), "2".into(), "3".into()], sql);
    let sql = "SELECT count(*), count(b.x) FROM a LEFT SIMJOIN \
               (SELECT 1 AS x, arrow_cast(NULL, 'List(Float64)') AS v FROM a) b \
               ON array_distance(a.v, b.v) <= 1";
    assert_eq!(rows(&ctx, sql).await, ["4 | 0"]);
}

/// Equal vectors are joined once: their pairs are counted, not made.
#[tokio::test]
async fn pairs_of_equal_vectors_are_counted_without_being_made() {
    let ctx = Session::default().context();
    let sql = "CREATE TABLE t AS SELECT value AS id, [value % 3, 1.0] AS v \
               FROM generate_series(1, 300000)";
    rows(&ctx, sql).await;
    let on = "ON array_distance(a.v, b.v) <= 0.5";
    let squares = 3 * 100_000_i64.pow(2);
    assert_eq!(number(&ctx, &format!("SELECT count(*) FROM t a SIMJOIN t b {on}")).await, squares);
    let once = format!("SELECT count(*) FROM t a SIMJOIN t b {on} AND a.id < b.id");
    assert_eq!(number(&ctx, &once).await, (squares - 300_000) / 2);
    let counts = format!(
        "SELECT max(n), min(n), count(*) FROM \
         (SELECT a.id, count(*) AS n FROM t a SIMJOIN t b {on} GROUP BY a.id)"
    );
    assert_eq!(rows(&ctx, &counts).await, ["100000 | 100000 | 300000"]);
}

/// Larger joins give one answer in memory, from disk, under a limit, by every strategy, with and
/// without reading the table once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn larger_joins_agree_in_memory_and_under_limits() {
    let mut rng = StdRng::seed_from_u64(9);
    let centres = random(&mut rng, 40, 24);
    let vectors: Vec<Vec<f64>> = (0..2500)
        .map(|i| centres[i % 40].iter().map(|c| c + rng.random_range(-0.15..0.15)).collect())
        .collect();
    let list =
        DataType::FixedSizeList(Arc::new(Field::new_list_field(DataType::Float32, true)), 24);
    for metric in Metric::ALL {
        let call = format!("{}(x.v, y.v)", metric.sql());
        let bound = match metric {
            Metric::Euclidean => "0.55",
            Metric::Cosine => "0.02",
            Metric::InnerProduct => "9.5",
        };
        let summary = |and: &str| {
            format!(
                "SELECT count(*), sum(i), sum(j), bit_xor(i * 1000003 + j), min(s), max(s) FROM \
                 (SELECT x.id AS i, y.id AS j, {call} AS s FROM t x SIMJOIN t y ON {}{and})",
                metric.at_most(&call, bound)
            )
        };
        for and in [" AND x.id < y.id", " AND x.k = y.k"] {
            let sql = summary(and);
            let mut wanted: Option<Vec<String>> = None;
            for session in [
                Session::on_cpu(),
                Session { partitions: 5, batch_size: 100, ..Session::on_cpu() },
                Session::on_cpu().option("spill", "always").option("debug.spill_piece_rows", 700),
                Session { memory: Some(5 << 20), partitions: 4, ..Session::on_cpu() },
                Session::on_cpu().option("self_join", false),
                Session::on_cpu().option("debug.simd", "portable"),
            ] {
                for strategy in OF_VECTORS {
                    let ctx = session.clone().option("strategy", strategy).context();
                    register(&ctx, "t", &vectors, &list);
                    let found = rows(&ctx, &sql).await;
                    let wanted = wanted.get_or_insert_with(|| found.clone());
                    assert_eq!(&found, wanted, "{strategy} {session:?} {sql}");
                }
            }
            let pairs = wanted.expect("an answer");
            let count: i64 = pairs[0].split(" | ").next().unwrap().parse().unwrap();
            assert!((2000..2_000_000).contains(&count), "{count} pairs: {sql}");
        }
    }
}

/// Vectors as long as a batch, and one that fills memory.
#[tokio::test]
async fn vectors_of_many_dimensions_are_joined() {
    let ctx = Session::on_cpu().context();
    let sql = "CREATE TABLE t AS SELECT i AS id, array_resize([CAST(i AS FLOAT)], 300000, 0.5) AS v \
               FROM (VALUES (1), (2), (4)) AS x(i)";
    rows(&ctx, sql).await;
    let sql = "SELECT a.id, b.id FROM t a SIMJOIN t b \
               ON array_distance(a.v, b.v) <= 1 AND a.id < b.id";
    assert_eq!(rows(&ctx, sql).await, ["1 | 2"]);
    let small = Session { memory: Some(2 << 20), ..Session::on_cpu() }.context();
    let batch = table(&[vec![0.5; 300_000], vec![1.0; 300_000]], &float_list());
    register_partitions(&small, "t", vec![vec![batch]]);
    let message = error(&small, sql).await;
    assert_contains(&message, &["Resources exhausted"]);
}

/// EXPLAIN names function, threshold and strategy.
#[tokio::test]
async fn explain_names_the_function_and_the_threshold() {
    let ctx = Session::on_cpu().context();
    vectors_and_tokens(&ctx).await;
    let sql = "SELECT a.id FROM a SIMJOIN b ON cosine_distance(a.v, b.v) < 0.25";
    let shown = explain(&ctx, sql).await;
    assert_contains(&shown, &["cosine_distance", "threshold=", "SetSimilarityJoinExec"]);
    let shown = explain(&ctx, &format!("ANALYZE {sql}")).await;
    assert_contains(&shown, &["nested-loop"]);
}
