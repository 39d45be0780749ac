//! Joins of a collection of vectors with itself, below SQL: functions, thresholds, strategies, devices,
//! dimensions.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef};
use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::prelude::SessionConfig;
use datafusion_simjoin::config::StrategyName;
use datafusion_simjoin::internals::engine::{
    AnyMatcher, Argument, Collection, EncodeInput, FinishContext, KeyDictionary,
};
use datafusion_simjoin::internals::util::cancel::CancelFlag;
use datafusion_simjoin::internals::util::parallel::Threads;
use datafusion_simjoin::internals::vector;
use datafusion_simjoin::spec::{Call, Function, Predicate, Side};

use crate::csv::{CsvWriter, seconds};
use crate::data;
use crate::engine::{self, Joined, Request};
use crate::generate;
use crate::generate::points::VectorCollection;
use crate::machine;
use crate::memory::PeakPool;
use crate::partners::{Sample, Value};
use crate::ways::Ways;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Vectors: NAME@ROWS or NAME@SCALE (1/16) of a generated collection, or FILE.parquet with a list
    /// column `vector`
    #[arg(long, value_name = "NAME", value_delimiter = ',',
        default_values = ["uniform8@100000", "gauss8@100000", "correlated8@100000", "cifar@10000"])]
    data: Vec<String>,
    /// Folder that keeps generated data sets
    #[arg(long, value_name = "DIR", default_value = "target/bench-data")]
    generated_dir: PathBuf,
    /// Functions: array_distance, cosine_distance, inner_product
    #[arg(long, value_delimiter = ',', default_values = ["array_distance"])]
    functions: Vec<String>,
    /// Thresholds; left out, they are found so that a row has the mean number of partners
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true)]
    thresholds: Vec<f64>,
    /// Mean numbers of partners of a row; left out, those of the collection, or 64
    #[arg(long, value_delimiter = ',')]
    partners: Vec<f64>,
    #[command(flatten)]
    ways: Ways,
}

/// The columns of vectors.csv. `partners` is the mean number of other rows that a row matches.
const HEADER: &str = "data,rows,dimensions,function,threshold,partners,strategy,chosen,simd,threads,\
                      device,run,encode_seconds,choose_seconds,prepare_seconds,probe_seconds,\
                      join_seconds,processor_seconds,row_pairs,vector_pairs,compared,candidates,\
                      decided,estimate,vector_bytes,reserved_bytes,device_candidates,\
                      kernel_seconds,copy_seconds,wait_seconds,choice";

/// Runs the points and appends them to vectors.csv.
pub fn run(arguments: &Arguments) -> Result<()> {
    let ways = &arguments.ways;
    machine::describe(&ways.out)?;
    let mut csv = CsvWriter::append(&ways.out.join("vectors.csv"), HEADER)?;
    let requests = ways.requests(&[StrategyName::AUTO])?;
    for name in &arguments.data {
        let vectors = find(name, arguments)?;
        for function in &arguments.functions {
            let value = Value::named(function)?;
            for threshold in thresholds(arguments, &vectors, value)? {
                let encoded = Encoded::of(&vectors, value, threshold)?;
                for request in &requests {
                    ways.time(
                        || encoded.self_join(request),
                        |run, joined| write(&mut csv, &encoded, request, run, joined),
                    )?;
                }
            }
        }
    }
    Ok(())
}

/// The thresholds asked for; else those for the numbers of partners, which are told.
fn thresholds(arguments: &Arguments, vectors: &Vectors, value: Value) -> Result<Vec<f64>> {
    if !arguments.thresholds.is_empty() {
        return Ok(arguments.thresholds.clone());
    }
    let partners = match arguments.partners.is_empty() {
        true => &[vectors.partners][..],
        false => &arguments.partners,
    };
    let sample = Sample::of(&vectors.lists, value)?;
    let found = partners.iter().map(|&partners| {
        let threshold = sample.threshold(partners);
        println!("{}: {value:?} {threshold:?} for {partners} partners a row", vectors.name);
        threshold
    });
    Ok(found.collect())
}

/// Vectors by name, in batches.
pub struct Vectors {
    pub name: String,
    pub lists: Vec<ArrayRef>,
    /// The mean number of partners for which a threshold is found.
    pub partners: f64,
}

fn find(name: &str, arguments: &Arguments) -> Result<Vectors> {
    let (file, partners) = match name.split_once('@') {
        Some((collection, amount)) => {
            let Some(collection) = VectorCollection::find(collection)? else {
                return exec_err!("there is no collection of vectors {collection}");
            };
            let file = generate::cached_vectors(&collection, amount, &arguments.generated_dir)?;
            (file, collection.partners)
        }
        None => (PathBuf::from(name), 64.0),
    };
    let query = format!("SELECT vector FROM '{}'", file.display());
    let runtime = tokio::runtime::Runtime::new()?;
    let context = data::session(SessionConfig::new())?;
    let batches = runtime.block_on(async { context.sql(&query).await?.collect().await })?;
    let lists = batches.iter().map(|batch| Arc::clone(batch.column(0))).collect();
    Ok(Vectors { name: name.to_string(), lists, partners })
}

/// A collection ready to be joined by one predicate.
pub struct Encoded {
    name: String,
    rows: usize,
    dimensions: usize,
    value: Value,
    threshold: f64,
    matcher: Arc<dyn AnyMatcher>,
    items: Arc<dyn Collection>,
    seconds: f64,
}

impl Encoded {
    /// Encodes vectors as the build side of a join, on one thread.
    pub fn of(vectors: &Vectors, value: Value, threshold: f64) -> Result<Self> {
        let Some(first) = vectors.lists.first() else {
            return exec_err!("{} has no rows", vectors.name);
        };
        let family = vector::family();
        let functions: Vec<Function> = family.functions();
        let Some(function) = functions.into_iter().find(|f| f.name() == value.name()) else {
            return exec_err!("no join by {}", value.name());
        };
        let predicate = Predicate::new(Call { function, first: Side::Left }, threshold);
        let matcher = family.bind(predicate, [Argument::of_type(first.data_type()); 2])?;
        let pool: Arc<dyn MemoryPool> = Arc::new(PeakPool::default());
        let reservation = MemoryConsumer::new("encode").register(&pool);
        let start = Instant::now();
        let mut encoder = matcher.encoder(Side::Left, None)?;
        let mut keys = KeyDictionary::default();
        let mut rows = 0;
        for lists in &vectors.lists {
            let input = EncodeInput { values: lists, keys: None, filter: None };
            encoder.push(rows as u32, &input, &mut keys, &reservation, 0)?;
            rows += lists.len();
        }
        let cancel = CancelFlag::default();
        let context = FinishContext {
            reservation: &reservation,
            base: 0,
            peak: &|| (),
            cancel: &cancel,
            threads: Threads::usual(std::thread::available_parallelism().map_or(1, NonZero::get)),
            meets_others: true,
            self_join: true,
            probe: None,
        };
        let encoded = matcher.finish(vec![(encoder, keys)], &context)?;
        Ok(Self {
            name: vectors.name.clone(),
            rows,
            dimensions: crate::partners::dimensions(first)?,
            value,
            threshold,
            matcher,
            items: Arc::from(encoded.items),
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Joins the collection with itself.
    pub fn self_join(&self, request: &Request) -> Result<Joined> {
        engine::self_join_of(self.matcher.as_ref(), &self.items, request)
    }

    /// The mean number of other rows that a row matches.
    pub fn partners(&self, joined: &Joined) -> f64 {
        2.0 * joined.row_pairs as f64 / self.rows.max(1) as f64
    }
}

fn write(
    csv: &mut CsvWriter,
    encoded: &Encoded,
    request: &Request,
    run: usize,
    joined: &Joined,
) -> Result<()> {
    let f = &joined.funnel;
    csv.row(&[
        &encoded.name,
        &encoded.rows,
        &encoded.dimensions,
        &encoded.value.name(),
        &encoded.threshold,
        &format!("{:.3}", encoded.partners(joined)),
        &request.strategy,
        &joined.strategy,
        &request.simd,
        &request.threads,
        &request.device.to_string().replace(',', "+"),
        &run,
        &seconds(encoded.seconds),
        &seconds(joined.choose_seconds),
        &seconds(joined.prepare_seconds),
        &seconds(joined.probe_seconds),
        &seconds(joined.seconds()),
        &seconds(joined.processor_seconds),
        &joined.row_pairs,
        &f.matches,
        &f.prefix_pairs,
        &f.candidates,
        &f.verified,
        &format!("{:.0}", joined.estimate),
        &encoded.items.size_in_bytes(),
        &joined.reserved_bytes,
        &f.device.candidates,
        &seconds(f.device.kernels.sum() as f64 / 1e9),
        &seconds(f.device.copy_nanos as f64 / 1e9),
        &seconds(f.device.wait_nanos as f64 / 1e9),
        &joined.choice.replace(',', ";"),
    ])
}
