//! Tables of files by their names.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use datafusion::catalog::{Session, UrlTableFactory};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::TableProvider;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::execution::SessionState;
use datafusion::object_store::ObjectMeta;
use parking_lot::RwLock;

use super::check::{Files, is_hidden, is_of_content, list};
use super::kind::{FileKind, options_of};
use super::names;
use super::pipes::Pipes;
use super::reading::FileName;
use super::text::Guess;
use crate::storage::{self, DataDirs};

/// The tables that `FROM 'name'` reads.
#[derive(Debug)]
pub struct FileTables {
    session: OnceLock<Weak<RwLock<SessionState>>>,
    pipes: Arc<Pipes>,
}

impl FileTables {
    /// Tables that read `pipes`, until they know their session none.
    pub fn new(pipes: &Arc<Pipes>) -> Self {
        Self { session: OnceLock::new(), pipes: Arc::clone(pipes) }
    }

    /// Names the session whose statements read them.
    pub fn set_session(&self, session: Weak<RwLock<SessionState>>) {
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
        if !names::may_be_file(name) {
            return Ok(None);
        }
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
            true => Some(FileKind::of_pipe(name, &files, store.as_ref(), &self.pipes).await?),
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
        let name = FileName::given(name);
        let guessed = name.wait_caught(files.guess(&state, &self.pipes)).await?;
        let (options, guessed) = match guessed {
            Some(Guess { schema, format }) => (ListingOptions { format, ..options }, Some(schema)),
            None => (options, None),
        };
        let config = ListingTableConfig::new(url).with_listing_options(options);
        let config = config.infer_partitions_from_path(&state).await?;
        let schema = match guessed {
            Some(schema) => Ok(config.with_schema(schema)),
            None => {
                let inferred = name.wait_caught(config.clone().infer_schema(&state)).await;
                match inferred {
                    Err(error) if is_of_content(&error) => {
                        let common =
                            name.wait_caught(async { Ok(files.common_schema(&state).await) });
                        match common.await? {
                            Some(schema) => Ok(config.with_schema(schema)),
                            None => Err(error),
                        }
                    }
                    inferred => inferred,
                }
            }
        };
        match schema {
            Ok(config) => Ok(Some(Arc::new(ListingTable::try_new(config)?))),
            Err(error) if is_of_content(&error) => {
                Err(files.first_error(&state, &self.pipes).await.unwrap_or(error))
            }
            Err(error) => Err(error),
        }
    }
}

/// The location of a name, and whether it is that of a pipe's rows.
pub(super) async fn location(
    name: &str,
    session: &dyn Session,
    pipes: &Pipes,
) -> Result<(String, bool)> {
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
fn kind_of_all(name: &str, files: &[ObjectMeta], state: &SessionState) -> Result<Option<FileKind>> {
    let known = |file: &ObjectMeta| {
        let kind = FileKind::of_name(file.location.filename().unwrap_or_default())?;
        state.get_file_format_factory(kind.format()).map(|_| kind)
    };
    let mut first: Option<(&ObjectMeta, FileKind)> = None;
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
