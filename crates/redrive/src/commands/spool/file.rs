//! A spool file: lines with a checksum, each a report about a run, and a marker of how far it was sent.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::whole::{self, CONFIG_MAX_BYTES, Line, PAYLOAD_MAX_BYTES};

/// The first line: format and server of the file.
#[derive(Debug, Deserialize)]
struct Head {
    v: u32,
    url: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Mark {
    to: u64,
    leases: BTreeMap<String, Option<String>>,
}

/// The outcome of trying to take a file.
pub(crate) enum TakenFile {
    Ours(SpoolFile),
    /// Its program still runs and sends it itself.
    InUse,
    /// It is for another server, or of an unknown version.
    NotForUs,
}

pub(crate) struct SpoolFile {
    path: PathBuf,
    /// Holds the lock.
    file: File,
    mark: Mark,
}

impl SpoolFile {
    pub(crate) fn take(path: &Path, url: &str) -> io::Result<TakenFile> {
        if !fs::metadata(path)?.is_file() {
            return Ok(TakenFile::NotForUs);
        }
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(TakenFile::InUse),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Its owner may have sent and removed it before the lock was ours.
        if !path.exists() {
            return Ok(TakenFile::NotForUs);
        }
        let mut first = Vec::new();
        whole::line(&mut BufReader::new(&file), CONFIG_MAX_BYTES, &mut first)?;
        match open_line::<Head>(&first) {
            Some(head) if head.v == 1 && head.url == url.trim_end_matches('/') => {}
            Some(_) | None => return Ok(TakenFile::NotForUs),
        }
        let mark = whole::file(&path.with_extension("sent"), PAYLOAD_MAX_BYTES)
            .ok()
            .and_then(|mark| open_line(&mark))
            .unwrap_or_default();
        Ok(TakenFile::Ours(Self { path: path.to_owned(), file, mark }))
    }

    /// The next record and the offset after it. An unreadable line has no record; an incomplete one is the end of the file:
    /// it was never acknowledged.
    pub(super) fn next(&mut self) -> io::Result<Option<(Option<SpoolRecord>, u64)>> {
        self.file.seek(SeekFrom::Start(self.mark.to))?;
        let mut reader = BufReader::new(&self.file);
        let (mut text, mut end, mut whole) = (Vec::new(), self.mark.to, true);
        loop {
            match whole::line(&mut reader, PAYLOAD_MAX_BYTES, &mut text)? {
                Line::End => return Ok(None),
                Line::Read(_) | Line::TooLong => end += text.len() as u64,
            }
            if text.ends_with(b"\n") {
                return Ok(Some((whole.then(|| open_line(&text)).flatten(), end)));
            }
            // Longer than any request: skipped.
            whole = false;
        }
    }

    pub(super) fn is_at_its_head(&self) -> bool {
        self.mark.to == 0
    }

    pub(super) fn lease_of(&self, run: &str) -> Option<&str> {
        self.mark.leases.get(run)?.as_deref()
    }

    /// What a start's answer gave; none where it was refused.
    pub(super) fn leased(&mut self, run: &str, lease: Option<&str>) {
        self.mark.leases.insert(run.to_owned(), lease.map(str::to_owned));
    }

    pub(super) fn ended(&mut self, run: &str) {
        self.mark.leases.remove(run);
    }

    /// Marks everything up to here as sent. Synced: otherwise an answered and ended start could be sent again.
    pub(super) fn mark(&mut self, to: u64) -> io::Result<()> {
        self.mark.to = to;
        let (fresh, place) = (self.path.with_extension("new"), self.path.with_extension("sent"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&seal_line(&self.mark)?)?;
        file.sync_data()?;
        fs::rename(fresh, place)
    }

    /// The body of a run's start, sent or not.
    pub(super) fn start_of(&mut self, run: &str) -> io::Result<Option<String>> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new(&self.file);
        let mut text = Vec::new();
        while whole::line(&mut reader, PAYLOAD_MAX_BYTES, &mut text)? != Line::End {
            if let Some(record) = open_line::<SpoolRecord>(&text)
                && record.run == run
                && record.what == ReportKind::Start
            {
                return Ok(Some(record.body));
            }
        }
        Ok(None)
    }

    /// Removes the file once all of it is sent.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        match fs::remove_file(self.path.with_extension("sent")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// One spooled request about a run.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SpoolRecord {
    #[serde(rename = "do")]
    pub(super) what: ReportKind,
    /// The start's id, which ties the lines of one attempt together.
    pub(super) run: String,
    pub(super) run_id: String,
    #[serde(default)]
    pub(super) tenant: Option<String>,
    /// None until the start is answered.
    #[serde(default)]
    pub(super) lease: Option<String>,
    /// The request's JSON, without the lease.
    pub(super) body: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReportKind {
    Start,
    Step,
    Succeed,
    Fail,
    Release,
}

impl ReportKind {
    /// The last part of the path.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Start => "runs",
            Self::Step => "steps",
            Self::Succeed => "succeed",
            Self::Fail => "fail",
            Self::Release => "release",
        }
    }

    pub(super) fn ends_the_attempt(self) -> bool {
        match self {
            Self::Succeed | Self::Fail | Self::Release => true,
            Self::Start | Self::Step => false,
        }
    }
}

impl SpoolRecord {
    /// The body with the lease in front and nothing else changed: every sender sends the same bytes.
    pub(super) fn under(&self, lease: &str) -> String {
        let lease = serde_json::Value::from(lease);
        match self.body.trim_start_matches('{') {
            "}" => format!("{{\"lease\":{lease}}}"),
            rest => format!("{{\"lease\":{lease},{rest}"),
        }
    }
}

/// The object of a line; none for one that was cut off, or has changed since it was written.
pub(super) fn open_line<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let text = line.strip_suffix(b"\n")?;
    let (sum, text) = text.split_at_checked(8)?;
    let sum = u32::from_str_radix(str::from_utf8(sum).ok()?, 16).ok()?;
    let text = text.strip_prefix(b" ")?;
    (crc32(text) == sum).then(|| serde_json::from_slice(text).ok())?
}

pub(super) fn seal_line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let text = serde_json::to_string(value)?;
    Ok(format!("{:08x} {text}\n", crc32(text.as_bytes())).into_bytes())
}

/// As zlib has it.
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_one_that_zlib_makes() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn truncated_or_altered_spool_line_is_rejected() {
        let line = seal_line(&serde_json::json!({"do": "step", "run": "r", "run_id": "a", "body": "{}"})).unwrap();
        assert_eq!(open_line::<SpoolRecord>(&line).unwrap().what, ReportKind::Step);
        assert!(open_line::<SpoolRecord>(&line[..line.len() - 1]).is_none(), "cut off");
        let changed: Vec<u8> = line.iter().map(|byte| if *byte == b'a' { b'b' } else { *byte }).collect();
        assert!(open_line::<SpoolRecord>(&changed).is_none(), "changed");
    }

    #[test]
    fn the_lease_goes_in_front_and_nothing_else_changes() {
        let record = |body: &str| {
            let fields = serde_json::json!({"do": "fail", "run": "r", "run_id": "a", "body": body});
            open_line::<SpoolRecord>(&seal_line(&fields).unwrap()).unwrap()
        };
        assert_eq!(record(r#"{"a":1.0}"#).under("x\"y"), r#"{"lease":"x\"y","a":1.0}"#);
        assert_eq!(record("{}").under("l"), r#"{"lease":"l"}"#);
    }
}
