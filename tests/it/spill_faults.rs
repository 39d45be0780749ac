//! Joins from a disk that gives back other bytes than it took: every one is an error that names the
//! file, or the right answer.

use std::fs;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::execution::DiskManager;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use datafusion::prelude::SessionContext;
use futures::Stream;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::support::{Session, rows, try_rows};

/// Faults of a quick run; `SIMJOIN_TEST_FAULTS` asks for another number.
const FAULTS: usize = 80;
/// Faults of a session, which has its tables and runs one statement.
const EACH_SESSION: usize = 10;

/// Tables of integer sets, of text and of vectors; rows long enough for several blocks of a file.
const TABLES: [&str; 3] = [
    "CREATE TABLE a AS SELECT value AS id, repeat(chr(97 + value % 26), value % 300) AS name,
            range(value * 37 % 500, value * 37 % 500 + 3 + value * 13 % 60) AS toks
     FROM generate_series(1, 900)",
    "CREATE TABLE b AS SELECT value AS id, value % 7 AS key,
            word_tokens(concat_ws(' ', 'row', value % 50, value % 51, value % 3, 'of', value % 40))
            AS words
     FROM generate_series(1, 1000)",
    "CREATE TABLE c AS SELECT value AS id,
            make_array(sin(value), cos(value * 3), sin(value * 7), value % 5) AS v
     FROM generate_series(1, 1200)",
];

/// Answers that every value on disk changes.
const STATEMENTS: [&str; 5] = [
    "SELECT count(*), sum(x * 31 + y), sum(length(n)) FROM (
       SELECT p.id AS x, q.id AS y, p.name AS n
       FROM a p SIMJOIN a q ON jaccard(p.toks, q.toks) >= 0.6 AND p.id < q.id)",
    "SELECT count(*), sum(coalesce(x, 5) * 31 + coalesce(y, 3)), sum(length(n)) FROM (
       SELECT p.id AS x, q.id AS y, p.name AS n
       FROM a p FULL SIMJOIN (SELECT * FROM a WHERE id % 3 = 0) q
       ON containment(p.toks, q.toks) >= 0.8)",
    "SELECT count(*), sum(x * 31 + y) FROM (
       SELECT p.id AS x, q.id AS y
       FROM b p SIMJOIN b q ON dice(p.words, q.words) >= 0.8 AND p.key = q.key AND p.id < q.id)",
    "SELECT count(*), sum(id) FROM (
       SELECT p.id FROM b p LEFT ANTI SIMJOIN (SELECT * FROM b WHERE id % 2 = 0) q
       ON overlap(p.words, q.words) >= 5)",
    "SELECT count(*), sum(x * 31 + y) FROM (
       SELECT p.id AS x, q.id AS y
       FROM c p SIMJOIN c q ON array_distance(p.v, q.v) <= 0.3 AND p.id < q.id)",
];

/// A disk that changes one of its files before the file is read.
struct FaultyDisk {
    disk: Arc<DiskManager>,
    files: AtomicUsize,
    fault: Mutex<Option<Fault>>,
}

/// A fault that is still to come.
struct Fault {
    /// Among the files in the order in which they are made.
    file: usize,
    rng: StdRng,
}

impl FaultyDisk {
    /// A session that spills to a new faulty disk.
    fn session(session: &Session) -> (SessionContext, Arc<Self>) {
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::OsTmpDirectory);
        let disk = Arc::new(disk.build().unwrap());
        let faulty = Arc::new(Self { disk, files: AtomicUsize::new(0), fault: Mutex::new(None) });
        let factory = Arc::new(FaultyFiles(Arc::clone(&faulty)));
        let disk = DiskManagerBuilder::default().with_temp_file_factory(factory);
        (session.context_with(RuntimeEnvBuilder::new().with_disk_manager_builder(disk)), faulty)
    }
}

struct FaultyFiles(Arc<FaultyDisk>);

impl TempFileFactory for FaultyFiles {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        let number = self.0.files.fetch_add(1, Ordering::Relaxed);
        let file = self.0.disk.create_tmp_file(description)?;
        Ok(Arc::new(FaultyFile { file, number, disk: Arc::clone(&self.0) }))
    }
}

struct FaultyFile {
    file: Arc<dyn SpillFile>,
    number: usize,
    disk: Arc<FaultyDisk>,
}

impl SpillFile for FaultyFile {
    fn path(&self) -> Option<&std::path::Path> {
        self.file.path()
    }

    fn size(&self) -> Option<u64> {
        self.file.size()
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let mut fault = self.disk.fault.lock().unwrap();
        if let Some(mut happening) = fault.take_if(|fault| fault.file == self.number) {
            let path = self.path().unwrap();
            let content = fs::read(path).unwrap();
            let mut changed = content.clone();
            while changed == content {
                damage(&mut changed, &mut happening.rng);
            }
            fs::write(path, changed).unwrap();
        }
        self.file.read_stream()
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        self.file.open_writer()
    }
}

/// Changes what a file holds: mostly one bit.
fn damage(content: &mut Vec<u8>, rng: &mut StdRng) {
    let place = rng.random_range(0..content.len());
    let sector = place / 512 * 512..content.len().min(place / 512 * 512 + 512);
    match rng.random_range(0..20) {
        0 => content.truncate(place),
        1 => content[sector].fill(0),
        2 => content.push(0),
        3 => {
            let other = rng.random_range(0..content.len()) / 512 * 512;
            for (from, to) in (other..content.len()).zip(sector) {
                content.swap(from, to);
            }
        }
        _ => content[place] ^= 1 << rng.random_range(0..8),
    }
}

/// A session that joins from disk in some way.
fn draw(rng: &mut StdRng) -> Session {
    let pieces = [50, 200, 100_000].choose(rng).unwrap();
    let session = Session { batch_size: 256, ..Session::on_cpu() };
    session
        .option("spill", "always")
        .option("debug.spill_piece_rows", pieces)
        .option("debug.spill_bands", [1, 4, 16].choose(rng).unwrap())
}

async fn tables(ctx: &SessionContext) {
    for statement in TABLES {
        rows(ctx, statement).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_spill_files_give_errors_that_name_them() {
    let faults = std::env::var("SIMJOIN_TEST_FAULTS").ok().and_then(|text| text.parse().ok());
    let faults: usize = faults.unwrap_or(FAULTS);
    let whole = Session::on_cpu().context();
    tables(&whole).await;
    let mut expected = vec![];
    for statement in STATEMENTS {
        expected.push(rows(&whole, statement).await);
    }
    let mut happened = 0;
    for first in (0..faults).step_by(EACH_SESSION) {
        let mut rng = StdRng::seed_from_u64(first as u64);
        let (ctx, disk) = FaultyDisk::session(&draw(&mut rng));
        tables(&ctx).await;
        let compression = ["uncompressed", "lz4_frame", "zstd"].choose(&mut rng).unwrap();
        let set = format!("SET datafusion.execution.spill_compression = '{compression}'");
        rows(&ctx, &set).await;
        let number = rng.random_range(0..STATEMENTS.len());
        let (statement, expected) = (STATEMENTS[number], &expected[number]);
        // Without a fault, to learn how many files there are.
        assert_eq!(rows(&ctx, statement).await, *expected, "seed {first}");
        let files = disk.files.swap(0, Ordering::Relaxed);
        assert!(files > 0, "seed {first} writes nothing");
        for seed in first..faults.min(first + EACH_SESSION) {
            let mut rng = StdRng::seed_from_u64(seed as u64);
            let file = rng.random_range(0..files);
            *disk.fault.lock().unwrap() = Some(Fault { file, rng });
            let found = try_rows(&ctx, statement).await;
            disk.files.store(0, Ordering::Relaxed);
            if disk.fault.lock().unwrap().take().is_some() {
                // The file was not made, or not read.
                assert_eq!(found.unwrap(), *expected, "seed {seed}");
                continue;
            }
            happened += 1;
            let error = match found {
                Ok(found) => panic!("seed {seed}, {compression}: {found:?}, {statement}"),
                Err(error) => error.strip_backtrace(),
            };
            assert!(
                error.contains("the spill file /") && error.contains("changed it"),
                "seed {seed}: {error}"
            );
        }
    }
    assert!(happened * 10 >= faults * 9, "{happened} of {faults} faults happened");
}
