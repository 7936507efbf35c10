//! A connection's bytes under watch: a head has to come in time, and an answer has to be taken.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::connections::{Phase, Slot};
use crate::limits::{ANSWER_PROGRESS_MIN_BYTES, BODY_PROGRESS_MIN_BYTES, LINGER_MAX_BYTES, Limits};

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
    linger: Option<Linger>,
}

/// What is left of a body that was answered before it had come.
struct Linger {
    until: Pin<Box<Sleep>>,
    stall: Pin<Box<Sleep>>,
    /// Since `stall` was set.
    read: usize,
    left: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    head: Duration,
    stall: Duration,
    body: Duration,
    body_stall: Duration,
}

impl Times {
    pub(super) fn of(limits: &Limits) -> Self {
        let ms = Duration::from_millis;
        Self {
            head: ms(limits.head_timeout_ms),
            stall: ms(limits.answer_stall_ms),
            body: ms(limits.body_timeout_ms),
            body_stall: ms(limits.body_stall_ms),
        }
    }

    pub(super) fn head(self) -> Duration {
        self.head
    }
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, slot: Arc<Slot>, times: Times) -> Self {
        Self { stream, slot, times, head: None, begun: false, stall: None, taken: 0, linger: None }
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

impl<S: AsyncRead + Unpin> Watched<S> {
    /// Closing while bytes of a client are unread resets its connection, and a client that is still sending never sees the
    /// answer. So they are read and thrown away, within the times that a body has; meanwhile it makes way for others.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Times { body, body_stall, .. } = self.times;
        if self.linger.is_none() && self.slot.phase() != Phase::Idle {
            self.slot.enter(Phase::Idle);
        }
        let linger = self.linger.get_or_insert_with(|| Linger {
            until: Box::pin(tokio::time::sleep(body)),
            stall: Box::pin(tokio::time::sleep(body_stall)),
            read: 0,
            left: LINGER_MAX_BYTES,
        });
        let mut bytes = [std::mem::MaybeUninit::uninit(); 16 * 1024];
        loop {
            if linger.until.as_mut().poll(cx).is_ready() || linger.stall.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::uninit(&mut bytes);
            let read = match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)) {
                Ok(()) => buffer.filled().len(),
                Err(_) => return Poll::Ready(()),
            };
            linger.left = linger.left.saturating_sub(read);
            if read == 0 || linger.left == 0 {
                return Poll::Ready(());
            }
            linger.read += read;
            if linger.read >= BODY_PROGRESS_MIN_BYTES {
                linger.read = 0;
                linger.stall.as_mut().reset(Instant::now() + body_stall);
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

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
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
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        if self.slot.has_unread() {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}
