//! Statements of every kind, held against DataFusion's nested loops.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, ListBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::SimJoinContextExt;
use crate::config::{DistributionChoice, StrategyName};
use crate::session::install;
use crate::tests::statements::{
    Drawn, Setup, Tally, Way, error, oracle, pick, plan_and_rows, sorted, statement, table,
};

const WAYS: [Way; 6] = Way::all(1200);

fn session(way: Way) -> Result<SessionContext> {
    Setup::of(way).session(install)
}

/// The numbers that vectors are made of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Small integers: distances on the boundary, and equal vectors.
    Whole,
    Unit,
    /// Every magnitude, and what is not finite.
    Wild,
    /// Near a few centres.
    Clusters,
    /// Vectors of spread norms, which often differ by a threshold, or lie in its neighbourhood.
    Norms,
}

fn number(rng: &mut StdRng, kind: Kind) -> f64 {
    match kind {
        Kind::Whole => f64::from(rng.random_range(-2_i8..=2)),
        Kind::Unit => rng.random_range(-1.0..1.0),
        Kind::Clusters => rng.random_range(-0.1..0.1),
        Kind::Norms => f64::from(rng.random_range(-1_i8..=1)),
        Kind::Wild => *[
            0.0,
            -0.0,
            1.0,
            -1.0,
            1e30,
            -1e-30,
            5e-324,
            1e160,
            2e-160,
            f64::INFINITY,
            f64::NAN,
            -f64::NAN,
            -f64::NAN,
            f64::NEG_INFINITY,
            0.3,
            1e-30,
            1.0 + f64::EPSILON,
        ]
        .choose(rng)
        .unwrap(),
    }
}

fn norm(rng: &mut StdRng) -> f64 {
    let norms = [1.0, 1.0, 2.0, 3.0, 4.5, 5.0, 9.0, 40.0, 300.0, 1e-3, 7.0_f64.next_up()];
    norms[rng.random_range(0..norms.len())]
}

fn column_type(rng: &mut StdRng, kind: Kind, d: usize) -> DataType {
    let element = match kind {
        Kind::Whole => [
            DataType::Int8,
            DataType::Int64,
            DataType::Float16,
            DataType::Float32,
            DataType::Float64,
        ]
        .choose(rng)
        .unwrap()
        .clone(),
        _ => [DataType::Float32, DataType::Float64].choose(rng).unwrap().clone(),
    };
    let item = Arc::new(Field::new_list_field(element, true));
    match rng.random_range(0..3) {
        0 => DataType::FixedSizeList(item, d as i32),
        _ => DataType::List(item),
    }
}

/// Rows of (id, v, k), some of them NULL, in two partitions.
fn vectors(rng: &mut StdRng, rows: usize, kind: Kind, d: usize) -> Result<Arc<MemTable>> {
    let data_type = column_type(rng, kind, d);
    table(rng, rows, "v", |rng, rows| {
        let mut lists = ListBuilder::new(Float64Builder::new());
        for row in 0..rows {
            let factor = if kind == Kind::Norms { norm(rng) } else { 1.0 };
            let null = rng.random_range(0..12);
            let centre = if kind == Kind::Clusters { rng.random_range(1..16) } else { 0 };
            for i in 0..d {
                let number = match kind {
                    Kind::Norms if null == 3 => number(rng, Kind::Wild),
                    // Along the axes, and next to them.
                    Kind::Norms if null > 7 => f64::from(u8::from(i == row % d)) * factor,
                    Kind::Norms => number(rng, kind) * factor,
                    _ => number(rng, kind) + (centre * (7 + i) % 16) as f64,
                };
                let number = Some(number).filter(|_| null != 1 || i > 0);
                lists.values().append_option(number.map(|v| if null == 2 { 0.0 } else { v }));
            }
            lists.append(null != 0);
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        Ok(cast(&lists, &data_type)?)
    })
}

/// A predicate with what is selected beside it, and the function that it compares.
fn draw(rng: &mut StdRng, kind: Kind) -> (Drawn, String) {
    let bound = match kind {
        Kind::Whole => pick(rng, &["0", "1", "1.4142135623730951", "2.23606797749979", "3", "4"]),
        Kind::Unit => pick(rng, &["0.05", "0.3", "0.5", "0.9", "1.2"]),
        Kind::Wild => pick(rng, &["0", "0.3", "1", "1e30", "1e-30", "1e-200"]),
        Kind::Clusters => pick(rng, &["0.01", "0.2", "0.3", "0.5", "2"]),
        Kind::Norms => pick(rng, &["0", "1", "2", "0.5", "4", "2e-3", "25", "1600"]),
    };
    let distance =
        pick(rng, &["array_distance", "list_distance", "array_distance", "cosine_distance"]);
    let (function, predicate) = match rng.random_range(0..8) {
        0 => ("inner_product", format!("inner_product(a.v, b.v) >= {bound}")),
        1 => ("inner_product", format!("{bound} < dot_product(b.v, a.v)")),
        2 => ("array_distance", format!("array_distance(a.v, b.v) < {bound}")),
        3 => ("cosine_distance", format!("{bound} >= cosine_distance(b.v, a.v)")),
        4 => ("array_distance", format!("array_distance(a.v, b.v) BETWEEN 0.1 AND {bound}")),
        5 => ("array_distance", format!("CAST(array_distance(a.v, b.v) AS REAL) <= {bound}")),
        _ => (distance.as_str(), format!("{distance}(a.v, b.v) <= {bound}")),
    };
    // The function that the predicate compares, or another one.
    let scored = if rng.random_bool(0.2) { "cosine_distance" } else { function };
    let drawn = Drawn {
        predicate,
        residual: " AND (a.id + b.id) % 3 <> 1",
        score: format!("{scored}(a.v, b.v)"),
        column: "k",
    };
    (drawn, function.to_string())
}

/// A plain join for the nested loop, and for the operator that or a SIMJOIN with the same rows: of the nested loop
/// those whose value is a number.
fn statements(rng: &mut StdRng, kind: Kind) -> [String; 2] {
    let (mut drawn, function) = draw(rng, kind);
    if rng.random() {
        let sql = statement(rng, &drawn);
        return [sql.clone(), sql];
    }
    let sql = statement(&mut rng.clone(), &drawn).replace("JOIN", "SIMJOIN");
    let is_number = format!("{function}(a.v, b.v) BETWEEN '-inf'::double AND 'inf'::double");
    drawn.predicate = format!("{} AND {is_number}", drawn.predicate);
    [statement(rng, &drawn), sql]
}

/// A statement drawn for two tables of `rows` rows, in one of the ways, against the oracle.
async fn compare(
    rng: &mut StdRng,
    tally: &mut Tally,
    round: usize,
    kind: Kind,
    rows: [usize; 2],
) -> Result<()> {
    let d = *[1, 2, 3, 5, 17].choose(rng).unwrap();
    let tables = [vectors(rng, rows[0], kind, d)?, vectors(rng, rows[1], kind, d)?];
    let [of_oracle, sql] = statements(rng, kind);
    let way = WAYS[round / 3 % WAYS.len()];
    let mut setup = Setup::draw(rng, way);
    // No index serves inner products.
    if !sql.contains("product(") {
        setup.options.strategy =
            [StrategyName::AUTO, StrategyName::new("nested-loop"), StrategyName::new("directory")]
                [round / 2 % 3];
    }
    let sessions = [&oracle(), &setup.session(install)?];
    tally.compare_with(sessions, tables, [&of_oracle, &sql], (round, way, kind, d)).await
}

/// Every way of the operator gives the rows of a nested loop, numbers bit for bit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(15);
    let mut tally = Tally::default();
    let rounds = std::env::var("SIMJOIN_TEST_CASES").ok().and_then(|v| v.parse::<usize>().ok());
    for round in 0..rounds.map_or(240, |cases| 30 * cases) {
        let kind = [Kind::Whole, Kind::Unit, Kind::Wild][round % 3];
        compare(&mut rng, &mut tally, round, kind, [90, 60]).await?;
    }
    let Tally { with_rows, grids, once } = tally;
    assert!(with_rows > 120 && grids > 10 && once > 3, "{with_rows} {grids} {once}");
    Ok(())
}

/// Vectors near a few centres, enough of them for an order with boxes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(16);
    let mut tally = Tally::default();
    for round in 0..20 {
        compare(&mut rng, &mut tally, round, Kind::Clusters, [500, 300]).await?;
    }
    assert!(tally.with_rows > 10, "{}", tally.with_rows);
    Ok(())
}

/// Vectors whose norms part them, on disk and among tasks, with some of which norms tell nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_of_spread_norms_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(17);
    let mut tally = Tally::default();
    let rounds = std::env::var("SIMJOIN_TEST_CASES").ok().and_then(|v| v.parse::<usize>().ok());
    for round in 0..rounds.map_or(120, |cases| 15 * cases) {
        compare(&mut rng, &mut tally, round, Kind::Norms, [110, 70]).await?;
    }
    let Tally { with_rows, grids, once } = tally;
    assert!(with_rows > 80 && grids > 5 && once > 1, "{with_rows} {grids} {once}");
    Ok(())
}

/// How many pairs of vectors a statement compared, by products or, of few, by the function.
async fn compared(context: &SessionContext, sql: &str) -> Result<f64> {
    let shown = context.simjoin_sql(&format!("EXPLAIN ANALYZE {sql}")).await?.collect().await?;
    let shown = arrow::util::pretty::pretty_format_batches(&shown)?.to_string();
    let number = |text: &str| {
        let mut words = text.split([',', ']']).next().unwrap_or_default().split(' ');
        let number = words.next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
        match words.next() {
            Some("K") => 1e3 * number,
            Some("M") => 1e6 * number,
            _ => number,
        }
    };
    let sum = |name: &str| shown.split(name).skip(1).map(number).sum::<f64>();
    Ok(sum(" prefix_pairs=") + sum(" candidates="))
}

/// Rows whose norms are out of reach do not meet: not from disk, and not in tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn norms_part_rows_on_disk_and_in_tasks() -> Result<()> {
    // Spilled from the first row on, rows have one band, whose segments hold a few rows of any norm; two
    // of four tasks have half of the rows of either side, or all four a quarter.
    // One partition stores rows as it reads them: which rows share a segment does not depend on time.
    let ways = [(Way::Disk, 1, 0.6), (Way::Tasks(DistributionChoice::Repartition), 4, 0.8)];
    for (way, partitions, most) in ways {
        let mut setup = Setup::of(way);
        setup.options.strategy = StrategyName::new("nested-loop");
        setup.partitions = partitions;
        let context = setup.session(install)?;
        context.sql("SET simjoin.device = 'cpu'").await?.collect().await?;
        // Rings around the origin, of norms 10, 20 …, in no order.
        for name in ["p", "q"] {
            let sql = format!(
                "CREATE TABLE {name} AS SELECT value AS id, \
                 [10 * (value * 7919 % 20 + 1) * cos(value), \
                 10 * (value * 7919 % 20 + 1) * sin(value)] AS v FROM generate_series(1, 400)"
            );
            context.sql(&sql).await?.collect().await?;
        }
        let join = |function: &str, bound: &str| {
            let condition = format!("{function}(a.v, b.v) {bound}");
            format!("SELECT count(*) FROM p a SIMJOIN q b ON {condition}")
        };
        let all = compared(&context, &join("cosine_distance", "<= 0.001")).await?;
        assert!(all >= 1.6e5, "{way:?} {all}");
        let near = compared(&context, &join("array_distance", "<= 1")).await?;
        assert!(near < most * all, "{way:?} {near} of {all}");
        let great = compared(&context, &join("inner_product", ">= 36000")).await?;
        assert!(great < most * all, "{way:?} {great} of {all}");
    }
    Ok(())
}

/// The first of two NaNs of different signs decides the sign of the distance: each order of a pair is
/// decided by itself, also where a self-join meets each pair once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_order_of_nans_is_decided_by_itself() -> Result<()> {
    let table = "CREATE TABLE t AS SELECT value AS id, [CASE value % 3 WHEN 0 THEN 1.0 \
                 WHEN 1 THEN 'NaN'::double ELSE -'NaN'::double END, 2.0] AS v \
                 FROM generate_series(1, 9)";
    let mut found_one_order = false;
    for way in WAYS {
        let (oracle, operator) = (oracle(), session(way)?);
        for context in [&oracle, &operator] {
            context.sql(table).await?.collect().await?;
        }
        for condition in [
            "array_distance(a.v, b.v) <= 1",
            "array_distance(b.v, a.v) <= 1",
            "inner_product(a.v, b.v) >= 3",
            "cosine_distance(b.v, a.v) <= 0.5",
            "array_distance(a.v, b.v) <= 1 AND a.id < b.id",
            "array_distance(a.v, b.v) <= 1 AND a.id + b.id > 7",
        ] {
            let pairs =
                format!("a.id, b.id, array_distance(a.v, b.v) FROM t a JOIN t b ON {condition}");
            let counts = format!("count(*) FROM t a JOIN t b ON {condition}");
            for sql in [format!("SELECT {pairs}"), format!("SELECT {counts}")] {
                let expected = sorted(&oracle.sql(&sql).await?.collect().await?);
                let (plan, found) = plan_and_rows(&operator, &sql).await?;
                assert!(plan.contains("SetSimilarityJoinExec"), "{sql}\n{plan}");
                assert_eq!(found, expected, "{way:?} {sql}\n{plan}");
                let has = |pair: &str| expected.iter().any(|row| row.starts_with(pair));
                found_one_order |= expected.len() > 1 && has("1 | 2") != has("2 | 1");
            }
        }
    }
    assert!(found_one_order);
    Ok(())
}

async fn points() -> Result<SessionContext> {
    let context = session(Way::Memory)?;
    let sql = "CREATE TABLE p AS SELECT value AS id, [value % 10, value / 10] AS v \
               FROM generate_series(0, 99)";
    context.sql(sql).await?.collect().await?;
    Ok(context)
}

/// The numbers are read where they lie, the nested loop is named, and parameters bound.
#[tokio::test]
async fn plans_name_the_strategy_and_see_through_casts() -> Result<()> {
    let context = points().await?;
    let sql =
        "SELECT count(*) FROM p a SIMJOIN p b ON array_distance(a.v, b.v) <= $1 AND a.id < b.id";
    let frame = context.simjoin_sql(sql).await?;
    let frame = frame.with_param_values(vec![ScalarValue::Float64(Some(1.0))])?;
    assert_eq!(sorted(&frame.collect().await?), ["180"]);
    let explain = "EXPLAIN ANALYZE SELECT a.id, b.id FROM p a SIMJOIN p b \
                   ON array_distance(a.v, b.v) <= 1";
    let shown = context.simjoin_sql(explain).await?.collect().await?;
    let shown = arrow::util::pretty::pretty_format_batches(&shown)?.to_string();
    assert!(shown.contains("nested-loop"), "{shown}");
    Ok(())
}

/// EXPLAIN ANALYZE tells of products of bytes. In tests, even numbers of vectors are joined by them.
#[tokio::test]
async fn plans_tell_of_products_of_bytes() -> Result<()> {
    let context = points().await?;
    context.sql("CREATE TABLE odd AS SELECT * FROM p WHERE id > 0").await?.collect().await?;
    context.sql("SET simjoin.strategy = 'nested-loop'").await?.collect().await?;
    for device in ["cpu", "auto"] {
        context.sql(&format!("SET simjoin.device = '{device}'")).await?.collect().await?;
        for (of, by_bytes) in [("p", true), ("odd", false)] {
            let explain = format!(
                "EXPLAIN ANALYZE SELECT a.id, b.id FROM {of} a SIMJOIN {of} b \
                 ON array_distance(a.v, b.v) <= 1"
            );
            let shown = context.simjoin_sql(&explain).await?.collect().await?;
            let shown = arrow::util::pretty::pretty_format_batches(&shown)?.to_string();
            assert_eq!(shown.contains("by products of bytes"), by_bytes, "{shown}");
        }
    }
    Ok(())
}

/// Where comparing all pairs takes long, a sample makes an index or the vectors an order, and EXPLAIN
/// ANALYZE shows how few pairs are left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_pairs_of_many_points_are_compared() -> Result<()> {
    let context = session(Way::Memory)?;
    context.sql("SET simjoin.device = 'cpu'").await?.collect().await?;
    // Products of bytes would take less time than making an index of so few.
    context.sql("SET simjoin.debug.simd = 'portable'").await?.collect().await?;
    // A square of 200 x 200 points, in no order, twice.
    let sql = "CREATE TABLE q AS SELECT value AS id, \
               [(value * 7919 % 40000) % 200, (value * 7919 % 40000) / 200] AS v \
               FROM generate_series(0, 39999)";
    context.sql(sql).await?.collect().await?;
    context.sql("CREATE TABLE r AS SELECT * FROM q").await?.collect().await?;
    for (other, few) in [("r", false), ("q", true)] {
        let sql = format!(
            "SELECT count(*) FROM q a SIMJOIN {other} b ON array_distance(a.v, b.v) <= 1 \
             AND a.id < b.id"
        );
        let shown = context.simjoin_sql(&format!("EXPLAIN ANALYZE {sql}")).await?.collect().await?;
        let shown = arrow::util::pretty::pretty_format_batches(&shown)?.to_string();
        let is_index = shown.contains("chosen=directory");
        // A self-join passes over nearly all pairs by the boxes of its order.
        assert!(is_index || few, "{shown}");
        let pairs = shown.split("prefix_pairs=").nth(1).and_then(|rest| rest.split(',').next());
        assert!(pairs.is_some_and(|p| !p.ends_with(" G") && !p.ends_with(" B")), "{shown}");
        assert_eq!(plan_and_rows(&context, &sql).await?.1, ["79600"]);
    }
    Ok(())
}

#[tokio::test]
async fn simjoin_insists_and_names_what_is_wrong() -> Result<()> {
    let context = points().await?;
    let joined = "SELECT count(*) FROM p a SIMJOIN p b ON array_distance(a.v, b.v)";
    for (condition, reason) in [
        (">= 2", "bounds the distance from below only"),
        ("<> 3", "the distance must be compared by <=, <, =, or BETWEEN with a constant"),
        ("<= 'NaN'::double", "every number satisfies it; the threshold must be a number"),
    ] {
        let error = error(&context, &format!("{joined} {condition}")).await;
        assert!(error.contains(reason), "{error}");
        let example = "a correct example: a SIMJOIN b ON array_distance(a.x, b.x) <= 0.5";
        assert!(error.contains(example), "{error}");
    }
    let products = joined.replace("array_distance", "inner_product");
    let above = error(&context, &format!("{products} > 'inf'::double")).await;
    assert!(above.contains("only NaN satisfies it; the threshold must be a number"), "{above}");
    for (condition, expected) in [("<= -1", "0"), ("<= NULL", "0"), ("< 1", "100")] {
        let (_, rows) = plan_and_rows(&context, &format!("{joined} {condition}")).await?;
        assert_eq!(rows, [expected], "{condition}");
    }
    context.sql("SET simjoin.strategy = 'ppjoin'").await?.collect().await?;
    let error = error(&context, &format!("{joined} <= 1")).await;
    assert!(
        error.contains(
            "use auto, nested-loop, directory, nested-loop-published or directory-published"
        ),
        "{error}"
    );
    Ok(())
}

/// Vectors of different lengths that meet are an error, in every way; behind different keys, or with
/// no partner, they are none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_lengths_are_an_error() -> Result<()> {
    for way in WAYS {
        let context = session(way)?;
        for sql in [
            "CREATE TABLE a AS VALUES (1, [1.0, 2.0], 1), (2, [4.0, 5.0, 6.0], 2)",
            "CREATE TABLE b AS VALUES (1, [1.0, 2.0], 1), (2, [40.0, 5.0, 6.0], 2)",
            "CREATE TABLE c AS SELECT * FROM b WHERE column1 > 5",
        ] {
            context.sql(sql).await?.collect().await?;
        }
        for function in ["array_distance", "cosine_distance"] {
            let condition = format!("{function}(a.column2, b.column2) <= 0.1");
            for tables in ["a SIMJOIN b", "a SIMJOIN a b"] {
                let sql = format!("SELECT count(*) FROM {tables} ON {condition}");
                let error = error(&context, &sql).await;
                assert!(error.contains("vectors of the same length"), "{way:?} {error}");
                let keyed = format!("{sql} AND a.column3 = b.column3");
                let (_, rows) = plan_and_rows(&context, &keyed).await?;

                let all = tables == "a SIMJOIN a b";
                assert_eq!(rows, [if all { "2" } else { "1" }], "{way:?} {keyed}");
            }
            let sql = format!("SELECT count(*) FROM a SIMJOIN c b ON {condition}");
            assert_eq!(plan_and_rows(&context, &sql).await?.1, ["0"]);
        }
        // However far from each other they lie, and however few they are.
        context
            .sql(
                "CREATE TABLE d AS SELECT value AS id, value % 50 AS k, CASE value WHEN 77 \
                 THEN [1e9, 1e9, 1e9] ELSE [value, 1.0] END AS v FROM generate_series(0, 199)",
            )
            .await?
            .collect()
            .await?;
        for condition in [
            "array_distance(a.v, b.v) <= 0.5",
            "inner_product(a.v, b.v) >= 1e5",
            "cosine_distance(a.v, b.v) <= 1e-9",
        ] {
            let sql = format!("SELECT count(*) FROM d a SIMJOIN d b ON {condition}");
            for keys in ["", " AND a.k = b.k"] {
                let error = error(&context, &format!("{sql}{keys}")).await;
                assert!(error.contains("vectors of the same length"), "{way:?} {error}");
            }
            let apart = format!("{sql} AND a.k = b.k AND (a.id = 77) = (b.id = 77)");
            assert!(plan_and_rows(&context, &apart).await.is_ok(), "{way:?} {apart}");
        }
    }
    Ok(())
}

/// EXPLAIN ANALYZE shows the time of a join on the CPU, by every strategy, in its own counters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_joins_on_the_cpu_are_shown() -> Result<()> {
    let context = session(Way::Memory)?;
    let sql = "CREATE TABLE q AS SELECT value AS id, \
               [(value * 7919 % 4000) % 60, (value * 7919 % 4000) / 60] AS v \
               FROM generate_series(0, 3999)";
    context.sql(sql).await?.collect().await?;
    context.sql("SET simjoin.device = 'cpu'").await?.collect().await?;
    let join = "SELECT count(*) FROM q a JOIN q b ON array_distance(a.v, b.v) <= 2";
    for strategy in ["nested-loop", "directory"] {
        context.sql(&format!("SET simjoin.strategy = '{strategy}'")).await?.collect().await?;
        let plan = context.sql(join).await?.create_physical_plan().await?;
        datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await?;
        let mut nanos = 0;
        plan.apply(|plan| {
            let times = ["filter_time", "verify_time"];
            let metrics = plan.metrics().filter(|_| plan.name() == "SetSimilarityJoinExec");
            let of = |name: &str| Some(metrics.as_ref()?.sum_by_name(name)?.as_usize());
            nanos += times.iter().filter_map(|name| of(name)).sum::<usize>();
            Ok(TreeNodeRecursion::Continue)
        })?;
        // Four thousand vectors meet each other in no microsecond.
        assert!(nanos > 10_000, "{strategy} {nanos}");
    }
    Ok(())
}
