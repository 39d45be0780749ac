//! The secret that the processes of a cluster and its clients share.
//!
//! A client that reaches the port of a scheduler could run statements as the account of the executors, and
//! one that reaches that of an executor could run tasks and read rows. So every request carries the
//! secret, and every server compares it before it reads anything else ([`Guard`]).
//!
//! Ballista lets a program change the endpoint of each connection that it opens, to schedulers,
//! executors and the rows of executors alike; what an endpoint adds to each request is its user
//! agent. So the secret travels there. It can be read by whoever reads the connection: nothing is
//! encrypted.
//!
//! Without a file that names another, a scheduler that only this machine reaches makes a secret for
//! its account ([`Published`]), which executors and clients of that account find by the port.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballista_core::extension::EndpointOverrideFn;
use datafusion::common::{Result, config_datafusion_err, config_err};
use subtle::ConstantTimeEq;
use tonic::service::Interceptor;
use tonic::transport::Endpoint;
use tonic::{Request, Status};

use super::address::SchedulerAddress;

/// The processes that a scheduler or an executor serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Clients that give the secret.
    Secret(Secret),
    /// Processes of the account that started the scheduler, on its machine: they find a secret that
    /// the scheduler makes.
    Account,
    /// All that reach the port.
    Open,
}

impl Access {
    /// Refuses an address that other machines reach without a secret that they could have.
    pub(super) fn check(&self, bind_host: IpAddr) -> Result<()> {
        match self {
            Self::Account if !bind_host.is_loopback() => config_err!(
                "--bind-host {bind_host} is reached by other machines, and who reaches the port \
                 reads and writes the files of this account: {ADVICE}"
            ),
            _ => Ok(()),
        }
    }

    /// Changes connections to the scheduler so that they carry the secret.
    pub(super) fn endpoints(&self, scheduler: &SchedulerAddress) -> Option<EndpointOverrideFn> {
        match self {
            Self::Secret(secret) => Some(secret.endpoints()),
            Self::Account => Some(account_endpoints(scheduler.clone())),
            Self::Open => None,
        }
    }
}

/// A text that servers ask for and clients give.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// Characters of a secret.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=1024;

impl Secret {
    /// The secret that a file holds, without blanks and line ends around it.
    ///
    /// # Errors
    ///
    /// A configuration error for a file that cannot be read, or whose text is too short, too long
    /// or not of visible ASCII characters.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|e| {
            config_datafusion_err!("the secret of --secret-file {}: {e}", path.display())
        })?;
        let secret = text.trim();
        let is_visible = secret.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_visible || !LENGTHS.contains(&secret.len()) {
            return config_err!(
                "the secret of --secret-file {} has to be {} to {} visible ASCII characters without \
                 blanks; make one with: head -c 32 /dev/urandom | base64 > FILE",
                path.display(),
                LENGTHS.start(),
                LENGTHS.end()
            );
        }
        Ok(Self(secret.into()))
    }

    /// A new secret that nobody can guess.
    ///
    /// # Errors
    ///
    /// A configuration error where the system has no random numbers.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|e| config_datafusion_err!("the system gives no random numbers: {e}"))?;
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(digits.concat().into()))
    }

    /// The secret of this account for the scheduler at `address`; none where another machine may be
    /// asked, or where no scheduler of the account has left one.
    pub fn of_account(address: &SchedulerAddress) -> Option<Self> {
        if !address.is_loopback() {
            return None;
        }
        let folders = account_folders();
        folders.iter().find_map(|folder| read_own(&folder.join(file_name(address.port()))))
    }

    /// Changes endpoints so that their requests carry the secret.
    pub fn endpoints(&self) -> EndpointOverrideFn {
        let secret = self.clone();
        Arc::new(move |endpoint| secret.on(endpoint))
    }

    fn on(
        &self,
        endpoint: Endpoint,
    ) -> std::result::Result<Endpoint, Box<dyn std::error::Error + Send + Sync>> {
        Ok(endpoint.user_agent(format!("{AGENT}{}", self.0))?)
    }

    fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

/// Changes endpoints to carry the secret that the account has for the scheduler at that time: it is
/// another one after each start of the scheduler.
fn account_endpoints(address: SchedulerAddress) -> EndpointOverrideFn {
    Arc::new(move |endpoint| match Secret::of_account(&address) {
        Some(secret) => secret.on(endpoint),
        None => Ok(endpoint),
    })
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Stands before the secret in the user agent of a request.
const AGENT: &str = "simjoin-secret/";

/// The error of a request without the right secret.
pub(super) const REFUSED: &str = "the secret is missing or wrong; clients and executors of the \
                                  account that started the scheduler find it by themselves, others \
                                  need the --secret-file of the scheduler";

/// Refuses requests without the secret, before they are read.
#[derive(Debug, Clone)]
pub(super) struct Guard(pub Option<Secret>);

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> std::result::Result<Request<()>, Status> {
        let Some(secret) = &self.0 else { return Ok(request) };
        let agent = request.metadata().get("user-agent").map(|agent| agent.as_bytes());
        let given = agent
            .and_then(|agent| agent.strip_prefix(AGENT.as_bytes()))
            .map(|rest| rest.split(|byte| *byte == b' ').next().unwrap_or_default());
        match given.is_some_and(|given| secret.is(given)) {
            true => Ok(request),
            false => Err(Status::unauthenticated(REFUSED)),
        }
    }
}

/// A file with the secret of a scheduler that runs, for other processes of its account.
#[derive(Debug)]
pub(super) struct Published {
    path: PathBuf,
    secret: Secret,
}

impl Published {
    /// Writes the secret of the scheduler at `port` where its account alone can read it.
    ///
    /// # Errors
    ///
    /// A configuration error when the account has no folder for it.
    pub(super) fn new(secret: Secret, port: u16) -> Result<Self> {
        let Some(folder) = account_folders().into_iter().next() else {
            return config_err!("no folder for the secret of this account was found: {ADVICE}");
        };
        let path = folder.join(file_name(port));
        match write_own(&folder, &path, &secret) {
            Ok(()) => Ok(Self { path, secret }),
            Err(e) => config_err!(
                "the secret of this scheduler cannot be written to {}: {e}: {ADVICE}",
                path.display()
            ),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

const ADVICE: &str = "give one with --secret-file FILE to the scheduler, its executors and clients, \
                      or --no-secret to serve whoever reaches the port";

impl Drop for Published {
    fn drop(&mut self) {
        // The next scheduler at the port may have written its own already.
        if read_own(&self.path).as_ref() == Some(&self.secret) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_name(port: u16) -> String {
    format!("scheduler-{port}.secret")
}

/// The folders in which processes of this account leave secrets, the first one for new ones: the
/// account's folder of this run of the system, and that for the state of programs.
fn account_folders() -> Vec<PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let run = variable("XDG_RUNTIME_DIR").or_else(own_run_folder).filter(|run| run.is_dir());
    let state = variable("XDG_STATE_HOME")
        .or_else(|| std::env::home_dir().map(|home| home.join(".local/state")));
    run.into_iter().chain(state).map(|folder| folder.join("simjoin")).collect()
}

/// The usual folder of a run of the system, for processes that are not told of it.
#[cfg(unix)]
fn own_run_folder() -> Option<PathBuf> {
    Some(PathBuf::from(format!("/run/user/{}", user_id())))
}

#[cfg(not(unix))]
fn own_run_folder() -> Option<PathBuf> {
    None
}

#[cfg(unix)]
fn user_id() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// The secret in a file of this account that no other can read; none for other files.
#[cfg(unix)]
fn read_own(path: &Path) -> Option<Secret> {
    use std::os::unix::fs::MetadataExt;
    let file = File::open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.uid() != user_id() || found.mode() & 0o077 != 0 {
        return None;
    }
    let mut text = String::new();
    file.take(*LENGTHS.end() as u64).read_to_string(&mut text).ok()?;
    (!text.is_empty()).then(|| Secret(text.into()))
}

#[cfg(unix)]
fn write_own(folder: &Path, path: &Path, secret: &Secret) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != user_id() || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("the folder is not of this account, or others write to it"));
    }
    // A file of its own until it is whole. One that a killed process has left is replaced.
    let own = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&own);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&own)?;
    file.write_all(secret.0.as_bytes())?;
    fs::rename(&own, path)
}

#[cfg(not(unix))]
fn read_own(_: &Path) -> Option<Secret> {
    None
}

#[cfg(not(unix))]
fn write_own(_: &Path, _: &Path, _: &Secret) -> io::Result<()> {
    Err(io::Error::other("files of one account alone are not known on this system"))
}

/// Whether others than the owner may read a file.
pub fn is_readable_by_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).is_ok_and(|found| found.mode() & 0o077 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(agent: &str) -> Request<()> {
        let mut request = Request::new(());
        request.metadata_mut().insert("user-agent", agent.parse().unwrap());
        request
    }

    #[test]
    fn a_guard_lets_the_secret_pass_alone() {
        let secret = Secret("0123456789abcdef".into());
        let mut guard = Guard(Some(secret));
        assert!(guard.call(request("simjoin-secret/0123456789abcdef tonic/0.14.9")).is_ok());
        assert!(guard.call(request("simjoin-secret/0123456789abcdef")).is_ok());
        for wrong in [
            "tonic/0.14.9",
            "simjoin-secret/ tonic/0.14.9",
            "simjoin-secret/0123456789abcde tonic/0.14.9",
            "simjoin-secret/0123456789abcdef0 tonic/0.14.9",
            "simjoin-secret/0123456789abcdeg",
            "x simjoin-secret/0123456789abcdef",
        ] {
            let refused = guard.call(request(wrong)).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{wrong}");
        }
        assert!(guard.call(Request::new(())).is_err());
        assert!(Guard(None).call(Request::new(())).is_ok());
    }

    #[test]
    fn an_address_of_the_network_needs_a_secret_or_a_word() {
        let secret = Access::Secret(Secret::random().unwrap());
        let network = IpAddr::from([0, 0, 0, 0]);
        let error = Access::Account.check(network).unwrap_err().to_string();
        for part in ["--bind-host 0.0.0.0", "--secret-file FILE", "--no-secret"] {
            assert!(error.contains(part), "{error}");
        }
        Access::Account.check(IpAddr::from([127, 0, 0, 1])).unwrap();
        secret.check(network).unwrap();
        Access::Open.check(network).unwrap();
    }

    #[test]
    fn secrets_are_random_and_never_shown() {
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.0.len(), 64);
        assert!(!format!("{one:?}").contains(&*one.0));
    }

    #[test]
    fn a_file_of_a_secret_is_read_or_told_to_be_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, " 0123456789abcdef\n").unwrap();
        assert_eq!(&*Secret::read(&path).unwrap().0, "0123456789abcdef");
        for wrong in ["", "short", "with blanks in the middle", "umläute-umläute-umläute"] {
            fs::write(&path, wrong).unwrap();
            let error = Secret::read(&path).unwrap_err().to_string();
            assert!(error.contains("visible ASCII") && error.contains("secret"), "{error}");
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
        let error = Secret::read(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("--secret-file"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_published_secret_is_for_the_account_alone_and_goes_with_the_scheduler() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let (folder, secret) = (folder.path().join("simjoin"), Secret::random().unwrap());
        let path = folder.join(file_name(1));
        write_own(&folder, &path, &secret).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_own(&path).unwrap(), secret);
        // A file that others can read is no secret.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read_own(&path), None);
        assert!(is_readable_by_others(&path));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        // The next scheduler at the port replaces it; the end of the first leaves that alone.
        let next = Secret::random().unwrap();
        write_own(&folder, &path, &next).unwrap();
        drop(Published { path: path.clone(), secret });
        assert_eq!(read_own(&path).unwrap(), next);
        drop(Published { path: path.clone(), secret: next });
        assert!(!path.exists());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(write_own(&folder, &path, &Secret::random().unwrap()).is_err());
    }
}
