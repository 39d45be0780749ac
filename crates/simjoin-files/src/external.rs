//! Tables of files by CREATE EXTERNAL TABLE.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProviderFactory};
use datafusion::common::{Result, ToDFSchema, plan_err};
use datafusion::datasource::TableProvider;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::datasource::provider::DefaultTableFactory;
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateExternalTable;

use super::check::{Files, is_hidden, is_of_content, list};
use super::kind::{FileKind, options_of};
use super::names;
use super::pipes::Pipes;
use super::reading::FileName;
use super::tables::location;
use super::text::Guess;

/// Makes the tables of CREATE EXTERNAL TABLE.
#[derive(Debug)]
pub struct ExternalTables {
    inner: DefaultTableFactory,
    pipes: Arc<Pipes>,
}

impl ExternalTables {
    /// A factory for each format, by the name that STORED AS has.
    pub fn factories(
        pipes: &Arc<Pipes>,
    ) -> impl Iterator<Item = (String, Arc<dyn TableProviderFactory>)> {
        ["PARQUET", "CSV", "TSV", "JSON", "JSONL", "NDJSON", "ARROW"].into_iter().map(|name| {
            let inner = DefaultTableFactory::new();
            let factory = Self { inner, pipes: Arc::clone(pipes) };
            (name.to_string(), Arc::new(factory) as Arc<dyn TableProviderFactory>)
        })
    }
}

#[async_trait]
impl TableProviderFactory for ExternalTables {
    async fn create(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let mut command = command.clone();
        let is_stream = command.unbounded
            || command.options.iter().any(|(key, value)| {
                key.eq_ignore_ascii_case("unbounded") && value.eq_ignore_ascii_case("true")
            });
        if is_stream {
            for location in &mut command.locations {
                *location = names::to_write(location)?;
            }
            return self.inner.create(session, &command).await;
        }
        refuse_on_cluster(&command, &self.pipes)?;
        let mut is_pipe = false;
        for name in &mut command.locations {
            let (location, of_pipe) = location(name, session, &self.pipes).await?;
            *name = location;
            is_pipe |= of_pipe;
        }
        if is_pipe {
            // Its rows are kept without their compression.
            command.options.retain(|key, _| !is_option(key, "compression"));
        }
        let is_declared = !command.schema.fields().is_empty();
        if is_declared {
            // It would say that the columns were guessed.
            command.options.retain(|key, _| !is_option(key, "schema_infer_max_rec"));
        }
        let urls =
            command.locations.iter().map(ListingTableUrl::parse).collect::<Result<Vec<_>>>()?;
        self.add_options(session, &mut command, urls.first()).await?;
        let files = files_of(session, &command, &urls).await?;
        // Rows may be written into a table whose columns are declared before any are read.
        if let Some((files, options)) = files.as_ref().filter(|_| !is_declared) {
            files.check(session, &self.pipes).await?;
            if let Some(table) = self.guessed(session, &command, &urls, files, options).await? {
                return Ok(table);
            }
        }
        let created = self.inner.create(session, &command);
        match (FileName::given("files").wait_caught(created).await, files) {
            (Err(error), Some((files, _))) if is_of_content(&error) => {
                Err(files.first_error(session, &self.pipes).await.unwrap_or(error))
            }
            (created, _) => created,
        }
    }
}

impl ExternalTables {
    /// The table of files whose columns are known by looking at their rows; `None` where DataFusion knows them.
    async fn guessed(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
        urls: &[ListingTableUrl],
        files: &Files,
        options: &ListingOptions,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if files.is_empty() {
            return Ok(None);
        }
        let (schema, format) = match files.guess(session, &self.pipes).await? {
            Some(Guess { schema, format }) => (schema, format),
            None => {
                let name = FileName::given("files");
                let first = urls.first();
                let fits = async {
                    let Some(url) = first else { return Ok(()) };
                    options.infer_schema(session, url).await.map(drop)
                };
                let Err(error) = name.wait_caught(fits).await else { return Ok(None) };
                if !is_of_content(&error) {
                    return Ok(None);
                }
                let common = name.wait_caught(async { Ok(files.common_schema(session).await) });
                match common.await? {
                    Some(schema) => (schema, Arc::clone(files.format())),
                    None => return Ok(None),
                }
            }
        };
        let options = ListingOptions { format, ..options.clone() };
        listing(session, command, urls, options, schema).await.map(Some)
    }

    /// Adds what the files themselves tell, such as the delimiter, unless the statement says it.
    async fn add_options(
        &self,
        session: &dyn Session,
        command: &mut CreateExternalTable,
        url: Option<&ListingTableUrl>,
    ) -> Result<()> {
        let stored_as = command.file_type.to_lowercase();
        let name = url.map(|url| url.prefix().filename().unwrap_or_default().to_string());
        let compression = command.options.get("format.compression").map(String::as_str);
        let compression = compression.map(str::to_lowercase).unwrap_or_default();
        let is_given = |what: &str, command: &CreateExternalTable| {
            command.options.keys().any(|key| is_option(key, what))
        };
        let named = name.as_deref().and_then(FileKind::of_name);
        let kind = match &named {
            // STORED AS CSV reads a file.tsv as what it is.
            Some(kind) if kind.format() == stored_as && compression.is_empty() => kind.clone(),
            _ => FileKind::stored_as(&stored_as, &compression),
        };
        command.file_type = kind.format().to_uppercase();
        let mut found = HashMap::new();
        if let Some(url) = url {
            let store = session.runtime_env().object_store(url)?;
            let files = list(url, session, store.as_ref(), "").await?;
            if let Some(first) = files.iter().find(|f| f.size > 0 && !is_hidden(f)) {
                let file = self.pipes.name(&first.location);
                found = file.wait(options_of(&kind, store.as_ref(), first)).await?;
            }
        }
        for (key, value) in found {
            let what = key.trim_start_matches("format.");
            // The compression of a file that is no .gz is for the statement to tell.
            if what != "compression" && !is_given(what, command) {
                command.options.insert(key, value);
            }
        }
        Ok(())
    }
}

/// The files that a statement makes a table of; None for a format that is not known, which the
/// statement is told of later.
async fn files_of(
    session: &dyn Session,
    command: &CreateExternalTable,
    urls: &[ListingTableUrl],
) -> Result<Option<(Files, ListingOptions)>> {
    let Some(state) = session.as_any().downcast_ref::<SessionState>() else { return Ok(None) };
    let Some(factory) = state.get_file_format_factory(&command.file_type) else { return Ok(None) };
    let format = factory.create(state, &command.options)?;
    // Of folders, DataFusion reads the files of the format, unless the columns are declared.
    let is_folder = urls.iter().all(|url| url.is_folder() && url.get_glob().is_none());
    let extension = match is_folder && command.schema.fields().is_empty() {
        true => match format.compression_type() {
            Some(compression) => format.get_ext_with_compression(&compression)?,
            None => command.file_type.to_lowercase(),
        },
        false => String::new(),
    };
    let options = ListingOptions::new(format).with_file_extension(extension);
    let files = Files::at(urls, &options, session).await?;
    Ok(Some((files, options)))
}

/// The table of a statement over files with such columns, as DataFusion's factory makes it.
async fn listing(
    session: &dyn Session,
    command: &CreateExternalTable,
    urls: &[ListingTableUrl],
    options: ListingOptions,
    schema: SchemaRef,
) -> Result<Arc<dyn TableProvider>> {
    let paths: Vec<ListingTableUrl> =
        urls.iter().map(|url| url.clone().with_table_ref(command.name.clone())).collect();
    let Some(first) = paths.first() else {
        return plan_err!("CREATE EXTERNAL TABLE requires at least one location");
    };
    let infers = session.config_options().execution.listing_table_factory_infer_partitions;
    let partitions = match command.table_partition_cols.is_empty() && infers {
        true => options.infer_partitions(session, first).await?,
        false => command.table_partition_cols.clone(),
    };
    let text = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
    let partitions = partitions.into_iter().map(|column| (column, text.clone())).collect();
    let options = options.with_table_partition_cols(partitions);
    for path in &paths {
        options.validate_partitions(session, path).await?;
    }
    let sorted = Arc::clone(&schema).to_dfschema()?;
    let keys = command.order_exprs.iter().flatten().flat_map(|key| key.expr.column_refs());
    for column in keys {
        if !sorted.has_column(column) {
            return plan_err!("Column {column} is not in schema");
        }
    }
    let options = options.with_file_sort_order(command.order_exprs.clone());
    let config = ListingTableConfig::new_with_multi_paths(paths)
        .with_listing_options(options)
        .with_schema(schema);
    let table = ListingTable::try_new(config)?
        .with_cache(session.runtime_env().cache_manager.get_file_statistic_cache())
        .with_definition(command.definition.clone())
        .with_constraints(command.constraints.clone())
        .with_column_defaults(command.column_defaults.clone());
    Ok(Arc::new(table))
}

/// Whether a key of OPTIONS is that of an option of the format.
fn is_option(key: &str, name: &str) -> bool {
    key.trim_start_matches("format.").eq_ignore_ascii_case(name)
}

/// Refuses what only the readers of this process know.
fn refuse_on_cluster(command: &CreateExternalTable, pipes: &Pipes) -> Result<()> {
    let has_null = command.options.keys().any(|key| is_option(key, "null_regex"));
    match has_null && !pipes.may_be_written() {
        true => plan_err!(
            "format.null_regex does not reach the machines of a cluster; declare the column as TEXT, \
             and write NULLIF(x, 'NA')"
        ),
        false => Ok(()),
    }
}
