//! Statements of every kind, held against DataFusion's nested loops.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Float64Array, Float64Builder, Int64Array, ListBuilder, RecordBatch,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::SimJoinContextExt;
use crate::config::{DistributionChoice, RowLimit, SimJoinOptions, SpillChoice, StrategyChoice};
use crate::plan::ClusterPlanning;
use crate::session::install;

/// How a statement is run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Memory,
    /// From disk, a few rows of the build side at a time.
    Disk,
    /// Within a memory limit, in KiB.
    Limit(usize),
    /// As the tasks of a cluster, by the grid or by a broadcast.
    Tasks(DistributionChoice),
}

const WAYS: [Way; 6] = [
    Way::Memory,
    Way::Memory,
    Way::Disk,
    Way::Limit(1200),
    Way::Tasks(DistributionChoice::Repartition),
    Way::Tasks(DistributionChoice::Broadcast),
];

fn config(partitions: usize, batch_size: usize) -> SessionConfig {
    SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch_size)
}

fn session(way: Way, partitions: usize, batch_size: usize) -> Result<SessionContext> {
    let mut options = SimJoinOptions { hash_join_rows_per_key: 0.0, ..SimJoinOptions::default() };
    if partitions.is_multiple_of(2) {
        options.strategy = StrategyChoice::NestedLoop;
    }
    let mut config = config(partitions, batch_size);
    let mut runtime = RuntimeEnvBuilder::new();
    match way {
        Way::Memory => {}
        Way::Disk => {
            options.spill = SpillChoice::Always;
            options.spill_piece_rows = RowLimit(Some(7));
        }
        Way::Limit(kib) => runtime = runtime.with_memory_limit(kib << 10, 1.0),
        Way::Tasks(distribution) => {
            options.distribution = distribution;
            config = config.with_extension(Arc::new(ClusterPlanning::default()));
        }
    }
    config.options_mut().extensions.insert(options);
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(runtime.build_arc()?);
    Ok(SessionContext::new_with_state(install(builder)?.build()))
}

/// What vectors are made of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Small integers: distances on the boundary, and equal vectors.
    Whole,
    Unit,
    /// Every magnitude, and what is not finite.
    Wild,
}

fn number(rng: &mut StdRng, kind: Kind) -> f64 {
    match kind {
        Kind::Whole => f64::from(rng.random_range(-2_i8..=2)),
        Kind::Unit => rng.random_range(-1.0..1.0),
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

/// Rows of (id, vector, key), some of them NULL, in two partitions.
fn table(rng: &mut StdRng, rows: usize, kind: Kind, d: usize) -> Result<Arc<MemTable>> {
    let data_type = column_type(rng, kind, d);
    let batch = |rng: &mut StdRng, from: usize, to: usize| -> Result<RecordBatch> {
        let ids = Int64Array::from_iter_values(from as i64..to as i64);
        let mut lists = ListBuilder::new(Float64Builder::new());
        for _ in from..to {
            let null = rng.random_range(0..12);
            for i in 0..d {
                let number = Some(number(rng, kind)).filter(|_| null != 1 || i > 0);
                lists.values().append_option(number.map(|v| if null == 2 { 0.0 } else { v }));
            }
            lists.append(null != 0);
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        let vectors = cast(&lists, &data_type)?;
        let keys: Int64Array = (from..to)
            .map(|_| Some(rng.random_range(0..3)).filter(|_| rng.random_bool(0.9)))
            .collect();
        Ok(RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(ids) as _, false),
            ("v", vectors, true),
            ("k", Arc::new(keys) as _, true),
        ])?)
    };
    let half = rows / 2;
    let parts = vec![vec![batch(rng, 0, half)?], vec![batch(rng, half, rows)?]];
    Ok(Arc::new(MemTable::try_new(parts[0][0].schema(), parts)?))
}

/// A statement over `a` and `b`.
fn statement(rng: &mut StdRng, kind: Kind) -> String {
    let pick = |rng: &mut StdRng, all: &[&str]| all[rng.random_range(0..all.len())].to_string();
    let bound = match kind {
        Kind::Whole => pick(rng, &["0", "1", "1.4142135623730951", "2.23606797749979", "3", "4"]),
        Kind::Unit => pick(rng, &["0.05", "0.3", "0.5", "0.9", "1.2"]),
        Kind::Wild => pick(rng, &["0", "0.3", "1", "1e30", "1e-30", "1e-200"]),
    };
    let distance =
        pick(rng, &["array_distance", "list_distance", "array_distance", "cosine_distance"]);
    let (function, condition) = match rng.random_range(0..8) {
        0 => ("inner_product", format!("inner_product(a.v, b.v) >= {bound}")),
        1 => ("inner_product", format!("{bound} < dot_product(b.v, a.v)")),
        2 => ("array_distance", format!("array_distance(a.v, b.v) < {bound}")),
        3 => ("cosine_distance", format!("{bound} >= cosine_distance(b.v, a.v)")),
        4 => ("array_distance", format!("array_distance(a.v, b.v) BETWEEN 0.1 AND {bound}")),
        5 => ("array_distance", format!("CAST(array_distance(a.v, b.v) AS REAL) <= {bound}")),
        _ => (distance.as_str(), format!("{distance}(a.v, b.v) <= {bound}")),
    };
    let more = pick(
        rng,
        &[
            "",
            "",
            " AND a.k = b.k",
            " AND a.id < b.id",
            " AND a.id % 2 = 0",
            " AND (a.id + b.id) % 3 <> 1",
            " AND a.k = b.k AND a.id <> b.id",
        ],
    );
    let right = pick(rng, &["b", "b", "a b"]);
    let on = format!("{right} ON {condition}{more}");
    let outer = pick(rng, &["", "", "LEFT ", "RIGHT ", "FULL "]);
    match rng.random_range(0..7) {
        0 => {
            let (side, kind) = (rng.random_range(0..2), pick(rng, &["SEMI", "ANTI"]));
            let (name, alias) = [("LEFT", "a"), ("RIGHT", "b")][side];
            format!("SELECT {alias}.id, {alias}.k FROM a {name} {kind} JOIN {on}")
        }
        1 => format!("SELECT count(*) FROM a {outer}JOIN {on}"),
        2 => format!("SELECT a.id, count(b.id), count(b.k) FROM a {outer}JOIN {on} GROUP BY a.id"),
        3 => format!("SELECT a.id, b.id, cosine_distance(a.v, b.v) FROM a {outer}JOIN {on}"),
        _ => format!("SELECT a.id, b.id, {function}(a.v, b.v) FROM a {outer}JOIN {on}"),
    }
}

/// The rows as text, sorted; numbers by their bits.
fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = vec![];
    for batch in batches {
        for row in 0..batch.num_rows() {
            let value = |column: &ArrayRef| {
                let floats: Option<&Float64Array> = column.as_any().downcast_ref();
                match floats.filter(|floats| floats.is_valid(row)) {
                    Some(floats) => {
                        format!("{:?} {:x}", floats.value(row), floats.value(row).to_bits())
                    }
                    _ => ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string(),
                }
            };
            rows.push(batch.columns().iter().map(value).collect::<Vec<_>>().join(" | "));
        }
    }
    rows.sort_unstable();
    rows
}

async fn plan_and_rows(context: &SessionContext, sql: &str) -> Result<(String, Vec<String>)> {
    let plan = context.simjoin_sql(sql).await?.create_physical_plan().await?;
    let text = displayable(plan.as_ref()).indent(true).to_string();
    let batches = datafusion::physical_plan::collect(plan, context.task_ctx()).await?;
    Ok((text, sorted(&batches)))
}

/// Every way of the operator gives the rows of a nested loop, numbers bit for bit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(15);
    let (mut with_rows, mut grids, mut once) = (0, 0, 0);
    let rounds = std::env::var("SIMJOIN_TEST_CASES").ok().and_then(|v| v.parse::<usize>().ok());
    for round in 0..rounds.map_or(240, |cases| 30 * cases) {
        let kind = [Kind::Whole, Kind::Unit, Kind::Wild][round % 3];
        let d = *[1, 2, 3, 5, 17].choose(&mut rng).unwrap();
        let tables = [("a", table(&mut rng, 90, kind, d)?), ("b", table(&mut rng, 60, kind, d)?)];
        let sql = statement(&mut rng, kind);
        let oracle = SessionContext::new_with_config(config(2, 8192));
        let way = WAYS[round / 3 % WAYS.len()];
        let batch_size = [1, 7, 8192][rng.random_range(0..3)];
        let operator = session(way, rng.random_range(1..5), batch_size)?;
        if !sql.contains("product(") {
            let strategy = ["auto", "nested-loop", "grid", "directory"][round / 2 % 4];
            operator.sql(&format!("SET simjoin.strategy = '{strategy}'")).await?.collect().await?;
        }
        for (name, table) in tables {
            oracle.register_table(name, Arc::clone(&table) as _)?;
            operator.register_table(name, table)?;
        }
        let expected = match oracle.sql(&sql).await?.collect().await {
            Ok(rows) => sorted(&rows),
            Err(error) => panic!("{error}\n{sql}"),
        };
        let (plan, found) = plan_and_rows(&operator, &sql).await?;
        assert!(plan.contains("SetSimilarityJoinExec"), "{sql}\n{plan}");
        assert_eq!(found, expected, "round {round}, {way:?}, {kind:?}, {d}\n{sql}\n{plan}");
        with_rows += usize::from(!expected.is_empty());
        grids += usize::from(plan.contains("AxisGridExec"));
        once += usize::from(plan.contains("near to each other") || plan.contains("each pair once"));
    }
    assert!(with_rows > 120 && grids > 10 && once > 3, "{with_rows} {grids} {once}");
    Ok(())
}

/// Of two NaNs of different signs the first decides the sign of the distance: each order of a pair is
/// decided by itself, also where a self-join meets each pair once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_order_of_nans_is_decided_by_itself() -> Result<()> {
    let table = "CREATE TABLE t AS SELECT value AS id, [CASE value % 3 WHEN 0 THEN 1.0 \
                 WHEN 1 THEN 'NaN'::double ELSE -'NaN'::double END, 2.0] AS v \
                 FROM generate_series(1, 9)";
    let mut found_one_order = false;
    for way in WAYS {
        let oracle = SessionContext::new_with_config(config(2, 8192));
        let operator = session(way, 3, 8192)?;
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
    let context = session(Way::Memory, 2, 8192)?;
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

#[tokio::test]
async fn simjoin_insists_and_names_what_is_wrong() -> Result<()> {
    let context = points().await?;
    let joined = "SELECT count(*) FROM p a SIMJOIN p b ON array_distance(a.v, b.v)";
    for (condition, reason) in [
        (">= 2", "bounds the distance from below only"),
        ("+ 1 <= 3", "the distance must be compared by <=, <, =, or BETWEEN with a constant"),
        ("<= 'NaN'::double", "NaN"),
    ] {
        let error = plan_and_rows(&context, &format!("{joined} {condition}")).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    for (condition, expected) in [("<= -1", "0"), ("<= NULL", "0"), ("< 1", "100")] {
        let (_, rows) = plan_and_rows(&context, &format!("{joined} {condition}")).await?;
        assert_eq!(rows, [expected], "{condition}");
    }
    context.sql("SET simjoin.strategy = 'ppjoin'").await?.collect().await?;
    let error = plan_and_rows(&context, &format!("{joined} <= 1")).await.unwrap_err().to_string();
    assert!(error.contains("use auto, nested-loop, grid or directory"), "{error}");
    Ok(())
}

/// Vectors of different lengths that meet are an error, in every way; behind different keys, or with
/// no partner, they are none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_lengths_are_an_error() -> Result<()> {
    for way in WAYS {
        let context = session(way, 2, 8192)?;
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
                let error = plan_and_rows(&context, &sql).await.unwrap_err().to_string();
                assert!(error.contains("vectors of the same length"), "{way:?} {error}");
                let keyed = format!("{sql} AND a.column3 = b.column3");
                let (_, rows) = plan_and_rows(&context, &keyed).await?;

                let all = tables == "a SIMJOIN a b";
                assert_eq!(rows, [if all { "2" } else { "1" }], "{way:?} {keyed}");
            }
            let sql = format!("SELECT count(*) FROM a SIMJOIN c b ON {condition}");
            assert_eq!(plan_and_rows(&context, &sql).await?.1, ["0"]);
        }
    }
    Ok(())
}
