//! Real collections against the oracle, on seeded samples.
//!
//! Each test takes some thousand rows, compares all pairs once by merging sorted sets, and then
//! asks for several measures and thresholds.

use std::collections::BTreeSet;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::oracle::{Cell, Measure, Sizes, line};
use crate::support::{
    STRATEGIES, Session, assert_same_rows, assert_uses_operator, number, rows, shared,
};

/// A sampled row: its id in the file and its set.
struct Sampled<T> {
    id: i64,
    set: Vec<T>,
}

/// A seeded sample of ids: half of it in runs of neighbours, where files keep their near
/// duplicates, half anywhere.
fn sample(rows: usize, n: usize, seed: u64) -> Vec<i64> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut ids = BTreeSet::new();
    while ids.len() < n.min(rows) / 2 {
        let start = rng.random_range(0..rows);
        ids.extend(start..(start + 50).min(rows));
    }
    let mut all: Vec<usize> = (0..rows).collect();
    all.shuffle(&mut rng);
    ids.extend(all.into_iter().take(n.min(rows).saturating_sub(ids.len())));
    ids.into_iter().map(|i| i as i64).collect()
}

/// Registers the sampled rows of a shared file as table `name`.
async fn register(ctx: &SessionContext, name: &str, file: &str, n: usize) -> Option<()> {
    let path = shared(file)?;
    let path = path.to_str().expect("a plain path");
    let all = format!("{name}_all");
    ctx.register_parquet(&all, path, ParquetReadOptions::default()).await.expect("a table");
    let count = number(ctx, &format!("SELECT count(*) FROM {all}")).await as usize;
    let ids: Vec<String> = sample(count, n, 7).iter().map(|id| format!("({id})")).collect();
    let sql = format!(
        "CREATE TABLE {name} AS SELECT t.* FROM {all} t JOIN (VALUES {}) AS s(i) ON t.id = s.i",
        ids.join(", ")
    );
    rows(ctx, &sql).await;
    Some(())
}

async fn token_sets(ctx: &SessionContext, name: &str) -> Vec<Sampled<i32>> {
    let batches = ctx.sql(&format!("SELECT id, tokens FROM {name}")).await.unwrap();
    let mut sets = Vec::new();
    for batch in batches.collect().await.unwrap() {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let lists = batch.column(1).as_list::<i32>();
        for row in 0..batch.num_rows() {
            let tokens = lists.value(row);
            let tokens: BTreeSet<i32> =
                tokens.as_primitive::<Int32Type>().values().iter().copied().collect();
            sets.push(Sampled { id: ids.value(row), set: tokens.into_iter().collect() });
        }
    }
    sets
}

/// The texts of a table, cut by `tokens`.
async fn texts<T: Ord>(
    ctx: &SessionContext,
    name: &str,
    tokens: impl Fn(&str) -> BTreeSet<T>,
) -> Vec<Sampled<T>> {
    let batches = ctx.sql(&format!("SELECT id, text FROM {name}")).await.unwrap();
    let mut sets = Vec::new();
    for batch in batches.collect().await.unwrap() {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let text = cast(batch.column(1), &DataType::Utf8).unwrap();
        for (row, text) in text.as_string::<i32>().iter().enumerate() {
            let set = tokens(text.unwrap_or_default()).into_iter().collect();
            sets.push(Sampled { id: ids.value(row), set });
        }
    }
    sets
}

fn three_grams(text: &str) -> BTreeSet<Vec<char>> {
    let chars: Vec<char> = text.to_lowercase().chars().collect();
    match chars.len() {
        0 => BTreeSet::new(),
        1 | 2 => BTreeSet::from([chars]),
        _ => chars.windows(3).map(<[char]>::to_vec).collect(),
    }
}

fn words(text: &str) -> BTreeSet<String> {
    crate::oracle::words(text).into_iter().collect()
}

/// Pairs with a common token, every measure at hand.
type Pairs = Vec<(i64, i64, Sizes)>;

fn compare<T: Ord>(a: &[Sampled<T>], b: &[Sampled<T>]) -> Pairs {
    let mut pairs = Vec::new();
    for x in a {
        for y in b {
            let sizes = Sizes::of(&x.set, &y.set);
            if sizes.o > 0 {
                pairs.push((x.id, y.id, sizes));
            }
        }
    }
    pairs
}

/// Asks for all pairs of each measure and threshold; `a` and `b` may be the same table.
async fn check(
    ctx: &SessionContext,
    (a, b): (&str, &str),
    argument: &str,
    pairs: &Pairs,
    asked: &[(Measure, &[f64])],
) {
    let itself = a == b;
    let (x, y) = (argument.replace('?', "x"), argument.replace('?', "y"));
    let mut matches = 0;
    for (measure, thresholds) in asked {
        for t in *thresholds {
            let call = format!("{}({x}, {y})", measure.sql());
            let once = if itself { " AND x.id < y.id" } else { "" };
            let from = format!("FROM {a} x SIMJOIN {b} y ON {call} >= {t:?}{once}");
            let sql = format!("SELECT x.id, y.id AS yid, {call} AS score {from}");
            let kept =
                pairs.iter().filter(|(i, j, s)| measure.value(*s) >= *t && (!itself || i < j));
            let expected: Vec<String> = kept
                .map(|(i, j, s)| line(&[Cell::Int(*i), Cell::Int(*j), measure.cell(Some(*s))]))
                .collect();
            assert_uses_operator(ctx, &sql).await;
            let count = format!("SELECT count(*) {from}");
            for strategy in STRATEGIES.iter() {
                rows(ctx, &format!("SET simjoin.strategy = '{strategy}'")).await;
                let what = format!("{strategy}: {sql}");
                assert_same_rows(&rows(ctx, &sql).await, &expected, &what);
                assert_eq!(number(ctx, &count).await, expected.len() as i64, "{what}");
            }
            matches += expected.len();
        }
    }
    assert!(matches > 0, "no pair of {a} and {b} matched at all");
}

const ALL_MEASURES: &[(Measure, &[f64])] = &[
    (Measure::Jaccard, &[0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
    (Measure::Dice, &[0.7, 0.9]),
    (Measure::Cosine, &[0.7, 0.9]),
    (Measure::Overlap, &[4.0, 12.0]),
    (Measure::OverlapCoefficient, &[0.9]),
    (Measure::Containment, &[0.9, 1.0]),
];

async fn check_token_sets(file: &str, n: usize) {
    let ctx = Session::default().context();
    if register(&ctx, "t", file, n).await.is_none() {
        return;
    }
    let sets = token_sets(&ctx, "t").await;
    let pairs = compare(&sets, &sets);
    check(&ctx, ("t", "t"), "?.tokens", &pairs, ALL_MEASURES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retail() {
    check_token_sets("retail.parquet", 2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kosarak() {
    check_token_sets("kosarak_36k.parquet", 1_500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_of_askubuntu() {
    check_token_sets("tags_askubuntu.parquet", 3_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coauthors_of_dblp() {
    check_token_sets("dblp_coauthors.parquet", 3_000).await;
}

/// Dense: few tokens, all of them frequent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accidents() {
    check_token_sets("accidents_15k.parquet", 600).await;
}

/// Every set has 37 tokens of 75.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chess() {
    check_token_sets("chess.parquet", 400).await;
}

const FOR_TEXT: &[(Measure, &[f64])] = &[
    (Measure::Jaccard, &[0.3, 0.5, 0.8]),
    (Measure::Cosine, &[0.8]),
    (Measure::Containment, &[0.9]),
];

async fn check_text(file: &str, n: usize) {
    let ctx = Session::default().context();
    if register(&ctx, "t", file, n).await.is_none() {
        return;
    }
    let sets = texts(&ctx, "t", three_grams).await;
    let pairs = compare(&sets, &sets);
    check(&ctx, ("t", "t"), "qgrams(lower(?.text), 3)", &pairs, FOR_TEXT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headlines_by_three_grams() {
    check_text("abcnews_74k.parquet", 800).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn references_by_three_grams() {
    check_text("glottolog_refs.parquet", 600).await;
}

async fn check_two_tables(name: &str, n: usize) {
    let ctx = Session::default().context();
    for side in ["a", "b"] {
        if register(&ctx, side, &format!("{name}_{side}.parquet"), n).await.is_none() {
            return;
        }
    }
    let (a, b) = (texts(&ctx, "a", three_grams).await, texts(&ctx, "b", three_grams).await);
    check(&ctx, ("a", "b"), "qgrams(lower(?.text), 3)", &compare(&a, &b), FOR_TEXT).await;
    let (a, b) = (texts(&ctx, "a", words).await, texts(&ctx, "b", words).await);
    check(&ctx, ("a", "b"), "word_tokens(?.text)", &compare(&a, &b), FOR_TEXT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publications_of_dblp_and_acm() {
    check_two_tables("dblp_acm", 700).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn products_of_abt_and_buy() {
    check_two_tables("abt_buy", 400).await;
}
