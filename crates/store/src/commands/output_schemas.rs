//! Whether any queue asks anything of outputs. Most stores have none, and then nobody looks.

use std::sync::atomic::{AtomicBool, Ordering};

use redrive_core::policy::{Policies, PolicyLayer};
use redrive_core::wire::QueueSettings;

/// Once true it stays so until the next start: a look too many costs a read, a look too few a check.
pub(crate) struct OutputSchemas(AtomicBool);

fn has_schema(layer: &PolicyLayer) -> bool {
    layer.detect.as_ref().is_some_and(|detect| detect.output_schema.is_some())
}

impl OutputSchemas {
    pub(crate) fn of(policies: &Policies, queues: &[QueueSettings]) -> Self {
        let tenants = policies.tenants.values().map(|tenant| &tenant.policy);
        let mut layers = policies.tiers.values().chain([&policies.defaults]).chain(tenants);
        let all = Self(AtomicBool::new(layers.any(has_schema)));
        queues.iter().for_each(|settings| all.note(settings));
        all
    }

    /// Notes what a queue asks for, whoever has set it.
    pub(crate) fn note(&self, settings: &QueueSettings) {
        if has_schema(&settings.policy) {
            self.0.store(true, Ordering::Release);
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
