//! The outside world: a small service that does effects and counts them. It knows nothing of the product.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::common::http;

#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<String, u32>>>);

pub(crate) struct Bank {
    pub(crate) url: String,
    pub(crate) done: Ledger,
}

impl Ledger {
    pub(crate) fn times(&self, key: &str) -> u32 {
        self.0.lock().unwrap().get(key).copied().unwrap_or(0)
    }

    pub(crate) fn all(&self) -> BTreeMap<String, u32> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn charge(&self, key: &str) -> u32 {
        let mut done = self.0.lock().unwrap();
        let times = done.entry(key.to_owned()).or_default();
        *times += 1;
        *times
    }
}

impl Bank {
    /// Answers on a port of its own until the test ends.
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let done = Ledger::default();
        let ledger = done.clone();
        let serve = move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let ledger = ledger.clone();
                let one = move || while answer(&stream, &ledger).is_some() {};
                std::thread::Builder::new().name("teller".into()).spawn(one).unwrap();
            }
        };
        std::thread::Builder::new().name("bank".into()).spawn(serve).unwrap();
        Self { url, done }
    }
}

/// `POST /{key}` does the effect and says how often it has been done; none when the client is gone.
fn answer(stream: &TcpStream, ledger: &Ledger) -> Option<()> {
    let asked = http::read_request(&mut BufReader::new(stream)).ok()?;
    let times = ledger.charge(asked.trim_start_matches('/'));
    let body = times.to_string();
    let said = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    (&mut &*stream).write_all(said.as_bytes()).ok()
}
