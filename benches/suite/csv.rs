//! Raw figures as CSV: written row by row, read back for summaries.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use datafusion::common::{Result, exec_datafusion_err, exec_err};

/// A CSV file that is written row by row, so that a run cut short keeps what it has.
pub struct CsvWriter {
    file: File,
    columns: usize,
}

impl CsvWriter {
    /// Opens `path` for appending; a new file gets the header.
    ///
    /// # Errors
    ///
    /// When the file has another header, or cannot be written.
    pub fn append(path: &Path, header: &str) -> Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        match std::fs::read_to_string(path) {
            Ok(text) if !text.is_empty() && text.lines().next() != Some(header) => {
                return exec_err!(
                    "{} has the columns {}, not {header}; give another folder",
                    path.display(),
                    text.lines().next().unwrap_or_default()
                );
            }
            _ => {}
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if file.metadata()?.len() == 0 {
            writeln!(file, "{header}")?;
        }
        Ok(Self { file, columns: header.split(',').count() })
    }

    /// Writes a row, to the file and to standard output.
    pub fn row(&mut self, values: &[&dyn Display]) -> Result<()> {
        debug_assert_eq!(values.len(), self.columns);
        let line = values.iter().map(|v| v.to_string()).collect::<Vec<_>>().join(",");
        writeln!(self.file, "{line}")?;
        self.file.flush()?;
        println!("{line}");
        Ok(())
    }
}

/// Seconds as they stand in a file.
pub fn seconds(seconds: f64) -> String {
    format!("{seconds:.6}")
}

/// The rows of a CSV file whose fields hold no comma.
pub struct CsvTable {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl CsvTable {
    /// Reads a file; `None` where there is none.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut lines = text.lines().map(|l| l.split(',').map(str::to_string).collect::<Vec<_>>());
        let columns = lines.next().unwrap_or_default();
        let rows: Vec<Vec<String>> = lines.filter(|row| row.len() == columns.len()).collect();
        Ok(Some(Self { columns, rows }))
    }

    pub fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.rows.iter().map(|fields| CsvRow { columns: &self.columns, fields })
    }
}

/// A row of a [`CsvTable`].
#[derive(Clone, Copy)]
pub struct CsvRow<'a> {
    columns: &'a [String],
    fields: &'a [String],
}

impl<'a> CsvRow<'a> {
    /// The field of a column.
    ///
    /// # Errors
    ///
    /// When the file has no such column.
    pub fn text(&self, column: &str) -> Result<&'a str> {
        let at = self.columns.iter().position(|c| c == column);
        at.map(|at| self.fields[at].as_str())
            .ok_or_else(|| exec_datafusion_err!("the file has no column {column}"))
    }

    /// The number in a column, `None` where it holds something else.
    pub fn number(&self, column: &str) -> Result<Option<f64>> {
        Ok(self.text(column)?.parse().ok())
    }
}

/// The median, the mean of the middle two where their number is even; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}
