//! Points where a test kills the process, as a power cut would. `REDRIVE_ABORT_AT=before_commit:3` aborts it the third time
//! it passes that point. Release builds have no failpoints.

#[cfg(debug_assertions)]
thread_local! {
    static PANIC_AT: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Makes this thread panic the next time it passes the point.
#[cfg(debug_assertions)]
pub fn panic_at(point: &'static str) {
    PANIC_AT.set(Some(point));
}

/// Aborts or panics here, if a test asked for it.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "a test asked for it, and release builds have no failpoints")]
pub fn pass(point: &str) {
    if PANIC_AT.get() == Some(point) {
        PANIC_AT.set(None);
        panic!("failpoint {point}");
    }
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ABORT_AT: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    let abort_at = ABORT_AT.get_or_init(|| {
        let asked = std::env::var("REDRIVE_ABORT_AT").ok()?;
        let (point, nth) = asked.split_once(':')?;
        Some((point.to_owned(), nth.parse().ok()?))
    });
    if let Some((wanted, nth)) = abort_at
        && wanted == point
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *nth
    {
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub fn pass(_: &str) {}
