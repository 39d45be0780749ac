//! The checksums of a file, in a file beside it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use ballista_core::execution_plans::sort_shuffle::{
    ShuffleIndex, get_index_path, is_sort_shuffle_output,
};
use datafusion::common::{DataFusionError, Result, exec_err};

use simjoin_core::util::checksum::{Checksummer, Checksums};

/// Bytes of a block: whoever reads a small partition of a file reads at most two blocks more.
const BLOCK_BYTES: u64 = 32 << 10;

/// The file of the checksums of a file.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".crc32");
    name.into()
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> DataFusionError {
    move |error| {
        DataFusionError::IoError(error)
            .context(format!("the shuffle file {} cannot be read", path.display()))
    }
}

/// Writes the checksums of a complete file.
///
/// # Errors
///
/// When the disk fails or is full.
pub(super) fn seal(path: &Path) -> Result<()> {
    let mut file = File::open(path).map_err(unreadable(path))?;
    let mut checksummer = Checksummer::new(BLOCK_BYTES);
    let mut buffer = vec![0; 8 * BLOCK_BYTES as usize];
    loop {
        match file.read(&mut buffer).map_err(unreadable(path))? {
            0 => break,
            bytes => checksummer.update(&buffer[..bytes]),
        }
    }
    Ok(fs::write(beside(path), checksummer.finish().to_bytes())?)
}

/// Compares the blocks of a file that hold `parts` with what its task wrote.
///
/// # Errors
///
/// When the file has changed, or cannot be read.
pub(super) fn check(path: &Path, parts: impl IntoIterator<Item = Range<u64>>) -> Result<()> {
    let noted = fs::read(beside(path)).map_err(unreadable(&beside(path)))?;
    let Some(written) = Checksums::from_bytes(BLOCK_BYTES, &noted) else {
        return changed(&beside(path), "holds other bytes than were written");
    };
    let mut file = File::open(path).map_err(unreadable(path))?;
    let bytes = file.metadata().map_err(unreadable(path))?.len();
    if bytes != written.bytes() {
        let what = format!("has {bytes} bytes in place of the {} written", written.bytes());
        return changed(path, &what);
    }
    let mut buffer = vec![0; BLOCK_BYTES as usize];
    let mut at = 0;
    for part in parts {
        let mut place = part.start;
        while place < part.end.min(bytes) {
            let (number, block) = written.block_at(place);
            if at != block.start {
                file.seek(SeekFrom::Start(block.start)).map_err(unreadable(path))?;
            }
            let content = &mut buffer[..(block.end - block.start) as usize];
            file.read_exact(content).map_err(unreadable(path))?;
            at = block.end;
            if !written.is_of_block(number, crc32fast::hash(content)) {
                let Range { start, end } = block;
                let what = format!("holds other bytes from {start} to {end} than were written");
                return changed(path, &what);
            }
            place = block.end;
        }
    }
    Ok(())
}

/// Checks a whole file likewise.
pub(super) fn check_whole(path: &Path) -> Result<()> {
    check(path, std::iter::once(0..u64::MAX))
}

/// Checks all that is read of one partition likewise: the file may hold several, found by an index.
pub(super) fn check_partition(path: &Path, partition: usize) -> Result<()> {
    if !is_sort_shuffle_output(path) {
        return check_whole(path);
    }
    let index_path = get_index_path(path);
    check_whole(&index_path)?;
    let index = ShuffleIndex::read_from_file(&index_path)
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    if partition >= index.partition_count() {
        return exec_err!("the shuffle file {} has no partition {partition}", path.display());
    }
    let (start, end) = index.get_partition_range(partition);
    // The schema is in front.
    let header = 0..index.header_end_offset() as u64;
    check(path, [header, start as u64..end as u64])
}

fn changed<T>(path: &Path, what: &str) -> Result<T> {
    exec_err!(
        "the shuffle file {} {what}: the disk or another process changed it; start the executor \
         with another --work-dir if that disk is faulty",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, RngCore, SeedableRng};

    use super::*;

    #[test]
    fn a_change_anywhere_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut rng = StdRng::seed_from_u64(3);
        for bytes in [0, 1, 1000, 32 << 10, 100_000] {
            let path = folder.path().join(format!("data-{bytes}.arrow"));
            let mut content = vec![0; bytes];
            rng.fill_bytes(&mut content);
            fs::write(&path, &content).unwrap();
            assert!(check_whole(&path).is_err(), "there are no checksums yet");
            seal(&path).unwrap();
            check_partition(&path, 0).unwrap();
            let fails = |path: &Path, changed: &[u8], what: &str| {
                let before = fs::read(path).unwrap();
                fs::write(path, changed).unwrap();
                let data = path.with_extension("").with_extension("arrow");
                let error = check_whole(&data).unwrap_err().to_string();
                assert!(error.contains(&path.display().to_string()), "{error}");
                assert!(error.contains(what), "{error}");
                fs::write(path, before).unwrap();
            };
            for _ in 0..if bytes > 0 { 50 } else { 0 } {
                let mut changed = content.clone();
                changed[rng.random_range(0..bytes)] ^= 1 << rng.random_range(0..8);
                fails(&path, &changed, "holds other bytes");
            }
            fails(&path, &[&content[..], &[0]].concat(), "in place of");
            let noted = fs::read(beside(&path)).unwrap();
            for place in 0..noted.len() {
                let mut changed = noted.clone();
                changed[place] ^= 1 << rng.random_range(0..8);
                fails(&beside(&path), &changed, "holds other bytes");
            }
            fails(&beside(&path), &noted[..noted.len() - 1], "holds other bytes");
            fails(&beside(&path), &[], "holds other bytes");
            check_whole(&path).unwrap();
            fs::remove_file(beside(&path)).unwrap();
            assert!(check_whole(&path).unwrap_err().to_string().contains("cannot be read"));
        }
    }

    /// A part is read by whole blocks; others are left alone.
    #[test]
    fn parts_are_checked_by_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.arrow");
        let block = BLOCK_BYTES as usize;
        let content = vec![7; 10 * block + 5];
        fs::write(&path, &content).unwrap();
        seal(&path).unwrap();
        let mut changed = content;
        changed[4 * block + 1] = 8;
        fs::write(&path, changed).unwrap();
        let block = BLOCK_BYTES;
        for fine in [0..4 * block, 5 * block..u64::MAX, 3..3, 10 * block..10 * block + 5] {
            check(&path, [fine]).unwrap();
        }
        for found in [0..u64::MAX, 4 * block..4 * block + 1, 5 * block - 1..7 * block] {
            check(&path, [0..1, found]).unwrap_err();
        }
    }

    #[test]
    fn a_partition_of_several_is_found_by_its_index() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.arrow");
        let content = vec![7; 300_000];
        fs::write(&path, &content).unwrap();
        let mut index = ShuffleIndex::new(2);
        index.set_offset(0, 100);
        index.set_offset(1, 150_000);
        index.set_total_length(300_000);
        let index_path = get_index_path(&path);
        index.write_to_file(&index_path).unwrap();
        seal(&path).unwrap();
        seal(&index_path).unwrap();
        for partition in 0..2 {
            check_partition(&path, partition).unwrap();
        }
        check_partition(&path, 2).unwrap_err();
        let mut changed = content.clone();
        changed[250_000] ^= 1;
        fs::write(&path, &changed).unwrap();
        check_partition(&path, 0).unwrap();
        check_partition(&path, 1).unwrap_err();
        changed.clone_from(&content);
        changed[5] ^= 1;
        fs::write(&path, &changed).unwrap();
        for partition in 0..2 {
            check_partition(&path, partition).unwrap_err();
        }
        fs::write(&path, &content).unwrap();
        index.set_offset(1, 150_001);
        index.write_to_file(&index_path).unwrap();
        let error = check_partition(&path, 0).unwrap_err().to_string();
        assert!(error.contains("data.arrow.index"), "{error}");
    }
}
