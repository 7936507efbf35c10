//! `GET /v1/runs/{run_id}/attempts/{attempt}/sent`: what an attempt got, and how it differs from its revision's payload.

use redrive_core::ids::RunId;
use redrive_core::json::{Tape, diff};
use redrive_core::wire::SentAnswer;
use redrive_store::{RunRef, Sent};

use crate::app::App;
use crate::auth::AnyKey;
use crate::budget::Holder;
use crate::call::{Call, Reply};
use crate::path::AttemptNumber;
use crate::problem::Result;
use crate::query::OfTenant;
use crate::tasks::compute;

pub(crate) async fn get(app: App, call: Call<AnyKey, (RunId, AttemptNumber), OfTenant>) -> Result<Reply<SentAnswer>> {
    let (run_id, AttemptNumber(attempt)) = call.path;
    let at = call.who.run(&[call.query.tenant.as_ref()], run_id)?;
    call.who.may_read(app.store.as_ref(), &at).await?;
    let turn = app.answers.turn(call.who.holder()).await?;
    Ok(Reply::large(read(&app, at, attempt).await?).under(turn))
}

pub(crate) async fn read(app: &App, at: RunRef, attempt: u32) -> Result<SentAnswer> {
    let sent = app.store.sent(&at, attempt).await?;
    let bytes = sent.sent.as_ref().map_or(0, |sent| 2 * sent.get().len());
    let holder = Holder::Tenant(at.tenant.clone());
    compute(app, &holder, bytes, move || Ok(answer(at, sent))).await
}

fn answer(at: RunRef, sent: Sent) -> SentAnswer {
    let (diff, diff_cut) = match (&sent.original, &sent.sent) {
        (Some(original), Some(sent)) => match (Tape::of(original.get()), Tape::of(sent.get())) {
            (Some(original), Some(sent)) => diff(&original, &sent),
            (None, _) | (_, None) => (Vec::new(), true),
        },
        (None, _) | (_, None) => (Vec::new(), false),
    };
    let changed = sent.sent.is_some();
    SentAnswer {
        run_id: at.run_id,
        tenant: at.tenant,
        attempt: sent.attempt,
        revision: sent.revision,
        changed,
        changes: sent.changes,
        payload: sent.sent.or(sent.original),
        payload_base64: sent.original_base64,
        diff,
        diff_cut,
    }
}
