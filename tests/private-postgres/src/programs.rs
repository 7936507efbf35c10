//! Where PostgreSQL's programs are, and as whom they run: the server refuses to be root.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Debian keeps every version's programs apart, and none of the server's on the path.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Who runs the server when we are root; the Debian package makes it.
const SERVER_USER: &str = "postgres";

/// The folder of the newest version's programs.
fn folder() -> Result<PathBuf, String> {
    let found = fs::read_dir(VERSIONS).into_iter().flatten().flatten().filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let programs = entry.path().join("bin");
        programs.join("initdb").is_file().then_some((version, programs))
    });
    if let Some((_, programs)) = found.max() {
        return Ok(programs);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file());
    on_path.ok_or_else(|| format!("no PostgreSQL in {VERSIONS} nor on the path: apt-get install postgresql"))
}

/// One of the programs, as whoever we are: those that speak to a server.
pub(crate) fn client(name: &str) -> Result<Command, String> {
    Ok(Command::new(folder()?.join(name)))
}

/// One of the programs that may not be root.
pub(crate) fn server(name: &str) -> Result<Command, String> {
    let program = folder()?.join(name);
    if !is_root()? {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("runuser");
    command.args(["-u", SERVER_USER, "--"]).arg(program);
    Ok(command)
}

/// Gives a folder or a file to whoever runs the server.
pub(crate) fn hand_over(path: &Path) -> Result<(), String> {
    if !is_root()? {
        return Ok(());
    }
    let mut command = Command::new("chown");
    run(command.arg(SERVER_USER).arg(path)).map(drop)
}

fn is_root() -> Result<bool, String> {
    // The owner of our own entry in /proc is the user we act as.
    fs::metadata("/proc/self").map(|found| found.uid() == 0).map_err(|e| format!("/proc/self: {e}"))
}

/// Runs it to its end; what it said when that was not a good one.
pub(crate) fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}: {}", output.status, said.trim()))
}
