//! Pipes that statements read: standard input, FIFOs and open files of this process.
//!
//! A pipe gives its bytes once, and a statement reads a file several times: to learn its columns,
//! and for each side of a join. So the bytes of a pipe are first written to a temporary file, which
//! is part of the disk limit and stays for the session.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::catalog::Session;
use datafusion::common::{Result, exec_datafusion_err, plan_err, resources_datafusion_err};
use datafusion::execution::DiskManager;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::spill_file::SpillFile;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as Location;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::input::{Input, plain};
use super::names;
use super::reading::FileName;
use crate::storage::DataDirs;

/// The names of standard input.
const STDIN: [&str; 3] = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// Whether the path is standard input of this process.
pub fn is_stdin(path: &Path) -> bool {
    STDIN.iter().any(|name| Path::new(name) == path)
}

/// The pipes that a session has read, by their names.
#[derive(Default)]
pub struct Pipes {
    /// Why no pipe can be read, where that is so.
    refused: Option<&'static str>,
    /// Why standard input cannot be read, where that is so.
    stdin_refused: Option<&'static str>,
    /// None while the pipe is read, and after that was given up: its rows are not whole then.
    read: Mutex<HashMap<PathBuf, Option<Arc<dyn SpillFile>>>>,
    names: Mutex<HashMap<Location, String>>,
}

impl std::fmt::Debug for Pipes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipes").field("names", &self.names.lock()).finish_non_exhaustive()
    }
}

impl Pipes {
    /// Pipes of a session. `refused` is why statements may read none, `stdin_refused` why not standard input.
    pub fn new(refused: Option<&'static str>, stdin_refused: Option<&'static str>) -> Self {
        Self { refused, stdin_refused, ..Self::default() }
    }

    /// The pipes of a process that runs statements of others, who have none here.
    pub fn of_others() -> Self {
        Self::new(Some("it is a pipe of another process"), None)
    }

    /// Whether statements of this process write into pipes of it.
    pub(super) fn may_be_written(&self) -> bool {
        self.refused.is_none()
    }

    /// The name of a file in messages, or of the pipe whose rows it has.
    pub(super) fn name(&self, location: &Location) -> FileName {
        match self.names.lock().get(location) {
            Some(pipe) => FileName::given(pipe),
            None => FileName::of(location),
        }
    }

    /// The name of a file that this process has got open under the path.
    pub(super) fn opened(&self, path: &Path) -> Option<String> {
        match kind(path) {
            PathKind::OpenFile(file) => file.to_str().map(str::to_string),
            _ => None,
        }
    }

    /// The location of all the rows of a pipe; None for a path that is no pipe.
    pub(super) async fn kept(&self, path: &Path, session: &dyn Session) -> Result<Option<String>> {
        let path = match kind(path) {
            PathKind::Pipe if is_stdin(path) => Path::new(STDIN[0]),
            PathKind::Pipe => path,
            PathKind::File | PathKind::OpenFile(_) => return Ok(None),
        };
        let refused = self.refused.or(self.stdin_refused.filter(|_| is_stdin(path)));
        if let Some(reason) = refused {
            return plan_err!("{} cannot be read: {reason}", path.display());
        }
        // Standard input is that of whoever started the program.
        if let Some(folders) = session.config().get_extension::<DataDirs>()
            && !is_stdin(path)
            && let Err(outside) = folders.check_read(path)
        {
            return plan_err!("{outside}");
        }
        let known = self.read.lock().get(path).cloned();
        let file = match known {
            Some(Some(file)) => file,
            Some(None) => {
                return plan_err!(
                    "{} gives its rows once, and a statement that was cancelled or failed has \
                     read some of them",
                    path.display()
                );
            }
            None => {
                self.read.lock().insert(path.to_path_buf(), None);
                let file = keep(path, &session.runtime_env().disk_manager).await?;
                self.read.lock().insert(path.to_path_buf(), Some(Arc::clone(&file)));
                file
            }
        };
        let Some(kept) = file.path().and_then(Path::to_str) else {
            return plan_err!("{} cannot be kept in this session", path.display());
        };
        let store = ObjectStoreUrl::parse(PIPES)?;
        session
            .runtime_env()
            .register_object_store(store.as_ref(), Arc::new(LocalFileSystem::new()));
        self.names.lock().insert(Location::from_absolute_path(kept)?, path.display().to_string());
        Ok(Some(format!("{PIPES}{}", names::url_path(kept))))
    }
}

/// The store of the temporary files that hold the rows of pipes, to which no statement can give a
/// name: folders of statements (`--data-dir`) need not have them.
pub(super) const PIPES: &str = "pipe://";

enum PathKind {
    /// A file or folder, or nothing.
    File,
    /// A file that this process has got open, by its own path.
    OpenFile(PathBuf),
    Pipe,
}

fn kind(path: &Path) -> PathKind {
    let is_open =
        is_stdin(path) || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd");
    let Ok(found) = std::fs::metadata(path) else {
        // Some systems cannot open standard input by name, where it is a socket.
        return if is_stdin(path) { PathKind::Pipe } else { PathKind::File };
    };
    if found.is_dir() {
        return PathKind::File;
    }
    if found.is_file() {
        return match path.canonicalize() {
            Ok(file) if is_open => PathKind::OpenFile(file),
            // A file without a name any more, such as a here-document.
            Err(_) if is_open => PathKind::Pipe,
            _ => PathKind::File,
        };
    }
    match is_open || is_fifo(&found) {
        true => PathKind::Pipe,
        false => PathKind::File,
    }
}

#[cfg(unix)]
fn is_fifo(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_fifo() || found.file_type().is_socket()
}

#[cfg(not(unix))]
fn is_fifo(_: &std::fs::Metadata) -> bool {
    false
}

/// The bytes of the pipe that is being read, and one; 0 where none is.
static BYTES: AtomicU64 = AtomicU64::new(0);

/// The bytes that have come from a pipe that is being read, if one is.
pub fn bytes_of_pipe() -> Option<u64> {
    BYTES.load(Ordering::Relaxed).checked_sub(1)
}

/// Shows that a pipe is being read, until it is dropped.
struct Shown;

impl Shown {
    fn start() -> Self {
        BYTES.store(1, Ordering::Relaxed);
        Self
    }

    fn add(&self, bytes: usize) {
        BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        BYTES.store(0, Ordering::Relaxed);
    }
}

/// Writes all that a pipe gives, without its compression, to a temporary file. The reader has a thread of its own: it may
/// wait for long, and a statement that is cancelled does not wait for it.
async fn keep(path: &Path, disk: &Arc<DiskManager>) -> Result<Arc<dyn SpillFile>> {
    let name = path.display().to_string();
    let file = disk.create_tmp_file(&format!("reading {name}"))?;
    let (outcome, kept) = oneshot::channel();
    let (from, to, limit) = (path.to_path_buf(), Arc::clone(&file), Arc::clone(disk));
    let copy = move || {
        let copied = copy(&from, to.as_ref(), &limit, || outcome.is_closed());
        let _ = outcome.send(copied);
    };
    std::thread::Builder::new()
        .name("pipe".to_string())
        .spawn(copy)
        .map_err(|e| exec_datafusion_err!("reading {name}: {e}"))?;
    match kept.await {
        Ok(copied) => copied.map(|()| file),
        Err(_) => Err(exec_datafusion_err!("reading {name} ended early")),
    }
}

fn copy(
    path: &Path,
    file: &dyn SpillFile,
    disk: &DiskManager,
    is_given_up: impl Fn() -> bool,
) -> Result<()> {
    let failed = |e: io::Error| exec_datafusion_err!("reading {}: {e}", path.display());
    let pipe: Input = match is_stdin(path) {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(failed)?),
    };
    let shown = Shown::start();
    // Without its compression, whatever the format of the rows in it is.
    let (_, mut pipe) = plain(pipe)?;
    let mut writer = file.open_writer()?;
    let mut buffer = vec![0; 256 << 10];
    while !is_given_up() {
        let read = match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(failed(e)),
        };
        shown.add(read);
        let limit = disk.max_temp_directory_size();
        if disk.used_disk_space() + read as u64 > limit {
            return Err(resources_datafusion_err!(
                "{} is kept in a temporary file, which with other temporary files exceeds the \
                 limit of {limit} bytes (datafusion.runtime.max_temp_directory_size)",
                path.display()
            ));
        }
        writer.write_all(&buffer[..read]).map_err(|e| {
            exec_datafusion_err!(
                "{} is kept in a temporary file, which cannot be written: {e}",
                path.display()
            )
        })?;
    }
    writer.finish()
}
