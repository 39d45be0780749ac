//! The operator against nested loops, built by hand: what SQL cannot reach easily, and the first
//! thing to run when something breaks. The wide differential suite is in `tests/it`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Builder, Int64Array, ListBuilder, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::config::{PositiveCount, RowLimit, SimJoinOptions, SpillChoice, StrategyName};
use crate::engine::Placement;
use crate::families;
use crate::set::Measure;
use crate::spec::*;
use crate::strategies::of_sets;
use crate::tests::small;

mod memory;
mod modes;
mod probe;

type Row = (i64, Option<Vec<Option<i32>>>, Option<i64>);

fn schema() -> SchemaRef {
    let tokens = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("toks", tokens, true),
        Field::new("key", DataType::Int64, true),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let mut lists = ListBuilder::new(Int32Builder::new());
    for (_, tokens, _) in rows {
        lists.append_option(tokens.clone());
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0))),
        Arc::new(lists.finish()),
        Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.2))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn random_rows(rng: &mut StdRng, count: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = vec![];
    for i in 0..count {
        let tokens = match rng.random_range(0..10) {
            0 => None,
            1 => Some(vec![]),
            2..6 if i > 0 => {
                // A copy of an earlier row, perhaps with a token more, less or changed.
                let mut copy = rows[rng.random_range(0..i)].1.clone();
                if let Some(tokens) = copy.as_mut().filter(|t| !t.is_empty()) {
                    match rng.random_range(0..4) {
                        0 => tokens.push(Some(rng.random_range(0..30))),
                        1 => drop(tokens.pop()),
                        2 => tokens[0] = None,
                        _ => tokens.push(tokens[0]),
                    }
                }
                copy
            }
            _ => {
                let size = rng.random_range(0..9);
                let token = |rng: &mut StdRng| rng.random_range(0..15).min(rng.random_range(0..30));
                Some((0..size).map(|_| Some(token(rng))).collect())
            }
        };
        let key = (rng.random_range(0..6) > 0).then(|| rng.random_range(0..3));
        rows.push((i as i64 / 2, tokens, key));
    }
    rows
}

fn source(rows: &[Row], rows_per_batch: usize, partitions: usize) -> Arc<dyn ExecutionPlan> {
    let mut parts = vec![vec![]; partitions];
    for (i, chunk) in rows.chunks(rows_per_batch).enumerate() {
        parts[i % partitions].push(batch(chunk));
    }
    MemorySourceConfig::try_new_exec(&parts, schema(), None).unwrap()
}

fn single(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(CoalescePartitionsExec::new(plan))
}

fn set(row: &Row) -> BTreeSet<i32> {
    row.1.iter().flatten().flatten().copied().collect()
}

/// Everything a case varies.
#[derive(Debug, Clone, Copy)]
struct Case {
    measure: Measure,
    first: Side,
    threshold: f64,
    join_type: JoinType,
    keyed: bool,
    residual: Option<Operator>,
    filtered: bool,
}

impl Case {
    fn random(rng: &mut StdRng, round: usize) -> Self {
        let measure = Measure::ALL[round % 6];
        Self {
            measure,
            first: if rng.random() { Side::Left } else { Side::Right },
            threshold: match measure {
                Measure::Overlap => [1.0, 2.0, 4.0][rng.random_range(0..3)],
                _ => [0.2, 0.5, 2.0 / 3.0, 0.75, 1.0][rng.random_range(0..5)],
            },
            join_type: JOIN_TYPES[rng.random_range(0..8)],
            keyed: rng.random_range(0..3) == 0,
            residual: [None, Some(Operator::Lt), Some(Operator::GtEq), Some(Operator::NotEq)]
                [rng.random_range(0..4)],
            filtered: rng.random_range(0..4) == 0,
        }
    }

    fn matches(&self, left: &Row, right: &Row) -> bool {
        let (a, b) = (set(left), set(right));
        let (o, a, b) = (a.intersection(&b).count() as f64, a.len() as f64, b.len() as f64);
        if a == 0.0 || b == 0.0 {
            return false;
        }
        let first = if self.first == Side::Left { a } else { b };
        let value = match self.measure {
            Measure::Jaccard => o / (a + b - o),
            Measure::Dice => 2.0 * o / (a + b),
            Measure::Cosine => o / (a * b).sqrt(),
            Measure::Overlap => o,
            Measure::OverlapCoefficient => o / a.min(b),
            Measure::Containment => o / first,
        };
        value >= self.threshold
            && (!self.keyed || left.2.is_some() && left.2 == right.2)
            && self.residual.is_none_or(|op| match op {
                Operator::Lt => left.0 < right.0,
                Operator::GtEq => left.0 >= right.0,
                _ => left.0 != right.0,
            })
            && (!self.filtered || left.2.is_some_and(|k| k > 0) && right.2.is_some_and(|k| k > 0))
    }

    /// The rows of the join, as (left id, right id), by nested loops.
    fn expected(&self, left: &[Row], right: &[Row]) -> Vec<(Option<i64>, Option<i64>)> {
        let mut out = vec![];
        let mut hit = (vec![false; left.len()], vec![false; right.len()]);
        for (i, l) in left.iter().enumerate() {
            for (j, r) in right.iter().enumerate() {
                if self.matches(l, r) {
                    (hit.0[i], hit.1[j]) = (true, true);
                    out.push((Some(l.0), Some(r.0)));
                }
            }
        }
        let lefts = |wanted: bool| {
            let rows = left.iter().zip(&hit.0).filter(move |(_, h)| **h == wanted);
            rows.map(|(r, _)| (Some(r.0), None)).collect::<Vec<_>>()
        };
        let rights = |wanted: bool| {
            let rows = right.iter().zip(&hit.1).filter(move |(_, h)| **h == wanted);
            rows.map(|(r, _)| (None, Some(r.0))).collect::<Vec<_>>()
        };
        match self.join_type {
            JoinType::Left => out.extend(lefts(false)),
            JoinType::Right => out.extend(rights(false)),
            JoinType::Full => out.extend(lefts(false).into_iter().chain(rights(false))),
            JoinType::LeftSemi => out = lefts(true),
            JoinType::LeftAnti => out = lefts(false),
            JoinType::RightSemi => out = rights(true),
            JoinType::RightAnti => out = rights(false),
            _ => {}
        }
        out.sort_unstable();
        out
    }

    fn join(&self, need: Need) -> SimilarityJoin {
        use JoinType::{LeftAnti, LeftSemi, RightAnti, RightSemi};
        let column = |name: &str, index| Arc::new(Column::new(name, index)) as _;
        let output = match (need, self.join_type) {
            (Need::Counts(_), _) => vec![OutputColumn::Count(CountOf::Rows)],
            (_, LeftSemi | LeftAnti) => vec![OutputColumn::Input(Side::Left, 0)],
            (_, RightSemi | RightAnti) => vec![OutputColumn::Input(Side::Right, 0)],
            _ => vec![OutputColumn::Input(Side::Left, 0), OutputColumn::Input(Side::Right, 0)],
        };
        let fields: Vec<Field> =
            (0..output.len()).map(|i| Field::new(format!("c{i}"), DataType::Int64, true)).collect();
        let filter = Arc::new(BinaryExpr::new(
            column("key", 2),
            Operator::Gt,
            datafusion::physical_expr::expressions::lit(0_i64),
        )) as Arc<dyn datafusion::physical_plan::PhysicalExpr>;
        SimilarityJoin {
            predicate: Predicate::new(
                Call { function: self.measure.function(), first: self.first },
                self.threshold,
            ),
            text: "test".into(),
            join_type: self.join_type,
            arguments: [column("toks", 1), column("toks", 1)],
            on: if self.keyed { vec![(column("key", 2), column("key", 2))] } else { vec![] },
            null_equality: NullEquality::NullEqualsNothing,
            side_filters: if self.filtered {
                [Some(Arc::clone(&filter)), Some(filter)]
            } else {
                [None, None]
            },
            residual: self.residual.map(|op| Residual {
                expression: Arc::new(BinaryExpr::new(column("l", 0), op, column("r", 1))),
                columns: vec![
                    ResidualColumn::Input(Side::Left, 0),
                    ResidualColumn::Input(Side::Right, 0),
                ],
                schema: Arc::new(Schema::new(vec![
                    Field::new("l", DataType::Int64, false),
                    Field::new("r", DataType::Int64, false),
                ])),
            }),
            need,
            output,
            schema: Arc::new(Schema::new(fields)),
        }
    }
}

async fn run(exec: Arc<dyn ExecutionPlan>, batch_size: usize) -> Result<Vec<RecordBatch>> {
    let config = small(SessionConfig::new());
    let config = config.with_batch_size(batch_size).with_target_partitions(3);
    collect(exec, Arc::new(TaskContext::default().with_session_config(config))).await
}

fn pairs(batches: &[RecordBatch], join_type: JoinType) -> Vec<(Option<i64>, Option<i64>)> {
    let mut out = vec![];
    for batch in batches {
        let value = |c: usize, i: usize| {
            let array = batch.column(c).as_primitive::<Int64Type>();
            array.is_valid(i).then(|| array.value(i))
        };
        out.extend((0..batch.num_rows()).map(|i| match join_type {
            JoinType::LeftSemi | JoinType::LeftAnti => (value(0, i), None),
            JoinType::RightSemi | JoinType::RightAnti => (None, value(0, i)),
            _ => (value(0, i), value(1, i)),
        }));
    }
    out.sort_unstable();
    out
}

const JOIN_TYPES: [JoinType; 8] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::LeftAnti,
    JoinType::RightSemi,
    JoinType::RightAnti,
];

/// `auto` and the strategies of sets that run on the CPU.
fn strategies_on_cpu() -> Vec<StrategyName> {
    let on_cpu = of_sets().into_iter().filter(|strategy| strategy.runs_on(Placement::Cpu));
    let named = on_cpu.map(|strategy| StrategyName::new(strategy.name()));
    [StrategyName::AUTO].into_iter().chain(named).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_operator_equals_nested_loops() {
    let mut rng = StdRng::seed_from_u64(20_261_120);
    let count = |count| PositiveCount::new(count).unwrap();
    let strategies = strategies_on_cpu();
    let mut matches = 0;
    for round in 0..100 {
        let case = Case::random(&mut rng, round);
        let (left, right) = (random_rows(&mut rng, 60), random_rows(&mut rng, 50));
        let batch_size = [1, 7, 8192][rng.random_range(0..3)];
        let partitions = [1, 2, 5][rng.random_range(0..3)];
        let options = SimJoinOptions {
            candidate_chunk: count([1, 5, 1000][rng.random_range(0..3)]),
            strategy: strategies[rng.random_range(0..strategies.len())],
            match_buffer: count([1, 3, 1000][rng.random_range(0..3)]),
            // Every other round from disk, in all sorts of pieces.
            spill: [SpillChoice::Auto, SpillChoice::Always][rng.random_range(0..2)],
            spill_bands: count([1, 4, 64][rng.random_range(0..3)]),
            spill_piece_rows: RowLimit([None, Some(1), Some(9), Some(30)][rng.random_range(0..4)]),
            ..SimJoinOptions::default()
        };
        let expected = case.expected(&left, &right);
        matches += expected.len();
        for build in [Side::Left, Side::Right] {
            let sources = [source(&left, 7, partitions), source(&right, 11, partitions)];
            let [mut l, mut r] = sources;
            match build {
                Side::Left => l = single(l),
                Side::Right => r = single(r),
            }
            let input =
                JoinInput::Two { left: l, right: r, build, partitions: [1, 2, 5][round % 3] };
            for need in [Need::Rows, Need::Counts(None)] {
                let join = case.join(need);
                let exec = SetSimilarityJoinExec::try_new(
                    input.clone(),
                    join,
                    &families(),
                    options.clone(),
                )
                .unwrap();
                let batches = run(Arc::new(exec), batch_size).await.unwrap();
                let context = format!("round {round} {case:?} build {build} {need:?} {options:?}");
                check(&batches, need, &case, &expected, &context);
            }
        }
        let expected = case.expected(&left, &left);
        for need in [Need::Rows, Need::Counts(None)] {
            let input = JoinInput::Itself { input: single(source(&left, 7, 2)), partitions };
            let exec = SetSimilarityJoinExec::try_new(
                input,
                case.join(need),
                &families(),
                options.clone(),
            );
            let batches = run(Arc::new(exec.unwrap()), batch_size).await.unwrap();
            check(
                &batches,
                need,
                &case,
                &expected,
                &format!("self round {round} {case:?} {need:?} {options:?}"),
            );
        }
    }
    assert!(matches > 1000, "{matches}");
}

fn check(
    batches: &[RecordBatch],
    need: Need,
    case: &Case,
    expected: &[(Option<i64>, Option<i64>)],
    context: &str,
) {
    if need == Need::Rows {
        assert_eq!(pairs(batches, case.join_type), expected, "{context}");
    } else {
        let columns = batches.iter().map(|b| b.column(0).as_primitive::<Int64Type>());
        let total: i64 = columns.flat_map(|c| c.values().to_vec()).sum();
        assert_eq!(total, expected.len() as i64, "{context}");
    }
}
