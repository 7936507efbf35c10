//! A piece of the fleet's work as an agent tells the server of it.

use redrive_client::start;
use redrive_core::ids::{RunId, Tenant};
use redrive_core::text::{Label, Text};
use redrive_core::wire::{
    ErrorReport, FailRequest, RawJson, StartRequest, StepReport, StepStatus, SucceedRequest, Usage,
};
use serde_json::json;

use super::causes::{Cause, Shape};
use super::fleet::Work;

impl Work {
    pub(crate) fn run_id(&self) -> anyhow::Result<RunId> {
        Ok(format!("{}-{:06}", self.agent.task_type, self.number).parse()?)
    }

    pub(crate) fn tenant(&self) -> anyhow::Result<Tenant> {
        Ok(self.tenant.parse()?)
    }

    pub(crate) fn start(&self) -> anyhow::Result<StartRequest> {
        let agent = self.agent;
        Ok(StartRequest {
            queue: Some(agent.queue.parse()?),
            agent: Some(agent.name.into()),
            task_type: Some(agent.task_type.into()),
            model: Some(agent.model.into()),
            provider: Some(agent.provider.into()),
            customer: Some(Label::from(format!("c-{}", self.customer).as_str())),
            severity: Some(self.severity),
            payload: Some(self.payload()?),
            versions: [("prompt".to_owned(), Label::from("14")), ("worker".to_owned(), Label::from("2026.11"))].into(),
            ..start(self.run_id()?)
        })
    }

    fn payload(&self) -> anyhow::Result<RawJson> {
        let agent = self.agent;
        let task = format!("Handle {} {} for customer c-{}.", agent.task_type, self.number, self.customer);
        let payload = json!({
            "model": agent.model,
            "max_tokens": 2_048,
            "messages": [
                {"role": "system", "content": format!("You are {}. Work through {} in order.", agent.name, agent.steps.join(", "))},
                {"role": "user", "content": task},
            ],
        });
        Ok(serde_json::value::to_raw_value(&payload)?)
    }

    pub(crate) fn fail(&self, cause: &Cause, message: &str, lease: String) -> FailRequest {
        FailRequest {
            tenant: None,
            lease,
            error: ErrorReport {
                error_type: cause.error_type.map(Text::from),
                message: Text::from(message),
                detail: None,
                http_status: cause.http_status,
                headers: Default::default(),
                reason: None,
                category: None,
                terminal: false,
            },
            response: None,
            partial_output: None,
            finish_reason: None,
            usage: Some(self.usage(20)),
            step: cause.tool.or_else(|| self.agent.steps.get(1).copied()).map(Label::from),
            tool: cause.tool.map(Label::from),
            model: Some(self.agent.model.into()),
            steps: match cause.shape {
                Shape::Error | Shape::Silence => Vec::new(),
                Shape::EffectInDoubt(name) => vec![self.begun_effect(name)],
            },
        }
    }

    /// Begun, and nobody knows how it ended.
    fn begun_effect(&self, name: &str) -> StepReport {
        let key = format!("{}-{}:{name}", self.agent.task_type, self.number).parse().ok();
        let status = StepStatus::Started;
        StepReport { name: name.into(), key, effect: Some(true), status, output: None, check: None }
    }

    pub(crate) fn succeed(&self, lease: String) -> anyhow::Result<SucceedRequest> {
        let output = json!({"done": self.agent.task_type, "number": self.number, "steps": self.agent.steps.len()});
        Ok(SucceedRequest {
            tenant: None,
            lease: Some(lease),
            attempt: None,
            output: Some(serde_json::value::to_raw_value(&output)?),
            finish_reason: Some("stop".into()),
            usage: Some(self.usage(350)),
            steps: Vec::new(),
        })
    }

    fn usage(&self, output_tokens: u64) -> Usage {
        let input_tokens = 900 + self.number % 1_300;
        Usage { input_tokens: Some(input_tokens), output_tokens: Some(output_tokens), cost_usd: Some(0.004) }
    }
}
