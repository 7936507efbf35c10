//! One file of a spool, and beside it how far it has been sent. Whoever holds its lock is its owner.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::line::{self, Record};
use crate::whole::{self, CONFIG_MAX_BYTES, Line, PAYLOAD_MAX_BYTES};

/// The first line: what the rest is for.
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

/// What came of trying to take a file.
pub(crate) enum Taken {
    Ours(SpoolFile),
    /// Its program lives, and sends it itself.
    InUse,
    /// It is for another server, or of a version that is not known here.
    NotForUs,
}

pub(crate) struct SpoolFile {
    path: PathBuf,
    /// Holds the lock.
    file: File,
    mark: Mark,
}

impl SpoolFile {
    pub(crate) fn take(path: &Path, url: &str) -> io::Result<Taken> {
        if !fs::metadata(path)?.is_file() {
            return Ok(Taken::NotForUs);
        }
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Taken::InUse),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Its owner may have sent and removed it before the lock was ours.
        if !path.exists() {
            return Ok(Taken::NotForUs);
        }
        let mut first = Vec::new();
        whole::line(&mut BufReader::new(&file), CONFIG_MAX_BYTES, &mut first)?;
        match line::open::<Head>(&first) {
            Some(head) if head.v == 1 && head.url == url.trim_end_matches('/') => {}
            Some(_) | None => return Ok(Taken::NotForUs),
        }
        let mark = whole::file(&path.with_extension("sent"), PAYLOAD_MAX_BYTES)
            .ok()
            .and_then(|mark| line::open(&mark))
            .unwrap_or_default();
        Ok(Taken::Ours(Self { path: path.to_owned(), file, mark }))
    }

    /// The next thing to send, and the place after it. A line that can't be read is none; one without its end is the
    /// file's end: nobody was told that it is there.
    pub(super) fn next(&mut self) -> io::Result<Option<(Option<Record>, u64)>> {
        self.file.seek(SeekFrom::Start(self.mark.to))?;
        let mut reader = BufReader::new(&self.file);
        let (mut text, mut end, mut whole) = (Vec::new(), self.mark.to, true);
        loop {
            match whole::line(&mut reader, PAYLOAD_MAX_BYTES, &mut text)? {
                Line::End => return Ok(None),
                Line::Read(_) | Line::TooLong => end += text.len() as u64,
            }
            if text.ends_with(b"\n") {
                return Ok(Some((whole.then(|| line::open(&text)).flatten(), end)));
            }
            // Longer than any request: passed over.
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

    /// Sent up to here. Synced: a start that was answered and has ended would otherwise be begun anew.
    pub(super) fn mark(&mut self, to: u64) -> io::Result<()> {
        self.mark.to = to;
        let (fresh, place) = (self.path.with_extension("new"), self.path.with_extension("sent"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&line::seal(&self.mark)?)?;
        file.sync_data()?;
        fs::rename(fresh, place)
    }

    /// The body of a run's start, sent or not.
    pub(super) fn start_of(&mut self, run: &str) -> io::Result<Option<String>> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new(&self.file);
        let mut text = Vec::new();
        while whole::line(&mut reader, PAYLOAD_MAX_BYTES, &mut text)? != Line::End {
            if let Some(record) = line::open::<Record>(&text)
                && record.run == run
                && record.what == super::line::What::Start
            {
                return Ok(Some(record.body));
            }
        }
        Ok(None)
    }

    /// All of it is sent.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        match fs::remove_file(self.path.with_extension("sent")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
