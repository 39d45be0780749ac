//! Random statements against nested loops.
//!
//! A *world* is a handful of small tables with all that is odd: NULL, empty and repeated sets,
//! dictionaries of lists, vectors of every magnitude, both zeros, NaN, empty files. Statements of a
//! world join by sets, by vectors or by both. A statement joins relations of it, which may
//! be joins themselves, shared or twisted copies of each other, unions or aggregates. Each statement
//! has two texts: one for the operator, and one in which no stock join but the nested loop can run
//! it, because equalities are written as pairs of inequalities, and in which expressions of one side
//! are columns of a subquery. The first is run by sessions with random options, in memory, from
//! disk, on a GPU or an emulated one, under limits and task by task, directly, prepared and through views
//! ([`crate::forms`]); every answer must be that of the second.
//!
//! By itself the test makes a few hundred comparisons. For a longer run:
//!
//! ```text
//! SIMJOIN_FUZZ_SECONDS=600 SIMJOIN_FUZZ_SEED=7 cargo test --release --test it fuzz -- --nocapture
//! ```

mod conditions;
mod device;
mod joins;
mod nearest;
mod statements;
mod vectors;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use datafusion::common::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion_simjoin::config::PositiveCount;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::support::{
    OF_VECTORS, ON_GPU, STRATEGIES, Session, VECTORS_WITH_GPU, WITH_GPU, difference, explain,
    needs_room, rows, try_rows, try_rows_in_a_form, try_rows_of_tasks,
};
use device::VerifiedOn;
use statements::Statement;
use world::{Joins, World};

const STATEMENTS_PER_WORLD: usize = 8;
const SESSIONS_PER_WORLD: usize = 5;
/// The time that a statement may take on a busy machine, where the nested loop has taken no longer than
/// [`ORACLE_PATIENCE`].
const PATIENCE: Duration = Duration::from_secs(120);
const ORACLE_PATIENCE: Duration = Duration::from_secs(3);
/// Reports of one run.
const MOST_REPORTS: usize = 10;

#[derive(Debug, Default)]
struct Tally {
    worlds: AtomicU64,
    comparisons: AtomicU64,
    /// Comparisons with an answer that is not empty.
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

    /// Prints what was compared, from the seed `first` on.
    fn print(&self, first: u64) {
        eprintln!(
            "seeds from {first} on: {} worlds, {} comparisons, {} of them with rows, {} statements \
             skipped, {} out of memory",
            self.worlds.load(Ordering::Relaxed),
            self.comparisons.load(Ordering::Relaxed),
            self.with_rows.load(Ordering::Relaxed),
            self.skipped.load(Ordering::Relaxed),
            self.out_of_memory.load(Ordering::Relaxed),
        );
    }

    fn is_full(&self) -> bool {
        self.reports.lock().unwrap().len() >= MOST_REPORTS
    }
}

/// A session with options drawn at random.
fn draw_session(rng: &mut StdRng, joins: Joins, gpu: Option<&VerifiedOn>) -> Session {
    let most = PositiveCount::MOST.to_string();
    let pick = |rng: &mut StdRng, values: &[&str]| values.choose(rng).unwrap().to_string();
    let partitions = *[1, 2, 5].choose(rng).unwrap();
    let session = Session {
        batch_size: *[1, 2, 7, 8192].choose(rng).unwrap(),
        partitions,
        memory: rng.random_bool(0.15).then(|| rng.random_range(4..10) << 20),
        tasks_of: (partitions > 1 && rng.random_bool(0.2)).then(|| rng.random_range(1..3)),
        ..Session::default()
    };
    // Each piece reads all batches of the other side: some hundred rows would be joined for minutes.
    let piece_rows: &[&str] = match session.batch_size {
        ..8 => &["auto", "50", "18446744073709551615"],
        _ => &["auto", "1", "4", "18446744073709551615"],
    };
    let gpu = gpu.filter(|_| rng.random_bool(0.2));
    // A device is demanded of every join of a statement, and a strategy asked for.
    let (strategy, device) = match (joins, gpu) {
        (Joins::Sets, Some(gpu)) if rng.random() => (pick(rng, &ON_GPU), gpu.option.as_str()),
        (Joins::Sets, Some(gpu)) => (pick(rng, &WITH_GPU), gpu.option.as_str()),
        (Joins::Sets, None) => (pick(rng, &STRATEGIES), "cpu"),
        (Joins::Vectors, Some(gpu)) => (pick(rng, &VECTORS_WITH_GPU), gpu.option.as_str()),
        (Joins::Vectors, None) => (pick(rng, &OF_VECTORS), "cpu"),
        (Joins::Both, gpu) => ("auto".to_string(), gpu.map_or("cpu", |_| "auto")),
    };
    // All vectors of a join have to fit on the device, and sets where no filter sends candidates.
    let limits: &[&str] = match joins == Joins::Vectors || needs_room(&strategy) {
        true => &["auto"],
        false => &["1", "auto"],
    };
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
        .option("gpu.memory_limit", pick(rng, limits))
        .option("debug.gpu_partition", pick(rng, &["10", "50000"]))
        .option("debug.gpu_integers", rng.random_bool(0.5))
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

/// A session with its options, as a report shows them.
struct Subject {
    session: Session,
    ctx: SessionContext,
    joins: Joins,
}

impl Subject {
    /// The value of an option of the session.
    fn option(&self, option: &str) -> Option<&String> {
        let options = self.session.options.iter();
        options.filter(|(name, _)| *name == option).map(|(_, value)| value).next_back()
    }

    /// Sets the strategy of the session, or `auto` where it does not serve the statement: no index
    /// serves inner products. And the rows of pieces on disk, a few where a join for each two pieces
    /// follows.
    async fn set_options_for(&self, statement: &Statement) {
        let piece_rows = match self.option("debug.spill_piece_rows").map(String::as_str) {
            Some("1") if statement.ours.contains(" NEAREST ") => "6",
            Some(rows) => rows,
            None => "auto",
        };
        rows(&self.ctx, &format!("SET simjoin.debug.spill_piece_rows = '{piece_rows}'")).await;
        let strategy = match self.option("strategy") {
            Some(index)
                if self.joins == Joins::Vectors
                    && !VECTORS_WITH_GPU.contains(&index.as_str())
                    && statement.ours.contains("product(") =>
            {
                "auto"
            }
            Some(named) => named,
            None => "auto",
        };
        rows(&self.ctx, &format!("SET simjoin.strategy = '{strategy}'")).await;
    }
}

/// Compares the statements of one world.
async fn compare_world(seed: u64, gpu: Option<&VerifiedOn>, tally: &Tally) {
    let mut rng = StdRng::seed_from_u64(seed);
    let world = World::draw(&mut rng);
    let oracle = Session::default().option("recognize_joins", false).context();
    let oracle = world.prepare(oracle).await;
    world.write_files(&oracle).await;
    let mut subjects = vec![];
    for _ in 0..SESSIONS_PER_WORLD {
        let session = draw_session(&mut rng, world.joins, gpu);
        let ctx = world.prepare(session.context()).await;
        subjects.push(Subject { session, ctx, joins: world.joins });
    }
    for _ in 0..STATEMENTS_PER_WORLD {
        let statement = Statement::draw(&mut rng, &world);
        match oracle_answer(&oracle, &statement).await {
            Ok(expected) => {
                let whence = || format!("seed {seed}\n{}", world.setup());
                compare_statement(&statement, &expected, &subjects, whence, tally).await;
            }
            Err(reason) => {
                tally.skipped.fetch_add(1, Ordering::Relaxed);
                if std::env::var_os("SIMJOIN_FUZZ_SKIPPED").is_some() {
                    eprintln!("skipped: {reason}\n{}\n", statement.oracle);
                }
            }
        }
    }
    tally.worlds.fetch_add(1, Ordering::Relaxed);
}

/// The rows that the nested loop gives, or why it gives none.
async fn oracle_answer(
    oracle: &SessionContext,
    statement: &Statement,
) -> Result<Vec<String>, String> {
    let answer = try_rows(oracle, &statement.oracle);
    match tokio::time::timeout(ORACLE_PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer after {ORACLE_PATIENCE:?}")),
    }
}

/// Runs a statement in each session, up to the first whose answer differs. `whence` tells the seed
/// and the tables.
async fn compare_statement(
    statement: &Statement,
    expected: &[String],
    subjects: &[Subject],
    whence: impl Fn() -> String,
    tally: &Tally,
) {
    for subject in subjects {
        subject.set_options_for(statement).await;
        let Subject { session, ctx, .. } = subject;
        let fault = match tokio::time::timeout(PATIENCE, answer(session, ctx, statement)).await {
            Ok(Err(error)) if is_out_of_memory(&error) && session.memory.is_some() => {
                tally.out_of_memory.fetch_add(1, Ordering::Relaxed);
                None
            }
            Ok(Err(error)) => Some(format!("an error: {error}")),
            Err(_) => Some(format!("no answer after {PATIENCE:?}")),
            Ok(Ok(found)) => {
                tally.comparisons.fetch_add(1, Ordering::Relaxed);
                tally.with_rows.fetch_add(u64::from(!expected.is_empty()), Ordering::Relaxed);
                match difference(&found, expected) {
                    Some(difference) => {
                        Some(format!("{difference}{}", explain(ctx, &statement.ours).await))
                    }
                    None => None,
                }
            }
        };
        if let Some(fault) = fault {
            let Statement { ours, oracle, .. } = statement;
            let whence = whence();
            tally.report(format!("{fault}\n{ours}\nexpected by\n{oracle}\n{session:?}\n{whence}"));
            return;
        }
    }
}

/// The rows that the operator gives in a session.
async fn answer(
    session: &Session,
    ctx: &SessionContext,
    statement: &Statement,
) -> datafusion::common::Result<Vec<String>> {
    match session.tasks_of {
        Some(partitions) => try_rows_of_tasks(ctx, &statement.ours, vec![], partitions).await,
        None => try_rows_in_a_form(ctx, &statement.ours).await,
    }
}

fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is {value}, not a number")))
}

/// The worlds that remain to be compared: the threads of the test share them.
#[derive(Debug)]
struct Worlds {
    /// The seed of the next world.
    next: AtomicU64,
    /// The seed behind the last one.
    end: u64,
    ends_at: Option<Instant>,
}

impl Worlds {
    fn take(&self, tally: &Tally) -> Option<u64> {
        let in_time = self.ends_at.is_none_or(|end| Instant::now() < end);
        let seed = self.next.fetch_add(1, Ordering::Relaxed);
        (seed < self.end && in_time && !tally.is_full()).then_some(seed)
    }
}

/// Compares worlds until none remains, on as many threads as there are processors.
fn compare_worlds(worlds: &Worlds, tally: &Tally) {
    let gpu = VerifiedOn::new();
    let compare = || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).thread_stack_size(16 << 20).enable_all();
        let runtime = runtime.build().unwrap();
        while let Some(seed) = worlds.take(tally) {
            runtime.block_on(compare_world(seed, gpu.as_ref(), tally));
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let thread = std::thread::Builder::new().stack_size(64 << 20);
            thread.spawn_scoped(scope, compare).unwrap();
        }
    });
}

#[test]
fn random_statements_equal_nested_loops() {
    let first = number("SIMJOIN_FUZZ_SEED").unwrap_or(1);
    let seconds = number("SIMJOIN_FUZZ_SECONDS");
    let worlds = Worlds {
        next: AtomicU64::new(first),
        end: if seconds.is_some() { u64::MAX } else { first.saturating_add(12) },
        ends_at: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
    };
    let tally = Tally::default();
    compare_worlds(&worlds, &tally);
    tally.print(first);
    let reports = tally.reports.lock().unwrap();
    assert!(reports.is_empty(), "{} statements differ, the first:\n{}", reports.len(), reports[0]);
    let compared = tally.comparisons.load(Ordering::Relaxed);
    let with_rows = tally.with_rows.load(Ordering::Relaxed);
    let enough = seconds.map_or(200, |seconds| seconds.saturating_sub(5));
    assert!(compared >= enough && with_rows >= compared / 3, "{with_rows} of {compared} have rows");
    let skipped = tally.skipped.load(Ordering::Relaxed);
    assert!(skipped <= compared / 10, "{skipped} statements were skipped");
}
