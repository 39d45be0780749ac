//! The program under test as a command.

use std::process::Command;

/// The `simjoin` binary in the root of the repository, without the options that the environment of the tests
/// sets.
pub fn simjoin() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simjoin"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("SIMJOIN_") || name.starts_with("DATAFUSION_") {
            command.env_remove(name.as_ref());
        }
    }
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    with_ctrl_c(&mut command);
    command
}

/// Lets Ctrl-C end the program. A shell that starts the tests in the background switches Ctrl-C off,
/// and the program would inherit that.
fn with_ctrl_c(command: &mut Command) {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        // SAFETY: the call is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
    }
    #[cfg(not(unix))]
    let _ = command;
}
