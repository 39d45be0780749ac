//! The line editor of the prompt and its history, on a thread of its own: while it waits for a key,
//! the shell hears signals.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Weak, mpsc};

use datafusion::execution::SessionState;
use parking_lot::RwLock;
use rustyline::error::{ReadlineError, Signal};
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::helper::PromptHelper;
use simjoin_session::errors::{SessionError, tell};

/// The outcome of reading a line.
#[derive(Debug)]
pub(super) enum ReadLine {
    Typed(String),
    /// Ctrl-C: the shell forgets the statement typed so far.
    Cancelled,
    /// Ctrl-D on an empty line.
    End,
}

enum Request {
    Read(&'static str),
    Remember(String),
}

/// The editor, as the shell sees it.
pub(super) struct Editor {
    requests: mpsc::Sender<Request>,
    lines: UnboundedReceiver<Result<ReadLine, SessionError>>,
    /// Dropped last: the thread may still be reading then.
    _terminal: Terminal,
}

impl Editor {
    /// Starts an editor that completes by the names of the session.
    pub(super) fn start(session: Weak<RwLock<SessionState>>, color: bool) -> io::Result<Self> {
        let terminal = Terminal::remember();
        let (requests, asked) = mpsc::channel();
        let (sender, lines) = unbounded_channel();
        let helper = PromptHelper::new(session, color);
        std::thread::Builder::new().name("prompt".to_string()).spawn(move || {
            // Sending fails where the shell has ended; the error then has no reader.
            if let Err(error) = serve(helper, &asked, &sender) {
                let _ = sender.send(Err(from_editor(error)));
            }
        })?;
        Ok(Self { requests, lines, _terminal: terminal })
    }

    pub(super) async fn read(&mut self, prompt: &'static str) -> Result<ReadLine, SessionError> {
        // An editor that has ended has sent its error before, and gives no more lines.
        let _ = self.requests.send(Request::Read(prompt));
        self.lines.recv().await.unwrap_or(Ok(ReadLine::End))
    }

    /// Puts an entry into the history, and into its file at once.
    pub(super) fn remember(&self, entry: String) {
        let _ = self.requests.send(Request::Remember(entry));
    }
}

fn serve(
    helper: PromptHelper,
    asked: &mpsc::Receiver<Request>,
    lines: &UnboundedSender<Result<ReadLine, SessionError>>,
) -> rustyline::Result<()> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(HISTORY_SIZE)?
        .history_ignore_dups(true)?
        .build();
    let mut editor: rustyline::Editor<PromptHelper, DefaultHistory> =
        rustyline::Editor::with_config(config)?;
    editor.set_helper(Some(helper));
    let mut history = history_file();
    if let Some(path) = &history {
        // There is none at the first start.
        let _ = editor.load_history(path);
    }
    while let Ok(request) = asked.recv() {
        match request {
            Request::Read(prompt) => {
                if lines.send(Ok(read(&mut editor, prompt)?)).is_err() {
                    return Ok(());
                }
            }
            Request::Remember(entry) => {
                // A history that cannot grow is no reason to stop.
                let _ = editor.add_history_entry(entry);
                if let Some(path) = &history
                    && let Err(error) = editor.append_history(path)
                {
                    let path = path.display();
                    tell(&format!("Error: the history cannot be kept in {path}: {error}"));
                    history = None;
                }
            }
        }
    }
    Ok(())
}

fn read(
    editor: &mut rustyline::Editor<PromptHelper, DefaultHistory>,
    prompt: &str,
) -> rustyline::Result<ReadLine> {
    loop {
        return match editor.readline(prompt) {
            Ok(text) => Ok(ReadLine::Typed(text)),
            Err(ReadlineError::Interrupted | ReadlineError::Signal(Signal::Interrupt)) => {
                Ok(ReadLine::Cancelled)
            }
            Err(ReadlineError::Eof) => Ok(ReadLine::End),
            Err(ReadlineError::Signal(_)) => continue,
            Err(error) => Err(error),
        };
    }
}

const HISTORY_SIZE: usize = 5000;

fn history_file() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".simjoin_history"))
}

fn from_editor(error: ReadlineError) -> SessionError {
    match error {
        ReadlineError::Io(error) => SessionError::Io(error),
        error => SessionError::Usage(format!("prompt: {error}")),
    }
}

/// The terminal's mode before the editor took it: a signal that ends the program finds it in the
/// middle of a line.
#[cfg(unix)]
struct Terminal(Option<libc::termios>);

#[cfg(unix)]
impl Terminal {
    fn remember() -> Self {
        Self(Self::mode())
    }

    fn mode() -> Option<libc::termios> {
        let mut mode = std::mem::MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: the call fills in the mode, for which there is room.
        unsafe {
            (libc::tcgetattr(libc::STDIN_FILENO, mode.as_mut_ptr()) == 0)
                .then(|| mode.assume_init())
        }
    }
}

#[cfg(unix)]
impl Drop for Terminal {
    fn drop(&mut self) {
        let by_lines = |mode: &libc::termios| mode.c_lflag & libc::ICANON != 0;
        let (Some(before), Some(now)) = (&self.0, Self::mode()) else { return };
        if by_lines(before) == by_lines(&now) {
            return;
        }
        // SAFETY: the mode is one that the terminal had.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, before) };
        // Ends the line, and bracketed paste, which the editor has switched on.
        let _ = writeln!(io::stdout(), "\x1b[?2004l");
    }
}

#[cfg(not(unix))]
struct Terminal;

#[cfg(not(unix))]
impl Terminal {
    fn remember() -> Self {
        Self
    }
}
