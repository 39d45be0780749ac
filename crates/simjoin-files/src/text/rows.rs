//! Batches of rows out of the bytes of a file, and the row at fault where there is one.

use std::io::{BufRead, BufReader};

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};

use crate::input::Input;

/// Rows of a batch while the row at fault is looked for.
const ROWS: usize = 8192;

/// Makes batches of bytes as they come.
pub(super) trait Decode: Send {
    /// Takes bytes up to the end of a batch, and gives their number. No bytes are the end of the file.
    fn decode(&mut self, bytes: &[u8]) -> Result<usize>;

    /// Whether the batch has all the rows that it may have.
    fn is_full(&self) -> bool;

    /// The rows that were decoded; `None` where there are none.
    fn flush(&mut self) -> Result<Option<RecordBatch>>;
}

/// The batches of a file, or of a part of it.
pub(super) struct DecodedRows<D> {
    input: BufReader<Input>,
    decoder: D,
    ended: bool,
}

impl<D: Decode> DecodedRows<D> {
    pub(super) fn new(input: Input, decoder: D) -> Self {
        Self { input: BufReader::with_capacity(256 << 10, input), decoder, ended: false }
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let bytes = self.input.fill_buf()?;
            let at_end = bytes.is_empty();
            let taken = self.decoder.decode(bytes)?;
            self.input.consume(taken);
            if at_end || self.decoder.is_full() {
                return self.decoder.flush();
            }
        }
    }
}

impl<D: Decode> Iterator for DecodedRows<D> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let batch = self.read();
        self.ended = !matches!(batch, Ok(Some(_)));
        batch.transpose()
    }
}

/// A row that cannot be read.
pub(super) struct Fault {
    /// Its number in the file, from 1.
    pub(super) row: u64,
    /// Its bytes, and perhaps more behind them.
    pub(super) bytes: Vec<u8>,
    pub(super) error: DataFusionError,
}

/// The first row of a file that cannot be read. `decoder` makes a decoder of so many rows a batch, for the
/// start of the file or for rows behind it.
pub(super) fn first_fault<D: Decode>(
    input: Input,
    decoder: impl Fn(usize, bool) -> Result<D>,
) -> Result<Option<Fault>> {
    let mut input = BufReader::with_capacity(256 << 10, input);
    let mut rows = decoder(ROWS, true)?;
    let (mut kept, mut before, mut is_first) = (vec![], 0, true);
    loop {
        let bytes = input.fill_buf()?;
        let (length, at_end) = (bytes.len(), bytes.is_empty());
        let taken = rows.decode(bytes);
        let count = *taken.as_ref().unwrap_or(&length);
        kept.extend_from_slice(&bytes[..count]);
        input.consume(count);
        if taken.is_ok() && !at_end && !rows.is_full() {
            continue;
        }
        match taken.and_then(|_| rows.flush()) {
            Ok(Some(batch)) => {
                before += batch.num_rows() as u64;
                kept.clear();
                is_first = false;
            }
            Ok(None) => return Ok(None),
            Err(error) => return one_by_one(&kept, decoder(1, is_first)?, before, error).map(Some),
        }
    }
}

/// The first of some rows that cannot be read, one of which has this error.
fn one_by_one(
    bytes: &[u8],
    mut decoder: impl Decode,
    before: u64,
    error: DataFusionError,
) -> Result<Fault> {
    let (mut row, mut start, mut at) = (before + 1, 0, 0);
    loop {
        let taken = decoder.decode(&bytes[at..]);
        let at_end = at == bytes.len();
        at += *taken.as_ref().unwrap_or(&0);
        if taken.is_ok() && !at_end && !decoder.is_full() {
            continue;
        }
        match taken.and_then(|_| decoder.flush()) {
            Ok(Some(_)) => {
                row += 1;
                start = at;
            }
            Ok(None) => {}
            Err(error) => return Ok(Fault { row, bytes: bytes[start..].to_vec(), error }),
        }
        if at_end {
            return Ok(Fault { row, bytes: bytes[start..].to_vec(), error });
        }
    }
}

/// A value in messages, of which long ones show their start.
pub(super) fn shown(value: &str) -> String {
    const LONGEST: usize = 60;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("'{}…'", &value[..end]),
        None => format!("'{value}'"),
    }
}
