//! Sessions, tables, running SQL and comparing answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue};
use datafusion::config::ExtensionOptions;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion_simjoin::internals::engine::{Placement, StrategyInfo};
use datafusion_simjoin::internals::strategies::{of_sets, of_vectors};
use datafusion_simjoin::plan::ClusterPlanning;
use datafusion_simjoin::{SimJoinContextExt, SimJoinOptions, rewrite_sql};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::forms;
use crate::lists::{Layout, list_column};
use crate::oracle::{Cell, Row, line};
use crate::stages::Stages;

type Names = LazyLock<Vec<&'static str>>;

/// The values of `simjoin.strategy` for joins of sets on the CPU.
pub static STRATEGIES: Names = LazyLock::new(|| or_auto(&of_sets(), |s| s.runs_on(Placement::Cpu)));

/// The values of `simjoin.strategy` for joins of sets by a strategy of the CPU that a GPU takes part in.
pub static WITH_GPU: Names = LazyLock::new(|| {
    or_auto(&of_sets(), |s| s.runs_on(Placement::Cpu) && s.runs_on(Placement::Gpu))
});

/// The strategies of sets that run on a GPU alone.
pub static ON_GPU: Names =
    LazyLock::new(|| or_auto(&of_sets(), |s| !s.runs_on(Placement::Cpu)).split_off(1));

/// The values of `simjoin.strategy` for joins by distances of vectors on the CPU.
pub static OF_VECTORS: Names =
    LazyLock::new(|| or_auto(&of_vectors(), |s| s.runs_on(Placement::Cpu)));

/// The values of `simjoin.strategy` for joins by any metric of vectors with a GPU.
pub static VECTORS_WITH_GPU: Names = LazyLock::new(|| {
    or_auto(&of_vectors(), |s| s.runs_on(Placement::Cpu) && s.runs_on(Placement::Gpu))
});

/// Whether a strategy of sets fails on a demanded device that has no room for the build side or a piece of
/// it: the others send candidates with their sets.
pub fn needs_room(strategy: &str) -> bool {
    !["allpairs", "ppjoin", "groupjoin"].contains(&strategy)
}

/// `auto`, and the names of the strategies that `is_meant` says.
fn or_auto(
    strategies: &[StrategyInfo],
    is_meant: impl Fn(&StrategyInfo) -> bool,
) -> Vec<&'static str> {
    let meant = strategies.iter().filter(|strategy| is_meant(strategy));
    ["auto"].into_iter().chain(meant.map(|strategy| strategy.name())).collect()
}

/// The settings of a test's session; the rest is as in DataFusion.
#[derive(Debug, Clone)]
pub struct Session {
    pub batch_size: usize,
    pub partitions: usize,
    /// Bytes of the memory pool.
    pub memory: Option<usize>,
    /// Plan for tasks that share nothing, and run them so, each with at most this number of
    /// partitions.
    pub tasks_of: Option<usize>,
    /// `simjoin.*` options, without the prefix.
    pub options: Vec<(&'static str, String)>,
}

impl Default for Session {
    fn default() -> Self {
        Self { batch_size: 8192, partitions: 2, memory: None, tasks_of: None, options: Vec::new() }
    }
}

impl Session {
    /// For joins that are too large for an emulated device, which `auto` takes for a real one once a
    /// test has opened it.
    pub fn on_cpu() -> Self {
        Self::default().option("device", "cpu")
    }

    pub fn option(mut self, name: &'static str, value: impl ToString) -> Self {
        self.options.push((name, value.to_string()));
        self
    }

    /// Has joins run on this device, in chunks and memory of any size.
    #[cfg(unix)]
    pub fn on_device(mut self, rng: &mut StdRng, ordinal: u32) -> Self {
        let layouts = ["auto", "a", "b", "c", "d4"];
        // Every batch of probe rows is a work for each part of an index.
        let on_gpu_alone = self.batch_size > 8 && rng.random_bool(0.3);
        // Filters on a device read their postings again for each buffer of candidates.
        let (strategies, memory): (&[&str], &[&str]) = match on_gpu_alone {
            true => (ON_GPU.as_slice(), &["9000", "2M"]),
            false => (WITH_GPU.as_slice(), &["1", "400", "3000", "2M"]),
        };
        let strategy = *strategies.choose(rng).expect("strategies");
        let limits: &[&str] = match needs_room(strategy) {
            true => &["auto"],
            false => &["auto", "1", "9000"],
        };
        let mut set = |name, values: &[&str]| {
            let value = values.choose(rng).expect("values").to_string();
            self.options.push((name, value));
        };
        set("gpu.candidate_memory", memory);
        set("debug.gpu_partition", &["300", "50000"]);
        set("debug.gpu_layout", &layouts);
        set("debug.gpu_block_size", &["auto", "32", "64", "128", "256"]);
        set("gpu.memory_limit", limits);
        self.options.push(("strategy", strategy.to_string()));
        self.option("device", format!("cuda:{ordinal}"))
    }

    pub fn context(&self) -> SessionContext {
        self.context_with(RuntimeEnvBuilder::new())
    }

    /// A session with what `runtime` has set up.
    pub fn context_with(&self, mut runtime: RuntimeEnvBuilder) -> SessionContext {
        let mut options = SimJoinOptions::default();
        for (name, value) in &self.options {
            options.set(name, value).expect("a valid option");
        }
        let mut config = SessionConfig::new()
            .with_batch_size(self.batch_size)
            .with_target_partitions(self.partitions)
            .with_information_schema(true)
            .with_option_extension(options);
        if self.tasks_of.is_some() {
            config = config.with_extension(Arc::new(ClusterPlanning::default()));
        }
        if let Some(bytes) = self.memory {
            runtime = runtime.with_memory_limit(bytes, 1.0);
        }
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime.build_arc().expect("a runtime"))
            .with_default_features();
        let builder = datafusion_simjoin::install(builder).expect("an empty session accepts it");
        SessionContext::new_with_state(builder.build())
    }
}

/// A session of two partitions with the tables `a` and `b`, integer lists.
pub fn context_of(a: &[Row], b: &[Row]) -> SessionContext {
    let ctx = Session::default().context();
    register(&ctx, "a", a);
    register(&ctx, "b", b);
    ctx
}

/// Plans SQL text in which SIMJOIN may occur.
pub async fn plan(ctx: &SessionContext, sql: &str) -> Result<DataFrame> {
    ctx.simjoin_sql(sql).await
}

/// Plans a query with values for `$1`, `$2`, … in one of the [forms](crate::forms) in which it can be run.
pub async fn plan_in_a_form(
    ctx: &SessionContext,
    sql: &str,
    values: Vec<ScalarValue>,
) -> Result<DataFrame> {
    forms::plan(ctx, &rewrite_sql(sql)?, values).await
}

/// Runs a statement; an error is the answer of the test's statement, not of the test.
pub async fn try_rows(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = plan(ctx, sql).await?.collect().await?;
    Ok(lines(&batches))
}

/// Like [`try_rows`], in one of the [forms](crate::forms) in which a query can be run.
pub async fn try_rows_in_a_form(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = plan_in_a_form(ctx, sql, vec![]).await?.collect().await?;
    Ok(lines(&batches))
}

/// Runs a statement that must succeed.
pub async fn rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    try_rows(ctx, sql).await.unwrap_or_else(|e| panic!("{e}\nin {sql}"))
}

/// Runs a statement with values for `$1`, `$2`, …
pub async fn rows_with(ctx: &SessionContext, sql: &str, values: Vec<ScalarValue>) -> Vec<String> {
    let run = async { plan_in_a_form(ctx, sql, values).await?.collect().await };
    lines(&run.await.unwrap_or_else(|e| panic!("{e}\nin {sql}")))
}

/// The answer of a statement whose stages run task by task.
pub async fn rows_of_tasks(
    ctx: &SessionContext,
    sql: &str,
    values: Vec<ScalarValue>,
    partitions_per_task: usize,
) -> Vec<String> {
    let rows = try_rows_of_tasks(ctx, sql, values, partitions_per_task).await;
    rows.unwrap_or_else(|e| panic!("{e}\nin {sql}"))
}

/// Like [`rows_of_tasks`], where an error is the answer of the test's statement.
pub async fn try_rows_of_tasks(
    ctx: &SessionContext,
    sql: &str,
    values: Vec<ScalarValue>,
    partitions_per_task: usize,
) -> Result<Vec<String>> {
    let plan = plan_in_a_form(ctx, sql, values).await?.create_physical_plan().await?;
    Ok(lines(&Stages { context: ctx.task_ctx(), partitions_per_task }.run(plan).await?))
}

/// The one integer that a statement gives.
pub async fn number(ctx: &SessionContext, sql: &str) -> i64 {
    let rows = rows(ctx, sql).await;
    match rows.as_slice() {
        [row] => row.parse().unwrap_or_else(|_| panic!("{row} is no integer\nin {sql}")),
        other => panic!("{} rows instead of one\nin {sql}", other.len()),
    }
}

/// Runs a statement; its rows, and the sums of metrics over the plan.
pub async fn measured(
    ctx: &SessionContext,
    sql: &str,
    metrics: &[&str],
) -> (Vec<String>, Vec<usize>) {
    let frame = plan(ctx, sql).await.expect("a plan");
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.expect("a plan");
    let batches = collect(Arc::clone(&plan), task).await.expect("an answer");
    let sums = metrics.iter().map(|name| metric(&plan, name)).collect();
    (lines(&batches), sums)
}

fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name));
    let below: usize = plan.children().into_iter().map(|child| metric(child, name)).sum();
    own.map_or(0, |value| value.as_usize()) + below
}

/// The message of a statement that must fail, on one line.
pub async fn error(ctx: &SessionContext, sql: &str) -> String {
    match try_rows(ctx, sql).await {
        Ok(rows) => panic!("no error but {} rows\nin {sql}", rows.len()),
        Err(e) => {
            let text = e.to_string();
            assert!(!text.contains("panicked"), "{text}\nin {sql}");
            text.replace('\n', " ")
        }
    }
}

pub fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

/// The rows of an answer, one line each, in the order of the answer.
pub fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<Vec<Cell>> = batch.columns().iter().map(cells).collect();
        for row in 0..batch.num_rows() {
            lines.push(line(&columns.iter().map(|c| c[row].clone()).collect::<Vec<_>>()));
        }
    }
    lines
}

fn cells(array: &ArrayRef) -> Vec<Cell> {
    let null_or = |i: usize, cell: Cell| if array.is_null(i) { Cell::Null } else { cell };
    let all = 0..array.len();
    match array.data_type() {
        t if t.is_integer() => {
            let wide = cast(array, &DataType::Int64).expect("an integer that fits");
            let wide = wide.as_primitive::<Int64Type>();
            all.map(|i| null_or(i, Cell::Int(wide.value(i)))).collect()
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            all.map(|i| null_or(i, Cell::Float(values.value(i)))).collect()
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let text = cast(array, &DataType::Utf8).expect("text");
            let text = text.as_string::<i32>();
            all.map(|i| null_or(i, Cell::Text(text.value(i).to_string()))).collect()
        }
        _ => {
            let options = FormatOptions::default();
            let format = ArrayFormatter::try_new(array, &options).expect("a printable column");
            all.map(|i| null_or(i, Cell::Other(format.value(i).to_string()))).collect()
        }
    }
}

/// Fails unless both are the same multiset of lines; says which lines are missing or too many.
pub fn assert_same_rows(found: &[String], expected: &[String], what: &str) {
    if let Some(report) = difference(found, expected) {
        panic!("{report}{what}");
    }
}

/// Which lines are missing or too many; `None` where both are the same multiset of lines.
pub fn difference(found: &[String], expected: &[String]) -> Option<String> {
    let mut difference: BTreeMap<&str, i64> = BTreeMap::new();
    expected.iter().for_each(|l| *difference.entry(l).or_default() -= 1);
    found.iter().for_each(|l| *difference.entry(l).or_default() += 1);
    difference.retain(|_, n| *n != 0);
    if difference.is_empty() {
        return None;
    }
    let mut report = format!(
        "{} lines differ ({} found, {} expected)\n",
        difference.len(),
        found.len(),
        expected.len()
    );
    for (line, n) in difference.iter().take(20) {
        let kind = if *n < 0 { "missing" } else { "too many" };
        report += &format!("  {kind} {} x  {line}\n", n.abs());
    }
    Some(report)
}

/// The columns `id, toks, key, name, w` of `rows` in one batch.
pub fn batch_of(rows: &[Row], element: &DataType, layout: Layout) -> RecordBatch {
    let lists: Vec<_> = rows.iter().map(|r| r.toks.clone()).collect();
    let toks = list_column(element, layout, &lists);
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("toks", toks.data_type().clone(), true),
        Field::new("key", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("w", DataType::Int64, true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.id))),
        toks,
        Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.key))),
        Arc::new(StringArray::from_iter(rows.iter().map(|r| r.name.as_deref()))),
        Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.w))),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).expect("columns of one length")
}

/// Cuts `batch` into `partitions` partitions of batches of at most `rows` rows. The first
/// partition also gets an empty batch; with few rows the last partitions are empty.
pub fn split(batch: &RecordBatch, partitions: usize, rows: usize) -> Vec<Vec<RecordBatch>> {
    let mut cut = vec![Vec::new(); partitions];
    cut[0].push(batch.slice(0, 0));
    let mut start = 0;
    while start < batch.num_rows() {
        let len = rows.min(batch.num_rows() - start);
        cut[(start / rows) % partitions].push(batch.slice(start, len));
        start += len;
    }
    cut
}

pub fn register_partitions(ctx: &SessionContext, name: &str, partitions: Vec<Vec<RecordBatch>>) {
    let schema = partitions.iter().flatten().next().expect("a batch, though empty").schema();
    let table = MemTable::try_new(schema, partitions).expect("batches of one schema");
    ctx.register_table(name, Arc::new(table)).expect("a new name");
}

/// Registers integer lists in two partitions of small batches.
pub fn register(ctx: &SessionContext, name: &str, rows: &[Row]) {
    let batch = batch_of(rows, &DataType::Int64, Layout::List);
    register_partitions(ctx, name, split(&batch, 2, 16));
}

/// The physical plan as EXPLAIN prints it, indented.
pub async fn physical(ctx: &SessionContext, sql: &str) -> String {
    let run = async { plan(ctx, sql).await?.create_physical_plan().await };
    plan_text(&run.await.unwrap_or_else(|e| panic!("{e}\nin {sql}")))
}

pub fn plan_text(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

pub const OPERATOR: &str = "SetSimilarityJoinExec";

pub fn uses_operator(plan: &str) -> bool {
    plan.contains(OPERATOR)
}

pub async fn assert_uses_operator(ctx: &SessionContext, sql: &str) -> String {
    let plan = physical(ctx, sql).await;
    assert!(uses_operator(&plan), "no {OPERATOR} for {sql}\n{plan}");
    plan
}

pub async fn assert_declined(ctx: &SessionContext, sql: &str) -> String {
    let plan = physical(ctx, sql).await;
    assert!(!uses_operator(&plan), "{OPERATOR} for {sql}\n{plan}");
    plan
}

/// The output of EXPLAIN, all its rows in one text.
pub async fn explain(ctx: &SessionContext, sql: &str) -> String {
    let batches = plan(ctx, &format!("EXPLAIN {sql}"))
        .await
        .unwrap_or_else(|e| panic!("{e}\nin {sql}"))
        .collect()
        .await
        .unwrap_or_else(|e| panic!("{e}\nin {sql}"));
    let format = arrow::util::pretty::pretty_format_batches(&batches);
    format.expect("printable batches").to_string()
}

/// A file of the shared data sets, or `None` with a message where they are absent.
pub fn shared(file: &str) -> Option<PathBuf> {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("../shared/data").join(file);
    if path.is_file() {
        return Some(path);
    }
    eprintln!("skipped: ../shared/data/{file} is absent");
    None
}
