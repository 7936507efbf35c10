//! What people do with one run: replay, review, merge, resolve and the rest.

pub mod merges;
pub mod plans;
pub mod refuse;
pub mod replay;
pub mod reviews;
pub mod verbs;
