//! The head of the audit log outside the database: a file with a line for each position. Whoever can change the database
//! can't make an earlier line fit a log that was cut or computed again.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use redrive_core::audit::ChainPoint;

/// The file of a SQLite store, in its folder.
pub const FILE_NAME: &str = "audit-head.jsonl";

/// When the file has more lines, all but the newest and the last of each day are dropped.
const LINES_MAX: usize = 4_000;
const NEWEST_KEPT: usize = 1_000;
/// Ten years.
const DAYS_KEPT: usize = 3_660;

/// Appends positions to a file.
pub(crate) struct HeadFile {
    path: PathBuf,
    /// The last written position, and how many lines the file has.
    written: Mutex<Option<(ChainPoint, usize)>>,
}

impl HeadFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, written: Mutex::new(None) }
    }

    /// Appends the position if it is a new one; it is on the disk when this returns.
    pub(crate) fn note(&self, head: ChainPoint) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, lines) = match *written {
            Some(known) => known,
            None => {
                let known = if self.path.exists() { read(&self.path)? } else { Vec::new() };
                (known.last().copied().unwrap_or_default(), known.len())
            }
        };
        if last.seq == head.seq && last.hash == head.hash {
            *written = Some((last, lines));
            return Ok(());
        }
        let lines = if lines >= LINES_MAX { self.compact()? } else { lines };
        let mut file = open(&self.path, OpenOptions::new().create(true).append(true))?;
        file.write_all(line(&head)?.as_bytes())?;
        file.sync_data()?;
        *written = Some((head, lines + 1));
        Ok(())
    }

    fn compact(&self) -> io::Result<usize> {
        let kept = compacted(&read(&self.path)?);
        let beside = self.path.with_extension("tmp");
        let mut file = open(&beside, OpenOptions::new().create(true).write(true).truncate(true))?;
        for point in &kept {
            file.write_all(line(point)?.as_bytes())?;
        }
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        Ok(kept.len())
    }
}

fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    how.mode(0o600).open(path).map_err(named)
}

fn line(point: &ChainPoint) -> io::Result<String> {
    Ok(format!("{}\n", serde_json::to_string(point)?))
}

/// The newest positions, and the last one of each day before them.
fn compacted(points: &[ChainPoint]) -> Vec<ChainPoint> {
    let (older, newest) = points.split_at(points.len().saturating_sub(NEWEST_KEPT));
    let mut kept: Vec<ChainPoint> = Vec::new();
    for point in older {
        match kept.last_mut().filter(|last| last.at.day() == point.at.day()) {
            Some(last) => *last = *point,
            None => kept.push(*point),
        }
    }
    kept.drain(..kept.len().saturating_sub(DAYS_KEPT));
    kept.extend_from_slice(newest);
    kept
}

/// Every position in the file. A last line without its end was being written when the server ended.
pub fn read(path: &Path) -> io::Result<Vec<ChainPoint>> {
    let file = open(path, OpenOptions::new().read(true))?;
    let mut reader = BufReader::new(file);
    let (mut points, mut text) = (Vec::new(), String::new());
    while reader.read_line(&mut text)? > 0 {
        if text.ends_with('\n') {
            let point = serde_json::from_str(&text)
                .map_err(|error| io::Error::other(format!("{}, line {}: {error}", path.display(), points.len() + 1)))?;
            points.push(point);
        }
        text.clear();
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use redrive_core::audit::ChainHash;
    use redrive_core::time::{DAY_MS, Timestamp};

    use super::*;

    fn point(seq: i64, day: u64) -> ChainPoint {
        ChainPoint {
            seq,
            hash: ChainHash([7; 32]),
            at: Timestamp::from_millis(1_800_000_000_000).plus_ms(day * DAY_MS),
        }
    }

    #[test]
    fn a_head_is_written_once_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        HeadFile::new(path.clone()).note(point(1, 0)).unwrap();
        let file = HeadFile::new(path.clone());
        file.note(point(1, 0)).unwrap();
        file.note(point(4, 0)).unwrap();
        assert_eq!(read(&path).unwrap(), [point(1, 0), point(4, 0)]);
        std::fs::write(&path, format!("{}{{\"seq\":5", line(&point(1, 0)).unwrap())).unwrap();
        assert_eq!(read(&path).unwrap(), [point(1, 0)]);
    }

    #[test]
    fn the_head_file_stays_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let many: Vec<ChainPoint> = (0..LINES_MAX).map(|n| point(n as i64 + 1, n as u64 / 1_000)).collect();
        let text: String = many.iter().map(|point| line(point).unwrap()).collect();
        std::fs::write(&path, text).unwrap();
        HeadFile::new(path.clone()).note(point(9_999, 9)).unwrap();
        let kept = read(&path).unwrap();
        // The last of each of three days, the newest thousand, and the new one.
        assert_eq!(kept.len(), 3 + NEWEST_KEPT + 1);
        assert_eq!((kept[0], kept[2], kept[kept.len() - 1]), (point(1_000, 0), point(3_000, 2), point(9_999, 9)));
    }
}
