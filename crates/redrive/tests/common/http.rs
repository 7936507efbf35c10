//! HTTP/1.1 as bytes over a socket: what is sent is exactly what is written here, and it can stop anywhere.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Longer than any answer may take; a server that gives none is a failure and not a wait.
const ANSWER_MAX: Duration = Duration::from_secs(60);

pub struct Http {
    address: String,
    key: String,
    open: Option<BufReader<TcpStream>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// The status with the problem's code, or the run's state.
    pub fn short(&self) -> (u16, String) {
        let json = self.json();
        (self.status, json["code"].as_str().or_else(|| json["state"].as_str()).unwrap_or_default().to_owned())
    }
}

pub fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Http {
    pub fn new(url: &str, key: &str) -> Self {
        Self { address: address(url).to_owned(), key: key.to_owned(), open: None }
    }

    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.send("GET", path, "application/json", b"")
    }

    pub fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> io::Result<Answer> {
        self.send("POST", path, "application/json", body.as_ref())
    }

    pub fn post_lines(&mut self, path: &str, lines: &[String]) -> io::Result<Answer> {
        self.send("POST", path, "application/x-ndjson", lines.join("\n").as_bytes())
    }

    pub fn send(&mut self, method: &str, path: &str, kind: &str, body: &[u8]) -> io::Result<Answer> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => BufReader::new(connect(&self.address)?),
        };
        let mut request = head(method, path, &self.key, kind, body.len()).into_bytes();
        request.extend_from_slice(body);
        open.get_mut().write_all(&request)?;
        let answer = read(&mut open)?;
        if !answer.head.to_ascii_lowercase().contains("connection: close") {
            self.open = Some(open);
        }
        Ok(answer)
    }
}

pub fn address(url: &str) -> &str {
    url.strip_prefix("http://").unwrap()
}

pub fn head(method: &str, path: &str, key: &str, kind: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: {kind}\r\n\
         content-length: {length}\r\n\r\n"
    )
}

/// One whole answer. One that is cut short is an error: nothing was acknowledged.
pub fn read(open: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if open.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if &head[before..] == "\r\n" {
            break;
        }
    }
    let field = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
        Some(line[name.len()..].trim().to_owned())
    };
    let mut body = Vec::new();
    if let Some(length) = field("content-length:") {
        body.resize(length.parse().unwrap(), 0);
        open.read_exact(&mut body)?;
    } else if field("transfer-encoding:").is_some() {
        read_chunks(open, &mut body)?;
    } else {
        open.read_to_end(&mut body)?;
    }
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Answer { status, head, text: String::from_utf8(body).unwrap() })
}

/// What a request asks for: its path, once its body has come too.
pub fn read_request(open: &mut impl io::BufRead) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if open.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    io::copy(&mut open.take(length.unwrap_or(0)), &mut io::sink())?;
    Ok(head.split(' ').nth(1).unwrap_or_default().to_owned())
}

fn read_chunks(open: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let mut size = String::new();
        open.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let start = body.len();
        body.resize(start + size, 0);
        open.read_exact(&mut body[start..])?;
        open.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(());
        }
    }
}
