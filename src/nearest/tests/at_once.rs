//! Nearest rows that a device or the CPU finds at once, held against window functions over nested loops.

mod sets;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListBuilder, Float32Builder, Float64Builder, ListBuilder};
use datafusion::common::Result;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use rand::Rng;
use rand::rngs::StdRng;

use super::{Drawn, nested_loops, rounds, rows_of, source, without_partner};
use crate::SimJoinContextExt;
use crate::emulator::gpu;
use crate::engine::StrategyName;
use crate::session::install;
use crate::tests::statements::{Setup, Way, pick, sorted, table};

/// The numbers of vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Numbers {
    /// Small integers: many ties, and vectors that are equal.
    Whole,
    Uniform,
    /// `f64` that are no `f32`.
    Wide,
    /// Groups of vectors near each other, with norms of several magnitudes.
    Groups,
    /// Near duplicates, which halves cannot tell apart: pairs find no room, or rows are not served.
    Near,
    /// Some that are not finite.
    Wild,
    /// Some vectors are NaN throughout.
    Failed,
}

const ALL: [Numbers; 7] = [
    Numbers::Whole,
    Numbers::Uniform,
    Numbers::Wide,
    Numbers::Groups,
    Numbers::Near,
    Numbers::Wild,
    Numbers::Failed,
];

impl Numbers {
    fn vector(self, rng: &mut StdRng, row: usize, dimensions: usize) -> Vec<f64> {
        let group = (row % 17) as f64;
        let scale = [1.0, 3.0, 0.01][row % 3];
        let number = |rng: &mut StdRng| match self {
            Self::Whole => f64::from(rng.random_range(-2..3)),
            Self::Failed if row % 13 == 4 => f64::NAN.copysign(scale - 1.5),
            Self::Uniform | Self::Failed => f64::from(rng.random::<f32>()),
            Self::Wide => rng.random::<f64>() - 0.5,
            Self::Groups => f64::from((scale * (group + 0.01 * rng.random::<f64>())) as f32),
            Self::Near => f64::from(1.0 + 1e-6 * rng.random::<f32>()),
            Self::Wild => match rng.random_range(0..4000) {
                0 => f64::NAN,
                1 => -f64::NAN,
                2 => f64::INFINITY,
                3 => 1e200,
                _ => rng.random::<f64>(),
            },
        };
        // The group shows in some dimensions only, so that directions differ as well.
        (0..dimensions)
            .map(|i| if i % 5 == row % 5 { number(rng) } else { number(rng) * 0.5 })
            .collect()
    }

    /// Rows of which some are NULL, in a list of the type that suits.
    fn column(self, rng: &mut StdRng, rows: usize, dimensions: usize) -> ArrayRef {
        let valid: Vec<bool> = (0..rows).map(|_| rng.random_bool(0.97)).collect();
        let vectors: Vec<_> = (0..rows).map(|row| self.vector(rng, row, dimensions)).collect();
        if matches!(self, Self::Uniform | Self::Groups | Self::Near) {
            let mut lists = FixedSizeListBuilder::new(Float32Builder::new(), dimensions as i32);
            for (vector, valid) in vectors.iter().zip(valid) {
                vector.iter().for_each(|number| lists.values().append_value(*number as f32));
                lists.append(valid);
            }
            return Arc::new(lists.finish());
        }
        let mut lists = ListBuilder::new(Float64Builder::new());
        for (vector, valid) in vectors.iter().zip(valid) {
            if valid {
                lists.values().append_slice(vector);
            }
            lists.append(valid);
        }
        Arc::new(lists.finish())
    }
}

/// The rows of a statement, and the plan with the rounds that it took.
async fn run(context: &SessionContext, sql: &str) -> Result<(String, Vec<String>)> {
    let plan = context.simjoin_sql(sql).await?.create_physical_plan().await?;
    let batches = datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await?;
    Ok((displayable(plan.as_ref()).indent(true).to_string(), sorted(&batches)))
}

/// How often neighbours were found at once, and how often they were not, for a reason.
#[derive(Debug, Default)]
struct Outcomes {
    found: usize,
    declined: usize,
}

impl Outcomes {
    fn note(&mut self, plan: &str) {
        self.found += usize::from(plan.contains("at once, c"));
        self.declined += usize::from(plan.contains("at once ("));
    }
}

/// A statement by a metric of vectors, with conditions that a device knows nothing of.
fn drawn(rng: &mut StdRng, numbers: Numbers) -> Drawn {
    let score = pick(
        rng,
        &["array_distance(a.s, b.s)", "array_distance(b.s, a.s)", "cosine_distance(a.s, b.s)"],
    );
    let bound = match numbers {
        Numbers::Whole => 2.0,
        _ => 0.7,
    };
    let condition = match rng.random_range(0..8) {
        0 | 1 => Some("a.id <> b.id".to_string()),
        2 => Some("a.id % 3 <> 0 AND b.id % 4 <> 1".to_string()),
        3 => Some(format!("{score} <= {bound} AND (a.id + b.id) % 3 <> 1")),
        4 => Some(format!("{score} <= {bound}")),
        _ => None,
    };
    Drawn {
        right: pick(rng, &["b", "a b"]),
        count: [1, 2, 3, 10][rng.random_range(0..4)],
        with_ties: rng.random(),
        is_outer: rng.random_range(0..3) == 0,
        score,
        is_distance: true,
        is_foreign: false,
        zero_is_far: false,
        condition,
        filter: String::new(),
    }
}

/// Holds a statement over two tables of some sizes, whose columns `column` makes, against the oracle.
async fn compare(
    rng: &mut StdRng,
    (drawn, sizes): (Drawn, [usize; 2]),
    column: impl Fn(&mut StdRng, usize) -> ArrayRef,
    (way, outcomes): (Way, &mut Outcomes),
) -> Result<()> {
    compare_by(rng, (drawn, sizes), column, (way, StrategyName::AUTO, outcomes)).await
}

/// Compares as [`compare`] does, by a strategy that the session names.
async fn compare_by(
    rng: &mut StdRng,
    (drawn, sizes): (Drawn, [usize; 2]),
    column: impl Fn(&mut StdRng, usize) -> ArrayRef,
    (way, strategy, outcomes): (Way, StrategyName, &mut Outcomes),
) -> Result<()> {
    let oracle = nested_loops();
    let mut setup = Setup::draw(rng, way);
    setup.options.strategy = strategy;
    let operator = setup.session(install)?;
    for (name, size) in ["a", "b"].into_iter().zip(sizes) {
        let table = table(rng, size, "s", |rng, rows| Ok(column(rng, rows)))?;
        oracle.register_table(name, Arc::clone(&table) as _)?;
        operator.register_table(name, table)?;
    }
    let sql = drawn.sql(true);
    let (plan, found) = run(&operator, &sql).await?;
    outcomes.note(&plan);
    let what = format!("{sizes:?} {sql}\n{plan}");
    let tied = rows_of(&oracle, &drawn.oracle("rank", "a.id, b.s, b.y")).await?;
    if drawn.with_ties {
        assert!(found == tied, "{what}\n{}", difference(&found, &tied));
        return Ok(());
    }
    let all: BTreeSet<&String> = tied.iter().collect();
    let distinct: BTreeSet<&String> = found.iter().collect();
    assert!(distinct.is_subset(&all) && distinct.len() == found.len(), "{what}");
    let expected = rows_of(&oracle, &drawn.oracle("row_number", "a.id, b.s")).await?;
    let found = without_partner(&found);
    assert!(found == expected, "{what}\n{}", difference(&found, &expected));
    Ok(())
}

/// Some rows that are in one of two answers alone.
fn difference(found: &[String], expected: &[String]) -> String {
    let (of_found, of_expected): (BTreeSet<_>, BTreeSet<_>) =
        (found.iter().collect(), expected.iter().collect());
    let more: Vec<_> = of_found.difference(&of_expected).take(5).collect();
    let missing: Vec<_> = of_expected.difference(&of_found).take(5).collect();
    format!("{} and {} rows, more {more:?}, missing {missing:?}", found.len(), expected.len())
}

/// Every kind of numbers, of few dimensions and of so many that rows do not stay in registers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_finds_all_neighbours_at_once() -> Result<()> {
    if gpu().is_none() {
        return Ok(());
    }
    let mut rng = source(11);
    let mut outcomes = Outcomes::default();
    for round in 0..rounds(12) {
        let numbers = ALL[round % ALL.len()];
        let dimensions = [3, 20, 1, 40, 150, 8][round / ALL.len() % 6];
        // The emulator takes its time for products, and the nested loops theirs.
        let most = 600;
        let sizes = [rng.random_range(1..most), rng.random_range(530..most)];
        let drawn = (drawn(&mut rng, numbers), sizes);
        let column = |rng: &mut StdRng, rows| numbers.column(rng, rows, dimensions);
        compare(&mut rng, drawn, column, (Way::Device, &mut outcomes)).await?;
    }
    assert!(outcomes.found >= rounds(12) / 9, "{outcomes:?}");
    assert!(outcomes.declined >= 1, "{outcomes:?}");
    Ok(())
}

/// Likewise on the CPU, of one vector and of many, and with memory for few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cpu_finds_all_neighbours_at_once() -> Result<()> {
    let mut rng = source(12);
    let mut outcomes = Outcomes::default();
    for round in 0..rounds(36) {
        let numbers = ALL[round % ALL.len()];
        let dimensions = [3, 20, 1, 40, 150, 8, 65, 2, 16][round / ALL.len() % 9];
        let most = [30, 200, 600][round % 3];
        let sizes = [rng.random_range(1..most), rng.random_range(1..most)];
        let way = if round % 10 == 9 { Way::Limit(1 << 13) } else { Way::Memory };
        let drawn = (drawn(&mut rng, numbers), sizes);
        let column = |rng: &mut StdRng, rows| numbers.column(rng, rows, dimensions);
        compare(&mut rng, drawn, column, (way, &mut outcomes)).await?;
    }
    assert!(outcomes.found >= rounds(36) / 3, "{outcomes:?}");
    assert!(outcomes.declined >= 1, "{outcomes:?}");
    Ok(())
}

/// The family searches the rows of each blocking key: keys that one side lacks, NULL keys, a condition besides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbours_of_a_blocking_key_are_found_at_once() -> Result<()> {
    let mut rng = source(13);
    let mut outcomes = Outcomes::default();
    for round in 0..rounds(28) {
        let numbers = ALL[round % ALL.len()];
        let dimensions = [3, 20, 1, 40][round / ALL.len() % 4];
        let most = [30, 200, 600][round % 3];
        let sizes = [rng.random_range(1..most), rng.random_range(1..most)];
        let way = if round % 10 == 9 { Way::Limit(1 << 13) } else { Way::Memory };
        let condition = pick(
            &mut rng,
            &[
                "a.k = b.k",
                "a.k = b.k AND a.id <> b.id",
                "a.k IS NOT DISTINCT FROM b.k",
                "a.k = b.k AND (a.id + b.id) % 3 <> 1",
                "a.k = b.k AND a.id % 3 <> 0 AND b.id % 4 <> 1",
            ],
        );
        let drawn = Drawn { condition: Some(condition), ..drawn(&mut rng, numbers) };
        let column = |rng: &mut StdRng, rows| numbers.column(rng, rows, dimensions);
        compare(&mut rng, (drawn, sizes), column, (way, &mut outcomes)).await?;
    }
    assert!(outcomes.found >= rounds(28) / 4, "{outcomes:?}");
    Ok(())
}
