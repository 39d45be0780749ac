//! The family through SQL, held against DataFusion's nested loops.

use std::sync::Arc;

use arrow::array::Int32Array;
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::NearFamily;
use super::function::{INT_DISTANCE, UDF};
use crate::families::{Families, Member};
use crate::session::install_families;
use crate::tests::statements::{
    Drawn, Setup, Tally, Way, error, oracle, plan_and_rows, statement, table,
};

const WAYS: [Way; 6] = Way::all(900);

/// A session that joins integers.
fn session(setup: Setup) -> Result<SessionContext> {
    let families = Families::new([Member {
        family: Arc::new(NearFamily),
        // Functions are equal where their implementation is the same.
        function_of: |udf| (*udf == *UDF).then_some(INT_DISTANCE),
        source_of: |_, _| None,
    }]);
    let context = setup.session(|builder| install_families(builder, families))?;
    context.register_udf(UDF.clone());
    Ok(context)
}

/// Rows of (id, x, k), some of them NULL, in two partitions.
fn integers(rng: &mut StdRng, rows: usize, spread: i32) -> Result<Arc<MemTable>> {
    let near_an_end = rng.random_bool(0.2);
    let value = |rng: &mut StdRng| match rng.random_range(0..10) {
        0 => None,
        1 if near_an_end => Some([i32::MIN, i32::MAX, i32::MIN + 3][rng.random_range(0..3)]),
        _ => Some(rng.random_range(-spread..=spread)),
    };
    table(rng, rows, "x", |rng, rows| {
        Ok(Arc::new((0..rows).map(|_| value(rng)).collect::<Int32Array>()))
    })
}

/// A predicate, and what is selected beside it.
fn draw(rng: &mut StdRng) -> Drawn {
    let distance = rng.random_range(0..6);
    let predicate = match rng.random_range(0..5) {
        0 => format!("int_distance(a.x, b.x) < {}", distance + 1),
        1 => format!("{distance} >= int_distance(b.x, a.x)"),
        2 => format!("int_distance(a.x, b.x) BETWEEN 1 AND {distance}"),
        3 => format!("int_distance(a.x, b.x) = {distance}"),
        _ => format!("int_distance(a.x, b.x) <= {distance}"),
    };
    Drawn {
        predicate,
        residual: " AND (a.id + b.id) % 3 <> int_distance(a.x, b.x)",
        score: "int_distance(a.x, b.x)".to_string(),
        column: "x",
    }
}

/// Every way of the operator gives the rows of a nested loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn integers_within_a_distance_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(12);
    let mut tally = Tally::default();
    for round in 0..120 {
        let spread = [3, 20, 1000][round % 3];
        let tables = [integers(&mut rng, 60, spread)?, integers(&mut rng, 40, spread)?];
        let drawn = draw(&mut rng);
        let sql = statement(&mut rng, &drawn);
        let way = WAYS[round % WAYS.len()];
        let oracle = oracle();
        oracle.register_udf(UDF.clone());
        let sessions = [&oracle, &session(Setup::draw(&mut rng, way))?];
        tally.compare(sessions, tables, &sql, (round, way)).await?;
    }
    let Tally { with_rows, grids, once } = tally;
    assert!(with_rows > 80 && grids > 10 && once > 0, "{with_rows} {grids} {once}");
    Ok(())
}

#[tokio::test]
async fn simjoin_insists_and_names_what_is_wrong() -> Result<()> {
    let context = session(Setup::of(Way::Memory))?;
    let mut rng = StdRng::seed_from_u64(5);
    context.register_table("a", integers(&mut rng, 30, 9)?)?;
    let joined = "SELECT count(*) FROM a SIMJOIN a b ON int_distance(a.x, b.x)";
    let (plan, _) = plan_and_rows(&context, &format!("{joined} <= 2")).await?;
    assert!(plan.contains("threshold=2") && plan.contains("each pair once"), "{plan}");
    let above = error(&context, &format!("{joined} >= 2")).await;
    assert!(above.contains("bounds the distance from below only"), "{above}");
    for (condition, reason) in [
        ("<> 3", "the distance must be compared by <=, <, =, or BETWEEN with a constant"),
        ("<= 3 OR a.id = 1", "pairs that are similar in none of its parts may satisfy it"),
        ("NOT IN (1, 2)", "may satisfy it"),
    ] {
        let declined = error(&context, &format!("{joined} {condition}")).await;
        assert!(declined.contains(reason), "{declined}");
    }
    let all = error(&context, &format!("{joined} < 99999999999")).await;
    assert!(all.contains("the greatest distance satisfies it"), "{all}");
    // No strategy of the family has work for a device.
    let on_device = session(Setup::of(Way::Memory))?;
    on_device.register_table("a", integers(&mut rng, 30, 9)?)?;
    on_device.sql("SET simjoin.device = 'cuda'").await?.collect().await?;
    let none = error(&on_device, &format!("{joined} <= 2")).await;
    assert!(none.contains("takes part in; this similarity has none"), "{none}");
    // A negative distance is none.
    let (_, none) = plan_and_rows(&context, &format!("{joined} <= -1")).await?;
    assert_eq!(none, ["0"]);
    Ok(())
}
