//! Shows the progress of a long statement as one line on standard error.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::cluster;
use super::errors::tell;

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

/// The similarity join's name in physical plans.
const JOIN: &str = "SetSimilarityJoinExec";

/// A physical plan and the known number of its input rows.
struct PlanStatus {
    /// The topmost similarity join, or else the leaves.
    watched: Vec<Arc<dyn ExecutionPlan>>,
    is_join: bool,
    /// Rows that the join's larger input, or the leaves, are known to have.
    known_rows: Option<usize>,
    since: Instant,
}

impl PlanStatus {
    fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        let join = find_join(&plan).cloned();
        let is_join = join.is_some();
        let (watched, known_rows) = match join {
            Some(join) => {
                // The larger input is probed; a self-join has one.
                let known = join.children().into_iter().map(row_count).max().flatten();
                (vec![join], known)
            }
            None => {
                let mut leaves = vec![];
                collect_leaves(&plan, &mut leaves);
                let known = leaves.iter().map(row_count).sum();
                (leaves, known)
            }
        };
        Self { watched, is_join, known_rows, since: Instant::now() }
    }

    fn metric(&self, name: &str) -> usize {
        let metrics = self.watched.iter().filter_map(|plan| plan.metrics());
        metrics.filter_map(|m| m.sum_by_name(name)).map(|value| value.as_usize()).sum()
    }

    fn line(&self) -> String {
        let seconds = self.since.elapsed().as_secs_f64().max(0.001);
        let rate = |rows: usize| HumanCount((rows as f64 / seconds) as u64);
        let of_known = match self.known_rows {
            Some(known) => format!(" of {}", HumanCount(known as u64)),
            None => String::new(),
        };
        let count = |name| HumanCount(self.metric(name) as u64);
        if !self.is_join {
            let rows = self.metric("output_rows");
            let done = HumanCount(rows as u64);
            return format!("reading: {done}{of_known} rows, {} rows/s", rate(rows));
        }
        let probed = self.metric("probe_rows");
        if probed == 0 {
            return format!("indexing: {} rows", count("build_rows"));
        }
        format!(
            "joining: {}{of_known} rows, {} candidates, {} matches, {} rows/s",
            HumanCount(probed as u64),
            count("candidates"),
            count("matches"),
            rate(probed)
        )
    }
}

fn find_join(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if plan.name() == JOIN {
        return Some(plan);
    }
    plan.children().into_iter().find_map(find_join)
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

fn row_count(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let statistics =
        StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::default()).ok()?;
    statistics.num_rows.get_value().copied()
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn a_plan_without_a_join_shows_the_rows_read() {
        let ctx = SessionContext::new();
        ctx.sql("CREATE TABLE t AS SELECT * FROM range(0, 1234)").await.unwrap();
        let frame = ctx.sql("SELECT value + 1 FROM t").await.unwrap();
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.unwrap();
        let status = PlanStatus::new(Arc::clone(&plan));
        assert!(status.line().starts_with("reading: "), "{}", status.line());
        collect(plan, task).await.unwrap();
        assert!(status.line().contains(" of 1,234 rows"), "{}", status.line());
    }
}
