"""The thread that says what need not be said at once, in the order in which it was handed over. While the server is
away all of it goes to the spool, and from there it is sent as soon as somebody answers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from .context import start_daemon
from .delivery import Busy, Delivery
from .late import LateEffects
from .logs import log
from .record import ENDS, Record
from .spool import Spool, SpoolFile, SpoolFull
from .transport import Answer, Away, NotRedrive, Transport

#: Nobody waits for the background: a slow answer there is better than none.
_WAIT_S = 10.0
_RETRY_MIN_S, _RETRY_MAX_S = 0.1, 2.0
_OTHERS_EVERY_S = 30.0
_QUEUE_MAX = 10_000
#: Steps that go out in one round trip. Neither side reads while it sends, so all of it has to fit into the sockets' buffers.
_BATCH_MAX, _BATCH_MAX_CHARS = 64, 8 * 1024


class Handed:
    """A record in flight, for callers that wait for its outcome."""

    __slots__ = ("_known", "answer", "record")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.answer: Answer | None = None
        self._known = threading.Event()

    def settle(self, answer: Answer | None) -> None:
        """The first word counts: what was spooled while it was on its way may get two."""
        if not self._known.is_set():
            self.answer = answer
            self._known.set()

    @property
    def settled(self) -> bool:
        return self._known.is_set()

    def wait(self, seconds: float) -> Answer | None:
        self._known.wait(seconds)
        return self.answer


class Sender:
    def __init__(self, transport: Transport, spool: Spool, told: Callable[[Record, Answer | None], None]) -> None:
        self._transport, self._spool, self._told = transport, spool, told
        self._queue: deque[Handed] = deque()
        #: On its way: no longer in the queue, and not yet known to have arrived.
        self._in_hand: list[Handed] = []
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._misconfigured = ""
        #: At exit two threads may be at it.
        self._spooling = threading.RLock()
        self._busy = False
        self._stopped = False
        self._retry_s = 0.0
        self._retry_at = 0.0
        self._others_at = 0.0
        self._late_to_send = False
        self._full_until = 0.0
        self._own: tuple[SpoolFile, Delivery] | None = None
        #: Of runs whose start was answered after the fact; what follows of them may be in the queue already.
        self._leases: dict[str, str | None] = {}
        self._ended: dict[str, str | None] = {}
        self._late = LateEffects(spool, self._look_at_others)
        self._direct = Delivery(transport, spool.set_aside, self._late, self._leases, {}, self._ended)

    def put(self, record: Record) -> Handed:
        return self.put_all([record])[0]

    def put_all(self, records: Sequence[Record]) -> list[Handed]:
        """In one go, so that they are sent together where that is possible."""
        handed = [Handed(record) for record in records]
        with self._wake:
            self._queue.extend(handed)
            self._run_thread()
            self._wake.notify()
        if self._stopped or self._thread is None:
            # Said after the end, or no thread can be had: nobody but the disk takes it any more.
            self._spool_queue()
        return handed

    def to_spool(self) -> None:
        """Puts what is in the queue on disk, so that what follows it there comes after it."""
        self._spool_queue(in_hand=True)

    def know_start(self, run: str, start: str) -> None:
        self._direct.know_start(run, start)

    def poke(self) -> None:
        """Something was put into the spool."""
        with self._wake:
            self._run_thread()
            self._wake.notify()

    def is_away(self) -> bool:
        """Known not to answer: optional calls are skipped."""
        return time.monotonic() < self._retry_at

    def seen_away(self, away: Away) -> None:
        if isinstance(away, NotRedrive):
            if self._misconfigured != str(away):
                self._misconfigured = str(away)
                where = self._transport.url, away, self._spool.folder
                log.error("redrive: %s is not a Redrive server (%s): check REDRIVE_URL; reports are kept in %s", *where)
            self._retry_s = self._retry_s or _RETRY_MIN_S
        if not self.is_away():
            if self._retry_s == 0.0:
                log.warning("redrive: the server is unreachable; reports are kept on disk: %s", away)
            self._retry_s = min(_RETRY_MAX_S, max(_RETRY_MIN_S, self._retry_s * 2))
            pause = self._retry_s if away.retry_after_s is None else min(away.retry_after_s, 30.0)
            self._retry_at = time.monotonic() + pause

    def seen_there(self) -> None:
        if self._retry_s:
            log.warning("redrive: the server is reachable again")
        self._retry_s = self._retry_at = 0.0

    def close(self, seconds: float) -> None:
        """Sends what it can in this time; the rest is on disk afterwards. Needs no thread: at exit none can be made."""
        until = time.monotonic() + seconds
        with self._wake:
            self._stopped = True
            self._wake.notify_all()
            idle = self._wake.wait_for(lambda: not self._busy, seconds)
        while idle and time.monotonic() < until and not self.is_away() and (self._queue or not self._spool.empty):
            self._round(until - time.monotonic())
        self._spool_queue(in_hand=True)
        self._late.give_up_all()

    def flush(self, seconds: float) -> bool:
        """Waits until every report is sent; false if the time was not enough."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self._wake:
                if not self._queue and not self._busy and self._spool.empty and not self._late_to_send:
                    return True
                self._run_thread()
                self._wake.notify_all()
                self._wake.wait(0.02)
        # From here on a process exit loses nothing in memory.
        self._spool_queue(in_hand=True)
        return False

    def forget(self) -> None:
        """In a forked child: the thread and what it has in hand are the parent's."""
        self._queue, self._wake, self._thread = deque(), threading.Condition(), None
        self._busy, self._own, self._spooling = False, None, threading.RLock()
        self._in_hand, self._stopped = [], False
        self._late.forget()

    def _run_thread(self) -> None:
        if self._thread is None and not self._stopped:
            self._thread = start_daemon("redrive-sender", self._run)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._busy = False
                self._wake.notify_all()
                self._wake.wait_for(self._has_work, self._nap_s())
                if self._stopped:
                    return
                self._busy = True
            try:
                self._round(_WAIT_S)
            except Exception:  # noqa: BLE001 - a defect here must not end the agent's reports for good
                log.exception("redrive: the sender failed and will retry")
                self._retry_at = time.monotonic() + _RETRY_MAX_S

    def _has_work(self) -> bool:
        if self._stopped:
            return True
        if self.is_away():
            return bool(self._queue) and time.monotonic() >= self._full_until
        return bool(self._queue) or not self._spool.empty or time.monotonic() >= self._others_at

    def _nap_s(self) -> float:
        now = time.monotonic()
        return max(0.01, (self._retry_at if self.is_away() else self._others_at) - now)

    def _round(self, wait_s: float) -> None:
        try:
            if self.is_away() or not self._spool.empty:
                # What is already on disk was said before.
                self._spool_queue()
            if self.is_away():
                return
            if not self._spool.empty:
                self._send_own(wait_s)
            self._send_queue(wait_s)
            if time.monotonic() >= self._others_at and not self._stopped:
                self._others_at, self._late_to_send = time.monotonic() + _OTHERS_EVERY_S, False
                for left in self._spool.left_behind():
                    try:
                        self._send_left(left, wait_s)
                    except Busy:
                        continue
                    if torn := left.torn():
                        kept = self._spool.set_aside_line(torn)
                        log.warning("redrive: the incomplete last line of %s was moved to %s", left.path.name, kept)
                    left.remove()
            self.seen_there()
        except Away as away:
            self.seen_away(away)
            self._spool_queue()

    def _send_queue(self, wait_s: float) -> None:
        while batch := self._take_batch():
            try:
                for handed, answer in zip(batch, self._direct.send_all([each.record for each in batch], wait_s), strict=True):
                    self._arrived(handed)
                    if handed.record.do in ENDS:
                        self._leases.pop(handed.record.run, None)
                    handed.settle(answer)
                    self._told(handed.record, answer)
            except BaseException:
                with self._wake:
                    # What was spooled meanwhile is not in hand any more.
                    self._queue.extendleft(reversed(self._in_hand))
                    self._in_hand = []
                raise

    def _take_batch(self) -> list[Handed]:
        """The next record of the queue, or the next steps that may be sent together."""
        with self._wake:
            batch: list[Handed] = []
            size = 0
            while self._queue and not self._spool.has(self._queue[0].record.run):
                record = self._queue[0].record
                size += len(record.body)
                if batch and (len(batch) >= _BATCH_MAX or size > _BATCH_MAX_CHARS or not self._direct.may_share(record)):
                    break
                batch.append(self._queue.popleft())
                if not self._direct.may_share(record):
                    break
            self._in_hand = list(batch)
            return batch

    def _arrived(self, handed: Handed) -> None:
        with self._wake:
            self._in_hand = [each for each in self._in_hand if each is not handed]

    def _spool_queue(self, in_hand: bool = False) -> None:
        """The whole queue in one write, or as much of it as fits; with what is on its way, when nobody can wait for it. That
        may arrive twice, which changes nothing."""
        with self._spooling:
            self._move_to_spool(in_hand)

    def _move_to_spool(self, in_hand: bool) -> None:
        with self._wake:
            taken = [*(self._in_hand if in_hand else ()), *self._queue]
        if not taken:
            return
        try:
            self._spool.append(*(handed.record for handed in taken))
        except SpoolFull as full:
            self._full_until = time.monotonic() + _RETRY_MAX_S
            if len(taken) > _QUEUE_MAX:
                log.error("redrive: %d reports are lost: %s", len(taken) - _QUEUE_MAX, full)
                with self._wake:
                    for _ in range(min(len(self._queue), len(taken) - _QUEUE_MAX)):
                        self._queue.popleft()
            return
        spooled = set(map(id, taken))
        with self._wake:
            self._queue = deque(handed for handed in self._queue if id(handed) not in spooled)
            self._in_hand = [handed for handed in self._in_hand if id(handed) not in spooled]
        for handed in taken:
            # Waiters learn that there is no answer for now.
            handed.settle(None)

    def _send_own(self, wait_s: float) -> None:
        own = self._spool.own()
        if own is None:
            return
        try:
            if self._own is None or self._own[0] is not own:
                own.leases = self._leases
                self._own = (own, Delivery(*self._parts(own), self._ended))
            self._send_file(own, self._own[1], wait_s)
            self._spool.clear_if_sent(own.sent_to)
        except FileNotFoundError:
            self._spool.lose_own()

    def _send_file(self, file: SpoolFile, delivery: Delivery, wait_s: float) -> None:
        """All that is in it now; the place where it got to is kept after each line."""
        for record, end, raw in file.records():
            if record is None:
                kept = self._spool.set_aside_line(raw)
                log.warning("redrive: an unreadable line of %s was moved to %s", file.path.name, kept)
            else:
                self._told(record, delivery.send(record, wait_s))
                if record.do in ENDS:
                    file.leases.pop(record.run, None)
            file.mark(end, sync=record is not None and record.do == "start")

    def _look_at_others(self) -> None:
        """Late effects were left to the next sender of the spool: that may be this process, in its next round."""
        self._late_to_send, self._others_at = True, 0.0

    def _send_left(self, file: SpoolFile, wait_s: float) -> None:
        """The file of a process that is gone: nothing follows what is in it."""
        late = LateEffects(self._spool, self._look_at_others)
        parts = self._transport, self._spool.set_aside, late, file.leases, file.starts()
        try:
            self._send_file(file, Delivery(*parts, {}, waits_for_others=file.is_late), wait_s)
        finally:
            late.give_up_all()

    def _parts(
        self, file: SpoolFile
    ) -> tuple[Transport, Callable[[Record, str], None], LateEffects, dict[str, str | None], dict[str, str]]:
        return self._transport, self._spool.set_aside, self._late, file.leases, file.starts()
