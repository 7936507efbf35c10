//! A client of several replicas: whoever does not answer, or refuses for now, is passed over for the next.

use std::time::Duration;

use crate::common::http::{Answer, Http};

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
