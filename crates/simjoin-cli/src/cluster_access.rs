//! The processes of a cluster that may talk to each other, by the flags of the command line.

use std::path::Path;

use simjoin_ballista::{Access, Secret, is_readable_by_others};
use simjoin_session::errors::{self, SessionError};

/// The processes that a process serves, by its flags.
pub(super) fn access(
    secret_file: Option<&Path>,
    no_secret: bool,
) -> std::result::Result<Access, SessionError> {
    let Some(file) = secret_file else {
        return Ok(if no_secret { Access::Open } else { Access::Account });
    };
    if is_readable_by_others(file) {
        errors::tell(&format!(
            "Warning: other accounts can read the secret in {file}; chmod 600 {file} ends that",
            file = file.display()
        ));
    }
    Ok(Access::Secret(Secret::read(file)?))
}
