//! Folders: those that statements may touch, and those of a process for its temporary files.
//!
//! [`DataDirs`] is a list of folders. Its [`registry`](DataDirs::registry) gives a session object
//! stores that read and write nothing outside of them: whatever a plan names, also one that was
//! never planned here, goes through these stores.
//!
//! A process removes its `ProcessDir` when it ends; where it was killed, the next start removes the folder.
//! A `Layer` changes some methods of an object store and passes the others on.
mod layer;
mod process_dir;
mod store;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, config_datafusion_err, plan_err};
use datafusion::datasource::file_format::csv::CsvSink;
use datafusion::datasource::file_format::json::JsonSink;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::FileSink;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::object_store::{
    DefaultObjectStoreRegistry, ObjectStoreRegistry, ObjectStoreUrl,
};
use datafusion::object_store::ObjectStore;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::physical_plan::ExecutionPlan;
pub use layer::{Layer, Layered};
pub use process_dir::ProcessDir;
use store::FolderStore;

/// Folders that statements may read and write, with everything below them.
///
/// A file is in a folder if its canonical path is: `..` and symbolic links are followed first. The
/// name of a file that is to be written counts as it stands, without following a link of that name,
/// which the new file replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDirs(Arc<[PathBuf]>);

impl DataDirs {
    /// The folders of `paths`, which must exist; none for no paths, which restrict nothing.
    ///
    /// # Errors
    ///
    /// A configuration error for a path that is no folder.
    pub fn new<P: AsRef<Path>>(paths: &[P]) -> Result<Option<Self>> {
        let folder = |path: &P| {
            let path = path.as_ref();
            let wrong = |why: &dyn fmt::Display| {
                config_datafusion_err!("--data-dir {}: {why}", path.display())
            };
            let folder = path.canonicalize().map_err(|e| wrong(&e))?;
            match folder.is_dir() {
                true => Ok::<_, DataFusionError>(folder),
                false => Err(wrong(&"it is a file, not a folder")),
            }
        };
        let folders = paths.iter().map(folder).collect::<Result<Vec<_>>>()?;
        Ok((!folders.is_empty()).then(|| Self(folders.into())))
    }

    /// A store of local files that reads and writes files of these folders alone.
    pub fn restrict(&self, files: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(FolderStore::new(files, self.clone()))
    }

    /// A registry whose one store reads and writes local files of these folders alone.
    pub fn registry(&self) -> Arc<dyn ObjectStoreRegistry> {
        let registry = DefaultObjectStoreRegistry::new();
        let store = self.restrict(Arc::new(LocalFileSystem::new()));
        registry.register_store(ObjectStoreUrl::local_filesystem().as_ref(), store);
        Arc::new(registry)
    }

    /// Refuses a path that is outside once `..` and links are followed.
    ///
    /// # Errors
    ///
    /// [`Outside`], which names the path and the folders.
    pub fn check_read(&self, path: &Path) -> std::result::Result<(), Outside> {
        self.check(path, resolve(path))
    }

    /// Refuses to write a path whose folder is outside. The folder may not exist yet.
    ///
    /// # Errors
    ///
    /// [`Outside`], which names the path and the folders.
    pub fn check_write(&self, path: &Path) -> std::result::Result<(), Outside> {
        let resolved = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => resolve(folder).map(|folder| folder.join(name)),
            _ => resolve(path),
        };
        self.check(path, resolved)
    }

    /// Refuses a table whose name is that of a file or folder outside. One that does not exist is
    /// no such name.
    ///
    /// # Errors
    ///
    /// A plan error, which names the path and the folders.
    pub fn check_url(&self, url: &ListingTableUrl) -> Result<()> {
        if url.scheme() != "file" {
            return Ok(());
        }
        let path = local_path(url);
        match self.check_read(&path) {
            Err(outside) if path.symlink_metadata().is_ok() => plan_err!("{outside}"),
            _ => Ok(()),
        }
    }

    /// Refuses a plan that writes text files outside: their writers keep the reason to themselves.
    ///
    /// # Errors
    ///
    /// A plan error, which names the path and the folders.
    pub fn check_sinks(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        plan.apply(|plan| {
            let sink = plan.downcast_ref::<DataSinkExec>().map(DataSinkExec::sink);
            let config = sink.and_then(|sink| {
                let csv = sink.downcast_ref::<CsvSink>().map(FileSink::config);
                csv.or_else(|| sink.downcast_ref::<JsonSink>().map(FileSink::config))
            });
            for url in config.map_or(&[][..], |config| &config.table_paths) {
                let path = local_path(url);
                let checked = match url.is_collection() {
                    true => self.check_read(&path),
                    false => self.check_write(&path),
                };
                if let Err(outside) = checked {
                    return plan_err!("{outside}");
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    fn check(
        &self,
        path: &Path,
        resolved: io::Result<PathBuf>,
    ) -> std::result::Result<(), Outside> {
        match resolved {
            Ok(resolved) if self.0.iter().any(|folder| resolved.starts_with(folder)) => Ok(()),
            _ => Err(Outside { path: path.to_path_buf(), folders: self.clone() }),
        }
    }
}

impl fmt::Display for DataDirs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, folder) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}", folder.display())?;
        }
        Ok(())
    }
}

/// Stands in the error of each file that statements may not touch.
pub const OUTSIDE: &str = "is not in a folder that statements may touch";

/// A file that statements may not touch.
#[derive(Clone, PartialEq, Eq)]
pub struct Outside {
    path: PathBuf,
    folders: DataDirs,
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {OUTSIDE} (--data-dir {})", self.path.display(), self.folders)
    }
}

/// Writes the text of `Display`: errors cross a cluster in their `Debug` form.
impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Outside {}

/// The refused file that an error comes from.
pub fn outside<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Outside> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(outside) = error.downcast_ref() {
            return Some(outside);
        }
        cause = error.source();
    }
    None
}

/// The error, or what it says of a refused file without the layers that it came through.
pub fn without_layers(error: DataFusionError) -> DataFusionError {
    match outside(&error) {
        Some(outside) => DataFusionError::Execution(outside.to_string()),
        None => error,
    }
}

/// The path of a table of local files.
fn local_path(url: &ListingTableUrl) -> PathBuf {
    let root = if cfg!(windows) { "" } else { "/" };
    PathBuf::from(format!("{root}{}", url.prefix()))
}

/// The path without `..` and links, as far as it exists, and the rest of it as it stands.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut rest: Vec<OsString> = vec![];
    let mut existing = path.to_path_buf();
    loop {
        match existing.canonicalize() {
            Ok(mut resolved) => {
                resolved.extend(rest.iter().rev());
                return Ok(resolved);
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // A link that leads nowhere: whoever follows it later goes where it says then.
                if existing.symlink_metadata().is_ok() {
                    return Err(e);
                }
                match existing.components().next_back() {
                    Some(Component::Normal(name)) => rest.push(name.to_os_string()),
                    // `..` behind a folder that does not exist has no meaning yet.
                    _ => return Err(e),
                }
                if !existing.pop() {
                    return Err(e);
                }
            }
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests;
