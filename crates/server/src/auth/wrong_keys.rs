//! Counts wrong keys by source address. A source with too many of them gets no more look-ups of unknown keys.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redrive_core::time::{MINUTE_MS, Timestamp};

use crate::serve::ClientAddress;

/// Wrong keys from one source within the window.
pub const WRONG_KEYS_MAX: u32 = 20;
pub const WRONG_KEYS_WINDOW_MS: u64 = MINUTE_MS;
/// Sources in memory. Beyond it, sources whose window has passed are dropped, then any.
const SOURCES_MAX: usize = 10_000;

/// An IPv4 address, or the /64 of an IPv6 address, which one host has to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    V4(Ipv4Addr),
    V6([u16; 4]),
}

impl Source {
    fn of(address: ClientAddress) -> Self {
        match address.ip() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct WrongKeyTally {
    since: Timestamp,
    count: u32,
}

impl WrongKeyTally {
    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.since) >= WRONG_KEYS_WINDOW_MS
    }
}

#[derive(Debug, Default)]
pub(crate) struct WrongKeys(Mutex<HashMap<Source, WrongKeyTally>>);

impl WrongKeys {
    pub(super) fn count(&self, from: ClientAddress, now: Timestamp) {
        let source = Source::of(from);
        let mut tallies = self.tallies();
        if tallies.len() >= SOURCES_MAX && !tallies.contains_key(&source) {
            make_room(&mut tallies, now);
        }
        let tally = tallies.entry(source).or_insert(WrongKeyTally { since: now, count: 0 });
        if tally.is_over(now) {
            *tally = WrongKeyTally { since: now, count: 0 };
        }
        tally.count = tally.count.saturating_add(1);
    }

    /// Seconds until the source may try unknown keys again; none if it may now.
    pub(super) fn retry_after_s(&self, from: ClientAddress, now: Timestamp) -> Option<u32> {
        let tally = self.tallies().get(&Source::of(from)).copied()?;
        if tally.count < WRONG_KEYS_MAX || tally.is_over(now) {
            return None;
        }
        let left_ms = WRONG_KEYS_WINDOW_MS.saturating_sub(now.since(tally.since));
        Some(u32::try_from(left_ms.div_ceil(1_000)).unwrap_or(u32::MAX))
    }

    fn tallies(&self) -> MutexGuard<'_, HashMap<Source, WrongKeyTally>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make_room(tallies: &mut HashMap<Source, WrongKeyTally>, now: Timestamp) {
    tallies.retain(|_, tally| !tally.is_over(now));
    if tallies.len() >= SOURCES_MAX
        && let Some(any) = tallies.keys().next().copied()
    {
        tallies.remove(&any);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn at(address: &str) -> ClientAddress {
        ClientAddress::new(address.parse().unwrap())
    }

    fn guess(keys: &WrongKeys, from: &str, times: u32) {
        (0..times).for_each(|_| keys.count(at(from), noon()));
    }

    #[test]
    fn a_source_is_throttled_until_its_window_ends() {
        let keys = WrongKeys::default();
        guess(&keys, "192.0.2.1", WRONG_KEYS_MAX - 1);
        assert_eq!(keys.retry_after_s(at("192.0.2.1"), noon()), None);
        guess(&keys, "192.0.2.1", 1);
        assert_eq!(keys.retry_after_s(at("192.0.2.1"), noon().plus_ms(500)), Some(60));
        assert_eq!(keys.retry_after_s(at("192.0.2.1"), noon().plus_ms(WRONG_KEYS_WINDOW_MS)), None);
        assert_eq!(keys.retry_after_s(at("192.0.2.2"), noon()), None);
        keys.count(at("192.0.2.1"), noon().plus_ms(WRONG_KEYS_WINDOW_MS));
        assert_eq!(keys.retry_after_s(at("192.0.2.1"), noon().plus_ms(WRONG_KEYS_WINDOW_MS)), None);
    }

    #[test]
    fn addresses_of_one_host_count_together() {
        let keys = WrongKeys::default();
        guess(&keys, "2001:db8:1:2::1", WRONG_KEYS_MAX / 2);
        guess(&keys, "2001:db8:1:2:ffff::9", WRONG_KEYS_MAX / 2);
        guess(&keys, "::ffff:192.0.2.7", WRONG_KEYS_MAX);
        for (address, throttled) in [("2001:db8:1:2::3", true), ("2001:db8:1:3::1", false), ("192.0.2.7", true)] {
            assert_eq!(keys.retry_after_s(at(address), noon()).is_some(), throttled, "{address}");
        }
    }

    #[test]
    fn the_number_of_sources_is_bounded() {
        let keys = WrongKeys::default();
        for n in 0..u32::try_from(SOURCES_MAX).unwrap() + 100 {
            keys.count(ClientAddress::new(Ipv4Addr::from(n).into()), noon());
        }
        assert_eq!(keys.tallies().len(), SOURCES_MAX);
        keys.count(at("192.0.2.1"), noon().plus_ms(WRONG_KEYS_WINDOW_MS));
        assert_eq!(keys.tallies().len(), 1);
    }
}
