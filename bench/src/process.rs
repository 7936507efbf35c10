//! The real server, as its own process on a folder or a database of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Where its store is.
#[derive(Clone, Copy)]
pub enum StoreLocation<'a> {
    Folder(&'a Path),
    Database(&'a str),
}

impl StoreLocation<'_> {
    pub fn flags(self) -> [OsString; 2] {
        match self {
            Self::Folder(folder) => ["--data".into(), folder.into()],
            Self::Database(url) => ["--database-url".into(), url.into()],
        }
    }
}

pub struct Server {
    child: Child,
    pub address: String,
    pub key: String,
    pub started_in: Duration,
}

impl Server {
    pub fn start(redrive: &Path, at: StoreLocation<'_>) -> Result<Self> {
        let began = Instant::now();
        let mut child = Command::new(redrive)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(at.flags())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{} can't be started: build it with --release", redrive.display()))?;
        let out = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(out).lines();
        let address = loop {
            let Some(line) = lines.next() else { bail!("the server ended before it listened") };
            let line = line?;
            if let Some(at) = line.find("http://") {
                break line[at + 7..].trim().to_owned();
            }
        };
        let started_in = began.elapsed();
        // Keep reading, so that the server never waits for us.
        std::thread::Builder::new().spawn(move || lines.map_while(Result::ok).for_each(drop))?;
        let key = Command::new(redrive)
            .args(["keys", "create", "--role", "admin", "--json"])
            .args(at.flags())
            .output()
            .context("no key")?;
        let key: serde_json::Value = serde_json::from_slice(&key.stdout).context("no key")?;
        let key = key["key"].as_str().context("no key")?.to_owned();
        Ok(Self { child, address, key, started_in })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn memory_mib(&self) -> f64 {
        memory_mib(self.child.id())
    }

    pub fn stop(mut self) -> Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        self.child.wait()?;
        Ok(())
    }
}

/// Resident memory of a process in MiB.
pub fn memory_mib(process: u32) -> f64 {
    of_status(process, "VmRSS:")
}

/// The most that it ever was.
pub fn peak_memory_mib(process: u32) -> f64 {
    of_status(process, "VmHWM:")
}

fn of_status(process: u32, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.trim().split(' ').next()?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
