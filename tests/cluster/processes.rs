//! Starting and ending the processes of a cluster.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use simjoin_ballista::client;
use tempfile::TempDir;

use crate::program::simjoin;

/// How long a process may take to do what it was started for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is killed when it is no longer needed.
pub struct Process {
    child: Child,
    /// The first line that the process printed.
    pub first_line: String,
    stderr: Arc<Mutex<String>>,
}

impl Process {
    /// Starts `simjoin` with `args` and waits for its first line.
    pub fn start(args: &[&str]) -> Self {
        Self::start_command(simjoin(), args)
    }

    /// Starts a command with `args` and waits for its first line.
    pub fn start_command(mut command: Command, args: &[&str]) -> Self {
        let mut child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = child.stdout.take().expect("a pipe");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let mut pipe = child.stderr.take().expect("a pipe");
        let stderr: Arc<Mutex<String>> = Arc::default();
        let heard = Arc::clone(&stderr);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..n]);
                heard.lock().expect("no panic").push_str(&text);
            }
        });
        let mut process = Self { child, first_line: String::new(), stderr };
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => process.first_line = line,
            Err(e) => panic!("{args:?} said nothing ({e}): {}", process.stderr()),
        }
        process
    }

    /// The text that the process has printed on standard error.
    pub fn stderr(&self) -> String {
        self.stderr.lock().expect("no panic").clone()
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it has said all of `parts` on standard error.
    pub fn wait_for(&self, parts: &[&str]) {
        let started = Instant::now();
        while !parts.iter().all(|part| self.stderr().contains(part)) {
            assert!(started.elapsed() < PATIENCE, "not told of {parts:?}: {}", self.stderr());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The ports of an executor for rows and for tasks.
    pub fn ports(&self) -> (u16, u16) {
        let ports = self.first_line.split_once(" at ports ").and_then(|(_, rest)| {
            let (rows, rest) = rest.split_once(" (rows) and ")?;
            Some((rows.parse().ok()?, rest.split_once(" (tasks)")?.0.parse().ok()?))
        });
        ports.unwrap_or_else(|| panic!("no ports in {:?}", self.first_line))
    }

    /// Asks it to end, and waits; whether it succeeded.
    pub fn terminate(&mut self) -> bool {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status().expect("kill is there");
        assert!(asked.success());
        self.child.wait().expect("it ends").success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A scheduler and its executors.
pub struct Cluster {
    pub scheduler: Process,
    pub executors: Vec<Process>,
    /// The address of the scheduler.
    pub address: String,
    /// Where executors keep their files.
    pub work_dir: TempDir,
}

impl Cluster {
    /// A scheduler that gives a lost executor up after five seconds, with as many executors.
    pub fn start(executors: usize) -> Self {
        let mut cluster = Self::start_with(&[]);
        for _ in 0..executors {
            cluster.add_executor(&[]);
        }
        cluster
    }

    /// Starts a scheduler with more arguments, without executors.
    pub fn start_with(args: &[&str]) -> Self {
        let mut all = vec!["scheduler", "--bind-port", "0", "--executor-timeout-seconds", "5"];
        all.extend(args);
        let scheduler = Process::start(&all);
        let address = scheduler
            .first_line
            .strip_prefix("Scheduler at ")
            .and_then(|rest| rest.split_once(". "))
            .unwrap_or_else(|| panic!("no address in {:?}", scheduler.first_line))
            .0
            .to_string();
        let work_dir = tempfile::tempdir().expect("a folder");
        Self { scheduler, executors: vec![], address, work_dir }
    }

    /// Starts an executor of two cores with more arguments; the scheduler knows it.
    pub fn add_executor(&mut self, args: &[&str]) {
        let work_dir = self.work_dir.path().to_str().expect("UTF-8").to_string();
        let mut all = vec!["executor", "--scheduler", &self.address, "--work-dir", &work_dir];
        if !args.contains(&"--cores") {
            all.extend(["--cores", "2"]);
        }
        all.extend(args);
        self.executors.push(Process::start(&all));
    }

    /// A session whose statements run here.
    pub fn context(&self) -> SessionContext {
        let builder = SessionStateBuilder::new_with_default_features();
        client::connect(&self.address, builder).expect("an address").enable_url_table()
    }

    /// Runs the program with `args` on this cluster.
    pub fn run(&self, args: &[&str]) -> Output {
        let mut command = simjoin();
        command.args(["--scheduler", &self.address]).args(args).stdin(Stdio::null());
        command.output().expect("the program runs")
    }

    /// The statements that executors have folders for.
    pub fn jobs(&self) -> usize {
        let executors = std::fs::read_dir(self.work_dir.path()).into_iter().flatten().flatten();
        let entries =
            executors.filter_map(|e| std::fs::read_dir(e.path()).ok()).flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with('0')).count()
    }

    /// The files that executors have at the moment.
    pub fn files(&self) -> Vec<String> {
        let mut files = vec![];
        collect(self.work_dir.path(), &mut files);
        files
    }
}

impl Drop for Cluster {
    /// Ends the scheduler as its user would: it removes the file of its secret.
    fn drop(&mut self) {
        if self.scheduler.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.scheduler.terminate();
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&entry.path(), files),
            _ => files.push(entry.path().display().to_string()),
        }
    }
}

/// The cluster of two executors that tests which break nothing share while any of them runs.
pub fn shared() -> Arc<Cluster> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    // A test that failed while it started the cluster leaves none.
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(Cluster::start(2));
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}
