//! One action over many runs.

use redrive_core::operation::Steer;
use redrive_core::wire::{ItemOutcome, OperationItemsPage, OperationRequest, OperationView, OperationsPage};

use crate::call::Call;
use crate::client::{Client, Pairs};
use crate::query::{many, one};

impl Client {
    /// Freezes the set and goes on, or with `dry_run` only says what it would do.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> redrive_client::Result<()> {
    /// use redrive_client::core::operation::Steer;
    /// use redrive_client::wire::{OneOrMany, OperationAction, OperationFilter, OperationRequest};
    ///
    /// let filter = OperationFilter { state: Some(OneOrMany::One("dead".into())), ..Default::default() };
    /// let preview = OperationRequest { filter, dry_run: true, ..OperationRequest::new(OperationAction::Replay) };
    /// let preview = client.create_operation(&preview).await?;
    /// client.steer_operation(&preview.id, Steer::Start).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_operation(&self, request: &OperationRequest) -> Call<OperationView> {
        let mut request = request.clone();
        request.filter.tenant = request.filter.tenant.or_else(|| self.tenant().cloned());
        self.post(&["operations"], &request)
    }

    /// Newest first.
    pub fn operations(&self, limit: Option<u32>, cursor: Option<&str>) -> Call<OperationsPage> {
        let mut pairs = Pairs::new();
        one(&mut pairs, "limit", limit);
        one(&mut pairs, "cursor", cursor);
        self.get(&["operations"], &pairs)
    }

    pub fn operation(&self, id: &str) -> Call<OperationView> {
        self.get(&["operations", id], &Pairs::new())
    }

    /// What became of each run of the set.
    pub fn operation_items(
        &self,
        id: &str,
        outcomes: &[ItemOutcome],
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Call<OperationItemsPage> {
        let mut pairs = Pairs::new();
        many(&mut pairs, "outcome", outcomes);
        one(&mut pairs, "limit", limit);
        one(&mut pairs, "cursor", cursor);
        self.get(&["operations", id, "items"], &pairs)
    }

    /// Starts, pauses, resumes or cancels it.
    pub fn steer_operation(&self, id: &str, by: Steer) -> Call<OperationView> {
        self.post_nothing(&["operations", id, by.as_str()])
    }
}
