//! What describes a run, with its defaults, ready to be kept.

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::wire::{RunFields, Severity};
use redrive_store::{About, NewRun};

use super::captured::encoded;
use super::payload::payload;
use crate::problem::Result;

pub(super) const ENVIRONMENT_DEFAULT: &str = "production";

pub(crate) fn new_run(fields: RunFields, tenant: Tenant) -> Result<NewRun> {
    let payload = payload(fields.payload.as_ref(), fields.payload_base64.as_deref(), fields.payload_omitted.as_ref())?;
    let about = About {
        content_type: fields.content_type,
        headers: fields.headers,
        versions: fields.versions,
        links: fields.links,
        destination: fields.destination,
        payload_omitted: fields.payload_omitted,
    };
    Ok(NewRun {
        tenant,
        run_id: fields.run_id,
        queue: fields.queue.unwrap_or_else(QueueName::default_queue),
        agent: fields.agent,
        task_type: fields.task_type,
        customer: fields.customer,
        model: fields.model,
        provider: fields.provider,
        environment: fields.environment.unwrap_or_else(|| ENVIRONMENT_DEFAULT.into()),
        severity: fields.severity.unwrap_or(Severity::Normal),
        idempotency_key: fields.idempotency_key,
        order_key: fields.order_key,
        resumable: fields.resumable,
        payload,
        about: encoded(&about)?,
        by: None,
    })
}
