//! The prompt: statements over several lines, and commands, until the user leaves.

use std::io;

use super::commands;
use super::editor::{Editor, ReadLine};
use super::exec::{Next, Shell};
use super::input::{Cutter, Item};
use super::output::print_line;
use simjoin_session::errors;
use simjoin_session::errors::Signal;
use simjoin_session::errors::{SessionError, tell};

const PROMPT: &str = "> ";
/// While a statement goes on.
const CONTINUED: &str = "-> ";

/// Reads and runs statements and commands until the user leaves. Prints errors, and goes on.
pub(super) async fn run(shell: &mut Shell, color: bool) -> Result<(), SessionError> {
    if !shell.options.quiet {
        let version = env!("CARGO_PKG_VERSION");
        let datafusion = datafusion::DATAFUSION_VERSION;
        let banner =
            format!("simjoin {version}, DataFusion {datafusion}. \\? for help, \\q to quit.");
        print_line(io::stdout(), &banner)?;
    }
    let mut editor = Editor::start(shell.ctx.state_weak_ref(), color).map_err(SessionError::Io)?;
    let mut cutter = Cutter::default();
    // The lines of a statement, for the history.
    let mut lines = String::new();
    loop {
        let prompt = if cutter.has_begun() { CONTINUED } else { PROMPT };
        let text = match read(shell, &mut editor, prompt).await? {
            ReadLine::Typed(text) => text,
            ReadLine::Cancelled => {
                cutter.clear();
                lines.clear();
                continue;
            }
            ReadLine::End => return Ok(()),
        };
        if leaves(&text) {
            if !cutter.has_begun() {
                return Ok(());
            }
            tell("A statement goes on: a semicolon ends it, Ctrl-C drops it; \\q leaves.");
        }
        let items = cut(&mut cutter, &text, shell);
        remember(&mut editor, &mut lines, &text, cutter.has_begun());
        // A pasted text may have many statements. They run as if they had been typed one by one:
        // one that fails does not keep the others from running. Ctrl-C drops all.
        for item in items {
            match run_item(shell, &item).await? {
                Some(Next::Continue) => {}
                Some(Next::Quit) => return Ok(()),
                None => {
                    cutter.clear();
                    lines.clear();
                    break;
                }
            }
        }
    }
}

/// Reads a line. While it is edited, Ctrl-C is a key of the editor's. One that comes later, as fast
/// as it may be, is meant for the statement that the line runs.
async fn read(
    shell: &Shell,
    editor: &mut Editor,
    prompt: &'static str,
) -> Result<ReadLine, SessionError> {
    shell.interrupt.forget_ctrl_c();
    let line = shell.interrupt.guard_but_ctrl_c(editor.read(prompt)).await;
    line.map_err(SessionError::Stopped)?
}

fn leaves(text: &str) -> bool {
    let word = text.trim().trim_end_matches(';').trim_end();
    word.eq_ignore_ascii_case("exit") || word.eq_ignore_ascii_case("quit")
}

/// Text from the history, or pasted, may have several lines.
fn cut(cutter: &mut Cutter, text: &str, shell: &Shell) -> Vec<Item> {
    let dialect = shell.dialect();
    let lines = text.split('\n');
    lines.flat_map(|line| cutter.push(&format!("{line}\n"), dialect.as_ref())).collect()
}

/// A statement is one entry of the history, whatever its lines; a command inside it is another.
fn remember(editor: &mut Editor, lines: &mut String, text: &str, goes_on: bool) {
    let text = text.trim_end();
    if goes_on && text.starts_with('\\') {
        return editor.remember(text.to_string());
    }
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines.push_str(text);
    if !goes_on {
        let entry = std::mem::take(lines);
        if !entry.trim().is_empty() {
            editor.remember(entry.trim().to_string());
        }
    }
}

/// Runs a statement or a command; None when Ctrl-C has cancelled it.
async fn run_item(shell: &mut Shell, item: &Item) -> Result<Option<Next>, SessionError> {
    let (result, text) = match item {
        Item::Statement { text, .. } => (shell.run_sql(text, 1).await, text),
        Item::Command { text, .. } => (Box::pin(commands::run(shell, text)).await, text),
    };
    match result {
        Ok(next) => Ok(Some(next)),
        Err(SessionError::Reported) => Ok(Some(Next::Continue)),
        Err(SessionError::Stopped(Signal::Interrupt)) => {
            tell("Cancelled.");
            Ok(None)
        }
        Err(error @ (SessionError::ClosedPipe | SessionError::Stopped(_))) => Err(error),
        Err(error) => {
            errors::print(&error, None, text);
            Ok(Some(Next::Continue))
        }
    }
}
