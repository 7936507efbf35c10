//! Reports coming in while retention removes a tenth of a large store, beside the same store with nothing to remove.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use redrive_engine::SystemClock;
use redrive_store::sqlite::Visit;
use rusqlite::Connection;

use crate::Plan;
use crate::figures::{Figures, median, median_ratio};
use crate::ingest::{CONNECTIONS, fill, one_a_request};
use crate::load::LoadResult;
use crate::process::{Server, StoreLocation};
use crate::raw::DATABASE;

/// Resolves every tenth run, as if a person had done it just now.
const RESOLVE: &str = "UPDATE runs SET state = 6, detail = 0, due = NULL, wake = NULL, held_by = NULL, ended_as = 0,
     ended_at = updated_at WHERE id % 10 = 0";
/// Lets their time be over.
const EXPIRE: &str = "UPDATE runs SET ended_at = 0 WHERE ended_as = 0";

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    println!("Reports, one a request, while retention removes a tenth of {} runs", plan.large);
    let folder = tempfile::tempdir_in("target")?;
    let filled = folder.path().join("filled");
    let server = Server::start(&plan.redrive, StoreLocation::Folder(&filled))?;
    fill(&server, plan.large).await?;
    server.stop()?;
    Connection::open(filled.join(DATABASE))?.execute_batch(RESOLVE)?;
    let visit = Visit::open(&filled, Arc::new(SystemClock)).map_err(redrive_store::classify)?;
    visit.recount().map_err(redrive_store::classify)?;
    drop(visit);
    let (mut without, mut with, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..plan.pairs {
        let [quiet, busy] = ["quiet", "busy"].map(|name| folder.path().join(format!("{name}-{pair}")));
        for to in [&quiet, &busy] {
            std::fs::create_dir(to)?;
            std::fs::copy(filled.join(DATABASE), to.join(DATABASE))?;
        }
        without.push(load(plan, &quiet).await?.p99_ms);
        Connection::open(busy.join(DATABASE))?.execute_batch(EXPIRE)?;
        let before = resolved(&busy)?;
        with.push(load(plan, &busy).await?.p99_ms);
        removed.push(before - resolved(&busy)?);
        for used in [quiet, busy] {
            std::fs::remove_dir_all(used)?;
        }
    }
    let slower = median_ratio(&with, &without);
    ensure!(removed.iter().all(|removed| *removed > 0.0), "retention has removed nothing");
    figures.note("p99 of reports without retention", median(without), "ms");
    figures.note("p99 of reports while retention removes", median(with), "ms");
    figures.note("runs removed meanwhile", median(removed), "");
    figures.at_most("p99 while retention removes, to without", slower, "x", 2.0);
    Ok(())
}

async fn load(plan: &Plan, store: &Path) -> Result<LoadResult> {
    let server = Server::start(&plan.redrive, StoreLocation::Folder(store))?;
    let seen = one_a_request(&server, "retention", plan.runs, CONNECTIONS).await?;
    server.stop()?;
    Ok(seen)
}

fn resolved(store: &Path) -> Result<f64> {
    let conn = Connection::open(store.join(DATABASE))?;
    Ok(conn.query_row("SELECT count(*) FROM runs WHERE state = 6", [], |row| row.get(0))?)
}
