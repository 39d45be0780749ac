//! The answer of a build without the feature `ballista` to the sub-commands of clusters.

use simjoin_session::cluster::MISSING;
use simjoin_session::errors::SessionError;

use super::cluster_args::Process;

pub(super) fn run(_process: Process) -> std::result::Result<(), SessionError> {
    Err(SessionError::Usage(MISSING.to_string()))
}
