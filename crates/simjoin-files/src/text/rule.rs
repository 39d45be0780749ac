//! The rules by which the rows of a scan are read, beyond those of DataFusion's plan of it.

use std::hash::{DefaultHasher, Hash, Hasher};

use arrow::datatypes::{FieldRef, Fields};
use datafusion::catalog::TableProvider;
use datafusion::common::config::CsvOptions;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::listing::ListingTable;
use datafusion::object_store::ObjectMeta;
use datafusion::object_store::path::Path;
use regex::Regex;

/// The source of the types of a table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Looked {
    /// From all values of the files.
    AtAll,
    /// The statement says them.
    Declared,
    /// From some rows: later ones may not fit.
    AtSome,
}

impl Looked {
    /// The bit of marks of tables all of whose rows were looked at.
    const ALL: usize = 1 << (usize::BITS - 1);

    /// The mark that the format of a guessed table carries, as its most rows to look at, where all rows of
    /// these files were looked at.
    pub(super) fn mark_of_all(files: &[ObjectMeta]) -> usize {
        let mut hasher = DefaultHasher::new();
        for file in files {
            (&file.location, file.size).hash(&mut hasher);
            file.last_modified.timestamp_nanos_opt().hash(&mut hasher);
        }
        hasher.finish() as usize | Self::ALL
    }

    /// The mark where so many rows were looked at, and not all.
    pub(super) fn mark_of_some(rows: u64) -> usize {
        (rows as usize).clamp(1, Self::ALL - 1)
    }

    /// The source of the types of a table with this mark, whose files are these now: they may have been
    /// written since.
    fn of(mark: Option<usize>, files: &[ObjectMeta]) -> Self {
        match mark {
            None => Self::Declared,
            Some(mark) if mark == Self::mark_of_all(files) => Self::AtAll,
            Some(_) => Self::AtSome,
        }
    }
}

/// The rule by which the rows of a table are read.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    files: Vec<Path>,
    columns: Fields,
    pub(super) looked: Looked,
    pub(super) null: Option<Regex>,
    /// Whether each line of JSON is known to be a row.
    pub(super) is_lines: bool,
}

impl Default for Rule {
    /// The rule of a scan whose table is not known, such as another process has planned.
    fn default() -> Self {
        let (files, columns) = (vec![], Fields::empty());
        Self { files, columns, looked: Looked::Declared, null: None, is_lines: true }
    }
}

impl Rule {
    /// The rule of a table of text; None for other formats.
    ///
    /// # Errors
    ///
    /// A plan error for `null_regex` that is no regular expression, and for comments that have no end.
    pub(crate) fn of(table: &ListingTable, metas: &[ObjectMeta]) -> Result<Option<Self>> {
        let columns = table.schema().fields().clone();
        let format: &dyn FileFormat = table.options().format.as_ref();
        let files = metas.iter().map(|file| file.location.clone()).collect();
        let rule = Self { files, columns, ..Self::default() };
        if let Some(csv) = format.downcast_ref::<CsvFormat>() {
            check_comments(csv.options())?;
            let looked = Looked::of(csv.options().schema_infer_max_rec, metas);
            let null = csv.options().null_regex.as_deref().map(null_regex).transpose()?;
            return Ok(Some(Self { looked, null, ..rule }));
        }
        Ok(format.downcast_ref::<JsonFormat>().map(|json| {
            let looked = Looked::of(json.options().schema_infer_max_rec, metas);
            Self { looked, is_lines: json.options().newline_delimited, ..rule }
        }))
    }

    fn is_of(&self, file: &Path, columns: &Fields) -> bool {
        let same =
            |(a, b): (&FieldRef, &FieldRef)| a.name() == b.name() && a.data_type() == b.data_type();
        self.columns.len() >= columns.len()
            && self.columns.iter().zip(columns).all(same)
            && self.files.contains(file)
    }

    /// The rule of a scan of a file with such columns, of those of a statement's tables.
    ///
    /// # Errors
    ///
    /// A plan error where two tables of one file read different values as NULL.
    pub(crate) fn choose(rules: &[Self], file: &Path, columns: &Fields) -> Result<Self> {
        let mut chosen: Option<Self> = None;
        for rule in rules.iter().filter(|rule| rule.is_of(file, columns)) {
            let Some(other) = &mut chosen else {
                chosen = Some(rule.clone());
                continue;
            };
            let nulls = [&other.null, &rule.null].map(|null| null.as_ref().map(Regex::as_str));
            if nulls[0] != nulls[1] {
                return plan_err!(
                    "a statement reads {file} as two tables with different format.null_regex; \
                     read one of them into a table first, with CREATE TABLE … AS"
                );
            }
            other.looked = other.looked.max(rule.looked);
            other.is_lines &= rule.is_lines;
        }
        Ok(chosen.unwrap_or_default())
    }
}

/// Refuses comments where records do not end in line breaks: only a line break ends a comment for the
/// reader, which does not see one there, so that all behind the first comment would be left out.
fn check_comments(options: &CsvOptions) -> Result<()> {
    match (options.comment, options.terminator) {
        (Some(_), Some(terminator)) if terminator != b'\n' => plan_err!(
            "format.comment has no meaning with format.terminator '{}': only a line break ends a comment; \
             leave one of the two options out",
            char::from(terminator).escape_default()
        ),
        _ => Ok(()),
    }
}

/// The values that are NULL.
pub(super) fn null_regex(text: &str) -> Result<Regex> {
    Regex::new(text).map_err(|error| {
        plan_datafusion_err!("format.null_regex '{text}' is no regular expression: {error}")
    })
}
