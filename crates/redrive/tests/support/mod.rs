//! The real binary in its own folder. Nothing here sleeps for a fixed time: it waits for conditions.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on should say where")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: usize = 600;
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn redrive() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("REDRIVE_") {
            command.env_remove(name);
        }
    }
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Looks until there is something to see; panics when patience runs out.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..PATIENCE {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    panic!("never seen: {what}");
}

/// A server over `folder`, not started yet.
pub(crate) fn serve(folder: &Path) -> Command {
    let mut command = redrive();
    command
        .current_dir(folder)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(place(folder))
        .env("REDRIVE_GRACE_MS", "5000")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// How commands find the store of `folder`: in it, or in a database of its own where the suite is about PostgreSQL.
pub(crate) fn place(folder: &Path) -> [String; 2] {
    match database(folder) {
        Some(url) => ["--database-url".into(), url],
        None => ["--data".into(), "data".into()],
    }
}

/// The database that belongs to a folder, made at the first call. It goes with the server that it is on.
pub(crate) fn database(folder: &Path) -> Option<String> {
    if !private_postgres::is_meant(module_path!()) {
        return None;
    }
    let noted = folder.join("database");
    if let Ok(url) = std::fs::read_to_string(&noted) {
        return Some(url);
    }
    let made = private_postgres::Database::fresh().unwrap_or_else(|said| panic!("{said}"));
    let url = made.url().to_owned();
    std::mem::forget(made);
    std::fs::write(noted, &url).unwrap();
    Some(url)
}

pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) url: String,
    /// The admin key, on the first start.
    pub(crate) key: Option<String>,
    /// All that it printed before it listened.
    pub(crate) greeting: String,
}

impl Server {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    pub(crate) fn start_with(folder: &Path, args: &[&str]) -> Self {
        let mut command = serve(folder);
        Self::of(command.args(args)).unwrap_or_else(|said| panic!("it ended early: {said}"))
    }

    /// What it said instead, when it ended before it listened.
    pub(crate) fn of(command: &mut Command) -> Result<Self, String> {
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut greeting = String::new();
        let url = loop {
            let before = greeting.len();
            if stdout.read_line(&mut greeting).unwrap() == 0 {
                child.wait().unwrap();
                return Err(greeting);
            }
            if let Some(url) = greeting[before..].trim_end().strip_prefix("listening on ") {
                break url.to_owned();
            }
        };
        let key = greeting.split_whitespace().find(|word| word.starts_with("rdk_")).map(str::to_owned);
        Ok(Self { child, stdout, url, key, greeting })
    }

    /// As the kernel or a power cut would: nothing is asked first.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A command against this server with this key.
    pub(crate) fn cli(&self, key: &str, args: &[&str]) -> Output {
        self.command(key, args).output().unwrap()
    }

    pub(crate) fn command(&self, key: &str, args: &[&str]) -> Command {
        let mut command = redrive();
        command.env("REDRIVE_URL", &self.url).env("REDRIVE_KEY", key).args(args);
        command
    }

    pub(crate) fn signal(&self, name: &str) {
        let killed = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    /// Waits for its end; what it still printed comes back too.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = wait_for("the end of the server", || self.child.try_wait().unwrap());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (status, rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A command that runs until it is stopped, and is stopped with the test.
pub(crate) struct Follower {
    child: Child,
    /// Its lines as they come.
    pub(crate) lines: mpsc::Receiver<String>,
}

impl Follower {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        // It ends with the command that it reads from.
        std::thread::Builder::new()
            .name("follower".into())
            .spawn(move || stdout.lines().map_while(Result::ok).all(|line| tell.send(line).is_ok()))
            .unwrap();
        Self { child, lines }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A key made directly on the store.
pub(crate) fn new_key(folder: &Path, args: &[&str]) -> Value {
    let mut command = redrive();
    command.current_dir(folder).args(["keys", "create", "--json"]).args(place(folder)).args(args);
    let made = command.output();
    json(&made.unwrap())
}

pub(crate) fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_str(&text(output)).unwrap()
}

/// What it complained of, with the code it ended with.
pub(crate) fn refusal(output: &Output) -> (Option<i32>, String) {
    assert!(!output.status.success(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr.clone()).unwrap())
}
