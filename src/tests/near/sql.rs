//! The family through SQL, held against DataFusion's nested loops.

use std::sync::Arc;

use arrow::array::{Int32Array, Int64Array, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::NearFamily;
use super::function::int_distance;
use crate::SimJoinContextExt;
use crate::config::{DistributionChoice, RowLimit, SimJoinOptions, SpillChoice};
use crate::engine::{Families, Family};
use crate::plan::ClusterPlanning;
use crate::session::install_families;

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

const WAYS: [Way; 5] = [
    Way::Memory,
    Way::Disk,
    Way::Limit(900),
    Way::Tasks(DistributionChoice::Repartition),
    Way::Tasks(DistributionChoice::Broadcast),
];

fn config(partitions: usize, batch_size: usize) -> SessionConfig {
    SessionConfig::new().with_target_partitions(partitions).with_batch_size(batch_size)
}

/// A session that joins integers.
fn session(way: Way, partitions: usize, batch_size: usize) -> Result<SessionContext> {
    let mut options = SimJoinOptions { hash_join_rows_per_key: 0.0, ..SimJoinOptions::default() };
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
    let families = Families::new([Arc::new(NearFamily) as Arc<dyn Family>]);
    let context = SessionContext::new_with_state(install_families(builder, families)?.build());
    context.register_udf(int_distance());
    Ok(context)
}

/// Rows of (id, integer, key), some of them NULL, in two partitions.
fn table(rng: &mut StdRng, rows: usize, spread: i32) -> Result<Arc<MemTable>> {
    let near_an_end = rng.random_bool(0.2);
    let value = |rng: &mut StdRng| match rng.random_range(0..10) {
        0 => None,
        1 if near_an_end => Some([i32::MIN, i32::MAX, i32::MIN + 3][rng.random_range(0..3)]),
        _ => Some(rng.random_range(-spread..=spread)),
    };
    let batch = |rng: &mut StdRng, from: usize, to: usize| {
        let ids = Int64Array::from_iter_values(from as i64..to as i64);
        let values: Int32Array = (from..to).map(|_| value(rng)).collect();
        let keys: Int64Array = (from..to)
            .map(|_| Some(rng.random_range(0..3)).filter(|_| rng.random_bool(0.9)))
            .collect();
        RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(ids) as _, false),
            ("x", Arc::new(values) as _, true),
            ("k", Arc::new(keys) as _, true),
        ])
    };
    let half = rows / 2;
    let parts = vec![vec![batch(rng, 0, half)?], vec![batch(rng, half, rows)?]];
    Ok(Arc::new(MemTable::try_new(parts[0][0].schema(), parts)?))
}

/// A statement over `a` and `b`; `simjoin` writes the join as SIMJOIN.
fn statement(rng: &mut StdRng) -> String {
    let pick = |rng: &mut StdRng, all: &[&str]| all[rng.random_range(0..all.len())].to_string();
    let distance = rng.random_range(0..6);
    let condition = match rng.random_range(0..5) {
        0 => format!("int_distance(a.x, b.x) < {}", distance + 1),
        1 => format!("{distance} >= int_distance(b.x, a.x)"),
        2 => format!("int_distance(a.x, b.x) BETWEEN 1 AND {distance}"),
        3 => format!("int_distance(a.x, b.x) = {distance}"),
        _ => format!("int_distance(a.x, b.x) <= {distance}"),
    };
    let more = pick(
        rng,
        &[
            "",
            "",
            " AND a.k = b.k",
            " AND a.id < b.id",
            " AND a.id % 2 = 0",
            " AND (a.id + b.id) % 3 <> int_distance(a.x, b.x)",
            " AND a.k = b.k AND a.id <> b.id",
        ],
    );
    let right = pick(rng, &["b", "b", "a b"]);
    let on = format!("{right} ON {condition}{more}");
    let outer = pick(rng, &["", "LEFT ", "RIGHT ", "FULL "]);
    match rng.random_range(0..6) {
        0 => {
            let (side, kind) = (rng.random_range(0..2), pick(rng, &["SEMI", "ANTI"]));
            let (name, alias) = [("LEFT", "a"), ("RIGHT", "b")][side];
            format!("SELECT {alias}.id, {alias}.x FROM a {name} {kind} JOIN {on}")
        }
        1 => format!("SELECT count(*) FROM a {outer}JOIN {on}"),
        2 => format!("SELECT a.id, count(b.id), count(b.x) FROM a {outer}JOIN {on} GROUP BY a.id"),
        _ => format!("SELECT a.id, b.id, int_distance(a.x, b.x) FROM a {outer}JOIN {on}"),
    }
}

/// The rows as text, sorted.
fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = vec![];
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> =
            columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> =
                columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(values.join(" | "));
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

/// Every way of the operator gives the rows of a nested loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn integers_within_a_distance_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(12);
    let (mut with_rows, mut grids, mut once) = (0, 0, 0);
    for round in 0..120 {
        let spread = [3, 20, 1000][round % 3];
        let tables = [("a", table(&mut rng, 60, spread)?), ("b", table(&mut rng, 40, spread)?)];
        let sql = statement(&mut rng);
        let oracle = SessionContext::new_with_config(config(2, 8192));
        oracle.register_udf(int_distance());
        let way = WAYS[round % WAYS.len()];
        let batch_size = [1, 7, 8192][rng.random_range(0..3)];
        let operator = session(way, rng.random_range(1..5), batch_size)?;
        for (name, table) in tables {
            oracle.register_table(name, Arc::clone(&table) as _)?;
            operator.register_table(name, table)?;
        }
        let expected = sorted(&oracle.sql(&sql).await?.collect().await?);
        let (plan, found) = plan_and_rows(&operator, &sql).await?;
        assert!(plan.contains("SetSimilarityJoinExec"), "{sql}\n{plan}");
        assert_eq!(found, expected, "round {round}, {way:?}\n{sql}\n{plan}");
        with_rows += usize::from(!expected.is_empty());
        grids += usize::from(plan.contains("AxisGridExec"));
        once += usize::from(plan.contains("near to each other"));
    }
    assert!(with_rows > 80 && grids > 10 && once > 0, "{with_rows} {grids} {once}");
    Ok(())
}

#[tokio::test]
async fn simjoin_insists_and_names_what_is_wrong() -> Result<()> {
    let context = session(Way::Memory, 2, 8192)?;
    let mut rng = StdRng::seed_from_u64(5);
    context.register_table("a", table(&mut rng, 30, 9)?)?;
    let joined = "SELECT count(*) FROM a SIMJOIN a b ON int_distance(a.x, b.x)";
    let (plan, _) = plan_and_rows(&context, &format!("{joined} <= 2")).await?;
    assert!(plan.contains("threshold=2") && plan.contains("each pair once"), "{plan}");
    let error = |sql: String| {
        let context = context.clone();
        async move { plan_and_rows(&context, &sql).await.unwrap_err().to_string() }
    };
    let above = error(format!("{joined} >= 2")).await;
    assert!(above.contains("bounds the distance from below only"), "{above}");
    for (condition, reason) in [
        ("+ 1 <= 3", "the distance must be compared by <=, <, =, or BETWEEN with a constant"),
        ("<= 3 OR a.id = 1", "the distance stands under OR"),
        ("IN (1, 2)", "the distance must be compared by <=, <, ="),
    ] {
        let declined = error(format!("{joined} {condition}")).await;
        assert!(declined.contains(reason), "{declined}");
    }
    let all = error(format!("{joined} < 99999999999")).await;
    assert!(all.contains("the greatest distance satisfies it"), "{all}");
    // No strategy of the family has work for a device.
    let on_device = session(Way::Memory, 2, 8192)?;
    on_device.register_table("a", table(&mut rng, 30, 9)?)?;
    on_device.sql("SET simjoin.device = 'cuda'").await?.collect().await?;
    let none = plan_and_rows(&on_device, &format!("{joined} <= 2")).await.unwrap_err().to_string();
    assert!(none.contains("takes part in; this similarity has none"), "{none}");
    // A negative distance is none.
    let (_, none) = plan_and_rows(&context, &format!("{joined} <= -1")).await?;
    assert_eq!(none, ["0"]);
    Ok(())
}
