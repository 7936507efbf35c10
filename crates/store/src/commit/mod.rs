//! What both writers share: the queue that deals commands in turn between tenants, how commands are answered, and whether
//! commits succeed.

pub(crate) mod queue;
pub(crate) mod writer_status;
