//! The work of a plan that is done, from its counters, and all of it, where that is known.

use std::sync::Arc;
use std::time::Instant;

use datafusion::common::stats::Precision;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use super::line;
use crate::operator::sum;
use crate::reads;
use datafusion_simjoin::exec::{JoinInput, SetSimilarityJoinExec};
use datafusion_simjoin::spec::Side;

/// An input of the watched part of a plan, and its extent as far as that is known for certain.
struct WatchedInput {
    leaves: Vec<Leaf>,
    /// The rows that it gives.
    rows: Option<u64>,
    /// The rows of all its leaves.
    leaf_rows: Option<u64>,
    /// The bytes of its files, where these are watched as they are read.
    bytes: Option<u64>,
}

impl WatchedInput {
    fn new(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut leaves = vec![];
        collect_leaves(plan, &mut leaves);
        let leaf_rows = leaves.iter().map(|leaf| row_count(leaf.plan())).sum();
        let bytes = leaves.iter().map(|leaf| bytes_of_files(leaf.plan())).sum();
        Self { leaves, rows: row_count(plan), leaf_rows, bytes }
    }

    /// The rows that its leaves have given; `None` where one of them does not count.
    fn rows_read(&self) -> Option<u64> {
        self.leaves.iter().map(Leaf::rows_read).sum()
    }
}

/// An operator without inputs, and those above it that give as many rows: a table in memory counts
/// none.
struct Leaf(Vec<Arc<dyn ExecutionPlan>>);

impl Leaf {
    fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.0[0]
    }

    /// Adds an operator above that gives as many rows.
    fn extend_to(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        let [top] = plan.children()[..] else { return };
        let is_next = self.0.last().is_some_and(|last| Arc::ptr_eq(last, top));
        if is_next && row_count(plan).is_some_and(|rows| row_count(self.plan()) == Some(rows)) {
            self.0.push(Arc::clone(plan));
        }
    }

    /// The rows that the first of these operators that counts has given.
    fn rows_read(&self) -> Option<u64> {
        self.0.iter().find_map(|plan| Some(plan.metrics()?.output_rows()? as u64))
    }
}

/// A physical plan and what is known of its inputs.
pub struct PlanStatus {
    /// The topmost similarity join, unless there is none.
    join: Option<Arc<dyn ExecutionPlan>>,
    /// The build side and the probe side of the join; one input of a self-join and of plans without
    /// a join.
    inputs: Vec<WatchedInput>,
    since: Instant,
    /// The phase shown last, and when it began.
    phase: StatementPhase,
    phase_since: Instant,
}

/// The work of a statement at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementPhase {
    /// A plan without a similarity join.
    Reading,
    /// The build side of a join is read.
    Indexing,
    /// The build side is read, and written to disk.
    Storing,
    /// The other side is read, and written to disk.
    StoringProbe,
    Joining,
    JoiningFromDisk,
}

/// The figures of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub phase: StatementPhase,
    /// The work of the phase that is done, and all of it, if that is known.
    pub done: u64,
    pub of: Option<u64>,
    pub unit: ProgressUnit,
    /// Rows read or probed.
    pub rows: u64,
    pub candidates: u64,
    pub matches: u64,
    /// Pieces that have been joined, and the piece that the driver joins now.
    pub piece: u64,
    pub bytes_written: u64,
    /// Whether the phase keeps its speed.
    pub is_steady: bool,
}

/// The unit of the work that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgressUnit {
    Rows,
    /// Rows that operators before the join read, and may drop.
    RowsOfInputs,
    Bytes,
}

impl PlanStatus {
    /// The progress of a plan that runs.
    pub fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        let join = find_join(&plan).cloned();
        let mut inputs: Vec<WatchedInput> = match &join {
            Some(join) => join.children().into_iter().map(WatchedInput::new).collect(),
            None => vec![WatchedInput::new(&plan)],
        };
        if join.as_ref().is_some_and(builds_right) {
            inputs.reverse();
        }
        let mut leaves = vec![];
        collect_leaves(&plan, &mut leaves);
        if leaves.len() > inputs.iter().map(|input| input.leaves.len()).sum() {
            // The bytes read may be those of files of others.
            inputs.iter_mut().for_each(|input| input.bytes = None);
        }
        let now = Instant::now();
        Self { join, inputs, since: now, phase: StatementPhase::Reading, phase_since: now }
    }

    /// A counter of the join; `None` where it has none yet.
    fn metric(&self, name: &str) -> Option<u64> {
        sum(&self.join.as_ref()?.metrics()?, name)
    }

    fn count(&self, name: &str) -> u64 {
        self.metric(name).unwrap_or(0)
    }

    fn phase(&self) -> StatementPhase {
        if self.join.is_none() {
            return StatementPhase::Reading;
        }
        // The counters of the disk are there from the first row on that goes there.
        let to_disk = self.metric("spill_bands").is_some();
        let is_stored = self.count("spill_bands") > 0;
        let probe_stored = self.inputs.len() == 1 || self.count("probe_spilled_rows") > 0;
        match (to_disk, is_stored, self.count("probe_rows")) {
            (true, false, _) => StatementPhase::Storing,
            (true, true, 0) if !probe_stored => StatementPhase::StoringProbe,
            (true, true, _) if probe_stored => StatementPhase::JoiningFromDisk,
            (_, _, 0) => StatementPhase::Indexing,
            _ => StatementPhase::Joining,
        }
    }

    fn figures(&self, phase: StatementPhase) -> Figures {
        let [build, probe] = [self.inputs.first(), self.inputs.last()];
        let is_self_join = self.inputs.len() == 1;
        let rows_read =
            |input: Option<&WatchedInput>| input.and_then(WatchedInput::rows_read).unwrap_or(0);
        let rows = match phase {
            StatementPhase::Reading => rows_read(build),
            StatementPhase::Indexing | StatementPhase::Storing => self.count("build_rows"),
            StatementPhase::StoringProbe => rows_read(probe),
            StatementPhase::Joining | StatementPhase::JoiningFromDisk => self.count("probe_rows"),
        };
        let figures = Figures {
            phase,
            done: rows,
            of: None,
            unit: ProgressUnit::Rows,
            rows,
            candidates: self.count("candidates"),
            matches: self.count("matches"),
            piece: self.count("spill_passes") + 1,
            bytes_written: self.count("spilled_bytes"),
            // The rows of a self-join meet those before them; pieces take different times.
            is_steady: phase != StatementPhase::JoiningFromDisk
                && !(phase == StatementPhase::Joining && is_self_join),
        };
        let figures = match phase {
            StatementPhase::Reading | StatementPhase::Indexing | StatementPhase::Storing => {
                of_input(figures, build, 0)
            }
            StatementPhase::Joining if is_self_join => {
                Figures { of: build.and_then(|input| input.rows), ..figures }
            }
            StatementPhase::StoringProbe | StatementPhase::Joining => {
                of_input(figures, probe, build.and_then(|input| input.bytes).unwrap_or(0))
            }
            // Rows that were indexed, of those that were stored.
            StatementPhase::JoiningFromDisk => Figures {
                done: self.count("build_item_rows"),
                of: Some(self.count("build_spilled_rows")),
                ..figures
            },
        };
        // More than there is would be a wrong extent.
        Figures { of: figures.of.filter(|of| figures.done <= *of), ..figures }
    }

    /// The line for a terminal of the given width in columns.
    pub fn line(&mut self, columns: usize) -> String {
        let phase = self.phase();
        if phase != self.phase {
            (self.phase, self.phase_since) = (phase, Instant::now());
        }
        let (elapsed, in_phase) = (self.since.elapsed(), self.phase_since.elapsed());
        line::of(self.figures(phase), elapsed, in_phase, columns)
    }
}

/// The figures with the known extent of an input: its rows, those of its leaves, or the bytes of its
/// files, of which the first ones read belong to another input.
fn of_input(figures: Figures, input: Option<&WatchedInput>, before: u64) -> Figures {
    let Some(input) = input else { return figures };
    let counts_leaves =
        matches!(figures.phase, StatementPhase::Reading | StatementPhase::StoringProbe);
    if let Some(rows) = input.rows.filter(|_| !counts_leaves) {
        return Figures { of: Some(rows), ..figures };
    }
    if let (Some(rows), Some(read)) = (input.leaf_rows, input.rows_read()) {
        let unit = if counts_leaves { ProgressUnit::Rows } else { ProgressUnit::RowsOfInputs };
        return Figures { done: read, of: Some(rows), unit, ..figures };
    }
    match input.bytes {
        Some(bytes) if bytes > 0 => Figures {
            done: reads::bytes().saturating_sub(before).min(bytes),
            of: Some(bytes),
            unit: ProgressUnit::Bytes,
            ..figures
        },
        _ => figures,
    }
}

fn find_join(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if plan.is::<SetSimilarityJoinExec>() {
        return Some(plan);
    }
    plan.children().into_iter().find_map(find_join)
}

fn builds_right(join: &Arc<dyn ExecutionPlan>) -> bool {
    let join = join.downcast_ref::<SetSimilarityJoinExec>();
    join.is_some_and(|join| matches!(join.input(), JoinInput::Two { build: Side::Right, .. }))
}

fn collect_leaves(plan: &Arc<dyn ExecutionPlan>, leaves: &mut Vec<Leaf>) {
    let children = plan.children();
    if children.is_empty() {
        leaves.push(Leaf(vec![Arc::clone(plan)]));
        return;
    }
    let first = leaves.len();
    children.into_iter().for_each(|child| collect_leaves(child, leaves));
    leaves[first..].iter_mut().for_each(|leaf| leaf.extend_to(plan));
}

/// The bytes that a reader of files reads, where [`reads`] watches it; `None` for other operators.
fn bytes_of_files(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let source = plan.downcast_ref::<DataSourceExec>()?;
    let scan = source.data_source().downcast_ref::<FileScanConfig>()?;
    // Other formats are read in ranges, and the rows of pipes come from another store.
    let is_watched = ["csv", "json"].contains(&scan.file_source().file_type())
        && scan.object_store_url == ObjectStoreUrl::local_filesystem();
    let files = scan.file_groups.iter().flat_map(|group| group.files());
    let bytes = files.map(|file| match &file.range {
        Some(range) => (range.end - range.start).max(0) as u64,
        None => file.object_meta.size,
    });
    is_watched.then(|| bytes.sum())
}

/// The rows of a plan, where its statistics are exact: an estimate may be passed.
fn row_count(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let statistics =
        StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::default()).ok()?;
    match statistics.num_rows {
        Precision::Exact(rows) => Some(rows as u64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    use super::*;
    use datafusion_simjoin::{SimJoinContextExt, install};

    async fn planned(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
        ctx.simjoin_sql(sql).await.unwrap().create_physical_plan().await.unwrap()
    }

    #[tokio::test]
    async fn a_plan_without_a_join_shows_the_rows_read() {
        let ctx = SessionContext::new();
        ctx.sql("CREATE TABLE t AS SELECT * FROM range(0, 1234)").await.unwrap();
        let frame = ctx.sql("SELECT value + 1 FROM t").await.unwrap();
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.unwrap();
        let mut status = PlanStatus::new(Arc::clone(&plan));
        assert!(status.line(200).starts_with("reading: "), "{}", status.line(200));
        collect(plan, task).await.unwrap();
        let line = status.line(200);
        assert!(line.starts_with("reading: 1,234 of 1,234 rows (100%)"), "{line}");
    }

    #[tokio::test]
    async fn a_join_is_shown_in_its_phases() {
        let builder = SessionStateBuilder::new_with_default_features();
        let ctx = SessionContext::new_with_state(install(builder).unwrap().build());
        ctx.sql("CREATE TABLE t AS SELECT value AS id, [value, value + 1, value % 7] AS toks FROM range(0, 900)")
            .await
            .unwrap();
        let sql =
            "SELECT a.id FROM t a SIMJOIN t b ON jaccard(a.toks, b.toks) >= 0.5 AND a.id < b.id";
        let plan = planned(&ctx, sql).await;
        let mut status = PlanStatus::new(Arc::clone(&plan));
        assert!(
            status.line(200).starts_with("indexing: 0 of 900 rows (0%)"),
            "{}",
            status.line(200)
        );
        collect(plan, ctx.task_ctx()).await.unwrap();
        assert!(
            status.line(200).starts_with("joining: 900 of 900 rows (100%)"),
            "{}",
            status.line(200)
        );

        for option in ["spill = 'always'", "debug.spill_piece_rows = 300"] {
            ctx.sql(&format!("SET simjoin.{option}")).await.unwrap();
        }
        let plan = planned(&ctx, sql).await;
        let mut status = PlanStatus::new(Arc::clone(&plan));
        collect(plan, ctx.task_ctx()).await.unwrap();
        let line = status.line(200);
        assert!(line.starts_with("joining from disk: piece 4 (100%)"), "{line}");
    }

    #[tokio::test]
    async fn files_without_a_number_of_rows_are_told_by_their_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, "id,s\n1,night\n2,watch\n").unwrap();
        let ctx = SessionContext::new();
        let path = path.to_str().unwrap();
        ctx.register_csv("t", path, Default::default()).await.unwrap();
        let plan = ctx.sql("SELECT * FROM t").await.unwrap().create_physical_plan().await.unwrap();
        let input = WatchedInput::new(&plan);
        assert_eq!((input.rows, input.bytes), (None, Some(21)));
    }

    #[tokio::test]
    async fn an_extent_that_is_not_known_for_certain_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let parquet = folder.path().join("t.parquet").display().to_string();
        let builder = SessionStateBuilder::new_with_default_features();
        let ctx = SessionContext::new_with_state(install(builder).unwrap().build());
        let rows = "SELECT value AS id, [value, value % 7] AS toks FROM range(0, 900)";
        let copy = format!("COPY ({rows}) TO '{parquet}'");
        ctx.sql(&copy).await.unwrap().collect().await.unwrap();
        ctx.register_parquet("p", &parquet, Default::default()).await.unwrap();
        ctx.sql(&format!("CREATE TABLE t AS {rows}")).await.unwrap();
        let line_of = async |sql: &str| {
            let plan = planned(&ctx, sql).await;
            let mut status = PlanStatus::new(Arc::clone(&plan));
            collect(plan, ctx.task_ctx()).await.unwrap();
            status.line(200)
        };
        // The result has one row, the input more.
        let line =
            line_of("SELECT count(*), max(id) FROM (SELECT id FROM p WHERE id + 1 > 5)").await;
        assert!(line.starts_with("reading: ") && !line.contains(" of 1 rows"), "{line}");
        // No row is known of what a function gives, or a part of an estimate.
        let line = line_of("SELECT max(value) FROM range(0, 5000)").await;
        assert!(!line.contains('%') && !line.contains(" of "), "{line}");
        let joined = "(SELECT * FROM INPUT WHERE id % 10 > 0) a SIMJOIN \
                      (SELECT * FROM INPUT WHERE id % 3 > 0) b ON jaccard(a.toks, b.toks) >= 0.9";
        for input in ["p", "t"] {
            let joined = joined.replace("INPUT", input);
            let line = line_of(&format!("SELECT count(*) FROM {joined}")).await;
            assert!(line.starts_with("joining: 8") || line.starts_with("joining: 6"), "{line}");
            assert!(!line.contains(" of "), "{line}");
            assert!(!line.contains("(1") || line.contains("(100%)"), "{line}");
        }
        // Parquet files are read in ranges, which nobody watches.
        let plan = planned(&ctx, "SELECT id FROM p").await;
        let input = WatchedInput::new(&plan);
        assert_eq!((input.leaf_rows, input.bytes), (Some(900), None));
    }
}
