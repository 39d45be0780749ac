//! Runs scripts: the texts of `-c`, files and standard input.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use super::commands;
use super::exec::{Next, Shell};
use super::input::{Cutter, Item, LONGEST_STATEMENT};
use super::lines::Lines;
use simjoin_files as files;
use simjoin_session::errors;
use simjoin_session::errors::SessionError;

/// Runs the statements of a file.
pub(super) async fn run_file(shell: &mut Shell, path: &Path) -> Result<(), SessionError> {
    let file = files::path_of_os(path)?;
    let open = move || {
        let file = File::open(file)?;
        match file.metadata()?.is_dir() {
            true => Err(io::Error::other("it is a folder, not a file")),
            false => Ok(BufReader::new(file)),
        }
    };
    let lines = Lines::read(open).map_err(SessionError::Io)?;
    run(shell, lines, Some(path)).await
}

/// Runs the statements of standard input.
pub(super) async fn run_stdin(shell: &mut Shell) -> Result<(), SessionError> {
    let lines = Lines::read(|| Ok(io::stdin().lock())).map_err(SessionError::Io)?;
    run(shell, lines, None).await
}

/// Runs the statements of a text.
pub(super) async fn run_text(shell: &mut Shell, text: &str) -> Result<(), SessionError> {
    run(shell, Lines::of_text(text), None).await
}

/// Runs statements and commands one by one, as they are read. Prints errors; the first one ends
/// the script unless the shell keeps going.
async fn run(shell: &mut Shell, mut lines: Lines, path: Option<&Path>) -> Result<(), SessionError> {
    let mut cutter = Cutter::default();
    loop {
        let line = shell.guard(lines.next()).await?.map_err(|e| match path {
            Some(path) => SessionError::Usage(format!("{}: {e}", path.display())),
            None => SessionError::Usage(format!("standard input: {e}")),
        })?;
        let ended = line.is_none();
        let items = match line {
            Some(line) => cutter.push(&line, shell.dialect().as_ref()),
            None => cutter.finish().into_iter().collect(),
        };
        if cutter.has_too_much() {
            let place = path.map(|path| format!("{}:", path.display())).unwrap_or_default();
            return Err(SessionError::Usage(format!(
                "{place}{}: a statement begins here that is longer than {} MiB; read long lists \
                 from a file, as in FROM 'name.csv'",
                cutter.line(),
                LONGEST_STATEMENT >> 20
            )));
        }
        for item in items {
            if run_item(shell, &item, path).await? == Next::Quit {
                return Ok(());
            }
        }
        if ended {
            return Ok(());
        }
    }
}

async fn run_item(
    shell: &mut Shell,
    item: &Item,
    path: Option<&Path>,
) -> Result<Next, SessionError> {
    let (result, text, line) = match item {
        Item::Statement { text, line } => (shell.run_sql(text, *line).await, text, line),
        Item::Command { text, line } => (Box::pin(commands::run(shell, text)).await, text, line),
    };
    match result {
        Err(error @ (SessionError::Sql(_) | SessionError::Usage(_) | SessionError::Io(_))) => {
            let place = path.map(|path| format!("{}:{line}", path.display()));
            errors::print(&error, place.as_deref(), text);
            shell.has_failed = true;
            match shell.keep_going {
                true => Ok(Next::Continue),
                false => Err(SessionError::Reported),
            }
        }
        result => result,
    }
}
