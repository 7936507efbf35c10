//! The process under torture: started, killed as a power cut would, stopped and let go on.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::Kept;
use crate::place::Place;

const START_TRIES: u32 = 50;

pub(crate) struct Server {
    binary: PathBuf,
    folder: PathBuf,
    kept: Kept,
    listen: Mutex<String>,
    child: Mutex<Option<Child>>,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    pub(crate) fn new(binary: &Path, place: &Place, kept: Kept) -> Result<Self> {
        let binary = binary.canonicalize().with_context(|| binary.display().to_string())?;
        let (listen, child) = (Mutex::new("127.0.0.1:0".to_owned()), Mutex::new(None));
        Ok(Self { binary, folder: place.path().to_owned(), kept, listen, child })
    }

    pub(crate) fn address(&self) -> String {
        held(&self.listen).clone()
    }

    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// For the first time: gives the key of its admin.
    pub(crate) fn start(&self) -> Result<String> {
        let greeting = self.launch()?;
        let key = greeting.split_whitespace().find(|word| word.starts_with("rdk_"));
        key.map(str::to_owned).context("it gave no key")
    }

    /// Up again at the same address, whatever became of the last one.
    pub(crate) fn restart(&self) -> Result<()> {
        self.kill();
        for _ in 0..START_TRIES {
            if self.launch().is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        bail!("it does not start any more")
    }

    fn launch(&self) -> Result<String> {
        let mut command = Command::new(&self.binary);
        command.current_dir(&self.folder).args(["serve", "--listen", &self.address()]);
        match &self.kept {
            Kept::Sqlite => command.args(["--data", "data"]),
            Kept::Postgres { url, .. } => command.args(["--database-url", url]),
        };
        let mut child =
            command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("no output")?);
        let mut greeting = String::new();
        loop {
            let before = greeting.len();
            if stdout.read_line(&mut greeting)? == 0 {
                child.wait()?;
                bail!("it ended: {greeting}");
            }
            if let Some(url) = greeting[before..].trim_end().strip_prefix("listening on http://") {
                *held(&self.listen) = url.to_owned();
                break;
            }
        }
        *held(&self.child) = Some(child);
        Ok(greeting)
    }

    /// Nothing is asked first.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = held(&self.child).take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = held(&self.child).as_ref().and_then(|child| Pid::from_raw(child.id().cast_signed()));
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
