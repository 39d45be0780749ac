//! The folders of this process for spilled data and what pipes give.
//!
//! Each is a [`ProcessDir`]: the next start of the program removes those of a process that was
//! killed. DataFusion's disk manager has its own folder in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::DiskManager;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use parking_lot::Mutex;

use super::limits;
use simjoin_files::storage::ProcessDir;

/// The start of the names of folders.
const PREFIX: &str = "simjoin-spill-";

/// The folders of a session. The session's configuration holds them, and with it every task that may
/// write into them.
#[derive(Debug, Default)]
pub struct SpillFolders(Mutex<Vec<ProcessDir>>);

impl SpillFolders {
    /// A disk manager for the session of `config`, in the system's folder of temporary files. Where
    /// no folder can be made, it is DataFusion's own: a statement that spills will tell why.
    pub fn disk_manager(config: SessionConfig) -> (DiskManagerBuilder, SessionConfig) {
        let folders = Arc::new(Self::default());
        let mut disk = DiskManagerBuilder::default();
        if let Some(folder) = folders.create_in(&std::env::temp_dir()) {
            disk.set_mode(DiskManagerMode::Directories(vec![folder]));
        }
        (disk, config.with_extension(folders))
    }

    /// Makes a folder; `None` where `parent` cannot be written.
    fn create_in(&self, parent: &Path) -> Option<PathBuf> {
        let folder = ProcessDir::create(parent, PREFIX).ok()?;
        let path = folder.path().to_path_buf();
        self.0.lock().push(folder);
        Some(path)
    }

    /// The folder of these that a disk manager writes into.
    fn folder_of(&self, disk: &DiskManager) -> Option<PathBuf> {
        let place = disk.temp_dir_paths().first()?.parent()?.to_path_buf();
        self.0.lock().iter().any(|own| own.path() == place).then_some(place)
    }

    /// The folder in which a session is to spill after the statement `asked`, before which it had the
    /// disk manager `before`; `None` where it does already, or where no folder can be made.
    fn after(&self, before: &DiskManager, now: &DiskManager, asked: &str) -> Option<PathBuf> {
        if self.folder_of(now).is_some() {
            return None;
        }
        match now.temp_dir_paths().first() {
            Some(folder) => self.create_in(folder.parent()?),
            // A new limit moves DataFusion's files to the system's folder.
            None if asked.to_ascii_lowercase().contains("max_temp_directory_size") => {
                self.folder_of(before)
            }
            None => self.create_in(&std::env::temp_dir()),
        }
    }
}

/// Gives the session a folder of its own again, where the statement `asked` has moved its temporary
/// files. Before it, the session had the runtime `before`.
///
/// # Errors
///
/// The system's, where the folder cannot be written.
pub fn keep(ctx: &SessionContext, before: &Arc<RuntimeEnv>, asked: &str) -> Result<()> {
    let now = ctx.runtime_env();
    let folders = ctx.copied_config().get_extension::<SpillFolders>();
    let Some(folders) = folders.filter(|_| !Arc::ptr_eq(&now, before)) else { return Ok(()) };
    let Some(folder) = folders.after(&before.disk_manager, &now.disk_manager, asked) else {
        return Ok(());
    };
    let mut disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![folder]))
        .with_max_temp_directory_size(now.disk_manager.max_temp_directory_size());
    disk.set_max_spill_merge_fan_in(now.disk_manager.max_spill_merge_fan_in());
    let runtime = RuntimeEnvBuilder::from_runtime_env(&now).with_disk_manager_builder(disk);
    limits::set_runtime(ctx, runtime)
}
