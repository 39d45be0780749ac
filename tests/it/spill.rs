//! Joins on disk: every memory limit, the disk's limit, files that vanish, what EXPLAIN ANALYZE
//! says. The answers of small joins from disk are compared with the oracle in [`crate::differential`].

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::limits::{many, register_many};
use crate::oracle::{Row, ints};
use crate::support::{
    STRATEGIES, Session, assert_contains, assert_same_rows, batch_of, error, explain, number, plan,
    register_partitions, rows, shared,
};

const ALIKE: &str = "jaccard(a.toks, b.toks) >= 0.5";

/// Statements over `a` and `b` whose answers every way of running them must agree on.
const STATEMENTS: [&str; 9] = [
    "SELECT count(*), sum(a.id), sum(b.id) FROM a SIMJOIN b ON ALIKE",
    "SELECT count(*), count(y), sum(coalesce(x, 5) * 3 + coalesce(y, 1)) FROM \
     (SELECT a.id AS x, b.id AS y FROM a FULL SIMJOIN b ON ALIKE)",
    "SELECT count(*), sum(id) FROM (SELECT a.id FROM a LEFT SEMI SIMJOIN b ON ALIKE)",
    "SELECT count(*), sum(id) FROM (SELECT a.id FROM a LEFT ANTI SIMJOIN b ON ALIKE)",
    "SELECT count(*), sum(id) FROM (SELECT b.id FROM a RIGHT ANTI SIMJOIN b ON ALIKE)",
    "SELECT a.id % 7 AS k, count(*), count(b.id) FROM a LEFT SIMJOIN b ON ALIKE GROUP BY 1",
    "SELECT count(*), sum(x), sum(y) FROM (SELECT p.id AS x, q.id AS y FROM a p SIMJOIN a q \
     ON jaccard(p.toks, q.toks) >= 0.5)",
    "SELECT count(*), sum(x), sum(y) FROM (SELECT p.id AS x, q.id AS y FROM a p SIMJOIN a q \
     ON jaccard(p.toks, q.toks) >= 0.5 AND p.id < q.id)",
    "SELECT count(*), sum(id) FROM (SELECT p.id FROM a p LEFT ANTI SIMJOIN a q \
     ON jaccard(p.toks, q.toks) >= 0.5 AND p.id <> q.id)",
];

/// `n` sets of 5 to 60 tokens; every third one is much like the one before.
fn related(n: i64, first: i64) -> Vec<Row> {
    let mut rng = StdRng::seed_from_u64(71);
    let mut last: Vec<i64> = vec![];
    let mut rows = vec![];
    for i in 0..n {
        if i % 3 == 0 || last.len() < 2 {
            let size = rng.random_range(5..60);
            last = (0..size).map(|_| rng.random_range(0..200_000)).collect();
        } else {
            let place = rng.random_range(0..last.len());
            last[place] = rng.random_range(0..200_000);
        }
        rows.push(Row::of(first + i, ints(last.iter().copied())));
    }
    rows
}

async fn answers(ctx: &SessionContext) -> Vec<Vec<String>> {
    let mut all = vec![];
    for statement in STATEMENTS {
        all.push(rows(ctx, &statement.replace("ALIKE", ALIKE)).await);
    }
    all
}

/// From a memory limit that a few buffers fill to one that holds everything, the answer is the
/// same, and no memory is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_memory_limit_gives_the_answer() {
    let (a, b) = (related(12_000, 0), related(9_000, 100_000));
    let whole = Session::on_cpu().context();
    register_many(&whole, "a", &a);
    register_many(&whole, "b", &b);
    let expected = answers(&whole).await;
    for kilobytes in [4 << 10, 5 << 10, 6 << 10, 8 << 10, 12 << 10, 20 << 10, 40 << 10] {
        for strategy in STRATEGIES.iter().copied() {
            if strategy != "auto" && kilobytes != 6 << 10 {
                continue;
            }
            let session = Session { memory: Some(kilobytes << 10), ..Session::on_cpu() };
            let ctx = session.option("strategy", strategy).context();
            register_many(&ctx, "a", &a);
            register_many(&ctx, "b", &b);
            let found = answers(&ctx).await;
            for (found, expected) in found.iter().zip(&expected) {
                assert_same_rows(found, expected, &format!("{kilobytes} kB, {strategy}"));
            }
            assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0, "{kilobytes} kB: kept memory");
        }
    }
}

/// The needs of many partitions do not use up the memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn many_partitions_share_little_memory() {
    let (a, b) = (related(12_000, 0), related(9_000, 100_000));
    let whole = Session::on_cpu().context();
    register_many(&whole, "a", &a);
    register_many(&whole, "b", &b);
    let expected = answers(&whole).await;
    for kilobytes in [3 << 10, 4 << 10, 8 << 10] {
        let session =
            Session { memory: Some(kilobytes << 10), partitions: 16, ..Session::on_cpu() };
        let ctx = session.context();
        register_many(&ctx, "a", &a);
        register_many(&ctx, "b", &b);
        for (found, expected) in answers(&ctx).await.iter().zip(&expected) {
            assert_same_rows(found, expected, &format!("{kilobytes} kB"));
        }
    }
}

/// Cursors over a device take more memory than others. Where the first one leaves none for an index
/// on the CPU, the others join all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_limits_hold_beside_a_device() {
    if crate::emulator::gpu().is_none() {
        return;
    }
    let (a, b) = (related(12_000, 0), related(9_000, 100_000));
    let whole = Session::on_cpu().context();
    register_many(&whole, "a", &a);
    register_many(&whole, "b", &b);
    let expected = answers(&whole).await;
    for kilobytes in [6 << 10, 8 << 10] {
        let session = Session { memory: Some(kilobytes << 10), ..Session::default() };
        // The strategy runs on devices alone, which are not demanded.
        let ctx = session.option("strategy", "bwjoin").context();
        register_many(&ctx, "a", &a);
        register_many(&ctx, "b", &b);
        for (found, expected) in answers(&ctx).await.iter().zip(&expected) {
            assert_same_rows(found, expected, &format!("{kilobytes} kB"));
        }
        assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0, "{kilobytes} kB: kept memory");
    }
}

/// A pool that shares its memory among the consumers that can spill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fair_pool_does_as_well() {
    use datafusion::execution::memory_pool::FairSpillPool;
    let (a, b) = (related(12_000, 0), related(9_000, 100_000));
    let whole = Session::on_cpu().context();
    register_many(&whole, "a", &a);
    register_many(&whole, "b", &b);
    let expected = answers(&whole).await;
    let pool = std::sync::Arc::new(FairSpillPool::new(12 << 20));
    let ctx = Session::on_cpu().context_with(RuntimeEnvBuilder::new().with_memory_pool(pool));
    register_many(&ctx, "a", &a);
    register_many(&ctx, "b", &b);
    for (found, expected) in answers(&ctx).await.iter().zip(&expected) {
        assert_same_rows(found, expected, "fair pool");
    }
}

/// Sets of one size cannot be told apart by size, keys that are all one not by key, and one token
/// may be in every set: blocks are joined then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skew_is_joined_in_blocks() {
    let mut rng = StdRng::seed_from_u64(5);
    let skewed: Vec<Row> = (0..15_000_i64)
        .map(|i| {
            let mut tokens = vec![0];
            tokens.extend((0..19).map(|t| 1 + t * 1000 + rng.random_range(0..1000) * (i % 2)));
            Row { key: Some(1), ..Row::of(i, ints(tokens)) }
        })
        .collect();
    let sql = "SELECT count(*), sum(x), sum(y) FROM (SELECT p.id AS x, q.id AS y FROM a p SIMJOIN \
               a q ON jaccard(p.toks, q.toks) >= 0.8 AND p.key = q.key AND p.id < q.id)";
    let mut answers = vec![];
    for memory in [None, Some(5 << 20)] {
        let ctx = Session { memory, ..Session::default() }.context();
        register_many(&ctx, "a", &skewed);
        answers.push(rows(&ctx, sql).await);
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0][0].starts_with("28"), "{answers:?}");
}

/// A runtime whose files lie in a directory, and take so many bytes at most.
pub fn runtime_in(dir: &Path, limit: u64) -> RuntimeEnvBuilder {
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![dir.to_path_buf()]))
        .with_max_temp_directory_size(limit);
    RuntimeEnvBuilder::new().with_disk_manager_builder(disk)
}

/// Files below a directory, however deep.
pub fn files_in(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).map(|entries| entries.flatten().collect()).unwrap_or(vec![]);
    let count = |path: &Path| if path.is_dir() { files_in(path) } else { 1 };
    entries.iter().map(|entry| count(&entry.path())).sum()
}

async fn until_gone(dir: &Path, what: &str) {
    let start = Instant::now();
    while files_in(dir) > 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "{} files stay: {what}", files_in(dir));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn spilling() -> Session {
    Session::on_cpu().option("spill", "always").option("debug.spill_piece_rows", 500)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spill_files_vanish() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = spilling().context_with(runtime_in(dir.path(), 1 << 30));
    let rows = related(6_000, 0);
    register_many(&ctx, "a", &rows);
    register_many(&ctx, "b", &rows);
    let sql = format!("SELECT a.id AS x, b.id AS y FROM a FULL SIMJOIN b ON {ALIKE}");
    // Success.
    let mut stream = plan(&ctx, &sql).await.unwrap().execute_stream().await.unwrap();
    assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
    assert!(files_in(dir.path()) > 0, "nothing was written");
    while stream.next().await.is_some() {}
    drop(stream);
    until_gone(dir.path(), "after the end").await;
    // Cancellation, at any time.
    for polls in 0..40 {
        let mut stream = plan(&ctx, &sql).await.unwrap().execute_stream().await.unwrap();
        for _ in 0..polls {
            let next = tokio::time::timeout(Duration::from_millis(2), stream.next()).await;
            if let Ok(None) = next {
                break;
            }
        }
        drop(stream);
        until_gone(dir.path(), "after cancellation").await;
    }
    // A failure in the middle.
    let failing = format!(
        "SELECT a.id AS x, b.id AS y FROM a SIMJOIN b ON {ALIKE} AND 10 / (a.id - 5000) > -20"
    );
    let message = error(&ctx, &failing).await;
    assert_contains(&message, &["ivide by zero"]);
    until_gone(dir.path(), "after a failure").await;
    assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let rows = many(20_000, 20);
    for limit in [1, 100_000, 4_000_000] {
        let ctx = spilling().context_with(runtime_in(dir.path(), limit));
        register_many(&ctx, "a", &rows);
        register_many(&ctx, "b", &rows);
        let sql = format!("SELECT a.id AS x, b.id AS y FROM a SIMJOIN b ON {ALIKE}");
        let result = plan(&ctx, &sql).await.unwrap().collect().await;
        let error = result.expect_err("the disk is too small");
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
        assert_contains(
            &error.to_string(),
            &["could not write more than", "rows", "max_temp_directory_size", "--disk-limit"],
        );
        until_gone(dir.path(), "after a full disk").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_temporary_files_nothing_spills() {
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let disabled = || RuntimeEnvBuilder::new().with_disk_manager_builder(disk.clone());
    let rows = many(20_000, 20);
    let ctx = spilling().context_with(disabled());
    register_many(&ctx, "a", &rows);
    register_many(&ctx, "b", &rows);
    let sql = format!("SELECT count(*) FROM a SIMJOIN b ON {ALIKE}");
    assert_contains(&error(&ctx, &sql).await, &["simjoin.spill = 'always'", "temporary files"]);
    // Too little memory is the error that it was without spilling.
    let ctx = Session { memory: Some(1 << 20), ..Session::default() }.context_with(disabled());
    register_many(&ctx, "a", &rows);
    register_many(&ctx, "b", &rows);
    assert_contains(&error(&ctx, &sql).await, &["SetSimilarityJoin", "raise the limit"]);
}

/// The sum of a metric in what EXPLAIN ANALYZE prints; thousands are printed as `1.50 K`.
fn metric(text: &str, name: &str) -> f64 {
    let place = text.find(&format!("{name}=")).unwrap_or_else(|| panic!("no {name} in {text}"));
    let value = &text[place + name.len() + 1..];
    let value: String = value.chars().take_while(|c| !",]|".contains(*c)).collect();
    let (number, unit) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    let factor = match unit {
        "K" => 1e3,
        "M" => 1e6,
        "KB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        _ => 1.0,
    };
    number.parse::<f64>().unwrap_or_else(|_| panic!("{name}={value}")) * factor
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_tells_of_the_disk() {
    let (a, b) = (related(6_000, 0), related(4_000, 100_000));
    let ctx = spilling().context();
    register_many(&ctx, "a", &a);
    register_many(&ctx, "b", &b);
    let sql = format!("ANALYZE SELECT count(*) FROM a SIMJOIN b ON {ALIKE}");
    let text = explain(&ctx, &sql).await;
    assert!(metric(&text, "spill_bands") > 10.0, "{text}");
    assert!((8.0..60.0).contains(&metric(&text, "spill_passes")), "{text}");
    assert_eq!(metric(&text, "build_spilled_rows"), 4_000.0, "{text}");
    assert_eq!(metric(&text, "probe_spilled_rows"), 6_000.0, "{text}");
    assert!(metric(&text, "build_spilled_bytes") > 4_000.0 * 30.0 * 8.0, "{text}");
    assert!(metric(&text, "spilled_bytes") > 10_000.0 * 30.0 * 8.0, "{text}");
    let visits = metric(&text, "spill_probe_visits");
    assert!((6_000.0..60_000.0).contains(&visits), "{text}");
    // What is written is compressed as the session says.
    rows(&ctx, "SET datafusion.execution.spill_compression = 'zstd'").await;
    let smaller = explain(&ctx, &sql).await;
    assert!(metric(&smaller, "spilled_bytes") < 0.8 * metric(&text, "spilled_bytes"), "{smaller}");
    // In memory nothing is said of it.
    let ctx = Session::default().context();
    register_many(&ctx, "a", &a);
    register_many(&ctx, "b", &b);
    assert!(!explain(&ctx, &sql).await.contains("spill_bands"));
}

/// Tokens that are nearly all distinct in a piece, of a wide domain: a bit for each number takes less
/// memory than tables of the tokens, and the pieces are larger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_of_sparse_integers_are_numbered_without_tables() {
    const FACTORS: [i64; 10] = [37, 101, 233, 577, 839, 1_009, 2_003, 3_001, 4_001, 5_003];
    let token = |row: i64, factor: i64| row * factor % 3_999_971;
    let row = |id: i64| Row::of(id, ints(FACTORS.map(|factor| token(id, factor))));
    let rows: Vec<Row> = (1..=40_000).map(row).collect();
    let mut answers = vec![];
    for limit in [3 << 20, 1 << 30] {
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime_in(dir.path(), 1 << 30).with_memory_limit(limit, 1.0);
        let ctx = Session::on_cpu().context_with(runtime);
        register_many(&ctx, "a", &rows);
        let sql = "SELECT count(*) FROM a SIMJOIN a b ON jaccard(a.toks, b.toks) >= 0.8";
        answers.push(self::rows(&ctx, sql).await);
        let text = explain(&ctx, &format!("ANALYZE {sql}")).await;
        match limit < 1 << 30 {
            true => assert!((2.0..26.0).contains(&metric(&text, "spill_passes")), "{text}"),
            false => assert!(!text.contains("spill_passes"), "{text}"),
        }
    }
    assert_eq!(answers[0], answers[1]);
}

/// The choice is shown for all pieces together, with the estimates of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_the_choice_of_every_piece() {
    let (a, b) = (related(6_000, 0), related(4_000, 100_000));
    let ctx = spilling().context();
    register_many(&ctx, "a", &a);
    register_many(&ctx, "b", &b);
    for from in ["a SIMJOIN b", "a SIMJOIN a b"] {
        let sql = format!("ANALYZE SELECT count(*) FROM {from} ON {ALIKE}");
        let text = explain(&ctx, &sql).await;
        let pieces = metric(&text, "spill_passes");
        let chosen = text.split_once("chosen=").expect("a choice").1;
        let (chosen, figures) = chosen.split_once(" (estimated ").expect("an estimate");
        // `ppjoin in 7 of 9 pieces, bitmap in 2`
        assert!(chosen.contains(&format!(" of {pieces} pieces")), "{text}");
        let counted = chosen.split(", ").map(|group| {
            let number = group.split_once(" in ").and_then(|(_, rest)| rest.split(' ').next());
            number.and_then(|number| number.parse::<f64>().ok()).expect("a number of pieces")
        });
        assert_eq!(counted.sum::<f64>(), pieces, "{text}");
        assert!(figures.contains("; all by "), "{text}");
    }
}

/// A row whose set alone is large, and tokens that are long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_sets_and_long_tokens_travel_too() {
    let large: Vec<Row> = (0..6).map(|i| Row::of(i, ints(i * 10..i * 10 + 50_000))).collect();
    let mut found = vec![];
    for session in [Session::default(), Session { memory: Some(12 << 20), ..spilling() }] {
        let ctx = session.context();
        let batch = batch_of(&large, &DataType::Int64, crate::lists::Layout::List);
        register_partitions(&ctx, "a", vec![vec![batch]]);
        let sql = "SELECT count(*) FROM a p SIMJOIN a q ON jaccard(p.toks, q.toks) >= 0.999";
        let texts = "SELECT count(*) FROM (SELECT id, [repeat('x', 10000) || id, 'b', 'c'] AS t \
                     FROM a) p SIMJOIN (SELECT id, [repeat('x', 10000) || (id - id % 2), 'b', \
                     'c'] AS t FROM a) q ON jaccard(p.t, q.t) >= 0.9";
        found.push((number(&ctx, sql).await, number(&ctx, texts).await));
    }
    // Sets are alike up to two steps of ten tokens: 6 + 2 * 5 + 2 * 4 pairs.
    assert_eq!(found, [(24, 6), (24, 6)]);
}

/// Real collections: counts from disk, in pieces, equal those in memory.
/// Integers far apart are numbered by a dictionary, not by a bit for each possible value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_integers_from_disk_take_no_memory_of_their_size() {
    for memory in [None, Some(8 << 20)] {
        let ctx = Session { memory, ..spilling() }.context();
        for (name, token) in [
            ("hundred_billion", "100000000000"),
            ("greatest", "9223372036854775807"),
            ("unsigned", "18446744073709551615"),
        ] {
            let table = format!("CREATE TABLE {name} AS SELECT [{token}] AS t");
            rows(&ctx, &table).await;
            let sql = format!(
                "SELECT count(*) FROM {name} a SIMJOIN {name} b ON jaccard(a.t, b.t) >= 0.6"
            );
            assert_eq!(rows(&ctx, &sql).await, ["1"], "{name}");
        }
        // Hashes of 62 bits, each in two sets.
        let mut rng = StdRng::seed_from_u64(3);
        let hashes: Vec<i64> = (0..20_000).map(|_| rng.random_range(0..1 << 62)).collect();
        let sets = |shift: usize| {
            let sets = hashes.chunks_exact(4).enumerate();
            sets.map(move |(i, set)| Row::of((i + shift) as i64, ints(set.iter().copied())))
        };
        let table: Vec<Row> = sets(0).chain(sets(5000)).collect();
        register_many(&ctx, "a", &table);
        let sql = "SELECT count(*) FROM a SIMJOIN a b ON jaccard(a.toks, b.toks) >= 0.9";
        assert_eq!(number(&ctx, sql).await, 20_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_collections_count_the_same_from_disk() {
    for (file, column) in [("retail", "tokens"), ("dblp_coauthors", "tokens")] {
        let Some(path) = shared(&format!("{file}.parquet")) else { return };
        let path = path.display();
        for threshold in [0.5, 0.8] {
            let sql = format!(
                "SELECT count(*) FROM '{path}' a SIMJOIN '{path}' b \
                 ON jaccard(a.{column}, b.{column}) >= {threshold}"
            );
            let mut counts = vec![];
            for session in [Session::on_cpu(), spilling().option("debug.spill_piece_rows", 9_000)] {
                counts.push(number(&session.context().enable_url_table(), &sql).await);
            }
            assert_eq!(counts[0], counts[1], "{sql}");
        }
    }
}

/// Columns that travel along: views, and dictionaries of which every batch has its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_columns_travel_along() {
    use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
    use arrow::compute::cast;
    use arrow::datatypes::Int64Type;
    use std::sync::Arc;
    let batch = |number: i64| {
        let ids = number * 100..number * 100 + 100;
        let texts = StringArray::from_iter_values(ids.clone().map(|i| format!("text number {i}")));
        let words = StringArray::from_iter_values(ids.clone().map(|i| format!("w{}", i % 50)));
        let dictionary = |key: DataType| DataType::Dictionary(key.into(), DataType::Utf8.into());
        let lists = ids.clone().map(|i| Some((0..6).map(move |t| Some(i / 3 * 7 + t))));
        let columns: [(&str, ArrayRef); 5] = [
            ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
            ("toks", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
            ("view", cast(&texts, &DataType::Utf8View).unwrap()),
            ("word", cast(&words, &dictionary(DataType::Int8)).unwrap()),
            ("text", cast(&texts, &dictionary(DataType::Int32)).unwrap()),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let sql = "SELECT a.id AS x, b.id AS y, a.view, a.word, a.text, b.view, b.word, b.text, \
               b.toks FROM a FULL SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.5 AND a.id <> b.id";
    let mut found = vec![];
    for session in
        [Session::default(), spilling(), spilling().option("debug.spill_piece_rows", "auto")]
    {
        let ctx = session.context();
        for table in ["a", "b"] {
            let batches = |part: i64| (0..5).map(|i| batch(2 * i + part)).collect();
            register_partitions(&ctx, table, vec![batches(0), batches(1)]);
        }
        found.push(rows(&ctx, sql).await);
    }
    assert!(found[0].len() > 1000);
    assert_same_rows(&found[1], &found[0], "in pieces");
    assert_same_rows(&found[2], &found[0], "read back");
}

/// Pieces that nothing meets, and sides without rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_meets_nothing_is_counted_too() {
    let small: Vec<Row> = (0..2_000).map(|i| Row::of(i, ints(i..i + 3))).collect();
    let large: Vec<Row> = (0..2_000).map(|i| Row::of(i, ints(i..i + 30))).collect();
    let none = vec![Row::of(1, None)];
    for (a, b) in [(&small, &large), (&none, &large), (&large, &none), (&none, &none)] {
        let ctx = spilling().context();
        register_many(&ctx, "a", a);
        register_many(&ctx, "b", b);
        let count = format!("SELECT count(*) FROM a SIMJOIN b ON {ALIKE}");
        assert_eq!(number(&ctx, &count).await, 0);
        let full = format!("SELECT a.id AS x, b.id AS y FROM a FULL SIMJOIN b ON {ALIKE}");
        assert_eq!(rows(&ctx, &full).await.len(), a.len() + b.len());
        let left = format!("SELECT count(*), count(b.id) FROM a LEFT SIMJOIN b ON {ALIKE}");
        assert_eq!(rows(&ctx, &left).await, [format!("{} | 0", a.len())]);
        let anti = format!("SELECT count(*) FROM b LEFT ANTI SIMJOIN a ON {ALIKE}");
        assert_eq!(number(&ctx, &anti).await, b.len() as i64);
    }
}

/// An error of one partition of an input is not kept until the others have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_input_is_seen_at_once() {
    use arrow::datatypes::{Schema, SchemaRef};
    use datafusion::catalog::streaming::StreamingTable;
    use datafusion::execution::{SendableRecordBatchStream, TaskContext};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use datafusion::physical_plan::streaming::PartitionStream;
    use futures::stream;
    use std::sync::Arc;

    #[derive(Debug)]
    struct Part {
        schema: SchemaRef,
        fails: bool,
    }
    impl PartitionStream for Part {
        fn schema(&self) -> &SchemaRef {
            &self.schema
        }
        fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
            let schema = Arc::clone(&self.schema);
            match self.fails {
                true => {
                    let error = DataFusionError::Execution("broken input".to_string());
                    let failing = stream::iter([Err(error)]);
                    Box::pin(RecordBatchStreamAdapter::new(schema, failing))
                }
                false => Box::pin(RecordBatchStreamAdapter::new(schema, stream::pending())),
            }
        }
    }

    let b = many(500, 10);
    let ctx = spilling().option("build_side", "right").context();
    register_many(&ctx, "b", &b);
    let schema = batch_of(&b, &DataType::Int64, crate::lists::Layout::List).schema();
    let schema: SchemaRef = Arc::new(Schema::new(schema.fields().clone()));
    let part = |fails| Arc::new(Part { schema: Arc::clone(&schema), fails }) as _;
    let table = StreamingTable::try_new(Arc::clone(&schema), vec![part(false), part(true)]);
    ctx.register_table("a", Arc::new(table.unwrap())).unwrap();
    let sql = format!("SELECT a.id AS x, b.id AS y FROM a SIMJOIN b ON {ALIKE}");
    let failed = tokio::time::timeout(Duration::from_secs(20), error(&ctx, &sql)).await;
    assert_contains(&failed.expect("the error waits for a partition that never ends"), &["broken"]);
}

/// Where each task answers for its own probe rows, a partition that no consumer reads holds back
/// no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_read_later_holds_back_no_other() {
    use datafusion::physical_plan::execute_stream_partitioned;
    let equal: Vec<Row> = (0..600).map(|id| Row::of(id, ints([1, 2, 3]))).collect();
    let session = Session { tasks_of: Some(2), batch_size: 64, ..Session::default() };
    let session = session.option("distribution", "broadcast").option("spill", "always");
    let ctx = session.option("debug.spill_piece_rows", 200).context();
    register_many(&ctx, "a", &equal);
    let half = |rows: &[Row]| vec![batch_of(rows, &DataType::Int64, crate::lists::Layout::List)];
    register_partitions(&ctx, "b", vec![half(&equal[..300]), half(&equal[300..])]);
    let sql = format!("SELECT a.id AS x, b.id AS y FROM b LEFT SIMJOIN a ON {ALIKE}");
    let plan = plan(&ctx, &sql).await.unwrap().create_physical_plan().await.unwrap();
    let text = crate::support::plan_text(&plan);
    assert_contains(&text, &["mode=broadcast"]);
    let mut streams = execute_stream_partitioned(plan, ctx.task_ctx()).unwrap();
    assert!(streams.len() > 1, "{text}");
    // Every partition is begun, then they are read one after the other.
    let mut found = 0;
    for stream in &mut streams {
        let next = tokio::time::timeout(Duration::from_secs(2), stream.next()).await;
        found += next.ok().flatten().map_or(0, |batch| batch.unwrap().num_rows());
    }
    for mut stream in streams.into_iter().rev() {
        let read = async {
            while let Some(batch) = stream.next().await {
                found += batch.unwrap().num_rows();
            }
        };
        let read = tokio::time::timeout(Duration::from_secs(30), read).await;
        assert!(read.is_ok(), "a partition waits for another one");
    }
    assert_eq!(found, 600 * 600);
}
