//! The folders that statements may touch (`--data-dir`), at the command line.
//!
//! The session's object store refuses all others. Here are the places that look at files without
//! it, or would hide what it says.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{LogicalPlan, Statement};
use datafusion::prelude::SessionConfig;

use simjoin_files as files;
use simjoin_files::storage::DataDirs;

/// The folders of a session; none where statements may touch all files.
fn of_session(config: &SessionConfig) -> Option<Arc<DataDirs>> {
    config.get_extension::<DataDirs>()
}

/// Refuses a statement that has the session spill into another folder.
pub fn check_settings(config: &SessionConfig, plan: &LogicalPlan) -> Result<()> {
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

/// Refuses a pipe that a statement would open outside of the session's folders. Standard output is
/// that of whoever started the program.
pub fn check_pipe(config: &SessionConfig, pipe: &Path) -> Result<()> {
    match of_session(config).map(|folders| folders.check_read(pipe)) {
        Some(Err(outside)) if !files::is_stdout(pipe) => plan_err!("{outside}"),
        _ => Ok(()),
    }
}

/// Refuses a file that a statement would write outside of the session's folders.
pub fn check_destination(config: &SessionConfig, file: &Path) -> Result<()> {
    match of_session(config).map(|folders| folders.check_write(file)) {
        Some(Err(outside)) => plan_err!("{outside}"),
        _ => Ok(()),
    }
}
