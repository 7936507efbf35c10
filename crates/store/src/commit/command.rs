//! What the committer is given: a command of its own, or one of many that one caller waits for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use redrive_engine::error::{Error, Result};
use redrive_engine::tx::Tx;

/// A command: run inside a transaction (again, if its batch had to be rolled back), answered after the commit.
pub(crate) trait Command: Send {
    /// Err only when the store failed; a refusal is an answer like any other.
    fn run(&mut self, batch: &mut Tx<'_>) -> Result<()>;
    fn answer(self: Box<Self>, failed: Option<Error>);
}

/// Answers a command; what panics while it is let go of costs nobody else's answer.
pub(crate) fn answer(command: Box<dyn Command>, failed: Option<Error>) {
    if catch_unwind(AssertUnwindSafe(|| command.answer(failed))).is_err() {
        tracing::error!("an answer panicked");
    }
}

/// One command that one caller waits for.
pub(crate) struct Call<F, T> {
    act: F,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Answered<F, T>>,
}

/// An answer, and with it the command: whoever asked lets go of what it held, so that the committer need not.
pub(crate) type Answered<F, T> = (Result<T>, F);

impl<F, T> Call<F, T> {
    pub(crate) fn new(act: F, reply: oneshot::Sender<Answered<F, T>>) -> Self {
        Self { act, result: None, reply }
    }
}

impl<F, T> Command for Call<F, T>
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    T: Send + 'static,
{
    fn run(&mut self, batch: &mut Tx<'_>) -> Result<()> {
        self.result = Some(refused_or_failed((self.act)(batch))?);
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<Error>) {
        // Nobody may be waiting any more: a client that hung up does not undo what was committed.
        let _ = self.reply.send((answer_of(self.result, failed), self.act));
    }
}

/// A refusal is an answer; only a store that failed undoes the batch.
fn refused_or_failed<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(failed) if failed.is_of_store() => Err(failed),
        answer => Ok(answer),
    }
}

fn answer_of<T>(result: Option<Result<T>>, failed: Option<Error>) -> Result<T> {
    match failed {
        Some(error) => Err(error),
        None => result.unwrap_or(Err(Error::Closing)),
    }
}

/// One of many commands that one caller waits for.
pub(crate) struct Member<F, T> {
    act: F,
    result: Option<Result<T>>,
    at: usize,
    group: Arc<Group<Answered<F, T>>>,
}

impl<F, T> Member<F, T> {
    pub(crate) fn new(act: F, at: usize, group: Arc<Group<Answered<F, T>>>) -> Self {
        Self { act, result: None, at, group }
    }
}

impl<F, T> Command for Member<F, T>
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    T: Send + 'static,
{
    fn run(&mut self, batch: &mut Tx<'_>) -> Result<()> {
        self.result = Some(refused_or_failed((self.act)(batch))?);
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<Error>) {
        let Self { act, result, at, group } = *self;
        group.put(at, (answer_of(result, failed), act));
    }
}

/// The answers of many commands, sent when the last of them has let go.
pub(crate) struct Group<A> {
    answers: Mutex<Vec<Option<A>>>,
    done: Option<oneshot::Sender<Vec<Option<A>>>>,
}

impl<A> Group<A> {
    pub(crate) fn of(count: usize) -> (Arc<Self>, oneshot::Receiver<Vec<Option<A>>>) {
        let (done, answered) = oneshot::channel();
        let answers = Mutex::new(std::iter::repeat_with(|| None).take(count).collect());
        (Arc::new(Self { answers, done: Some(done) }), answered)
    }

    fn put(&self, at: usize, answer: A) {
        if let Ok(mut answers) = self.answers.lock()
            && let Some(place) = answers.get_mut(at)
        {
            *place = Some(answer);
        }
    }
}

impl<A> Drop for Group<A> {
    fn drop(&mut self) {
        let answers = self.answers.get_mut().map(std::mem::take).unwrap_or_default();
        if let Some(done) = self.done.take() {
            let _ = done.send(answers);
        }
    }
}
