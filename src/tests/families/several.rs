//! Conditions of several similarities, drawn at random and held against DataFusion's nested loops.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, Int64Array, ListBuilder, RecordBatch, StringArray};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::draw::{Kind, edited, rounds, seed, text};
use crate::functions::all;
use crate::session::install;
use crate::tests::statements::{Setup, Way, oracle, pick, plan_and_rows, sorted};

/// A session of DataFusion with the functions of this crate.
pub(super) fn nested_loops() -> SessionContext {
    let context = oracle();
    all().into_iter().for_each(|function| context.register_udf(function.as_ref().clone()));
    context
}

/// Rows of (id, s, t, k, v): two texts, a key and a vector, each NULL at times and alike at times.
pub(super) fn table(rng: &mut StdRng, rows: usize, bases: &[String]) -> Result<Arc<MemTable>> {
    let mut texts = || -> StringArray {
        (0..rows)
            .map(|_| {
                let base = &bases[rng.random_range(0..bases.len())];
                let edits = [0, 0, 1, 1, 2, 4][rng.random_range(0..6)];
                rng.random_bool(0.9).then(|| edited(rng, Kind::Words, base, edits))
            })
            .collect()
    };
    let (s, t) = (texts(), texts());
    let ids = Int64Array::from_iter_values(0..rows as i64);
    let keys: Int64Array =
        (0..rows).map(|_| rng.random_bool(0.8).then(|| rng.random_range(0..4))).collect();
    let mut vectors = ListBuilder::new(Float64Builder::new());
    for _ in 0..rows {
        let special = rng.random_range(0..20);
        let number = |rng: &mut StdRng| match special {
            0 => f64::NAN,
            1 => -f64::NAN,
            2 => 0.0,
            _ => f64::from(rng.random_range(-2..3)),
        };
        let vector = [number(rng), number(rng)];
        vectors.values().append_slice(&vector);
        vectors.append(special != 3);
    }
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(ids) as ArrayRef, false),
        ("s", Arc::new(s) as _, true),
        ("t", Arc::new(t) as _, true),
        ("k", Arc::new(keys) as _, true),
        ("v", Arc::new(vectors.finish()) as _, true),
    ])?;
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

/// A condition drawn at random, of some depth.
pub(super) struct Draw<'a> {
    pub rng: &'a mut StdRng,
    /// Whether vectors, whose distances may be NaN, take part.
    pub with_vectors: bool,
}

impl Draw<'_> {
    fn pick(&mut self, all: &[&str]) -> String {
        pick(self.rng, all)
    }

    /// A similarity from 0 to 1.
    fn measure(&mut self) -> String {
        let column = self.pick(&["s", "t"]);
        let kind = self.rng.random_range(0..if self.with_vectors { 9 } else { 7 });
        match kind {
            0 | 1 => format!("jaccard(qgrams(a.{column}, 2), qgrams(b.{column}, 2))"),
            2 => format!("levenshtein_similarity(b.{column}, a.{column})"),
            3 => format!("jaro_winkler_similarity(a.{column}, b.{column})"),
            4 => format!("(1 - levenshtein(a.{column}, b.{column}) / 6.0)"),
            5 => format!("1.0 / (1 + levenshtein(a.{column}, b.{column}))"),
            6 => format!("indel_similarity(a.{column}, b.{column})"),
            7 => "(1 - cosine_distance(a.v, b.v))".to_string(),
            _ => "cosine_similarity(b.v, a.v)".to_string(),
        }
    }

    pub(super) fn level(&mut self) -> String {
        self.pick(&["0.25", "0.5", "2.0 / 3", "0.75", "0.8", "0.9", "1"])
    }

    pub(super) fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.measure();
        }
        let mut part = || self.number(depth - 1);
        let (one, other) = (part(), part());
        match self.rng.random_range(0..14) {
            12 => format!(
                "0.4 * coalesce({one}, 0.0) + 0.4 * coalesce({other}, 0.0) + CASE WHEN a.k = b.k THEN \
                 0.2 ELSE 0.0 END"
            ),
            13 => format!("coalesce(nullif({one}, 1), {})", self.level()),
            0 | 1 => format!("(0.6 * {one} + {other} * 0.4)"),
            2 => format!("({one} + {other}) / 2"),
            3 => format!("greatest({one}, {other})"),
            4 => format!("least({one}, {other})"),
            5 => format!("coalesce({one}, {})", self.level()),
            6 => format!("round({one}, 1)"),
            7 => format!("({one} * {other})"),
            8 => {
                let condition = self.condition(0);
                format!("({one} * 0.7 + CASE WHEN {condition} THEN 0.3 ELSE 0 END)")
            }
            9 => format!(
                "CASE WHEN a.s IS NULL OR b.s IS NULL THEN 0.4 WHEN {} THEN 1.0 WHEN {} THEN 0.6 ELSE \
                 {} END",
                self.condition(0),
                self.condition(0),
                self.pick(&["0.0", "-0.5", "0.3"]),
            ),
            10 => format!("({one} - 0.2 * (1 - {other}))"),
            _ => format!("CAST({one} AS REAL)"),
        }
    }

    pub(super) fn condition(&mut self, depth: usize) -> String {
        let level = self.level();
        if depth == 0 {
            return match self.rng.random_range(0..6) {
                0 => "a.k = b.k".to_string(),
                1 => format!("NOT ({} < {level})", self.measure()),
                2 => format!("CASE WHEN {} >= {level} THEN 1 ELSE 0 END = 1", self.measure()),
                _ => format!("{} >= {level}", self.measure()),
            };
        }
        match self.rng.random_range(0..6) {
            0 | 1 => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
            2 => format!("({} AND {})", self.condition(depth - 1), self.condition(depth - 1)),
            3 => format!("({}) IS TRUE", self.condition(depth - 1)),
            _ => {
                let depth = self.rng.random_range(1..=2);
                let op = self.pick(&[">=", ">"]);
                format!("{} {op} {level}", self.number(depth))
            }
        }
    }
}

/// A statement of a condition of two sides.
fn statement(rng: &mut StdRng, condition: &str) -> String {
    let more = pick(rng, &["", "", "", " AND a.k = b.k", " AND a.id < b.id"]);
    let on = format!("{} ON {condition}{more}", pick(rng, &["b", "b", "a b"]));
    let outer = pick(rng, &["", "", "LEFT ", "RIGHT ", "FULL "]);
    match rng.random_range(0..7) {
        0 => format!("SELECT a.id, a.s FROM a LEFT {} JOIN {on}", pick(rng, &["SEMI", "ANTI"])),
        1 => format!("SELECT b.id, b.s FROM a RIGHT {} JOIN {on}", pick(rng, &["SEMI", "ANTI"])),
        2 => format!("SELECT count(*), count(a.s), count(b.t) FROM a {outer}JOIN {on}"),
        3 => format!("SELECT count(*), count(b.id) FROM a {outer}JOIN {on}"),
        4 => format!("SELECT b.k, count(*), count(a.id) FROM a {outer}JOIN {on} GROUP BY b.k"),
        _ => format!("SELECT a.id, b.id, a.t, b.s FROM a {outer}JOIN {on}"),
    }
}

/// The statements of a test: those that the operator ran, with rows, and by several joins.
#[derive(Debug, Default)]
struct Counts {
    run: usize,
    with_rows: usize,
    unions: usize,
    /// Statements by SIMJOIN, and those that it does not run.
    insisted: usize,
    refused: usize,
}

async fn compare(rng: &mut StdRng, counts: &mut Counts, with_vectors: bool) -> Result<()> {
    // Alternatives are joins of their own, which run at the same time.
    let ways = Way::all(32_000);
    let bases: Vec<String> = (0..6).map(|_| text(rng, Kind::Words)).collect();
    let tables = [table(rng, 40, &bases)?, table(rng, 30, &bases)?];
    let condition = Draw { rng, with_vectors }.condition(2);
    let sql = statement(rng, &condition);
    let way = ways[rng.random_range(0..ways.len())];
    let (oracle, operator) = (nested_loops(), Setup::draw(rng, way).session(install)?);
    for (name, table) in ["a", "b"].into_iter().zip(tables) {
        oracle.register_table(name, Arc::clone(&table) as _)?;
        operator.register_table(name, table)?;
    }
    let (insists, mut of_oracle) = (rng.random(), sql.clone());
    let sql = if insists { sql.replace(" JOIN ", " SIMJOIN ") } else { sql };
    if insists {
        // SIMJOIN takes NaN as NULL.
        let distance = "cosine_distance(a.v, b.v)";
        let number = format!("CASE WHEN {distance} BETWEEN -1e300 AND 1e300 THEN {distance} END");
        of_oracle = of_oracle.replace(distance, &number);
    }
    let (plan, found) = match plan_and_rows(&operator, &sql).await {
        Err(error) if insists && error.to_string().contains("SIMJOIN") => {
            counts.refused += 1;
            return Ok(());
        }
        found => found?,
    };
    let expected = sorted(&oracle.sql(&of_oracle).await?.collect().await?);
    assert_eq!(found, expected, "{way:?}\n{sql}\n{plan}");
    let joins = plan.matches("SetSimilarityJoinExec").count();
    counts.insisted += usize::from(insists && joins > 0);
    counts.run += usize::from(joins > 0);
    counts.with_rows += usize::from(joins > 0 && !expected.is_empty());
    counts.unions += usize::from(joins > 1);
    Ok(())
}

/// Conditions of several similarities and equalities give the rows of a nested loop, in joins of every type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_several_parts_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(81));
    let mut counts = Counts::default();
    for _ in 0..rounds(200) {
        compare(&mut rng, &mut counts, false).await?;
    }
    assert!(counts.run > 120 && counts.with_rows > 100 && counts.unions > 40, "{counts:?}");
    assert!(counts.insisted > 50 && counts.refused < counts.insisted, "{counts:?}");
    Ok(())
}

/// Distances that are NaN compare as DataFusion compares them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_with_vectors_join_as_a_nested_loop_does() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(82));
    let mut counts = Counts::default();
    for _ in 0..rounds(100) {
        compare(&mut rng, &mut counts, true).await?;
    }
    assert!(counts.run > 50 && counts.with_rows > 40 && counts.unions > 10, "{counts:?}");
    assert!(counts.insisted > 25 && counts.refused < counts.insisted, "{counts:?}");
    Ok(())
}

/// A condition that the optimizer finds to be true for all pairs leaves none out.
#[tokio::test]
async fn conditions_that_are_always_true_change_nothing() -> Result<()> {
    let context = Setup::of(Way::Memory).session(install)?;
    let bases: Vec<String> = vec!["new york".to_string(), "old town".to_string()];
    context.register_table("a", table(&mut StdRng::seed_from_u64(5), 40, &bases)?)?;
    let similar = "levenshtein(a.s, b.s) <= 1";
    let rows = |condition: String| {
        let context = context.clone();
        async move {
            let sql = format!("SELECT a.id, b.id FROM a SIMJOIN a b ON {condition}");
            plan_and_rows(&context, &sql).await
        }
    };
    let (_, expected) = rows(similar.to_string()).await?;
    assert!(expected.len() > 40);
    let always = "CASE WHEN jaro_similarity(a.t, b.t) >= 0.5 THEN 1 ELSE 2 END IS NOT NULL";
    let (plan, found) = rows(format!("{always} AND {similar}")).await?;
    assert_eq!(found, expected, "{plan}");
    Ok(())
}

/// A filter above alternatives reads the columns that it names, of which two have one name.
#[tokio::test]
async fn filters_above_alternatives_read_their_columns() -> Result<()> {
    let operator = Setup::of(Way::Memory).session(install)?;
    let bases: Vec<String> = vec!["new york".to_string(), "old town".to_string()];
    operator.register_table("a", table(&mut StdRng::seed_from_u64(6), 40, &bases)?)?;
    let sql = "SELECT a.id, b.id FROM a LEFT SIMJOIN a b \
               ON levenshtein(a.s, b.s) <= 1 OR jaro_similarity(a.t, b.t) >= 0.9 \
               WHERE a.k % 2 < b.k % 2";
    let (plan, found) = plan_and_rows(&operator, sql).await?;
    assert!(plan.matches("SetSimilarityJoinExec").count() > 1, "{plan}");
    operator.sql("SET simjoin.recognize_joins = false").await?;
    let (_, expected) = plan_and_rows(&operator, &sql.replace("SIMJOIN", "JOIN")).await?;
    assert!(!expected.is_empty());
    assert_eq!(found, expected, "{plan}");
    Ok(())
}

/// Where a single bound would be weak, bounds of two functions drive joins.
#[tokio::test]
async fn a_weak_bound_gives_way_to_stronger_ones() -> Result<()> {
    let operator = Setup::of(Way::Memory).session(install)?;
    let bases: Vec<String> = vec!["new york city".to_string(), "old town hall".to_string()];
    operator.register_table("a", table(&mut StdRng::seed_from_u64(7), 60, &bases)?)?;
    for (at_least, joins) in [("0.55", 2), ("0.8", 1)] {
        let sum = "0.5 * jaccard(qgrams(a.s, 2), qgrams(b.s, 2)) \
                   + 0.3 * coalesce(levenshtein_similarity(a.t, b.t), 0) \
                   + CASE WHEN a.k = b.k THEN 0.2 ELSE 0 END";
        for outer in ["", "LEFT ", "FULL "] {
            let sql = format!("SELECT a.id, b.id FROM a {outer}SIMJOIN a b ON {sum} >= {at_least}");
            operator.sql("SET simjoin.recognize_joins = true").await?;
            let (plan, found) = plan_and_rows(&operator, &sql).await?;
            let count = plan.matches("SetSimilarityJoinExec: ").count();
            assert!(if joins == 1 { count == 1 } else { count >= 2 }, "{plan}");
            operator.sql("SET simjoin.recognize_joins = false").await?;
            let (_, expected) = plan_and_rows(&operator, &sql.replace("SIMJOIN", "JOIN")).await?;
            assert_eq!(found, expected, "{plan}");
        }
    }
    Ok(())
}

/// An input that gives other rows each time is read once by all joins of a cover, also from disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_that_may_differ_each_time_are_read_once() -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed(86));
    let bases: Vec<String> = (0..40).map(|_| text(&mut rng, Kind::Words)).collect();
    let rows = table(&mut rng, 900, &bases)?;
    let drawn = "(SELECT *, random() AS r FROM a) a";
    let numbered = "(SELECT *, row_number() OVER () AS n FROM a) b";
    let condition = "(levenshtein(a.s, b.s) <= 0 AND a.k = 1 OR jaccard(qgrams(a.t, 2), qgrams(b.t, 2)) \
                     >= 0.95 AND b.k = 2) AND a.id < b.id";
    for way in [Way::Memory, Way::Disk, Way::Limit(12_000)] {
        let (oracle, operator) = (nested_loops(), Setup::of(way).session(install)?);
        for context in [&oracle, &operator] {
            context.register_table("a", Arc::clone(&rows) as _)?;
        }
        for (outer, join) in
            [("", "SIMJOIN"), ("LEFT ", "JOIN"), ("RIGHT ", "SIMJOIN"), ("FULL ", "SIMJOIN")]
        {
            let expected = format!("SELECT a.id, b.id FROM a {outer}JOIN a b ON {condition}");
            let expected = sorted(&oracle.sql(&expected).await?.collect().await?);
            let sql = format!(
                "SELECT a.id, a.r, b.id, b.n FROM {drawn} {outer}{join} {numbered} ON {condition}"
            );
            let (plan, found) = plan_and_rows(&operator, &sql).await?;
            assert!(plan.contains("ReadOnceExec: number=2"), "{plan}");
            let mut of_id: HashMap<String, String> = HashMap::new();
            let mut pairs = vec![];
            for row in found {
                let [id, drawn, partner, _] = row.split(" | ").collect::<Vec<_>>()[..] else {
                    panic!("{row}")
                };
                let known = of_id.entry(id.to_string()).or_insert_with(|| drawn.to_string());
                assert_eq!(known, drawn, "{way:?} {id}");
                pairs.push(format!("{id} | {partner}"));
            }
            pairs.sort_unstable();
            assert!(pairs.len() > 300, "{}", pairs.len());
            assert_eq!(pairs, expected, "{way:?} {sql}");
        }
    }
    Ok(())
}
