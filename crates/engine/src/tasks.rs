//! Starts all tasks. Each has an owner that stops it, and its panic is logged.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of one owner, cancelled when it is dropped.
#[derive(Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl Tasks {
    pub fn start(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let task = async move {
            if let Err(panic) = guarded(Box::pin(task)).await {
                tracing::error!(task = name, panic, "task panicked");
            }
        };
        self.tracker.spawn(self.cancel.clone().run_until_cancelled_owned(task));
    }

    /// Waits for all tasks and cancels those that run longer than `grace`. Returns how many it cancelled.
    pub async fn finish(&self, grace: Duration) -> usize {
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_ok() {
            return 0;
        }
        let left = self.tracker.len();
        self.cancel.cancel();
        self.tracker.wait().await;
        left
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Catches a panic of a future and returns its message.
pub fn guarded<T>(future: Pin<Box<dyn Future<Output = T> + Send>>) -> Guarded<T> {
    Guarded(future)
}

pub struct Guarded<T>(Pin<Box<dyn Future<Output = T> + Send>>);

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
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_its_message() {
        let result = guarded::<()>(Box::pin(async { panic!("oh {}", "no") })).await;
        assert_eq!(result, Err("oh no".into()));
    }

    #[tokio::test]
    async fn dropping_the_owner_cancels_its_tasks() {
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
