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

impl Used {
    fn of(&self, holder: &Holder) -> usize {
        self.by_holder.get(holder).copied().unwrap_or_default()
    }

    /// What a holder has beyond its own bound is not counted as room of all: it would be taken from the others.
    fn set(&mut self, holder: &Holder, bytes: usize, holder_bytes: usize) {
        let before = self.of(holder);
        self.total = self.total.saturating_sub(before.min(holder_bytes)).saturating_add(bytes.min(holder_bytes));
        match self.by_holder.get_mut(holder) {
            Some(_) if bytes == 0 => {
                self.by_holder.remove(holder);
            }
            Some(held) => *held = bytes,
            None => {
                self.by_holder.insert(holder.clone(), bytes);
            }
        }
    }
}

impl Budget {
    pub(crate) fn new(total_bytes: usize, holder_bytes: usize) -> Arc<Self> {
        Arc::new(Self { total_bytes, holder_bytes, used: Mutex::default() })
    }

    /// A share that holds nothing yet.
    pub(crate) fn share(self: &Arc<Self>, holder: Holder) -> Share {
        Share { budget: self.clone(), holder, bytes: 0 }
    }

    /// What is held, of each holder at most its bound.
    pub(crate) fn used_bytes(&self) -> usize {
        self.lock().total
    }

    /// Whether a holder may take anything more at all.
    pub(crate) fn has_room(&self, holder: &Holder) -> bool {
        let used = self.lock();
        used.total < self.total_bytes && used.of(holder) < self.holder_bytes
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
        self.grow_if(bytes, |budget, total, own| {
            total.saturating_add(bytes) <= budget.total_bytes && own.saturating_add(bytes) <= budget.holder_bytes
        })
    }

    /// The same; a holder of nothing gets what it asks for while there is any room, so that nothing is too large for ever.
    pub(crate) fn grow_or_be_the_only(&mut self, bytes: usize) -> Result<(), Full> {
        self.grow_if(bytes, |budget, total, own| {
            let fits = own == 0 || own.saturating_add(bytes) <= budget.holder_bytes;
            fits && total.saturating_add(bytes.min(budget.holder_bytes)) <= budget.total_bytes
        })
    }

    /// Takes up to so many, and no more than half of the room that is left for this holder; says how many.
    pub(crate) fn grow_within_half(&mut self, most_bytes: usize) -> usize {
        let mut used = self.budget.lock();
        let own = used.of(&self.holder);
        let left = self.budget.holder_bytes.saturating_sub(own).min(self.budget.total_bytes.saturating_sub(used.total));
        let bytes = most_bytes.min(left / 2);
        used.set(&self.holder, own.saturating_add(bytes), self.budget.holder_bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        bytes
    }

    /// Takes them in any case.
    pub(crate) fn charge(&mut self, bytes: usize) {
        let taken = self.grow_if(bytes, |_, _, _| true);
        debug_assert!(taken.is_ok(), "nothing was asked");
    }

    fn grow_if(&mut self, bytes: usize, may: impl FnOnce(&Budget, usize, usize) -> bool) -> Result<(), Full> {
        let mut used = self.budget.lock();
        if !may(&self.budget, used.total, used.of(&self.holder)) {
            return Err(Full);
        }
        let own = used.of(&self.holder).saturating_add(bytes);
        used.set(&self.holder, own, self.budget.holder_bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut used = self.budget.lock();
        let own = used.of(&self.holder).saturating_sub(self.bytes);
        used.set(&self.holder, own, self.budget.holder_bytes);
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
