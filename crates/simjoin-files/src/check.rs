//! Checks of the files of a table before they are read.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::config::CsvOptions;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableUrl};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use futures::{StreamExt, TryStreamExt};

use super::csv;
use super::pipes::Pipes;
use super::reading::FileName;
use super::text::{Guess, Texts, common_schema, guess};

/// The number of files that are opened at a time.
const AT_A_TIME: usize = 32;

/// The files of a table, and how they are read.
pub(super) struct Files {
    store: Arc<dyn ObjectStore>,
    format: Arc<dyn FileFormat>,
    /// In the order of their paths.
    files: Vec<ObjectMeta>,
}

impl Files {
    pub(super) async fn of_table(table: &ListingTable, session: &dyn Session) -> Result<Self> {
        Self::at(table.table_paths(), table.options(), session).await
    }

    pub(super) async fn at(
        urls: &[ListingTableUrl],
        options: &ListingOptions,
        session: &dyn Session,
    ) -> Result<Self> {
        let mut files = vec![];
        let Some(first) = urls.first() else { return exec_err!("a table has no location") };
        let store = session.runtime_env().object_store(first)?;
        for url in urls {
            files.extend(list(url, session, store.as_ref(), &options.file_extension).await?);
        }
        files.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(Self { store, format: Arc::clone(&options.format), files })
    }

    /// The columns of files of text, by what stands in them; `None` for other formats.
    pub(super) async fn guess(
        &self,
        session: &dyn Session,
        pipes: &Pipes,
    ) -> Result<Option<Guess>> {
        let texts = Texts {
            store: self.store.as_ref(),
            format: &self.format,
            files: &self.files,
            pipes,
            has_header: session.config_options().catalog.has_header,
        };
        guess(&texts).await
    }

    /// The schema of files of other formats, each of which is read by itself: one that holds the rows of
    /// all, where there is one.
    pub(super) async fn common_schema(&self, session: &dyn Session) -> Option<SchemaRef> {
        let mut schemas = vec![];
        for file in self.files.iter().filter(|file| file.size > 0) {
            let one = std::slice::from_ref(file);
            let schema = self.format.infer_schema(session, &self.store, one).await.ok()?;
            schemas.push(schema.as_ref().clone());
        }
        common_schema(&schemas).map(Arc::new)
    }

    /// The files, in the order of their paths.
    pub(super) fn list(&self) -> &[ObjectMeta] {
        &self.files
    }

    /// Whether there is no file.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The format by which the files are read.
    pub(super) fn format(&self) -> &Arc<dyn FileFormat> {
        &self.format
    }

    /// Refuses files from which DataFusion would silently read nothing, or the wrong columns.
    pub(super) async fn check(&self, session: &dyn Session, pipes: &Pipes) -> Result<()> {
        let csv = self.format.downcast_ref::<CsvFormat>().map(|csv| {
            let by_default = session.config_options().catalog.has_header;
            (csv.options(), csv.options().has_header.unwrap_or(by_default))
        });
        let may_be_empty =
            csv.map_or(self.format.is::<JsonFormat>(), |(_, has_header)| !has_header);
        if !may_be_empty
            && let Some(empty) = self.files.iter().find(|f| f.size == 0 && !is_hidden(f))
        {
            let name = pipes.name(&empty.location);
            let what = match csv {
                Some(_) => {
                    "not even a header; with OPTIONS ('format.has_header' 'false') it is \
                            a table without rows"
                }
                None => "as after a transfer that was interrupted",
            };
            return exec_err!("{} is empty: it has no bytes, {what}", name.as_str());
        }
        if self.format.is::<ArrowFormat>() {
            self.check_arrow(pipes).await?;
        }
        if self.format.is::<ParquetFormat>() {
            self.check_footers(session, pipes).await?;
        }
        match csv {
            Some((options, true)) if !options.truncated_rows.unwrap_or(false) => {
                self.check_headers(options, pipes).await
            }
            _ => Ok(()),
        }
    }

    /// Refuses Parquet whose footer has another number of rows than its row groups: its reader gives as many
    /// as the footer says, and `count(*)` those of the row groups.
    async fn check_footers(&self, session: &dyn Session, pipes: &Pipes) -> Result<()> {
        let known = session.runtime_env().cache_manager.get_file_metadata_cache();
        let mut footers = vec![];
        for file in &self.files {
            let (store, file, known) = (Arc::clone(&self.store), file.clone(), Arc::clone(&known));
            footers.push(async move {
                let footer = DFParquetMetadata::new(store.as_ref(), &file);
                let footer = footer.with_file_metadata_cache(Some(known));
                let footer =
                    FileName::of(&file.location).wait_caught(footer.fetch_metadata()).await;
                (file, footer)
            });
        }
        let mut footers = futures::stream::iter(footers).buffered(AT_A_TIME);
        while let Some((file, footer)) = footers.next().await {
            // What is no Parquet is left to the reader.
            let Ok(footer) = footer else { continue };
            let rows = footer.file_metadata().num_rows();
            let of_groups: i64 = footer.row_groups().iter().map(|group| group.num_rows()).sum();
            if rows != of_groups {
                return exec_err!(
                    "{} is damaged: its footer tells of {rows} rows, and its row groups have {of_groups}; \
                     write it again, for example with a newer version of the library that wrote it",
                    pipes.name(&file.location).as_str()
                );
            }
        }
        Ok(())
    }

    /// Refuses what is no Arrow: its readers take any bytes for a length, and reserve so much.
    async fn check_arrow(&self, pipes: &Pipes) -> Result<()> {
        for file in self.files.iter().filter(|file| file.size > 0) {
            let name = pipes.name(&file.location);
            let size = file.size;
            let ends = [0..size.min(8), size.saturating_sub(6)..size];
            let ends = async { Ok(self.store.get_ranges(&file.location, &ends).await?) };
            let (start, end) = match name.wait(ends).await?.as_slice() {
                [start, end] => (start.to_vec(), end.to_vec()),
                _ => continue,
            };
            let length = |at: usize| {
                let bytes = start.get(at..at + 4)?.try_into().ok()?;
                Some(u64::from(u32::from_le_bytes(bytes)))
            };
            let is_arrow = match start.as_slice() {
                [b'A', b'R', b'R', b'O', b'W', b'1', ..] => end == b"ARROW1",
                [0xff, 0xff, 0xff, 0xff, ..] => length(4).is_some_and(|length| length <= size),
                // As streams began before version 0.15.
                _ => length(0).is_some_and(|length| length <= size),
            };
            if !is_arrow {
                return exec_err!(
                    "{} is no Arrow file and no Arrow stream, or its end is missing, as after a \
                     transfer that was interrupted",
                    name.as_str()
                );
            }
        }
        Ok(())
    }

    /// Refuses CSV files that name other columns than the first, as columns are read by their
    /// position.
    async fn check_headers(&self, options: &CsvOptions, pipes: &Pipes) -> Result<()> {
        let files: Vec<&ObjectMeta> = self.files.iter().filter(|file| file.size > 0).collect();
        let (Some(first), true) = (files.first(), files.len() > 1) else { return Ok(()) };
        let (first, expected) = self.header(first, options, pipes).await?;
        let others: Vec<_> =
            files[1..].iter().map(|file| self.header(file, options, pipes)).collect();
        let mut headers = futures::stream::iter(others).buffered(AT_A_TIME);
        while let Some((name, found)) = headers.try_next().await? {
            if found != expected {
                let shown = |columns: &[String]| columns.join(", ");
                return exec_err!(
                    "{} has the columns {}, and {} has {}: CSV files of one table are read by \
                     position; give them the same columns in the same order, or read them as \
                     tables of their own and put these together by UNION ALL BY NAME",
                    first.as_str(),
                    shown(&expected),
                    name.as_str(),
                    shown(&found)
                );
            }
        }
        Ok(())
    }

    async fn header(
        &self,
        file: &ObjectMeta,
        options: &CsvOptions,
        pipes: &Pipes,
    ) -> Result<(FileName, Vec<String>)> {
        let name = pipes.name(&file.location);
        let columns = name.wait(csv::header(self.store.as_ref(), file, options)).await?;
        Ok((name, columns))
    }

    /// The error of the first file that cannot be read by itself, or together with the first one.
    pub(super) async fn first_error(
        &self,
        session: &dyn Session,
        pipes: &Pipes,
    ) -> Option<DataFusionError> {
        let (store, format) = (&self.store, &self.format);
        if format.is::<CsvFormat>() || format.is::<JsonFormat>() {
            // Their readers name the file.
            return None;
        }
        let files: Vec<&ObjectMeta> = self.files.iter().filter(|file| file.size > 0).collect();
        for file in &files {
            let read = async {
                let one = std::slice::from_ref(*file);
                let schema = format.infer_schema(session, store, one).await?;
                format.infer_stats_and_ordering(session, store, schema, file).await
            };
            if let Err(error) = pipes.name(&file.location).wait(read).await {
                return Some(error);
            }
        }
        let mut common: Option<Schema> = None;
        for file in files {
            let one = std::slice::from_ref(file);
            let schema = format.infer_schema(session, store, one).await.ok()?;
            let with_others = match &common {
                Some(common) => common_schema(&[common.clone(), schema.as_ref().clone()]),
                None => Some(schema.as_ref().clone()),
            };
            if with_others.is_none() {
                let wrong = exec_datafusion_err!(
                    "its columns have other types than those of the files before it, and no type holds \
                     the values of both without a loss: declare the columns, as in CREATE EXTERNAL TABLE t \
                     (id BIGINT, x DOUBLE) …, or put tables of single files together by UNION ALL BY NAME"
                );
                return Some(pipes.name(&file.location).blame(wrong));
            }
            common = with_others;
        }
        None
    }
}

/// The files of a location whose names end so.
pub(super) async fn list(
    url: &ListingTableUrl,
    session: &dyn Session,
    store: &dyn ObjectStore,
    extension: &str,
) -> Result<Vec<ObjectMeta>> {
    url.list_all_files(session, store, extension).await?.try_collect().await
}

/// Whether a program keeps the file beside its data, such as `_SUCCESS`.
pub(super) fn is_hidden(file: &ObjectMeta) -> bool {
    file.location.filename().is_some_and(|name| name.starts_with(['_', '.']))
        && file.location.extension().is_none_or(|extension| extension.is_empty())
}

/// Whether the error may be that of a file's content.
pub(super) fn is_of_content(error: &DataFusionError) -> bool {
    matches!(
        error.find_root(),
        DataFusionError::ParquetError(_)
            | DataFusionError::ArrowError(..)
            | DataFusionError::ObjectStore(_)
            | DataFusionError::IoError(_)
            | DataFusionError::External(_)
            | DataFusionError::Internal(_)
    )
}
