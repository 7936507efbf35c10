//! Places where a test lets the process die, as a power cut would. `REDRIVE_ABORT_AT=before_commit:3` ends it the third
//! time it comes by that point. A release build has none of this.

#[cfg(debug_assertions)]
thread_local! {
    static PANIC_AT: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// This thread panics the next time it comes by that point.
#[cfg(debug_assertions)]
pub fn panic_at(point: &'static str) {
    PANIC_AT.set(Some(point));
}

/// Ends the process here, if it was told so and this is the time.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "a test asked for it, and a release build has none of this")]
pub fn pass(point: &str) {
    if PANIC_AT.get() == Some(point) {
        PANIC_AT.set(None);
        panic!("told to panic at {point}");
    }
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ASKED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    let asked = ASKED.get_or_init(|| {
        let asked = std::env::var("REDRIVE_ABORT_AT").ok()?;
        let (point, nth) = asked.split_once(':')?;
        Some((point.to_owned(), nth.parse().ok()?))
    });
    if let Some((wanted, nth)) = asked
        && wanted == point
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *nth
    {
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub fn pass(_: &str) {}
