//! Bounded reads of files and lines: a device, a pipe or a wrong file gives one clear error instead of an endless read.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

use anyhow::{Context, bail};

const MIB: usize = 1 << 20;
/// A configuration, a schema, or a mark of a spool.
pub(crate) const CONFIG_MAX_BYTES: usize = MIB;
/// A payload, a patch, a spool line or a classify line: more than a server takes by default.
pub(crate) const PAYLOAD_MAX_BYTES: usize = 64 * MIB;

/// Reads a regular file of at most this many bytes.
pub(crate) fn file(path: &Path, max_bytes: usize) -> anyhow::Result<Vec<u8>> {
    let read = || {
        regular(path)?;
        bounded(File::open(path)?, max_bytes)
    };
    read().with_context(|| path.display().to_string())
}

/// The same as text.
pub(crate) fn text(path: &Path, max_bytes: usize) -> anyhow::Result<String> {
    String::from_utf8(file(path, max_bytes)?).with_context(|| format!("{}: no UTF-8", path.display()))
}

pub(crate) fn stdin(max_bytes: usize) -> anyhow::Result<Vec<u8>> {
    bounded(io::stdin().lock(), max_bytes).context("standard input")
}

/// Checked before opening: opening a pipe waits for its writer.
pub(crate) fn regular(path: &Path) -> anyhow::Result<()> {
    if std::fs::metadata(path)?.is_file() { Ok(()) } else { bail!("not a regular file") }
}

fn bounded(source: impl Read, max_bytes: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(max_bytes as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > max_bytes { bail!("larger than {} MiB", max_bytes / MIB) } else { Ok(bytes) }
}

/// What [`line`] has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Bytes read, including the line break if there is one.
    Read(usize),
    TooLong,
    End,
}

/// Reads the next line into `line`, which is cleared first; at most `max_bytes` of it.
pub(crate) fn line(source: &mut impl BufRead, max_bytes: usize, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let read = source.take(max_bytes as u64 + 1).read_until(b'\n', line)?;
    Ok(match read {
        0 => Line::End,
        _ if read > max_bytes => Line::TooLong,
        _ => Line::Read(read),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_within_its_limit_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.toml");
        let said = |path: &Path| format!("{:#}", text(path, MIB).unwrap_err());
        std::fs::write(&path, vec![b'#'; MIB]).unwrap();
        assert_eq!(text(&path, MIB).unwrap().len(), MIB);
        std::fs::write(&path, vec![b'#'; MIB + 1]).unwrap();
        assert_eq!(said(&path), format!("{}: larger than 1 MiB", path.display()));
        std::fs::write(&path, [0xff]).unwrap();
        assert!(said(&path).contains("no UTF-8"));
        assert_eq!(said(Path::new("/dev/zero")), "/dev/zero: not a regular file");
        assert_eq!(said(folder.path()), format!("{}: not a regular file", folder.path().display()));
    }

    #[test]
    fn a_line_is_read_up_to_its_limit() {
        let (mut source, mut text) = (io::Cursor::new(b"four\nlonger\n"), Vec::new());
        assert_eq!(line(&mut source, 5, &mut text).unwrap(), Line::Read(5));
        assert_eq!(text, b"four\n");
        assert_eq!(line(&mut source, 5, &mut text).unwrap(), Line::TooLong);
        assert_eq!(line(&mut io::empty(), 5, &mut text).unwrap(), Line::End);
        assert_eq!(line(&mut io::BufReader::new(io::repeat(0)), 5, &mut text).unwrap(), Line::TooLong);
    }
}
