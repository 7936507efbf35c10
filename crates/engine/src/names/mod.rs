//! Names that tenants make: queues, reasons, versions. Each kind is bounded.

pub mod tenant_names;
pub mod versions;
