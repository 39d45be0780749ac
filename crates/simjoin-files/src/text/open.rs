//! Opens the text files of a scan.

use std::fmt;
use std::io::{Cursor, Read};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::config::CsvOptions;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::{CsvSource, FileScanConfig, FileSource, JsonSource};
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};

use super::csv_rows::{CsvReader, Wrong};
use super::cuts::Cuts;
use super::json_array::Elements;
use super::json_rows::{Check, JsonReader};
use super::rows::{Decode, DecodedRows, Fault, first_fault};
use super::rule::{Looked, Rule};
use super::shape::{JsonShape, RowShapes};
use crate::input::{For, Input, is_utf16, open, raw};

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// A scan of text files.
pub(crate) struct TextScan<'a> {
    pub(crate) source: &'a Arc<dyn FileSource>,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) config: &'a FileScanConfig,
    pub(crate) rule: &'a Rule,
    pub(crate) cuts: &'a Arc<Cuts>,
    pub(crate) batch_size: usize,
}

/// Opens the files of a scan of CSV or JSON; `None` for other formats.
pub(crate) fn morselizer(scan: &TextScan<'_>) -> Result<Option<Box<dyn Morselizer>>> {
    let schema = Arc::clone(scan.source.table_schema().file_schema());
    let Some(projection) = scan.source.projection() else { return Ok(None) };
    let projection = SplitProjection::new(&schema, projection);
    let columns = projection.file_indices.clone();
    let files = TextFiles {
        store: Arc::clone(&scan.store),
        compression: scan.config.file_compression_type,
        looked: scan.rule.looked,
        batch_size: scan.batch_size,
    };
    let opener: Arc<dyn FileOpener> = if let Some(csv) = scan.source.downcast_ref::<CsvSource>() {
        let options = options_of(csv);
        let is_checked = scan.rule.looked == Looked::AtSome;
        let null = scan.rule.null.clone();
        let reader = CsvReader { schema: Arc::clone(&schema), columns, options, null, is_checked };
        let (config, cuts) = (scan.config.clone(), Arc::clone(scan.cuts));
        Arc::new(CsvOpener(Arc::new(CsvFiles { files, reader, config, cuts })))
    } else if scan.source.is::<JsonSource>() {
        let check = match scan.rule.looked {
            Looked::AtAll => Check::Nothing,
            Looked::Declared => Check::Integers,
            Looked::AtSome => Check::All,
        };
        let reader = JsonReader { schema: Arc::clone(&schema), columns, check };
        let is_lines = scan.rule.is_lines;
        Arc::new(JsonOpener(Arc::new(JsonFiles { files, reader, is_lines })))
    } else {
        return Ok(None);
    };
    let opener = ProjectionOpener::try_new(projection, opener, &schema)?;
    Ok(Some(Box::new(TextMorselizer(opener))))
}

fn options_of(source: &CsvSource) -> CsvOptions {
    CsvOptions {
        has_header: Some(source.has_header()),
        delimiter: source.delimiter(),
        quote: source.quote(),
        terminator: source.terminator(),
        escape: source.escape(),
        comment: source.comment(),
        truncated_rows: Some(source.truncate_rows()),
        ..CsvOptions::default()
    }
}

/// The store and the settings that readers of CSV and of JSON share.
struct TextFiles {
    store: Arc<dyn ObjectStore>,
    compression: FileCompressionType,
    looked: Looked,
    batch_size: usize,
}

impl TextFiles {
    async fn whole(&self, file: &Path, purpose: For) -> Result<Input> {
        open(self.store.as_ref(), file, self.compression, purpose).await
    }

    /// The error of a reader as that of the first row at fault.
    async fn explained<D: Decode>(
        &self,
        file: &Path,
        error: DataFusionError,
        decoder: impl Fn(usize, bool) -> Result<D> + Send + 'static,
        whole: impl Fn(Input) -> Result<Input>,
        explain: impl Fn(&Fault) -> Wrong,
    ) -> DataFusionError {
        let is_of_rows = matches!(
            error.find_root(),
            DataFusionError::ArrowError(..) | DataFusionError::Execution(_)
        );
        if !is_of_rows {
            return error;
        }
        let Ok(input) = self.whole(file, For::ALook).await else { return error };
        let Ok(input) = whole(input) else { return error };
        let search = tokio::task::spawn_blocking(move || first_fault(input, decoder));
        match search.await {
            Ok(Ok(Some(fault))) => {
                let cure = match self.looked {
                    Looked::AtSome => {
                        "the columns were guessed from some of the rows: declare them, as in CREATE \
                         EXTERNAL TABLE t (id BIGINT, code TEXT) …, or have more rows looked at: … \
                         OPTIONS ('format.schema_infer_max_rec' '1000000000')"
                    }
                    _ => "TEXT holds any value: declare the column so to read it as it stands",
                };
                let row = fault.row;
                match explain(&fault) {
                    Wrong::Row(wrong) => exec_datafusion_err!("row {row}: {wrong}"),
                    Wrong::Value(wrong) => exec_datafusion_err!("row {row}: {wrong}; {cure}"),
                }
            }
            _ => error,
        }
    }
}

/// The batches, with each error put into words by `explain`.
fn batches<F>(
    rows: impl Iterator<Item = Result<RecordBatch>> + Send + 'static,
    explain: impl Fn(DataFusionError) -> F + Send + 'static,
) -> Batches
where
    F: Future<Output = DataFusionError> + Send + 'static,
{
    let explained = stream::iter(rows).then(move |batch| {
        let explained = batch.map_err(&explain);
        async move {
            match explained {
                Ok(batch) => Ok(batch),
                Err(error) => Err(error.await),
            }
        }
    });
    explained.boxed()
}

/// The part of a file that a partition reads; all of it where `None`.
fn range_of(file: &PartitionedFile) -> Option<Range<u64>> {
    let place = |place: i64| place.max(0) as u64;
    file.range.as_ref().map(|range| place(range.start)..place(range.end))
}

struct CsvFiles {
    files: TextFiles,
    reader: CsvReader,
    config: FileScanConfig,
    cuts: Arc<Cuts>,
}

struct CsvOpener(Arc<CsvFiles>);

impl FileOpener for CsvOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let csv = Arc::clone(&self.0);
        Ok(Box::pin(async move { csv.open(&file).await }))
    }
}

impl CsvFiles {
    async fn open(self: Arc<Self>, file: &PartitionedFile) -> Result<Batches> {
        let location = file.object_meta.location.clone();
        let store = self.files.store.as_ref();
        let (input, at_start) = match range_of(file) {
            Some(range) if !is_utf16(store, &location, file.object_meta.size).await? => {
                let options = &self.reader.options;
                let records =
                    self.cuts.records(store, &location, range, &self.config, options).await?;
                if records.is_empty() {
                    return Ok(stream::empty().boxed());
                }
                let at_start = records.start == 0;
                let part = raw(store, &location, Some(records), For::Rows).await?;
                // Behind the end of a record, the parser takes no character for a byte order mark.
                let end = [options.terminator.unwrap_or(b'\n')];
                let part: Input =
                    if at_start { part } else { Box::new(Cursor::new(end).chain(part)) };
                (part, at_start)
            }
            Some(range) if range.start > 0 => return Ok(stream::empty().boxed()),
            _ => (self.files.whole(&location, For::Rows).await?, true),
        };
        let rows = DecodedRows::new(input, self.reader.decoder(self.files.batch_size, at_start)?);
        Ok(batches(rows, move |error| {
            let (csv, location) = (Arc::clone(&self), location.clone());
            async move { csv.explained(&location, error).await }
        }))
    }

    async fn explained(&self, file: &Path, error: DataFusionError) -> DataFusionError {
        let reader = self.reader.clone();
        let decoder = move |rows, at_start| reader.decoder(rows, at_start);
        let explain = |fault: &Fault| match self.reader.explain(&fault.bytes, fault.row == 1) {
            Ok(Some(explained)) => explained,
            _ => Wrong::Row(fault.error.strip_backtrace()),
        };
        self.files.explained(file, error, decoder, Ok, explain).await
    }
}

struct JsonFiles {
    files: TextFiles,
    reader: JsonReader,
    is_lines: bool,
}

struct JsonOpener(Arc<JsonFiles>);

impl FileOpener for JsonOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let json = Arc::clone(&self.0);
        Ok(Box::pin(async move { json.open(&file).await }))
    }
}

impl JsonFiles {
    async fn open(self: Arc<Self>, file: &PartitionedFile) -> Result<Batches> {
        let location = file.object_meta.location.clone();
        let (size, store) = (file.object_meta.size, self.files.store.as_ref());
        let input = match range_of(file) {
            Some(range) if self.may_be_cut(&location, size).await? => {
                let start = line_from(store, &location, range.start, size).await?;
                let end = line_from(store, &location, range.end, size).await?;
                if start >= end {
                    return Ok(stream::empty().boxed());
                }
                match start {
                    // The mark of the byte order is no part of the first row.
                    0 => {
                        let whole = self.files.whole(&location, For::Rows).await?;
                        let mark = if is_marked(store, &location, size).await? { 3 } else { 0 };
                        Box::new(whole.take(end - mark))
                    }
                    _ => raw(store, &location, Some(start..end), For::Rows).await?,
                }
            }
            Some(range) if range.start > 0 => return Ok(stream::empty().boxed()),
            _ => elements(self.files.whole(&location, For::Rows).await?)?,
        };
        let rows = DecodedRows::new(input, self.reader.decoder(self.files.batch_size)?);
        Ok(batches(rows, move |error| {
            let (json, location) = (Arc::clone(&self), location.clone());
            async move { json.explained(&location, error).await }
        }))
    }

    /// Whether each line is a row, as the first one is.
    async fn may_be_cut(&self, file: &Path, size: u64) -> Result<bool> {
        let store = self.files.store.as_ref();
        if !self.is_lines || is_utf16(store, file, size).await? {
            return Ok(false);
        }
        let mut rows = RowShapes::new(self.files.whole(file, For::ALook).await?);
        let has_row = rows.advance(&mut JsonShape::default());
        Ok(matches!(has_row, Ok(true)) && rows.is_lines)
    }

    async fn explained(&self, file: &Path, error: DataFusionError) -> DataFusionError {
        let reader = self.reader.clone();
        let decoder = move |rows, _| reader.decoder(rows);
        let explain = |fault: &Fault| Wrong::Value(words(&fault.error.strip_backtrace()));
        self.files.explained(file, error, decoder, elements, explain).await
    }
}

/// The rows of a file, which may stand in an array.
fn elements(mut input: Input) -> Result<Input> {
    let mut start = vec![];
    while start.iter().all(u8::is_ascii_whitespace) {
        if input.by_ref().take(1 << 10).read_to_end(&mut start)? == 0 {
            break;
        }
    }
    let is_array = start.trim_ascii_start().starts_with(b"[");
    let whole: Input = Box::new(Cursor::new(start).chain(input));
    Ok(if is_array { Box::new(Elements::new(whole)) } else { whole })
}

async fn is_marked(store: &dyn ObjectStore, file: &Path, size: u64) -> Result<bool> {
    Ok(store.get_range(file, 0..size.min(3)).await?.as_ref() == b"\xef\xbb\xbf")
}

/// The start of the first line from a place on.
async fn line_from(store: &dyn ObjectStore, file: &Path, place: u64, size: u64) -> Result<u64> {
    const BLOCK: u64 = 64 << 10;
    let Some(mut at) = place.checked_sub(1) else { return Ok(0) };
    while at < size {
        let block = store.get_range(file, at..size.min(at + BLOCK)).await?;
        match memchr::memchr(b'\n', &block) {
            Some(length) => return Ok(at + length as u64 + 1),
            None => at += block.len() as u64,
        }
    }
    Ok(size)
}

/// An error of Arrow's reader with the column by its path: `column a.b: …`.
fn words(error: &str) -> String {
    let mut rest = error;
    for prefix in ["Execution error: ", "Arrow error: ", "Json error: "] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let mut path = vec![];
    while let Some((name, after)) =
        rest.strip_prefix("whilst decoding field '").and_then(|named| named.split_once("': "))
    {
        path.push(name);
        rest = after;
    }
    match path.is_empty() {
        true => rest.to_string(),
        false => format!("column {}: {rest}", path.join(".")),
    }
}

/// Opens files one by one.
struct TextMorselizer(Arc<dyn FileOpener>);

impl fmt::Debug for TextMorselizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextMorselizer").finish_non_exhaustive()
    }
}

impl Morselizer for TextMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        Ok(Box::new(TextPlanner { opener: Arc::clone(&self.0), file }))
    }
}

/// A file that is still closed.
struct TextPlanner {
    opener: Arc<dyn FileOpener>,
    file: PartitionedFile,
}

impl fmt::Debug for TextPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextPlanner").field("file", &self.file).finish_non_exhaustive()
    }
}

impl MorselPlanner for TextPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let opened = async move {
            let batches = self.opener.open(self.file)?.await?;
            Ok(Box::new(Opened(batches)) as Box<dyn MorselPlanner>)
        };
        Ok(Some(MorselPlan::new().with_pending_planner(opened)))
    }
}

/// The batches of a file.
struct Opened(Batches);

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

impl MorselPlanner for Opened {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(Some(MorselPlan::new().with_morsels(vec![self as Box<dyn Morsel>])))
    }
}

impl Morsel for Opened {
    fn into_stream(self: Box<Self>) -> Batches {
        self.0
    }
}
