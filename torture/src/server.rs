//! The process under test: started, killed, frozen and continued.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::check::locked;
use crate::store::Store;

const START_TRIES: u32 = 50;

pub(crate) struct Server<'a> {
    binary: PathBuf,
    store: &'a Store,
    listen: Mutex<String>,
    child: Mutex<Option<Child>>,
}

impl<'a> Server<'a> {
    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    pub(crate) fn new(binary: &Path, store: &'a Store) -> Result<Self> {
        let binary = binary.canonicalize().with_context(|| binary.display().to_string())?;
        let (listen, child) = (Mutex::new("127.0.0.1:0".to_owned()), Mutex::new(None));
        Ok(Self { binary, store, listen, child })
    }

    pub(crate) fn address(&self) -> String {
        locked(&self.listen).clone()
    }

    /// For the first time: gives the key of its admin.
    pub(crate) fn start(&self) -> Result<String> {
        let greeting = self.launch(&self.store.flags())?;
        let key = greeting.split_whitespace().find(|word| word.starts_with("rdk_"));
        key.map(str::to_owned).context("it gave no key")
    }

    /// Up again at the same address, whatever became of the last one.
    pub(crate) fn restart(&self) -> Result<()> {
        self.restart_at(&self.store.flags_under_fault())
    }

    /// The same once all is over.
    pub(crate) fn restart_in_peace(&self) -> Result<()> {
        self.restart_at(&self.store.flags())
    }

    fn restart_at(&self, place: &[String; 2]) -> Result<()> {
        self.kill();
        for _ in 0..START_TRIES {
            if self.launch(place).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        bail!("it does not start any more")
    }

    fn launch(&self, place: &[String; 2]) -> Result<String> {
        let mut command = Command::new(&self.binary);
        command.current_dir(self.store.folder()).args(["serve", "--listen", &self.address()]).args(place);
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
                *locked(&self.listen) = url.to_owned();
                break;
            }
        }
        *locked(&self.child) = Some(child);
        Ok(greeting)
    }

    /// Nothing is asked first.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = locked(&self.child).take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = locked(&self.child).as_ref().and_then(|child| Pid::from_raw(child.id().cast_signed()));
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}
