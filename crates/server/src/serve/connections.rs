//! Open connections and their phases. When there are too many, a new one evicts an idle one, so that clients which hold
//! connections without using them lock nobody out.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use crate::limits::{ANSWER_PROGRESS_MIN_BYTES, BODY_PROGRESS_MIN_BYTES, LINGER_MAX_BYTES, ServerLimits};

/// What a connection is doing, in the order in which connections are evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Phase {
    /// It has not sent the whole head of a request.
    Head,
    /// It is between two requests.
    Idle,
    /// Its client does not read the answer.
    Stalled,
    /// Its request is being processed. It is never evicted.
    Busy,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Head, Self::Idle, Self::Stalled, Self::Busy];
}

/// A phase and when it began, by a counter that only rises.
type PhaseStart = (Phase, u64);

#[derive(Debug)]
pub(super) struct Connections {
    max: usize,
    heads_max: usize,
    open: Mutex<OpenConnections>,
    /// A connection has ended, or can be evicted now.
    changed: Notify,
}

#[derive(Debug, Default)]
struct OpenConnections {
    count: u64,
    heads: usize,
    /// Evicted but still open.
    leaving: usize,
    places: BTreeMap<PhaseStart, Arc<Notify>>,
}

impl OpenConnections {
    fn insert(&mut self, phase: Phase, cut: Arc<Notify>) -> PhaseStart {
        self.count += 1;
        self.heads += usize::from(phase == Phase::Head);
        self.places.insert((phase, self.count), cut);
        (phase, self.count)
    }

    fn remove(&mut self, place: PhaseStart) -> Option<Arc<Notify>> {
        let cut = self.places.remove(&place)?;
        self.heads -= usize::from(place.0 == Phase::Head);
        Some(cut)
    }

    /// Evicts the first connection, unless its phase is beyond `last`.
    fn cut_first(&mut self, last: Phase) {
        let Some(&place) = self.places.keys().next().filter(|(phase, _)| *phase <= last) else { return };
        if let Some(cut) = self.remove(place) {
            self.leaving += 1;
            cut.notify_one();
        }
    }
}

impl Connections {
    pub(super) fn new(max: usize, heads_max: usize) -> Arc<Self> {
        Arc::new(Self { max, heads_max, open: Mutex::default(), changed: Notify::new() })
    }

    /// A slot for a newcomer, as soon as there is one.
    pub(super) async fn admit(self: &Arc<Self>) -> ConnectionSlot {
        loop {
            if let Some(slot) = self.try_admit() {
                return slot;
            }
            self.changed.notified().await;
        }
    }

    fn try_admit(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let mut open = self.lock();
        if open.places.len() + open.leaving >= self.max {
            // One connection is evicted per newcomer, and it is gone before the newcomer is admitted.
            if open.leaving == 0 {
                open.cut_first(Phase::Stalled);
            }
            return None;
        }
        if open.heads >= self.heads_max {
            open.cut_first(Phase::Head);
        }
        let cut = Arc::new(Notify::new());
        let place = Mutex::new(open.insert(Phase::Head, cut.clone()));
        let phase = AtomicU8::new(Phase::Head as u8);
        let (answered, unread) = (AtomicBool::new(false), AtomicBool::new(false));
        Some(ConnectionSlot { connections: self.clone(), place, phase, answered, unread, cut })
    }

    /// Evicts a connection that is not busy, to free its file.
    pub(super) fn cut_one(&self) {
        self.lock().cut_first(Phase::Stalled);
    }

    #[cfg(test)]
    pub(super) fn phases(&self) -> Vec<Phase> {
        self.lock().places.keys().map(|(phase, _)| *phase).collect()
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of an open connection; returned when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    place: Mutex<PhaseStart>,
    phase: AtomicU8,
    answered: AtomicBool,
    unread: AtomicBool,
    cut: Arc<Notify>,
}

impl ConnectionSlot {
    /// Notified when the connection has to close.
    pub(super) fn cut(&self) -> Arc<Notify> {
        self.cut.clone()
    }

    pub(super) fn phase(&self) -> Phase {
        let now = self.phase.load(Ordering::Acquire);
        Phase::ALL.into_iter().find(|phase| *phase as u8 == now).unwrap_or(Phase::Busy)
    }

    pub(super) fn enter(&self, phase: Phase) {
        let mut open = self.connections.lock();
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        // An evicted connection is no longer in the map.
        if let Some(cut) = open.remove(*place) {
            *place = open.insert(phase, cut);
        }
        self.phase.store(phase as u8, Ordering::Release);
        drop((open, place));
        if phase != Phase::Busy {
            self.connections.changed.notify_one();
        }
    }

    /// The whole answer was handed to the connection.
    pub(super) fn answered(&self) {
        self.answered.store(true, Ordering::Release);
    }

    /// A request was answered before its whole body had arrived.
    pub(super) fn left_unread(&self) {
        self.unread.store(true, Ordering::Release);
    }

    pub(super) fn has_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }

    /// Whether an answer has been handed over since the last call.
    pub(super) fn take_answered(&self) -> bool {
        self.answered.swap(false, Ordering::AcqRel)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        let place = *self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if open.remove(place).is_none() {
            open.leaving = open.leaving.saturating_sub(1);
        }
        drop(open);
        self.connections.changed.notify_one();
    }
}

/// A stream that fails when its client is too slow. The stream is closed before the slot is returned.
pub(super) struct TimedStream<S> {
    stream: S,
    slot: Arc<ConnectionSlot>,
    times: StreamTimeouts,
    head: Option<Pin<Box<Sleep>>>,
    /// Bytes of the next request have arrived.
    begun: bool,
    stall: Option<Pin<Box<Sleep>>>,
    /// Since `stall` was set.
    taken: usize,
    linger: Option<Linger>,
}

/// The unread rest of a body that was answered early.
struct Linger {
    until: Pin<Box<Sleep>>,
    stall: Pin<Box<Sleep>>,
    /// Since `stall` was set.
    read: usize,
    left: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct StreamTimeouts {
    head: Duration,
    stall: Duration,
    body: Duration,
    body_stall: Duration,
}

impl StreamTimeouts {
    pub(super) fn of(limits: &ServerLimits) -> Self {
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

impl<S> TimedStream<S> {
    pub(super) fn new(stream: S, slot: Arc<ConnectionSlot>, times: StreamTimeouts) -> Self {
        Self { stream, slot, times, head: None, begun: false, stall: None, taken: 0, linger: None }
    }

    /// Nothing was read: fails once the head timeout has passed.
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

impl<S: AsyncRead + Unpin> TimedStream<S> {
    /// Closing a socket with unread bytes resets the connection, and a client that is still sending never sees the answer.
    /// So the rest is read and discarded, within the timeouts of a body; meanwhile the connection can be evicted.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let StreamTimeouts { body, body_stall, .. } = self.times;
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

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
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

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
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

    /// Called after everything was written: the end of an answer, if all of it was handed over.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it was asked to close.
    fn is_cut(slot: &ConnectionSlot) -> bool {
        let open = slot.connections.lock();
        !open.places.contains_key(&*slot.place.lock().unwrap())
    }

    fn slots(connections: &Arc<Connections>, count: usize) -> Vec<ConnectionSlot> {
        (0..count).map(|_| connections.try_admit().unwrap()).collect()
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_oldest_head() {
        let connections = Connections::new(3, 10);
        let mut slots = slots(&connections, 3);
        slots[0].enter(Phase::Busy);
        assert!(connections.try_admit().is_none(), "the oldest head is still there");
        assert!(connections.try_admit().is_none(), "one newcomer evicts one connection");
        assert_eq!(slots.iter().map(is_cut).collect::<Vec<_>>(), [false, true, false]);
        drop(slots.remove(1));
        let newcomer = connections.try_admit().unwrap();
        assert_eq!((newcomer.phase(), connections.lock().places.len()), (Phase::Head, 3));
    }

    #[test]
    fn the_longest_idle_goes_then_the_longest_stalled() {
        let connections = Connections::new(4, 10);
        let mut slots: Vec<Option<ConnectionSlot>> = slots(&connections, 4).into_iter().map(Some).collect();
        let phases = [Phase::Stalled, Phase::Busy, Phase::Idle, Phase::Idle];
        for (slot, phase) in slots.iter().flatten().zip(phases) {
            slot.enter(phase);
        }
        // The third is used once more: the fourth has been idle for longer now.
        for phase in [Phase::Busy, Phase::Idle] {
            slots[2].as_ref().unwrap().enter(phase);
        }
        let mut newcomers = Vec::new();
        for next in [3, 2, 0] {
            assert!(connections.try_admit().is_none());
            assert!(slots[next].as_ref().is_some_and(is_cut), "{next}");
            slots[next] = None;
            let newcomer = connections.try_admit().unwrap();
            newcomer.enter(Phase::Busy);
            newcomers.push(newcomer);
        }
        assert!(connections.try_admit().is_none());
        assert!(!slots.iter().flatten().chain(&newcomers).any(is_cut), "what is busy is left alone");
    }

    #[test]
    fn heads_have_a_bound_of_their_own() {
        let connections = Connections::new(100, 2);
        let slots = slots(&connections, 3);
        assert_eq!(slots.iter().map(is_cut).collect::<Vec<_>>(), [true, false, false]);
        slots[1].enter(Phase::Busy);
        let more = connections.try_admit().unwrap();
        assert!(!is_cut(&slots[2]) && !is_cut(&more));
    }

    #[tokio::test]
    async fn a_newcomer_waits_while_all_are_busy() {
        let connections = Connections::new(1, 10);
        let slot = connections.admit().await;
        slot.enter(Phase::Busy);
        let (newcomer, ()) = tokio::join!(connections.admit(), async move {
            tokio::task::yield_now().await;
            slot.enter(Phase::Idle);
            slot.cut().notified().await;
            drop(slot);
        });
        assert_eq!(newcomer.phase(), Phase::Head);
    }
}
