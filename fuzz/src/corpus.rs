//! What is changed: examples in `corpus/`, one a file or one a line, and in `regressions/` what once went wrong.

use std::fs;
use std::path::Path;

use crate::{INPUT_MAX_BYTES, Target, folder};

pub fn of(target: &Target) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for name in target.corpus {
        all.extend(files(&folder().join("corpus").join(name)));
    }
    all.extend(files(&folder().join("regressions").join(target.name)));
    all.retain(|input| input.len() <= INPUT_MAX_BYTES);
    if all.is_empty() {
        all.push(Vec::new());
    }
    all
}

/// A file, or a folder of them in the order of their names. A `.lines` file has an example on each line.
fn files(path: &Path) -> Vec<Vec<u8>> {
    let lines = path.with_extension("lines");
    if let Ok(text) = fs::read(&lines) {
        return text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
    }
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort();
    names.iter().filter_map(|name| fs::read(name).ok()).collect()
}
