//! Two replicas compared with one on the same PostgreSQL: what the second one adds on this machine, and which process is
//! the bottleneck.

use anyhow::Result;

use super::server::{CpuTime, Postgres};
use crate::Plan;
use crate::figures::{Figures, median, per_second};
use crate::ingest::{CONNECTIONS, LINES, many_a_request, one_a_request};
use crate::process::{Server, StoreLocation};

const REQUESTS_AT_ONCE: usize = 4;

pub async fn measure(plan: &Plan, figures: &mut Figures, postgres: &Postgres) -> Result<()> {
    println!("One replica and two on the same PostgreSQL");
    for (work, lines) in [("one a request, 64 connections", 1), ("NDJSON of 1,000, 4 connections", LINES)] {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        for pair in 0..plan.pairs {
            one.push(rate(plan, postgres, 1, lines, None).await?);
            let note = (pair == 0).then_some((&mut *figures, work));
            two.push(rate(plan, postgres, 2, lines, note).await?);
        }
        let (one, two) = (median(one), median(two));
        figures.note(format!("{work}: one replica"), one, "/s");
        figures.note(format!("{work}: two replicas"), two, "/s");
        figures.note(format!("{work}: two replicas to one"), two / one, "x");
    }
    Ok(())
}

/// Reports a second over so many replicas, each with its share of the connections.
async fn rate(
    plan: &Plan,
    postgres: &Postgres,
    replicas: usize,
    lines: u64,
    note: Option<(&mut Figures, &str)>,
) -> Result<f64> {
    let database = postgres.store().await?;
    postgres.sql("CHECKPOINT")?;
    let servers: Vec<Server> = (0..replicas)
        .map(|_| Server::start(&plan.redrive, StoreLocation::Database(database.url())))
        .collect::<Result<_>>()?;
    let each = plan.runs / replicas as u64;
    let spent = CpuTime::since(postgres, &servers.iter().collect::<Vec<_>>())?;
    let load = |n: usize| {
        let server = &servers[n];
        async move {
            let series = format!("r{n}");
            if lines == 1 {
                one_a_request(server, &series, each, CONNECTIONS / replicas).await
            } else {
                many_a_request(server, &series, 0..each, REQUESTS_AT_ONCE / replicas).await
            }
        }
    };
    // They begin together; the last one's end is the end.
    let took = if replicas == 1 {
        load(0).await?.took
    } else {
        let (first, second) = tokio::try_join!(load(0), load(1))?;
        first.took.max(second.took)
    };
    if let Some((figures, work)) = note {
        spent.note(figures, &format!("two replicas, {work}"), plan.runs, took)?;
    }
    servers.into_iter().try_for_each(Server::stop)?;
    Ok(per_second(each * replicas as u64, took))
}
