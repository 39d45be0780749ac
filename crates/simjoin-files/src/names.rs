//! The files that a name in a statement stands for.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;

/// The characters of which one makes a name a pattern.
const PATTERN: [char; 3] = ['?', '*', '['];

tokio::task_local! {
    /// The names that a statement has in single quotes.
    static QUOTED: HashSet<String>;
}

/// Plans a statement that has these names in single quotes, which make a name that could be a table's one of
/// a folder.
pub async fn with_quoted<T>(names: HashSet<String>, plan: impl Future<Output = T>) -> T {
    QUOTED.scope(names, plan).await
}

/// Whether a name that is no table may be that of a file or folder: an identifier is not, so that no table
/// depends on what lies in the folder of the program.
pub(super) fn may_be_file(name: &str) -> bool {
    let is_path = name.contains(['.', '/', '\\', '~', ':']) || name.contains(PATTERN);
    is_path || QUOTED.try_with(|names| names.contains(name)).unwrap_or(false)
}

/// The path that a name means: `~` and `~/x` are in the home directory, other names stand as they
/// are.
pub fn path(name: &str) -> Result<PathBuf> {
    let rest = match name.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => return Ok(PathBuf::from(name)),
    };
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let home = home.ok_or_else(|| {
        plan_datafusion_err!("the home directory of '{name}' is not known; write its whole path")
    })?;
    Ok(home.join(rest))
}

/// [`path`] for a name of the command line, which need not be text.
pub fn path_of_os(name: &Path) -> Result<PathBuf> {
    match name.to_str() {
        Some(name) => path(name),
        None => Ok(name.to_path_buf()),
    }
}

/// The location of a name that is read, as DataFusion's tables have it. A file of that very name
/// goes before the pattern that its characters would make.
pub(crate) fn to_read(name: &str) -> Result<String> {
    let Some(local) = local(name)? else { return Ok(name.to_string()) };
    let path = path(local)?;
    if local.contains(PATTERN) && !path.exists() {
        return text(&path);
    }
    location(&path, local.ends_with('/'))
}

/// The location of a name that is written: never a pattern.
pub fn to_write(name: &str) -> Result<String> {
    match local(name)? {
        Some(local) => location(&path(local)?, local.ends_with('/')),
        None => Ok(name.to_string()),
    }
}

/// The name without its scheme; None for a URL of a local file, which stands for itself.
fn local(name: &str) -> Result<Option<&str>> {
    match name.split_once("://") {
        None => Ok(Some(name)),
        Some(("file", _)) => Ok(None),
        Some((scheme, _))
            if !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric()) =>
        {
            plan_err!(
                "simjoin reads and writes local files, and {name} is no path of one; copy it to \
                 this machine, and give its path without {scheme}://"
            )
        }
        Some(_) => Ok(Some(name)),
    }
}

/// Whether there is a file, folder or link at the location, or at the folder of its pattern.
pub(super) fn exists(url: &ListingTableUrl) -> bool {
    let root = if cfg!(windows) { "" } else { "/" };
    Path::new(&format!("{root}{}", url.prefix())).symlink_metadata().is_ok()
}

/// The location of a path. Names with characters that mean something in patterns or URLs are
/// written as a URL, in which these are escaped.
fn location(path: &Path, is_folder: bool) -> Result<String> {
    let name = text(path)?;
    if !name.contains(PATTERN) && !name.contains(':') {
        return Ok(name);
    }
    let absolute =
        text(&std::path::absolute(path).map_err(|e| plan_datafusion_err!("{name}: {e}"))?)?;
    let slash = if is_folder || path.is_dir() { "/" } else { "" };
    Ok(format!("file://{}{slash}", url_path(absolute.trim_end_matches('/'))))
}

/// The path part of the URL of an absolute path.
pub(super) fn url_path(path: &str) -> String {
    let mut url = String::new();
    if !path.starts_with('/') {
        url.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => url.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => url.push(char::from(byte)),
            b'\\' if cfg!(windows) => url.push('/'),
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

fn text(path: &Path) -> Result<String> {
    path.to_str()
        .map(str::to_string)
        .ok_or_else(|| plan_datafusion_err!("the path {} is no text in UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_is_the_home_directory() {
        let home = std::env::home_dir().unwrap();
        assert_eq!(path("~").unwrap(), home.join(""));
        assert_eq!(path("~/a/b.csv").unwrap(), home.join("a/b.csv"));
        for name in ["~a/b.csv", "a/~/b", "./~"] {
            assert_eq!(path(name).unwrap(), Path::new(name));
        }
    }

    #[test]
    fn locations_are_of_the_very_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a[1].csv", "a?.csv", "a*b.csv", "t:1.csv", "50% #1.csv", "ü[x].csv"] {
            let path = folder.path().join(name);
            let location = to_write(path.to_str().unwrap()).unwrap();
            let url = ListingTableUrl::parse(&location).unwrap();
            assert!(url.get_glob().is_none(), "{location}");
            assert_eq!(format!("/{}", url.prefix()), path.display().to_string());
        }
        // A pattern, until there is such a file.
        let path = folder.path().join("b[1].csv");
        let name = path.to_str().unwrap();
        assert!(ListingTableUrl::parse(to_read(name).unwrap()).unwrap().get_glob().is_some());
        std::fs::write(&path, "x\n").unwrap();
        assert!(ListingTableUrl::parse(to_read(name).unwrap()).unwrap().get_glob().is_none());
    }

    #[test]
    fn other_schemes_are_refused_with_advice() {
        for name in ["s3://bucket/x.parquet", "http://host/x.csv"] {
            for error in [to_read(name).unwrap_err(), to_write(name).unwrap_err()] {
                let error = error.strip_backtrace();
                assert!(error.contains("local files") && error.contains(name), "{error}");
            }
        }
        assert_eq!(to_read("file:///a/b.csv").unwrap(), "file:///a/b.csv");
    }
}
