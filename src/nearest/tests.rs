//! Statements with NEAREST, held against DataFusion's window functions over nested loops.

mod at_once;
mod distinct;
mod pieces;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListBuilder, Float64Builder, Int32Builder, ListBuilder};
use arrow::array::{StringArray, UInt32Array};
use arrow::compute::take;
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::SimJoinContextExt;
use crate::config::{DistributionChoice, StrategyName};
use crate::emulator::gpu;
use crate::functions::all;
use crate::session::install;
use crate::tests::statements::{Setup, Way, error, oracle, pick, plan_and_rows, sorted, table};

/// A family's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Sets,
    Texts,
    Vectors,
}

/// Rows of a table, of which every third one has few different values.
pub(super) fn rows(rng: &mut StdRng, count: usize, kind: Kind) -> Result<Arc<MemTable>> {
    const FEW: usize = 5;
    let few = (rng.random_range(0..3) == 0).then(|| values(rng, FEW, kind));
    table(rng, count, "s", |rng, rows| match &few {
        None => Ok(values(rng, rows, kind)),
        Some(few) => {
            let places = (0..rows).map(|_| rng.random_range(0..FEW as u32));
            Ok(take(few, &UInt32Array::from_iter_values(places), None)?)
        }
    })
}

fn values(rng: &mut StdRng, rows: usize, kind: Kind) -> ArrayRef {
    match kind {
        Kind::Sets => {
            let mut lists = ListBuilder::new(Int32Builder::new());
            for _ in 0..rows {
                for _ in 0..rng.random_range(0..9) {
                    let token = rng.random_range(0..14);
                    lists.values().append_option((token > 0).then_some(token));
                }
                lists.append(rng.random_bool(0.95));
            }
            Arc::new(lists.finish())
        }
        Kind::Texts => {
            let text = |rng: &mut StdRng| -> String {
                (0..rng.random_range(0..9)).map(|_| rng.random_range('a'..'e')).collect()
            };
            let texts = (0..rows).map(|_| Some(text(rng)).filter(|_| rng.random_bool(0.95)));
            Arc::new(texts.collect::<StringArray>())
        }
        Kind::Vectors => {
            let mut vectors = FixedSizeListBuilder::new(Float64Builder::new(), 3);
            for _ in 0..rows {
                for _ in 0..3 {
                    let value = match rng.random_range(0..60) {
                        0 => f64::NAN,
                        3 => -f64::NAN,
                        1 => f64::INFINITY,
                        2 => 1e200,
                        _ => f64::from(rng.random_range(-3..4)),
                    };
                    vectors.values().append_value(value);
                }
                vectors.append(rng.random_bool(0.95));
            }
            Arc::new(vectors.finish())
        }
    }
}

/// A score, and whether it is a distance.
pub(super) fn score(rng: &mut StdRng, kind: Kind) -> (String, bool) {
    let names: &[(&str, bool)] = match kind {
        Kind::Sets => &[
            ("jaccard", false),
            ("dice", false),
            ("set_cosine", false),
            ("overlap", false),
            ("overlap_coefficient", false),
            ("containment", false),
        ],
        Kind::Texts => &[
            ("levenshtein", true),
            ("damerau_levenshtein", true),
            ("levenshtein_similarity", false),
            ("indel_similarity", false),
            ("jaro_similarity", false),
            ("jaro_winkler_similarity", false),
        ],
        Kind::Vectors => {
            &[("array_distance", true), ("inner_product", false), ("cosine_distance", true)]
        }
    };
    let (name, is_distance) = names[rng.random_range(0..names.len())];
    let arguments = pick(rng, &["a.s, b.s", "b.s, a.s"]);
    (format!("{name}({arguments})"), is_distance)
}

/// A session of DataFusion with the functions of this crate.
pub(super) fn nested_loops() -> SessionContext {
    let context = oracle();
    all().into_iter().for_each(|function| context.register_udf(function.as_ref().clone()));
    context
}

/// A statement with NEAREST and its parts.
#[derive(Debug)]
struct Drawn {
    right: String,
    count: usize,
    with_ties: bool,
    is_outer: bool,
    score: String,
    is_distance: bool,
    /// The score is one that no family knows.
    is_foreign: bool,
    zero_is_far: bool,
    condition: Option<String>,
    filter: String,
}

impl Drawn {
    fn new(rng: &mut StdRng, kind: Kind) -> Self {
        let (mut score, mut is_distance) = score(rng, kind);
        let is_foreign = rng.random_range(0..8) == 0;
        if is_foreign {
            score =
                pick(rng, &["abs(a.id - b.id) % 7", "a.id % 5 - b.id / 3.0", "b.id + 0 * a.id"]);
            is_distance = rng.random();
        }
        let bound = match (kind, is_distance) {
            (Kind::Sets, _) if score.starts_with("overlap(") => " >= 2".to_string(),
            (Kind::Vectors, false) => " > 1".to_string(),
            (Kind::Vectors, true) => " <= 2.5".to_string(),
            (_, false) => " >= 0.5".to_string(),
            (_, true) => " BETWEEN 1 AND 4".to_string(),
        };
        let by_score = format!("{score}{bound}");
        let condition = match rng.random_range(0..10) {
            0 => Some("a.k = b.k".to_string()),
            1 => Some("a.id <> b.id".to_string()),
            2 => Some("a.id < b.id AND a.k = b.k".to_string()),
            3 => Some("a.id % 3 <> 0 AND b.id % 4 <> 1".to_string()),
            4 => Some("a.k = 1 OR b.k = 2".to_string()),
            5 => Some(format!("{by_score} AND (a.id + b.id) % 3 <> 1")),
            6 => Some(by_score),
            7 => Some("a.id >= b.id".to_string()),
            8 => Some("a.k <> b.k".to_string()),
            _ => None,
        };
        Self {
            right: pick(rng, &["b", "b", "a b"]),
            count: [1, 2, 3, 10, 200][rng.random_range(0..5)],
            with_ties: rng.random(),
            is_outer: rng.random_range(0..3) == 0,
            zero_is_far: kind == Kind::Sets && !is_foreign,
            score,
            is_distance,
            is_foreign,
            condition,
            filter: pick(
                rng,
                &["", "", "", " WHERE b.k = 1", " WHERE a.id > 5", " WHERE b.k IS NULL"],
            ),
        }
    }

    fn sql(&self, insists: bool) -> String {
        let Self { right, count, score, filter, .. } = self;
        let outer = if self.is_outer { "LEFT " } else { "" };
        let join = if insists { "SIMJOIN" } else { "JOIN" };
        let count = if *count == 1 { String::new() } else { format!(" {count}") };
        let ties = if self.with_ties { " WITH TIES" } else { "" };
        let order = if self.is_distance { "DISTANCE" } else { "SIMILARITY" };
        let on = self.condition.as_ref().map_or(String::new(), |c| format!(" ON {c}"));
        format!(
            "SELECT a.id, {score}, b.id FROM a {outer}{join} {right} NEAREST{count}{ties} BY {order} \
             {score}{on}{filter}"
        )
    }

    /// The rows by a window function that ranks them.
    fn oracle(&self, rank: &str, columns: &str) -> String {
        self.oracle_where(rank, columns, &self.filter)
    }

    /// The rows by a window function, with another filter above the ranking.
    fn oracle_where(&self, rank: &str, columns: &str, filter: &str) -> String {
        let Self { right, count, score, .. } = self;
        let order = if self.is_distance { "" } else { " DESC" };
        let on = self.condition.as_deref().unwrap_or("true");
        let positive = if self.zero_is_far { format!(" AND {score} > 0") } else { String::new() };
        // Neither NULL nor NaN.
        let number = format!("{score} BETWEEN '-inf'::double AND 'inf'::double");
        let ranked = format!(
            "SELECT a.id AS x, b.id AS y, b.k AS k, {score} AS s, {rank}() OVER (PARTITION BY a.id ORDER BY \
             {score}{order}) AS r FROM a CROSS JOIN {right} WHERE {number}{positive} AND ({on})"
        );
        let outer = if self.is_outer { "LEFT " } else { "" };
        format!(
            "SELECT {columns} FROM a {outer}JOIN (SELECT * FROM ({ranked}) WHERE r <= {count}) b \
             ON a.id = b.x{filter}"
        )
    }
}

pub(super) async fn rows_of(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    Ok(sorted(&context.sql(sql).await?.collect().await?))
}

/// The rows without their last column.
fn without_partner(rows: &[String]) -> Vec<String> {
    let mut rows: Vec<String> =
        rows.iter().map(|row| row.rsplit_once(" | ").unwrap().0.to_string()).collect();
    rows.sort_unstable();
    rows
}

/// Compares a statement with the oracle.
async fn compare(rng: &mut StdRng, way: Way, kind: Kind, sizes: [usize; 2]) -> Result<usize> {
    let drawn = Drawn::new(rng, kind);
    let oracle = nested_loops();
    let mut setup = Setup::draw(rng, way);
    // Otherwise vectors are found at once, mostly.
    if drawn.score.contains("_distance") && rng.random() {
        setup.options.strategy = StrategyName::new("nested-loop");
    }
    let operator = setup.session(install)?;
    for (name, size) in ["a", "b"].into_iter().zip(sizes) {
        let table = rows(rng, size, kind)?;
        oracle.register_table(name, Arc::clone(&table) as _)?;
        operator.register_table(name, table)?;
    }
    let insists = !drawn.is_foreign && rng.random();
    let (_, found) = answer(&drawn, &drawn.filter, insists, [&oracle, &operator], way).await?;
    Ok(found)
}

/// The plan of a statement, and the number of its rows, which are held against those of the oracle. `filter`
/// stands for the filter of the statement there.
async fn answer(
    drawn: &Drawn,
    filter: &str,
    insists: bool,
    [oracle, operator]: [&SessionContext; 2],
    way: Way,
) -> Result<(Arc<dyn ExecutionPlan>, usize)> {
    let sql = drawn.sql(insists);
    let ran = operator.simjoin_sql(&sql).await?.create_physical_plan().await?;
    let batches = datafusion::physical_plan::collect(Arc::clone(&ran), operator.task_ctx()).await?;
    let (plan, found) = (displayable(ran.as_ref()).indent(true).to_string(), sorted(&batches));
    assert!(plan.contains("NearestJoinExec"), "{plan}");
    assert_eq!(plan.contains("search=all pairs"), drawn.is_foreign, "{plan}");
    let tied = rows_of(oracle, &drawn.oracle_where("rank", "a.id, b.s, b.y", filter)).await?;
    if drawn.with_ties {
        assert_eq!(found, tied, "{way:?} {sql}\n{plan}");
        return Ok((ran, found.len()));
    }
    let all: BTreeSet<&String> = tied.iter().collect();
    let distinct: BTreeSet<&String> = found.iter().collect();
    assert!(distinct.is_subset(&all), "{way:?} {sql}\n{plan}\n{found:?}\n{tied:?}");
    // A condition on the partners above the ranking sees one of several equal choices.
    if filter.contains("b.k") {
        return Ok((ran, found.len()));
    }
    assert_eq!(distinct.len(), found.len(), "{sql}");
    let expected = rows_of(oracle, &drawn.oracle_where("row_number", "a.id, b.s", filter)).await?;
    assert_eq!(without_partner(&found), expected, "{way:?} {sql}\n{plan}");
    Ok((ran, found.len()))
}

/// The source of the statements of a test: other ones for each number that the environment names.
pub(super) fn source(seed: u64) -> StdRng {
    let other = std::env::var("SIMJOIN_TEST_SEED").ok().and_then(|v| v.parse::<u64>().ok());
    StdRng::seed_from_u64(seed + other.unwrap_or(0) * 1000)
}

/// How many statements a test draws: `usual`, or as many as the environment asks for.
pub(super) fn rounds(usual: usize) -> usize {
    let cases = std::env::var("SIMJOIN_TEST_CASES").ok().and_then(|v| v.parse::<usize>().ok());
    cases.map_or(usual, |cases| usual / 8 * cases)
}

const WAYS: [Way; 4] =
    [Way::Memory, Way::Disk, Way::Limit(1 << 12), Way::Tasks(DistributionChoice::Repartition)];

async fn compare_many(kind: Kind, seed: u64) -> Result<()> {
    let mut rng = source(seed);
    let mut with_rows = 0;
    let count = rounds(48);
    for round in 0..count {
        let sizes = [rng.random_range(0..90), rng.random_range(0..60)];
        with_rows += usize::from(compare(&mut rng, WAYS[round % 4], kind, sizes).await? > 0);
    }
    assert!(with_rows > count / 2, "{with_rows} of {count}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_have_the_neighbours_of_a_nested_loop() -> Result<()> {
    compare_many(Kind::Sets, 1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_have_the_neighbours_of_a_nested_loop() -> Result<()> {
    compare_many(Kind::Texts, 2).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_have_the_neighbours_of_a_nested_loop() -> Result<()> {
    compare_many(Kind::Vectors, 3).await
}

/// A device gives them, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_finds_the_neighbours_of_a_nested_loop() -> Result<()> {
    if gpu().is_none() {
        return Ok(());
    }
    let mut rng = source(4);
    let mut with_rows = 0;
    let count = rounds(24);
    for round in 0..count {
        let kind = [Kind::Sets, Kind::Texts, Kind::Vectors][round % 3];
        let sizes = [rng.random_range(0..90), rng.random_range(0..60)];
        with_rows += usize::from(compare(&mut rng, Way::Device, kind, sizes).await? > 0);
    }
    assert!(with_rows > count / 2, "{with_rows} of {count}");
    Ok(())
}

#[tokio::test]
async fn a_clause_that_cannot_run_says_why() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    context
        .sql("CREATE TABLE t AS VALUES (1, [1, 2], 'x'), (2, [2], 'y')")
        .await?
        .collect()
        .await?;
    for (clause, expected) in [
        ("SIMJOIN t b NEAREST 0 BY SIMILARITY jaccard(a.column2, b.column2)", "positive number"),
        ("SIMJOIN t b NEAREST -1 BY SIMILARITY jaccard(a.column2, b.column2)", "positive number"),
        ("SIMJOIN t b NEAREST 2.5 BY SIMILARITY jaccard(a.column2, b.column2)", "positive number"),
        ("SIMJOIN t b NEAREST BY jaccard(a.column2, b.column2)", "DISTANCE or SIMILARITY"),
        ("SIMJOIN t b NEAREST 3 ON true", "needs BY"),
        ("SIMJOIN t b NEAREST BY DISTANCE jaccard(a.column2, b.column2)", "write BY SIMILARITY"),
        (
            "SIMJOIN t b NEAREST BY SIMILARITY levenshtein(a.column3, b.column3)",
            "write BY DISTANCE",
        ),
        ("SIMJOIN t b NEAREST BY DISTANCE abs(a.column1 - b.column1)", "compares every pair"),
        ("SIMJOIN t b NEAREST BY SIMILARITY 1 - jaccard(a.column2, b.column2)", "no bound follows"),
        (
            "SIMJOIN t b NEAREST BY SIMILARITY jaccard(a.column2, b.column2) / a.column1",
            "no bound follows",
        ),
        (
            "SIMJOIN t b NEAREST BY DISTANCE round(jaccard(a.column2, b.column2))",
            "no bound follows",
        ),
        ("RIGHT SIMJOIN t b NEAREST BY DISTANCE levenshtein(a.column3, b.column3)", "exchange"),
        ("FULL JOIN t b NEAREST BY DISTANCE levenshtein(a.column3, b.column3)", "exchange"),
        ("JOIN t b NEAREST BY DISTANCE a.column3", "cast it"),
    ] {
        let message = error(&context, &format!("SELECT a.column1 FROM t a {clause}")).await;
        assert!(message.contains(expected), "{clause}\n{message}");
    }
    Ok(())
}

/// A table of rows enough for several rounds, with neighbours near and far.
pub(super) async fn many(context: &SessionContext) -> Result<()> {
    let sql = "CREATE TABLE t AS SELECT value AS id, \
               left(md5(CAST(value AS VARCHAR)), CAST(2 + value % 9 AS INT)) AS s, \
               [sin(value), cos(value * value), CASE WHEN value % 40 = 0 THEN value ELSE value % 50 / 9.0 END] \
               AS v FROM generate_series(1, 400)";
    context.sql(sql).await?.collect().await?;
    Ok(())
}

/// A limit gives rows of the answer, and the neighbours of few left rows are looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_finds_the_neighbours_of_few_rows() -> Result<()> {
    for (by, way) in [
        ("SIMILARITY jaccard(qgrams(a.s, 2), qgrams(b.s, 2))", Way::Memory),
        ("DISTANCE levenshtein(a.s, b.s) ON a.id <> b.id", Way::Disk),
        ("DISTANCE array_distance(a.v, b.v)", Way::Tasks(DistributionChoice::Repartition)),
        ("DISTANCE array_distance(a.v, b.v)", Way::Limit(1 << 12)),
    ] {
        let context = Setup::of(way).session(install)?;
        many(&context).await?;
        let kinds = if way == Way::Memory { &["", "LEFT"][..] } else { &["LEFT"] };
        for kind in kinds {
            let sql = format!("SELECT a.id, b.id FROM t a {kind} SIMJOIN t b NEAREST 3 BY {by}");
            let (_, all) = plan_and_rows(&context, &sql).await?;
            for (limit, rest) in [(7, ""), (100, " OFFSET 5"), (5000, "")] {
                let sql = format!("{sql} LIMIT {limit}{rest}");
                let (plan, rows) = plan_and_rows(&context, &sql).await?;
                let skipped = if rest.is_empty() { 0 } else { 5 };
                assert_eq!(rows.len(), limit.min(all.len() - skipped), "{sql}\n{plan}");
                // Any of rows in a tie are neighbours: left rows tell.
                let lefts = |rows: &[String]| -> Vec<String> {
                    rows.iter().map(|row| row.split(' ').next().unwrap_or("").to_string()).collect()
                };
                let (lefts, all) = (lefts(&rows), lefts(&all));
                for left in &lefts {
                    let count = |rows: &[String]| rows.iter().filter(|row| *row == left).count();
                    assert!(count(&lefts) <= count(&all), "{sql}\n{plan}");
                }
                assert!(plan.contains(&format!(", fetch={}", limit + skipped)), "{plan}");
            }
            let sql = format!("EXPLAIN ANALYZE {sql} LIMIT 7");
            let (_, plan) = plan_and_rows(&context, &sql).await?;
            assert!(!plan.join("").contains(" of 400 rows"), "{plan:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_far_from_others_are_found_in_later_rounds() -> Result<()> {
    for (order, score, strategy) in [
        ("SIMILARITY", "jaccard(qgrams(a.s, 2), qgrams(b.s, 2))", StrategyName::new("allpairs")),
        ("DISTANCE", "levenshtein(a.s, b.s)", StrategyName::AUTO),
        ("DISTANCE", "array_distance(a.v, b.v)", StrategyName::new("nested-loop")),
    ] {
        let mut setup = Setup::of(Way::Memory);
        // Otherwise sets and vectors are found at once.
        setup.options.strategy = strategy;
        let context = setup.session(install)?;
        many(&context).await?;
        let sql = format!(
            "SELECT a.id, {score} FROM t a SIMJOIN t b NEAREST 4 BY {order} {score} ON a.id <> b.id"
        );
        let plan = context.simjoin_sql(&sql).await?.create_physical_plan().await?;
        let batches =
            datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await?;
        let plan = displayable(plan.as_ref()).indent(true).to_string();
        let rounds = plan.split("rounds=[").nth(1).and_then(|rest| rest.split(']').next());
        let rounds: Vec<&str> = rounds.unwrap().split("; ").collect();
        assert!(rounds.len() > 1 && rounds[0].contains(" of 400 rows"), "{plan}");
        let (rank, positive) = match order {
            "DISTANCE" => ("", "true".to_string()),
            _ => (" DESC", format!("{score} > 0")),
        };
        let ranked = format!(
            "SELECT x, s FROM (SELECT a.id AS x, {score} AS s, row_number() OVER (PARTITION BY a.id ORDER BY \
             {score}{rank}) AS r FROM t a JOIN t b ON a.id <> b.id WHERE {positive}) WHERE r <= 4"
        );
        let loops = nested_loops();
        many(&loops).await?;
        assert_eq!(sorted(&batches), rows_of(&loops, &ranked).await?, "{plan}");
    }
    Ok(())
}

/// A memory limit in which the neighbours of all left rows do not fit at once.
#[tokio::test]
async fn left_rows_are_searched_for_a_part_at_a_time() -> Result<()> {
    // Which of the rows in a tie stay is not specified.
    let sql = "SELECT a.id, levenshtein(a.s, b.s) FROM t a SIMJOIN t b NEAREST 100 BY DISTANCE \
               levenshtein(a.s, b.s) ON a.id <> b.id";
    let mut answers = vec![];
    for way in [Way::Memory, Way::Limit(1 << 10)] {
        let context = Setup::of(way).session(install)?;
        many(&context).await?;
        let (_, rows) = plan_and_rows(&context, sql).await?;
        answers.push(rows);
    }
    assert_eq!(answers[0].len(), 40_000);
    assert_eq!(answers[0], answers[1]);
    Ok(())
}

/// Conditions above the ranking: the optimizer moves that of left rows below it, and no other.
#[tokio::test]
async fn conditions_of_left_rows_move_below_the_ranking() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    many(&context).await?;
    let from = "FROM t a LEFT JOIN t b NEAREST 2 BY DISTANCE levenshtein(a.s, b.s) ON a.id <> b.id";
    for (columns, filter, moved) in [
        ("x.i, x.j", "x.i < 9", true),
        ("x.j", "x.i IN (3, 5) AND x.j > 100", true),
        ("x.i", "x.j IS NULL OR x.j < 50", false),
    ] {
        let sql =
            format!("SELECT {columns} FROM (SELECT a.id AS i, b.id AS j {from}) x WHERE {filter}");
        let (plan, found) = plan_and_rows(&context, &sql).await?;
        let below = plan.split("NearestJoinExec").nth(1).unwrap();
        assert_eq!(below.matches("FilterExec").count(), usize::from(moved), "{plan}");
        context.sql("DROP TABLE IF EXISTS n").await?.collect().await?;
        let kept = format!("CREATE TABLE n AS SELECT a.id AS i, b.id AS j {from}");
        context.simjoin_sql(&kept).await?.collect().await?;
        let (_, expected) =
            plan_and_rows(&context, &format!("SELECT {columns} FROM n x WHERE {filter}")).await?;
        assert_eq!(found, expected, "{plan}");
    }
    Ok(())
}

/// A threshold that no pair reaches ends the search.
#[tokio::test]
async fn a_threshold_that_no_pair_reaches_leaves_no_neighbour() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    many(&context).await?;
    for (on, expected) in [("> 80", 0), (">= 1", 400), (">= NULL", 0)] {
        let sql = format!(
            "SELECT a.id FROM t a SIMJOIN t b NEAREST 3 BY SIMILARITY levenshtein_similarity(a.s, b.s) \
             ON levenshtein_similarity(a.s, b.s) {on}"
        );
        let (plan, rows) = plan_and_rows(&context, &sql).await?;
        assert!(
            rows.len() >= expected && (expected > 0) != rows.is_empty(),
            "{} {plan}",
            rows.len()
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_number_of_rows_may_be_a_parameter() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    many(&context).await?;
    let sql = "SELECT a.id FROM t a SIMJOIN t b NEAREST $1 BY DISTANCE levenshtein(a.s, b.s)";
    let statement = context.simjoin_sql(sql).await?;
    let five = statement.clone().with_param_values(vec![ScalarValue::Int64(Some(5))])?;
    assert_eq!(five.count().await?, 2000);
    let none = statement.with_param_values(vec![ScalarValue::Int64(Some(0))])?.collect().await;
    assert!(none.unwrap_err().to_string().contains("positive number"));
    Ok(())
}

/// A strategy that cannot serve the last round is refused when the statement is planned.
#[tokio::test]
async fn a_strategy_for_few_edits_finds_no_nearest_rows() -> Result<()> {
    let mut setup = Setup::of(Way::Memory);
    setup.options.strategy = StrategyName::new("deletions");
    let context = setup.session(install)?;
    many(&context).await?;
    let sql = |on| {
        format!(
            "SELECT a.id FROM t a SIMJOIN t b NEAREST BY DISTANCE levenshtein(a.s, b.s) ON a.id <> b.id{on}"
        )
    };
    let planned = context.simjoin_sql(&sql("")).await?.create_physical_plan().await;
    assert!(planned.unwrap_err().to_string().contains("deletions"));
    let (_, rows) = plan_and_rows(&context, &sql(" AND levenshtein(a.s, b.s) <= 2")).await?;
    assert!(!rows.is_empty());
    Ok(())
}
