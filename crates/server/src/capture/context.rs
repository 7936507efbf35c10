//! What rules may ask of a run beside its error.

use redrive_core::classify::user_rules;
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::text::Label;
use redrive_core::wire::{RunDetail, RunFields};

use super::run::ENVIRONMENT_DEFAULT;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Context<'a> {
    pub(super) run: user_rules::RunFields<'a>,
    /// Where it is JSON.
    pub(super) payload: Option<&'a str>,
}

impl<'a> Context<'a> {
    /// Of a failure reported in one call.
    pub(crate) fn of_report(fields: &'a RunFields, tenant: &'a Tenant) -> Self {
        let run = user_rules::RunFields {
            tenant: tenant.as_str(),
            queue: fields.queue.as_ref().map_or(QueueName::DEFAULT, |queue| queue.as_str()),
            agent: word(&fields.agent),
            model: word(&fields.model),
            environment: word(&fields.environment).or(Some(ENVIRONMENT_DEFAULT)),
            task_type: word(&fields.task_type),
            customer: word(&fields.customer),
            ..user_rules::RunFields::default()
        };
        Self { run, payload: fields.payload.as_ref().map(|payload| payload.get()) }
    }

    /// Where nothing but the tenant is known, or asked for.
    pub(crate) fn of_tenant(tenant: &'a Tenant) -> Self {
        Self { run: user_rules::RunFields { tenant: tenant.as_str(), ..Default::default() }, payload: None }
    }

    /// Of a failure under a lease: the run is in the store already.
    pub(crate) fn of_run(run: &'a RunDetail) -> Self {
        let (summary, payload) = (&run.summary, run.body.payload.as_ref());
        let run = user_rules::RunFields {
            tenant: summary.tenant.as_str(),
            queue: summary.queue.as_str(),
            agent: word(&summary.agent),
            model: word(&summary.model),
            environment: Some(summary.environment.as_str()),
            task_type: word(&summary.task_type),
            customer: word(&summary.customer),
            ..user_rules::RunFields::default()
        };
        Self { run, payload: payload.map(|payload| payload.get()) }
    }
}

fn word(label: &Option<Label>) -> Option<&str> {
    label.as_ref().map(Label::as_str)
}
