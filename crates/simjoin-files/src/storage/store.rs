//! An object store of local files that knows the folders it may touch.

use std::fmt;
use std::fs::File;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result, UploadPart,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::{DataDirs, Outside};

/// Reads and writes local files in some folders, and refuses all others.
///
/// Paths are checked before the store opens them. What has been opened to be read is checked again
/// where the system says what it is, so that a link which is exchanged in between gains nothing.
/// A file that is written is checked again before it gets its name.
///
/// Ranges of a file come through [`ObjectStore::get_opts`], as the trait has it.
#[derive(Debug)]
pub(super) struct FolderStore {
    files: Arc<dyn ObjectStore>,
    /// Knows the paths of locations.
    paths: Arc<LocalFileSystem>,
    folders: DataDirs,
}

impl FolderStore {
    pub(super) fn new(files: Arc<dyn ObjectStore>, folders: DataDirs) -> Self {
        Self { files, paths: Arc::new(LocalFileSystem::new()), folders }
    }

    fn check_read(&self, location: &Path) -> Result<PathBuf> {
        let path = self.paths.path_to_filesystem(location)?;
        self.folders.check_read(&path).map_err(refused)?;
        Ok(path)
    }

    fn check_write(&self, location: &Path) -> Result<PathBuf> {
        let path = self.paths.path_to_filesystem(location)?;
        self.folders.check_write(&path).map_err(refused)?;
        Ok(path)
    }

    fn check_list(&self, prefix: Option<&Path>) -> Result<()> {
        match prefix.filter(|prefix| !prefix.as_ref().is_empty()) {
            Some(prefix) => self.check_read(prefix).map(drop),
            None => self.folders.check_read(FilePath::new("/")).map_err(refused),
        }
    }
}

fn refused(outside: Outside) -> Error {
    let path = outside.path.display().to_string();
    Error::PermissionDenied { path, source: Box::new(outside) }
}

/// Checks what an open file is, where the system tells.
pub(super) fn check_open(folders: &DataDirs, file: &File, path: &FilePath) -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        // Without /proc the check by name has to do.
        if let Ok(opened) = opened
            && opened.is_absolute()
            && !folders.0.iter().any(|folder| opened.starts_with(folder))
        {
            return Err(refused(Outside { path: path.to_path_buf(), folders: folders.clone() }));
        }
    }
    let _ = (folders, file, path);
    Ok(())
}

impl fmt::Display for FolderStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.files, self.folders)
    }
}

#[async_trait]
impl ObjectStore for FolderStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.check_write(location)?;
        self.files.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let path = self.check_write(location)?;
        let upload = self.files.put_multipart_opts(location, options).await?;
        Ok(Box::new(Upload { upload, path, folders: self.folders.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check_read(location)?;
        let result = self.files.get_opts(location, options).await?;
        if let GetResultPayload::File(file, path) = &result.payload {
            check_open(&self.folders, file, path)?;
        }
        Ok(result)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (paths, folders) = (Arc::clone(&self.paths), self.folders.clone());
        let allowed = locations.map(move |location| {
            let location = location?;
            let path = paths.path_to_filesystem(&location)?;
            folders.check_write(&path).map_err(refused)?;
            Ok(location)
        });
        self.files.delete_stream(allowed.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if let Err(e) = self.check_list(prefix) {
            return futures::stream::once(async { Err(e) }).boxed();
        }
        let (paths, folders) = (Arc::clone(&self.paths), self.folders.clone());
        // A link in a folder may lead out of it.
        let inside = self.files.list(prefix).and_then(move |found| {
            let checked = paths
                .path_to_filesystem(&found.location)
                .and_then(|path| folders.check_read(&path).map_err(refused));
            async move { checked.map(|()| found) }
        });
        inside.boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.check_list(prefix)?;
        let found = self.files.list_with_delimiter(prefix).await?;
        for object in &found.objects {
            self.check_read(&object.location)?;
        }
        for folder in &found.common_prefixes {
            self.check_read(folder)?;
        }
        Ok(found)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.check_read(from)?;
        self.check_write(to)?;
        self.files.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.check_write(from)?;
        self.check_write(to)?;
        self.files.rename_opts(from, to, options).await
    }
}

/// A file that is written in parts, and checked again before it gets its name.
#[derive(Debug)]
struct Upload {
    upload: Box<dyn MultipartUpload>,
    path: PathBuf,
    folders: DataDirs,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        if let Err(outside) = self.folders.check_write(&self.path) {
            self.upload.abort().await?;
            return Err(refused(outside));
        }
        self.upload.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
