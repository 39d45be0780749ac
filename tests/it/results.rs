//! Results of pairs, held to oracles of a few lines.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::prelude::SessionContext;
use datafusion_simjoin::{PairFunction, ScoreOrder, SimJoinDataFrameExt};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use crate::oracle::{Cell, line};
use crate::support::{
    Session, assert_contains, assert_same_rows, error, plan, register_partitions, rows,
    rows_of_tasks, rows_with,
};

pub(crate) type Pair = (Option<i64>, Option<i64>, Option<f64>);

/// The nodes, and the partners of each with the scores.
fn graph(pairs: &[Pair]) -> BTreeMap<i64, BTreeMap<i64, Vec<Option<f64>>>> {
    let mut graph: BTreeMap<i64, BTreeMap<i64, Vec<Option<f64>>>> = BTreeMap::new();
    for (left, right, score) in pairs {
        left.iter().chain(right).for_each(|node| _ = graph.entry(*node).or_default());
        if let (Some(a), Some(b)) = (left, right)
            && a != b
        {
            graph.entry(*a).or_default().entry(*b).or_default().push(*score);
            graph.entry(*b).or_default().entry(*a).or_default().push(*score);
        }
    }
    graph
}

/// By node the least node that can be reached and how many can.
pub(crate) fn components(pairs: &[Pair]) -> BTreeMap<i64, (i64, usize)> {
    let graph = graph(pairs);
    let reach = |from: i64| {
        let (mut seen, mut next) = (BTreeSet::from([from]), vec![from]);
        while let Some(node) = next.pop() {
            next.extend(graph[&node].keys().filter(|node| seen.insert(**node)));
        }
        (*seen.first().unwrap(), seen.len())
    };
    graph.keys().map(|node| (*node, reach(*node))).collect()
}

/// By node its representative, and the score with it.
pub(crate) fn representatives(
    pairs: &[Pair],
    is_distance: bool,
) -> BTreeMap<i64, (i64, Option<f64>)> {
    let graph = graph(pairs);
    let mut kept = BTreeMap::new();
    for (node, partners) in &graph {
        let is_kept = |other: &i64| kept.get(other).is_some_and(|(of, _)| of == other);
        let mut found: Vec<(i64, Option<f64>)> = vec![];
        for (other, scores) in partners.range(..node).filter(|(other, _)| is_kept(other)) {
            found.extend(scores.iter().map(|score| (*other, *score)));
        }
        // The best score first, NULL last; of ties the least.
        found.sort_by(|(a, s), (b, t)| {
            let key = |s: &Option<f64>| s.map(|s| if is_distance { s } else { -s });
            let by_score = match (key(s), key(t)) {
                (Some(s), Some(t)) => s.total_cmp(&t),
                (s, t) => s.is_none().cmp(&t.is_none()),
            };
            by_score.then(a.cmp(b))
        });
        let own = (*node, None);
        kept.insert(*node, found.first().copied().unwrap_or(own));
    }
    kept
}

/// The pairs that are taken, best first.
fn one_to_one(pairs: &[Pair], is_distance: bool) -> Vec<(i64, i64, f64)> {
    let complete = |(l, r, s): &Pair| Some(((*l)?, (*r)?, (*s)?));
    let mut sorted: Vec<_> = pairs.iter().filter_map(complete).collect();
    let key = |score: f64| if is_distance { score } else { -score };
    sorted.sort_by(|a, b| key(a.2).total_cmp(&key(b.2)).then((a.0, a.1).cmp(&(b.0, b.1))));
    let (mut left, mut right) = (BTreeSet::new(), BTreeSet::new());
    sorted.retain(|(l, r, _)| {
        let free = !left.contains(l) && !right.contains(r);
        if free {
            left.insert(*l);
            right.insert(*r);
        }
        free
    });
    sorted
}

/// Types of nodes, and how far apart nodes are for them.
fn node_types() -> Vec<(DataType, i64)> {
    let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int32), Box::new(values));
    vec![
        (DataType::Int64, 1),
        (DataType::Int64, 1_000_003),
        (DataType::Int64, 90_000_000_000_000_000),
        (DataType::Int32, 20_000_000),
        (DataType::UInt16, 300),
        (DataType::Int8, 1),
        (DataType::UInt64, 100_000_000_000_000_000),
        (DataType::Date32, 7),
        (DataType::Timestamp(TimeUnit::Millisecond, None), 86_400_000),
        (DataType::Utf8, 1),
        (DataType::LargeUtf8, 12_345),
        (DataType::Utf8View, 99_999_999),
        (DataType::Decimal128(30, 2), 100),
        (dictionary(DataType::Utf8), 1),
        (dictionary(DataType::Int64), 1),
        (DataType::Float64, 1),
    ]
}

struct Case {
    pairs: Vec<Pair>,
    node: DataType,
    session: Session,
    tasks: Option<usize>,
    batches: usize,
}

impl Case {
    fn draw(rng: &mut StdRng) -> Self {
        let types = node_types();
        let (node, step) = types.choose(rng).unwrap().clone();
        let nodes = rng.random_range(1..60);
        let count = rng.random_range(0..2 * nodes as usize);
        // Texts compare as texts: nodes of one length keep the order of numbers.
        let (first, nodes) = match &node {
            DataType::Int8 => (-60, nodes),
            t if t.is_numeric() && *t != DataType::UInt16 && *t != DataType::UInt64 => {
                (-(nodes / 2), nodes)
            }
            DataType::UInt16 | DataType::UInt64 => (0, nodes),
            _ => (100, nodes),
        };
        let text = matches!(node, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            || matches!(&node, DataType::Dictionary(_, v) if **v == DataType::Utf8);
        let step = if text { 1 } else { step };
        let value = |rng: &mut StdRng| {
            rng.random_bool(0.93).then(|| (first + rng.random_range(0..nodes)) * step)
        };
        let pairs = (0..count).map(|_| {
            let score = f64::from(rng.random_range(0..12_u32)) / 10.0;
            (value(rng), value(rng), rng.random_bool(0.85).then_some(score))
        });
        Self {
            pairs: pairs.collect(),
            node,
            session: Session {
                batch_size: *[1, 3, 8192].choose(rng).unwrap(),
                partitions: *[1, 2, 5].choose(rng).unwrap(),
                ..Session::default()
            },
            tasks: rng.random_bool(0.3).then(|| rng.random_range(1..3)),
            batches: rng.random_range(1..5),
        }
    }

    fn context(&self) -> SessionContext {
        let session = Session { tasks_of: self.tasks, ..self.session.clone() };
        let ctx = session.context();
        let batch = |pairs: &[Pair]| {
            let nodes = |of: fn(&Pair) -> Option<i64>| -> ArrayRef {
                let nodes: ArrayRef = Arc::new(pairs.iter().map(of).collect::<Int64Array>());
                // Decimals of scale 2 hold hundredths: not a matter of nodes.
                cast(&nodes, &self.node).unwrap()
            };
            // NaN of either sign is as NULL.
            let no_scores = [None, Some(f64::NAN), Some(-f64::NAN)].into_iter().cycle();
            let scores = pairs.iter().zip(no_scores).map(|(pair, none)| pair.2.or(none));
            let scores = scores.collect::<Float64Array>();
            RecordBatch::try_from_iter_with_nullable([
                ("x", nodes(|pair| pair.0), true),
                ("y", nodes(|pair| pair.1), true),
                ("s", Arc::new(scores) as ArrayRef, true),
            ])
            .unwrap()
        };
        let size = self.pairs.len().div_ceil(self.batches).max(1);
        let mut partitions = vec![vec![]; self.session.partitions];
        for (i, pairs) in self.pairs.chunks(size).enumerate() {
            partitions[i % self.session.partitions].push(batch(pairs));
        }
        if self.pairs.is_empty() {
            partitions[0].push(batch(&[]));
        }
        register_partitions(&ctx, "p", partitions);
        ctx
    }

    async fn rows(&self, ctx: &SessionContext, sql: &str) -> Vec<String> {
        match self.tasks {
            Some(tasks) => rows_of_tasks(ctx, sql, vec![], tasks).await,
            None => rows_with(ctx, sql, vec![]).await,
        }
    }

    async fn check(&self, seed: u64) {
        let ctx = self.context();
        let what =
            |sql: &str| format!("seed {seed}: {sql} of {:?} nodes {:?}", self.node, self.pairs);
        let sql = "SELECT node::BIGINT, component::BIGINT, size FROM connected_components((SELECT x, y FROM p))";
        let expected = components(&self.pairs);
        let expected: Vec<String> = expected
            .iter()
            .map(|(node, (least, size))| format!("{node} | {least} | {size}"))
            .collect();
        assert_same_rows(&self.rows(&ctx, sql).await, &expected, &what(sql));

        for is_distance in [false, true] {
            let order = if is_distance { ", 'distance'" } else { "" };
            let sql = format!(
                "SELECT node::BIGINT, component_0_6::BIGINT, size_0_6, component_0_2::BIGINT, size_0_2 \
                 FROM connected_components((SELECT * FROM p), [0.2, 0.6]{order})"
            );
            let at = |threshold: f64| {
                let reaches = |s: f64| if is_distance { s <= threshold } else { s >= threshold };
                let counts = |(l, r, s): &Pair| -> [Pair; 2] {
                    match s.is_some_and(reaches) {
                        true => [(*l, *r, None), (None, None, None)],
                        false => [(*l, None, None), (*r, None, None)],
                    }
                };
                components(&self.pairs.iter().flat_map(counts).collect::<Vec<_>>())
            };
            let (high, low) = (at(0.6), at(0.2));
            let row = |(node, (least, size)): (&i64, &(i64, usize))| {
                let (other, others) = low[node];
                format!("{node} | {least} | {size} | {other} | {others}")
            };
            let expected: Vec<String> = high.iter().map(row).collect();
            assert_same_rows(&self.rows(&ctx, &sql).await, &expected, &what(&sql));

            let sql = format!(
                "SELECT node::BIGINT, representative::BIGINT, kept, score \
                 FROM representatives((SELECT x, y, s FROM p){order})"
            );
            let expected = representatives(&self.pairs, is_distance);
            let row = |(node, (of, score)): (&i64, &(i64, Option<f64>))| {
                let score = score.map_or(Cell::Null, Cell::Float);
                format!("{node} | {of} | {} | {}", node == of, line(&[score]))
            };
            let expected: Vec<String> = expected.iter().map(row).collect();
            assert_same_rows(&self.rows(&ctx, &sql).await, &expected, &what(&sql));

            let sql = format!(
                "SELECT \"left\"::BIGINT, \"right\"::BIGINT, score FROM one_to_one((SELECT * FROM p){order})"
            );
            let expected = one_to_one(&self.pairs, is_distance);
            let expected: Vec<String> = expected
                .iter()
                .map(|(l, r, s)| line(&[Cell::Int(*l), Cell::Int(*r), Cell::Float(*s)]))
                .collect();
            assert_same_rows(&self.rows(&ctx, &sql).await, &expected, &what(&sql));
        }
    }
}

/// The seeds of the cases of a test, and their number: `usual`, or what `SIMJOIN_TEST_CASES` says, from
/// `SIMJOIN_TEST_SEED` on.
pub(crate) fn seeds(usual: u64) -> (Range<u64>, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let cases = number("SIMJOIN_TEST_CASES").unwrap_or(usual);
    let first = number("SIMJOIN_TEST_SEED").unwrap_or(0);
    (first..first + cases, cases)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn random_pairs_give_the_results_of_oracles() {
    for seed in seeds(100).0 {
        Case::draw(&mut StdRng::seed_from_u64(seed)).check(seed).await;
    }
}

async fn documents() -> SessionContext {
    let ctx = Session::default().context();
    let sql = "CREATE TABLE doc AS SELECT column1 AS id, column2 AS toks, column3 AS name FROM VALUES \
               (1, [1,2,3,4], 'd'), (2, [1,2,3,4,5], 'c'), (3, [2,3,4,5,6], 'b'), (4, [7,8], 'a'), \
               (5, NULL, 'e'), (6, [7,8], 'f')";
    ctx.sql(sql).await.unwrap().collect().await.unwrap();
    ctx
}

const SIMILAR: &str = "SELECT a.id, b.id, jaccard(a.toks, b.toks) \
     FROM doc a LEFT SIMJOIN doc b ON jaccard(a.toks, b.toks) >= 0.6 AND a.id < b.id";

/// Similarity joins inside: by SIMJOIN and by a plain join, in subqueries, CTEs, views, unions and
/// prepared statements.
#[tokio::test]
async fn pairs_come_from_any_query() {
    let ctx = documents().await;
    let nodes = SIMILAR.replace(", jaccard(a.toks, b.toks) ", " ");
    let expected = ["1 | 1 | 3", "2 | 1 | 3", "3 | 1 | 3", "4 | 4 | 2", "5 | 5 | 1", "6 | 4 | 2"];
    let view = format!("CREATE VIEW similar AS {nodes}");
    plan(&ctx, &view.replace("b.id FROM", "b.id AS other FROM"))
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    let prepare = format!(
        "PREPARE find(DOUBLE) AS SELECT * FROM connected_components(({}))",
        nodes.replace("0.6", "$1")
    );
    plan(&ctx, &prepare).await.unwrap().collect().await.unwrap();
    let plain = nodes.replace("SIMJOIN", "JOIN");
    for sql in [
        format!("SELECT * FROM connected_components(({nodes})) ORDER BY node"),
        format!("SELECT * FROM connected_components(({plain})) ORDER BY node"),
        format!("SELECT c.* FROM CONNECTED_COMPONENTS((({nodes}))) AS c ORDER BY c.node"),
        format!("WITH p AS ({nodes}) SELECT * FROM connected_components(p) ORDER BY node"),
        "SELECT * FROM connected_components((SELECT * FROM similar)) ORDER BY node".to_string(),
        "SELECT n, c, s FROM connected_components((SELECT id, other FROM similar)) t(n, c, s) ORDER BY n"
            .to_string(),
        format!(
            "SELECT d.id, component, size FROM doc d JOIN connected_components(({nodes})) c \
             ON c.node = d.id ORDER BY 1"
        ),
        "EXECUTE find(0.6)".to_string(),
        "SELECT * FROM connected_components((SELECT 1, 2 UNION ALL SELECT 3, 2 UNION ALL SELECT 6, 4 \
         UNION ALL SELECT NULL, 5 UNION ALL SELECT NULL, NULL)) ORDER BY node"
            .to_string(),
    ] {
        let mut found = rows(&ctx, &sql).await;
        found.sort();
        assert_eq!(found, expected, "{sql}");
    }
    let count = "SELECT count(*) FROM doc WHERE id IN \
                 (SELECT node FROM representatives((SELECT id, other FROM similar)) WHERE kept)";
    assert_eq!(rows(&ctx, count).await, ["4"]);
}

/// A condition that differs from row to row holds for the rows of a function, not for its pairs.
#[tokio::test]
async fn volatile_conditions_filter_what_a_function_gives() {
    let ctx = Session::default().context();
    let chain = "SELECT value, value + 1 FROM generate_series(1, 20000)";
    let sizes =
        format!("SELECT DISTINCT size FROM connected_components(({chain})) WHERE random() < 0.5");
    assert_eq!(rows(&ctx, &sizes).await, ["20001"]);
    rows(&ctx, &format!("PREPARE p AS {sizes} AND $1")).await;
    assert_eq!(rows(&ctx, "EXECUTE p(true)").await, ["20001"]);
    assert_eq!(rows(&ctx, "EXECUTE p(false)").await, Vec::<String>::new());
    let kept = format!(
        "SELECT DISTINCT node % 2 FROM representatives(({chain})) WHERE random() < 0.5 AND kept"
    );
    assert_eq!(rows(&ctx, &kept).await, ["1"]);
    let explained = format!("EXPLAIN {sizes}");
    let shown = rows(&ctx, &explained).await.join("\n");
    let filter = shown.find("Filter: random()").expect("a filter");
    assert!(filter < shown.find("connected_components").expect("a function"), "{shown}");
}

/// A dropped row is similar to the row that stands for it: there are no chains.
#[tokio::test]
async fn representatives_are_similar_to_their_nodes() {
    let ctx = documents().await;
    let sql = format!(
        "SELECT node, representative, kept, CAST(score * 10 AS INT) \
         FROM representatives(({SIMILAR})) ORDER BY node"
    );
    let expected = [
        "1 | 1 | true | NULL",
        "2 | 1 | false | 8",
        "3 | 3 | true | NULL",
        "4 | 4 | true | NULL",
        "5 | 5 | true | NULL",
        "6 | 4 | false | 10",
    ];
    assert_eq!(rows(&ctx, &sql).await, expected);
    let by_name = "SELECT * FROM representatives((SELECT a.name, b.name FROM doc a LEFT SIMJOIN doc b \
                   ON jaccard(a.toks, b.toks) >= 0.6 AND a.name < b.name)) ORDER BY node";
    let expected = [
        "\"a\" | \"a\" | true",
        "\"b\" | \"b\" | true",
        "\"c\" | \"b\" | false",
        "\"d\" | \"d\" | true",
        "\"e\" | \"e\" | true",
        "\"f\" | \"a\" | false",
    ];
    assert_eq!(rows(&ctx, by_name).await, expected);
}

#[tokio::test]
async fn frames_have_the_functions() {
    let ctx = documents().await;
    let pairs = plan(&ctx, SIMILAR).await.unwrap();
    let order = ScoreOrder::Similarity;
    for (function, count) in [
        (PairFunction::ConnectedComponents { thresholds: vec![0.7, 0.9], order }, 6),
        (PairFunction::Representatives { order }, 6),
        (PairFunction::OneToOne { order }, 3),
    ] {
        let frame = pairs.clone().pair_function(function.clone()).unwrap();
        assert_eq!(frame.count().await.unwrap(), count, "{function}");
    }
    let stock = SessionContext::new().sql("SELECT 1, 2").await.unwrap();
    let error = stock.pair_function(PairFunction::Representatives { order }).unwrap_err();
    assert_contains(&error.to_string(), &["representatives", "install"]);
}

#[tokio::test]
async fn errors_say_what_would_work() {
    let ctx = documents().await;
    for (sql, parts) in [
        ("connected_components((SELECT id FROM doc))", ["two columns", "has 1"]),
        ("connected_components((SELECT id, id AS other, 0.5 FROM doc))", ["thresholds", "has 3"]),
        (
            "connected_components((SELECT id, id AS other FROM doc), [0.5])",
            ["three columns", "found 2"],
        ),
        (
            "connected_components((SELECT id, id AS other, 0.5 FROM doc), [0.5, 0.5])",
            ["0.5", "twice"],
        ),
        ("connected_components((SELECT id, id AS other, 0.5 FROM doc), ['x'])", ["numbers", "[x]"]),
        (
            "connected_components((SELECT id, id AS other, 0.5 FROM doc), [0.5], 'up')",
            ["'distance'", "'up'"],
        ),
        ("connected_components((SELECT id, toks FROM doc))", ["one type", "doc.toks is List"]),
        ("connected_components()", ["reads the pairs", "SELECT a.id"]),
        ("connected_components(7)", ["pairs of a query", "not of 7"]),
        ("connected_components(doc)", ["reads two columns", "has 3"]),
        ("connected_components(nosuch)", ["nosuch", "not found"]),
        ("representatives((SELECT id, id AS other, 1, 2 FROM doc))", ["the score", "has 4"]),
        ("representatives((SELECT id, id AS other FROM doc), 5)", ["takes no 5", "'distance'"]),
        ("one_to_one((SELECT id, id AS other FROM doc))", ["three columns", "b.id, score"]),
        ("one_to_one(pairs => (SELECT id, id AS other FROM doc))", ["no argument", "pairs"]),
    ] {
        let text = error(&ctx, &format!("SELECT * FROM {sql}")).await;
        assert_contains(&text, &parts);
    }
}

#[tokio::test]
async fn explain_shows_what_runs() {
    let ctx = documents().await;
    let explained = async |sql: String| rows(&ctx, &sql).await.join("\n");
    let text =
        explained(format!("EXPLAIN SELECT * FROM connected_components(({SIMILAR}), [0.7, 0.9])"))
            .await;
    assert_contains(
        &text,
        &[
            "connected_components: thresholds=[0.9, 0.7]",
            "ConnectedComponentsExec: merge=process, levels=2",
            "SetSimilarityJoinExec",
        ],
    );
    let text =
        explained(format!("EXPLAIN SELECT * FROM one_to_one(({SIMILAR}), 'distance')")).await;
    let sorted =
        "OneToOneExec: by=distance, sort=[score@2 ASC NULLS LAST, left@0 ASC, right@1 ASC]";
    assert_contains(&text, &["one_to_one: by=distance", sorted]);
    let analyzed =
        explained(format!("EXPLAIN ANALYZE SELECT * FROM representatives(({SIMILAR}))")).await;
    assert_contains(&analyzed, &["RepresentativesExec: by=similarity", "pairs=6"]);
}

/// Long paths, stars and many repeated pairs, of integers of every spread.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn large_graphs_are_united() {
    const NODES: i64 = 200_000;
    let mut rng = StdRng::seed_from_u64(9);
    for step in [1, 1_000_003, -20_000_000_000_007] {
        let ctx = Session { partitions: 3, ..Session::default() }.context();
        let mut path: Vec<(i64, i64)> = (1..NODES).map(|i| ((i - 1) * step, i * step)).collect();
        let star = (1..NODES).map(|i| ((NODES + 5) * step, (NODES + 5 + i) * step));
        path.extend(star);
        path.shuffle(&mut rng);
        let batch = |pairs: &[(i64, i64)]| {
            let column = |of: fn(&(i64, i64)) -> i64| -> ArrayRef {
                Arc::new(Int64Array::from_iter_values(pairs.iter().map(of)))
            };
            RecordBatch::try_from_iter([("x", column(|p| p.0)), ("y", column(|p| p.1))]).unwrap()
        };
        let mut partitions = vec![vec![]; 3];
        for (i, pairs) in path.chunks(8192).enumerate() {
            partitions[i % 3].push(batch(pairs));
        }
        register_partitions(&ctx, "p", partitions);
        let sql = "SELECT component, count(*), min(size), max(size), min(node) \
                   FROM connected_components((SELECT * FROM p)) GROUP BY component ORDER BY component";
        let mut least = [(NODES - 1) * step.min(0), (NODES + 5) * step];
        if step < 0 {
            least[1] = (NODES + 5 + NODES - 1) * step;
        }
        least.sort_unstable();
        let expected =
            least.map(|least| format!("{least} | {NODES} | {NODES} | {NODES} | {least}"));
        assert_eq!(rows(&ctx, sql).await, expected, "{step}");
    }
}

/// Where nodes do not fit, the query ends with an error that says how many there are.
#[tokio::test]
async fn nodes_beyond_memory_are_an_error() {
    let session = Session { memory: Some(4 << 20), ..Session::default() };
    for text in ["value * 1000003", "'node ' || value"] {
        let ctx = session.context();
        let query = format!("SELECT {text}, {text} AS other FROM generate_series(1, 1000000)");
        for function in ["connected_components", "representatives"] {
            let sql = format!("SELECT count(*) FROM {function}(({query}))");
            let text = error(&ctx, &sql).await;
            assert_contains(&text, &["Resources exhausted"]);
            if function == "connected_components" {
                assert_contains(&text, &["every distinct node", "raise the memory limit"]);
            }
        }
    }
}
