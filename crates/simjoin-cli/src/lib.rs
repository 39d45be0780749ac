//! The `simjoin` command line: DataFusion's SQL with the similarity join, by the flags and
//! commands of datafusion-cli.
//!
//! [`args`] reads the command line, [`session`] builds the session from it. Statements come from
//! the [`prompt`], or as a [`script`] from `-c`, from files and from standard input: its [`lines`]
//! are cut into statements ([`input`]). A [`Shell`] runs them one by one on the [`threads`] of the
//! statements; lines with a backslash are [`commands`]. Results stream through [`output`], tables
//! through [`table`](simjoin_session::table), fitted to the terminal and without characters that it
//! would obey ([`escape`](simjoin_session::escape)); [`progress`] tells what a long statement does;
//! Ctrl-C goes through [`interrupt`]; [`errors`] turns an error into one line and a hint.
//!
//! The sub-commands of [`verb_args`] do a whole job over files ([`verbs`]).
//!
//! With `--scheduler`, statements run on a cluster; the sub-commands `scheduler` and `executor`
//! start its processes, `cluster` shows what it does ([`cluster`]).
//!
//! Results go to standard output, errors and progress to standard error. The exit status is 0 only
//! when every statement succeeded, 1 when one failed, 2 for a wrong command line and 130 after
//! Ctrl-C, 143 after SIGTERM, 129 after SIGHUP. A reader that closes the pipe, such as `head`, ends
//! the program quietly. However it ends, no temporary file stays; the next
//! start removes those of a process that was killed ([`spill_folders`](simjoin_session::spill_folders)).

// The prose of a module leads its reader to the private parts as well.
#![allow(rustdoc::private_intra_doc_links)]
#![warn(missing_docs, unreachable_pub)]

pub mod args;
mod arrow_stream;
#[cfg(feature = "ballista")]
mod cluster;
#[cfg(not(feature = "ballista"))]
#[path = "cluster_disabled.rs"]
mod cluster;
#[cfg(feature = "ballista")]
mod cluster_access;
mod cluster_args;
#[cfg(feature = "ballista")]
mod cluster_control;
mod commands;
mod editor;
mod exec;
mod function_page;
mod helper;
mod input;
mod interrupt;
mod lines;
#[cfg(feature = "ballista")]
mod log;
mod output;
mod pair_functions;
mod progress;
mod prompt;
mod rows;
mod script;
mod verb_args;
mod verb_files;
mod verb_words;
mod verbs;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use tokio::runtime::Handle;

use args::{Args, Task};
use exec::Shell;
use interrupt::Interrupt;
use output::Stdout;
use verb_args::VerbCommand;

use simjoin_files as files;
use simjoin_files::storage::ProcessDir;
use simjoin_session::errors::{self, SessionError};
use simjoin_session::limits::Limits;
use simjoin_session::{session, threads, warnings};

/// Runs the command line `args`, whose first word is the program's name, and gives the exit status.
/// `spare_memory` is called before anything else where statements have a memory limit: the caller
/// owns the allocator, which keeps freed memory beside that limit. `has_stdout` is whether standard
/// output was open when the process began.
pub fn run<A: Into<OsString> + Clone>(
    args: impl IntoIterator<Item = A>,
    spare_memory: fn(),
    has_stdout: bool,
) -> u8 {
    let mut args = Args::read(args);
    if !has_stdout {
        Stdout::is_missing();
    }
    files::quiet_panics();
    let verb = match args.task.take() {
        Some(Task::Process(process)) => {
            return match cluster::run(process) {
                Ok(()) => 0,
                Err(error) => report(&error),
            };
        }
        Some(Task::Verb(verb)) => Some(verb),
        None => None,
    };
    let limit = match &verb {
        Some(verb) => verb.run_args().memory_limit,
        None => args.session.memory_limit,
    };
    if limit.is_some() {
        spare_memory();
    }
    let ended = match verb {
        Some(verb) => run_verb(verb),
        None => run_session(args),
    };
    // A thread in a long call of a function keeps the session, and with it its folders.
    ProcessDir::remove_all();
    match ended {
        Ok(()) => 0,
        Err(error) => report(&error),
    }
}

/// Runs the statements that the arguments ask for.
fn run_session(args: Args) -> Result<(), SessionError> {
    let stdin_is_terminal = io::stdin().is_terminal();
    let interactive = args.command.is_empty() && args.file.is_empty() && stdin_is_terminal;
    let interrupt = Interrupt::listen(interactive).map_err(SessionError::Io)?;
    threads::run_shell(move |statements| run_args(args, interactive, statements, interrupt))
}

/// Runs a verb.
fn run_verb(verb: VerbCommand) -> Result<(), SessionError> {
    let interrupt = Interrupt::listen(false).map_err(SessionError::Io)?;
    threads::run_shell(move |statements| async move {
        let run = verb.run_args();
        let session = run.session();
        let ctx = session::build(&session, None)?;
        let limits = Limits::new(&session, &ctx);
        let mut shell = Shell::new(ctx, run.print_options(), statements, interrupt, limits);
        if let Some(limit) = run.memory_limit {
            // Results are sorted: DataFusion sets ten megabytes aside for each partition.
            let bytes = (limit / 64).clamp(64 << 10, 10 << 20);
            let options = "datafusion.execution.sort_spill_reservation_bytes";
            let state = shell.ctx.state_ref();
            state.write().config_mut().options_mut().set(options, &bytes.to_string())?;
        }
        verbs::run(&mut shell, &verb).await
    })
}

/// Prints the error unless the user knows it already, and gives the exit status.
fn report(error: &SessionError) -> u8 {
    match error {
        SessionError::ClosedPipe => 0,
        SessionError::Stopped(signal) => signal.status(),
        // The statement has printed it.
        SessionError::Reported => 1,
        error => {
            errors::print(error, None, "");
            1
        }
    }
}

async fn run_args(
    args: Args,
    interactive: bool,
    statements: Handle,
    interrupt: Interrupt,
) -> Result<(), SessionError> {
    if let Some(path) = &args.data_path {
        let path = &files::path_of_os(path)?;
        std::env::set_current_dir(path)
            .map_err(|e| SessionError::Usage(format!("data path {}: {e}", path.display())))?;
    }
    let ctx = session::build(&args.session, stdin_of(&args))?;
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for warning in warnings::of_environment(variables) {
        errors::tell(&format!("Warning: {warning}"));
    }
    let limits = Limits::new(&args.session, &ctx);
    let mut shell = Shell::new(ctx, args.print_options(), statements, interrupt, limits);
    shell.keep_going = args.keep_going;

    if interactive {
        let rc = if args.rc.is_empty() { default_rc_file() } else { args.rc };
        for path in rc {
            script::run_file(&mut shell, &path).await?;
        }
        return prompt::run(&mut shell, args.color).await;
    }
    for path in args.rc.iter().chain(&args.file) {
        script::run_file(&mut shell, path).await?;
    }
    for command in &args.command {
        script::run_text(&mut shell, command).await?;
    }
    if args.command.is_empty() && args.file.is_empty() {
        script::run_stdin(&mut shell).await?;
    }
    match shell.has_failed {
        true => Err(SessionError::Reported),
        false => Ok(()),
    }
}

fn default_rc_file() -> Vec<PathBuf> {
    let path = std::env::home_dir().map(|home| home.join(".simjoinrc"));
    path.into_iter().filter(|path| path.is_file()).collect()
}

/// Why statements may not read standard input, where it holds them.
fn stdin_of(args: &Args) -> Option<&'static str> {
    let holds_statements = args.command.is_empty() && args.file.is_empty()
        || args.file.iter().chain(&args.rc).any(|file| files::is_stdin(file));
    holds_statements.then_some("it has the statements; give these with -c or -f")
}
