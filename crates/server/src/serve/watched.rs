//! A connection's bytes under watch: a head has to come in time, and an answer has to be taken.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::connections::{Phase, Slot};
use crate::limits::{ANSWER_PROGRESS_MIN_BYTES, Limits};

/// Ends with an error where its client keeps the server waiting. The stream is closed before the slot is given back.
pub(super) struct Watched<S> {
    stream: S,
    slot: Arc<Slot>,
    times: Times,
    head: Option<Pin<Box<Sleep>>>,
    /// Bytes of a next request have come.
    begun: bool,
    stall: Option<Pin<Box<Sleep>>>,
    /// Since `stall` was set.
    taken: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    head: Duration,
    stall: Duration,
}

impl Times {
    pub(super) fn of(limits: &Limits) -> Self {
        let ms = Duration::from_millis;
        Self { head: ms(limits.head_timeout_ms), stall: ms(limits.answer_stall_ms) }
    }

    pub(super) fn head(self) -> Duration {
        self.head
    }
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, slot: Arc<Slot>, times: Times) -> Self {
        Self { stream, slot, times, head: None, begun: false, stall: None, taken: 0 }
    }

    /// Nothing came: whether the client may still take its time.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.slot.phase() {
            Phase::Idle if self.begun => self.slot.enter(Phase::Head),
            Phase::Head => {}
            Phase::Idle | Phase::Stalled | Phase::Busy => return Poll::Pending,
        }
        let time = self.times.head;
        let head = self.head.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        ready!(head.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the head of a request did not come in time")))
    }

    fn on_write(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.taken = self.taken.saturating_add(bytes);
                if self.taken >= ANSWER_PROGRESS_MIN_BYTES {
                    self.stall = None;
                }
                if self.slot.phase() == Phase::Stalled {
                    self.slot.enter(Phase::Busy);
                }
                written
            }
            Poll::Ready(Err(_)) => written,
            Poll::Pending => {
                if self.slot.phase() == Phase::Busy {
                    self.slot.enter(Phase::Stalled);
                }
                if self.stall.is_none() {
                    self.taken = 0;
                }
                let time = self.times.stall;
                let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
                ready!(stall.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Pending => self.poll_head(cx),
            read => {
                self.begun |= buffer.filled().len() > before && self.slot.phase() == Phase::Idle;
                read
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.on_write(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.on_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Asked for when all that was to be written is: the end of an answer, if that was all of it.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.stall = None;
        if self.slot.take_answered() {
            (self.head, self.begun) = (None, false);
            self.slot.enter(Phase::Idle);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
