//! Calls of producers and workers.

use std::time::Duration;

use redrive_core::ids::{RunId, Tenant};
use redrive_core::wire::{
    FailRequest, FailureAnswer, FailureReport, HeartbeatAnswer, HeartbeatRequest, HeartbeatsAnswer, HeartbeatsRequest,
    LeaseRequest, LeasesAnswer, Problem, ReleaseRequest, StartAnswer, StartRequest, StateAnswer, StepRequest, StepView,
    SucceedAnswer, SucceedRequest,
};
use serde::Deserialize;

use crate::client::{ApiRequest, Client, Error, Result};

/// Below the server's limit for one body, with room for a large last line.
const BATCH_MAX_BYTES: usize = 8 << 20;
/// Extra time for a lease call beyond its `wait_ms`.
const WAIT_SLACK: Duration = Duration::from_secs(30);

impl Client {
    /// Reports one failed attempt; the answer is the durable verdict. Sending the same report again is safe and gets the
    /// same answer.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let report = redrive_client::failure("task-42".parse()?, "Request timed out");
    /// let answer = client.report(&report).await?;
    /// println!("{}", answer.verdict.why);
    /// # Ok(())
    /// # }
    /// ```
    pub fn report(&self, report: &FailureReport) -> ApiRequest<FailureAnswer> {
        match self.tenant_for(report.tenant.as_ref()) {
            Some(tenant) => self.post(&["failures"], &FailureReport { tenant: Some(tenant), ..report.clone() }),
            None => self.post(&["failures"], report),
        }
    }

    /// Reports many failures in few calls. Each is accepted or refused alone; answers keep the order of the reports.
    pub async fn report_many(&self, reports: &[FailureReport]) -> Result<Vec<Result<FailureAnswer, Problem>>> {
        let mut answers = Vec::with_capacity(reports.len());
        let mut batch = String::new();
        for report in reports {
            let line = match self.tenant_for(report.tenant.as_ref()) {
                Some(tenant) => serde_json::to_string(&FailureReport { tenant: Some(tenant), ..report.clone() })?,
                None => serde_json::to_string(report)?,
            };
            if !batch.is_empty() && batch.len() + line.len() > BATCH_MAX_BYTES {
                answers.extend(self.report_lines(std::mem::take(&mut batch)).await?);
            }
            batch.push_str(&line);
            batch.push('\n');
        }
        if !batch.is_empty() {
            answers.extend(self.report_lines(batch).await?);
        }
        Ok(answers)
    }

    async fn report_lines(&self, lines: String) -> Result<Vec<Result<FailureAnswer, Problem>>> {
        let sent = lines.lines().count();
        let text = self.post_lines::<()>(&["failures"], lines).text().await?;
        let unexpected = |what: String| Error::Unexpected { url: "/v1/failures".into(), what };
        let answers: Vec<_> = text
            .lines()
            .map(|line| answer_line(line).map_err(|e| unexpected(format!("a line that is no answer ({e})"))))
            .collect::<Result<_>>()?;
        if answers.len() != sent {
            return Err(unexpected(format!("{} lines to {sent} reports", answers.len())));
        }
        Ok(answers)
    }

    /// Starts or enqueues a run. [`Client::begin`] also sends heartbeats.
    pub fn start(&self, start: &StartRequest) -> ApiRequest<StartAnswer> {
        match self.tenant_for(start.tenant.as_ref()) {
            Some(tenant) => self.post(&["runs"], &StartRequest { tenant: Some(tenant), ..start.clone() }),
            None => self.post(&["runs"], start),
        }
    }

    pub fn heartbeat(&self, run_id: &RunId, lease: &str) -> ApiRequest<HeartbeatAnswer> {
        let request = HeartbeatRequest { tenant: self.tenant().cloned(), lease: lease.into() };
        self.post(&["runs", run_id.as_str(), "heartbeat"], &request)
    }

    /// Renews many leases in one call; each has its own answer, in the order of the request.
    pub fn heartbeats(&self, request: &HeartbeatsRequest) -> ApiRequest<HeartbeatsAnswer> {
        self.post(&["heartbeats"], request)
    }

    pub fn step(&self, run_id: &RunId, step: &StepRequest) -> ApiRequest<StepView> {
        let tenant = step.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["runs", run_id.as_str(), "steps"], &StepRequest { tenant, ..step.clone() })
    }

    pub fn succeed(&self, run_id: &RunId, success: &SucceedRequest) -> ApiRequest<SucceedAnswer> {
        let tenant = success.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["runs", run_id.as_str(), "succeed"], &SucceedRequest { tenant, ..success.clone() })
    }

    pub fn fail(&self, run_id: &RunId, failed: &FailRequest) -> ApiRequest<FailureAnswer> {
        let tenant = failed.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["runs", run_id.as_str(), "fail"], &FailRequest { tenant, ..failed.clone() })
    }

    /// Gives a lease back; no attempt is spent.
    pub fn release(&self, run_id: &RunId, lease: &str) -> ApiRequest<StateAnswer> {
        let request = ReleaseRequest { tenant: self.tenant().cloned(), lease: lease.into() };
        self.post(&["runs", run_id.as_str(), "release"], &request)
    }

    /// Leases due runs; [`Client::take`] keeps one of them alive. A retry with the same `request_id`
    /// ([`crate::request_id`] makes one) gets the same leases while they live.
    pub fn lease(&self, request: &LeaseRequest) -> ApiRequest<LeasesAnswer> {
        let wait = Duration::from_millis(request.wait_ms.unwrap_or(0));
        let call = match self.tenant_for(request.tenant.as_ref()) {
            Some(tenant) => self.post(&["leases"], &LeaseRequest { tenant: Some(tenant), ..request.clone() }),
            None => self.post(&["leases"], request),
        };
        call.timeout(wait + WAIT_SLACK)
    }

    /// The client's tenant, if the body names none.
    fn tenant_for(&self, named: Option<&Tenant>) -> Option<Tenant> {
        if named.is_some() { None } else { self.tenant().cloned() }
    }
}

/// Each line has its own status.
fn answer_line(line: &str) -> Result<Result<FailureAnswer, Problem>, serde_json::Error> {
    #[derive(Deserialize)]
    struct LineStatus {
        status: u16,
    }
    match serde_json::from_str::<LineStatus>(line)?.status {
        200..=299 => serde_json::from_str(line).map(Ok),
        _ => serde_json::from_str(line).map(Err),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_line_is_answer_or_problem_by_status() {
        let refused = r#"{"status":422,"type":"t","title":"t","code":"bad_id","detail":"d","field":"run_id"}"#;
        let problem = answer_line(refused).unwrap().unwrap_err();
        assert_eq!((problem.code.as_str(), problem.status), ("bad_id", 422));
        assert!(answer_line("{}").is_err());
    }
}
