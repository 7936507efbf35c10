//! Actions on one run: replay, review, merge, resolve and others.

pub mod merges;
pub mod plans;
pub mod refuse;
pub mod replay;
pub mod reviews;
pub mod verbs;
