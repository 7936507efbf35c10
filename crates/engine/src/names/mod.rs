//! Names that tenants create: queues, reasons, versions. The number of each kind is limited.

pub mod tenant_names;
pub mod versions;
