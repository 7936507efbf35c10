//! Entries with the field names of the Elastic Common Schema, for log stores.

use serde_json::{Map, Value};

use super::ChainedEntry;
use crate::text::decode_token;

const ECS_VERSION: &str = "8.17.0";

/// One line of an export, without its end. It holds every field of the entry, so that the chain can be computed again.
pub fn ecs_line(entry: &ChainedEntry) -> String {
    let ChainedEntry { seq, record, hash } = entry;
    let refused = record.after.as_deref().is_some_and(|after| after.contains("\"refused\":"));
    let fields: [(&str, Value); 21] = [
        ("@timestamp", record.at.to_string().into()),
        ("ecs.version", ECS_VERSION.into()),
        ("event.module", "redrive".into()),
        ("event.dataset", "redrive.audit".into()),
        ("event.kind", "event".into()),
        ("event.category", vec![category(&record.action)].into()),
        ("event.type", vec![kind(&record.action)].into()),
        ("event.action", record.action.as_str().into()),
        ("event.outcome", if refused { "failure" } else { "success" }.into()),
        ("event.sequence", (*seq).into()),
        ("event.hash", hash.to_string().into()),
        ("event.reason", record.reason.as_deref().map(decode_token).map_or(Value::Null, |reason| (*reason).into())),
        ("user.name", record.actor.as_str().into()),
        ("user.roles", record.role.as_ref().map_or(Value::Null, |role| vec![role.as_str()].into())),
        ("source.ip", text(record.from.as_ref())),
        ("http.request.id", text(record.request_id.as_ref())),
        ("organization.id", text(record.tenant.as_ref())),
        ("labels.subject", record.subject.as_str().into()),
        ("labels.operation", text(record.operation.as_ref())),
        ("labels.before", text(record.before.as_ref())),
        ("labels.after", text(record.after.as_ref())),
    ];
    let known = fields.into_iter().filter(|(_, value)| !value.is_null());
    let line: Map<String, Value> = known.map(|(name, value)| (name.to_owned(), value)).collect();
    Value::Object(line).to_string()
}

fn text(value: Option<&String>) -> Value {
    value.map_or(Value::Null, |value| value.as_str().into())
}

fn category(action: &str) -> &'static str {
    match action.split('.').next() {
        Some("key") => "iam",
        Some("queue" | "audit") => "configuration",
        _ => "api",
    }
}

fn kind(action: &str) -> &'static str {
    match action.rsplit('.').next() {
        Some("create") => "creation",
        Some("revoke" | "trim" | "erase") => "deletion",
        Some("export") => "access",
        _ => "change",
    }
}
