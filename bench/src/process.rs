//! The real server, as its own process on a folder of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub struct Server {
    child: Child,
    pub address: String,
    pub key: String,
    pub started_in: Duration,
}

impl Server {
    pub fn start(redrive: &Path, data: &Path) -> Result<Self> {
        let began = Instant::now();
        let mut child = Command::new(redrive)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
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
            .args(["keys", "create", "--role", "admin", "--json", "--data"])
            .arg(data)
            .output()
            .context("no key")?;
        let key: serde_json::Value = serde_json::from_slice(&key.stdout).context("no key")?;
        let key = key["key"].as_str().context("no key")?.to_owned();
        Ok(Self { child, address, key, started_in })
    }

    /// Resident memory in MiB.
    pub fn memory_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().split(' ').next().and_then(|kib| kib.parse::<f64>().ok()));
        kib.map_or(f64::NAN, |kib| kib / 1024.0)
    }

    pub fn stop(mut self) -> Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
