//! `POST /v1/preflight`: whether a payload fits its model, before the call costs anything.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::policy::Policy;
use redrive_core::preflight::{Asked, check};
use redrive_core::text::Label;
use redrive_core::wire::{PreflightAnswer, PreflightRequest, RawJson};
use redrive_engine::RunRef;

use crate::app::App;
use crate::auth::{Principal, Worker};
use crate::body::Json;
use crate::call::{ApiCall, Reply};
use crate::problem::{HttpProblem, Result};
use crate::query::TenantQuery;
use crate::tasks::compute;

pub(crate) async fn post(
    app: App,
    call: ApiCall<Worker, (), TenantQuery, Json<PreflightRequest>>,
) -> Result<Reply<PreflightAnswer>> {
    let Json { value, raw, held: _held } = call.body;
    let tenant = call.who.tenant(&[call.query.tenant.as_ref(), value.tenant.as_ref()])?;
    let queue = value.queue.clone().unwrap_or_else(QueueName::default_queue);
    let policy = app.store.policy(&tenant, &queue).await?;
    let last = match &value.run_id {
        Some(run_id) => last_real_count(&app, &call.who, tenant, run_id).await?,
        None => None,
    };
    Ok(Reply::ok(compute(&app, &call.who.holder(), raw.len(), move || answer(value, &policy, last.as_ref())).await?))
}

/// A payload with the token count that a provider reported.
struct CountedPayload {
    payload: RawJson,
    input_tokens: u64,
    model: Option<Label>,
}

/// The newest attempt with a reported count. A run that is absent or not the worker's own calibrates nothing.
async fn last_real_count(app: &App, who: &Principal, tenant: Tenant, run_id: &RunId) -> Result<Option<CountedPayload>> {
    let at = RunRef { tenant, run_id: run_id.clone() };
    if who.may_read(app.store.as_ref(), &at).await.is_err() {
        return Ok(None);
    }
    let Ok(run) = app.store.run(&at).await else { return Ok(None) };
    let counted = run.body.attempts.iter().rev().find_map(|attempt| {
        let input_tokens = attempt.usage.as_ref().and_then(|usage| usage.input_tokens).filter(|tokens| *tokens > 0)?;
        Some((attempt.attempt, input_tokens, attempt.model.clone().or_else(|| run.summary.model.clone())))
    });
    let Some((attempt, input_tokens, model)) = counted else { return Ok(None) };
    let sent = app.store.sent(&at, attempt).await?;
    Ok(sent.sent.or(sent.original).map(|payload| CountedPayload { payload, input_tokens, model }))
}

fn answer(request: PreflightRequest, policy: &Policy, last: Option<&CountedPayload>) -> Result<PreflightAnswer> {
    let payload = payload(&request)?;
    let shape = &policy.payload;
    let model = request.model.as_ref().map(Label::as_str);
    let calibration = last.map(|counted| {
        let model = counted.model.as_ref().map(Label::as_str);
        let asked = Asked { payload: counted.payload.get(), shape, model, output_tokens: None, calibration: None };
        (counted.input_tokens, check(&asked, &policy.models).estimate.tokens)
    });
    let asked = Asked { payload: &payload, shape, model, output_tokens: request.max_output_tokens, calibration };
    let found = check(&asked, &policy.models);
    Ok(PreflightAnswer::of(found, request.run_id.filter(|_| calibration.is_some())))
}

/// The payload as text; bytes are converted lossily.
fn payload(request: &PreflightRequest) -> Result<String> {
    match (&request.payload, &request.payload_base64) {
        (Some(json), None) => Ok(json.get().to_owned()),
        (None, Some(text)) => {
            let bytes =
                STANDARD.decode(text).map_err(|_| HttpProblem::invalid_field("payload_base64", "is not base64"))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        (Some(_), Some(_)) => Err(HttpProblem::invalid_field("payload_base64", "can't be combined with `payload`")),
        (None, None) => Err(HttpProblem::invalid_field("payload", "or `payload_base64` is required")),
    }
}
