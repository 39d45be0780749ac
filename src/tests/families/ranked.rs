//! Nearest rows by scores of several functions, drawn at random and held against a window function over all pairs.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::draw::{Kind, rounds, seed, text};
use super::several::{Draw, nested_loops, table};
use crate::session::install;
use crate::tests::statements::{Setup, Way, pick, plan_and_rows, sorted};

/// A statement with nearest rows, and what a window function gives for it.
struct Drawn {
    sql: String,
    with_ties: bool,
    /// All candidates: the two ids and the score.
    pairs: String,
    /// The rows with all ties, and with as many rows as are asked for.
    oracles: [String; 2],
}

impl Drawn {
    fn new(rng: &mut StdRng, with_vectors: bool, insists: bool) -> Self {
        let depth = rng.random_range(1..=2);
        let mut draw = Draw { rng, with_vectors };
        let (score, is_distance) = match draw.rng.random_range(0..8) {
            0 => ("levenshtein(a.s, b.s) + levenshtein(a.t, b.t)".to_string(), true),
            1 => (
                "0.5 * levenshtein(a.s, b.s) + CASE WHEN a.k = b.k THEN 0 ELSE 2 END".to_string(),
                true,
            ),
            2 => (format!("1 - {}", draw.number(depth)), true),
            3 => (format!("-10 * {} + 5", draw.number(depth)), true),
            _ => (draw.number(depth), false),
        };
        let condition = match draw.rng.random_range(0..8) {
            0 => "a.k = b.k".to_string(),
            1 => "a.id <> b.id".to_string(),
            2 => draw.condition(0),
            3 => draw.condition(1),
            4 if !is_distance => format!("({score}) >= {} AND a.id <> b.id", draw.level()),
            5 => "a.id % 3 <> 0 AND b.k = 1".to_string(),
            _ => "true".to_string(),
        };
        let right = pick(rng, &["b", "b", "a b"]);
        let count = [1, 1, 2, 5, 50][rng.random_range(0..5)];
        let (with_ties, is_outer) = (rng.random(), rng.random_range(0..3) == 0);
        let outer = if is_outer { "LEFT " } else { "" };
        let join = if insists { "SIMJOIN" } else { "JOIN" };
        let ties = if with_ties { " WITH TIES" } else { "" };
        let order = if is_distance { "DISTANCE" } else { "SIMILARITY" };
        // SIMJOIN takes NaN as NULL in scores, not in conditions.
        let ranked = if insists { without_nan(&score) } else { score.clone() };
        let sql = format!(
            "SELECT a.id, CASE WHEN b.id IS NOT NULL THEN {ranked} END, b.id FROM a {outer}{join} {right} \
             NEAREST {count}{ties} BY {order} {score} ON {condition}"
        );
        let descending = if is_distance { "" } else { " DESC" };
        let pairs = format!(
            "SELECT a.id AS x, b.id AS y, {ranked} AS s FROM a CROSS JOIN {right} WHERE {ranked} BETWEEN \
             '-inf'::double AND 'inf'::double AND ({condition})"
        );
        let oracle = |rank: &str, columns: &str| {
            let pairs = format!(
                "SELECT *, {rank}() OVER (PARTITION BY x ORDER BY s{descending}) AS r FROM pairs"
            );
            format!(
                "SELECT {columns} FROM a {outer}JOIN (SELECT * FROM ({pairs}) WHERE r <= {count}) b \
                 ON a.id = b.x"
            )
        };
        let oracles = [oracle("rank", "a.id, b.s, b.y"), oracle("row_number", "a.id, b.s")];
        Self { sql, with_ties, pairs, oracles }
    }
}

fn without_nan(score: &str) -> String {
    let distance = "cosine_distance(a.v, b.v)";
    let number = format!("CASE WHEN {distance} BETWEEN -1e300 AND 1e300 THEN {distance} END");
    score.replace(distance, &number)
}

/// The rows without their last column, sorted.
fn without_partner(rows: &[String]) -> Vec<String> {
    let mut rows: Vec<String> =
        rows.iter().map(|row| row.rsplit_once(" | ").unwrap().0.to_string()).collect();
    rows.sort_unstable();
    rows
}

/// The statements of a test.
#[derive(Debug, Default)]
struct Counts {
    with_rows: usize,
    /// Statements by rounds.
    searched: usize,
    /// Statements by SIMJOIN, and those that it does not run.
    insisted: usize,
    refused: usize,
}

async fn compare(rng: &mut StdRng, counts: &mut Counts, with_vectors: bool) -> Result<()> {
    let ways = Way::all(4_000);
    let bases: Vec<String> = (0..6).map(|_| text(rng, Kind::Words)).collect();
    let tables = [table(rng, 40, &bases)?, table(rng, 30, &bases)?];
    let insists = rng.random();
    let Drawn { sql, with_ties, pairs, oracles } = Drawn::new(rng, with_vectors, insists);
    let way = ways[rng.random_range(0..ways.len())];
    let (oracle, operator) = (nested_loops(), Setup::draw(rng, way).session(install)?);
    for (name, table) in ["a", "b"].into_iter().zip(tables) {
        oracle.register_table(name, Arc::clone(&table) as _)?;
        operator.register_table(name, table)?;
    }
    let (plan, found) = match plan_and_rows(&operator, &sql).await {
        Err(error) if insists && error.to_string().contains("SIMJOIN") => {
            counts.refused += 1;
            return Ok(());
        }
        found => found?,
    };
    // DataFusion's check of plans refuses to sort the pairs of a join by such a score.
    let pairs = oracle.sql(&pairs).await?;
    let schema = Arc::clone(pairs.schema().inner());
    let pairs = pairs.collect().await?;
    // The optimizer may find that a column is never NULL.
    let schema = pairs.first().map_or(schema, RecordBatch::schema);
    let pairs = MemTable::try_new(schema, vec![pairs])?;
    oracle.register_table("pairs", Arc::new(pairs))?;
    let rows = async |sql: &str| -> Result<Vec<String>> {
        Ok(sorted(&oracle.sql(sql).await?.collect().await?))
    };
    let tied = rows(&oracles[0]).await?;
    if with_ties {
        assert_eq!(found, tied, "{way:?}\n{sql}\n{plan}");
    } else {
        let distinct: BTreeSet<&String> = found.iter().collect();
        let all: BTreeSet<&String> = tied.iter().collect();
        assert!(distinct.is_subset(&all), "{way:?}\n{sql}\n{plan}\n{found:?}\n{tied:?}");
        assert_eq!(distinct.len(), found.len(), "{sql}");
        assert_eq!(without_partner(&found), rows(&oracles[1]).await?, "{way:?}\n{sql}\n{plan}");
    }
    counts.insisted += usize::from(insists);
    counts.searched += usize::from(!plan.contains("search=all pairs"));
    counts.with_rows += usize::from(!found.is_empty());
    Ok(())
}

/// Scores of several functions rank as a window function over all pairs does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_of_several_functions_have_the_neighbours_of_a_nested_loop() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(83));
    let mut counts = Counts::default();
    for _ in 0..rounds(160) {
        compare(&mut rng, &mut counts, false).await?;
    }
    assert!(counts.with_rows > 100 && counts.searched > 80, "{counts:?}");
    assert!(counts.insisted > 40 && counts.refused < counts.insisted, "{counts:?}");
    Ok(())
}

/// Distances of vectors that are NaN rank nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_with_vectors_have_the_neighbours_of_a_nested_loop() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(84));
    let mut counts = Counts::default();
    for _ in 0..rounds(80) {
        compare(&mut rng, &mut counts, true).await?;
    }
    assert!(counts.with_rows > 50 && counts.searched > 30, "{counts:?}");
    assert!(counts.insisted > 20 && counts.refused < counts.insisted, "{counts:?}");
    Ok(())
}
