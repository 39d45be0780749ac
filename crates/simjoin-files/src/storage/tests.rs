use std::fs;

use datafusion::object_store::ObjectStoreExt;
use datafusion::object_store::path::Path as Location;
use futures::TryStreamExt;
use tempfile::TempDir;

use super::*;

/// A folder that may be touched, with a file, and a file beside it.
struct Folders {
    all: TempDir,
    store: Arc<dyn ObjectStore>,
}

impl Folders {
    fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        fs::create_dir(all.path().join("in")).unwrap();
        fs::write(all.path().join("in/file"), "inside").unwrap();
        fs::write(all.path().join("secret"), "outside").unwrap();
        let folders = DataDirs::new(&[all.path().join("in")]).unwrap().unwrap();
        let local = ObjectStoreUrl::local_filesystem();
        let store = folders.registry().get_store(local.as_ref()).unwrap();
        Self { all, store }
    }

    fn at(&self, name: &str) -> Location {
        let path = self.all.path().canonicalize().unwrap().join(name);
        Location::from(path.to_str().unwrap())
    }

    async fn read(&self, name: &str) -> std::result::Result<String, String> {
        let read = self.store.get(&self.at(name)).await;
        let read = read.map_err(|e| outside(&e).expect("the refused file").to_string())?;
        Ok(String::from_utf8(read.bytes().await.unwrap().to_vec()).unwrap())
    }

    async fn write(&self, name: &str) -> std::result::Result<(), String> {
        let refused = |e| outside(&e).expect("the refused file").to_string();
        self.store.put(&self.at(name), "x".into()).await.map_err(refused)?;
        let mut upload = self.store.put_multipart(&self.at(name)).await.map_err(refused)?;
        upload.put_part("xy".into()).await.unwrap();
        upload.complete().await.unwrap();
        Ok(())
    }

    async fn listed(&self, name: &str) -> std::result::Result<usize, String> {
        let listed = self.store.list(Some(&self.at(name))).try_collect::<Vec<_>>().await;
        listed.map(|l| l.len()).map_err(|e| outside(&e).expect("the refused file").to_string())
    }
}

#[tokio::test]
async fn files_in_a_folder_are_read_and_written() {
    let folders = Folders::new();
    assert_eq!(folders.read("in/file").await.unwrap(), "inside");
    folders.write("in/new/deep/file").await.unwrap();
    assert_eq!(folders.read("in/new/deep/file").await.unwrap(), "xy");
    assert_eq!(folders.listed("in").await.unwrap(), 2);
    let ranges = folders.store.get_ranges(&folders.at("in/file"), &[0..2, 4..6]).await.unwrap();
    assert_eq!(ranges, ["in", "de"]);
    folders.store.rename(&folders.at("in/file"), &folders.at("in/other")).await.unwrap();
    folders.store.delete(&folders.at("in/other")).await.unwrap();
    assert_eq!(folders.listed("in").await.unwrap(), 1);
    // A file that is not there is no matter of folders.
    let missing = folders.store.get(&folders.at("in/file")).await.unwrap_err();
    assert!(outside(&missing).is_none(), "{missing}");
}

#[tokio::test]
async fn files_beside_a_folder_are_refused_by_name() {
    let folders = Folders::new();
    let error = folders.read("secret").await.unwrap_err();
    for part in ["/secret is not in a folder", "--data-dir ", "/in)"] {
        assert!(error.contains(part), "{error}");
    }
    // A name that the folder's is the beginning of.
    folders.read("inside").await.unwrap_err();
    folders.write("new").await.unwrap_err();
    folders.write("new/file").await.unwrap_err();
    folders.listed("").await.unwrap_err();
    assert!(folders.store.list(None).try_collect::<Vec<_>>().await.is_err());
    assert!(folders.store.list_with_delimiter(None).await.is_err());
    let (inside, secret) = (folders.at("in/file"), folders.at("secret"));
    assert!(folders.store.copy(&secret, &folders.at("in/copy")).await.is_err());
    assert!(folders.store.copy(&inside, &folders.at("copy")).await.is_err());
    assert!(folders.store.rename(&secret, &folders.at("in/copy")).await.is_err());
    assert!(folders.store.rename(&inside, &folders.at("copy")).await.is_err());
    assert!(folders.store.delete(&secret).await.is_err());
    let left: Vec<_> = fs::read_dir(folders.all.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(fs::read_dir(folders.all.path().join("in")).unwrap().count(), 1);
}

#[tokio::test]
async fn dots_are_followed() {
    let folders = Folders::new();
    let path = folders.all.path().canonicalize().unwrap();
    let dirs = DataDirs::new(&[path.join("in/../in")]).unwrap().unwrap();
    for (name, is_inside) in [
        ("in/../in/file", true),
        ("in/../secret", false),
        ("in/nothing/../../secret", false),
        ("in/./file", true),
    ] {
        assert_eq!(dirs.check_read(&path.join(name)).is_ok(), is_inside, "{name}");
        assert_eq!(dirs.check_write(&path.join(name)).is_ok(), is_inside, "{name}");
    }
    // A location that no SQL gives, but a plan from elsewhere may.
    for dots in ["in/%2E%2E/secret", "in/../secret"] {
        let encoded = Location::from(format!("{}/{dots}", path.display()));
        assert!(folders.store.get(&encoded).await.is_err(), "{dots}");
        if let Ok(parsed) = Location::parse(format!("{}/{dots}", path.display())) {
            assert!(folders.store.get(&parsed).await.is_err(), "{dots}");
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn links_that_lead_out_of_a_folder_are_refused() {
    use std::os::unix::fs::symlink;
    let folders = Folders::new();
    let path = folders.all.path().canonicalize().unwrap();
    fs::create_dir(path.join("beside")).unwrap();
    fs::write(path.join("beside/file"), "outside").unwrap();
    fs::create_dir(path.join("in/folder")).unwrap();
    symlink(path.join("in/file"), path.join("in/folder/link")).unwrap();
    // A link within the folder, and one into it.
    assert_eq!(folders.read("in/folder/link").await.unwrap(), "inside");
    symlink(path.join("in"), path.join("into")).unwrap();
    assert_eq!(folders.read("into/file").await.unwrap(), "inside");
    symlink(path.join("secret"), path.join("in/folder/out")).unwrap();
    folders.read("in/folder/out").await.unwrap_err();
    folders.listed("in").await.unwrap_err();
    // The new file takes the place of the link, and what it led to stays.
    folders.write("in/folder/out").await.unwrap();
    assert_eq!(fs::read_to_string(path.join("secret")).unwrap(), "outside");
    symlink(path.join("beside"), path.join("in/folder/out_folder")).unwrap();
    folders.read("in/folder/out_folder/file").await.unwrap_err();
    folders.listed("in/folder/out_folder").await.unwrap_err();
    folders.write("in/folder/out_folder/file").await.unwrap_err();
    folders.write("in/folder/out_folder/new/file").await.unwrap_err();
    symlink(path.join("nowhere"), path.join("in/folder/dangling")).unwrap();
    folders.write("in/folder/dangling/file").await.unwrap_err();
    assert!(!path.join("nowhere").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn an_open_file_is_checked_by_what_it_is() {
    let folders = Folders::new();
    let path = folders.all.path().canonicalize().unwrap();
    let dirs = DataDirs::new(&[path.join("in")]).unwrap().unwrap();
    let inside = fs::File::open(path.join("in/file")).unwrap();
    let secret = fs::File::open(path.join("secret")).unwrap();
    // As if a link had been exchanged after its path was checked.
    assert!(store::check_open(&dirs, &inside, &path.join("in/file")).is_ok());
    assert!(store::check_open(&dirs, &secret, &path.join("in/file")).is_err());
}

#[test]
fn a_folder_that_is_none_is_an_error_with_its_name() {
    let folders = Folders::new();
    assert_eq!(DataDirs::new::<&str>(&[]).unwrap(), None);
    for name in ["in/file", "nothing"] {
        let error = DataDirs::new(&[folders.all.path().join(name)]).unwrap_err().to_string();
        assert!(error.contains("--data-dir ") && error.contains(name), "{error}");
    }
}
