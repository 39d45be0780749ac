//! The part of a statement's files that has been read, for its progress.
//!
//! Readers of CSV and JSON count rows, of which a file says no number beforehand, and not bytes. The
//! store of local files gives them an open file; a second handle of it has the same position.

use std::fs::File;
use std::io::Seek;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::object_store::path::Path;
use datafusion::object_store::{GetOptions, GetResult, GetResultPayload, ObjectStore, Result};
use parking_lot::Mutex;

use simjoin_files::Look;
use simjoin_files::storage::{Layer, Layered};

/// Files watched at once, at most: each one takes a file handle.
const MOST_FILES: usize = 64;

/// The files that the statement on its way reads; `None` while nobody asks for progress.
static READS: Mutex<Option<Reads>> = Mutex::new(None);

#[derive(Debug, Default)]
struct Reads {
    /// The bytes of files that were read to their ends.
    done: u64,
    open: Vec<(File, Range<u64>)>,
}

impl Reads {
    fn watch(&mut self, file: &File, range: Range<u64>) {
        if self.open.len() >= MOST_FILES {
            self.bytes();
        }
        match file.try_clone() {
            Ok(file) if self.open.len() < MOST_FILES => self.open.push((file, range)),
            // Counted too early, which is better than never.
            _ => self.done += range.end - range.start,
        }
    }

    /// The bytes read so far. Closes files that were read to their ends.
    fn bytes(&mut self) -> u64 {
        let mut read = 0;
        let mut ended = 0;
        self.open.retain_mut(|(file, range)| {
            let position = file.stream_position().unwrap_or(range.start);
            if position >= range.end {
                ended += range.end - range.start;
                return false;
            }
            read += position.saturating_sub(range.start);
            true
        });
        self.done += ended;
        self.done + read
    }
}

/// Watches the files that are opened from now on.
pub fn start() {
    *READS.lock() = Some(Reads::default());
}

/// Forgets the files of the statement.
pub fn stop() {
    *READS.lock() = None;
}

/// The bytes that were read since the start.
pub fn bytes() -> u64 {
    READS.lock().as_mut().map_or(0, Reads::bytes)
}

/// Watches the local files of a store as they are read.
#[derive(Debug)]
pub struct WatchedFiles(Arc<dyn ObjectStore>);

impl WatchedFiles {
    /// A store that tells of the local files it opens.
    pub fn new(files: Arc<dyn ObjectStore>) -> Layered<Self> {
        Layered(Self(files))
    }
}

#[async_trait]
impl Layer for WatchedFiles {
    fn inner(&self) -> &dyn ObjectStore {
        self.0.as_ref()
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_look = options.extensions.get::<Look>().is_some();
        let result = self.0.get_opts(location, options).await?;
        if !is_look
            && let GetResultPayload::File(file, _) = &result.payload
            && let Some(reads) = READS.lock().as_mut()
        {
            reads.watch(file, result.range.clone());
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_second_handle_tells_how_far_a_file_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, vec![b'x'; 1000]).unwrap();
        let mut whole = File::open(&path).unwrap();
        let mut part = File::open(&path).unwrap();
        let mut reads = Reads::default();
        reads.watch(&whole, 0..1000);
        reads.watch(&part, 500..600);
        assert_eq!(reads.bytes(), 0);
        whole.read_exact(&mut [0; 300]).unwrap();
        assert_eq!(reads.bytes(), 300);
        part.seek(std::io::SeekFrom::Start(550)).unwrap();
        assert_eq!(reads.bytes(), 350);
        part.read_exact(&mut [0; 60]).unwrap();
        assert_eq!((reads.bytes(), reads.open.len()), (400, 1));
        whole.read_to_end(&mut vec![]).unwrap();
        assert_eq!((reads.bytes(), reads.open.len()), (1100, 0));
        for _ in 0..MOST_FILES + 5 {
            reads.watch(&File::open(&path).unwrap(), 0..1000);
        }
        assert_eq!(reads.open.len(), MOST_FILES);
        assert_eq!(reads.bytes(), 1100 + 5 * 1000);
    }
}
