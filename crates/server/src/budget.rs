//! Memory that callers hold: a bound for all of them together, and within it one for each holder, so that nobody can
//! take everything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::ids::Tenant;

/// Who holds memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A caller without a key: all of them are one.
    Anonymous,
    Tenant(Tenant),
    /// A key that spans tenants.
    Key(String),
}

/// There is no room left, for this holder or at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

#[derive(Debug)]
pub(crate) struct Budget {
    total_bytes: usize,
    holder_bytes: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    total: usize,
    by_holder: HashMap<Holder, usize>,
}

impl Budget {
    pub(crate) fn new(total_bytes: usize, holder_bytes: usize) -> Arc<Self> {
        Arc::new(Self { total_bytes, holder_bytes, used: Mutex::default() })
    }

    /// A share that holds nothing yet.
    pub(crate) fn share(self: &Arc<Self>, holder: Holder) -> Share {
        Share { budget: self.clone(), holder, bytes: 0 }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one request holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    holder: Holder,
    bytes: usize,
}

impl Share {
    /// Takes so many bytes more, or none of them.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let mut used = self.budget.lock();
        let total = used.total.saturating_add(bytes);
        let own = used.by_holder.get(&self.holder).copied().unwrap_or_default().saturating_add(bytes);
        if total > self.budget.total_bytes || own > self.budget.holder_bytes {
            return Err(Full);
        }
        used.total = total;
        match used.by_holder.get_mut(&self.holder) {
            Some(held) => *held = own,
            None => {
                used.by_holder.insert(self.holder.clone(), own);
            }
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut used = self.budget.lock();
        used.total = used.total.saturating_sub(self.bytes);
        if let Some(held) = used.by_holder.get_mut(&self.holder) {
            *held = held.saturating_sub(self.bytes);
            if *held == 0 {
                used.by_holder.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Holder {
        Holder::Tenant(name.parse().unwrap())
    }

    #[test]
    fn one_holder_cannot_take_what_others_need() {
        let budget = Budget::new(100, 60);
        let mut greedy = budget.share(tenant("a"));
        assert_eq!(greedy.grow(60), Ok(()));
        assert_eq!(greedy.grow(1), Err(Full));
        assert_eq!(budget.share(tenant("a")).grow(1), Err(Full));
        let mut other = budget.share(tenant("b"));
        assert_eq!((other.grow(40), other.grow(1)), (Ok(()), Err(Full)));
    }

    #[test]
    fn what_was_held_is_given_back() {
        let budget = Budget::new(100, 100);
        let mut share = budget.share(Holder::Anonymous);
        share.grow(30).unwrap();
        share.grow(30).unwrap();
        assert_eq!(budget.used_bytes(), 60);
        drop(share);
        assert_eq!((budget.used_bytes(), budget.lock().by_holder.len()), (0, 0));
    }
}
