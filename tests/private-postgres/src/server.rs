//! The server: created, started, stopped; and where PostgreSQL's programs are and as which user they run.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::{fs, io};

/// Ports that another process may take between our look and the server's.
const TRIES: usize = 5;
/// Commits reach the disk before they are answered, as anywhere else; what is measured or cut short is then real.
const SETTINGS: &[&str] = &[
    "fsync=on",
    "synchronous_commit=on",
    "listen_addresses=127.0.0.1",
    "max_connections=500",
    "shared_buffers=128MB",
    "max_wal_size=2GB",
    "timezone=UTC",
];

/// A running PostgreSQL. Gone with its owner: a shell waits for the end of a pipe that only the owner's process holds, so
/// that a test that is killed leaves nothing behind either.
pub struct Server {
    folder: PathBuf,
    port: u16,
    url: String,
    /// Ends when we do, and takes the server and its folder along.
    keeper: Child,
}

impl Server {
    /// In memory where there is such a place, otherwise where temporary files go.
    pub fn start() -> Result<Self, String> {
        let memory = Path::new("/dev/shm");
        let made = tempfile::Builder::new().prefix("redrive-postgres-").tempdir_in(memory);
        let folder = made.or_else(|_| tempfile::tempdir()).map_err(|e| e.to_string())?;
        Self::start_in(folder.keep())
    }

    /// In a folder that is there and empty; it goes with the server.
    pub fn start_in(folder: PathBuf) -> Result<Self, String> {
        hand_over(&folder)?;
        let mut made = server_program("initdb")?;
        made.arg("--pgdata").arg(folder.join("data"));
        // Only local users can reach it, and it holds only test data.
        made.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        run(made.current_dir(&folder))?;
        let keeper = keeper(&folder).map_err(|e| e.to_string())?;
        let mut server = Self { folder, port: 0, url: String::new(), keeper };
        let mut last = String::new();
        for _ in 0..TRIES {
            server.port = free_port().map_err(|e| e.to_string())?;
            match server.run() {
                Ok(()) => {
                    server.url = format!("postgres://postgres@127.0.0.1:{}/postgres", server.port);
                    return Ok(server);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Of its maintenance database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// On the same port as before, after [`Self::stop`].
    pub fn run(&self) -> Result<(), String> {
        let settings = SETTINGS.iter().map(|setting| format!("-c {setting} ")).collect::<String>();
        let socket = self.folder.display();
        let options = format!("{settings}-p {} -c unix_socket_directories={socket}", self.port);
        let mut start = control(&self.folder)?;
        start.args(["-w", "-t", "60", "-o", &options, "-l"]).arg(self.folder.join("log")).arg("start");
        // The server outlives pg_ctl and would hold its pipes open.
        start.stdout(Stdio::null()).stderr(Stdio::null());
        let status = start.status().map_err(|e| e.to_string())?;
        if status.success() {
            return Ok(());
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        Err(format!("PostgreSQL did not start: {status}\n{log}"))
    }

    /// From now on who asks for it is encrypted, with this certificate and its key.
    pub fn encrypt(&self, cert: &Path, key: &Path) -> Result<(), String> {
        for (from, to) in [(cert, "server.crt"), (key, "server.key")] {
            let to = self.folder.join("data").join(to);
            std::fs::copy(from, &to).map_err(|e| format!("{}: {e}", to.display()))?;
            // What anybody may read the server takes for no secret.
            std::fs::set_permissions(&to, Permissions::from_mode(0o600)).map_err(|e| e.to_string())?;
            hand_over(&to)?;
        }
        crate::sql(&self.url, "ALTER SYSTEM SET ssl = on")?;
        crate::sql(&self.url, "SELECT pg_reload_conf()").map(drop)
    }

    /// `immediate` is what a crash is; `fast` ends the sessions and writes everything out.
    pub fn stop(&self, mode: &str) -> Result<(), String> {
        run(control(&self.folder)?.args(["-w", "-m", mode, "stop"])).map(drop)
    }

    /// Stopped, and started again: until it is, another process may have the port for a moment.
    pub fn restart(&self, mode: &str) -> Result<(), String> {
        self.stop(mode)?;
        let mut started = self.run();
        for _ in 1..TRIES {
            if started.is_ok() {
                break;
            }
            started = self.run();
        }
        started
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The pipe's end is what it waits for.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn control(folder: &Path) -> Result<Command, String> {
    let mut control = server_program("pg_ctl")?;
    control.current_dir(folder).arg("--pgdata").arg(folder.join("data"));
    Ok(control)
}

/// Waits for our end in a process of its own, which a signal to our group does not reach.
fn keeper(folder: &Path) -> io::Result<Child> {
    let stop = server_program("pg_ctl").map_err(io::Error::other)?;
    let words: Vec<String> = std::iter::once(stop.get_program())
        .chain(stop.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    let script = format!(
        "cd / && trap '' INT TERM HUP && cat >/dev/null; {} --pgdata \"$1/data\" -m immediate stop; rm -rf \"$1\"",
        words.join(" ")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "keeper"]).arg(folder);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Debian keeps every version's programs apart, and none of the server's on the path.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Who runs the server when we are root; the Debian package makes it.
const SERVER_USER: &str = "postgres";

/// The folder of the newest version's programs.
fn program_folder() -> Result<PathBuf, String> {
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

/// A client program, run as the current user.
pub(crate) fn client_program(name: &str) -> Result<Command, String> {
    Ok(Command::new(program_folder()?.join(name)))
}

/// One of the programs that may not be root.
pub(crate) fn server_program(name: &str) -> Result<Command, String> {
    let program = program_folder()?.join(name);
    if !is_root()? {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("runuser");
    command.args(["-u", SERVER_USER, "--"]).arg(program);
    Ok(command)
}

/// Gives a folder or a file to the server's user.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    fn answers(url: &str) -> bool {
        run(client_program("psql").unwrap().args(["-XAtc", "SELECT 1", url])).is_ok()
    }

    #[test]
    fn server_restarts_with_its_data_and_leaves_no_files() {
        let server = Server::start().unwrap();
        let database = Database::on(server.url()).unwrap();
        assert!(answers(database.url()));
        server.stop("immediate").unwrap();
        assert!(!answers(database.url()));
        server.run().unwrap();
        assert!(answers(database.url()), "a crash loses nothing");
        let (folder, url) = (server.folder.clone(), server.url().to_owned());
        drop((database, server));
        assert!(!folder.exists());
        assert!(!answers(&url));
    }
}
