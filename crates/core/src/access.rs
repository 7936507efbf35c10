//! What a key may do within its role: scopes and queues. A key without scopes may do all that its role may; a key with
//! scopes may do nothing that they do not name.

use std::collections::BTreeSet;

use crate::ids::QueueName;
use crate::words::words;

words! {
    /// A part of what a role may do.
    pub enum KeyScope {
        /// Report failures, start and enqueue runs, report on attempts.
        Ingest = "ingest",
        /// Lease due runs and report on them.
        Lease = "lease",
        /// Read runs, patterns, figures and operations; payloads are hidden.
        Read = "read",
        /// Read payloads, headers, outputs, response bodies and error texts too.
        ReadPayload = "read:payload",
        /// Decide about single runs, effects and patterns.
        Triage = "triage",
        /// Bulk operations and breakers.
        Bulk = "bulk",
        /// Keys, portal links and queues.
        Admin = "admin",
    }
}

/// The most queues that a key may name.
pub const KEY_QUEUES_MAX: usize = 100;
/// The most scopes that a key may name: each one once.
pub const KEY_SCOPES_MAX: usize = KeyScope::ALL.len();

/// What narrows a key. The default narrows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyLimits {
    /// None: all of the role.
    pub scopes: Option<BTreeSet<KeyScope>>,
    /// None: every queue.
    pub queues: Option<BTreeSet<QueueName>>,
}

impl KeyLimits {
    /// Whether the key holds one of these scopes. An empty list is held by no key that has scopes.
    pub fn holds_any(&self, needed: &[KeyScope]) -> bool {
        let Some(held) = &self.scopes else { return true };
        needed.iter().any(|needed| held.contains(needed) || includes(held, *needed))
    }

    /// Whether the key may read payloads, beside the runs themselves.
    pub fn reads_payloads(&self) -> bool {
        self.holds_any(&[KeyScope::ReadPayload])
    }

    pub fn may_touch(&self, queue: &QueueName) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.contains(queue))
    }

    /// The queues of a call that names some, or none for every queue. Refused with the first queue that the key may not
    /// touch.
    pub fn narrow(&self, named: Vec<QueueName>) -> Result<Vec<QueueName>, QueueName> {
        let Some(queues) = &self.queues else { return Ok(named) };
        if named.is_empty() {
            return Ok(queues.iter().cloned().collect());
        }
        match named.iter().find(|queue| !queues.contains(*queue)) {
            Some(outside) => Err(outside.clone()),
            None => Ok(named),
        }
    }
}

/// Who may read payloads may read what they belong to.
fn includes(held: &BTreeSet<KeyScope>, needed: KeyScope) -> bool {
    needed == KeyScope::Read && held.contains(&KeyScope::ReadPayload)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(scopes: &[KeyScope], queues: &[&str]) -> KeyLimits {
        let queues: BTreeSet<QueueName> = queues.iter().map(|name| name.parse().unwrap()).collect();
        KeyLimits {
            scopes: (!scopes.is_empty()).then(|| scopes.iter().copied().collect()),
            queues: (!queues.is_empty()).then_some(queues),
        }
    }

    fn queues(names: &[&str]) -> Vec<QueueName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn a_key_without_limits_may_do_all_of_its_role() {
        let free = KeyLimits::default();
        assert!(KeyScope::ALL.iter().all(|scope| free.holds_any(&[*scope])));
        assert!(free.may_touch(&QueueName::default_queue()) && free.reads_payloads());
        assert_eq!(free.narrow(queues(&["a"])), Ok(queues(&["a"])));
    }

    #[test]
    fn reading_payloads_includes_reading_and_not_the_other_way() {
        assert!(limits(&[KeyScope::ReadPayload], &[]).holds_any(&[KeyScope::Read]));
        assert!(!limits(&[KeyScope::Read], &[]).reads_payloads());
    }

    #[test]
    fn a_call_is_narrowed_to_the_queues_of_the_key() {
        let key = limits(&[], &["a", "b"]);
        assert_eq!(key.narrow(Vec::new()), Ok(queues(&["a", "b"])));
        assert_eq!(key.narrow(queues(&["b"])), Ok(queues(&["b"])));
        assert_eq!(key.narrow(queues(&["b", "c"])), Err("c".parse().unwrap()));
        assert!(!key.may_touch(&"c".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn scopes_deny_whatever_they_do_not_name(held in 1_u8..128, needed in 0_u8..128) {
            let of = |bits: u8| -> Vec<KeyScope> {
                KeyScope::ALL.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, scope)| *scope).collect()
            };
            let (held, needed) = (of(held), of(needed));
            let named = needed.iter().any(|scope| held.contains(scope));
            let by_payload = needed.contains(&KeyScope::Read) && held.contains(&KeyScope::ReadPayload);
            prop_assert_eq!(limits(&held, &[]).holds_any(&needed), named || by_payload);
        }
    }
}
