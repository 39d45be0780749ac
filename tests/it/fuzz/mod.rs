//! Random statements against nested loops.
//!
//! A *world* is a handful of small tables with all that is odd: NULL, empty and repeated sets,
//! dictionaries of lists, both zeros, NaN, empty files. A statement joins relations of it, which may
//! be joins themselves, shared or twisted copies of each other, unions or aggregates. Each statement
//! has two texts: one for the operator, and one in which no stock join but the nested loop can run
//! it, because equalities are written as pairs of inequalities, and in which expressions of one side
//! are columns of a subquery. The first is run by sessions with random options, in memory, from
//! disk, on a GPU or an emulated one, under limits and task by task; every answer must be that of
//! the second.
//!
//! By itself the test makes a few hundred comparisons. For a longer run:
//!
//! ```text
//! SIMJOIN_FUZZ_SECONDS=600 SIMJOIN_FUZZ_SEED=7 cargo test --release --test it fuzz -- --nocapture
//! ```

mod conditions;
mod device;
mod joins;
mod statements;
mod world;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use datafusion::common::DataFusionError;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::support::{STRATEGIES, Session, difference, explain, try_rows, try_rows_of_tasks};
use device::VerifiedOn;
use statements::Statement;
use world::World;

const STATEMENTS_PER_WORLD: usize = 8;
const SESSIONS_PER_WORLD: usize = 5;
/// What a statement may take on a busy machine, where the nested loop has taken no longer than
/// [`ORACLE_PATIENCE`].
const PATIENCE: Duration = Duration::from_secs(120);
const ORACLE_PATIENCE: Duration = Duration::from_secs(3);
/// Reports of one run.
const MOST_REPORTS: usize = 10;

#[derive(Debug, Default)]
struct Tally {
    worlds: AtomicU64,
    comparisons: AtomicU64,
    /// Of these, those with an answer that is not empty.
    with_rows: AtomicU64,
    /// Statements that the stock engine cannot run, or not in time.
    skipped: AtomicU64,
    /// Joins that a memory limit of a few megabytes was too small for.
    out_of_memory: AtomicU64,
    reports: Mutex<Vec<String>>,
}

impl Tally {
    fn report(&self, text: String) {
        eprintln!("{text}\n");
        self.reports.lock().unwrap().push(text);
    }

    fn is_full(&self) -> bool {
        self.reports.lock().unwrap().len() >= MOST_REPORTS
    }
}

/// A session with options drawn at random.
fn draw_session(rng: &mut StdRng, gpu: Option<&VerifiedOn>) -> Session {
    let most = u32::MAX.to_string();
    let pick = |rng: &mut StdRng, values: &[&str]| values.choose(rng).unwrap().to_string();
    let partitions = *[1, 2, 5].choose(rng).unwrap();
    let session = Session {
        batch_size: *[1, 2, 7, 8192].choose(rng).unwrap(),
        partitions,
        memory: rng.random_bool(0.15).then(|| rng.random_range(4..10) << 20),
        tasks_of: (partitions > 1 && rng.random_bool(0.2)).then(|| rng.random_range(1..3)),
        ..Session::default()
    };
    let strategy = pick(rng, &STRATEGIES);
    // Each piece reads all batches of the other side: some hundred rows would be joined for minutes.
    let piece_rows: &[&str] = match session.batch_size {
        ..8 => &["auto", "50", "18446744073709551615"],
        _ => &["auto", "1", "4", "18446744073709551615"],
    };
    // The bitmap strategy runs on the CPU alone.
    let gpu = gpu.filter(|_| strategy != "bitmap" && rng.random_bool(0.2));
    let device = gpu.map_or("cpu", |gpu| gpu.option.as_str());
    let mut session = session
        .option("hash_join_rows_per_key", 0)
        .option("strategy", strategy)
        .option("build_side", pick(rng, &["auto", "left", "right"]))
        .option("self_join", rng.random_bool(0.8))
        .option("debug.simd", pick(rng, &["auto", "portable"]))
        .option("debug.candidate_chunk", pick(rng, &["1", "5", "16384", &most]))
        .option("debug.match_buffer", pick(rng, &["1", "6", "16384", &most]))
        .option("spill", pick(rng, &["auto", "never", "always"]))
        .option("debug.spill_bands", pick(rng, &["1", "3", "64", &most]))
        .option("debug.spill_piece_rows", pick(rng, piece_rows))
        .option("gpu.candidate_memory", pick(rng, &["1", "600", "2M"]))
        .option("gpu.memory_limit", pick(rng, &["1", "auto"]))
        .option("device", device);
    if session.tasks_of.is_some() {
        session = session
            .option("distribution", pick(rng, &["auto", "broadcast", "repartition", "repartition"]))
            .option("broadcast_limit", pick(rng, &["1", "64M"]));
    }
    if session.memory.is_some() {
        // Buffers of these sizes have to fit as well.
        session = session.option("debug.candidate_chunk", 1000).option("debug.match_buffer", 1000);
    }
    session
}

/// Compares the statements of one world.
async fn compare_world(seed: u64, gpu: Option<&VerifiedOn>, tally: &Tally) {
    let mut rng = StdRng::seed_from_u64(seed);
    let world = World::draw(&mut rng);
    let oracle = Session::default().option("recognize_joins", false).context();
    let oracle = world.prepare(oracle).await;
    world.write_files(&oracle).await;
    let mut sessions = vec![];
    for _ in 0..SESSIONS_PER_WORLD {
        let session = draw_session(&mut rng, gpu);
        let ctx = world.prepare(session.context()).await;
        sessions.push((session, ctx));
    }
    for _ in 0..STATEMENTS_PER_WORLD {
        let statement = Statement::draw(&mut rng, &world);
        let answer = try_rows(&oracle, &statement.oracle);
        let reason = match tokio::time::timeout(ORACLE_PATIENCE, answer).await {
            Ok(Ok(expected)) => Ok(expected),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer after {ORACLE_PATIENCE:?}")),
        };
        let expected = match reason {
            Ok(expected) => expected,
            Err(reason) => {
                tally.skipped.fetch_add(1, Ordering::Relaxed);
                if std::env::var_os("SIMJOIN_FUZZ_SKIPPED").is_some() {
                    eprintln!("skipped: {reason}\n{}\n", statement.oracle);
                }
                continue;
            }
        };
        for (session, ctx) in &sessions {
            let answer = async {
                match session.tasks_of {
                    Some(partitions) => {
                        try_rows_of_tasks(ctx, &statement.ours, vec![], partitions).await
                    }
                    None => try_rows(ctx, &statement.ours).await,
                }
            };
            let what = || {
                format!(
                    "seed {seed}\n{}\nexpected by\n{}\n{session:?}\n{}",
                    statement.ours,
                    statement.oracle,
                    world.setup()
                )
            };
            let found = match tokio::time::timeout(PATIENCE, answer).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) if is_out_of_memory(&error) && session.memory.is_some() => {
                    tally.out_of_memory.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Ok(Err(error)) => {
                    tally.report(format!("an error: {error}\n{}", what()));
                    break;
                }
                Err(_) => {
                    tally.report(format!("no answer after {PATIENCE:?}\n{}", what()));
                    break;
                }
            };
            tally.comparisons.fetch_add(1, Ordering::Relaxed);
            tally.with_rows.fetch_add(u64::from(!expected.is_empty()), Ordering::Relaxed);
            if let Some(difference) = difference(&found, &expected) {
                let plan = explain(ctx, &statement.ours).await;
                tally.report(format!("{difference}{}\n{plan}", what()));
                break;
            }
        }
    }
    tally.worlds.fetch_add(1, Ordering::Relaxed);
}

fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is {value}, not a number")))
}

#[test]
fn random_statements_equal_nested_loops() {
    let first = number("SIMJOIN_FUZZ_SEED").unwrap_or(1);
    let seconds = number("SIMJOIN_FUZZ_SECONDS");
    let ends = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let worlds = if seconds.is_some() { u64::MAX } else { 12 };
    let gpu = Arc::new(VerifiedOn::new());
    let tally = Arc::new(Tally::default());
    let next = Arc::new(AtomicU64::new(0));
    let stopped = Arc::new(AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let (tally, next) = (Arc::clone(&tally), Arc::clone(&next));
            let (stopped, gpu) = (Arc::clone(&stopped), Arc::clone(&gpu));
            std::thread::Builder::new()
                .stack_size(64 << 20)
                .spawn(move || {
                    let runtime = tokio::runtime::Builder::new_multi_thread()
                        .worker_threads(2)
                        .thread_stack_size(16 << 20)
                        .enable_all()
                        .build()
                        .unwrap();
                    loop {
                        let world = next.fetch_add(1, Ordering::Relaxed);
                        let over = ends.is_some_and(|ends| Instant::now() >= ends);
                        if world >= worlds || over || stopped.load(Ordering::Relaxed) {
                            return;
                        }
                        runtime.block_on(compare_world(
                            first + world,
                            gpu.as_ref().as_ref(),
                            &tally,
                        ));
                        if tally.is_full() {
                            stopped.store(true, Ordering::Relaxed);
                        }
                    }
                })
                .unwrap()
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    eprintln!(
        "seeds from {first} on: {} worlds, {} comparisons, {} of them with rows, {} statements \
         skipped, {} out of memory",
        tally.worlds.load(Ordering::Relaxed),
        tally.comparisons.load(Ordering::Relaxed),
        tally.with_rows.load(Ordering::Relaxed),
        tally.skipped.load(Ordering::Relaxed),
        tally.out_of_memory.load(Ordering::Relaxed),
    );
    let reports = tally.reports.lock().unwrap();
    assert!(reports.is_empty(), "{} statements differ, the first:\n{}", reports.len(), reports[0]);
    let (compared, with_rows) = (&tally.comparisons, &tally.with_rows);
    let (compared, with_rows) =
        (compared.load(Ordering::Relaxed), with_rows.load(Ordering::Relaxed));
    let enough = seconds.map_or(200, |seconds| seconds.saturating_sub(5));
    assert!(compared >= enough && with_rows >= compared / 3, "{with_rows} of {compared} have rows");
    let skipped = tally.skipped.load(Ordering::Relaxed);
    assert!(skipped <= compared / 10, "{skipped} statements were skipped");
}
