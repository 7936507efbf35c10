//! `redrive store check`: damage, and counters against a recount. Exits with 0 when all is fine, 1 when something needs
//! action, 2 when it can't look.

use redrive_store::Miscounted;

use crate::commands::direct::{self, Visit};
use crate::commands::doctor::{conclude, unlooked};
use crate::config::StorePlace;
use crate::doctor::{Finding, Severity, database, integrity, setup};
use crate::out::Out;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: StorePlace,
    /// Where counters are off, count them anew: one commit, which reports wait for
    #[arg(long)]
    recount: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> anyhow::Result<()> {
    let place = args.place.find()?;
    let mut store = direct::open(&place).map_err(|error| unlooked(&error))?;
    let mut findings = match &mut store {
        Visit::Folder(store) => {
            let mut findings = setup(store);
            findings.extend(integrity(store, true));
            findings
        }
        Visit::Database(store) => database(store),
    };
    findings.push(counters(&mut store, args.recount));
    conclude(&findings, &place, args.json, out)
}

fn counters(store: &mut Visit, recount: bool) -> Finding {
    let off = match store.miscounted() {
        Ok(off) => off,
        Err(error) => return Finding::unreadable("counters", error),
    };
    if off.is_none() {
        return Finding::fine("counters", "every counter is what a recount says");
    }
    if !recount {
        let what = "Count them anew: `redrive store check --recount`. Lists and leases are right all the same.";
        return Finding::new(Severity::Action, "counters", said(off), what);
    }
    match store.recount().and_then(|()| store.miscounted()) {
        Ok(off_still) if off_still.is_none() => {
            Finding::fine("counters", format!("{}; they were counted anew", said(off)))
        }
        Ok(off_still) => {
            let what = "Stop the servers and try again.";
            Finding::new(Severity::Danger, "counters", format!("after a recount still {}", said(off_still)), what)
        }
        Err(error) => Finding::unreadable("counters", error),
    }
}

fn said(off: Miscounted) -> String {
    let Miscounted { counts, totals, patterns } = off;
    format!("off: {counts} of tenants and queues, {totals} over all tenants, {patterns} of patterns")
}
