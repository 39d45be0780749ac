//! The files of a statement that writes.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    Error, MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result, UploadPart,
};
use futures::FutureExt;
use parking_lot::Mutex;

use super::pipe_writer::{PipeWriter, is_stdout, is_written_directly};
use super::reading::FileName;
use crate::storage::{DataDirs, Layer};

/// Remembers why a file of a store could not be written, and writes into pipes what is written under
/// their names.
#[derive(Debug)]
pub(super) struct WrittenFiles {
    inner: Arc<dyn ObjectStore>,
    /// The folders that statements may touch, of a process that writes into pipes.
    pipes: Option<Option<Arc<DataDirs>>>,
    failure: Arc<Failure>,
}

/// The first failure, with the name of the file.
#[derive(Debug, Default)]
struct Failure(Mutex<Option<(FileName, io::ErrorKind, String)>>);

impl Failure {
    fn remember(&self, location: &Path, error: &Error) {
        let mut known = self.0.lock();
        if known.is_some() {
            return;
        }
        let mut source = error.source();
        let mut system = None;
        while let Some(error) = source {
            system = error.downcast_ref::<io::Error>().or(system);
            source = error.source();
        }
        let (kind, text) = match system {
            Some(error) => (error.kind(), error.to_string()),
            None => (io::ErrorKind::Other, error.to_string()),
        };
        let text = match kind {
            io::ErrorKind::StorageFull => format!("the disk is full: {text}"),
            io::ErrorKind::QuotaExceeded => format!("the quota of the disk is used up: {text}"),
            _ => text,
        };
        *known = Some((FileName::of(location), kind, text));
    }

    fn noted<T>(&self, location: &Path, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.remember(location, error))
    }
}

impl WrittenFiles {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, pipes: Option<Option<Arc<DataDirs>>>) -> Self {
        Self { inner, pipes, failure: Arc::default() }
    }

    /// A writer for the location of a pipe. It opens what the path leads to, so that has to be in
    /// the folders; standard output is that of whoever started the program.
    fn pipe(&self, location: &Path) -> Option<PipeWriter> {
        let folders = self.pipes.as_ref()?;
        let path = PathBuf::from(format!("/{location}"));
        let may_write = is_stdout(&path)
            || folders.as_ref().is_none_or(|folders| folders.check_read(&path).is_ok());
        match may_write && is_written_directly(&path) {
            true => Some(PipeWriter::at(path)),
            false => None,
        }
    }

    /// The error of the file that could not be written, if there is one.
    pub(super) fn failure(&self) -> Option<DataFusionError> {
        let (file, kind, text) = self.failure.0.lock().clone()?;
        let error = DataFusionError::IoError(io::Error::new(kind, text));
        Some(error.context(format!("writing {}", file.as_str())))
    }
}

#[async_trait]
impl Layer for WrittenFiles {
    fn inner(&self) -> &dyn ObjectStore {
        self.inner.as_ref()
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let result = match self.pipe(location) {
            Some(mut pipe) => {
                let written = pipe.put_part(payload).await;
                match written {
                    Ok(()) => pipe.complete().await,
                    Err(error) => Err(error),
                }
            }
            None => self.inner.put_opts(location, payload, options).await,
        };
        self.failure.noted(location, result)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload: Box<dyn MultipartUpload> = match self.pipe(location) {
            Some(pipe) => Box::new(pipe),
            None => {
                let upload = self.inner.put_multipart_opts(location, options).await;
                self.failure.noted(location, upload)?
            }
        };
        let failure = Arc::clone(&self.failure);
        Ok(Box::new(WatchedUpload { inner: upload, location: location.clone(), failure }))
    }
}

/// An upload whose failure is remembered.
#[derive(Debug)]
struct WatchedUpload {
    inner: Box<dyn MultipartUpload>,
    location: Path,
    failure: Arc<Failure>,
}

#[async_trait]
impl MultipartUpload for WatchedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.inner.put_part(data);
        let (location, failure) = (self.location.clone(), Arc::clone(&self.failure));
        async move { failure.noted(&location, part.await) }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let result = self.inner.complete().await;
        self.failure.noted(&self.location, result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
