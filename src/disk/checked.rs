//! Spill files with a checksum for each block, verified before the block is decoded.
//!
//! DataFusion writes batches to a spill file as an Arrow IPC stream, and trusts it when it reads
//! them: a bit that has flipped on the disk would make another answer. The file here stands between
//! DataFusion and the file of the session's disk manager. It takes the CRC-32 of every block of
//! bytes on their way to the disk, and gives bytes back only when those of their whole block are
//! the ones written. The checksums stay in memory, beside the segment that owns the file: a block
//! from another place or file does not pass either, and the file itself is plain Arrow IPC.

use std::io::{self, Write};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use crc32fast::Hasher;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_datafusion_err};
use datafusion::execution::DiskManager;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, StreamExt, stream};

use crate::util::checksum::{Checksummer, Checksums};

/// Bytes of a block. DataFusion reads files in chunks of this size, so that most chunks are given
/// on as they come; the checksums of a file take a 32768th of its size.
const BLOCK_BYTES: u64 = 128 << 10;

/// The environment of a session, in which spill files are checked.
pub(super) fn environment(session: &RuntimeEnv) -> Result<Arc<RuntimeEnv>> {
    let disk = CheckedDisk(Arc::clone(&session.disk_manager));
    let disk = DiskManager::builder().with_temp_file_factory(Arc::new(disk)).build()?;
    Ok(Arc::new(RuntimeEnv { disk_manager: Arc::new(disk), ..session.clone() }))
}

/// Makes checked files of those of a disk manager, which counts and limits their bytes.
struct CheckedDisk(Arc<DiskManager>);

impl TempFileFactory for CheckedDisk {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        let file = self.0.create_tmp_file(description)?;
        Ok(Arc::new(CheckedFile { file, written: Arc::default() }))
    }
}

/// A spill file that is written once, then read any number of times.
struct CheckedFile {
    file: Arc<dyn SpillFile>,
    /// Set when the file is complete.
    written: Arc<OnceLock<Arc<Checksums>>>,
}

impl SpillFile for CheckedFile {
    fn path(&self) -> Option<&std::path::Path> {
        self.file.path()
    }

    fn size(&self) -> Option<u64> {
        self.file.size()
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let Some(written) = self.written.get() else {
            return Err(internal_datafusion_err!("a spill file is read before it is complete"));
        };
        let name = match self.file.path() {
            Some(path) => format!("the spill file {}", path.display()),
            None => "a spill file of this join".to_string(),
        };
        let reader = CheckedReader {
            chunks: self.file.read_stream()?,
            check: Check {
                written: Arc::clone(written),
                name,
                read: 0,
                block: Hasher::new(),
                held: vec![],
            },
            checked: vec![],
        };
        Ok(Box::pin(stream::try_unfold(reader, |mut reader| async move {
            Ok(reader.next().await?.map(|chunk| (chunk, reader)))
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(CheckedWriter {
            writer: self.file.open_writer()?,
            checksummer: Checksummer::new(BLOCK_BYTES),
            written: Arc::clone(&self.written),
        }))
    }
}

/// Writes a file and takes its checksums.
struct CheckedWriter {
    writer: Box<dyn SpillWriter>,
    checksummer: Checksummer,
    written: Arc<OnceLock<Arc<Checksums>>>,
}

impl Write for CheckedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.checksummer.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl SpillWriter for CheckedWriter {
    fn finish(&mut self) -> Result<()> {
        self.writer.finish()?;
        let checksummer = std::mem::replace(&mut self.checksummer, Checksummer::new(BLOCK_BYTES));
        self.written
            .set(Arc::new(checksummer.finish()))
            .map_err(|_| internal_datafusion_err!("a spill file is written twice"))
    }
}

/// Reads a file and gives its chunks once they are checked.
struct CheckedReader {
    chunks: Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>,
    check: Check,
    /// Chunks to give, the last one first.
    checked: Vec<Bytes>,
}

impl CheckedReader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(chunk) = self.checked.pop() {
                return Ok(Some(chunk));
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.checked = self.check.add(chunk)?,
                Some(Err(error)) => {
                    let name = &self.check.name;
                    return Err(error.context(format!("{name} cannot be read")));
                }
                None => return self.check.end().map(|()| None),
            }
        }
    }
}

/// Compares what is read of a file with what was written.
struct Check {
    written: Arc<Checksums>,
    /// The file's name, for errors.
    name: String,
    /// Bytes read.
    read: u64,
    /// The checksum of the block that has begun.
    block: Hasher,
    /// Chunks of the block that has begun.
    held: Vec<Bytes>,
}

impl Check {
    /// Adds the next bytes of the file; gives all that are checked, the last chunk first.
    fn add(&mut self, mut chunk: Bytes) -> Result<Vec<Bytes>> {
        let written = self.written.bytes();
        let mut rest = &chunk[..];
        let mut passed = 0;
        while !rest.is_empty() {
            if self.read == written {
                return Err(self.changed(format!("is longer than the {written} bytes written")));
            }
            let (number, Range { start, end }) = self.written.block_at(self.read);
            let (part, behind) = rest.split_at(rest.len().min((end - self.read) as usize));
            self.block.update(part);
            self.read += part.len() as u64;
            if self.read == end {
                let checksum = std::mem::take(&mut self.block).finalize();
                if !self.written.is_of_block(number, checksum) {
                    let what = format!("holds other bytes from {start} to {end} than were written");
                    return Err(self.changed(what));
                }
                passed = chunk.len() - behind.len();
            }
            rest = behind;
        }
        let mut checked = vec![];
        if passed > 0 {
            checked.push(chunk.split_to(passed));
            checked.extend(self.held.drain(..).rev());
        }
        if !chunk.is_empty() {
            self.held.push(chunk);
        }
        Ok(checked)
    }

    /// The file has no more bytes.
    fn end(&self) -> Result<()> {
        let written = self.written.bytes();
        match self.read == written {
            true => Ok(()),
            false => {
                let what = format!("ends after {} of the {written} bytes written", self.read);
                Err(self.changed(what))
            }
        }
    }

    fn changed(&self, what: String) -> DataFusionError {
        exec_datafusion_err!(
            "{} {what}: the disk or another process changed it while a similarity join had its \
             rows there; run the statement again, with another \
             datafusion.runtime.temp_directory if that disk is faulty",
            self.name
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures::TryStreamExt;
    use rand::rngs::StdRng;
    use rand::{Rng, RngCore, SeedableRng};

    use super::*;

    const BLOCK: usize = BLOCK_BYTES as usize;

    /// A file with `content`, written in pieces of many sizes.
    fn written(content: &[u8]) -> Arc<dyn SpillFile> {
        let environment = environment(&RuntimeEnv::default()).unwrap();
        let file = environment.disk_manager.create_tmp_file("a test").unwrap();
        let mut writer = file.open_writer().unwrap();
        let mut rest = content;
        let mut rng = StdRng::seed_from_u64(content.len() as u64);
        while !rest.is_empty() {
            let most = [1, 100, BLOCK, 3 * BLOCK][rng.random_range(0..4)];
            let (part, behind) = rest.split_at(rng.random_range(0..=most).min(rest.len()));
            writer.write_all(part).unwrap();
            rest = behind;
        }
        writer.flush().unwrap();
        writer.finish().unwrap();
        file
    }

    fn random(bytes: usize) -> Vec<u8> {
        let mut content = vec![0; bytes];
        StdRng::seed_from_u64(7).fill_bytes(&mut content);
        content
    }

    async fn read(file: &dyn SpillFile) -> (Vec<u8>, Option<String>) {
        let mut stream = file.read_stream().unwrap();
        let mut content = vec![];
        loop {
            match stream.try_next().await {
                Ok(Some(chunk)) => content.extend_from_slice(&chunk),
                Ok(None) => return (content, None),
                Err(error) => return (content, Some(error.strip_backtrace())),
            }
        }
    }

    #[tokio::test]
    async fn unchanged_files_are_read_as_they_were_written() {
        for bytes in [0, 1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 5 * BLOCK + 17] {
            let content = random(bytes);
            let file = written(&content);
            assert_eq!(file.size(), Some(bytes as u64));
            for _ in 0..2 {
                assert!(read(&*file).await == (content.clone(), None), "{bytes}");
            }
        }
    }

    /// Nothing of a changed block is given, and the error names the file.
    #[tokio::test]
    async fn changed_files_are_errors() {
        let bytes = 3 * BLOCK + 1000;
        let content = random(bytes);
        let file = written(&content);
        let path = file.path().unwrap().to_path_buf();
        let check = async |changed: &[u8], before: usize, what: &str| {
            fs::write(&path, changed).unwrap();
            let (found, error) = read(&*file).await;
            let error = error.unwrap();
            assert!(error.contains(&path.display().to_string()), "{error}");
            assert!(error.contains(what), "{error}");
            assert!(found == content[..before], "{} bytes are given: {error}", found.len());
        };
        for place in [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 77, bytes - 1] {
            for bit in [0, 5] {
                let mut changed = content.clone();
                changed[place] ^= 1 << bit;
                check(&changed, place / BLOCK * BLOCK, "holds other bytes from").await;
            }
        }
        let mut swapped = content.clone();
        let (first, second) = swapped.split_at_mut(BLOCK);
        first.swap_with_slice(&mut second[..BLOCK]);
        check(&swapped, 0, "holds other bytes from 0 to 131072").await;
        check(&content[..bytes - 1], 3 * BLOCK, "ends after 394215 of the 394216").await;
        check(&content[..BLOCK], BLOCK, "ends after 131072 of").await;
        check(&[], 0, "ends after 0 of").await;
        let longer = [&content[..], &[0]].concat();
        check(&longer, 3 * BLOCK, "is longer than the 394216").await;
        fs::remove_file(&path).unwrap();
        let (_, error) = read(&*file).await;
        let error = error.unwrap();
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.contains("cannot be read"), "{error}");
    }

    /// The chunks of another disk manager begin and end anywhere.
    #[tokio::test]
    async fn chunks_of_any_size_are_checked() {
        let content = random(3 * BLOCK + 1000);
        let file = RuntimeEnv::default().disk_manager.create_tmp_file("a test").unwrap();
        let file = CheckedFile { file, written: Arc::default() };
        let mut writer = file.open_writer().unwrap();
        writer.write_all(&content).unwrap();
        writer.finish().unwrap();
        for bytes in [7000, BLOCK - 1, BLOCK + 1, 2 * BLOCK, 10 * BLOCK] {
            let mut changed = content.clone();
            changed[2 * BLOCK + 5] ^= 1;
            for (content, given) in [(&content, content.len()), (&changed, 2 * BLOCK)] {
                let chunks = content.chunks(bytes).map(|chunk| Ok(Bytes::copy_from_slice(chunk)));
                let chunks: Vec<_> = chunks.collect();
                let name = "x".to_string();
                let written = Arc::clone(file.written.get().unwrap());
                let (read, block, held) = (0, Hasher::new(), vec![]);
                let check = Check { written, name, read, block, held };
                let chunks = Box::pin(stream::iter(chunks));
                let mut reader = CheckedReader { chunks, check, checked: vec![] };
                let mut found = vec![];
                let error = loop {
                    match reader.next().await {
                        Ok(Some(chunk)) => found.extend_from_slice(&chunk),
                        Ok(None) => break None,
                        Err(error) => break Some(error),
                    }
                };
                assert_eq!(error.is_some(), given < content.len());
                assert!(found.len() <= given && found == content[..found.len()]);
                assert!(error.is_some() || found.len() == given);
            }
        }
    }
}
