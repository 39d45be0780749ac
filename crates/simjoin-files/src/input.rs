//! The bytes of a text file: out of its compression, in UTF-8, without a byte order mark.

use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;

use datafusion::common::{Result, exec_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    GetOptions, GetRange, GetResultPayload, ObjectStore, ObjectStoreExt,
};

/// Bytes that are read one after the other.
pub(super) type Input = Box<dyn Read + Send>;

/// The first bytes of compressed data.
const COMPRESSIONS: [(&[u8], FileCompressionType, &str); 4] = [
    (&[0x1f, 0x8b], FileCompressionType::GZIP, "gz"),
    (b"BZh", FileCompressionType::BZIP2, "bz2"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], FileCompressionType::XZ, "xz"),
    (&[0x28, 0xb5, 0x2f, 0xfd], FileCompressionType::ZSTD, "zst"),
];

/// The bytes of the first block of bzip2, or of the end of a file without one.
const BZIP2_BLOCKS: [[u8; 6]; 2] =
    [[0x31, 0x41, 0x59, 0x26, 0x53, 0x59], [0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];

/// The compression that data beginning so has, with the end of the names of such files.
pub(super) fn compression_of(start: &[u8]) -> Option<(FileCompressionType, &'static str)> {
    let is_of = |magic: &[u8]| {
        let is_bzip2 = magic == b"BZh";
        start.starts_with(magic)
            && (!is_bzip2
                || start.get(3).is_some_and(u8::is_ascii_digit)
                    && start.get(4..10).is_some_and(|b| BZIP2_BLOCKS.iter().any(|m| b == m)))
    };
    let found = COMPRESSIONS.iter().find(|(magic, ..)| is_of(magic));
    found.map(|(_, compression, name)| (*compression, *name))
}

/// A mark of reads that look at a file before its rows are read, which the progress of a statement leaves out.
#[derive(Debug, Clone, Copy)]
pub struct Look;

/// The purpose of a read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Rows,
    ALook,
}

/// Opens a text file from its start.
pub(super) async fn open(
    store: &dyn ObjectStore,
    file: &Path,
    compression: FileCompressionType,
    purpose: For,
) -> Result<Input> {
    let bytes = raw(store, file, None, purpose).await?;
    let (start, bytes) = peek(compression.convert_read(bytes)?, 10)?;
    if !compression.is_compressed()
        && let Some((_, name)) = compression_of(&start)
    {
        return exec_err!(
            "the file is compressed, and its name does not say so: name it as in x.csv.{name}, or \
             give OPTIONS ('format.compression' '{name}') in CREATE EXTERNAL TABLE"
        );
    }
    Ok(match start.as_slice() {
        [0xff, 0xfe, ..] => Box::new(Utf16::new(bytes, u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Box::new(Utf16::new(bytes, u16::from_be_bytes)),
        [0xef, 0xbb, 0xbf, ..] => without_mark(bytes)?,
        _ => bytes,
    })
}

/// The bytes of a file as they stand, or of a part of it.
pub(super) async fn raw(
    store: &dyn ObjectStore,
    file: &Path,
    range: Option<Range<u64>>,
    purpose: For,
) -> Result<Input> {
    let range = range.map(GetRange::Bounded);
    let mut options = GetOptions { range, ..GetOptions::default() };
    if purpose == For::ALook {
        options.extensions.insert(Look);
    }
    let result = store.get_opts(file, options).await?;
    let span = result.range.clone();
    if !matches!(result.payload, GetResultPayload::File(..)) {
        return Ok(Box::new(Cursor::new(result.bytes().await?)));
    }
    match result.payload {
        GetResultPayload::File(mut file, _) => {
            file.seek(SeekFrom::Start(span.start))?;
            Ok(Box::new(file.take(span.end - span.start)))
        }
        GetResultPayload::Stream(_) => exec_err!("the file has become a stream"),
    }
}

/// Whether a file that is not compressed is in UTF-16, so that only its whole can be read.
pub(super) async fn is_utf16(store: &dyn ObjectStore, file: &Path, size: u64) -> Result<bool> {
    let start = store.get_range(file, 0..size.min(2)).await?;
    Ok(matches!(start.as_ref(), [0xff, 0xfe] | [0xfe, 0xff]))
}

/// The data without its compression, which its first bytes tell, and these bytes.
pub(super) fn plain(input: Input) -> Result<(Vec<u8>, Input)> {
    let (start, bytes) = peek(input, 10)?;
    match compression_of(&start) {
        Some((compression, _)) => peek(compression.convert_read(bytes)?, 10),
        None => Ok((start, bytes)),
    }
}

/// The first bytes, and all bytes.
fn peek(mut input: Input, count: usize) -> Result<(Vec<u8>, Input)> {
    let mut start = vec![];
    input.by_ref().take(count as u64).read_to_end(&mut start)?;
    let whole = Cursor::new(start.clone()).chain(input);
    Ok((start, Box::new(whole)))
}

/// The bytes behind a byte order mark of UTF-8.
fn without_mark(mut input: Input) -> Result<Input> {
    io::copy(&mut input.by_ref().take(3), &mut io::sink())?;
    Ok(input)
}

/// Text in UTF-16, given as UTF-8.
struct Utf16 {
    input: Input,
    unit: fn([u8; 2]) -> u16,
    /// Bytes that have not been decoded: half a unit, or the first unit of a pair.
    bytes: Vec<u8>,
    text: Vec<u8>,
    /// The bytes of the text that were given.
    given: usize,
    is_first: bool,
    ended: bool,
}

impl Utf16 {
    fn new(input: Input, unit: fn([u8; 2]) -> u16) -> Self {
        let (bytes, text) = (vec![], vec![]);
        Self { input, unit, bytes, text, given: 0, is_first: true, ended: false }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.text.clear();
        self.given = 0;
        while self.text.is_empty() && !self.ended {
            let read = self.input.by_ref().take(64 << 10).read_to_end(&mut self.bytes)?;
            self.ended = read == 0;
            self.decode()?;
        }
        Ok(())
    }

    fn decode(&mut self) -> io::Result<()> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the text is no UTF-16");
        let units: Vec<u16> =
            self.bytes.chunks_exact(2).map(|pair| (self.unit)([pair[0], pair[1]])).collect();
        let is_cut = units.last().is_some_and(|last| (0xd800..0xdc00).contains(last));
        let whole = units.len() - usize::from(is_cut && !self.ended);
        for decoded in char::decode_utf16(units[..whole].iter().copied()) {
            let character = decoded.map_err(|_| wrong())?;
            if !(self.is_first && character == '\u{feff}') {
                self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            self.is_first = false;
        }
        self.bytes.drain(..2 * whole);
        match self.ended && !self.bytes.is_empty() {
            true => Err(wrong()),
            false => Ok(()),
        }
    }
}

impl Read for Utf16 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.text.len() {
            self.fill()?;
        }
        let count = buffer.len().min(self.text.len() - self.given);
        buffer[..count].copy_from_slice(&self.text[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Slow(Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(1);
            self.0.read(&mut buffer[..count])
        }
    }

    #[test]
    fn utf16_is_given_as_utf8() {
        let text = "\u{feff}a,\u{e9}\n\u{1f600},\u{feff}x".repeat(20_000);
        let expected = text.strip_prefix('\u{feff}').unwrap();
        let le: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for (bytes, unit) in
            [(le, u16::from_le_bytes as fn([u8; 2]) -> u16), (be, u16::from_be_bytes)]
        {
            let inputs: [Input; 2] =
                [Box::new(Cursor::new(bytes.clone())), Box::new(Slow(Cursor::new(bytes)))];
            for input in inputs {
                let mut read = String::new();
                Utf16::new(input, unit).read_to_string(&mut read).unwrap();
                assert!(read == expected);
            }
        }
        for wrong in [&[0xff, 0xfe, 0x61][..], &[0xff, 0xfe, 0, 0xd8], &[0xff, 0xfe, 0, 0xdc]] {
            let input = Box::new(Cursor::new(wrong.to_vec()));
            assert!(Utf16::new(input, u16::from_le_bytes).read_to_end(&mut vec![]).is_err());
        }
    }

    #[test]
    fn compressions_are_known_by_their_first_bytes() {
        assert!(compression_of(b"BZh91AY&SY").is_some());
        assert!(compression_of(b"BZhe,name\n").is_none());
        assert_eq!(compression_of(&[0x1f, 0x8b, 8]).unwrap().1, "gz");
        assert!(compression_of(b"id,t\n").is_none());
    }
}
