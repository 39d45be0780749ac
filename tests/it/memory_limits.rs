//! Memory limits are monotone: a join that finishes within a limit finishes within every greater
//! one, with the same answer.
//!
//! A *case* is a collection or two, of rows of very different sizes, a join of them, and a series of
//! growing limits. By itself the test runs a few small cases. For a longer run, of larger ones:
//!
//! ```text
//! SIMJOIN_LIMITS_SECONDS=600 SIMJOIN_LIMITS_SEED=7 cargo test --release --test it memory_limits -- --nocapture
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{
    ArrayRef, Float32Builder, Int64Array, Int64Builder, ListBuilder, RecordBatch, StringArray,
    StringBuilder,
};
use datafusion::common::DataFusionError;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::support::{OF_VECTORS, STRATEGIES, Session, plan, register_partitions, rows, try_rows};

/// The time that a run may take on a busy machine; slower ones are given up, with their case.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the sizes of rows are spread.
#[derive(Debug, Clone, Copy)]
enum Sizes {
    Alike,
    /// From one to the greatest, by their logarithm.
    Mixed,
    /// Short, but for a few.
    FewLong,
}

#[derive(Debug)]
enum Elements {
    Integers,
    Texts,
    Vectors { dimensions: usize },
}

/// A collection: about `bytes` bytes of rows.
#[derive(Debug)]
struct Shape {
    elements: Elements,
    sizes: Sizes,
    bytes: usize,
    /// Bytes of the largest set.
    most: usize,
    keys: i64,
    /// Bytes of the largest text beside the sets.
    text: usize,
}

#[derive(Debug)]
struct Case {
    shapes: Vec<Shape>,
    sql: String,
    session: Session,
    limits: Vec<usize>,
}

impl Sizes {
    fn draw(self, rng: &mut StdRng, most: usize) -> usize {
        let mixed = |rng: &mut StdRng| (most as f64).powf(rng.random()) as usize;
        match self {
            Self::Alike => most.min(30),
            Self::Mixed => mixed(rng),
            Self::FewLong if rng.random_bool(0.01) => mixed(rng),
            Self::FewLong => rng.random_range(1..=8.min(most)),
        }
    }
}

impl Shape {
    fn draw(rng: &mut StdRng, vectors: bool, most_bytes: usize) -> Self {
        let elements = match vectors {
            true => Elements::Vectors { dimensions: *[2, 8, 64, 300, 4096].choose(rng).unwrap() },
            false if rng.random_bool(0.7) => Elements::Integers,
            false => Elements::Texts,
        };
        let bytes = 1 << rng.random_range(14..=most_bytes.ilog2());
        Self {
            elements,
            sizes: *[Sizes::Alike, Sizes::Mixed, Sizes::FewLong].choose(rng).unwrap(),
            bytes,
            most: (bytes / 8) >> rng.random_range(0..8),
            keys: *[1, 7, 1000].choose(rng).unwrap(),
            text: if rng.random_bool(0.4) { (bytes / 8) >> rng.random_range(0..8) } else { 0 },
        }
    }

    /// Batches with an `id`, a key `k`, a text `s` and the sets or vectors `v`.
    fn batches(&self, rng: &mut StdRng) -> Vec<RecordBatch> {
        let (mut bytes, mut id) = (0, 0);
        let mut batches = vec![];
        while bytes < self.bytes {
            let mut of_batch = 0;
            let (mut ids, mut keys, mut texts) = (vec![], vec![], StringBuilder::new());
            let mut numbers = ListBuilder::new(Int64Builder::new());
            let mut words = ListBuilder::new(StringBuilder::new());
            let mut vectors = ListBuilder::new(Float32Builder::new());
            while of_batch < (self.bytes / 4).min(1 << 20) && ids.len() < 8192 {
                ids.push(id);
                keys.push(rng.random_range(0..self.keys));
                id += 1;
                let text = Sizes::Mixed.draw(rng, self.text.max(1)) - 1;
                texts.append_value("t".repeat(text));
                of_batch += text + 24;
                match self.elements {
                    Elements::Vectors { dimensions } => {
                        let near = f32::from(rng.random_range(0..50_u8));
                        for _ in 0..dimensions {
                            vectors.values().append_value(near + rng.random::<f32>());
                        }
                        vectors.append(true);
                        of_batch += 4 * dimensions;
                    }
                    Elements::Integers => {
                        let len = self.sizes.draw(rng, (self.most / 8).max(1)) as i64;
                        let first = rng.random_range(0..50) * (1 + len / 40);
                        numbers.values().append_slice(&(first..first + len).collect::<Vec<_>>());
                        numbers.append(true);
                        of_batch += 8 * len as usize;
                    }
                    Elements::Texts => {
                        let len = self.sizes.draw(rng, (self.most / 16).max(1));
                        let first = rng.random_range(0..50) * (1 + len / 40);
                        for word in first..first + len {
                            words.values().append_value(format!("a word {word:x}"));
                        }
                        words.append(true);
                        of_batch += 16 * len;
                    }
                }
            }
            bytes += of_batch;
            let values: ArrayRef = match self.elements {
                Elements::Vectors { .. } => Arc::new(vectors.finish()),
                Elements::Integers => Arc::new(numbers.finish()),
                Elements::Texts => Arc::new(words.finish()),
            };
            let columns: [(&str, ArrayRef); 4] = [
                ("id", Arc::new(Int64Array::from(ids))),
                ("k", Arc::new(Int64Array::from(keys))),
                ("s", Arc::new(StringArray::from(texts.finish()))),
                ("v", values),
            ];
            batches.push(RecordBatch::try_from_iter(columns).unwrap());
        }
        batches
    }
}

impl Case {
    fn draw(rng: &mut StdRng, most_bytes: usize) -> Self {
        let vectors = rng.random_bool(0.35);
        let mut shapes = vec![Shape::draw(rng, vectors, most_bytes)];
        if rng.random_bool(0.6) {
            let mut other = Shape::draw(rng, vectors, most_bytes);
            other.elements = match shapes[0].elements {
                Elements::Integers => Elements::Integers,
                Elements::Texts => Elements::Texts,
                Elements::Vectors { dimensions } => Elements::Vectors { dimensions },
            };
            shapes.push(other);
        }
        let strategies = if vectors { &OF_VECTORS } else { &STRATEGIES };
        let partitions = *[1, 2, 3, 8].choose(rng).unwrap();
        let session = Session {
            batch_size: *[512, 8192].choose(rng).unwrap(),
            partitions,
            ..Session::default()
        }
        .option("device", "cpu")
        .option("hash_join_rows_per_key", 0)
        .option("strategy", strategies.choose(rng).unwrap())
        .option("spill", ["auto", "auto", "auto", "auto", "always", "never"].choose(rng).unwrap())
        .option("build_side", ["auto", "left", "right"].choose(rng).unwrap());
        let mut limits = vec![rng.random_range((2 << 20) as f64..(24 << 20) as f64)];
        for _ in 0..4 {
            limits.push(limits[limits.len() - 1] * rng.random_range(1.02..1.7));
        }
        let sql = statement(rng, vectors, shapes.len() == 1);
        Self { shapes, sql, session, limits: limits.into_iter().map(|m| m as usize).collect() }
    }

    /// Runs the join under one limit after the other. Returns the runs that ended with a result and
    /// those that were refused memory; an error says where a greater limit did not do.
    async fn run(&self, seed: u64) -> Result<(usize, usize), String> {
        let mut rng = StdRng::seed_from_u64(seed);
        let tables: Vec<_> = self.shapes.iter().map(|shape| shape.batches(&mut rng)).collect();
        let (mut finished, mut refused) = (None, 0);
        let mut ends = 0;
        for &limit in &self.limits {
            let session = Session { memory: Some(limit), ..self.session.clone() };
            let ctx: SessionContext = session.context();
            for (name, batches) in ["l", "r"].iter().zip(&tables) {
                register_partitions(&ctx, name, vec![batches.clone()]);
            }
            let Ok(result) = tokio::time::timeout(PATIENCE, try_rows(&ctx, &self.sql)).await else {
                return Ok((ends, refused));
            };
            match (result, &finished) {
                (Ok(rows), None) => finished = Some((limit, rows)),
                (Ok(rows), Some((least, first))) if rows != *first => {
                    return Err(format!("{rows:?} within {limit}, {first:?} within {least}"));
                }
                (Ok(_), Some(_)) => {}
                // An aggregate's memory is its own.
                (Err(error), Some(_)) if !error.to_string().contains("SetSimilarityJoin") => {
                    return Ok((ends, refused));
                }
                (Err(error), Some((least, _))) => {
                    return Err(format!("finishes within {least}, not within {limit}: {error}"));
                }
                (Err(error), None) => {
                    if !is_refusal(&error) {
                        return Err(format!("within {limit}: {error}"));
                    }
                    refused += 1;
                    continue;
                }
            }
            ends += 1;
        }
        Ok((ends, refused))
    }
}

fn is_refusal(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// A join with one row as its result.
fn statement(rng: &mut StdRng, vectors: bool, itself: bool) -> String {
    let pick = |rng: &mut StdRng, of: &[&'static str]| *of.choose(rng).unwrap();
    let mut on = match vectors {
        true => pick(
            rng,
            &[
                "array_distance(a.v, b.v) <= 0.3",
                "array_distance(a.v, b.v) <= 3",
                "cosine_distance(a.v, b.v) <= 0.0001",
            ],
        ),
        false => pick(
            rng,
            &[
                "jaccard(a.v, b.v) >= 0.9",
                "jaccard(a.v, b.v) >= 0.97",
                "set_cosine(a.v, b.v) >= 0.95",
                "containment(a.v, b.v) >= 0.99",
            ],
        ),
    }
    .to_string();
    for condition in ["a.id < b.id", "a.k = b.k", "length(a.s) + length(b.s) <> 5"] {
        if rng.random_bool(0.4) {
            on = format!("{on} AND {condition}");
        }
    }
    let right = if itself { "l" } else { "r" };
    let join = |kind: &str| format!("l a {kind} SIMJOIN {right} b ON {on}");
    match rng.random_range(0..6) {
        0 | 1 => format!("SELECT count(*) AS n FROM {}", join("")),
        2 => format!("SELECT count(*) AS n, sum(a.id + 3 * b.id) AS s FROM {}", join("")),
        3 => format!(
            "SELECT sum(x.id + 3 * y) AS s, sum(length(s)) AS t FROM \
             (SELECT a.id, a.s, b.id AS y FROM {}) x",
            join(pick(rng, &["", "LEFT", "FULL"]))
        ),
        4 => format!(
            "SELECT count(*) AS n, sum(a.id) AS s FROM {}",
            join(pick(rng, &["LEFT SEMI", "LEFT ANTI"]))
        ),
        _ => format!(
            "SELECT sum(n * id) AS s FROM (SELECT a.id, count(b.id) AS n FROM {} GROUP BY a.id)",
            join("LEFT")
        ),
    }
}

/// Sets of up to 16,000 tokens: with the buffers of eight partitions, the build side just fits or
/// does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_with_large_cursors_find_their_memory() {
    let all = [24, 32, 36, 40, 44, 48, 56].map(|megabytes| (megabytes, "auto"));
    for (megabytes, spill) in all.into_iter().chain([(56, "never")]) {
        let memory = Some(megabytes << 20);
        let session = Session { memory, partitions: 8, ..Session::on_cpu() };
        let ctx = session.option("spill", spill).context();
        let create = "CREATE TABLE c AS SELECT value AS id, \
                      range(value*131%3000, value*131%3000+1+(value*739)%16000) AS t \
                      FROM generate_series(1, 400)";
        ctx.sql(create).await.unwrap().collect().await.unwrap();
        let sql = "SELECT count(*) AS n FROM c a JOIN c b \
                   ON jaccard(a.t, b.t) >= 0.9 AND a.id < b.id";
        assert_eq!(rows(&ctx, sql).await, ["2262"], "within {megabytes} MB");
    }
}

/// One row is as large as a hundred thousand others, and matches many: no batch of the answer is
/// larger than a 32nd of the limit, and the largest row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_cut_by_the_bytes_of_their_rows() {
    const LIMIT: usize = 64 << 20;
    const ROW: usize = 20_000 * 8;
    let create = [
        "CREATE TABLE a AS SELECT value AS id, CASE WHEN value = 5 THEN range(0, 20000) \
         ELSE make_array(value + 2000000) END AS t FROM generate_series(1, 50000)",
        "CREATE TABLE b AS SELECT value AS id, make_array(value, value + 1) AS t \
         FROM generate_series(1, 300)",
    ];
    let on = "containment(b.t, a.t) >= 1.0";
    for build_side in ["left", "right"] {
        for spill in ["auto", "always"] {
            let session = Session { memory: Some(LIMIT), ..Session::on_cpu() };
            let ctx = session.option("build_side", build_side).option("spill", spill).context();
            for sql in create {
                ctx.sql(sql).await.unwrap().collect().await.unwrap();
            }
            for (join, expected) in [
                (format!("a SIMJOIN b ON {on}"), 300),
                (format!("a SIMJOIN b ON {on} AND a.t[b.id] <> 7"), 299),
                (format!("a LEFT SIMJOIN b ON {on}"), 300 + 49_999),
            ] {
                let sql = format!("SELECT a.t, b.id FROM {join}");
                let mut stream = plan(&ctx, &sql).await.unwrap().execute_stream().await.unwrap();
                let (mut found, mut most) = (0, 0);
                while let Some(batch) = stream.next().await {
                    let batch = batch.unwrap();
                    found += batch.num_rows();
                    let bytes = batch.columns().iter().map(|c| c.to_data().get_slice_memory_size());
                    let bytes = bytes.map(Result::unwrap).sum::<usize>();
                    most = most.max(if batch.num_rows() > 1 { bytes } else { 0 });
                }
                assert_eq!(found, expected, "{sql}");
                assert!(
                    most <= LIMIT / 32,
                    "{most} bytes in a batch: {sql}, {build_side}, {spill}"
                );
                assert!(most > 2 * ROW, "{most}: no batch of several rows holds a long one: {sql}");
            }
        }
    }
}

/// Ranks of the rows of two inputs, which only save time, took the memory that the join needed, where
/// just enough of it was left for them. (Seed 57,000,100 of a longer run.)
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn ranks_leave_the_memory_that_a_join_needs() {
    let shape = |sizes, bytes, most| Shape {
        elements: Elements::Integers,
        sizes,
        bytes,
        most,
        keys: 1,
        text: 0,
    };
    let session = Session::on_cpu().option("strategy", "allpairs").option("spill", "never");
    let case = Case {
        shapes: vec![shape(Sizes::FewLong, 4 << 20, 4_096), shape(Sizes::Alike, 1 << 20, 131_072)],
        sql:
            "SELECT count(*) AS n FROM l a SIMJOIN r b ON jaccard(a.v, b.v) >= 0.9 AND a.id < b.id"
                .to_string(),
        session: session.option("build_side", "left"),
        limits: (24..56).map(|eighths| eighths << 17).collect(),
    };
    let (finished, _) = case.run(57_000_100).await.unwrap();
    assert!(finished > 20, "{finished} runs finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_finishes_within_a_limit_finishes_within_greater_ones() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = setting("SIMJOIN_LIMITS_SECONDS");
    let first = setting("SIMJOIN_LIMITS_SEED").unwrap_or(1);
    let most_bytes = match seconds {
        Some(_) => setting("SIMJOIN_LIMITS_MB").unwrap_or(100) as usize,
        None => 1,
    } << 20;
    let started = Instant::now();
    let (mut cases, mut finished, mut refused) = (0, 0, 0);
    let mut reports = vec![];
    for seed in first.. {
        let over = match seconds {
            Some(seconds) => started.elapsed() > Duration::from_secs(seconds),
            None => cases == 8,
        };
        if over || reports.len() == 10 {
            break;
        }
        let case = Case::draw(&mut StdRng::seed_from_u64(seed), most_bytes);
        cases += 1;
        match case.run(seed).await {
            Ok((ends, refusals)) => (finished, refused) = (finished + ends, refused + refusals),
            Err(what) => {
                eprintln!("seed {seed}: {what}\n{case:#?}\n");
                reports.push(format!("seed {seed}: {what}"));
            }
        }
    }
    eprintln!(
        "seeds from {first} on: {cases} cases, {finished} runs finished, {refused} refused memory"
    );
    assert!(reports.is_empty(), "{}", reports.join("\n"));
    assert!(finished > cases, "{finished} runs of {cases} cases finished");
}
