//! Operations and their items, as they are read.

use redrive_core::wire::{CanaryView, ItemOutcome, OperationItem, OperationItemsPage, OperationSample, OperationView};

use super::cursor::{seal_numbers, unseal_numbers};
use super::filter::PAGE_MAX;
use crate::shared::columns::{Columns, json, number, owned_or_none, parsed_or_none};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::operations::{ItemsCall, NewOperation};
use redrive_engine::operations::row::{OperationRow, public_id};
use redrive_engine::runs::document::word;

/// What a cursor into the list is sealed for.
pub(crate) const OPERATIONS: &str = "operations";
/// Items that one page may look at.
pub(crate) const ITEM_LOOKS_MAX: usize = 20_000;

pub(crate) fn view(row: OperationRow, spec: NewOperation, samples: Vec<OperationSample>) -> Result<OperationView> {
    let canary = spec.canary.zip(row.canary).map(|(canary, state)| CanaryView {
        size: canary.size,
        max_failure_share: canary.max_failure_share,
        wait_ms: canary.wait_ms,
        state,
    });
    Ok(OperationView {
        id: public_id(row.id),
        action: row.action,
        state: row.state,
        preparing: row.preparing,
        reason: spec.reason,
        filter: spec.filter,
        rate_per_s: spec.rate_per_s,
        canary,
        matched: row.matched,
        eligible: row.eligible,
        ineligible: row.tallies.ineligible,
        reasons: row.tallies.reasons,
        moved: row.moved,
        succeeded: row.succeeded,
        failed: row.failed,
        skipped: row.skipped,
        skipped_because: row.tallies.skipped,
        stopped_because: row.stopped_because,
        joined: row.joined.map(|joined| json(&joined, "joined")).transpose()?,
        samples,
        actor: row.actor,
        created_at: row.created_at,
        started_at: row.started_at,
        ended_at: row.ended_at,
    })
}

/// Of an operation's items; a condition follows.
pub(crate) const ITEMS: &str = "SELECT item.run, item.outcome, item.why, runs.run_id, tenants.name \
     FROM operation_items AS item LEFT JOIN runs ON runs.id = item.run LEFT JOIN tenants ON tenants.id = runs.tenant";

/// A page of items while it is filled.
pub(crate) struct Items<'a> {
    call: &'a ItemsCall,
    question: String,
    limit: usize,
    items: Vec<OperationItem>,
    /// The last run looked at.
    pub(crate) last: i64,
}

impl<'a> Items<'a> {
    pub(crate) fn begin(operation: i64, call: &'a ItemsCall) -> Result<Self> {
        let question = format!("items {operation} {:?}", call.outcomes);
        let last = match &call.cursor {
            Some(cursor) => unseal_numbers::<1>(&question, cursor)?[0],
            None => 0,
        };
        let limit = usize::try_from(call.limit.clamp(1, PAGE_MAX)).unwrap_or(1);
        Ok(Self { call, question, limit, items: Vec::new(), last })
    }

    /// False when the page is full, and the row is for the next one.
    pub(crate) fn take(&mut self, row: &impl Columns) -> Result<bool> {
        let outcome = word(ItemOutcome::ALL, number(row, 1)?, "outcome")?;
        if self.call.outcomes.is_empty() || self.call.outcomes.contains(&outcome) {
            if self.items.len() == self.limit {
                return Ok(false);
            }
            let (run_id, tenant) = (parsed_or_none(row, 3, "run_id")?, parsed_or_none(row, 4, "tenant")?);
            self.items.push(OperationItem { run_id, tenant, outcome, why: owned_or_none(row, 2)? });
        }
        self.last = number(row, 0)?;
        Ok(true)
    }

    /// `more`: there is or may be something behind the last one.
    pub(crate) fn page(self, more: bool) -> OperationItemsPage {
        let next_cursor = more.then(|| seal_numbers(&self.question, &[self.last]));
        OperationItemsPage { items: self.items, next_cursor }
    }
}
