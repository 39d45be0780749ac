//! Steps of a reader of one file: their errors name the file, and a panic is an error.
//!
//! Readers of Parquet and Arrow trust lengths and offsets of the file in places, and panic where
//! these lie.

use std::any::Any;
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path as SystemPath;
use std::pin::pin;
use std::sync::{Arc, Once};
use std::task::{Context, Poll};

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use datafusion::object_store::path::Path;
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::storage;

thread_local! {
    /// Whether a step of a reader runs on this thread, which catches its panic.
    static READS: Cell<bool> = const { Cell::new(false) };
}

/// The start of the context of an error that names a file.
pub const READING: &str = "reading ";

/// The name of a file in messages.
#[derive(Debug, Clone)]
pub(super) struct FileName(Arc<str>);

impl FileName {
    /// The name of a local file, without the folder of this process.
    pub(super) fn of(location: &Path) -> Self {
        let root = if cfg!(windows) { "" } else { "/" };
        let path = format!("{root}{location}");
        let here = std::env::current_dir().unwrap_or_default();
        let shown = SystemPath::new(&path).strip_prefix(&here).ok().and_then(SystemPath::to_str);
        Self(shown.filter(|shown| !shown.is_empty()).unwrap_or(&path).into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of something that is no file of the disk.
    pub(super) fn given(name: &str) -> Self {
        Self(name.into())
    }

    /// The error with the file's name before it.
    pub(super) fn blame(&self, error: DataFusionError) -> DataFusionError {
        match error {
            error if !is_of_file(error.find_root()) => error,
            // A file that the statement may not touch is named.
            error if storage::outside(&error).is_some() => storage::without_layers(error),
            // Readers take what they cannot read for a bug.
            DataFusionError::Internal(text) => self.blame(DataFusionError::Execution(text)),
            // The reader of CSV names the file as the object store does.
            DataFusionError::Context(context, inner) if context.contains("processing CSV file") => {
                self.blame(*inner)
            }
            DataFusionError::Context(context, inner) if context.starts_with(READING) => {
                DataFusionError::Context(context, inner)
            }
            error => error.context(format!("{READING}{}", self.0)),
        }
    }

    fn blame_panic(&self, panic: &(dyn Any + Send)) -> DataFusionError {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let error = DataFusionError::External(format!("the file is damaged ({text})").into());
        self.blame(error)
    }

    /// Runs a step.
    pub(super) fn step<T>(&self, step: impl FnOnce() -> Result<T>) -> Result<T> {
        self.caught(step)?.map_err(|error| self.blame(error))
    }

    fn caught<T>(&self, step: impl FnOnce() -> T) -> Result<T> {
        let outer = READS.replace(true);
        let result = catch_unwind(AssertUnwindSafe(step));
        READS.set(outer);
        result.map_err(|panic| self.blame_panic(panic.as_ref()))
    }

    /// Waits for a step.
    pub(super) async fn wait<T>(&self, step: impl Future<Output = Result<T>>) -> Result<T> {
        self.wait_caught(step).await.map_err(|error| self.blame(error))
    }

    /// Waits for a step whose errors may have nothing to do with the file; a panic has.
    pub(super) async fn wait_caught<T>(&self, step: impl Future<Output = Result<T>>) -> Result<T> {
        let mut step = pin!(step);
        poll_fn(|context| match self.caught(|| step.as_mut().poll(context)) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(Err(panic)),
        })
        .await
    }

    /// The batches of the file, up to the first error.
    pub(super) fn stream<T: Send + 'static>(
        &self,
        mut batches: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let name = self.clone();
        let mut ended = false;
        let next = move |context: &mut Context<'_>| {
            if ended {
                return Poll::Ready(None);
            }
            let poll = match name.caught(|| batches.poll_next_unpin(context)) {
                Ok(poll) => poll.map_err(|error| name.blame(error)),
                Err(panic) => Poll::Ready(Some(Err(panic))),
            };
            // A reader that has panicked is not asked again.
            ended = matches!(poll, Poll::Ready(Some(Err(_)) | None));
            poll
        };
        futures::stream::poll_fn(next).boxed()
    }
}

/// Whether an error that comes out of a scan may be the file's. Memory runs out whatever the file,
/// and scans compute expressions of the statement.
fn is_of_file(root: &DataFusionError) -> bool {
    match root {
        DataFusionError::ResourcesExhausted(_) => false,
        DataFusionError::ArrowError(error, _) => !matches!(
            error.as_ref(),
            ArrowError::CastError(_)
                | ArrowError::ComputeError(_)
                | ArrowError::DivideByZero
                | ArrowError::ArithmeticOverflow(_)
        ),
        _ => true,
    }
}

/// Leaves panics of readers, which become errors, off standard error.
pub fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !READS.get() {
                others(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn errors_and_panics_name_the_file() {
        quiet_panics();
        let file = FileName::of(&Path::from("data/x.parquet"));
        let fails = || -> Result<()> { Err(DataFusionError::Execution("no footer".into())) };
        let panics = || -> Result<()> { panic!("range start") };
        for error in [
            file.step(fails).unwrap_err(),
            file.wait(async { fails() }).await.unwrap_err(),
            file.stream(futures::stream::iter([fails()]).boxed())
                .next()
                .await
                .unwrap()
                .unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(
                text.contains("reading /data/x.parquet") && text.contains("no footer"),
                "{text}"
            );
        }
        let mut stream = file.stream(futures::stream::once(async move { panics() }).boxed());
        for error in [
            file.step(panics).unwrap_err(),
            file.wait(async { panics() }).await.unwrap_err(),
            stream.next().await.unwrap().unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(text.contains("x.parquet") && text.contains("damaged (range start)"), "{text}");
        }
        assert!(stream.next().await.is_none());
        let memory = DataFusionError::ResourcesExhausted("no".into());
        assert!(matches!(file.blame(memory), DataFusionError::ResourcesExhausted(_)));
        let computed = DataFusionError::from(ArrowError::DivideByZero);
        assert!(matches!(file.blame(computed), DataFusionError::ArrowError(..)));
        let error = file.blame(DataFusionError::Internal("no footer".into())).to_string();
        assert!(!error.contains("bug"), "{error}");
    }
}
