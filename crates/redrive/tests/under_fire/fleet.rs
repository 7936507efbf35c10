//! The replicas over one PostgreSQL, and a client that tries the next replica when one is away.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use private_postgres::{Database, Server as Postgres};

use crate::common::http::{Answer, Http};
use crate::support::{Server, redrive, wait_for};

pub(crate) struct Fleet {
    replicas: Vec<Option<Server>>,
    urls: Vec<String>,
    key: String,
    database: Database,
    postgres: Postgres,
    kills: u64,
    restarts: u64,
}

fn serve(listen: &str, database: &str) -> Result<Server, String> {
    let mut command = redrive();
    command.args(["serve", "--listen", listen, "--database-url", database, "--log", "off"]);
    Server::of(command.stdout(Stdio::piped()).stderr(Stdio::null()))
}

impl Fleet {
    /// All at once over an empty database: one of them says the first key.
    pub(crate) fn start(replicas: usize) -> Self {
        let postgres = Postgres::start().unwrap();
        let database = Database::on(postgres.url()).unwrap();
        let url = database.url();
        let started: Vec<Server> = std::thread::scope(|threads| {
            let starting: Vec<_> =
                (0..replicas).map(|_| threads.spawn(move || serve("127.0.0.1:0", url).unwrap())).collect();
            starting.into_iter().map(|starting| starting.join().unwrap()).collect()
        });
        let keys: Vec<String> = started.iter().filter_map(|server| server.key.clone()).collect();
        assert_eq!(keys.len(), 1, "servers that start together print one first key between them");
        let urls = started.iter().map(|server| server.url.clone()).collect();
        let (replicas, key) = (started.into_iter().map(Some).collect(), keys[0].clone());
        Self { replicas, urls, key, database, postgres, kills: 0, restarts: 0 }
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.urls.clone()
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Up again at the same address, as whatever watches over it would have it.
    pub(crate) fn kill_and_restart(&mut self, n: usize) {
        self.kills += 1;
        self.replicas[n].take().unwrap().kill();
        let listen = self.urls[n].strip_prefix("http://").unwrap();
        // For a moment another process may have its port.
        let started = wait_for("the replica to start", || serve(listen, self.database.url()).ok());
        self.replicas[n] = Some(started);
    }

    pub(crate) fn restart_database(&mut self, mode: &str) {
        self.restarts += 1;
        self.postgres.restart(mode).unwrap();
    }

    /// Nothing damaged, and every counter what a recount says.
    pub(crate) fn check(&self) {
        let checked =
            redrive().args(["store", "check", "--json", "--database-url", self.database.url()]).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
    }
}

impl fmt::Display for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} replicas killed, the database restarted {} times", self.kills, self.restarts)
    }
}

const TRIES: u32 = 4_000;
const BEFORE_THE_NEXT: Duration = Duration::from_millis(20);

pub(crate) struct Caller {
    replicas: Vec<Http>,
    at: usize,
}

impl Caller {
    pub(crate) fn new(urls: &[String], key: &str) -> Self {
        Self { replicas: urls.iter().map(|url| Http::new(url, key)).collect(), at: 0 }
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.insist("GET", path, "application/json", "")
    }

    pub(crate) fn put(&mut self, path: &str, body: &str) -> Answer {
        self.insist("PUT", path, "application/json", body)
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Answer {
        self.insist("POST", path, "application/json", body)
    }

    pub(crate) fn post_lines(&mut self, path: &str, body: &str) -> Answer {
        self.insist("POST", path, "application/x-ndjson", body)
    }

    /// The same again, at one replica after the other, until one says what became of it.
    fn insist(&mut self, method: &str, path: &str, kind: &str, body: &str) -> Answer {
        for _ in 0..TRIES {
            let heard = self.once(method, path, kind, body);
            if let Some(answer) = heard {
                return answer;
            }
            std::thread::sleep(BEFORE_THE_NEXT);
        }
        panic!("{method} {path}: nobody answers");
    }

    /// None: nobody knows whether it was done.
    pub(crate) fn once(&mut self, method: &str, path: &str, kind: &str, body: &str) -> Option<Answer> {
        let heard = self.replicas[self.at].send(method, path, kind, body.as_bytes());
        match heard {
            Ok(answer) if answer.status != 503 => {
                assert!(answer.status < 500, "{method} {path}: {} {}", answer.status, answer.text);
                Some(answer)
            }
            Ok(_) | Err(_) => {
                self.at = (self.at + 1) % self.replicas.len();
                None
            }
        }
    }
}
