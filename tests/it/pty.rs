//! A terminal to type at.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::cli::simjoin;

/// Statements take longer where many tests run at once.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The binary at a prompt.
pub struct Prompt {
    child: Child,
    terminal: File,
    /// Text that was printed and not yet expected.
    printed: String,
}

impl Prompt {
    /// Starts it in `folder`, which is its home as well, and waits for the prompt.
    pub fn start(folder: &Path) -> Self {
        Self::start_in(folder, 120)
    }

    /// The same in a terminal of so many columns.
    pub fn start_in(folder: &Path, columns: u16) -> Self {
        let (terminal, slave) = open(columns);
        let mut command = simjoin(folder);
        let stdio = || slave.try_clone().expect("a descriptor");
        command.args(["-q"]).env("HOME", folder).env("TERM", "xterm");
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        own_terminal(&mut command);
        let child = command.spawn().expect("the binary starts");
        drop(slave);
        let mut prompt = Self { child, terminal, printed: String::new() };
        prompt.expect("> ");
        prompt
    }

    pub fn send(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Types a line.
    pub fn enter(&mut self, line: &str) {
        self.send(&format!("{line}\r"));
    }

    /// Waits until the text is printed, and gives what was printed before it.
    pub fn expect(&mut self, text: &str) -> String {
        let started = Instant::now();
        loop {
            if let Some(at) = self.printed.find(text) {
                let rest = self.printed.split_off(at + text.len());
                return std::mem::replace(&mut self.printed, rest);
            }
            assert!(started.elapsed() < PATIENCE, "no {text:?} in {:?}", self.printed);
            if !self.read() {
                panic!("the program has ended without {text:?}: {:?}", self.printed);
            }
        }
    }

    /// Reads what there is; false at the end.
    fn read(&mut self) -> bool {
        let mut ready =
            libc::pollfd { fd: self.terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, which is open.
        if unsafe { libc::poll(&mut ready, 1, 50) } <= 0 {
            return true;
        }
        let mut bytes = [0; 4096];
        match self.terminal.read(&mut bytes) {
            Ok(0) | Err(_) => false,
            Ok(len) => {
                self.printed.push_str(&String::from_utf8_lossy(&bytes[..len]));
                true
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        kill(&self.child, signal);
    }

    /// Whether the terminal gives whole lines, as it does outside an editor.
    pub fn gives_lines(&self) -> bool {
        // SAFETY: the call fills the structure in; zeroes are a valid value.
        unsafe {
            let mut mode: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.terminal.as_raw_fd(), &mut mode), 0);
            mode.c_lflag & libc::ICANON != 0
        }
    }

    /// The exit status.
    pub fn wait(&mut self) -> Option<i32> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            self.read();
        }
        panic!("the program goes on: {:?}", self.printed);
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two ends of a new terminal.
fn open(columns: u16) -> (File, OwnedFd) {
    let (mut master, mut slave) = (-1, -1);
    let mut size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let name = std::ptr::null_mut();
    let mode = std::ptr::null_mut();
    // SAFETY: the call sets both descriptors, of which the test is the only owner.
    unsafe {
        let rc = libc::openpty(&mut master, &mut slave, name, mode, &raw mut size);
        assert_eq!(rc, 0, "a terminal");
        (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

/// Makes standard input the terminal that the program's Ctrl-C comes from.
fn own_terminal(command: &mut Command) {
    default_signals(command);
    // SAFETY: both calls may be made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY as _, 0);
            Ok(())
        });
    }
}

/// Undoes what the tests' own parent may have switched off.
pub fn default_signals(command: &mut Command) {
    // SAFETY: the call may be made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}

pub fn kill(child: &Child, signal: i32) {
    let id = i32::try_from(child.id()).expect("a process id");
    // SAFETY: the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(id, signal) }, 0);
}

/// The exit status, once the child ends by itself; fails where a signal has ended it.
pub fn status_of(child: &mut Child) -> i32 {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("a child") {
            assert_eq!(status.signal(), None);
            return status.code().expect("a status");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    panic!("the program goes on");
}
