//! The format of a file by its name or its content.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::file_options::file_type::FileType;
use datafusion::common::{GetExt, Result, exec_err};
use datafusion::datasource::file_format::arrow::ArrowFormatFactory;
use datafusion::datasource::file_format::csv::CsvFormatFactory;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::{
    FileFormat, FileFormatFactory, file_type_to_format, format_as_file_type,
};
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::csv;
use super::input::{self, For};
use super::pipes::Pipes;

/// Extensions that are not those of DataFusion's formats, and their formats.
const OTHER_NAMES: [(&str, &str); 4] =
    [("tsv", "csv"), ("jsonl", "json"), ("ndjson", "json"), ("arrows", "arrow")];

/// A format and a compression, as the end of a file's name tells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileKind {
    /// A name such as `tsv`.
    name: String,
    /// A name such as `gz`, or nothing.
    compression: String,
    /// Both, as the name has them.
    extension: String,
}

impl FileKind {
    /// The kind that STORED AS and the option of compression say.
    pub(super) fn stored_as(name: &str, compression: &str) -> Self {
        let extension = match compression {
            "" => name.to_string(),
            compression => format!("{name}.{compression}"),
        };
        Self { name: name.to_string(), compression: compression.to_string(), extension }
    }

    /// The kind that the end of a name says; None for a name without a dot.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (rest, last) = name.rsplit_once('.')?;
        let (format, packed) = match compression(last) {
            None => (last, ""),
            Some(_) => (rest.rsplit_once('.')?.1, last),
        };
        let extension = Self::stored_as(format, packed).extension;
        let kind = Self::stored_as(&format.to_lowercase(), &packed.to_lowercase());
        Some(Self { extension, ..kind })
    }

    /// The kind of what a pipe has given: by its name if that says one, else by its first bytes.
    pub(super) async fn of_pipe(
        name: &str,
        files: &[ObjectMeta],
        store: &dyn ObjectStore,
        pipes: &Pipes,
    ) -> Result<Self> {
        let Some(file) = files.first().filter(|file| file.size > 0) else {
            return exec_err!("{name} is empty: it has given no bytes");
        };
        let known = Self::of_name(name)
            .filter(|kind| ["parquet", "csv", "json", "arrow"].contains(&kind.format()));
        if let Some(kind) = known {
            // Its rows are kept without their compression.
            return Ok(Self::stored_as(&kind.name, ""));
        }
        let start = store.get_range(&file.location, 0..file.size.min(64));
        let start = pipes.name(&file.location).wait(async { Ok(start.await?) }).await?;
        Ok(Self::of_content(&start))
    }

    /// Parquet and Arrow by their first bytes, JSON by a brace or bracket; anything else is CSV.
    fn of_content(start: &[u8]) -> Self {
        // The bytes of UTF-16 are those of ASCII and zeros.
        let start: Vec<u8> = match start {
            [0xff, 0xfe, text @ ..] | [0xfe, 0xff, text @ ..] => {
                text.iter().copied().filter(|byte| *byte != 0).collect()
            }
            start => start.to_vec(),
        };
        let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start).trim_ascii_start();
        let name = match start.as_slice() {
            [b'P', b'A', b'R', b'1', ..] => "parquet",
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => "arrow",
            _ if text.starts_with(b"{") || text.starts_with(b"[") => "json",
            _ => "csv",
        };
        Self::stored_as(name, "")
    }

    /// The name of DataFusion's format.
    pub(super) fn format(&self) -> &str {
        let other = OTHER_NAMES.iter().find(|(name, _)| *name == self.name);
        other.map_or(&self.name, |(_, format)| format)
    }

    /// The end of the names of such files.
    pub(super) fn extension(&self) -> &str {
        &self.extension
    }

    /// Whether the columns are separated by tabs.
    fn is_tsv(&self) -> bool {
        self.name == "tsv"
    }
}

/// DataFusion's formats under other names, so that COPY knows them: `tsv`, `jsonl`.
pub fn formats() -> impl Iterator<Item = Arc<dyn FileFormatFactory>> {
    OTHER_NAMES.into_iter().map(|(name, format)| {
        let inner: Arc<dyn FileFormatFactory> = match format {
            "csv" => Arc::new(CsvFormatFactory::new()),
            "json" => Arc::new(JsonFormatFactory::new()),
            _ => Arc::new(ArrowFormatFactory::new()),
        };
        Arc::new(OtherName { name, inner }) as Arc<dyn FileFormatFactory>
    })
}

/// A format that has another name.
#[derive(Debug)]
struct OtherName {
    name: &'static str,
    inner: Arc<dyn FileFormatFactory>,
}

impl GetExt for OtherName {
    fn get_ext(&self) -> String {
        self.name.to_string()
    }
}

impl FileFormatFactory for OtherName {
    fn create(
        &self,
        state: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        self.inner.create(state, options)
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        self.inner.default()
    }
}

/// The format that COPY writes under another name, and its delimiter.
pub fn renamed(file_type: &Arc<dyn FileType>) -> Option<(Arc<dyn FileType>, Option<&'static str>)> {
    let format = file_type_to_format(file_type).ok()?;
    let other = format.downcast_ref::<OtherName>()?;
    let delimiter = (other.name == "tsv").then_some("\t");
    Some((format_as_file_type(Arc::clone(&other.inner)), delimiter))
}

/// The options of a format that the kind and the content of a file tell.
pub(super) async fn options_of(
    kind: &FileKind,
    store: &dyn ObjectStore,
    file: &ObjectMeta,
) -> Result<HashMap<String, String>> {
    let mut options = HashMap::new();
    if !kind.compression.is_empty() {
        options.insert("format.compression".to_string(), kind.compression.clone());
    }
    let compression = compression(&kind.compression).unwrap_or(FileCompressionType::UNCOMPRESSED);
    match kind.format() {
        "csv" if kind.is_tsv() => {
            options.insert("format.delimiter".to_string(), "\t".to_string());
        }
        "csv" => {
            let input = input::open(store, &file.location, compression, For::ALook).await?;
            let lines = csv::first_lines(input, b'"', 2)?;
            if let Some(delimiter) = csv::delimiter(&lines, b'"') {
                let delimiter = char::from(delimiter).to_string();
                options.insert("format.delimiter".to_string(), delimiter);
            }
        }
        _ => {}
    }
    Ok(options)
}

/// The compression that an extension such as `gz` names.
fn compression(extension: &str) -> Option<FileCompressionType> {
    extension.parse::<FileCompressionType>().ok().filter(FileCompressionType::is_compressed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_name() {
        for (name, format, extension) in [
            ("a.parquet", "parquet", "parquet"),
            ("a.b.csv", "csv", "csv"),
            ("a.tsv.gz", "csv", "tsv.gz"),
            ("a.jsonl", "json", "jsonl"),
            ("a.CSV.gz", "csv", "CSV.gz"),
            ("a.arrows", "arrow", "arrows"),
        ] {
            let kind = FileKind::of_name(name).unwrap();
            assert_eq!((kind.format(), kind.extension()), (format, extension), "{name}");
        }
        assert!(FileKind::of_name("a.tsv").unwrap().is_tsv());
        assert_eq!(FileKind::of_name("a"), None);
        assert_eq!(FileKind::of_name("a.gz"), None);
    }

    #[test]
    fn kinds_are_known_by_content() {
        for (start, extension) in [
            (&b"PAR1\x15\x04"[..], "parquet"),
            (b"ARROW1\0\0", "arrow"),
            (b"\xff\xff\xff\xff\x10\0\0\0", "arrow"),
            (b" \n{\"a\": 1}", "json"),
            (b"[1]", "json"),
            (b"id,t\n", "csv"),
            (b"\xff\xfe[\0{\0", "json"),
            (b"\xfe\xff\0i\0d", "csv"),
        ] {
            assert_eq!(FileKind::of_content(start).extension(), extension, "{start:?}");
        }
    }
}
