//! Ctrl-C, SIGTERM and SIGHUP: what the program leaves behind, and with which status.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::cli::{run, simjoin};
use crate::pty::{PATIENCE, Prompt, default_signals, kill, status_of};

const SIGNALS: [(i32, i32); 3] = [(libc::SIGINT, 130), (libc::SIGHUP, 129), (libc::SIGTERM, 143)];

/// A join from disk that takes minutes.
const LONG_JOIN: &str = "SET simjoin.spill = 'always';
    SELECT max(a.id), min(b.id) FROM
      (SELECT value AS id, [value % 1000, value % 1013, value % 2003] AS t
       FROM generate_series(1, 3000000)) a
      SIMJOIN (SELECT value + 0 AS id, [value % 1000, value % 1019, value % 2011] AS t
       FROM generate_series(1, 3000001)) b
      ON overlap(a.t, b.t) >= 1 AND a.id <> b.id + 1;\n";

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

/// Starts the binary with a temporary folder of its own, `tmp` in `folder`.
fn start(folder: &TempDir, arguments: &[&str]) -> Child {
    let tmp = folder.path().join("tmp");
    fs::create_dir_all(&tmp).expect("a folder");
    let mut command = simjoin(folder.path());
    command.args(["-q"]).args(arguments).env("TMPDIR", &tmp);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    default_signals(&mut command);
    command.spawn().expect("the binary starts")
}

#[track_caller]
fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_there() {
        assert!(started.elapsed() < PATIENCE, "no {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn is_file_of(bytes: u64) -> impl Fn(&PathBuf) -> bool {
    move |path| fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() >= bytes)
}

#[test]
fn a_signal_removes_what_a_join_has_on_disk() {
    for (index, (signal, status)) in SIGNALS.into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let tmp = folder.path().join("tmp");
        fs::write(folder.path().join("long.sql"), LONG_JOIN).expect("a file");
        let arguments = [&["-c", LONG_JOIN][..], &["-f", "long.sql"], &[]][index];
        let mut child = start(&folder, arguments);
        if arguments.is_empty() {
            child.stdin.as_mut().unwrap().write_all(LONG_JOIN.as_bytes()).expect("a pipe");
        }
        wait_for("spilled data", || files(&tmp).iter().filter(|f| is_file_of(1000)(f)).count() > 3);
        kill(&child, signal);
        assert_eq!(status_of(&mut child), status);
        assert_eq!(files(&tmp), Vec::<PathBuf>::new(), "signal {signal}");
        let mut told = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut told).expect("text");
        assert_eq!(told, "");
    }
}

#[test]
fn a_signal_removes_the_unfinished_files_of_a_copy() {
    for (signal, status) in SIGNALS {
        let folder = tempfile::tempdir().expect("a folder");
        let sql = match signal {
            libc::SIGINT => "COPY (SELECT value FROM range(0, 10000000000)) TO 'out.csv'",
            libc::SIGHUP => "COPY (SELECT value FROM range(0, 10000000000)) TO 'out.parquet'",
            _ => {
                "COPY (SELECT value, value % 2 AS part FROM range(0, 10000000000)) TO 'out/' \
                 STORED AS CSV PARTITIONED BY (part)"
            }
        };
        let mut child = start(&folder, &["-c", sql]);
        wait_for("output", || files(folder.path()).iter().any(is_file_of(1)));
        kill(&child, signal);
        assert_eq!(status_of(&mut child), status);
        let mut left = files(folder.path());
        left.retain(|path| path.is_file());
        assert_eq!(left, Vec::<PathBuf>::new(), "{sql}");
    }
}

/// SIGKILL leaves no time to remove anything. Another process that lives keeps its files.
#[test]
fn the_next_start_removes_what_a_killed_join_has_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let tmp = folder.path().join("tmp");
    let elsewhere = folder.path().join("elsewhere");
    // The folder of a process that has spilled into `place`, where `known` are those of others.
    let spilling = |place: &Path, known: &[PathBuf], sql: &str| {
        let child = start(&folder, &["-c", sql]);
        let own = || {
            let entries = fs::read_dir(place).into_iter().flatten().flatten();
            let mut new = entries.map(|entry| entry.path()).filter(|path| !known.contains(path));
            new.find(|path| files(path).iter().any(is_file_of(1000)))
        };
        wait_for("spilled data", || own().is_some());
        (child, own().unwrap())
    };
    let moved = format!("SET datafusion.runtime.temp_directory = '{}';", elsewhere.display());
    let limited = "SET datafusion.runtime.max_temp_directory_size = '50G';";
    let (mut living, kept) = spilling(&tmp, &[], LONG_JOIN);
    let (mut killed, gone) = spilling(&tmp, std::slice::from_ref(&kept), LONG_JOIN);
    let (mut other, gone_too) = spilling(&elsewhere, &[], &format!("{moved}{limited}{LONG_JOIN}"));
    for child in [&mut killed, &mut other] {
        child.kill().expect("a process");
        child.wait().expect("a process");
    }
    assert!(gone.is_dir() && gone_too.is_dir());
    assert!(run_in(&folder, "SELECT 1"));
    assert!(!gone.exists() && kept.is_dir());
    assert!(run_in(&folder, &moved));
    assert!(!gone_too.exists());
    kill(&living, libc::SIGTERM);
    assert_eq!(status_of(&mut living), 143);
    assert!(files(&tmp).is_empty() && files(&elsewhere).is_empty());
}

fn run_in(folder: &TempDir, sql: &str) -> bool {
    status_of(&mut start(folder, &["-c", sql])) == 0
}

/// The folder of temporary files outlives a statement, but not the program.
#[test]
fn a_signal_while_nothing_runs_leaves_no_folder() {
    for (signal, status) in SIGNALS {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = start(&folder, &["--format", "csv"]);
        let spilled = "SET simjoin.spill = 'always';
            SELECT count(*) FROM (SELECT [value] t FROM range(0, 1000)) a
            SIMJOIN (SELECT [value + 0] t FROM range(0, 1000)) b ON jaccard(a.t, b.t) >= 0.5;\n";
        child.stdin.as_mut().unwrap().write_all(spilled.as_bytes()).expect("a pipe");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.nth(1).unwrap().unwrap(), "1000");
        let started = Instant::now();
        kill(&child, signal);
        assert_eq!(status_of(&mut child), status);
        assert!(started.elapsed().as_secs() < 4, "{:?}", started.elapsed());
        assert_eq!(files(&folder.path().join("tmp")), Vec::<PathBuf>::new());
    }
}

/// A call of a function that does not end in time keeps its thread, and with it the session.
#[test]
fn a_signal_within_a_long_call_leaves_no_folder() {
    let sql = "SELECT levenshtein(repeat('ab', 20000000), repeat('abc', 20000000))";
    for (signal, status) in SIGNALS {
        let folder = tempfile::tempdir().expect("a folder");
        let tmp = folder.path().join("tmp");
        let mut child = start(&folder, &["-c", sql]);
        let entries = || fs::read_dir(&tmp).expect("a folder").count();
        wait_for("the folder of the session", || entries() > 0);
        std::thread::sleep(std::time::Duration::from_millis(500));
        kill(&child, signal);
        assert_eq!(status_of(&mut child), status);
        assert_eq!(entries(), 0);
    }
}

#[test]
fn no_end_of_the_program_leaves_temporary_files() {
    let join = |condition: &str| {
        format!(
            "SET simjoin.spill = 'always';
             SELECT count({condition}) FROM (SELECT value, [value] t FROM range(0, 100000)) a
             SIMJOIN (SELECT [value + 0] t FROM range(0, 100000)) b ON jaccard(a.t, b.t) >= 0.5"
        )
    };
    for (sql, ok) in [(join("*"), true), (join("10 / (a.value - 99999)"), false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = start(&folder, &["-c", &sql]);
        assert_eq!(status_of(&mut child) == 0, ok, "{sql}");
        assert_eq!(files(&folder.path().join("tmp")), Vec::<PathBuf>::new(), "{sql}");
    }
}

/// As `nohup` wants it.
#[test]
fn a_signal_that_was_switched_off_stays_off() {
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = simjoin(folder.path());
    command.args(["-q", "--format", "csv"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    // SAFETY: the call may be made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        });
    }
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answer = |sql: &str| {
        writeln!(stdin, "{sql}").expect("a pipe");
        lines.nth(1).unwrap().unwrap()
    };
    assert_eq!(answer("SELECT 1;"), "1");
    kill(&child, libc::SIGHUP);
    assert_eq!(answer("SELECT 2;"), "2");
    drop(stdin);
    assert_eq!(status_of(&mut child), 0);
}

/// A pipe without a writer.
#[test]
fn a_signal_ends_the_wait_for_a_script() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = std::ffi::CString::new(folder.path().join("pipe").to_str().unwrap()).unwrap();
    // SAFETY: the name ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    fs::write(folder.path().join("one.sql"), "SELECT 1;\n").expect("a file");
    let mut child = start(&folder, &["-f", "one.sql", "pipe"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with('+'));
    kill(&child, libc::SIGTERM);
    assert_eq!(status_of(&mut child), 143);
}

#[test]
fn ctrl_c_cancels_the_statement_and_not_the_prompt() {
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..3 {
        let mut prompt = Prompt::start(folder.path());
        for wait in 0..3 {
            prompt.enter("SELECT count(*) FROM range(0, 1000000000000);");
            prompt.expect("\n");
            std::thread::sleep(std::time::Duration::from_millis(40 * wait));
            prompt.send("\x03");
            prompt.expect("Cancelled.");
            prompt.expect("> ");
        }
        prompt.enter("SELECT 41 + 1 AS n;");
        prompt.expect("| 42 |");
        prompt.expect("> ");
        prompt.send("\x04");
        assert_eq!(prompt.wait(), Some(0));
    }
}

#[test]
fn a_signal_at_the_prompt_gives_the_terminal_back() {
    let folder = tempfile::tempdir().expect("a folder");
    for (signal, status) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let mut prompt = Prompt::start(folder.path());
        prompt.send("SELEC");
        prompt.expect("SELEC");
        assert!(!prompt.gives_lines());
        prompt.signal(signal);
        assert_eq!(prompt.wait(), Some(status));
        assert!(prompt.gives_lines());
    }
}

#[test]
fn a_closed_standard_error_is_no_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = start(&folder, &["-c", "SELECT nosuch"]);
    drop(child.stderr.take());
    assert_eq!(status_of(&mut child), 1);
    assert!(run(folder.path(), &["-q", "-c", "SELECT 1"]).ok);
}
