//! What people and programs read, and how the house is looked after.

use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::wire::{
    BreakerRequest, BreakerView, BreakersAnswer, ChangesAnswer, CreateKey, CreatedKey, HealthAnswer, KeyView,
    KeysAnswer, LimitsAnswer, QueueSettings, QueueView, QueuesAnswer, RunDetail, RunsPage, SentAnswer, StatsAnswer,
    TenantBreaker, TenantHealth, TenantsAnswer,
};

use crate::call::Call;
use crate::client::Client;
use crate::query::{RunPages, RunsQuery, StatsQuery, one};

/// Reading.
impl Client {
    /// One page of runs; the next begins at its `next_cursor`.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> redrive_client::Result<()> {
    /// use redrive_client::{RunsQuery, core::run::StateName};
    ///
    /// let dead = RunsQuery { state: vec![StateName::Dead], ..RunsQuery::default() };
    /// for run in client.runs(&dead).await?.runs {
    ///     println!("{} {:?}", run.run_id, run.dead_because);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn runs(&self, query: &RunsQuery) -> Call<RunsPage> {
        let mut pairs = self.tenant_pair();
        pairs.extend(query.pairs());
        self.get(&["runs"], &pairs)
    }

    /// One run, with the newest of its attempts, steps and history.
    pub fn run(&self, run_id: &RunId) -> Call<RunDetail> {
        self.get(&["runs", run_id.as_str()], &self.tenant_pair())
    }

    /// A run with a page of each of its lists: the newest, or what lies before a cursor that another page named.
    pub fn run_pages(&self, run_id: &RunId, pages: &RunPages) -> Call<RunDetail> {
        let mut pairs = self.tenant_pair();
        one(&mut pairs, "limit", pages.limit);
        one(&mut pairs, "attempts_cursor", pages.attempts_cursor.as_deref());
        one(&mut pairs, "steps_cursor", pages.steps_cursor.as_deref());
        one(&mut pairs, "history_cursor", pages.history_cursor.as_deref());
        self.get(&["runs", run_id.as_str()], &pairs)
    }

    /// What an attempt got, and how that differs from its revision's payload.
    pub fn sent(&self, run_id: &RunId, attempt: u32) -> Call<SentAnswer> {
        self.get(&["runs", run_id.as_str(), "attempts", &attempt.to_string(), "sent"], &self.tenant_pair())
    }

    pub fn tenants(&self, limit: Option<u32>, cursor: Option<&str>) -> Call<TenantsAnswer> {
        let mut pairs = Vec::new();
        one(&mut pairs, "limit", limit);
        one(&mut pairs, "cursor", cursor);
        self.get(&["tenants"], &pairs)
    }

    pub fn tenant_health(&self, tenant: &Tenant) -> Call<TenantHealth> {
        self.get(&["tenants", tenant.as_str(), "health"], &Vec::new())
    }

    /// Breakers that are not closed, or have seen failures lately.
    pub fn breakers(&self) -> Call<BreakersAnswer> {
        self.get(&["breakers"], &self.tenant_pair())
    }

    pub fn tenant_breaker(&self, tenant: &Tenant) -> Call<TenantBreaker> {
        self.get(&["tenants", tenant.as_str(), "breaker"], &Vec::new())
    }

    /// Opens or closes a tenant's breaker by hand: operators.
    pub fn operate_breaker(&self, tenant: &Tenant, request: &BreakerRequest) -> Call<BreakerView> {
        self.post(&["tenants", tenant.as_str(), "breaker"], request)
    }

    /// Opens or closes everybody's breaker for a provider and model: operators.
    pub fn operate_shared_breaker(&self, request: &BreakerRequest) -> Call<BreakerView> {
        self.post(&["breakers"], request)
    }

    pub fn health(&self) -> Call<HealthAnswer> {
        self.get(&["health"], &self.tenant_pair())
    }

    pub fn stats(&self, query: &StatsQuery) -> Call<StatsAnswer> {
        let mut pairs = self.tenant_pair();
        pairs.extend(query.pairs());
        self.get(&["stats"], &pairs)
    }

    pub fn limits(&self) -> Call<LimitsAnswer> {
        self.get(&["limits"], &Vec::new())
    }

    /// Runs that moved after `since`; without it only where to begin.
    pub fn changes(&self, since: Option<&str>) -> Call<ChangesAnswer> {
        let mut pairs = self.tenant_pair();
        one(&mut pairs, "since", since);
        self.get(&["changes"], &pairs)
    }
}

/// Looking after the house: admins.
impl Client {
    pub fn queues(&self, limit: Option<u32>, cursor: Option<&str>) -> Call<QueuesAnswer> {
        let mut pairs = Vec::new();
        one(&mut pairs, "limit", limit);
        one(&mut pairs, "cursor", cursor);
        self.get(&["queues"], &pairs)
    }

    pub fn queue(&self, name: &QueueName) -> Call<QueueView> {
        self.get(&["queues", name.as_str()], &Vec::new())
    }

    /// Replaces what is set on a queue; makes the queue if there is none.
    pub fn put_queue(&self, name: &QueueName, settings: &QueueSettings) -> Call<QueueView> {
        self.put(&["queues", name.as_str()], settings)
    }

    pub fn keys(&self) -> Call<KeysAnswer> {
        self.get(&["keys"], &Vec::new())
    }

    /// Makes a key: the answer is the only place where its secret is shown.
    pub fn create_key(&self, key: &CreateKey) -> Call<CreatedKey> {
        self.post(&["keys"], key)
    }

    pub fn revoke_key(&self, id: &str) -> Call<KeyView> {
        self.delete(&["keys", id])
    }
}
