//! CPU-bound work: it runs on a blocking thread, in its holder's turn.

use std::num::NonZero;

use redrive_engine::{FairSemaphore, lower_thread_priority};
use tracing::Span;

use crate::app::App;
use crate::budget::Holder;
use crate::problem::{Code, HttpProblem};

/// Larger inputs block a thread for noticeably long.
const INLINE_MAX_BYTES: usize = 128 * 1024;

/// Limits large work to one piece per processor, and each holder to half of them.
pub(crate) fn large_work() -> FairSemaphore<Holder> {
    let all = std::thread::available_parallelism().map_or(2, NonZero::get).max(2);
    FairSemaphore::new(all, all.div_ceil(2))
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
    let Some(turn) = app.large_work.acquire(holder).await else { return Err(HttpProblem::plain(Code::Closing)) };
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
        lower_thread_priority();
        span.in_scope(work)
    });
    match worked.await {
        Ok(done) => done,
        Err(error) => Err(HttpProblem::internal(&error.to_string())),
    }
}
