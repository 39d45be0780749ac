//! Folders of one process, which a later process removes where the first one was killed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// A folder of this process alone, removed when the value is dropped.
///
/// A process that was killed leaves its folder, but not the lock in it: the next process that makes a
/// folder of that prefix in the same place removes it.
#[derive(Debug)]
pub struct ProcessDir {
    path: PathBuf,
    /// The number of the process: a child of `fork` leaves the folder alone.
    process: u32,
    /// Held, with its lock, for as long as the folder is used.
    _lock: File,
}

/// The file in each folder that its process holds locked.
const LOCK: &str = ".lock";

/// Random characters of a name.
const RANDOM: usize = 12;

/// The folders of this process, which a thread may hold that does not end with the program.
static OPEN: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

impl ProcessDir {
    /// Removes the folders that are still held, when the process is about to end.
    pub fn remove_all() {
        for folder in std::mem::take(&mut *OPEN.lock()) {
            remove(&folder);
        }
    }

    /// Makes a folder in `parent`, which has to exist, under a name that begins with `prefix`, and
    /// removes those of processes that were killed.
    ///
    /// # Errors
    ///
    /// The system's, where the folder or its lock cannot be had.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<Self> {
        let parent = parent.canonicalize()?;
        // A random name, which other users cannot guess, in a folder for this user alone. No other
        // process sees the folder before it is locked, or takes it for left over.
        let hidden_prefix = format!(".{prefix}");
        let mut folder = tempfile::Builder::new();
        folder.prefix(&hidden_prefix).rand_bytes(RANDOM);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            folder.permissions(fs::Permissions::from_mode(0o700));
        }
        let hidden = folder.tempdir_in(&parent)?;
        remove_left_over(&parent, prefix, hidden.path());
        let lock = File::create_new(hidden.path().join(LOCK))?;
        lock.lock()?;
        let name = hidden.path().file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_prefix('.')) else {
            return Err(io::Error::other("the name of a folder was not kept"));
        };
        let path = parent.join(name);
        fs::rename(hidden.path(), &path)?;
        let _ = hidden.keep();
        OPEN.lock().push(path.clone());
        Ok(Self { path, process: std::process::id(), _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ProcessDir {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        let mut open = OPEN.lock();
        let place = open.iter().position(|folder| *folder == self.path);
        let is_open = place.map(|place| open.swap_remove(place)).is_some();
        drop(open);
        if is_open {
            remove(&self.path);
        }
    }
}

fn remove(folder: &Path) {
    if let Err(e) = fs::remove_dir_all(folder) {
        log::warn!("{} could not be removed: {e}", folder.display());
    }
}

/// Removes the folders of processes that were killed: those of the user of the folder `own`.
fn remove_left_over(parent: &Path, prefix: &str, own: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        let path = entry.path();
        // Of others, whatever lies under such a name is left alone: a link, or a pipe for a lock.
        if !is_ours || !is_folder_of_user(&path, own) || !is_file(&path.join(LOCK)) {
            continue;
        }
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            remove(&path);
        }
    }
}

/// Whether `path` is a folder, not a link to one, whose owner is that of `own`.
fn is_folder_of_user(path: &Path, own: &Path) -> bool {
    let (Ok(found), Ok(own)) = (fs::symlink_metadata(path), fs::symlink_metadata(own)) else {
        return false;
    };
    #[cfg(unix)]
    let has_owner = {
        use std::os::unix::fs::MetadataExt;
        found.uid() == own.uid()
    };
    #[cfg(not(unix))]
    let has_owner = own.is_dir();
    found.is_dir() && has_owner
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "simjoin-test-";

    #[test]
    fn a_folder_goes_with_its_process_and_a_killed_one_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let first = ProcessDir::create(parent.path(), PREFIX).unwrap();
        // As after a kill: a folder with a lock that no process holds.
        let killed = parent.path().join(format!("{PREFIX}killed"));
        // One of another prefix, and a folder without a lock, are not of this kind.
        let others = ["simjoin-other-killed", "simjoin-test-without"];
        let others = others.map(|name| parent.path().join(name));
        for folder in [&killed, &others[0], &others[1]] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("rows"), "x").unwrap();
        }
        for folder in [&killed, &others[0]] {
            fs::write(folder.join(LOCK), "").unwrap();
        }
        let second = ProcessDir::create(parent.path(), PREFIX).unwrap();
        assert!(first.path().is_dir() && second.path().is_dir() && !killed.exists());
        fs::write(first.path().join("rows"), "x").unwrap();
        drop((first, second));
        let left: Vec<_> = fs::read_dir(parent.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(others.iter().all(|folder| folder.join("rows").exists()));
    }

    /// In a folder that other users write to, a process touches none of their files, and keeps its
    /// own from their eyes.
    #[cfg(unix)]
    #[test]
    fn a_folder_that_another_user_has_planted_is_left_alone() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let parent = tempfile::tempdir().unwrap();
        let victim = parent.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("file"), "kept").unwrap();
        // The name that an earlier version took, with a lock that is a link.
        let planted = parent.path().join(format!(".{PREFIX}{}", std::process::id()));
        fs::create_dir(&planted).unwrap();
        symlink(victim.join("file"), planted.join(LOCK)).unwrap();
        // A link to a folder, a lock that is a link, and one that is a pipe.
        fs::write(victim.join(LOCK), "").unwrap();
        symlink(&victim, parent.path().join(format!("{PREFIX}link"))).unwrap();
        let linked = parent.path().join(format!("{PREFIX}linked"));
        fs::create_dir(&linked).unwrap();
        symlink(victim.join("file"), linked.join(LOCK)).unwrap();
        let piped = parent.path().join(format!("{PREFIX}piped"));
        fs::create_dir(&piped).unwrap();
        let made = std::process::Command::new("mkfifo").arg(piped.join(LOCK)).status();
        assert!(made.unwrap().success());
        let folder = ProcessDir::create(parent.path(), PREFIX).unwrap();
        let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(planted.is_dir() && linked.is_dir() && piped.is_dir());
        assert_eq!(fs::read_to_string(victim.join("file")).unwrap(), "kept");
        // Two at once, as in two containers whose processes have one number.
        let other = ProcessDir::create(parent.path(), PREFIX).unwrap();
        assert_ne!(folder.path(), other.path());
    }

    #[test]
    fn a_folder_in_a_place_that_is_none_is_an_error() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        for place in [file.join("sub"), file, parent.path().join("missing")] {
            assert!(ProcessDir::create(&place, PREFIX).is_err(), "{}", place.display());
        }
    }
}
