//! `POST /v1/runs/{run_id}/replay`: another attempt, on a person's word, with whatever is to be different.

use redrive_core::ids::RunId;
use redrive_core::wire::{ReplayAnswer, ReplayRequest};
use redrive_store::{Act, Error, Replay, RunRef, Triage, Triaged};

use crate::app::App;
use crate::auth::{Identity, TenantReader};
use crate::body::HeldJson;
use crate::budget::Holder;
use crate::call::{Call, Reply};
use crate::capture;
use crate::problem::{Code, Problem, Result};
use crate::query::OfTenant;
use crate::tasks::compute;

/// How often a fix is made anew when somebody else's came first.
const TRIES: usize = 3;

pub(crate) async fn post(
    app: App,
    call: Call<TenantReader, RunId, OfTenant, HeldJson<ReplayRequest>>,
) -> Result<Reply<ReplayAnswer>> {
    let HeldJson { value: request, bytes, held: _held } = call.body;
    let named = [call.query.tenant.as_ref(), request.tenant.as_ref()];
    may_force(&call.who, &request)?;
    let at = call.who.run(&named, call.path)?;
    Ok(Reply::ok(replay_as(&app, &call.who, &at, request, bytes).await?))
}

/// On the word of whoever asks; `bytes` is how much there was to read.
pub(crate) async fn replay_as(
    app: &App,
    who: &Identity,
    at: &RunRef,
    request: ReplayRequest,
    bytes: usize,
) -> Result<ReplayAnswer> {
    may_force(who, &request)?;
    let Triaged { answer, attempt, revision, review } = replay(app, at, &who.actor(), request, bytes).await?;
    let (run_id, tenant, state) = (answer.run_id, answer.tenant, answer.state);
    let (plan_hash, expires_at) = review.unzip();
    Ok(ReplayAnswer { run_id, tenant, state, attempt, revision, plan_hash, expires_at })
}

/// The role before the look-up, like everywhere.
fn may_force(who: &Identity, request: &ReplayRequest) -> Result<()> {
    if request.force && !who.may_force() {
        return Err(Problem::new(Code::Forbidden, "only an operator may force"));
    }
    if request.force && request.reason.as_ref().is_none_or(|reason| reason.decode().trim().is_empty()) {
        return Err(Problem::plain(Code::ReasonRequired));
    }
    Ok(())
}

async fn replay(app: &App, at: &RunRef, actor: &str, request: ReplayRequest, bytes: usize) -> Result<Triaged> {
    for _ in 1..TRIES {
        match try_replay(app, at, actor, request.clone(), bytes).await? {
            Err(Error::RevisionChanged) => {}
            done => return Ok(done?),
        }
    }
    Ok(try_replay(app, at, actor, request, bytes).await??)
}

async fn try_replay(
    app: &App,
    at: &RunRef,
    actor: &str,
    request: ReplayRequest,
    bytes: usize,
) -> Result<redrive_store::Result<Triaged>> {
    let reason = request.reason.clone();
    let replay = prepared(app, at, request, bytes).await?;
    let act = Act { at: at.clone(), triage: Triage::Replay(Box::new(replay)), actor: actor.to_owned(), reason };
    Ok(app.store.triage(act).await)
}

/// The request with its fix made from the payload as it is now.
pub(crate) async fn prepared(app: &App, at: &RunRef, request: ReplayRequest, bytes: usize) -> Result<Replay> {
    capture::check_replay(&request)?;
    let current = match &request.fix {
        Some(_) => Some(app.store.revision(at, None).await?),
        None => None,
    };
    let payload =
        current.as_ref().and_then(|current| current.payload.as_ref()).map_or(0, |payload| payload.get().len());
    let (max_bytes, holder) = (app.limits.body_max_bytes, Holder::Tenant(at.tenant.clone()));
    compute(app, &holder, bytes + payload, move || capture::replay(&request, current.as_ref(), max_bytes)).await
}
