//! Shows the progress of a long statement as one line on standard error.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use console::Term;
use datafusion::physical_plan::ExecutionPlan;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

use simjoin_files as files;
use simjoin_session::errors::tell;
use simjoin_session::progress::PlanStatus;
use simjoin_session::{cluster, reads};

/// A statement that ends sooner shows no line.
const PATIENCE: Duration = Duration::from_secs(1);
const REFRESH: Duration = Duration::from_millis(200);

/// The progress of one statement.
#[derive(Clone)]
pub(super) struct StatementProgress(Option<Arc<Shown>>);

struct Shown {
    bar: ProgressBar,
    /// The rows of a table are made by a plan that nobody shows.
    makes_table: AtomicBool,
    plan: OnceLock<Arc<dyn ExecutionPlan>>,
}

impl StatementProgress {
    /// A line is shown where standard error is a terminal, unless `quiet`.
    pub(super) fn new(quiet: bool) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        Self(Some(Arc::new(Shown { bar, makes_table: false.into(), plan: OnceLock::new() })))
    }

    /// Tells whose metrics to show.
    pub(super) fn watch(&self, plan: &Arc<dyn ExecutionPlan>) {
        if let Some(shown) = &self.0 {
            reads::start();
            // A statement has one plan.
            let _ = shown.plan.set(Arc::clone(plan));
        }
    }

    /// Tells that the rows of a table are being made, up to the plan of the statement.
    pub(super) fn makes_table(&self) {
        if let Some(shown) = &self.0 {
            shown.makes_table.store(true, Ordering::Relaxed);
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
                let columns = Term::stderr().size_checked().map(|(_, columns)| columns.into());
                shown.bar.set_message(status.line(columns.unwrap_or(usize::MAX)));
            } else {
                shown.bar.set_message(shown.before_plan());
            }
            shown.bar.tick();
            tokio::time::sleep(REFRESH).await;
        }
    }
}

impl Shown {
    /// The work of a statement before the plan that runs is known.
    fn before_plan(&self) -> String {
        match (files::bytes_of_pipe(), self.makes_table.load(Ordering::Relaxed)) {
            (Some(bytes), _) => format!("reading a pipe: {}", HumanBytes(bytes)),
            (None, true) => "making the rows of the table".to_string(),
            (None, false) => "planning".to_string(),
        }
    }
}
