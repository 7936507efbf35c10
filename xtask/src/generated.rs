//! Generated files in git: `generate` writes them, `verify` demands that they are up to date. The binary's hidden
//! `redrive generate <what>` prints each one.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

struct Generated {
    /// From the workspace's root.
    path: &'static str,
    /// The argument of `redrive generate` that prints it.
    what: &'static str,
}

const GENERATED: &[Generated] = &[
    Generated { path: "docs/openapi.json", what: "openapi" },
    Generated { path: "docs/lifecycle.md", what: "transitions" },
    Generated { path: "docs/cli.md", what: "cli" },
    Generated { path: "docs/configuration.md", what: "config" },
    Generated { path: "docs/errors.md", what: "errors" },
    Generated { path: "docs/taxonomy.md", what: "taxonomy" },
];

/// `cargo xtask generate`
pub(crate) fn generate() -> Result<ExitCode> {
    let root = workspace::root()?;
    build()?;
    for file in GENERATED {
        let wanted = produce(file)?;
        if read(&root.join(file.path))?.as_ref() == Some(&wanted) {
            println!("unchanged  {}", file.path);
        } else {
            write(&root.join(file.path), &wanted)?;
            println!("written    {}", file.path);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `cargo xtask verify`
pub(crate) fn verify() -> Result<ExitCode> {
    let root = workspace::root()?;
    build()?;
    let mut stale = 0;
    for file in GENERATED {
        let wanted = produce(file)?;
        if let Some(difference) = compare(read(&root.join(file.path))?.as_deref(), &wanted) {
            eprintln!("{}: {difference}", file.path);
            stale += 1;
        }
    }
    ensure!(stale == 0, "{stale} of {} generated files differ: run `cargo xtask generate`", GENERATED.len());
    println!("{} generated files are up to date", GENERATED.len());
    Ok(ExitCode::SUCCESS)
}

fn build() -> Result<()> {
    let status = workspace::cargo()?.args(["build", "--package", "redrive"]).status().context("cargo build")?;
    ensure!(status.success(), "`cargo build --package redrive` failed");
    Ok(())
}

fn produce(file: &Generated) -> Result<Vec<u8>> {
    let command = format!("redrive generate {}", file.what);
    let output = workspace::cargo()?
        .args(["run", "--quiet", "--package", "redrive", "--", "generate", file.what])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| command.clone())?;
    ensure!(output.status.success(), "`{command}`, which makes {}, failed: {}", file.path, output.status);
    ensure!(!output.stdout.is_empty(), "`{command}`, which makes {}, printed nothing", file.path);
    Ok(output.stdout)
}

/// What is wrong with the file in git, if anything is.
fn compare(found: Option<&[u8]>, wanted: &[u8]) -> Option<String> {
    let Some(found) = found else {
        return Some("is missing".into());
    };
    if found == wanted {
        return None;
    }
    let equal_lines = found.split(|b| *b == b'\n').zip(wanted.split(|b| *b == b'\n')).take_while(|(a, b)| a == b);
    Some(format!("is not what the code says, from line {} on", equal_lines.count() + 1))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => bail!("{}: {error}", path.display()),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_as_the_code_says_is_accepted() {
        assert_eq!(compare(Some(b"one\ntwo\n"), b"one\ntwo\n"), None);
    }

    #[test]
    fn a_missing_file_is_called_missing() {
        assert_eq!(compare(None, b"one\n").as_deref(), Some("is missing"));
    }

    #[test]
    fn a_stale_file_is_shown_from_its_first_differing_line() {
        let said = |found: &str| compare(Some(found.as_bytes()), b"one\ntwo\nthree\n");
        assert_eq!(said("one\n2\nthree\n").as_deref(), Some("is not what the code says, from line 2 on"));
        assert_eq!(said("one\ntwo\n").as_deref(), Some("is not what the code says, from line 3 on"));
        assert_eq!(said("one\ntwo\nthree\nfour\n").as_deref(), Some("is not what the code says, from line 4 on"));
    }

    #[test]
    fn no_path_and_no_word_is_listed_twice() {
        for (at, file) in GENERATED.iter().enumerate() {
            assert!(GENERATED[..at].iter().all(|other| other.path != file.path && other.what != file.what));
        }
    }
}
