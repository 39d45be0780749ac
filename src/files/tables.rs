//! Tables of files: by name, and by CREATE EXTERNAL TABLE.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProviderFactory, UrlTableFactory};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::TableProvider;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::datasource::provider::DefaultTableFactory;
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateExternalTable;
use datafusion::object_store::ObjectMeta;
use parking_lot::RwLock;

use super::check::{Files, is_hidden, is_of_content, list};
use super::kind::{Kind, options_of};
use super::names;
use super::pipes::Pipes;
use super::reading::FileName;
use crate::storage::{self, DataDirs};

/// The tables that `FROM 'name'` reads.
#[derive(Debug)]
pub(crate) struct FileTables {
    session: OnceLock<Weak<RwLock<SessionState>>>,
    pipes: Arc<Pipes>,
}

impl FileTables {
    pub(crate) fn new(pipes: &Arc<Pipes>) -> Self {
        Self { session: OnceLock::new(), pipes: Arc::clone(pipes) }
    }

    /// Names the session whose statements read them.
    pub(crate) fn set_session(&self, session: Weak<RwLock<SessionState>>) {
        // A session is set once.
        let _ = self.session.set(session);
    }

    fn session(&self) -> Result<SessionState> {
        let session = self.session.get().and_then(Weak::upgrade);
        let session = session.ok_or_else(|| plan_datafusion_err!("the session has ended"))?;
        let state = session.read().clone();
        Ok(state)
    }
}

#[async_trait]
impl UrlTableFactory for FileTables {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let state = self.session()?;
        let (location, is_pipe) = location(name, &state, &self.pipes).await?;
        let Ok(url) = ListingTableUrl::parse(&location) else { return Ok(None) };
        if let Some(folders) = state.config().get_extension::<DataDirs>() {
            // DataFusion takes a file that cannot be opened for one that is not there.
            folders.check_url(&url)?;
        }
        let store = state.runtime_env().object_store(&url)?;
        let mut files = match list(&url, &state, store.as_ref(), "").await {
            // A name that is no file is no matter of the folders that statements may touch.
            Err(e) if storage::outside(&e).is_some() && !names::exists(&url) => return Ok(None),
            files => files?,
        };
        files.sort_by(|a, b| a.location.cmp(&b.location));
        let kind = match is_pipe {
            true => Some(Kind::of_pipe(name, &files, store.as_ref(), &self.pipes).await?),
            false => kind_of_all(name, &files, &state)?,
        };
        let Some(kind) = kind else { return Ok(None) };
        let extension = if is_pipe { "" } else { kind.extension() };
        let first = files.iter().find(|f| f.size > 0 && f.location.as_ref().ends_with(extension));
        let mut options = HashMap::new();
        if let Some(first) = first {
            let file = self.pipes.name(&first.location);
            options = file.wait(options_of(&kind, store.as_ref(), first)).await?;
        }
        let Some(format) = state.get_file_format_factory(kind.format()) else { return Ok(None) };
        let options =
            ListingOptions::new(format.create(&state, &options)?).with_file_extension(extension);
        let files = Files::at(std::slice::from_ref(&url), &options, &state).await?;
        files.check(&state, &self.pipes).await?;
        let config = ListingTableConfig::new(url).with_listing_options(options);
        let config = config.infer_partitions_from_path(&state).await?;
        let inferred = FileName::given(name).wait_caught(config.infer_schema(&state)).await;
        match inferred {
            Ok(config) => Ok(Some(Arc::new(ListingTable::try_new(config)?))),
            Err(error) if is_of_content(&error) => {
                Err(files.first_error(&state, &self.pipes).await.unwrap_or(error))
            }
            Err(error) => Err(error),
        }
    }
}

/// The location of a name, and whether it is that of a pipe's rows.
async fn location(name: &str, session: &dyn Session, pipes: &Pipes) -> Result<(String, bool)> {
    let location = names::to_read(name)?;
    let path = names::path(name)?;
    if let Some(file) = pipes.opened(&path) {
        return Ok((names::to_read(&file)?, false));
    }
    Ok(match pipes.kept(&path, session).await? {
        Some(kept) => (kept, true),
        None => (location, false),
    })
}

/// The kind that all files of a table have; None where no file has a known one.
fn kind_of_all(name: &str, files: &[ObjectMeta], state: &SessionState) -> Result<Option<Kind>> {
    let known = |file: &ObjectMeta| {
        let kind = Kind::of_name(file.location.filename().unwrap_or_default())?;
        state.get_file_format_factory(kind.format()).map(|_| kind)
    };
    let mut first: Option<(&ObjectMeta, Kind)> = None;
    for file in files.iter().filter(|file| !is_hidden(file)) {
        let Some(kind) = known(file) else { continue };
        match &first {
            None => first = Some((file, kind)),
            Some((other, expected)) if *expected != kind => {
                let shown =
                    |file: &ObjectMeta| file.location.filename().unwrap_or_default().to_string();
                return plan_err!(
                    "'{name}' has files of several formats, such as {} and {}; choose those of \
                     one, as in '{}*.{}'",
                    shown(other),
                    shown(file),
                    folder_of(name),
                    expected.extension()
                );
            }
            Some(_) => {}
        }
    }
    Ok(first.map(|(_, kind)| kind))
}

/// The folder that a name or pattern is of, with a slash at its end.
fn folder_of(name: &str) -> String {
    match name.rsplit_once('/') {
        _ if !name.contains(['*', '?', '[']) => format!("{}/", name.trim_end_matches('/')),
        Some((folder, _)) => format!("{folder}/"),
        None => String::new(),
    }
}

/// Makes the tables of CREATE EXTERNAL TABLE.
#[derive(Debug)]
pub(crate) struct ExternalTables {
    inner: DefaultTableFactory,
    pipes: Arc<Pipes>,
}

impl ExternalTables {
    /// A factory for each format, by the name that STORED AS has.
    pub(crate) fn factories(
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
        for name in &mut command.locations {
            *name = location(name, session, &self.pipes).await?.0;
        }
        let urls =
            command.locations.iter().map(ListingTableUrl::parse).collect::<Result<Vec<_>>>()?;
        self.add_options(session, &mut command, urls.first()).await?;
        let files = files_of(session, &command, &urls).await?;
        // Rows may be written into a table whose columns are declared before any are read.
        if let Some(files) = files.as_ref().filter(|_| command.schema.fields().is_empty()) {
            files.check(session, &self.pipes).await?;
        }
        let created = self.inner.create(session, &command);
        match (FileName::given("files").wait_caught(created).await, files) {
            (Err(error), Some(files)) if is_of_content(&error) => {
                Err(files.first_error(session, &self.pipes).await.unwrap_or(error))
            }
            (created, _) => created,
        }
    }
}

impl ExternalTables {
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
            command.options.keys().any(|key| key == what || key == &format!("format.{what}"))
        };
        let named = name.as_deref().and_then(Kind::of_name);
        let kind = match &named {
            // STORED AS CSV reads a file.tsv as what it is.
            Some(kind) if kind.format() == stored_as && compression.is_empty() => kind.clone(),
            _ => Kind::stored_as(&stored_as, &compression),
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
) -> Result<Option<Files>> {
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
    Files::at(urls, &options, session).await.map(Some)
}
