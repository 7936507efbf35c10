//! The server itself: made, started, stopped.

use std::fs::Permissions;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::programs;

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
        programs::hand_over(&folder)?;
        let mut made = programs::server("initdb")?;
        made.arg("--pgdata").arg(folder.join("data"));
        // Nobody but this machine's users reaches it, and it holds nothing of anybody's.
        made.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        programs::run(made.current_dir(&folder))?;
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
            programs::hand_over(&to)?;
        }
        crate::sql(&self.url, "ALTER SYSTEM SET ssl = on")?;
        crate::sql(&self.url, "SELECT pg_reload_conf()").map(drop)
    }

    /// `immediate` is what a crash is; `fast` ends the sessions and writes everything out.
    pub fn stop(&self, mode: &str) -> Result<(), String> {
        programs::run(control(&self.folder)?.args(["-w", "-m", mode, "stop"])).map(drop)
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
    let mut control = programs::server("pg_ctl")?;
    control.current_dir(folder).arg("--pgdata").arg(folder.join("data"));
    Ok(control)
}

/// Waits for our end in a process of its own, which a signal to our group does not reach.
fn keeper(folder: &Path) -> io::Result<Child> {
    let stop = programs::server("pg_ctl").map_err(io::Error::other)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    fn answers(url: &str) -> bool {
        programs::run(programs::client("psql").unwrap().args(["-XAtc", "SELECT 1", url])).is_ok()
    }

    #[test]
    fn a_server_starts_stops_comes_back_with_its_data_and_leaves_nothing() {
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
