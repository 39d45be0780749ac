//! Writing results, batch by batch.
//!
//! A result of any size takes the memory of a batch, or in the table format of the rows printed:
//! some thousands of them are laid out together.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::json::writer::{JsonArray, LineDelimited, WriterBuilder as JsonBuilder};
use arrow::json::{ArrayWriter, LineDelimitedWriter};
use arrow::util::display::{ArrayFormatter, FormatOptions as ArrowFormat};
use clap::ValueEnum;
use datafusion::common::Result as DataFusionResult;
use datafusion::config::FormatOptions;

use super::arrow_stream::ArrowStream;
use simjoin_session::errors::SessionError;
use simjoin_session::escape::{Escapes, text_but};
use simjoin_session::table::{Expanded, Fit, MaxRows, TableWidth, TableWriter};

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The table format
    Automatic,
    /// Columns in a frame, up to --maxrows rows
    Table,
    /// Comma-separated, with a header
    Csv,
    /// Tab-separated, with a header
    Tsv,
    /// One JSON array
    Json,
    /// One JSON object per line
    #[value(alias = "ndjson")]
    NdJson,
    /// One Arrow IPC stream per statement
    Arrow,
}

/// Format and extent of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PrintOptions {
    pub format: Format,
    pub quiet: bool,
    /// Whether the numbers of printed and of written rows are told.
    pub counts: bool,
    pub maxrows: MaxRows,
    pub expanded: Expanded,
    pub columns: TableWidth,
}

/// The place where a result is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Screen {
    pub fit: Fit,
    /// Whether the output obeys control characters.
    pub is_terminal: bool,
}

impl Screen {
    /// Standard output.
    pub(super) fn stdout(options: PrintOptions) -> Self {
        Self {
            fit: Fit::new(options.columns, options.expanded),
            is_terminal: io::stdout().is_terminal(),
        }
    }
}

/// The number of rows of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PrintedRows {
    /// The rows of the result.
    pub rows: usize,
    /// The rows printed.
    pub printed: usize,
}

/// Writes one result. Text is made in memory and then written, so that a closed pipe is seen as
/// such and not as an error of the format.
pub(super) struct ResultWriter<W> {
    sink: W,
    rows: usize,
    body: Body,
    is_terminal: bool,
}

enum Body {
    /// A statement without a result.
    Nothing,
    Table(TableWriter),
    Separated {
        delimiter: u8,
        header_due: bool,
        schema: SchemaRef,
        format: FormatOptions,
    },
    Json(ArrayWriter<Vec<u8>>, JsonKeys),
    NdJson(LineDelimitedWriter<Vec<u8>>, JsonKeys),
    Arrow(ArrowStream),
}

impl<W: Write> ResultWriter<W> {
    pub(super) fn new(
        sink: W,
        schema: SchemaRef,
        options: PrintOptions,
        format: FormatOptions,
        screen: Screen,
    ) -> Self {
        let separated = |delimiter| Body::Separated {
            delimiter,
            header_due: true,
            schema: Arc::clone(&schema),
            format: format.clone(),
        };
        let body = match options.format {
            _ if schema.fields().is_empty() => Body::Nothing,
            Format::Csv => separated(b','),
            Format::Tsv => separated(b'\t'),
            Format::Json => {
                let writer = json().build::<_, JsonArray>(vec![]);
                Body::Json(writer, JsonKeys::of(&schema))
            }
            Format::NdJson => {
                let writer = json().build::<_, LineDelimited>(vec![]);
                Body::NdJson(writer, JsonKeys::of(&schema))
            }
            Format::Arrow => Body::Arrow(ArrowStream::new(&schema)),
            Format::Automatic | Format::Table => {
                Body::Table(TableWriter::new(schema, options.maxrows, format, screen.fit))
            }
        };
        Self { sink, rows: 0, body, is_terminal: screen.is_terminal }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), SessionError> {
        self.rows += batch.num_rows();
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let text = match &mut self.body {
            Body::Nothing => return Ok(()),
            Body::Table(table) => table.push(batch)?,
            Body::Separated { delimiter, header_due, schema: _, format } => {
                separated(batch, *delimiter, std::mem::take(header_due), format)?
            }
            Body::Json(writer, keys) => {
                writer.write(&keys.rename(batch)?)?;
                std::mem::take(writer.get_mut())
            }
            Body::NdJson(writer, keys) => {
                writer.write(&keys.rename(batch)?)?;
                std::mem::take(writer.get_mut())
            }
            Body::Arrow(stream) => stream.push(batch)?,
        };
        self.put(&text)
    }

    /// Writes the text that is still held, and the end of the format.
    pub(super) fn finish(mut self) -> Result<PrintedRows, SessionError> {
        let rows = self.rows;
        let (text, printed) = match &mut self.body {
            Body::Nothing => return Ok(PrintedRows { rows, printed: rows }),
            Body::Table(table) => (table.finish()?, table.printed()),
            Body::Separated { delimiter, header_due, schema, format } => {
                let text = match header_due {
                    true => {
                        let empty = RecordBatch::new_empty(Arc::clone(schema));
                        separated(&empty, *delimiter, true, format)?
                    }
                    false => vec![],
                };
                (text, rows)
            }
            Body::Json(writer, _) => {
                writer.finish()?;
                let mut text = std::mem::take(writer.get_mut());
                text.push(b'\n');
                (text, rows)
            }
            Body::NdJson(writer, _) => {
                writer.finish()?;
                (std::mem::take(writer.get_mut()), rows)
            }
            Body::Arrow(stream) => (stream.finish()?, rows),
        };
        self.put(&text)?;
        self.sink.flush().map_err(SessionError::from_write)?;
        Ok(PrintedRows { rows, printed })
    }

    fn put(&mut self, text: &[u8]) -> Result<(), SessionError> {
        let text = match self.is_terminal {
            true => self.body.for_terminal(text),
            false => Cow::Borrowed(text),
        };
        self.sink.write_all(&text).map_err(SessionError::from_write)
    }
}

impl Body {
    /// The text without the characters that a terminal obeys or hides. JSON has the same values.
    fn for_terminal<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let (kept, escapes): (&[char], _) = match self {
            // Tables have escaped their cells, whose widths count.
            Self::Nothing | Self::Table(_) => return Cow::Borrowed(text),
            // No text: a terminal gets none.
            Self::Arrow(_) => return Cow::Borrowed(text),
            Self::Separated { .. } => (&['\n', '\t'], Escapes::Readable),
            Self::Json(..) | Self::NdJson(..) => (&['\n'], Escapes::Json),
        };
        match String::from_utf8_lossy(text) {
            Cow::Borrowed(text) => match text_but(text, kept, escapes) {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
            Cow::Owned(text) => {
                Cow::Owned(text_but(&text, kept, escapes).into_owned().into_bytes())
            }
        }
    }
}

/// JSON whose objects have every key, also where the value is NULL.
fn json() -> JsonBuilder {
    JsonBuilder::new().with_explicit_nulls(true)
}

/// The keys of JSON objects: the columns' names, but no two alike, as readers keep one value a key.
struct JsonKeys(Option<Vec<String>>);

impl JsonKeys {
    /// A name that was there before gets a number, as DataFusion has it elsewhere: `id`, `id:1`.
    fn of(schema: &Schema) -> Self {
        let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
        let mut taken: HashSet<String> = names.iter().map(|name| (*name).clone()).collect();
        if taken.len() == names.len() {
            return Self(None);
        }
        let mut seen = HashSet::new();
        let keys = names.into_iter().map(|name| {
            if seen.insert(name) {
                return name.clone();
            }
            let numbered = (1..).map(|number| format!("{name}:{number}"));
            let mut free = numbered.filter(|key| !taken.contains(key));
            let key = free.next().unwrap_or_default();
            taken.insert(key.clone());
            key
        });
        Self(Some(keys.collect()))
    }

    fn rename(&self, batch: &RecordBatch) -> DataFusionResult<RecordBatch> {
        let Some(keys) = &self.0 else { return Ok(batch.clone()) };
        let schema = batch.schema();
        let fields = schema.fields().iter().zip(keys);
        let fields = fields.map(|(field, key)| field.as_ref().clone().with_name(key));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(RecordBatch::try_new(schema, batch.columns().to_vec())?)
    }
}

/// The batch as CSV or TSV; lists, maps and structs are written as the table format shows them.
fn separated(
    batch: &RecordBatch,
    delimiter: u8,
    header: bool,
    format: &FormatOptions,
) -> Result<Vec<u8>, SessionError> {
    let flat = flatten(batch, format)?;
    let mut text = vec![];
    let builder = WriterBuilder::new().with_header(header).with_delimiter(delimiter);
    let mut writer = builder.build(&mut text);
    writer.write(&flat)?;
    // A header without rows is written as well.
    drop(writer);
    Ok(text)
}

/// Replaces nested columns, which CSV does not have, by their text.
fn flatten(batch: &RecordBatch, format: &FormatOptions) -> DataFusionResult<RecordBatch> {
    let schema = batch.schema();
    if !schema.fields().iter().any(|field| field.data_type().is_nested()) {
        return Ok(batch.clone());
    }
    let options = ArrowFormat::try_from(format)?;
    let mut fields = Vec::with_capacity(schema.fields().len());
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if !field.data_type().is_nested() {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
            continue;
        }
        let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
        let texts = (0..column.len())
            .map(|row| match column.is_null(row) {
                true => Ok(None),
                false => formatter.value(row).try_to_string().map(Some),
            })
            .collect::<Result<StringArray, _>>()?;
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(texts) as ArrayRef);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// Standard output.
pub(super) struct Stdout;

/// Whether the program was started without a standard output. The standard library puts /dev/null
/// in its place, which takes all results.
static HAS_NO_STDOUT: AtomicBool = AtomicBool::new(false);

impl Stdout {
    /// Tells that the program was started without one.
    pub(super) fn is_missing() {
        HAS_NO_STDOUT.store(true, Ordering::Relaxed);
    }

    fn opened() -> io::Result<io::Stdout> {
        match HAS_NO_STDOUT.load(Ordering::Relaxed) {
            true => Err(io::Error::other("standard output is closed: nothing can be printed")),
            false => Ok(io::stdout()),
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        Self::opened()?.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::opened()?.flush()
    }
}

/// Writes a line of text, with an end of line.
pub(super) fn print_line(mut sink: impl Write, line: &str) -> Result<(), SessionError> {
    let written = writeln!(sink, "{line}").and_then(|()| sink.flush());
    written.map_err(SessionError::from_write)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, ListArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn schema() -> SchemaRef {
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("name, \"it\"", DataType::Utf8, true),
            Field::new("t", DataType::List(item), true),
        ]))
    }

    fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
        let names: StringArray =
            ids.clone().map(|id| (id % 2 == 0).then(|| format!("a,{id}"))).collect();
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
            ids.clone().map(|id| (id > 0).then(|| vec![Some(1), None])),
        );
        let ids = Int64Array::from_iter_values(ids);
        RecordBatch::try_new(schema(), vec![Arc::new(ids), Arc::new(names), Arc::new(lists)])
            .unwrap()
    }

    const FILE: Screen = Screen { fit: Fit::NONE, is_terminal: false };

    fn options(format: Format, maxrows: MaxRows) -> PrintOptions {
        let (expanded, columns) = (Expanded::Auto, TableWidth::Auto);
        PrintOptions { format, quiet: true, counts: true, maxrows, expanded, columns }
    }

    fn written(format: Format, maxrows: MaxRows, batches: &[RecordBatch]) -> (String, PrintedRows) {
        let mut text = vec![];
        let options = options(format, maxrows);
        let mut writer =
            ResultWriter::new(&mut text, schema(), options, FormatOptions::default(), FILE);
        for batch in batches {
            writer.write(batch).unwrap();
        }
        let written = writer.finish().unwrap();
        (String::from_utf8(text).unwrap(), written)
    }

    fn text(format: Format, batches: &[RecordBatch]) -> String {
        written(format, MaxRows::Limited(40), batches).0
    }

    #[test]
    fn separated_formats_have_one_header() {
        let header = "id,\"name, \"\"it\"\"\",t\n";
        let rows = "0,\"a,0\",\n1,,\"[1, ]\"\n2,\"a,2\",\"[1, ]\"\n";
        assert_eq!(text(Format::Csv, &[batch(0..1), batch(1..3)]), format!("{header}{rows}"));
        assert_eq!(text(Format::Csv, &[]), header);
        assert_eq!(text(Format::Csv, &[batch(0..0), batch(0..1)]), format!("{header}0,\"a,0\",\n"));
        assert_eq!(text(Format::Tsv, &[batch(1..2)]), "id\t\"name, \"\"it\"\"\"\tt\n1\t\t[1, ]\n");
    }

    #[test]
    fn json_is_one_array_or_a_line_per_row() {
        let row = r#"{"id":2,"name, \"it\"":"a,2","t":[1,null]}"#;
        assert_eq!(text(Format::NdJson, &[batch(2..3), batch(2..3)]), format!("{row}\n{row}\n"));
        assert_eq!(text(Format::Json, &[batch(2..3), batch(2..3)]), format!("[{row},{row}]\n"));
        assert_eq!(text(Format::Json, &[]), "[]\n");
        assert_eq!(text(Format::NdJson, &[]), "");
    }

    #[test]
    fn json_keeps_the_keys_of_nulls() {
        let rows =
            r#"{"id":0,"name, \"it\"":"a,0","t":null},{"id":1,"name, \"it\"":null,"t":[1,null]}"#;
        assert_eq!(text(Format::Json, &[batch(0..2)]), format!("[{rows}]\n"));
        let lines = rows.replace("},{", "}\n{");
        assert_eq!(text(Format::NdJson, &[batch(0..2)]), format!("{lines}\n"));
    }

    #[test]
    fn json_has_a_key_for_each_column() {
        let names = ["id", "id", "id:1", "x", "id"];
        let fields = names.map(|name| Field::new(name, DataType::Int64, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let columns = (0..5).map(|i| Arc::new(Int64Array::from(vec![i])) as ArrayRef).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        for (format, row) in [
            (Format::NdJson, r#"{"id":0,"id:2":1,"id:1":2,"x":3,"id:3":4}"#),
            (Format::Csv, "id,id,id:1,x,id\n0,1,2,3,4"),
        ] {
            let mut text = vec![];
            let options = options(format, MaxRows::Unlimited);
            let schema = Arc::clone(&schema);
            let mut writer =
                ResultWriter::new(&mut text, schema, options, FormatOptions::default(), FILE);
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), format!("{row}\n"));
        }
    }

    /// On a terminal no format passes control characters on; to a file, CSV and JSON keep the data.
    #[test]
    fn a_terminal_gets_no_control_characters_in_any_format() {
        let field = Field::new("a\x1b[2J", DataType::Utf8, true);
        let schema = Arc::new(Schema::new(vec![field]));
        let texts = StringArray::from_iter_values(["x\x1b]0;t\x07\u{9b}\n\u{202e}"]);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(texts)]).unwrap();
        for format in [Format::Table, Format::Csv, Format::Tsv, Format::Json, Format::NdJson] {
            let printed = |is_terminal| {
                let mut text = vec![];
                let screen = Screen { fit: Fit::NONE, is_terminal };
                let options = options(format, MaxRows::Unlimited);
                let (schema, shown) = (Arc::clone(&schema), FormatOptions::default());
                let mut writer = ResultWriter::new(&mut text, schema, options, shown, screen);
                writer.write(&batch).unwrap();
                writer.finish().unwrap();
                String::from_utf8(text).unwrap()
            };
            let unsafe_but = |c: char| simjoin_session::escape::is_unsafe(c) && c != '\n';
            let shown = printed(true);
            assert!(!shown.contains(unsafe_but), "{format:?}: {shown:?}");
            assert_eq!(printed(false).contains('\u{9b}'), format != Format::Table, "{format:?}");
            assert_eq!(printed(false) == shown, format == Format::Table, "{format:?}: {shown:?}");
        }
    }

    #[test]
    fn statements_without_columns_print_nothing() {
        let mut text = vec![];
        let options = options(Format::Json, MaxRows::Unlimited);
        let empty = Arc::new(Schema::empty());
        let format = FormatOptions::default();
        ResultWriter::new(&mut text, empty, options, format, FILE).finish().unwrap();
        assert!(text.is_empty());
    }

    #[test]
    fn a_closed_pipe_is_no_error_of_the_format() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for format in [Format::Csv, Format::NdJson, Format::Json] {
            let options = options(format, MaxRows::Unlimited);
            let mut writer =
                ResultWriter::new(Closed, schema(), options, FormatOptions::default(), FILE);
            assert!(matches!(writer.write(&batch(0..3)), Err(SessionError::ClosedPipe)));
        }
    }

    #[test]
    fn row_limits_are_numbers_or_inf() {
        assert_eq!("7".parse(), Ok(MaxRows::Limited(7)));
        assert_eq!("INF".parse(), Ok(MaxRows::Unlimited));
        assert!("many".parse::<MaxRows>().is_err());
    }
}
