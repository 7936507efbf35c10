//! Clock and randomness, injected: the system's in production, controlled ones in tests and simulations.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redrive_core::time::Timestamp;
use redrive_core::wire::ClockJump;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, which may be set.
    fn now(&self) -> Timestamp;

    /// A monotonic clock. Only differences between two readings have a meaning.
    fn elapsed(&self) -> Duration;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX));
        with_test_offset(now)
    }

    fn elapsed(&self) -> Duration {
        elapsed()
    }
}

/// Includes time in which the machine was suspended.
#[cfg(target_os = "linux")]
fn elapsed() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    let since_boot = clock_gettime(ClockId::Boottime);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    Duration::from_secs(part(since_boot.tv_sec)) + Duration::from_nanos(part(since_boot.tv_nsec))
}

#[cfg(not(target_os = "linux"))]
fn elapsed() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    static STARTED: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    STARTED.elapsed()
}

/// For tests of the binary: the file holds an offset of the wall clock in milliseconds.
#[cfg(debug_assertions)]
fn with_test_offset(now: Timestamp) -> Timestamp {
    static FILE: LazyLock<Option<std::path::PathBuf>> =
        LazyLock::new(|| std::env::var_os("REDRIVE_CLOCK_OFFSET_FILE").map(Into::into));
    let offset = FILE.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let offset: i64 = offset.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    Timestamp::from_millis(now.as_millis().saturating_add(offset))
}

#[cfg(not(debug_assertions))]
fn with_test_offset(now: Timestamp) -> Timestamp {
    now
}

/// Never goes back, and does not follow a wall clock that was set by mistake. It advances with the monotonic clock: a tenth
/// slower while the wall clock is behind, and at normal speed while it is far ahead, until that has lasted for
/// [`BELIEVED_AFTER`].
pub struct SteadyClock {
    wall: Arc<dyn Clock>,
    state: Mutex<Steady>,
}

#[derive(Debug, Clone, Copy)]
struct Steady {
    /// The last reading since the epoch, in full resolution so that many readings per millisecond lose no time.
    at: Duration,
    elapsed: Duration,
    /// Whether the wall clock is off.
    off: Off,
    jump: Option<(ClockJump, Duration)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Off {
    No,
    /// Behind, and reported.
    Behind,
    /// Ahead.
    Ahead {
        by: Duration,
        since: Duration,
    },
}

/// Smaller offsets are not reported.
const JUMP_MIN_MS: u64 = 10_000;
const JUMP_MIN: Duration = Duration::from_millis(JUMP_MIN_MS);
/// How long a wall clock must stay ahead before it is followed.
const BELIEVED_AFTER: Duration = Duration::from_secs(600);
/// Two readings within this time count as one moment.
const SAME_MOMENT: Duration = Duration::from_secs(1);
/// How long a jump is reported after the clock is right again.
const JUMP_REPORTED_FOR: Duration = Duration::from_secs(3_600);

impl SteadyClock {
    /// `floor`: the newest stored time.
    pub fn new(wall: Arc<dyn Clock>, floor: Option<Timestamp>) -> Self {
        let (now, elapsed) = (wall.now(), wall.elapsed());
        let at = since_epoch(floor.map_or(now, |floor| floor.max(now)));
        let steady = Steady { at, elapsed, off: Off::No, jump: None };
        let clock = Self { wall, state: Mutex::new(steady) };
        clock.now();
        clock
    }

    /// Reads both clocks at one moment. A process frozen between the readings would see a jump.
    fn look(&self) -> (Timestamp, Duration) {
        let mut before = self.wall.elapsed();
        loop {
            let (wall, elapsed) = (self.wall.now(), self.wall.elapsed());
            if elapsed.saturating_sub(before) < SAME_MOMENT {
                return (wall, elapsed);
            }
            before = elapsed;
        }
    }

    fn state(&self) -> MutexGuard<'_, Steady> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A jump of the wall clock to report.
    pub fn jump(&self) -> Option<ClockJump> {
        let ahead_ms = self.now().since(self.wall.now());
        let elapsed = self.wall.elapsed();
        let (jump, told) = self.state().jump?;
        let still = ahead_ms >= JUMP_MIN_MS || elapsed.saturating_sub(told) < JUMP_REPORTED_FOR;
        still.then_some(ClockJump { ahead_ms, ..jump })
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        let (wall, elapsed) = self.look();
        self.state().read(wall, elapsed)
    }

    fn elapsed(&self) -> Duration {
        self.wall.elapsed()
    }
}

impl Steady {
    fn read(&mut self, wall: Timestamp, elapsed: Duration) -> Timestamp {
        let passed = elapsed.saturating_sub(self.elapsed);
        self.elapsed = self.elapsed.max(elapsed);
        let (wall, expected) = (since_epoch(wall), self.at + passed);
        if wall < expected {
            self.at = wall.max(expected - passed / 10);
            self.behind(self.at - wall, elapsed);
        } else if wall - expected < JUMP_MIN {
            (self.at, self.off) = (wall, Off::No);
        } else {
            self.at = if self.is_believed(wall - expected, elapsed) { wall } else { expected };
        }
        self.reading()
    }

    fn reading(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.at.as_millis()).unwrap_or(i64::MAX))
    }

    fn behind(&mut self, by: Duration, elapsed: Duration) {
        if by < JUMP_MIN {
            self.off = Off::No;
        } else if self.off != Off::Behind {
            self.off = Off::Behind;
            self.jumped(-millis(by), elapsed);
        }
    }

    /// Whether the wall clock has been ahead by about as much for long enough.
    fn is_believed(&mut self, by: Duration, elapsed: Duration) -> bool {
        if let Off::Ahead { by: before, since } = self.off
            && by.abs_diff(before) < JUMP_MIN
        {
            let is_believed = elapsed.saturating_sub(since) >= BELIEVED_AFTER;
            if is_believed {
                tracing::warn!(by_ms = millis(by), "following the system clock after a jump");
                self.off = Off::No;
            }
            return is_believed;
        }
        self.off = Off::Ahead { by, since: elapsed };
        self.jumped(millis(by), elapsed);
        false
    }

    fn jumped(&mut self, by_ms: i64, elapsed: Duration) {
        tracing::warn!(by_ms, "system clock jumped");
        self.jump = Some((ClockJump { jumped_at: self.reading(), by_ms, ahead_ms: 0 }, elapsed));
    }
}

fn since_epoch(at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0))
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// A clock that tests advance.
#[derive(Debug)]
pub struct ManualClock {
    /// The wall clock without the elapsed time.
    set_ms: AtomicI64,
    elapsed_ms: AtomicU64,
}

impl ManualClock {
    pub fn at(now: Timestamp) -> Self {
        Self { set_ms: AtomicI64::new(now.as_millis()), elapsed_ms: AtomicU64::new(0) }
    }

    pub fn advance_ms(&self, ms: u64) {
        self.elapsed_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Advances to `now`.
    pub fn set(&self, now: Timestamp) {
        self.advance_ms(now.since(self.now()));
    }

    /// Sets the wall clock; no time passes.
    pub fn jump_ms(&self, ms: i64) {
        self.set_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let set = Timestamp::from_millis(self.set_ms.load(Ordering::SeqCst));
        set.plus_ms(self.elapsed_ms.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms.load(Ordering::SeqCst))
    }
}

/// Randomness: jitter, and the bytes of secrets and ids.
pub trait Dice: Send + Sync + 'static {
    fn fill(&self, bytes: &mut [u8]);

    /// Uniform in `0.0..1.0`.
    fn jitter(&self) -> f64 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// The system's randomness. Secrets and ids use it directly; jitter comes from a generator that it seeds once, which saves
/// a system call per report.
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

/// A deterministic generator (SplitMix64). Never for secrets.
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
    use redrive_core::time::{DAY_MS, HOUR_MS, SECOND_MS};

    use super::*;

    fn noon() -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn steady(floor: Option<Timestamp>) -> (Arc<ManualClock>, SteadyClock) {
        let wall = Arc::new(ManualClock::at(noon()));
        (wall.clone(), SteadyClock::new(wall, floor))
    }

    #[test]
    fn a_clock_set_back_goes_on_and_names_the_jump() {
        for back_ms in [HOUR_MS, DAY_MS] {
            let (wall, clock) = steady(None);
            wall.advance_ms(5_000);
            let before = clock.now();
            assert_eq!((before, clock.jump()), (noon().plus_ms(5_000), None));
            wall.jump_ms(-back_ms.cast_signed());
            assert_eq!(clock.now(), before);
            wall.advance_ms(10_000);
            // A tenth slower, until the wall clock has caught up.
            assert_eq!(clock.now(), before.plus_ms(9_000));
            let jump = clock.jump().unwrap();
            assert_eq!((jump.by_ms, jump.ahead_ms), (-back_ms.cast_signed(), back_ms - 1_000));
            wall.advance_ms(11 * back_ms);
            assert_eq!((clock.now(), clock.jump()), (wall.now(), None));
        }
    }

    #[test]
    fn a_clock_set_forward_by_mistake_changes_nothing() {
        for forward_ms in [HOUR_MS, DAY_MS] {
            let (wall, clock) = steady(None);
            wall.jump_ms(forward_ms.cast_signed());
            assert_eq!(clock.now(), noon());
            let jump = clock.jump().unwrap();
            assert_eq!((jump.jumped_at, jump.by_ms, jump.ahead_ms), (noon(), forward_ms.cast_signed(), 0));
            wall.advance_ms(600 * SECOND_MS - 1);
            assert_eq!(clock.now(), noon().plus_ms(600 * SECOND_MS - 1));
            // Time is neither ahead when it is set right, nor stands still when it is set back further.
            wall.jump_ms(-forward_ms.cast_signed());
            assert_eq!(clock.now(), wall.now());
            wall.jump_ms(-20_000);
            wall.advance_ms(10 * SECOND_MS);
            assert_eq!(clock.now(), noon().plus_ms(609 * SECOND_MS - 1));
        }
    }

    #[test]
    fn a_clock_that_stays_forward_is_followed_after_ten_minutes() {
        let (wall, clock) = steady(None);
        wall.jump_ms(DAY_MS.cast_signed());
        clock.now();
        wall.advance_ms(300 * SECOND_MS);
        // It is set again: that counts from there.
        wall.jump_ms(HOUR_MS.cast_signed());
        clock.now();
        assert_eq!(clock.jump().unwrap().by_ms, (DAY_MS + HOUR_MS).cast_signed());
        wall.advance_ms(600 * SECOND_MS - 1);
        assert_eq!(clock.now(), noon().plus_ms(900 * SECOND_MS - 1));
        wall.advance_ms(1);
        assert_eq!(clock.now(), wall.now());
        assert!(clock.jump().is_some(), "told of for an hour");
        wall.advance_ms(HOUR_MS);
        assert_eq!((clock.now(), clock.jump()), (wall.now(), None));
    }

    /// Frozen for two minutes after its first reading of the wall clock.
    struct FrozenAfterWall(ManualClock, AtomicU64);

    impl Clock for FrozenAfterWall {
        fn now(&self) -> Timestamp {
            let now = self.0.now();
            if self.1.fetch_add(1, Ordering::SeqCst) == 1 {
                self.0.advance_ms(120_000);
            }
            now
        }

        fn elapsed(&self) -> Duration {
            self.0.elapsed()
        }
    }

    #[test]
    fn a_freeze_between_two_readings_is_no_jump() {
        let wall = Arc::new(FrozenAfterWall(ManualClock::at(noon()), AtomicU64::new(0)));
        let clock = SteadyClock::new(wall, None);
        assert_eq!((clock.now(), clock.jump()), (noon().plus_ms(120_000), None));
    }

    #[test]
    fn time_that_a_machine_was_suspended_for_has_passed() {
        let (wall, clock) = steady(None);
        wall.advance_ms(8 * HOUR_MS);
        assert_eq!((clock.now(), clock.jump()), (noon().plus_ms(8 * HOUR_MS), None));
    }

    #[test]
    fn time_continues_from_the_newest_row_after_a_restart() {
        let floor = noon().plus_ms(DAY_MS);
        let (wall, clock) = steady(Some(floor));
        assert_eq!(clock.now(), floor);
        assert_eq!(clock.jump().unwrap().by_ms, -DAY_MS.cast_signed());
        wall.advance_ms(60 * SECOND_MS);
        assert_eq!(clock.now(), floor.plus_ms(54 * SECOND_MS));
        let (_, behind) = steady(Some(noon().minus_ms(DAY_MS)));
        assert_eq!((behind.now(), behind.jump()), (noon(), None));
    }

    #[test]
    fn many_readings_within_a_millisecond_lose_no_time() {
        for (wall, passed) in [(noon().minus_ms(HOUR_MS), 9_000), (noon().plus_ms(HOUR_MS), 10_000)] {
            let mut steady = Steady { at: since_epoch(noon()), elapsed: Duration::ZERO, off: Off::No, jump: None };
            for n in 1..=100_000_u32 {
                steady.read(wall, Duration::from_micros(100) * n);
            }
            assert_eq!(steady.reading(), noon().plus_ms(passed));
        }
    }

    #[test]
    fn a_clock_that_wobbles_is_no_jump() {
        let (wall, clock) = steady(None);
        for by in [-5, 5, -900, 900] {
            wall.advance_ms(1_000);
            wall.jump_ms(by);
            let before = clock.now();
            wall.advance_ms(1_000);
            assert!(clock.now() >= before.plus_ms(80));
        }
        assert_eq!(clock.jump(), None);
    }

    #[test]
    fn the_same_seed_rolls_the_same() {
        let (a, b) = (SeededDice::new(7), SeededDice::new(7));
        let rolls: Vec<f64> = (0..100).map(|_| a.jitter()).collect();
        assert!(rolls.iter().all(|j| (0.0..1.0).contains(j)));
        assert!(rolls.iter().all(|j| j.to_bits() == b.jitter().to_bits()));
    }
}
