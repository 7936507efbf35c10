//! How commands reach a writer: the queue that deals them in turn between tenants, and how each is answered.

pub(crate) mod command;
pub(crate) mod queue;
pub(crate) mod writer_status;
