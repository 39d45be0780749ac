//! Joins end to end through SQL: reading, tokenising, encoding, joining, output.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_simjoin::config::StrategyName;
use datafusion_simjoin::sql::rewrite_sql;
use futures::StreamExt;

use crate::csv::CsvWriter;
use crate::data::{self, DataOptions};
use crate::{engine, machine};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataOptions,
    /// Strategies
    #[arg(long, value_delimiter = ',', value_parser = engine::strategy,
        default_values_t = [StrategyName::AUTO])]
    strategies: Vec<StrategyName>,
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 0.7, 0.9])]
    thresholds: Vec<f64>,
    /// Partitions, each with a core of its own
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    partitions: Vec<usize>,
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    out: PathBuf,
}

/// The columns of sql.csv; the times of phases are summed over partitions.
const HEADER: &str = "query,data,threshold,strategy,partitions,run,rows,answer,seconds,\
                      build_encode_seconds,probe_encode_seconds,order_seconds,index_seconds,filter_seconds,\
                      verify_seconds,output_seconds";

/// The queries by name; `$t` stands for the threshold.
const QUERIES: &[(&str, &str)] = &[
    // Counted without making the pairs.
    ("count", "SELECT count(*) FROM sets a SIMJOIN sets b ON jaccard(a.tokens, b.tokens) >= $t"),
    ("pairs", "SELECT a.id, b.id FROM sets a SIMJOIN sets b ON jaccard(a.tokens, b.tokens) >= $t"),
    (
        "pairs_once",
        "SELECT a.id, b.id FROM sets a SIMJOIN sets b \
         ON jaccard(a.tokens, b.tokens) >= $t AND a.id < b.id",
    ),
    (
        "two_sided",
        "SELECT count(*) FROM (SELECT * FROM sets WHERE id % 2 = 0) a \
         SIMJOIN (SELECT * FROM sets WHERE id % 2 = 1) b ON jaccard(a.tokens, b.tokens) >= $t",
    ),
    (
        "semi",
        "SELECT count(*) FROM (SELECT * FROM sets WHERE id % 2 = 0) a \
         LEFT SEMI SIMJOIN (SELECT * FROM sets WHERE id % 2 = 1) b \
         ON jaccard(a.tokens, b.tokens) >= $t",
    ),
];

/// Runs the queries and appends to sql.csv.
pub fn run(arguments: &Arguments) -> Result<()> {
    machine::describe(&arguments.out)?;
    let mut csv = CsvWriter::append(&arguments.out.join("sql.csv"), HEADER)?;
    for name in arguments.data.names(data::STATED) {
        let set = arguments.data.find(&name)?;
        for &strategy in &arguments.strategies {
            for &partitions in &arguments.partitions {
                let session = Session::new(&set.table, strategy, partitions)?;
                for &threshold in &arguments.thresholds {
                    for (query, sql) in QUERIES {
                        for run in 0..arguments.runs {
                            let ran = session.run(&sql.replace("$t", &threshold.to_string()))?;
                            csv.row(&[
                                query,
                                &set.name,
                                &threshold,
                                &strategy,
                                &partitions,
                                &run,
                                &ran.rows,
                                &ran.answer,
                                &format!("{:.6}", ran.seconds),
                                &ran.metric("build_encode_time"),
                                &ran.metric("probe_encode_time"),
                                &ran.metric("order_time"),
                                &ran.metric("index_time"),
                                &ran.metric("filter_time"),
                                &ran.metric("verify_time"),
                                &ran.metric("output_time"),
                            ])?;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// A session whose table `sets` has the columns `id` and `tokens`.
pub struct Session {
    context: SessionContext,
    runtime: tokio::runtime::Runtime,
}

/// The times and the rows of a query.
pub struct Ran {
    pub rows: u64,
    /// The first value of the answer, where there is one row; otherwise the number of rows.
    pub answer: i64,
    pub seconds: f64,
    /// Processor time of all threads; wall time where the system does not tell.
    pub processor_seconds: f64,
    plan: Arc<dyn ExecutionPlan>,
}

impl Session {
    /// `table` is a query of `id` and `tokens`.
    pub fn new(table: &str, strategy: StrategyName, partitions: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(partitions)
            .enable_all()
            .build()?;
        let config = SessionConfig::new().with_target_partitions(partitions);
        let context = data::session(config)?;
        runtime.block_on(async {
            context.sql(&format!("SET simjoin.strategy = '{strategy}'")).await?.collect().await?;
            context.sql(&format!("CREATE VIEW sets AS {table}")).await?.collect().await
        })?;
        Ok(Self { context, runtime })
    }

    /// Reads and tokenises once, so that queries find their input in memory.
    pub fn keep_in_memory(&self) -> Result<()> {
        self.runtime.block_on(async {
            let statement = "CREATE TABLE kept AS SELECT * FROM sets";
            self.context.sql(statement).await?.collect().await?;
            let statement = "CREATE OR REPLACE VIEW sets AS SELECT * FROM kept";
            self.context.sql(statement).await?.collect().await
        })?;
        Ok(())
    }

    /// Runs a query, dropping its rows as they come.
    pub fn run(&self, sql: &str) -> Result<Ran> {
        let sql = rewrite_sql(sql)?;
        self.runtime.block_on(async {
            let (start, processor) = (Instant::now(), machine::processor_seconds());
            let plan = self.context.sql(&sql).await?.create_physical_plan().await?;
            let mut stream = execute_stream(Arc::clone(&plan), self.context.task_ctx())?;
            let (mut rows, mut answer) = (0, 0);
            while let Some(batch) = stream.next().await.transpose()? {
                rows += batch.num_rows() as u64;
                answer = rows as i64;
                if let (1, Some(value)) = (rows, batch.column(0).as_primitive_opt::<Int64Type>()) {
                    answer = value.value(0);
                }
            }
            let seconds = start.elapsed().as_secs_f64();
            let processor = machine::processor_seconds_since(processor);
            Ok(Ran { rows, answer, seconds, processor_seconds: processor.unwrap_or(seconds), plan })
        })
    }
}

impl Ran {
    /// The sum of a time metric over the plan and its partitions, in seconds.
    pub fn metric(&self, name: &str) -> f64 {
        fn nanos(plan: &dyn ExecutionPlan, name: &str) -> usize {
            let own = plan.metrics().and_then(|m| m.sum_by_name(name)).map_or(0, |v| v.as_usize());
            own + plan.children().iter().map(|child| nanos(child.as_ref(), name)).sum::<usize>()
        }
        nanos(self.plan.as_ref(), name) as f64 / 1e9
    }
}
