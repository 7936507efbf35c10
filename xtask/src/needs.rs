//! The packages that the suites need besides Rust; installs the missing ones with apt.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// A program, the Debian package that has it, and what for.
pub(crate) struct Need {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    pub(crate) why: &'static str,
}

/// Installs what is missing, or says what the reader has to install.
pub(crate) fn provide(needs: impl Iterator<Item = &'static Need>) -> Result<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    let missing: Vec<&Need> = needs.filter(|need| !is_on(&path, need.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    install(&path, &missing).with_context(|| explain(&missing))?;
    for need in &missing {
        ensure!(is_on(&path, need.program), "{} has no program `{}`", need.package, need.program);
    }
    Ok(())
}

fn is_on(path: &OsStr, program: &str) -> bool {
    env::split_paths(path).any(|folder| is_executable(&folder.join(program)))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn install(path: &OsStr, missing: &[&Need]) -> Result<()> {
    ensure!(is_on(path, "apt-get"), "this machine has no apt-get");
    let root = is_root()?;
    ensure!(root || is_on(path, "sudo"), "installing takes root or sudo");
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    println!("installing {}", packages.join(", "));
    apt_get(root, &["update", "--quiet"])?;
    apt_get(root, &[&["install", "--quiet", "--yes", "--no-install-recommends"], packages.as_slice()].concat())
}

fn is_root() -> Result<bool> {
    // The owner of our own entry in /proc is the user we act as.
    Ok(fs::metadata("/proc/self").context("/proc/self")?.uid() == 0)
}

fn apt_get(root: bool, args: &[&str]) -> Result<()> {
    // By `env`, since sudo does not hand the environment on.
    let words = ["sudo", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    let words = if root { &words[1..] } else { &words[..] };
    let (program, rest) = words.split_first().context("no program")?;
    let status = Command::new(program).args(rest).args(args).status().with_context(|| program.to_string())?;
    if !status.success() {
        bail!("`apt-get {}` failed: {status}", args.join(" "));
    }
    Ok(())
}

fn explain(missing: &[&Need]) -> String {
    let line = |need: &&Need| format!("`{}` is missing ({}; Debian: {})", need.program, need.why, need.package);
    missing.iter().map(line).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_only_as_executable_on_path() {
        let path = OsStr::new("/nowhere:/bin:/usr/bin");
        assert!(is_on(path, "sh"));
        assert!(!is_on(path, "no-such-program"));
        assert!(!is_on(OsStr::new("/nowhere"), "sh"));
        assert!(!is_on(OsStr::new("/"), "usr"), "a folder is no program");
        assert!(!is_on(OsStr::new("/etc"), "passwd"), "a plain file is no program");
    }

    #[test]
    fn missing_programs_are_named_with_package_and_reason() {
        let cc = Need { program: "cc", package: "build-essential", why: "C is compiled" };
        assert_eq!(explain(&[&cc]), "`cc` is missing (C is compiled; Debian: build-essential)");
    }
}
