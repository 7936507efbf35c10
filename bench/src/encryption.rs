//! What encryption at rest costs: NDJSON with and without it, in turns.

use std::path::Path;

use anyhow::Result;

use crate::Plan;
use crate::figures::{Figures, median, median_ratio, per_second};
use crate::ingest::{LINES, many_a_request};
use crate::process::{Server, StoreLocation};
use crate::raw::DATABASE;

const SENDERS: usize = 8;

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    println!("Encryption at rest, NDJSON of {LINES}, {SENDERS} connections");
    let folder = tempfile::tempdir_in("target")?;
    let config = folder.path().join("encrypted.toml");
    std::fs::write(folder.path().join("master.key"), "5c".repeat(32))?;
    std::fs::write(&config, "[encryption]\nmaster_key_file = \"master.key\"\n")?;
    let (mut clear, mut sealed, mut sizes) = (vec![], vec![], [0.0; 2]);
    for pair in 0..plan.pairs {
        let stores = [None, Some(config.as_path())].map(|config| {
            let name = if config.is_some() { "sealed" } else { "clear" };
            (folder.path().join(format!("{name}-{pair}")), config)
        });
        // Every other pair begins with the other one.
        for at in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            let (store, config) = &stores[at];
            let server = Server::start_with(&plan.redrive, StoreLocation::Folder(store), *config)?;
            let seen = many_a_request(&server, "e", 0..plan.runs, SENDERS).await?;
            server.stop()?;
            let rates = if config.is_some() { &mut sealed } else { &mut clear };
            rates.push(per_second(plan.runs, seen.took));
            sizes[at] = bytes(store)? / plan.runs as f64;
        }
    }
    let share = median_ratio(&sealed, &clear);
    figures.note("NDJSON in clear", median(clear), "/s");
    figures.note("NDJSON encrypted", median(sealed), "/s");
    figures.at_least("NDJSON encrypted, to in clear", share, "x", 0.85);
    figures.note("stored bytes a failure, in clear", sizes[0], "B");
    figures.note("stored bytes a failure, encrypted", sizes[1], "B");
    Ok(())
}

fn bytes(store: &Path) -> Result<f64> {
    Ok(std::fs::metadata(store.join(DATABASE))?.len() as f64)
}
