//! Column chunks: the lists of a row group, page by page.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use bytes::buf::{Buf, Reader};
use datafusion::common::{Result, exec_err};
use datafusion::object_store::path::Path;
use datafusion::object_store::{GetOptions, GetRange, GetResultPayload, ObjectStore};
use datafusion::parquet::column::page::{Page, PageReader};
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::RowGroupMetaData;
use datafusion::parquet::file::reader::{ChunkReader, Length};
use datafusion::parquet::file::serialized_reader::SerializedPageReader;

use super::column::ListColumn;
use super::page::ListPage;
use super::rows::ListRows;

/// The lists of a row group that are still to come.
pub(super) struct ListChunk {
    column: Arc<ListColumn>,
    pages: Box<dyn PageReader>,
    dictionary: Bytes,
    page: Option<ListPage>,
    /// The next start, entry and value of the page.
    next: [usize; 3],
    /// The row, of the row group, that comes next.
    pub row: usize,
}

/// Bytes of a file, from `start` on.
struct Fetched {
    start: u64,
    bytes: Bytes,
}

impl Fetched {
    fn from(&self, start: u64) -> ParquetResult<Bytes> {
        let at = start.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|at| *at <= self.bytes.len());
        at.map(|at| self.bytes.slice(at..)).ok_or_else(|| {
            ParquetError::EOF(format!("a page at {start} lies outside of its column chunk"))
        })
    }
}

impl Length for Fetched {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Fetched {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Reader<Bytes>> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.from(start)?;
        match length <= bytes.len() {
            true => Ok(bytes.slice(..length)),
            false => Err(ParquetError::EOF(format!(
                "a page of {length} bytes at {start} lies outside of its column chunk"
            ))),
        }
    }
}

impl ListChunk {
    /// The lists of a row group. Pages of a local file are read one by one, as they are asked for.
    pub(super) async fn open(
        column: &Arc<ListColumn>,
        group: &RowGroupMetaData,
        store: &dyn ObjectStore,
        file: &Path,
    ) -> Result<Self> {
        let chunk = group.column(column.leaf);
        let (start, len) = chunk.byte_range();
        let Some(end) = start.checked_add(len) else {
            return exec_err!("a column chunk at {start} has {len} bytes");
        };
        let range = Some(GetRange::Bounded(start..end));
        let got = store.get_opts(file, GetOptions { range, ..GetOptions::default() }).await?;
        let rows = group.num_rows() as usize;
        let pages: Box<dyn PageReader> = match got.payload {
            GetResultPayload::File(file, _) => {
                Box::new(SerializedPageReader::<File>::new(Arc::new(file), chunk, rows, None)?)
            }
            GetResultPayload::Stream(_) => {
                let bytes = got.bytes().await?;
                let fetched = Arc::new(Fetched { start, bytes });
                Box::new(SerializedPageReader::new(fetched, chunk, rows, None)?)
            }
        };
        let column = Arc::clone(column);
        Ok(Self { column, pages, dictionary: Bytes::new(), page: None, next: [0; 3], row: 0 })
    }

    /// Goes on to the next page; whether there is one.
    fn turn(&mut self) -> Result<bool> {
        while let Some(page) = self.pages.get_next_page()? {
            if let Page::DictionaryPage { buf, .. } = &page {
                self.dictionary = buf.clone();
            }
            if let Some(page) = ListPage::of(page, &self.column, &self.dictionary)? {
                (self.page, self.next) = (Some(page), [0; 3]);
                return Ok(true);
            }
        }
        self.page = None;
        Ok(false)
    }

    /// Gives the next rows, or passes over them where there is nowhere to put them.
    ///
    /// # Errors
    ///
    /// When the chunk does not hold them.
    pub(super) fn read(&mut self, rows: usize, mut to: Option<&mut ListRows>) -> Result<()> {
        let mut begun = 0;
        loop {
            let Some(page) = &self.page else {
                match self.turn()? {
                    true => continue,
                    false if begun == rows => break,
                    false => {
                        let row = self.row + begun;
                        return exec_err!("a column chunk of lists ends before row {row}");
                    }
                }
            };
            let [start, entry, value] = self.next;
            // The entries up to the row behind the last one.
            let last = start + (rows - begun);
            let end = page.starts.get(last).map_or(page.entries, |at| *at as usize);
            let starts = &page.starts[start..last.min(page.starts.len())];
            let begins = starts.first().is_some_and(|at| *at as usize == entry);
            if begun == 0 && entry < end && !begins {
                return exec_err!("a column chunk of lists begins amid a row");
            }
            let values = match &mut to {
                Some(to) => to.append(page, entry..end, starts, value),
                None => page.values_of(entry..end, self.column.most),
            };
            begun += starts.len();
            self.next = [start + starts.len(), end, value + values];
            if end < page.entries {
                break;
            }
            // The last row may go on.
            self.page = None;
        }
        self.row += rows;
        Ok(())
    }
}
