//! `/v1/effects/{key}`: the ledger, looked into and settled by people.

pub(crate) mod reconcile;
pub(crate) mod show;
