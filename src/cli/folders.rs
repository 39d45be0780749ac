//! The folders that statements may touch (`--data-dir`), at the command line.
//!
//! The session's object store refuses all others. Here are the places that look at files without
//! it, or would hide what it says.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, Statement};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::storage::DataDirs;

/// The folders of a session; none where statements may touch all files.
fn of_session(config: &SessionConfig) -> Option<Arc<DataDirs>> {
    config.get_extension::<DataDirs>()
}

/// Takes names of files for tables, those in the session's folders.
pub(super) fn with_tables_by_name(ctx: SessionContext) -> SessionContext {
    let Some(folders) = of_session(&ctx.copied_config()) else { return ctx.enable_url_table() };
    let tables = Arc::new(DynamicListTableFactory::default());
    let checked = CheckedTables { tables: Arc::clone(&tables), folders };
    let state = ctx.state();
    let catalogs = DynamicFileCatalog::new(Arc::clone(state.catalog_list()), Arc::new(checked));
    let session_id = state.session_id().to_string();
    let state = SessionStateBuilder::new_from_existing(state)
        .with_session_id(session_id)
        .with_catalog_list(Arc::new(catalogs))
        .build();
    let ctx = SessionContext::new_with_state(state);
    tables.session_store().with_state(ctx.state_weak_ref());
    ctx
}

/// DataFusion takes a file that cannot be opened for one that is not there.
#[derive(Debug)]
struct CheckedTables {
    tables: Arc<DynamicListTableFactory>,
    folders: Arc<DataDirs>,
}

#[async_trait]
impl UrlTableFactory for CheckedTables {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Ok(url) = ListingTableUrl::parse(name) {
            self.folders.check_url(&url)?;
        }
        self.tables.try_new(name).await
    }
}

/// Refuses a statement that has the session spill into another folder.
pub(super) fn check_settings(config: &SessionConfig, plan: &LogicalPlan) -> Result<()> {
    match plan {
        LogicalPlan::Statement(Statement::SetVariable(set))
            if set.variable == "datafusion.runtime.temp_directory"
                && of_session(config).is_some() =>
        {
            plan_err!("{} cannot be set under --data-dir; set TMPDIR at the start", set.variable)
        }
        _ => Ok(()),
    }
}

/// Refuses a file that a statement would write outside of the session's folders.
pub(super) fn check_destination(config: &SessionConfig, file: &Path) -> Result<()> {
    match of_session(config).map(|folders| folders.check_write(file)) {
        Some(Err(outside)) => plan_err!("{outside}"),
        _ => Ok(()),
    }
}
