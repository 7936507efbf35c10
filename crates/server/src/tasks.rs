//! The one place that starts tasks. Each task has an owner that stops it, and its panic is logged.

use std::any::Any;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use redrive_store::{Turns, give_way};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Span;

use crate::app::App;
use crate::budget::Holder;
use crate::problem::{Code, Problem};

/// Tasks of one owner. They are cut off when it is dropped.
#[derive(Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    cut_off: CancellationToken,
}

impl Tasks {
    pub fn start(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let task = async move {
            if let Err(panic) = guarded(Box::pin(task)).await {
                tracing::error!(task = name, panic, "task panicked");
            }
        };
        self.tracker.spawn(self.cut_off.clone().run_until_cancelled_owned(task));
    }

    /// Waits for all tasks to end and cuts off those that have not after `grace`. Returns how many it cut off.
    pub async fn finish(&self, grace: Duration) -> usize {
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_ok() {
            return 0;
        }
        let left = self.tracker.len();
        self.cut_off.cancel();
        self.tracker.wait().await;
        left
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.cut_off.cancel();
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

/// Larger work would block its thread noticeably.
const INLINE_MAX_BYTES: usize = 128 * 1024;

/// Limits large work to one piece per processor, and each holder to half of them.
pub(crate) fn large_work() -> Turns<Holder> {
    let all = std::thread::available_parallelism().map_or(2, NonZero::get).max(2);
    Turns::new(all, all.div_ceil(2))
}

/// Runs work on `bytes` bytes: small work inline, large work in the holder's turn on a blocking thread of low priority.
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

/// Runs work at once on a blocking thread of low priority, without a turn: its input is in memory already.
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
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_its_message() {
        let told = guarded::<()>(Box::pin(async { panic!("oh {}", "no") })).await;
        assert_eq!(told, Err("oh no".into()));
    }

    #[tokio::test]
    async fn dropping_the_owner_cuts_its_tasks_off() {
        let (tasks, running) = (Tasks::default(), Arc::new(()));
        let held = running.clone();
        tasks.start("long", async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        let tracker = tasks.tracker.clone();
        drop(tasks);
        tracker.close();
        tracker.wait().await;
        assert_eq!(Arc::strong_count(&running), 1);
    }

    #[tokio::test]
    async fn tasks_that_outlast_the_grace_time_are_counted() {
        let tasks = Tasks::default();
        tasks.start("short", async {});
        tasks.start("long", std::future::pending());
        assert_eq!(tasks.finish(Duration::from_millis(20)).await, 1);
    }
}
