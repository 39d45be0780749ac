//! Strategies against each other, on whole collections that no nested loop gets through.
//!
//! The oracle has judged each of them on samples and small tables; here a pair that only one of
//! them finds shows up where blocks, groups and posting lists are as long as in real use. A
//! strategy's answer is summed up in numbers that a missing, wrong or repeated pair changes.

use datafusion::prelude::{ParquetReadOptions, SessionContext};

use crate::oracle::Measure;
use crate::support::{STRATEGIES, Session, assert_uses_operator, rows, shared};

const TOKENS: &str = "?.tokens";

fn summary(measure: Measure, threshold: f64, argument: &str) -> String {
    let (x, y) = (argument.replace('?', "x"), argument.replace('?', "y"));
    format!(
        "SELECT count(*), sum(i), sum(j), sum(i * j % 1000003), bit_xor(i * 1000003 + j), sum(o) \
         FROM (SELECT x.id AS i, y.id AS j, overlap({x}, {y}) AS o \
         FROM t x SIMJOIN t y ON {}({x}, {y}) >= {threshold:?} AND x.id < y.id)",
        measure.sql()
    )
}

async fn table(file: &str) -> Option<SessionContext> {
    let path = shared(file)?;
    let ctx = Session::on_cpu().context();
    let path = path.to_str().expect("a plain path");
    ctx.register_parquet("t", path, ParquetReadOptions::default()).await.expect("a table");
    Some(ctx)
}

/// Joins a whole file with itself, read once and read twice, by every strategy. The thresholds
/// leave the answer small enough to be summed up.
async fn agree(file: &str, argument: &str, joins: &[(Measure, f64)]) {
    let Some(ctx) = table(file).await else { return };
    for &(measure, threshold) in joins {
        let sql = summary(measure, threshold, argument);
        assert_uses_operator(&ctx, &sql).await;
        let mut expected = None;
        for self_join in [true, false] {
            rows(&ctx, &format!("SET simjoin.self_join = {self_join}")).await;
            // Of those that share most of their code, one will do the second time. Counters of all
            // pairs are for fewer sets.
            let left_out = |strategy: &str| match strategy {
                "auto" | "allpairs" => !self_join,
                other => other == "scancount",
            };
            for strategy in STRATEGIES.iter().filter(|strategy| !left_out(strategy)) {
                rows(&ctx, &format!("SET simjoin.strategy = '{strategy}'")).await;
                let found = rows(&ctx, &sql).await;
                let expected = expected.get_or_insert_with(|| found.clone());
                assert_eq!(&found, expected, "{strategy}, self-join {self_join}: {sql}");
            }
        }
        let expected = expected.expect("a strategy");
        assert!(!expected[0].starts_with("0 "), "{file}: no pair for {sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retail() {
    let joins = [(Measure::Jaccard, 0.8), (Measure::Overlap, 20.0)];
    agree("retail.parquet", TOKENS, &joins).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kosarak() {
    agree("kosarak_36k.parquet", TOKENS, &[(Measure::Dice, 0.93)]).await;
}

/// Few sets, which very many rows have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_of_web_pages() {
    agree("bms_webview1.parquet", TOKENS, &[(Measure::Cosine, 0.9)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coauthors_of_dblp() {
    agree("dblp_coauthors.parquet", TOKENS, &[(Measure::Jaccard, 0.5)]).await;
}

/// Dense: few tokens, all of them frequent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accidents() {
    agree("accidents_15k.parquet", TOKENS, &[(Measure::Jaccard, 0.92)]).await;
}

/// Large sets, of very different sizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn circles_of_twitter() {
    agree("ego_twitter.parquet", TOKENS, &[(Measure::Jaccard, 0.95)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headlines_by_three_grams() {
    let argument = "qgrams(lower(?.text), 3)";
    agree("abcnews_74k.parquet", argument, &[(Measure::Jaccard, 0.9)]).await;
}
