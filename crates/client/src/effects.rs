//! The ledger: what became of an effect, and settling one in doubt.

use redrive_core::ids::{RunId, StepKey};
use redrive_core::wire::{EffectView, ReconcileRequest};

use crate::call::Call;
use crate::client::{Client, Pairs};
use crate::query::one;

impl Client {
    /// An entry of the ledger by its key; `run_id` where the key is unique within its run only.
    pub fn effect(&self, key: &StepKey, run_id: Option<&RunId>) -> Call<EffectView> {
        self.get(&["effects", key.as_str()], &self.of_run(run_id))
    }

    /// Says what became of an effect in doubt. Its run stays where it is, and can then be replayed.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use redrive_client::wire::{EffectOutcome, ReconcileRequest};
    ///
    /// let found = ReconcileRequest {
    ///     tenant: None,
    ///     outcome: EffectOutcome::NotDone,
    ///     output: None,
    ///     reason: Some("the bank knows of no such charge".into()),
    /// };
    /// client.reconcile(&"task-42:charge".parse()?, None, &found).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reconcile(&self, key: &StepKey, run_id: Option<&RunId>, found: &ReconcileRequest) -> Call<EffectView> {
        let tenant = found.tenant.clone().or_else(|| self.tenant().cloned());
        let request = ReconcileRequest { tenant, ..found.clone() };
        let mut pairs = Pairs::new();
        one(&mut pairs, "run_id", run_id);
        self.post(&["effects", key.as_str(), "reconcile"], &request).query(&pairs)
    }

    fn of_run(&self, run_id: Option<&RunId>) -> Pairs {
        let mut pairs = self.tenant_pair();
        one(&mut pairs, "run_id", run_id);
        pairs
    }
}
