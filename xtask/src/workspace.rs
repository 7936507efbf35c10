//! Where the workspace is, and how to call cargo and its binary from inside `cargo xtask`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The folder of the workspace's `Cargo.toml`, whatever the current folder is.
pub(crate) fn root() -> Result<PathBuf> {
    // Asked at run time, so that a checkout can be moved together with its target folder.
    let xtask = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = PathBuf::from(xtask).parent().context("xtask has no parent folder")?.to_owned();
    Ok(root)
}

/// Cargo at the workspace's root, in an environment that says nothing of xtask or of the caller's own Redrive.
pub(crate) fn cargo() -> Result<Command> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()?);
    for (name, _) in env::vars_os() {
        if is_about_us(&name) {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// The tree as it is, in a folder of `target`. What did not change is left alone, so that little is rebuilt.
pub(crate) fn copy(name: &str) -> Result<PathBuf> {
    let root = root()?;
    let tree = root.join("target").join(name);
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()
        .context("git ls-files")?;
    ensure!(listed.status.success(), "git ls-files failed");
    for name in String::from_utf8(listed.stdout)?.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), tree.join(name));
        let Ok(now) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|before| before == now) {
            continue;
        }
        fs::create_dir_all(to.parent().context("no folder")?)?;
        fs::write(&to, now)?;
    }
    Ok(tree)
}

/// `cargo run` describes xtask in the environment; build scripts that watch those variables would run again each time
/// the caller changes. `REDRIVE_…` configures a developer's own server and must colour neither tests nor documents.
fn is_about_us(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["CARGO_PKG_", "CARGO_MANIFEST_", "REDRIVE_"].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xtask_and_redrive_variables_are_not_passed_on() {
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "REDRIVE_KEY"] {
            assert!(is_about_us(OsStr::new(name)), "{name}");
        }
        for name in ["CARGO_TARGET_DIR", "CARGO_HOME", "PATH", "RUSTFLAGS", "CI"] {
            assert!(!is_about_us(OsStr::new(name)), "{name}");
        }
    }
}
