//! How many files the system lets this process have open, since each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::OTHER_FILES;

/// Raises the process's own limit as far as it may, and says how many connections fit below it.
pub(super) fn connections_max(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "could not raise the limit of open files");
    }
    let files = getrlimit(Resource::Nofile).current;
    let max = below(files, wanted);
    if max < wanted {
        tracing::warn!(connections = max, open_files = files, "the limit of open files allows few connections");
    }
    max
}

/// The store's files come first; where there are hardly any, half of them are connections.
fn below(files: Option<u64>, wanted: usize) -> usize {
    let Some(files) = files.and_then(|files| usize::try_from(files).ok()) else { return wanted };
    let others = OTHER_FILES.min(files / 2);
    wanted.min(files - others).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_store() {
        for (files, wanted, max) in [
            (Some(1_024), 10_000, 768),
            (Some(1_000_000), 10_000, 10_000),
            (None, 10_000, 10_000),
            (Some(100), 10_000, 50),
            (Some(0), 10_000, 1),
            (Some(1_024), 5, 5),
        ] {
            assert_eq!(below(files, wanted), max, "{files:?}");
        }
    }
}
