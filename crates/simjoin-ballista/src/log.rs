//! The statement that a message of the log is about.

use std::any::Any;
use std::future::Future;

use ballista_core::serde::protobuf::FailedTask;
use ballista_core::serde::protobuf::failed_task::FailedReason;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::FutureExt;
use futures::future::BoxFuture;

tokio::task_local! {
    static JOB: String;
}

/// Runs a future for a statement: the messages that it logs are about it.
pub(super) fn in_job<F: Future>(job: String, future: F) -> impl Future<Output = F::Output> {
    JOB.scope(job, future)
}

/// The statement for which the code that calls this runs.
pub fn current_job() -> Option<String> {
    JOB.try_with(Clone::clone).ok()
}

/// A statement that a message names: Ballista's names of statements are thirteen digits in base 32.
pub fn named_job(message: &str) -> Option<&str> {
    let is_name = |word: &&str| {
        word.len() == 13
            && word.starts_with('0')
            && word.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
    };
    message.split(|c: char| !c.is_ascii_alphanumeric()).find(is_name)
}

/// Lets what DataFusion does in tasks and threads of its own be about the statement as well.
pub(super) fn follow_jobs() {
    // Another one in the process, which came first, does it for all.
    let _ = set_join_set_tracer(&Jobs);
}

struct Jobs;

type Output = Box<dyn Any + Send>;

impl JoinSetTracer for Jobs {
    fn trace_future(&self, future: BoxFuture<'static, Output>) -> BoxFuture<'static, Output> {
        match current_job() {
            Some(job) => JOB.scope(job, future).boxed(),
            None => future,
        }
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Output + Send>,
    ) -> Box<dyn FnOnce() -> Output + Send> {
        match current_job() {
            Some(job) => Box::new(move || JOB.sync_scope(job, block)),
            None => block,
        }
    }
}

/// Logs the end of a task that failed. A task that was cancelled is no failure.
pub(super) fn task_failed(name: &str, failed: &FailedTask) {
    match failed.failed_reason {
        Some(FailedReason::TaskKilled(_)) => log::info!("{name} was cancelled"),
        _ => log::warn!("{name} failed: {}", failed.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_about_the_statement_that_runs() {
        assert_eq!(current_job(), None);
        let inner = in_job("one".to_string(), async {
            let future = async { Box::new(current_job()) as Output }.boxed();
            let future = Jobs.trace_future(future);
            let block = Jobs.trace_block(Box::new(|| Box::new(current_job()) as Output));
            let elsewhere = tokio::spawn(future).await.unwrap();
            let thread = tokio::task::spawn_blocking(block).await.unwrap();
            [elsewhere, thread].map(|job| *job.downcast::<Option<String>>().unwrap())
        });
        assert_eq!(inner.await, [Some("one".to_string()), Some("one".to_string())]);
        assert_eq!(current_job(), None);
    }

    #[test]
    fn statements_are_found_in_messages() {
        let named = "Execute task : [TID 038FTPTXP8000/1.0/2.0]";
        assert_eq!(named_job(named), Some("038FTPTXP8000"));
        for none in ["", "038FTPTXP800", "038FTPTXP80000", "x38FTPTXP8000 and 038ftptxp8000"] {
            assert_eq!(named_job(none), None, "{none}");
        }
    }
}
