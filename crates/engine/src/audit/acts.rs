//! Acts as entries of the log: states and ids before and after, digests in place of contents.

use redrive_core::ids::{QueueName, RunId};
use redrive_core::ledger::EntryState;
use redrive_core::run::State;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{EffectOutcome, QueueSettings};
use serde_json::{Map, Value};

use crate::audit::{self, Actor, AuditedAct, digest, fields, hex, run_subject};
use crate::error::{Error, Result};
use crate::model::KeyRecord;
use crate::model::operations::{Bulk, NewOperation, Over};
use crate::model::triage::{Replay, Triage, TriageAct};
use crate::operations::row::public_id;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// Longer texts of settings are replaced by their digest.
const VALUE_MAX_BYTES: usize = 200;
/// Settings whose name contains one of these are masked.
const SECRET_NAMES: [&str; 4] = ["secret", "password", "token", "credential"];

fn text(label: Option<&Label>) -> Value {
    label.map_or(Value::Null, |label| label.as_str().into())
}

fn listed<'a>(words: Option<impl Iterator<Item = &'a str>>) -> Value {
    words.map_or(Value::Null, Iterator::collect)
}

fn queue_name(name: Option<&QueueName>) -> Value {
    name.map_or(Value::Null, |name| name.as_str().into())
}

/// What an act on a run may change.
pub fn run_state(row: &RunRow) -> Map<String, Value> {
    let because = match &row.run.state {
        State::Dead { because } => because.as_str().into(),
        State::Scheduled(_)
        | State::Running(_)
        | State::Review(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded
        | State::Merged(_) => Value::Null,
    };
    fields([
        ("state", row.run.state.name().as_str().into()),
        ("because", because),
        ("attempt", row.run.attempt.into()),
        ("revision", row.run.revision.into()),
    ])
}

/// An action on a run that was carried out; `before` is its [`run_state`] then.
pub fn triaged(tx: &mut Tx<'_>, act: &TriageAct, before: Map<String, Value>, row: &RunRow) -> Result<()> {
    let mut after = run_state(row);
    if let State::Review(review) = &row.run.state {
        after.insert("plan_hash".to_owned(), review.plan_hash.as_str().into());
    }
    after.extend(triage_fields(&act.triage));
    on_run(tx, act, verb(&act.triage), before, after, row)
}

/// An action that was refused after it had changed the run.
pub fn refused(tx: &mut Tx<'_>, act: &TriageAct, before: &RunRow, row: &RunRow, code: &str) -> Result<()> {
    let mut after = run_state(row);
    after.insert("refused".to_owned(), code.into());
    on_run(tx, act, verb(&act.triage), run_state(before), after, row)
}

fn on_run(
    tx: &mut Tx<'_>,
    act: &TriageAct,
    verb: &str,
    before: Map<String, Value>,
    after: Map<String, Value>,
    row: &RunRow,
) -> Result<()> {
    let tenant = tx.tenant_name(row.tenant)?;
    let audited = AuditedAct {
        action: format!("run.{verb}"),
        tenant: Some(&tenant),
        subject: run_subject(row.run_id.as_str()),
        before,
        after,
        reason: act.reason.as_ref(),
    };
    audit::record(tx, &act.actor, audited);
    Ok(())
}

fn verb(triage: &Triage) -> &'static str {
    match triage {
        Triage::Replay(_) => "replay",
        Triage::Cancel => "cancel",
        Triage::Resolve => "resolve",
        Triage::Discard => "discard",
        Triage::Note => "note",
        Triage::Review => "review",
        Triage::Approve { .. } => "approve",
        Triage::Reject => "reject",
        Triage::Defer { .. } => "defer",
        Triage::Reassign { .. } => "reassign",
        Triage::Assign { .. } => "assign",
        Triage::Merge { .. } => "merge",
        Triage::Unmerge => "unmerge",
    }
}

fn triage_fields(triage: &Triage) -> Map<String, Value> {
    match triage {
        Triage::Replay(replay) => replay_fields(replay),
        Triage::Approve { plan_hash, .. } => fields([("plan_hash", plan_hash.as_str().into())]),
        Triage::Defer { until } => fields([("until", until.to_string().into())]),
        Triage::Reassign { agent, queue } => {
            fields([("agent", text(agent.as_ref())), ("queue", queue_name(queue.as_ref()))])
        }
        Triage::Assign { to } => fields([("to", to.as_ref().map_or("", Label::as_str).into())]),
        Triage::Merge { into } => fields([("into", into.as_str().into())]),
        Triage::Cancel
        | Triage::Resolve
        | Triage::Discard
        | Triage::Note
        | Triage::Review
        | Triage::Reject
        | Triage::Unmerge => Map::new(),
    }
}

fn replay_fields(replay: &Replay) -> Map<String, Value> {
    fields([
        ("force", if replay.force { true.into() } else { Value::Null }),
        ("payload_digest", replay.fix.as_ref().map_or(Value::Null, |fix| hex(&fix.payload.digest).into())),
        ("instruction_sha256", replay.instruction.as_ref().map_or(Value::Null, |text| digest(text.token().as_bytes()))),
        ("model", text(replay.model.as_ref())),
        ("agent", text(replay.agent.as_ref())),
        ("queue", queue_name(replay.queue.as_ref())),
        ("from_step", text(replay.from_step.as_ref())),
    ])
}

/// An effect that a person settled. The subject is its run.
pub fn reconciled(
    tx: &mut Tx<'_>,
    actor: &Actor,
    at: (&redrive_core::ids::Tenant, &str, &str),
    (was, now): (EntryState, EffectOutcome),
    reason: Option<&Text>,
) {
    let (tenant, run_id, key) = at;
    let state = match was {
        EntryState::Started => "started",
        EntryState::Committed => "committed",
        EntryState::Failed => "failed",
        EntryState::Unknown => "unknown",
        EntryState::Reconciled(outcome) => outcome.as_str(),
    };
    let audited = AuditedAct {
        action: "effect.reconcile".to_owned(),
        tenant: Some(tenant),
        subject: run_subject(run_id),
        before: fields([("effect", key.into()), ("state", state.into())]),
        after: fields([("effect", key.into()), ("state", now.as_str().into())]),
        reason,
    };
    audit::record(tx, actor, audited);
}

/// An act on a pattern; `before` and `after` say what changed.
pub fn on_pattern(
    tx: &mut Tx<'_>,
    actor: &Actor,
    pattern: (i64, &str),
    verb: &str,
    (before, after): (Map<String, Value>, Map<String, Value>),
    reason: Option<&Text>,
) -> Result<()> {
    let (tenant, id) = pattern;
    let tenant = tx.tenant_name(tenant)?;
    let audited = AuditedAct {
        action: format!("pattern.{verb}"),
        tenant: Some(&tenant),
        subject: format!("pattern:{id}"),
        before,
        after,
        reason,
    };
    audit::record(tx, actor, audited);
    Ok(())
}

/// An act on a bulk operation. Its items are entries of their own under the same operation.
pub fn on_operation(
    tx: &mut Tx<'_>,
    actor: &Actor,
    id: i64,
    verb: &str,
    (before, after): (Map<String, Value>, Map<String, Value>),
    reason: Option<&Text>,
) {
    let id = public_id(id);
    let audited = AuditedAct {
        action: format!("operation.{verb}"),
        tenant: None,
        subject: format!("operation:{id}"),
        before,
        after,
        reason,
    };
    audit::record(tx, actor, audited);
    if let Some(entry) = tx.audit.last_mut() {
        entry.operation = Some(id);
    }
}

/// What a bulk operation is to do: digests stand for its filter and its fix.
pub fn operation_fields(new: &NewOperation) -> Map<String, Value> {
    let runs = match &new.over {
        Over::Filter(_) => Value::Null,
        Over::Runs(runs) => runs.len().into(),
    };
    let mut all = fields([
        ("action", new.bulk.action().as_str().into()),
        ("dry_run", new.dry_run.into()),
        ("filter_sha256", digest(new.filter.get().as_bytes())),
        ("runs", runs),
        ("rate_per_s", new.rate_per_s.map_or(Value::Null, Value::from)),
        ("canary", new.canary.as_ref().map_or(Value::Null, |canary| canary.size.into())),
    ]);
    all.extend(match &new.bulk {
        Bulk::Replay(replay) => {
            let fix = replay.fix.as_ref().and_then(|fix| serde_json::to_vec(fix).ok());
            fields([
                ("fix_sha256", fix.map_or(Value::Null, |fix| digest(&fix))),
                (
                    "instruction_sha256",
                    replay.instruction.as_ref().map_or(Value::Null, |text| digest(text.token().as_bytes())),
                ),
                ("model", text(replay.model.as_ref())),
                ("agent", text(replay.agent.as_ref())),
                ("queue", queue_name(replay.queue.as_ref())),
            ])
        }
        Bulk::Assign { to } => fields([("to", to.as_ref().map_or("", Label::as_str).into())]),
        Bulk::Reassign { agent, queue } => {
            fields([("agent", text(agent.as_ref())), ("queue", queue_name(queue.as_ref()))])
        }
        Bulk::Defer { until } => fields([("until", until.to_string().into())]),
        Bulk::Merge { into } => fields([("into", RunId::as_str(into).into())]),
        Bulk::Resolve | Bulk::Discard => Map::new(),
    });
    all
}

/// The settings of a queue that differ; nothing if none does.
pub fn queue_put(
    tx: &mut Tx<'_>,
    actor: &Actor,
    name: &QueueName,
    old: Option<&QueueSettings>,
    new: &QueueSettings,
) -> Result<()> {
    let value = |settings: &QueueSettings| {
        serde_json::to_value(settings).map_err(|error| Error::Unexpected(format!("queue {name}: {error}")))
    };
    let old = old.map(value).transpose()?.unwrap_or_default();
    let (before, after) = difference(&old, &value(new)?);
    if before.is_empty() && after.is_empty() {
        return Ok(());
    }
    let audited = AuditedAct {
        action: "queue.put".to_owned(),
        tenant: None,
        subject: format!("queue:{name}"),
        before,
        after,
        reason: None,
    };
    audit::record(tx, actor, audited);
    Ok(())
}

/// The fields of two objects that differ, at any depth.
fn difference(old: &Value, new: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let none = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
    let (mut before, mut after) = (Map::new(), Map::new());
    for name in old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))) {
        let (was, is) = (old.get(name).unwrap_or(&Value::Null), new.get(name).unwrap_or(&Value::Null));
        if was == is {
            continue;
        }
        if was.is_object() || is.is_object() {
            let (was, is) = difference(was, is);
            let put = |into: &mut Map<String, Value>, fields: Map<String, Value>| {
                if !fields.is_empty() {
                    into.insert(name.clone(), Value::Object(fields));
                }
            };
            put(&mut before, was);
            put(&mut after, is);
            continue;
        }
        before.insert(name.clone(), shown(name, was));
        after.insert(name.clone(), shown(name, is));
    }
    (before, after)
}

/// A setting as the log shows it.
fn shown(name: &str, value: &Value) -> Value {
    let lower = name.to_ascii_lowercase();
    if SECRET_NAMES.iter().any(|secret| lower.contains(secret)) && value.is_string() {
        return "***".into();
    }
    match value {
        Value::String(text) if text.len() > VALUE_MAX_BYTES => {
            Value::Object(fields([("sha256", digest(text.as_bytes())), ("bytes", text.len().into())]))
        }
        value => value.clone(),
    }
}

/// An act on a key: `create`, `rotate`, `revoke`, … The secret and its hash stay out.
pub fn on_key(tx: &mut Tx<'_>, actor: &Actor, verb: &str, id: &str, tenant: Option<&str>, after: Map<String, Value>) {
    let tenant = tenant.and_then(|tenant| tenant.parse().ok());
    let audited = AuditedAct {
        action: format!("key.{verb}"),
        tenant: tenant.as_ref(),
        subject: format!("key:{id}"),
        before: Map::new(),
        after,
        reason: None,
    };
    audit::record(tx, actor, audited);
}

/// What a key may do.
pub fn key_fields(key: &KeyRecord) -> Map<String, Value> {
    fields([
        ("role", key.role.as_str().into()),
        ("tenant", key.tenant.as_ref().map_or("*", |tenant| tenant.as_str()).into()),
        ("expires_at", key.expires_at.map_or(Value::Null, |at| at.to_string().into())),
        ("lineage", key.lineage.as_str().into()),
        ("name", text(key.name.as_ref())),
        ("scopes", listed(key.limits.scopes.as_ref().map(|scopes| scopes.iter().map(|scope| scope.as_str())))),
        ("queues", listed(key.limits.queues.as_ref().map(|queues| queues.iter().map(QueueName::as_str)))),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_differing_settings_are_shown() {
        let old = json!({"owner": "a", "retry_by": "worker", "policy": {"max_attempts": 3, "delay_ms": 10}});
        let new = json!({"owner": "b", "retry_by": "worker", "policy": {"max_attempts": 5, "delay_ms": 10}});
        let (before, after) = difference(&old, &new);
        assert_eq!(Value::Object(before), json!({"owner": "a", "policy": {"max_attempts": 3}}));
        assert_eq!(Value::Object(after), json!({"owner": "b", "policy": {"max_attempts": 5}}));
        let (before, after) = difference(&old, &old);
        assert!(before.is_empty() && after.is_empty());
    }

    #[test]
    fn secrets_and_long_texts_of_settings_stay_out() {
        let new = json!({"webhook_secret": "hush", "runbook": "x".repeat(300)});
        let (_, after) = difference(&Value::Null, &new);
        let shown = Value::Object(after).to_string();
        assert!(!shown.contains("hush") && !shown.contains("xxx") && shown.contains("\"bytes\":300"), "{shown}");
    }
}
