//! What is wrong with a configuration file, and where.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One line: the file, the line, the column, what is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    path: PathBuf,
    line: usize,
    column: usize,
    what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.path.display(), self.line, self.column, self.what)
    }
}

impl std::error::Error for Complaint {}

/// The text a complaint points into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// A complaint about what begins at `span`; lines and columns count from 1.
    pub(super) fn complain(&self, span: &Range<usize>, what: impl Into<String>) -> Complaint {
        let before = &self.text[..self.text.floor_char_boundary(span.start)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Complaint {
            path: self.path.into(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            what: what.into(),
        }
    }

    pub(super) fn complain_of(&self, error: &toml::de::Error) -> Complaint {
        // One line: what follows the first is the parser's own picture of the place.
        let what = error.message().lines().collect::<Vec<_>>().join("; ");
        self.complain(&error.span().unwrap_or(0..0), what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_and_columns_in_letters() {
        let source = Source { path: Path::new("r.toml"), text: "a = 1\nä = x\n" };
        let said = |at: usize| source.complain(&(at..at), "no").to_string();
        assert_eq!(said(0), "r.toml:1:1: no");
        assert_eq!(said(source.text.find('x').unwrap()), "r.toml:2:5: no");
        assert_eq!(said(10_000), "r.toml:3:1: no");
    }
}
