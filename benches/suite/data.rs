//! Data sets by name: real ones from a folder of Parquet files, generated ones, and any file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use arrow::array::{Array, ArrayRef};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_simjoin::install;
use datafusion_simjoin::internals::engine::{EncodeInput, FinishContext, KeyDictionary};
use datafusion_simjoin::internals::set::encode::finish;
use datafusion_simjoin::internals::set::{BuildEncoder, SetCollection};
use datafusion_simjoin::internals::util::cancel::CancelFlag;
use datafusion_simjoin::internals::util::parallel::Threads;
use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::generate;
use crate::machine;
use crate::memory::PeakPool;

/// Where data comes from.
#[derive(Debug, Clone, clap::Args)]
pub struct DataOptions {
    /// Folder with the real data sets, as NAME.parquet
    #[arg(long, value_name = "DIR", env = "SIMJOIN_BENCH_DATA", default_value = "data")]
    pub data_dir: PathBuf,
    /// Folder that keeps generated data sets
    #[arg(long, value_name = "DIR", default_value = "target/bench-data")]
    pub generated_dir: PathBuf,
    /// Data sets: the name of a real one, NAME@ROWS or NAME@SCALE (1/16) of a generated one, or
    /// FILE.parquet with a list column `tokens`
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub data: Vec<String>,
}

/// Real data sets whose sets are not simply the column `tokens` of NAME.parquet: the files, and
/// the sets made of their texts. Repeated texts are dropped where `distinct`.
const TEXTS: &[(&str, &[&str], &str, bool)] = &[
    ("abcnews_3g", &["abcnews_74k"], "qgrams(text, 3)", false),
    ("glottolog_2g", &["glottolog_refs"], "qgrams(text, 2)", true),
    ("papers_2g", &["ml_papers"], "qgrams(text, 2)", true),
    ("biblio_2g", &["glottolog_refs", "ml_papers"], "qgrams(text, 2)", true),
    ("imdb_dbpedia_3g", &["imdb_dbpedia_a", "imdb_dbpedia_b"], "qgrams(text, 3)", false),
];

/// Any other file of texts, by the end of the name.
const TOKENIZED: &[(&str, &str)] =
    &[("_2g", "qgrams(text, 2)"), ("_3g", "qgrams(text, 3)"), ("_words", "word_tokens(text)")];

/// The data sets on which the project states its speed, small sets first.
pub const STATED: &[&str] = &[
    "retail",
    "kosarak_36k",
    "tags_askubuntu",
    "dblp_coauthors",
    "accidents_15k",
    "ego_twitter",
    "imdb_reviews",
    "abcnews_3g",
    "zipf10@1",
    "zipf55@1",
];

/// Bibliographic texts in character 2-grams: the collections in which sets are mid-sized and
/// tokens few.
pub const BIBLIOGRAPHIC: &[&str] = &["glottolog_2g", "biblio_2g", "dblp@64000", "dblp@128000"];

/// A data set found by name.
#[derive(Debug, Clone)]
pub struct DataSet {
    pub name: String,
    /// A query of one column, `tokens`.
    query: String,
    /// A query of `id` and `tokens`.
    pub table: String,
}

impl DataOptions {
    /// The data sets asked for, those of `default` when none is.
    pub fn names(&self, default: &[&str]) -> Vec<String> {
        match self.data.is_empty() {
            true => default.iter().map(|name| name.to_string()).collect(),
            false => self.data.clone(),
        }
    }

    /// Finds a data set; a generated one is made if it is not there yet.
    ///
    /// # Errors
    ///
    /// When there is no such file or collection.
    pub fn find(&self, name: &str) -> Result<DataSet> {
        let real = |file: &str| self.data_dir.join(format!("{file}.parquet"));
        if let Some((collection, amount)) = name.split_once('@') {
            let (file, sets) = generate::cached(collection, amount, &self.generated_dir)?;
            return Ok(DataSet::of(name, &[file], sets, false));
        }
        if let Some((_, files, sets, distinct)) = TEXTS.iter().find(|(n, ..)| *n == name) {
            let files: Vec<PathBuf> = files.iter().map(|file| real(file)).collect();
            return DataSet::of(name, &files, sets, *distinct).checked(&files);
        }
        for (suffix, sets) in TOKENIZED {
            if let Some(file) = name.strip_suffix(suffix).map(real).filter(|file| file.is_file()) {
                return Ok(DataSet::of(name, &[file], sets, false));
            }
        }
        let file = if name.ends_with(".parquet") { name.into() } else { real(name) };
        let short = Path::new(name).file_stem().and_then(|s| s.to_str()).unwrap_or(name);
        DataSet::of(short, std::slice::from_ref(&file), "tokens", false).checked(&[file])
    }
}

impl DataSet {
    fn of(name: &str, files: &[PathBuf], sets: &str, distinct: bool) -> Self {
        let from_file = |file: &PathBuf| match sets {
            "tokens" => format!("SELECT id, tokens FROM '{}'", file.display()),
            _ => format!("SELECT id, lower(text) AS text FROM '{}'", file.display()),
        };
        let rows = files.iter().map(from_file).collect::<Vec<_>>().join(" UNION ALL ");
        let table = match (sets, distinct) {
            ("tokens", _) => rows,
            (_, false) => format!("SELECT id, {sets} AS tokens FROM ({rows})"),
            (_, true) => format!(
                "SELECT id, {sets} AS tokens FROM (SELECT min(id) AS id, text FROM ({rows}) GROUP BY text)"
            ),
        };
        Self { name: name.to_string(), query: format!("SELECT tokens FROM ({table})"), table }
    }

    fn checked(self, files: &[PathBuf]) -> Result<Self> {
        match files.iter().find(|file| !file.is_file()) {
            None => Ok(self),
            Some(file) => exec_err!(
                "data set {}: there is no {}; name the folder of the real data with --data-dir",
                self.name,
                file.display()
            ),
        }
    }

    /// Reads the sets of all rows, tokenising texts.
    pub fn read(&self) -> Result<Vec<ArrayRef>> {
        let runtime = tokio::runtime::Runtime::new()?;
        let context = session(SessionConfig::new())?;
        let batches =
            runtime.block_on(async { context.sql(&self.query).await?.collect().await })?;
        Ok(batches.iter().map(|batch| Arc::clone(batch.column(0))).collect())
    }
}

/// A session with the similarity join and with tables by file name.
pub fn session(config: SessionConfig) -> Result<SessionContext> {
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    Ok(SessionContext::new_with_state(install(builder)?.build()).enable_url_table())
}

/// A collection with what its making took.
pub struct Encoded {
    pub name: String,
    pub sets: Arc<SetCollection>,
    /// Tokens in the lists, repeats within a list included.
    pub tokens: usize,
    pub seconds: f64,
    /// Processor time of all threads; wall time where the system does not tell.
    pub processor_seconds: f64,
    /// The most memory reserved while encoding.
    pub peak_bytes: usize,
}

impl Encoded {
    /// The bytes of the distinct sets in CSR form: tokens of 4 bytes, offsets of 8.
    pub fn csr_bytes(&self) -> usize {
        self.sets.token_count() * 4 + self.sets.len() as usize * 8
    }
}

/// Encodes lists as the build side of a join: threads take batches in turn, then order tokens and
/// sets together, as the operator's partitions do.
pub fn encode(name: &str, lists: &[ArrayRef], threads: usize) -> Result<Encoded> {
    let pool = Arc::new(PeakPool::default());
    let shared: Arc<dyn MemoryPool> = Arc::clone(&pool) as _;
    let reservation = MemoryConsumer::new("encode").register(&shared);
    let tokens = lists.iter().map(element_count).sum::<Result<usize>>()?;
    let starts: Vec<u32> = lists
        .iter()
        .scan(0, |rows, list| {
            let start = *rows;
            *rows += list.len() as u32;
            Some(start)
        })
        .collect();
    let next = AtomicUsize::new(0);
    let read = || -> Result<(BuildEncoder, KeyDictionary)> {
        let mut encoder = BuildEncoder::default();
        let mut keys = KeyDictionary::default();
        loop {
            let batch = next.fetch_add(1, Ordering::Relaxed);
            let Some(lists) = lists.get(batch) else { return Ok((encoder, keys)) };
            let input = EncodeInput { values: lists, keys: None, filter: None };
            encoder.push_at(starts[batch], &input, &mut keys, &reservation, 0)?;
        }
    };
    let (start, processor) = (Instant::now(), machine::processor_seconds());
    let encoders = on_threads(threads, read)?;
    let cancel = CancelFlag::default();
    let context = FinishContext {
        reservation: &reservation,
        base: 0,
        peak: &|| (),
        cancel: &cancel,
        threads: Threads::usual(threads),
        meets_others: true,
        self_join: true,
        probe: None,
    };
    let (sets, ..) = finish(encoders, &context)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Encoded {
        name: name.to_string(),
        sets: Arc::new(sets),
        tokens,
        seconds,
        processor_seconds: machine::processor_seconds_since(processor).unwrap_or(seconds),
        peak_bytes: pool.peak(),
    })
}

/// The results of `work` on `threads` threads, which wait for it as those of the operator's runtime
/// do; on this one where it is alone.
pub fn on_threads<T: Send>(threads: usize, work: impl Fn() -> Result<T> + Sync) -> Result<Vec<T>> {
    static POOLS: Mutex<BTreeMap<usize, Arc<ThreadPool>>> = Mutex::new(BTreeMap::new());
    if threads <= 1 {
        return Ok(vec![work()?]);
    }
    let mut pools = POOLS.lock();
    let pool = match pools.get(&threads) {
        Some(pool) => Arc::clone(pool),
        None => {
            let made = ThreadPoolBuilder::new().num_threads(threads).build();
            let made = made.map_err(|error| DataFusionError::External(Box::new(error)))?;
            Arc::clone(pools.entry(threads).or_insert(Arc::new(made)))
        }
    };
    drop(pools);
    pool.broadcast(|_| work()).into_iter().collect()
}

fn element_count(lists: &ArrayRef) -> Result<usize> {
    use arrow::array::AsArray;
    let (first, last) = match (lists.as_list_opt::<i32>(), lists.as_list_opt::<i64>()) {
        (Some(l), _) => (l.value_offsets()[0] as usize, l.value_offsets()[l.len()] as usize),
        (_, Some(l)) => (l.value_offsets()[0] as usize, l.value_offsets()[l.len()] as usize),
        _ => return exec_err!("the bench reads List and LargeList, not {}", lists.data_type()),
    };
    Ok(last - first)
}

/// Writes the collection as text, a row a line: ascending token numbers, sets by size and then
/// lexicographically, repeated rows repeated. The raw format of Mann's framework, whose papers
/// prescribe this order as well.
pub fn export_text(sets: &SetCollection, path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut line = String::new();
    for set in 0..sets.len() {
        line.clear();
        for token in sets.tokens(set) {
            // Number 0 stands for "unknown" in some readers of this format.
            line.push_str(&(token + 1).to_string());
            line.push(' ');
        }
        line.pop();
        line.push('\n');
        for _ in sets.groups().slots(set..set + 1) {
            file.write_all(line.as_bytes())?;
        }
    }
    file.into_inner().map_err(|e| exec_datafusion_err!("{}: {e}", path.display()))?;
    Ok(())
}
