//! Shows the progress of a long statement as one line on standard error.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::analyze::sum;
use super::errors::tell;
use super::{cluster, reads};
use crate::exec::{JoinInput, SetSimilarityJoinExec};
use crate::spec::Side;

/// A statement that ends sooner shows no line.
const PATIENCE: Duration = Duration::from_secs(1);
const REFRESH: Duration = Duration::from_millis(200);

/// The progress of one statement.
#[derive(Clone)]
pub(super) struct Progress(Option<Arc<Shown>>);

struct Shown {
    bar: ProgressBar,
    plan: OnceLock<Arc<dyn ExecutionPlan>>,
}

impl Progress {
    /// A line is shown where standard error is a terminal, unless `quiet`.
    pub(super) fn new(quiet: bool) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        Self(Some(Arc::new(Shown { bar, plan: OnceLock::new() })))
    }

    /// Tells whose metrics to show.
    pub(super) fn watch(&self, plan: &Arc<dyn ExecutionPlan>) {
        if let Some(shown) = &self.0 {
            reads::start();
            // A statement has one plan.
            let _ = shown.plan.set(Arc::clone(plan));
        }
    }

    /// Writes a line of text to standard error.
    pub(super) fn tell(&self, line: &str) {
        match &self.0 {
            Some(shown) => shown.bar.suspend(|| tell(line)),
            None => tell(line),
        }
    }

    /// Takes the line away for good: the statement has ended, or rows come to the same terminal.
    pub(super) fn clear(&self) {
        if let Some(shown) = &self.0 {
            reads::stop();
            shown.bar.finish_and_clear();
        }
    }

    /// Takes the line away where results go to a terminal as well.
    pub(super) fn make_room(&self) {
        if io::stdout().is_terminal() {
            self.clear();
        }
    }

    /// Shows the line from now on.
    pub(super) async fn show(&self) -> Infallible {
        let Some(shown) = &self.0 else {
            return std::future::pending().await;
        };
        tokio::time::sleep(PATIENCE).await;
        shown.bar.set_draw_target(ProgressDrawTarget::stderr());
        let mut status = None;
        loop {
            if let Some(line) = shown.plan.get().and_then(cluster::status) {
                shown.bar.set_message(line);
            } else if let Some(plan) = shown.plan.get() {
                let status = status.get_or_insert_with(|| PlanStatus::new(Arc::clone(plan)));
                shown.bar.set_message(status.line());
            } else {
                shown.bar.set_message("planning");
            }
            shown.bar.tick();
            tokio::time::sleep(REFRESH).await;
        }
    }
}

/// An input of the watched part of a plan.
struct Input {
    leaves: Vec<Arc<dyn ExecutionPlan>>,
    /// Rows that it is known to have.
    rows: Option<usize>,
    /// Where rows are not known: the bytes of its files.
    bytes: Option<u64>,
}

impl Input {
    fn new(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut leaves = vec![];
        collect_leaves(plan, &mut leaves);
        let rows = row_count(plan);
        let bytes = match rows {
            Some(_) => None,
            None => leaves.iter().map(bytes_of_files).sum(),
        };
        Self { leaves, rows, bytes }
    }
}

/// A physical plan and what is known of its inputs.
struct PlanStatus {
    /// The topmost similarity join, unless there is none.
    join: Option<Arc<dyn ExecutionPlan>>,
    /// The build side and the probe side of the join; one input of a self-join and of plans without
    /// a join.
    inputs: Vec<Input>,
    since: Instant,
    /// The phase shown last, and when it began.
    phase: Phase,
    phase_since: Instant,
}

/// What a statement does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A plan without a similarity join.
    Reading,
    /// The build side of a join is read.
    Indexing,
    /// It is read, and written to disk.
    Storing,
    /// The other side is read, and written to disk.
    StoringProbe,
    Joining,
    JoiningFromDisk,
}

/// The figures of a phase.
#[derive(Debug, Clone, Copy)]
struct Figures {
    phase: Phase,
    /// How much of the work of the phase is done, and how much there is, if that is known.
    done: u64,
    of: Option<u64>,
    unit: Unit,
    /// Rows read or probed.
    rows: u64,
    candidates: u64,
    matches: u64,
    /// Pieces that are joined, the one on its way included.
    piece: u64,
    bytes_written: u64,
    /// Whether the phase goes on as fast as before.
    is_steady: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Rows,
    Bytes,
}

impl PlanStatus {
    fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        let join = find_join(&plan).cloned();
        let inputs = match &join {
            Some(join) => {
                let mut inputs: Vec<Input> = join.children().into_iter().map(Input::new).collect();
                if builds_right(join) {
                    inputs.reverse();
                }
                inputs
            }
            None => vec![Input::new(&plan)],
        };
        let now = Instant::now();
        Self { join, inputs, since: now, phase: Phase::Reading, phase_since: now }
    }

    /// A counter of the join; `None` where it has none yet.
    fn metric(&self, name: &str) -> Option<u64> {
        sum(&self.join.as_ref()?.metrics()?, name)
    }

    fn count(&self, name: &str) -> u64 {
        self.metric(name).unwrap_or(0)
    }

    fn phase(&self) -> Phase {
        if self.join.is_none() {
            return Phase::Reading;
        }
        // The counters of the disk are there from the first row on that goes there.
        let to_disk = self.metric("spill_bands").is_some();
        let is_stored = self.count("spill_bands") > 0;
        let probe_stored = self.inputs.len() == 1 || self.count("probe_spilled_rows") > 0;
        match (to_disk, is_stored, self.count("probe_rows")) {
            (true, false, _) => Phase::Storing,
            (true, true, 0) if !probe_stored => Phase::StoringProbe,
            (true, true, _) if probe_stored => Phase::JoiningFromDisk,
            (_, _, 0) => Phase::Indexing,
            _ => Phase::Joining,
        }
    }

    fn figures(&self, phase: Phase) -> Figures {
        let [build, probe] = [self.inputs.first(), self.inputs.last()];
        let is_self_join = self.inputs.len() == 1;
        let rows = match phase {
            Phase::Reading => build.map_or(0, |input| output_rows(&input.leaves)),
            Phase::Indexing | Phase::Storing => self.count("build_rows"),
            Phase::StoringProbe => probe.map_or(0, |input| output_rows(&input.leaves)),
            Phase::Joining | Phase::JoiningFromDisk => self.count("probe_rows"),
        };
        let figures = Figures {
            phase,
            done: rows,
            of: None,
            unit: Unit::Rows,
            rows,
            candidates: self.count("candidates"),
            matches: self.count("matches"),
            piece: self.count("spill_passes") + 1,
            bytes_written: self.count("spilled_bytes"),
            // The rows of a self-join meet those before them; pieces take different times.
            is_steady: phase != Phase::JoiningFromDisk
                && !(phase == Phase::Joining && is_self_join),
        };
        match phase {
            Phase::Reading | Phase::Indexing | Phase::Storing => of_input(figures, build, 0),
            Phase::StoringProbe => of_input(figures, probe, self.build_bytes()),
            Phase::Joining if is_self_join => {
                let known = build.and_then(|input| input.rows);
                Figures { of: known.map(|rows| rows as u64), ..figures }
            }
            Phase::Joining => of_input(figures, probe, self.build_bytes()),
            // Rows that were indexed, of those that were stored.
            Phase::JoiningFromDisk => Figures {
                done: self.count("build_sets"),
                of: Some(self.count("build_spilled_rows")),
                ..figures
            },
        }
    }

    fn build_bytes(&self) -> u64 {
        self.inputs.first().and_then(|input| input.bytes).unwrap_or(0)
    }

    fn line(&mut self) -> String {
        let phase = self.phase();
        if phase != self.phase {
            (self.phase, self.phase_since) = (phase, Instant::now());
        }
        line_of(self.figures(phase), self.since.elapsed(), self.phase_since.elapsed())
    }
}

/// The figures with the known extent of an input: its rows, or the bytes of its files, of which the
/// first ones read belong to another input.
fn of_input(figures: Figures, input: Option<&Input>, before: u64) -> Figures {
    let Some(input) = input else { return figures };
    match (input.rows, input.bytes) {
        (Some(rows), _) => Figures { of: Some(rows as u64), ..figures },
        (None, Some(bytes)) if bytes > 0 => Figures {
            done: reads::bytes().saturating_sub(before).min(bytes),
            of: Some(bytes),
            unit: Unit::Bytes,
            ..figures
        },
        _ => figures,
    }
}

fn line_of(figures: Figures, elapsed: Duration, in_phase: Duration) -> String {
    let rows = HumanCount(figures.rows);
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = HumanCount((figures.rows as f64 / seconds) as u64);
    let written = HumanBytes(figures.bytes_written);
    let amount = match (figures.of, figures.unit) {
        (Some(of), Unit::Rows) => format!("{rows} of {} rows", HumanCount(of)),
        (Some(of), Unit::Bytes) => {
            format!("{} of {}, {rows} rows", HumanBytes(figures.done), HumanBytes(of))
        }
        (None, _) => format!("{rows} rows"),
    };
    let share = figures.of.filter(|of| *of > 0).map(|of| figures.done as f64 / of as f64);
    let share = share.map(|share| share.min(1.0));
    let percent = share.map_or(String::new(), |share| format!(" ({:.0}%)", 100.0 * share));
    let left = match share {
        Some(share) if figures.is_steady => time_left(share, in_phase),
        _ => None,
    };
    let left = left.map_or(String::new(), |left| format!(", {} left", minutes(left)));
    let found = format!(
        "{} candidates, {} matches",
        HumanCount(figures.candidates),
        HumanCount(figures.matches)
    );
    match figures.phase {
        Phase::Reading => format!("reading: {amount}{percent}, {rate} rows/s{left}"),
        Phase::Indexing if share == Some(1.0) => format!("indexing: {rows} rows"),
        Phase::Indexing => format!("indexing: {amount}{percent}{left}"),
        Phase::Storing | Phase::StoringProbe => {
            format!("writing to disk: {amount}{percent}, {written} written{left}")
        }
        Phase::Joining => format!("joining: {amount}{percent}, {found}, {rate} rows/s{left}"),
        Phase::JoiningFromDisk => {
            format!("joining from disk: piece {}{percent}, {found}", figures.piece)
        }
    }
}

/// The time that the rest takes where `share` of the work took `elapsed`; `None` where that says
/// little yet.
fn time_left(share: f64, elapsed: Duration) -> Option<Duration> {
    const LEAST_SHARE: f64 = 0.03;
    const LEAST_TIME: Duration = Duration::from_secs(2);
    if !(LEAST_SHARE..1.0).contains(&share) || elapsed < LEAST_TIME {
        return None;
    }
    Some(elapsed.mul_f64((1.0 - share) / share))
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
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

fn collect_leaves(plan: &Arc<dyn ExecutionPlan>, leaves: &mut Vec<Arc<dyn ExecutionPlan>>) {
    let children = plan.children();
    if children.is_empty() {
        leaves.push(Arc::clone(plan));
    }
    for child in children {
        collect_leaves(child, leaves);
    }
}

/// The rows that some operators have given.
fn output_rows(plans: &[Arc<dyn ExecutionPlan>]) -> u64 {
    let metrics = plans.iter().filter_map(|plan| plan.metrics());
    metrics.filter_map(|metrics| metrics.output_rows()).map(|rows| rows as u64).sum()
}

/// The bytes that a reader of files reads; `None` for other operators.
fn bytes_of_files(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let source = plan.downcast_ref::<DataSourceExec>()?;
    let files = source.data_source().downcast_ref::<FileScanConfig>()?;
    let files = files.file_groups.iter().flat_map(|group| group.files());
    Some(
        files
            .map(|file| match &file.range {
                Some(range) => (range.end - range.start).max(0) as u64,
                None => file.object_meta.size,
            })
            .sum(),
    )
}

fn row_count(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let statistics =
        StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::default()).ok()?;
    statistics.num_rows.get_value().copied()
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::session::{SimJoinContextExt, install};

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
        assert!(status.line().starts_with("reading: "), "{}", status.line());
        collect(plan, task).await.unwrap();
        assert!(status.line().contains(" of 1,234 rows"), "{}", status.line());
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
        assert!(status.line().starts_with("indexing: 0 of 900 rows (0%)"), "{}", status.line());
        collect(plan, ctx.task_ctx()).await.unwrap();
        assert!(status.line().starts_with("joining: 900 of 900 rows (100%)"), "{}", status.line());

        for option in ["spill = 'always'", "debug.spill_piece_rows = 300"] {
            ctx.sql(&format!("SET simjoin.{option}")).await.unwrap();
        }
        let plan = planned(&ctx, sql).await;
        let mut status = PlanStatus::new(Arc::clone(&plan));
        collect(plan, ctx.task_ctx()).await.unwrap();
        let line = status.line();
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
        let input = Input::new(&plan);
        assert_eq!((input.rows, input.bytes), (None, Some(21)));
    }

    #[test]
    fn lines_say_how_much_is_done_and_left() {
        let figures = Figures {
            phase: Phase::Joining,
            done: 250_000,
            of: Some(1_000_000),
            unit: Unit::Rows,
            rows: 250_000,
            candidates: 5_000,
            matches: 70,
            piece: 3,
            bytes_written: 5 << 20,
            is_steady: true,
        };
        let line = |figures| line_of(figures, Duration::from_secs(20), Duration::from_secs(10));
        let joining = "joining: 250,000 of 1,000,000 rows (25%), 5,000 candidates, 70 matches, 12,500 \
                       rows/s";
        assert_eq!(line(figures), format!("{joining}, 0:30 left"));
        assert_eq!(line(Figures { is_steady: false, ..figures }), joining);
        let storing = Figures { phase: Phase::Storing, ..figures };
        assert_eq!(
            line(storing),
            "writing to disk: 250,000 of 1,000,000 rows (25%), 5.00 MiB written, 0:30 left"
        );
        let bytes = Figures { unit: Unit::Bytes, done: 1 << 20, of: Some(4 << 20), ..storing };
        assert_eq!(
            line(bytes),
            "writing to disk: 1.00 MiB of 4.00 MiB, 250,000 rows (25%), 5.00 MiB written, 0:30 left"
        );
        let unknown = Figures { phase: Phase::Indexing, of: None, ..figures };
        assert_eq!(line(unknown), "indexing: 250,000 rows");
        let from_disk = Figures { phase: Phase::JoiningFromDisk, is_steady: false, ..figures };
        assert_eq!(
            line(from_disk),
            "joining from disk: piece 3 (25%), 5,000 candidates, 70 matches"
        );
        assert_eq!(time_left(0.5, Duration::from_secs(1)), None);
        assert_eq!(time_left(0.01, Duration::from_secs(60)), None);
        assert_eq!(minutes(Duration::from_secs(3725)), "1:02:05");
    }
}
