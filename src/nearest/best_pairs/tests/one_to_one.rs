//! One-to-one matches of the pairs of a join, held against a greedy pass over all pairs of nested loops.

use std::collections::BTreeSet;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::Result;
use rand::Rng;
use rand::rngs::StdRng;

use super::{JOIN, Joined, SIMILAR, WAYS, plan_of, rounds_of, run};
use crate::SimJoinContextExt;
use crate::config::DistributionChoice;
use crate::nearest::tests::{Kind, many, nested_loops, rounds, rows, source};
use crate::session::install;
use crate::tests::statements::{Setup, Way, pick};

/// A value of a column of nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Number(i64),
    Text(String),
}

type ScoredPair = (Node, Node, f64);

/// The rows of a statement with two nodes and a score, of which none is NULL.
fn pairs_of(batches: &[RecordBatch]) -> Result<Vec<ScoredPair>> {
    let mut pairs = vec![];
    for batch in batches {
        let nodes = |column: usize| -> Result<Vec<Option<Node>>> {
            let column = batch.column(column);
            Ok(if column.data_type().is_integer() {
                let numbers = cast(column, &DataType::Int64)?;
                let numbers = numbers.as_primitive::<Int64Type>().iter();
                numbers.map(|number| number.map(Node::Number)).collect()
            } else {
                let texts = cast(column, &DataType::Utf8)?;
                let texts = texts.as_string::<i32>().iter();
                texts.map(|text| text.map(|text| Node::Text(text.to_string()))).collect()
            })
        };
        let scores = cast(batch.column(2), &DataType::Float64)?;
        let scores = scores.as_primitive::<Float64Type>();
        let rows = nodes(0)?.into_iter().zip(nodes(1)?).zip(scores.iter());
        // Neither NULL nor NaN is a score.
        let rows = rows.filter(|(_, score)| score.is_some_and(|score| !score.is_nan()));
        pairs.extend(rows.filter_map(|((left, right), score)| Some((left?, right?, score?))));
    }
    Ok(pairs)
}

/// Pairs from the best score on, ties by (left, right), each left and each right node once.
fn matched(mut pairs: Vec<ScoredPair>, is_distance: bool) -> Vec<ScoredPair> {
    pairs.sort_by(|a, b| {
        let scores = if is_distance { a.2.total_cmp(&b.2) } else { b.2.total_cmp(&a.2) };
        scores.then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1)))
    });
    let (mut lefts, mut rights) = (BTreeSet::new(), BTreeSet::new());
    pairs.retain(|(left, right, _)| {
        let is_free = !lefts.contains(left) && !rights.contains(right);
        is_free && lefts.insert(left.clone()) && rights.insert(right.clone())
    });
    pairs
}

fn sorted(pairs: Vec<ScoredPair>) -> Vec<String> {
    let mut lines: Vec<_> = pairs.iter().map(|pair| format!("{pair:?}")).collect();
    lines.sort();
    lines
}

/// A query of pairs with their score: the nodes and the tables of both sides, and how these are joined.
struct Query {
    nodes: [String; 2],
    sides: [String; 2],
    joined: Joined,
}

impl Query {
    fn draw(rng: &mut StdRng, kind: Kind) -> Self {
        let joined = Joined::draw(rng, kind);
        let side = |rng: &mut StdRng, table: &str| {
            let rows = match rng.random_range(0..3) {
                0 => format!(
                    "(SELECT id, s, k FROM {table} UNION ALL SELECT id + 500, s, k FROM {table})"
                ),
                _ => table.to_string(),
            };
            format!("(SELECT id, s, k, 'n' || CAST(id % 37 AS VARCHAR) AS t FROM {rows} u)")
        };
        let right = joined.right.split(' ').next().unwrap_or_default().to_string();
        let sides = [side(rng, "a"), side(rng, &right)];
        let columns = ["id", "id", "id", "k", "t", "id * -1"];
        let nodes = ["a.", "b."].map(|side| format!("{side}{}", pick(rng, &columns)));
        Self { nodes, sides, joined }
    }

    fn sql(&self, join: &str, exchanged: bool) -> String {
        let [mut first, mut second] = self.nodes.clone();
        if exchanged {
            std::mem::swap(&mut first, &mut second);
        }
        let [left, right] = &self.sides;
        let Joined { score, on, .. } = &self.joined;
        format!(
            "SELECT {first} AS x, {second} AS y, {score} AS s FROM {left} a {join} {right} b ON {on}"
        )
    }

    fn has_columns(&self) -> bool {
        self.nodes.iter().all(|node| !node.contains('*'))
    }
}

async fn compare_many(kind: Kind, seed: u64) -> Result<()> {
    let mut rng = source(seed);
    let [mut with_rows, mut found, mut stored, mut refused] = [0; 4];
    let count = rounds(56);
    for round in 0..count {
        let way = WAYS[round % WAYS.len()];
        let (query, exchanged) = (Query::draw(&mut rng, kind), rng.random());
        let oracle = nested_loops();
        let setup = Setup::draw(&mut rng, way);
        let is_alone = setup.partitions == 1 || way != Way::Tasks(DistributionChoice::Repartition);
        let operator = setup.session(install)?;
        // DataFusion's sort reserves more than the limits of these ways.
        operator.sql("SET datafusion.execution.sort_spill_reservation_bytes = 0").await?;
        let mut fewest = usize::MAX;
        for name in ["a", "b"] {
            let size = rng.random_range(0..90);
            fewest = fewest.min(size);
            let table = rows(&mut rng, size, kind)?;
            oracle.register_table(name, table.clone() as _)?;
            operator.register_table(name, table)?;
        }
        let is_distance = query.joined.is_distance;
        let all = oracle.sql(&query.sql("JOIN", exchanged)).await?.collect().await?;
        let expected = matched(pairs_of(&all)?, is_distance);
        let order = if is_distance { ", 'distance'" } else { "" };
        let sql = query.sql("SIMJOIN", exchanged);
        let sql = format!("SELECT * FROM one_to_one(({sql}){order})");
        let plan = operator.simjoin_sql(&sql).await?.create_physical_plan().await?;
        let text =
            || datafusion::physical_plan::displayable(plan.as_ref()).indent(true).to_string();
        let is_best = is_alone && query.has_columns();
        // Of few rows, statistics do not tell the bytes that a filter leaves.
        if fewest > 20 || !matches!(way, Way::Tasks(_)) {
            assert_eq!(text().contains("best=one to one"), is_best, "{sql}\n{}", text());
        }
        let collected = datafusion::physical_plan::collect(plan.clone(), operator.task_ctx()).await;
        let rows = match collected {
            Ok(rows) => rows,
            Err(error) if matches!(way, Way::Limit(900)) => {
                assert!(error.to_string().contains("Resources exhausted"), "{sql}\n{error}");
                refused += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        with_rows += usize::from(!expected.is_empty());
        assert_eq!(sorted(pairs_of(&rows)?), sorted(expected), "{way:?} {sql}\n{}", text());
        let rounds = rounds_of(&text());
        found += usize::from(rounds.last().is_some_and(|last| last.contains(" x ")));
        stored += usize::from(rounds.last().is_some_and(|last| last.ends_with("are taken")));
    }
    // The sort takes half a MiB at least, of 900 KiB in all.
    assert!(with_rows > count / 2 && refused <= count / 5, "{with_rows}, {refused} of {count}");
    assert!(found > count / 20 && stored > 0, "{found} and {stored} of {count}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matches_of_sets_are_those_of_all_pairs() -> Result<()> {
    compare_many(Kind::Sets, 41).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matches_of_texts_are_those_of_all_pairs() -> Result<()> {
    compare_many(Kind::Texts, 42).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matches_of_vectors_are_those_of_all_pairs() -> Result<()> {
    compare_many(Kind::Vectors, 43).await
}

/// A hundred thousand pairs of equal rows: each row meets the one of its place, and no more pairs are made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_rows_are_joined_once() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    let table = "CREATE TABLE t AS SELECT value AS id, 'x' || CAST(value % 3 AS VARCHAR) AS s \
                 FROM generate_series(1, 600)";
    context.sql(table).await?.collect().await?;
    let sql = "SELECT * FROM one_to_one((SELECT a.id, b.id, levenshtein(a.s, b.s) \
               FROM t a SIMJOIN t b ON levenshtein(a.s, b.s) <= 1), 'distance')";
    let ([_, after], rows) = run(&context, sql).await?;
    let mut expected: Vec<_> = (1..=600).map(|id| format!("{id} | {id} | 0")).collect();
    expected.sort();
    assert_eq!(rows, expected);
    assert!(rounds_of(&after)[1].ends_with(": 9 pairs of 3 x 3"), "{after}");
    Ok(())
}

/// The nodes of a pair are compared among equal rows without their pairs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_rows_whose_nodes_are_compared_are_joined_once() -> Result<()> {
    let (oracle, context) = (nested_loops(), Setup::of(Way::Memory).session(install)?);
    for session in [&oracle, &context] {
        let table = "CREATE TABLE t AS SELECT value * 7 % 600 AS id, value % 11 AS k, \
                     'x' || CAST(value % 3 AS VARCHAR) AS s FROM generate_series(1, 600)";
        session.sql(table).await?.collect().await?;
    }
    for operator in ["<", "<=", ">", ">=", "<>"] {
        for nodes in ["a.id, b.id", "b.id, a.id", "a.k, b.k"] {
            let node = &nodes[2..4].trim_end_matches(',');
            let pairs = |join: &str| {
                format!(
                    "SELECT {nodes}, levenshtein(a.s, b.s) FROM t a {join} t b \
                     ON levenshtein(a.s, b.s) <= 1 AND a.{node} {operator} b.{node}"
                )
            };
            let all = oracle.sql(&pairs("JOIN")).await?.collect().await?;
            let expected = sorted(matched(pairs_of(&all)?, true));
            let sql = format!("SELECT * FROM one_to_one(({}), 'distance')", pairs("SIMJOIN"));
            let plan = context.simjoin_sql(&sql).await?.create_physical_plan().await?;
            let found =
                datafusion::physical_plan::collect(plan.clone(), context.task_ctx()).await?;
            assert_eq!(sorted(pairs_of(&found)?), expected, "{sql}");
            let text = datafusion::physical_plan::displayable(plan.as_ref()).indent(true);
            let rounds = rounds_of(&text.to_string());
            assert!(rounds.len() > 1, "{sql} {rounds:?}");
            let of_distinct_rows = |round: &String| round.ends_with(" pairs of 3 x 3");
            assert!(rounds[1..].iter().all(of_distinct_rows), "{sql} {rounds:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn one_to_one_reaches_the_join() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    many(&context).await?;
    let pairs = format!("SELECT a.id, b.id, {SIMILAR} FROM {JOIN}");
    let outer = pairs.replace("SIMJOIN", "LEFT SIMJOIN");
    let dice = pairs.replacen("jaccard", "dice", 1);
    for (query, reaches) in [
        (pairs.clone(), true),
        (format!("{pairs} AND a.id <> b.id"), true),
        (
            format!(
                "SELECT q.y, q.x, q.v FROM (SELECT a.id AS x, b.id AS y, {SIMILAR} AS v FROM {JOIN}) q"
            ),
            true,
        ),
        (format!("SELECT a.s, b.id, {SIMILAR} FROM {JOIN}"), true),
        (format!("SELECT CAST(a.id AS DOUBLE), b.id, {SIMILAR} FROM {JOIN}"), false),
        (format!("SELECT a.id, a.id AS other, {SIMILAR} FROM {JOIN}"), false),
        (format!("SELECT a.id, b.id, -{SIMILAR} FROM {JOIN}"), false),
        (format!("SELECT a.id, b.id, random() FROM {JOIN}"), false),
        (format!("{pairs} AND random() * a.id < b.id"), false),
        (format!("{pairs} LIMIT 100"), false),
        (format!("SELECT DISTINCT {}", pairs.trim_start_matches("SELECT ")), false),
        // No pair of a row without a partner is taken.
        (outer, true),
        (dice, false),
    ] {
        let sql = format!("SELECT * FROM one_to_one(({query}))");
        let plan = plan_of(&context, &sql).await?;
        assert_eq!(plan.contains("best=one to one"), reaches, "{sql}\n{plan}");
        // That scores are not NULL is no condition: each match has one.
        let has_filter = query.contains("<>");
        assert!(!reaches || plan.contains("filter=") == has_filter, "{sql}\n{plan}");
    }
    let plan =
        plan_of(&context, &format!("SELECT * FROM one_to_one(({pairs}), 'distance')")).await?;
    assert!(!plan.contains("best="), "{plan}");
    Ok(())
}
