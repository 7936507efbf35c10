//! What a route or a page asks of a key beyond its role, in one place. The tables of routes and pages name it in every row.

use redrive_core::access::{KeyLimits, KeyScope};
use redrive_core::ids::QueueName;
use serde_json::{Value, json};

use crate::problem::{Code, HttpProblem, Result};

/// What a row of a table asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The key needs one of them. Empty only where no key is needed.
    pub scopes: &'static [KeyScope],
    pub queues: QueueAccess,
}

/// What a key that is limited to queues gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueAccess {
    /// The handler checks the queue of the run or report, or narrows the list.
    Checked,
    /// The answer spans queues, so such a key is refused.
    Spans,
    /// Nothing in it belongs to a queue.
    None,
}

/// Needs one of the scopes; a run of another queue looks absent.
pub(crate) const fn checked(scopes: &'static [KeyScope]) -> Access {
    Access { scopes, queues: QueueAccess::Checked }
}

/// Needs one of the scopes, and a key for every queue.
pub(crate) const fn spanning(scopes: &'static [KeyScope]) -> Access {
    Access { scopes, queues: QueueAccess::Spans }
}

/// Any key, whatever its scopes and queues.
pub(crate) const fn any_key() -> Access {
    Access { scopes: KeyScope::ALL, queues: QueueAccess::None }
}

/// No key at all.
pub(crate) const fn no_key() -> Access {
    Access { scopes: &[], queues: QueueAccess::None }
}

impl Access {
    /// Scopes first: they are about the call, queues about its object.
    pub(super) fn admit(self, limits: &KeyLimits) -> Result<()> {
        if !limits.holds_any(self.scopes) {
            return Err(missing_scope(self.scopes, limits));
        }
        match (self.queues, &limits.queues) {
            (QueueAccess::Spans, Some(_)) => Err(spans_queues(limits)),
            (QueueAccess::Spans | QueueAccess::Checked | QueueAccess::None, _) => Ok(()),
        }
    }
}

/// Names what is needed and what the key has.
pub(super) fn missing_scope(needed: &[KeyScope], limits: &KeyLimits) -> HttpProblem {
    let words = |scopes: &mut dyn Iterator<Item = &KeyScope>| scopes.map(|scope| scope.as_str()).collect::<Vec<_>>();
    let needed = words(&mut needed.iter());
    let held = words(&mut limits.scopes.iter().flatten());
    let detail = format!("the call needs the scope {}; the key has {}", needed.join(" or "), held.join(", "));
    HttpProblem::new(Code::MissingScope, detail).with("needed", json!(needed)).with("held", json!(held))
}

pub(super) fn queue_not_allowed(queue: &QueueName, limits: &KeyLimits) -> HttpProblem {
    let detail = format!("the key may not touch queue {queue}");
    HttpProblem::new(Code::QueueNotAllowed, detail).with("queue", queue.as_str()).with("allowed", allowed(limits))
}

/// The call can't be narrowed to the queues of the key.
pub(crate) fn spans_queues(limits: &KeyLimits) -> HttpProblem {
    let detail = "the call spans queues, and the key is limited to some";
    HttpProblem::new(Code::QueueNotAllowed, detail).with("allowed", allowed(limits))
}

fn allowed(limits: &KeyLimits) -> Value {
    limits.queues.iter().flatten().map(QueueName::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(scopes: Option<&[KeyScope]>, queues: Option<&[&str]>) -> KeyLimits {
        KeyLimits {
            scopes: scopes.map(|scopes| scopes.iter().copied().collect()),
            queues: queues.map(|queues| queues.iter().map(|name| name.parse().unwrap()).collect()),
        }
    }

    #[test]
    fn a_missing_scope_is_named_with_what_the_key_has() {
        let refused = checked(&[KeyScope::Ingest, KeyScope::Lease]).admit(&limits(Some(&[KeyScope::Read]), None));
        let problem = refused.unwrap_err().into_wire();
        assert_eq!((problem.status, problem.code.as_str()), (403, "missing_scope"));
        assert_eq!(problem.more["needed"], json!(["ingest", "lease"]));
        assert_eq!(problem.more["held"], json!(["read"]));
    }

    #[test]
    fn a_call_that_spans_queues_needs_a_key_for_all() {
        let narrow = limits(None, Some(&["a"]));
        assert_eq!(spanning(&[KeyScope::Read]).admit(&narrow).unwrap_err().code, Code::QueueNotAllowed);
        assert!(checked(&[KeyScope::Read]).admit(&narrow).is_ok() && any_key().admit(&narrow).is_ok());
        assert!(spanning(&[KeyScope::Read]).admit(&KeyLimits::default()).is_ok());
    }
}
