//! A call that asks the store for two things at once. Which answer is there first is luck, so it must not be seen:
//! whoever waits goes on when all that it waits for is there.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

pub struct Whole<F>(Pin<Box<F>>);

/// The call, woken once for each time that it waits.
pub fn whole<F: Future>(call: F) -> Whole<F> {
    Whole(Box::pin(call))
}

impl<F: Future> Future for Whole<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let bells = Arc::new(Bells { outer: context.waker().clone(), counts: Mutex::default() });
        let went = self.0.as_mut().poll(&mut Context::from_waker(&Waker::from(bells.clone())));
        if went.is_pending() {
            // Whatever it waits for has kept a waker to ring.
            bells.expect(Arc::strong_count(&bells) - 1);
        }
        went
    }
}

/// Rings outside once all have rung.
struct Bells {
    outer: Waker,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    expected: Option<usize>,
    rung: usize,
}

impl Bells {
    fn expect(&self, bells: usize) {
        self.count(|counts| counts.expected = Some(bells));
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        if counts.expected.is_some_and(|expected| counts.rung >= expected) {
            self.outer.wake_by_ref();
        }
    }
}

impl Wake for Bells {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.count(|counts| counts.rung += 1);
    }
}
