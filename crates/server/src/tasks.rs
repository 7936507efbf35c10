//! The one place that starts tasks. Each has an owner that stops it, and its panic is reported.

use std::any::Any;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use redrive_store::{Turns, give_way};
use tokio::task::JoinSet;
use tracing::Span;

use crate::app::App;
use crate::budget::Holder;
use crate::problem::{Code, Problem};

/// Tasks of one owner.
#[derive(Debug, Default)]
pub struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    pub fn start(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What has ended is let go of here, so that the set holds only what runs.
        while set.try_join_next().is_some() {}
        set.spawn(async move {
            if let Err(panic) = guarded(Box::pin(task)).await {
                tracing::error!(task = name, panic, "a task panicked");
            }
        });
    }

    /// Waits for all to end; what has not after `grace` is cut off. Returns how many were.
    pub async fn finish(&self, grace: Duration) -> usize {
        let mut set = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = tokio::time::timeout(grace, async { while set.join_next().await.is_some() {} }).await;
        let left = if ended.is_ok() { 0 } else { set.len() };
        set.shutdown().await;
        left
    }
}

/// Runs a future to its end; a panic becomes its message instead of taking the caller with it.
pub(crate) fn guarded<T>(future: Pin<Box<dyn Future<Output = T> + Send>>) -> Guarded<T> {
    Guarded(future)
}

pub(crate) struct Guarded<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> Future for Guarded<T> {
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(message(panic.as_ref()))),
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

/// Work above this keeps a thread busy long enough for others to notice.
const INLINE_MAX_BYTES: usize = 128 * 1024;

/// Large pieces of work that go on at once, so that one holder's never take every processor: half of them at most.
pub(crate) fn large_work() -> Turns<Holder> {
    let all = std::thread::available_parallelism().map_or(2, NonZero::get).max(2);
    Turns::new(all, all.div_ceil(2))
}

/// Does work on `bytes` bytes where it blocks nobody: what is large is done in the holder's turn, on a thread that gives
/// way to those that everybody waits for.
pub(crate) async fn compute<T: Send + 'static>(
    app: &App,
    holder: &Holder,
    bytes: usize,
    work: impl FnOnce() -> crate::problem::Result<T> + Send + 'static,
) -> crate::problem::Result<T> {
    if bytes <= INLINE_MAX_BYTES {
        return work();
    }
    let Some(turn) = app.large_work.take(holder).await else { return Err(Problem::plain(Code::Closing)) };
    beside(move || {
        // Held here and not by the caller, who may stop waiting before the work ends.
        let _turn = turn;
        work()
    })
    .await
}

/// Does work at once, on a thread that gives way. For what is in memory already: it must not wait there for a turn.
pub(crate) async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> crate::problem::Result<T> + Send + 'static,
) -> crate::problem::Result<T> {
    let span = Span::current();
    let worked = tokio::task::spawn_blocking(move || {
        give_way();
        span.in_scope(work)
    });
    match worked.await {
        Ok(done) => done,
        Err(error) => Err(Problem::internal(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_caught_and_told() {
        let told = guarded::<()>(Box::pin(async { panic!("oh {}", "no") })).await;
        assert_eq!(told, Err("oh no".into()));
    }

    #[tokio::test]
    async fn what_does_not_end_in_time_is_cut_off_and_counted() {
        let tasks = Tasks::default();
        tasks.start("short", async {});
        tasks.start("long", std::future::pending());
        assert_eq!(tasks.finish(Duration::from_millis(20)).await, 1);
    }
}
