//! Records of a CSV file, one by one, with the lines on which they start.

use std::io::Read;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use datafusion::common::Result;
use datafusion::common::config::CsvOptions;

use crate::input::Input;

/// The bytes of a file that are read at a time.
const BLOCK: usize = 256 << 10;

/// Reads records as Arrow's reader does, by the same state machine.
pub(super) struct Records {
    input: Input,
    reader: Reader,
    block: Vec<u8>,
    /// The part of the block that was not read yet.
    start: usize,
    end: usize,
    /// The bytes of all fields of the record.
    bytes: Vec<u8>,
    length: usize,
    /// Where each field ends.
    ends: Vec<usize>,
    count: usize,
    line: u64,
    /// Bytes of the file that were read.
    pub(super) consumed: u64,
}

impl Records {
    pub(super) fn new(input: Input, options: &CsvOptions) -> Self {
        let mut builder = ReaderBuilder::new();
        builder.delimiter(options.delimiter).quote(options.quote);
        builder.escape(options.escape).comment(options.comment);
        if let Some(terminator) = options.terminator {
            builder.terminator(Terminator::Any(terminator));
        }
        Self {
            input,
            reader: builder.build(),
            block: vec![0; BLOCK],
            start: 0,
            end: 0,
            bytes: vec![0; 1 << 10],
            length: 0,
            ends: vec![0; 64],
            count: 0,
            line: 1,
            consumed: 0,
        }
    }

    /// Goes to the next record; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        (self.length, self.count) = (0, 0);
        if self.start == self.end {
            self.fill()?;
        }
        let ahead = self.block[self.start..self.end].iter();
        let line_ends = ahead.take_while(|byte| matches!(byte, b'\n' | b'\r'));
        let skipped = line_ends.filter(|byte| **byte == b'\n').count();
        self.line = self.reader.line() + skipped as u64;
        loop {
            if self.start == self.end {
                self.fill()?;
            }
            let (result, read, written, ended) = self.reader.read_record(
                &self.block[self.start..self.end],
                &mut self.bytes[self.length..],
                &mut self.ends[self.count..],
            );
            self.start += read;
            self.consumed += read as u64;
            self.length += written;
            self.count += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.bytes.resize(2 * self.bytes.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::Record => return Ok(true),
                ReadRecordResult::End => return Ok(false),
            }
        }
    }

    fn fill(&mut self) -> Result<()> {
        self.start = 0;
        self.end = self.input.read(&mut self.block)?;
        Ok(())
    }

    /// The number of fields of the record.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn field(&self, column: usize) -> &[u8] {
        let start = column.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[column]]
    }

    /// The bytes of all fields, one after the other.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The line of the file on which the record starts, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }
}
