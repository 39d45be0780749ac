//! The `simjoin` command line: DataFusion's SQL with the similarity join, by the flags and
//! commands of datafusion-cli.
//!
//! [`args`] reads the command line, [`session`] builds the session from it. Statements come from
//! `-c`, from files, from standard input ([`input`] cuts them) or from the [`prompt`]; a [`Shell`]
//! runs them one by one, lines with a backslash being [`commands`]. Results stream through
//! [`output`]; [`progress`] tells what a long statement does; Ctrl-C goes through [`interrupt`];
//! [`errors`] turns an error into one line and a hint.
//!
//! With `--scheduler`, statements run on a cluster; the sub-commands `scheduler` and `executor`
//! start its processes ([`cluster`]).
//!
//! Results go to standard output, errors and progress to standard error. The exit status is 0 only
//! when every statement succeeded, 1 when one failed, 2 for a wrong command line and 130 after
//! Ctrl-C. A reader that closes the pipe, such as `head`, ends the program quietly.

pub mod args;
#[cfg(feature = "ballista")]
mod cluster;
#[cfg(not(feature = "ballista"))]
#[path = "cluster_disabled.rs"]
mod cluster;
mod cluster_args;
mod commands;
mod errors;
mod exec;
mod input;
mod interrupt;
mod output;
mod progress;
mod prompt;
pub mod session;
mod table;

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use datafusion::common::DataFusionError;
use tokio::runtime::Handle;

use args::Args;
use errors::CliError;
use exec::Shell;
use input::{Item, StatementReader};

/// Runs the command line of this process. `spare_memory` is called before anything else where
/// statements have a memory limit: the allocator, which keeps what is freed beside that limit, is
/// the caller's.
pub fn run(spare_memory: fn()) -> ExitCode {
    // Prints help, version and mistakes itself, and exits.
    let mut args = Args::parse();
    if let Some(process) = args.process.take() {
        return match cluster::run(process) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report(&error),
        };
    }
    if args.memory_limit.is_some() {
        spare_memory();
    }
    // Statements have a runtime of their own. The shell's timers keep going when a statement keeps
    // all of its workers busy.
    let runtimes =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().and_then(|statements| {
            let shell = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok((statements, shell))
        });
    let (statements, shell) = match runtimes {
        Ok(runtimes) => runtimes,
        Err(error) => return report(&CliError::Io(error)),
    };
    let result = shell.block_on(run_args(args, statements.handle().clone()));
    // A cancelled statement may still be in the middle of a poll; nobody waits for it.
    statements.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Prints the error, where it is one to be told, and gives the exit status.
fn report(error: &CliError) -> ExitCode {
    match error {
        CliError::ClosedPipe => ExitCode::SUCCESS,
        CliError::Interrupted => ExitCode::from(130),
        // Told already, where it happened.
        CliError::Reported => ExitCode::FAILURE,
        error => {
            errors::print(error, None, "");
            ExitCode::FAILURE
        }
    }
}

async fn run_args(args: Args, statements: Handle) -> Result<(), CliError> {
    if let Some(path) = &args.data_path {
        std::env::set_current_dir(path)
            .map_err(|e| CliError::Usage(format!("data path {}: {e}", path.display())))?;
    }
    let stdin_is_terminal = io::stdin().is_terminal();
    let interactive = args.command.is_empty() && args.file.is_empty() && stdin_is_terminal;
    let ctx = session::build(&args)?;
    let mut shell = Shell::new(ctx, args.print_options(), statements, interactive)?;

    if interactive {
        let rc = if args.rc.is_empty() { default_rc_file() } else { args.rc };
        for path in rc {
            run_file(&mut shell, &path).await?;
        }
        return prompt::run(&mut shell, args.color).await;
    }
    for path in &args.rc {
        run_file(&mut shell, path).await?;
    }
    for path in &args.file {
        run_file(&mut shell, path).await?;
    }
    for command in &args.command {
        let script = StatementReader::whole(command);
        run_script(&mut shell, script, None).await?;
    }
    if args.command.is_empty() && args.file.is_empty() {
        let script = StatementReader::new(io::stdin().lock());
        run_script(&mut shell, script, None).await?;
    }
    Ok(())
}

fn default_rc_file() -> Vec<PathBuf> {
    let path = std::env::home_dir().map(|home| home.join(".simjoinrc"));
    path.into_iter().filter(|path| path.is_file()).collect()
}

/// Runs the statements of a file, up to the first that fails.
async fn run_file(shell: &mut Shell, path: &Path) -> Result<(), CliError> {
    let file = File::open(path).map_err(|e| CliError::Usage(format!("{}: {e}", path.display())))?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(CliError::Usage(format!("{}: it is a folder, not a file", path.display())));
    }
    run_script(shell, StatementReader::new(BufReader::new(file)), Some(path)).await
}

/// Runs the statements and commands of a script, up to the first that fails, which is reported.
async fn run_script<R: BufRead>(
    shell: &mut Shell,
    mut script: StatementReader<R>,
    path: Option<&Path>,
) -> Result<(), CliError> {
    loop {
        let item = script.next().map_err(|e| match path {
            Some(path) => CliError::Usage(format!("{}: {e}", path.display())),
            None => CliError::Usage(format!("standard input: {e}")),
        })?;
        let (result, text, line) = match item {
            None => return Ok(()),
            Some(Item::Statements { text, line }) => (shell.run_sql(&text, line).await, text, line),
            Some(Item::Command { text, line }) => {
                (Box::pin(commands::run(shell, &text)).await, text, line)
            }
        };
        match result {
            Ok(commands::Next::Continue) => {}
            Ok(commands::Next::Quit) => return Ok(()),
            Err(error @ (CliError::Sql(_) | CliError::Usage(_) | CliError::Io(_))) => {
                let place = path.map(|path| format!("{}:{line}", path.display()));
                errors::print(&error, place.as_deref(), &text);
                return Err(CliError::Reported);
            }
            Err(error) => return Err(error),
        }
    }
}

impl From<DataFusionError> for CliError {
    fn from(error: DataFusionError) -> Self {
        Self::Sql(error)
    }
}
