//! Writing into pipes and devices, where no file can be put in place by renaming.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path as SystemPath, PathBuf};
use std::sync::mpsc;

use async_trait::async_trait;
use datafusion::object_store::{Error, MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use futures::FutureExt;
use tokio::sync::oneshot;

/// The names of standard output.
const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Whether the path is standard output of this process.
pub fn is_stdout(path: &SystemPath) -> bool {
    STDOUT.iter().any(|name| SystemPath::new(name) == path)
}

/// Whether the path is written as it stands: a pipe, a device, or an open file of this process.
pub fn is_written_directly(path: &SystemPath) -> bool {
    if is_stdout(path) || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd") {
        return true;
    }
    cfg!(unix) && std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// A pipe or device that is open for writing, or standard output.
pub enum Pipe {
    /// Standard output.
    Stdout,
    /// A pipe or device by its name.
    File(File),
}

impl Pipe {
    /// Opens it, which may wait for a reader.
    pub fn open(path: &SystemPath) -> io::Result<Self> {
        match is_stdout(path) {
            true => Ok(Self::Stdout),
            false => Ok(Self::File(OpenOptions::new().write(true).open(path)?)),
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout => io::stdout().write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().flush(),
            Self::File(file) => file.flush(),
        }
    }
}

/// Parts to write in their order, each with the place for its outcome.
type Parts = mpsc::Sender<(PutPayload, oneshot::Sender<io::Result<()>>)>;

/// Writes parts into a pipe, on a thread of its own: opening and writing wait for the reader, for
/// as long as it likes, and a statement that is cancelled does not wait for them.
#[derive(Debug)]
pub(super) struct PipeWriter {
    parts: Parts,
}

impl PipeWriter {
    /// A writer into the pipe or device of that path.
    pub(super) fn at(path: PathBuf) -> Self {
        let (parts, todo) = mpsc::channel::<(PutPayload, oneshot::Sender<io::Result<()>>)>();
        let write = move || {
            let mut pipe = None;
            while let Ok((part, outcome)) = todo.recv() {
                let written = write_part(&mut pipe, &path, &part);
                // The statement may have ended.
                let _ = outcome.send(written);
            }
        };
        // Without a thread the first part fails: nothing receives it.
        let _ = std::thread::Builder::new().name("pipe".to_string()).spawn(write);
        Self { parts }
    }
}

fn write_part(pipe: &mut Option<Pipe>, path: &SystemPath, part: &PutPayload) -> io::Result<()> {
    let pipe = match pipe {
        Some(pipe) => pipe,
        None => pipe.insert(Pipe::open(path)?),
    };
    part.iter().try_for_each(|bytes| pipe.write_all(bytes))?;
    pipe.flush()
}

#[async_trait]
impl MultipartUpload for PipeWriter {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (outcome, written) = oneshot::channel();
        let _ = self.parts.send((data, outcome));
        async move {
            let written = written.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
            written.map_err(|source| Error::Generic { store: "a pipe", source: Box::new(source) })
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        // An empty result opens the pipe as well, and its reader sees the end.
        self.put_part(PutPayload::new()).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        Ok(())
    }
}
