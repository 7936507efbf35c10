//! What a rule that matched makes of a failure. It says what it sets; the rest stays as it was.

use super::CompiledRule;
use crate::classify::Classified;
use crate::pattern::Fingerprint;

impl CompiledRule {
    /// The rule's word on what others, the caller or the built-in rules, have made of the failure. Limits and waits are
    /// read from the evidence whoever names the reason.
    pub fn decide(&self, otherwise: Classified) -> Classified {
        let named = self.reason.as_ref().map(crate::reason::Reason::category);
        Classified {
            reason: self.reason.clone().unwrap_or(otherwise.reason),
            category: self.category.or(named).unwrap_or(otherwise.category),
            rule: self.name.clone().into(),
            facts: otherwise.facts,
        }
    }

    /// The group that the rule names.
    pub fn group(&self) -> Option<Fingerprint> {
        self.fingerprint.as_deref().map(Fingerprint::named)
    }
}
