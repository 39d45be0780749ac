//! Where the rows of a statement go: to standard output, into a pipe, or into files.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::common::DataFusionError;
use datafusion::config::FormatOptions;

use super::output::{PrintOptions, PrintedRows, ResultWriter, Screen, Stdout};
use super::progress::StatementProgress;
use simjoin_files::{self as files, Pipe};
use simjoin_session::errors::SessionError;

/// Where the rows of a statement go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// To standard output, as results.
    Printed,
    /// Into a pipe, as a result.
    Into(PathBuf),
    /// Into a pipe by the plan itself, whose result is their number.
    Written(PathBuf),
}

impl Destination {
    pub(super) fn is_stdout(&self) -> bool {
        match self {
            Self::Printed => true,
            Self::Into(path) | Self::Written(path) => files::is_stdout(path),
        }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_stdout() && io::stdout().is_terminal()
    }

    /// The writer that takes the result.
    pub(super) fn open(
        &self,
        progress: &StatementProgress,
    ) -> Result<Box<dyn Write + Send>, SessionError> {
        if self.is_stdout() {
            // Standard output may be missing, which the plan's own writer does not see.
            Stdout.flush().map_err(SessionError::from_write)?;
        }
        Ok(match self {
            Self::Into(path) if !self.is_stdout() => {
                Box::new(Pipe::open(path).map_err(SessionError::Io)?)
            }
            Self::Written(_) if self.is_stdout() => Box::new(io::sink()),
            _ => Box::new(ClearingStdout(progress.clone())),
        })
    }

    /// The error of a plan; that of a reader of standard output who has gone is none.
    pub(super) fn failed(&self, error: DataFusionError) -> SessionError {
        match error.find_root() {
            DataFusionError::IoError(e)
                if e.kind() == io::ErrorKind::BrokenPipe && self.is_stdout() =>
            {
                SessionError::ClosedPipe
            }
            _ => SessionError::Sql(error),
        }
    }
}

/// Standard output, which takes the progress line away when rows come.
struct ClearingStdout(StatementProgress);

impl Write for ClearingStdout {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if !text.is_empty() {
            self.0.make_room();
        }
        Stdout.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Stdout.flush()
    }
}

/// Prints the number of rows, as the result of a COPY has it.
pub(super) fn print_count(
    rows: usize,
    options: PrintOptions,
    progress: &StatementProgress,
) -> Result<PrintedRows, SessionError> {
    let count = Arc::new(UInt64Array::from_value(rows as u64, 1)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("count", count)])?;
    let sink = ClearingStdout(progress.clone());
    let mut writer = ResultWriter::new(
        sink,
        batch.schema(),
        options,
        FormatOptions::default(),
        Screen::stdout(options),
    );
    writer.write(&batch)?;
    writer.finish()
}
