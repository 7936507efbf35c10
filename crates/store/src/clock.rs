//! Time and chance come from outside: the system's in production, a test's or a simulation's own otherwise.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use redrive_core::time::Timestamp;

/// What time it is.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.as_millis()))
    }

    pub fn advance_ms(&self, ms: u64) {
        self.0.fetch_add(i64::try_from(ms).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Chance: jitter, and the bytes of secrets and ids.
pub trait Dice: Send + Sync + 'static {
    fn fill(&self, bytes: &mut [u8]);

    /// Evenly from `0.0..1.0`.
    fn jitter(&self) -> f64 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// The system's randomness. Secrets and ids are drawn from it one by one; jitter, which nobody has to guess wrong, from
/// a sequence that it seeds once, since a system call a report is felt.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemDice;

static JITTER: LazyLock<SeededDice> = LazyLock::new(|| {
    let mut seed = [0; 8];
    fill_from_system(&mut seed);
    SeededDice::new(u64::from_le_bytes(seed))
});

#[expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "the one place that asks the system; without randomness no secret may be made"
)]
fn fill_from_system(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has randomness");
}

impl Dice for SystemDice {
    fn fill(&self, bytes: &mut [u8]) {
        fill_from_system(bytes);
    }

    fn jitter(&self) -> f64 {
        JITTER.jitter()
    }
}

/// Repeats itself from a seed (SplitMix64). Never for secrets.
#[derive(Debug)]
pub struct SeededDice(AtomicU64);

impl SeededDice {
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    fn next(&self) -> u64 {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(GAMMA, Ordering::SeqCst).wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Dice for SeededDice {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_rolls_the_same() {
        let (a, b) = (SeededDice::new(7), SeededDice::new(7));
        let rolls: Vec<f64> = (0..100).map(|_| a.jitter()).collect();
        assert!(rolls.iter().all(|j| (0.0..1.0).contains(j)));
        assert!(rolls.iter().all(|j| j.to_bits() == b.jitter().to_bits()));
    }
}
