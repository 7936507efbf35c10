//! Root causes: what failures have in common, and what people do about it.

use redrive_core::text::Text;
use redrive_core::wire::{
    AssignPattern, MergePattern, MutePattern, PatternDetail, PatternView, PatternsPage, ResolvePattern, TriageRequest,
    UnmergePattern,
};

use crate::call::Call;
use crate::client::Client;
use crate::query::PatternsQuery;

impl Client {
    /// One page of patterns; a key that spans tenants and names none sees one row for each fingerprint.
    pub fn patterns(&self, query: &PatternsQuery) -> Call<PatternsPage> {
        let mut pairs = self.tenant_pair();
        pairs.extend(query.pairs());
        self.get(&["patterns"], &pairs)
    }

    /// By its id, or by a fingerprint.
    pub fn pattern(&self, id: &str) -> Call<PatternDetail> {
        self.get(&["patterns", id], &self.tenant_pair())
    }

    pub fn acknowledge_pattern(&self, id: &str, reason: Option<&str>) -> Call<PatternView> {
        let request = TriageRequest { tenant: self.tenant().cloned(), reason: reason.map(Text::from) };
        self.post(&["patterns", id, "acknowledge"], &request)
    }

    /// Says that it is fixed. Seen again with the fix, it comes back as a regression.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> redrive_client::Result<()> {
    /// use redrive_client::wire::ResolvePattern;
    ///
    /// let fixed = ResolvePattern { in_version: [("worker".into(), "abc123".into())].into(), ..Default::default() };
    /// client.resolve_pattern("p0123456789abcdef", &fixed).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn resolve_pattern(&self, id: &str, request: &ResolvePattern) -> Call<PatternView> {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["patterns", id, "resolve"], &ResolvePattern { tenant, ..request.clone() })
    }

    pub fn mute_pattern(&self, id: &str, request: &MutePattern) -> Call<PatternView> {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["patterns", id, "mute"], &MutePattern { tenant, ..request.clone() })
    }

    pub fn assign_pattern(&self, id: &str, request: &AssignPattern) -> Call<PatternView> {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["patterns", id, "assign"], &AssignPattern { tenant, ..request.clone() })
    }

    pub fn note_pattern(&self, id: &str, note: &str) -> Call<PatternView> {
        let request = TriageRequest { tenant: self.tenant().cloned(), reason: Some(Text::from(note)) };
        self.post(&["patterns", id, "note"], &request)
    }

    /// Makes it part of another; the answer is that one.
    pub fn merge_pattern(&self, id: &str, request: &MergePattern) -> Call<PatternView> {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["patterns", id, "merge"], &MergePattern { tenant, ..request.clone() })
    }

    pub fn unmerge_pattern(&self, id: &str, request: &UnmergePattern) -> Call<PatternView> {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["patterns", id, "unmerge"], &UnmergePattern { tenant, ..request.clone() })
    }
}
