//! Commands on their way through a writer, and how each is answered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use redrive_engine::error::{Error, Result};
use redrive_engine::tx::Tx;

/// A command that waits for a writer. It runs inside a transaction, again if its batch was rolled back, and is answered after
/// the commit.
pub(crate) trait QueuedCommand: Send {
    /// Fails only if the store failed; a refusal is an answer like any other.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()>;
    fn answer(self: Box<Self>, failed: Option<Error>);
}

/// Answers a command. A panic while it is dropped costs no other command's answer.
pub(crate) fn answer(command: Box<dyn QueuedCommand>, failed: Option<Error>) {
    if catch_unwind(AssertUnwindSafe(|| command.answer(failed))).is_err() {
        tracing::error!("an answer panicked");
    }
}

/// A command that passes its result to `reply`. The closure goes with it, so that the caller's thread drops what it holds.
pub(crate) fn command<F, T, R>(act: F, reply: R) -> Box<dyn QueuedCommand>
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    T: Send + 'static,
    R: FnOnce((Result<T>, F)) + Send + 'static,
{
    Box::new(CommandWithReply { act, result: None, reply })
}

struct CommandWithReply<F, T, R> {
    act: F,
    result: Option<Result<T>>,
    reply: R,
}

impl<F, T, R> QueuedCommand for CommandWithReply<F, T, R>
where
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send,
    T: Send,
    R: FnOnce((Result<T>, F)) + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        match (self.act)(tx) {
            Err(failed) if failed.is_of_store() => Err(failed),
            answer => {
                self.result = Some(answer);
                Ok(())
            }
        }
    }

    fn answer(self: Box<Self>, failed: Option<Error>) {
        let Self { act, result, reply } = *self;
        let answer = failed.map_or_else(|| result.unwrap_or(Err(Error::Closing)), Err);
        reply((answer, act));
    }
}

/// A reply to one caller. A client that hung up does not undo what was committed.
pub(crate) fn reply_to<A>(caller: oneshot::Sender<A>) -> impl FnOnce(A) {
    move |answer| drop(caller.send(answer))
}

/// The answers of many commands, sent together when the last command is dropped.
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

    /// The reply of the command at `position`.
    pub(crate) fn reply(self: &Arc<Self>, position: usize) -> impl FnOnce(A) + use<A> {
        let group = self.clone();
        move |answer| {
            if let Ok(mut answers) = group.answers.lock()
                && let Some(place) = answers.get_mut(position)
            {
                *place = Some(answer);
            }
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
