//! Claims while somebody holds a transaction open, so that nothing that was claimed before can be vacuumed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use private_postgres::Database;
use redrive_engine::Store;

use super::server::{Dataset, Postgres, connect, copy, number, open};
use crate::Plan;
use crate::claims::{claim, resolve, successes};
use crate::figures::Figures;

const EACH: u32 = 100;
/// A claim, and its runs resolved, is begun this often: what is measured is one claim's wait, not how many there could be.
const EVERY: Duration = Duration::from_millis(150);
/// Claims that are looked at, without the reader and at the end with it.
const LOOKED_AT: usize = 500;
/// Between two looks at how many dead tuples there are.
const PIECE: usize = 50;
const DEAD_MIN: f64 = 100_000.0;
const HELD_MIN: Duration = Duration::from_secs(120);
/// Rows of runs that no longer count, as the last statistics have it.
const DEAD: &str = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'runs'";

pub async fn measure(plan: &Plan, figures: &mut Figures, postgres: &Postgres) -> Result<()> {
    println!("Claims of {EACH} while a reader holds a transaction and dead tuples pile up");
    let database = copy(postgres, Dataset::Due, plan.large).await?;
    let store = open(&database).await?;
    let mut claims = Claims { took_ms: Vec::new(), stamped: Instant::now() };
    claims.some(&*store, LOOKED_AT).await?;
    let (p50, p99) = claims.last();
    let reader = connect(database.url()).await?;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tenants").await?;
    let held = Instant::now();
    while dead(&database)? < DEAD_MIN || held.elapsed() < HELD_MIN {
        claims.some(&*store, PIECE).await?;
    }
    let (held_p50, held_p99) = claims.last();
    figures.note("dead tuples of runs at the end", dead(&database)?, "");
    figures.note("the reader's transaction was open for", held.elapsed().as_secs_f64(), "s");
    store.close().await;
    reader.batch_execute("ROLLBACK").await?;
    figures.note("claim of 100, no reader: p50", p50, "ms");
    figures.note("claim of 100, no reader: p99", p99, "ms");
    figures.note("claim of 100, reader and dead tuples: p50", held_p50, "ms");
    figures.note("claim of 100, reader and dead tuples: p99", held_p99, "ms");
    figures.at_most("claims with a reader and dead tuples, to without: p99", held_p99 / p99, "x", 2.0);
    Ok(())
}

fn dead(database: &Database) -> Result<f64> {
    number(database, DEAD)
}

/// How long claims took.
struct Claims {
    took_ms: Vec<f64>,
    stamped: Instant,
}

impl Claims {
    async fn some(&mut self, store: &dyn Store, count: usize) -> Result<()> {
        let mut ticks = tokio::time::interval(EVERY);
        for _ in 0..count {
            ticks.tick().await;
            let began = Instant::now();
            let leased = claim(store, EACH).await?;
            self.took_ms.push(began.elapsed().as_secs_f64() * 1e3);
            ensure!(leased.len() == EACH as usize, "{} were due: ask for more with --large", leased.len());
            resolve(store, successes(&leased)?).await?;
            // As every server does.
            if self.stamped.elapsed() >= Duration::from_secs(1) {
                self.stamped = Instant::now();
                store.stamp("bench").await?;
            }
        }
        Ok(())
    }

    /// p50 and p99 of the last ones.
    fn last(&self) -> (f64, f64) {
        let mut last = self.took_ms[self.took_ms.len().saturating_sub(LOOKED_AT)..].to_vec();
        last.sort_by(f64::total_cmp);
        (last[last.len() / 2], last[last.len() * 99 / 100])
    }
}
