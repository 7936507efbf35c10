//! `POST /v1/leases` hands out due runs and waits for them if asked to; `POST /v1/heartbeats` renews many leases at once.

use std::collections::HashSet;
use std::time::Duration;

use redrive_core::ids::QueueName;
use redrive_core::policy::PolicyLayer;
use redrive_core::text::Label;
use redrive_core::wire::{
    BeatAnswer, HeartbeatsAnswer, HeartbeatsRequest, LeaseBeat, LeaseRequest, LeasedRun, LeasesAnswer,
};
use redrive_engine::{LeaseCall, UnderLease};
use tokio::time::Instant;

use crate::app::App;
use crate::auth::{Caller as _, Principal, Worker};
use crate::body::Json;
use crate::budget::BudgetShare;
use crate::budget::Reserved;
use crate::call::{ApiCall, Reply};
use crate::capture::lease_token;
use crate::limits::{
    HEARTBEATS_MAX, LEASE_PAYLOAD_MAX_BYTES, LEASES_DEFAULT, LEASES_MAX, WAIT_MS_MAX, WAITING_CALL_BYTES,
    WAITING_FACTOR,
};
use crate::prepare;
use crate::problem::{Code, HttpProblem, Result};
use crate::query::TenantQuery;

/// Wake-ups may get lost or concern another replica, so a waiting call polls this often.
const POLL_EVERY: Duration = Duration::from_millis(250);
/// Larger answers are serialised on a blocking thread.
const LEASES_SMALL: usize = 100;
const WAITING_RETRY_AFTER_S: u32 = 5;
/// The least time between two polls, whatever the rate of wake-ups.
const POLL_GAP: Duration = Duration::from_millis(10);

pub(crate) async fn lease(
    app: App,
    call: ApiCall<Worker, (), TenantQuery, Json<LeaseRequest>>,
) -> Result<Reply<LeasesAnswer>> {
    if app.is_stopping() {
        return Err(HttpProblem::plain(Code::Closing).retry_after_s(1));
    }
    let cost = WAITING_CALL_BYTES + WAITING_FACTOR * call.body.raw.len();
    // A waiting call must not hold memory that reports need.
    let request = call.body.into_value();
    let wait = Duration::from_millis(wait_ms(&request)?);
    let asked = lease_call(&call.who, &call.query, request)?;
    let waiting = Waiting { time: wait, share: app.waiting_bytes.share(call.who.holder()), cost };
    let (leases, reserved) = take(&app, &call.who, asked, waiting).await?;
    let answer = LeasesAnswer { leases: prepare::leases(&app, leases).await };
    let reply = if answer.leases.len() > LEASES_SMALL { Reply::large(answer) } else { Reply::ok(answer) };
    Ok(reply.within(reserved))
}

fn wait_ms(request: &LeaseRequest) -> Result<u64> {
    let wait_ms = request.wait_ms.unwrap_or(0);
    if wait_ms > WAIT_MS_MAX {
        return Err(HttpProblem::invalid_field("wait_ms", format_args!("must be at most {WAIT_MS_MAX}")));
    }
    Ok(wait_ms)
}

fn lease_call(who: &Principal, query: &TenantQuery, request: LeaseRequest) -> Result<LeaseCall> {
    let named = match (&query.tenant, &request.tenant) {
        (Some(one), Some(other)) if one != other => return Err(HttpProblem::plain(Code::WrongTenant)),
        (one, other) => one.as_ref().or(other.as_ref()),
    };
    let max = request.max.unwrap_or(LEASES_DEFAULT);
    if !(1..=LEASES_MAX).contains(&max) {
        return Err(HttpProblem::invalid_field("max", format_args!("must be from 1 to {LEASES_MAX}")));
    }
    lease_ms_in_range(request.lease_ms)?;
    Ok(LeaseCall {
        scope: who.scope(named)?,
        queues: queues(&request.queues)?,
        agents: request.agents,
        max,
        lease_ms: request.lease_ms,
        worker: request.worker,
        versions: request.versions,
        payload_max_bytes: LEASE_PAYLOAD_MAX_BYTES,
        by: who.mark(),
        request_id: request.request_id,
    })
}

fn lease_ms_in_range(lease_ms: Option<u64>) -> Result<()> {
    let asked = PolicyLayer { lease_ms, ..PolicyLayer::default() };
    asked.check().map_err(|bad| HttpProblem::invalid_field(bad.field, format_args!("must be {}", bad.must_be)))
}

/// Queue names without duplicates; `*` alone means every queue.
fn queues(named: &[Label]) -> Result<Vec<QueueName>> {
    match named {
        [] => Err(HttpProblem::invalid_field("queues", "must name a queue, or be [\"*\"] for all")),
        [all] if all.as_str() == "*" => Ok(Vec::new()),
        names => {
            let parse = |(i, name): (usize, &Label)| {
                name.as_str().parse().map_err(|_| HttpProblem::bad_id(&format!("queues[{i}]")))
            };
            let mut queues: Vec<QueueName> = names.iter().enumerate().map(parse).collect::<Result<_>>()?;
            let mut met = HashSet::new();
            queues.retain(|queue| met.insert(queue.clone()));
            Ok(queues)
        }
    }
}

/// How long a call waits, and the memory it is charged for meanwhile.
struct Waiting {
    time: Duration,
    share: BudgetShare,
    cost: usize,
}

impl Waiting {
    fn begin(&mut self) -> Result<()> {
        let many = "too many lease calls are waiting: retry later, or with fewer workers";
        let full = |_| HttpProblem::new(Code::Busy, many).retry_after_s(WAITING_RETRY_AFTER_S);
        self.share.grow(self.cost).map_err(full)
    }
}

/// Claims again on every wake-up until there is work, the time is up, or the server stops.
async fn take(
    app: &App,
    who: &Principal,
    asked: LeaseCall,
    mut waiting: Waiting,
) -> Result<(Vec<LeasedRun>, Option<Reserved>)> {
    let began = Instant::now();
    let mut hints = app.store.wakeups();
    let mut stopping = app.stopping();
    let time_up = tokio::time::sleep(waiting.time);
    tokio::pin!(time_up);
    let mut first = true;
    loop {
        hints.mark_unchanged();
        // Leased runs have to be sent, whatever their size, so the answer's memory is reserved before the claim.
        let reserved = app.answers.reserve(&who.holder(), asked.payload_max_bytes)?;
        let leases = app.store.lease(LeaseCall { payload_max_bytes: reserved.bytes, ..asked.clone() }).await?;
        if !leases.is_empty() {
            app.metrics.record_lease_wait(began.elapsed());
        }
        if !leases.is_empty() || waiting.time.is_zero() || time_up.is_elapsed() {
            return Ok((leases, Some(reserved)));
        }
        // A waiting call reserves nothing.
        drop(reserved);
        if std::mem::take(&mut first) {
            waiting.begin()?;
        }
        tokio::select! {
            () = &mut time_up => {}
            _ = stopping.wait_for(|stopping| *stopping) => return Ok((leases, None)),
            () = hint(&mut hints) => {}
        }
        // The key may have been revoked while the call waited.
        app.keyring.identify_hash(who.key_hash(), app.store.as_ref()).await?;
    }
}

async fn hint(hints: &mut tokio::sync::watch::Receiver<u64>) {
    tokio::time::sleep(POLL_GAP).await;
    // A closed channel gives no wake-ups: poll by time alone.
    let changed = async {
        if hints.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let _ = tokio::time::timeout(POLL_EVERY, changed).await;
}

pub(crate) async fn renew(
    app: App,
    call: ApiCall<Worker, (), TenantQuery, Json<HeartbeatsRequest>>,
) -> Result<Reply<HeartbeatsAnswer>> {
    let leases = call.body.value.leases;
    if leases.len() > HEARTBEATS_MAX {
        return Err(HttpProblem::invalid_field("leases", format_args!("must be at most {HEARTBEATS_MAX}")));
    }
    let asked: Vec<_> = leases.iter().map(|beat| under_lease(&call.who, &call.query, beat)).collect();
    let mut renewed =
        app.store.heartbeats(asked.iter().filter_map(|under| under.as_ref().ok()).cloned().collect()).await;
    let mut renewed = renewed.drain(..);
    let answers = leases.into_iter().zip(asked).map(|(beat, under)| {
        let answer = under
            .and_then(|_| renewed.next().unwrap_or(Err(redrive_engine::Error::Closing)).map_err(HttpProblem::from));
        let (lease_expires_at, code) = match answer {
            Ok(at) => (Some(at), None),
            Err(problem) => (None, Some(problem.code.as_str().to_owned())),
        };
        BeatAnswer { run_id: beat.run_id, lease_expires_at, code }
    });
    Ok(Reply::ok(HeartbeatsAnswer { leases: answers.collect() }))
}

fn under_lease(who: &Principal, query: &TenantQuery, beat: &LeaseBeat) -> Result<UnderLease> {
    let at = who.run(&[query.tenant.as_ref(), beat.tenant.as_ref()], beat.run_id.clone())?;
    Ok(UnderLease { at, lease: lease_token(&beat.lease)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_means_every_queue_and_none_is_refused() {
        assert_eq!(queues(&["*".into()]).unwrap(), []);
        assert_eq!(queues(&["a".into(), "b".into(), "a".into()]).unwrap().len(), 2);
        assert_eq!(queues(&[]).unwrap_err().code, Code::InvalidField);
        assert_eq!(queues(&["a".into(), "*".into()]).unwrap_err().code, Code::BadId);
    }

    #[test]
    fn a_lease_is_between_half_a_second_and_a_day() {
        for (lease_ms, fits) in [(499, false), (500, true), (86_400_000, true), (86_400_001, false)] {
            assert_eq!(lease_ms_in_range(Some(lease_ms)).is_ok(), fits, "{lease_ms}");
        }
    }
}
