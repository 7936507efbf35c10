//! Pages: runs, and the plain tenant recovery API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{RunId, Tenant};
use crate::reason::{Category, Reason};
use crate::run::StateName;
use crate::time::Timestamp;
use crate::wire::RunSummary;
use crate::words::words;

words! {
    pub enum Sort {
        Received = "received",
        NewestFirst = "-received",
        Due = "due",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunsPage {
    pub runs: Vec<RunSummary>,
    /// Where the next page begins. A search that has looked far enough for one answer may give a short page with a
    /// cursor: go on with it.
    pub next_cursor: Option<String>,
    pub total: Option<u64>,
    /// Counting stopped at 10,000.
    pub total_capped: bool,
}

words! {
    /// The states that plain recovery APIs know.
    pub enum DlqStatus {
        Pending = "pending",
        Retrying = "retrying",
        Recovered = "recovered",
        Escalated = "escalated",
        Abandoned = "abandoned",
    }
}

impl DlqStatus {
    pub fn of(state: StateName) -> Self {
        match state {
            StateName::Scheduled => Self::Pending,
            StateName::Running => Self::Retrying,
            StateName::Recovered | StateName::Succeeded | StateName::Resolved => Self::Recovered,
            StateName::Dead | StateName::Review => Self::Escalated,
            StateName::Discarded | StateName::Merged => Self::Abandoned,
        }
    }

    pub fn states(self) -> Vec<StateName> {
        StateName::ALL.iter().copied().filter(|state| Self::of(*state) == self).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DlqMessage {
    pub id: RunId,
    pub tenant: Tenant,
    pub status: DlqStatus,
    pub queue: String,
    pub reason: Option<Reason>,
    pub category: Option<Category>,
    pub error: Option<String>,
    pub attempts: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub next_retry_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DlqAnswer {
    pub messages: Vec<DlqMessage>,
    pub next_cursor: Option<String>,
    pub total: Option<u64>,
}
