//! Bodies with nothing said but what must be: the rest is set field by field.

use std::collections::BTreeMap;

use redrive_core::ids::RunId;
use redrive_core::text::Text;
use redrive_core::wire::{ErrorReport, FailureReport, Mode, StartRequest};

/// A start of `run_id` with nothing else said; set the fields that matter.
pub fn start(run_id: RunId) -> StartRequest {
    StartRequest {
        run_id,
        tenant: None,
        queue: None,
        agent: None,
        task_type: None,
        payload: None,
        payload_base64: None,
        payload_omitted: None,
        content_type: None,
        headers: BTreeMap::new(),
        idempotency_key: None,
        order_key: None,
        environment: None,
        customer: None,
        severity: None,
        versions: BTreeMap::new(),
        model: None,
        provider: None,
        resumable: None,
        links: BTreeMap::new(),
        destination: None,
        mode: Mode::Start,
        start_id: None,
        lease_ms: None,
        idle_ms: None,
        deadline_ms: None,
        due_at: None,
    }
}

/// A failure of `run_id` with nothing but its message; set the fields that matter.
pub fn failure(run_id: RunId, message: &str) -> FailureReport {
    FailureReport {
        run_id,
        tenant: None,
        queue: None,
        agent: None,
        task_type: None,
        payload: None,
        payload_base64: None,
        payload_omitted: None,
        content_type: None,
        headers: BTreeMap::new(),
        idempotency_key: None,
        order_key: None,
        environment: None,
        customer: None,
        severity: None,
        versions: BTreeMap::new(),
        model: None,
        provider: None,
        resumable: None,
        links: BTreeMap::new(),
        destination: None,
        attempt: None,
        tool: None,
        step: None,
        error: error(message),
        response: None,
        partial_output: None,
        finish_reason: None,
        usage: None,
        steps: Vec::new(),
        started_at: None,
        ended_at: None,
    }
}

pub(crate) fn error(message: &str) -> ErrorReport {
    ErrorReport {
        error_type: None,
        message: Text::from(message),
        detail: None,
        http_status: None,
        headers: BTreeMap::new(),
        reason: None,
        category: None,
        terminal: false,
    }
}
