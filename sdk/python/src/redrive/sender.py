"""The thread that says what need not be said at once, in the order in which it was handed over. While the server is
away all of it goes to the spool, and from there it is sent as soon as somebody answers."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from .delivery import Delivery
from .record import ENDS, Record
from .spool import Spool, SpoolFile, SpoolFull
from .transport import Answer, Away, Transport

log = logging.getLogger("redrive")

#: Nobody waits for the background: a slow answer there is better than none.
_WAIT_S = 10.0
_RETRY_MIN_S, _RETRY_MAX_S = 0.1, 2.0
_OTHERS_EVERY_S = 30.0
_QUEUE_MAX = 10_000


class Handed:
    """A record on its way, for whoever wants to know what became of it."""

    __slots__ = ("record", "answer", "_known")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.answer: Answer | None = None
        self._known = threading.Event()

    def settle(self, answer: Answer | None) -> None:
        self.answer = answer
        self._known.set()

    def wait(self, seconds: float) -> Answer | None:
        self._known.wait(seconds)
        return self.answer


class Sender:
    def __init__(self, transport: Transport, spool: Spool, told: Callable[[Record, Answer | None], None]) -> None:
        self._transport, self._spool, self._told = transport, spool, told
        self._queue: deque[Handed] = deque()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        #: At exit two threads may be at it.
        self._spooling = threading.Lock()
        self._busy = False
        self._stopped = False
        self._retry_s = 0.0
        self._retry_at = 0.0
        self._others_at = 0.0
        self._full_until = 0.0
        self._own: tuple[SpoolFile, Delivery] | None = None
        #: Of runs whose start was answered after the fact; what follows of them may be in the queue already.
        self._leases: dict[str, str | None] = {}
        self._direct = Delivery(transport, spool.set_aside, self._leases, {})

    def put(self, record: Record) -> Handed:
        handed = Handed(record)
        with self._wake:
            self._queue.append(handed)
            self._run_thread()
            self._wake.notify()
        if self._stopped:
            # Said after the end: nobody but the disk takes it any more.
            self._spool_queue()
        return handed

    def poke(self) -> None:
        """Something was put into the spool."""
        with self._wake:
            self._run_thread()
            self._wake.notify()

    def is_away(self) -> bool:
        """Known not to answer: whoever can do without need not try."""
        return time.monotonic() < self._retry_at

    def seen_away(self, away: Away) -> None:
        if not self.is_away():
            if self._retry_s == 0.0:
                log.warning("redrive: the server does not answer, reports are kept on disk: %s", away)
            self._retry_s = min(_RETRY_MAX_S, max(_RETRY_MIN_S, self._retry_s * 2))
            pause = self._retry_s if away.retry_after_s is None else min(away.retry_after_s, 30.0)
            self._retry_at = time.monotonic() + pause

    def seen_there(self) -> None:
        if self._retry_s:
            log.warning("redrive: the server answers again")
        self._retry_s = self._retry_at = 0.0

    def close(self, seconds: float) -> None:
        """Sends what it can in this time; the rest is on disk afterwards. Needs no thread: at exit none can be made."""
        until = time.monotonic() + seconds
        with self._wake:
            self._stopped = True
            self._wake.notify_all()
            self._wake.wait_for(lambda: not self._busy, seconds)
        while time.monotonic() < until and not self.is_away() and (self._queue or not self._spool.empty):
            self._round(until - time.monotonic())
        self._spool_queue()

    def flush(self, seconds: float) -> bool:
        """Waits until everything has been said; false when the time was not enough."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self._wake:
                if not self._queue and not self._busy and self._spool.empty:
                    return True
                self._run_thread()
                self._wake.notify_all()
                self._wake.wait(0.02)
        return False

    def forget(self) -> None:
        """In a forked child: the thread and what it has in hand are the parent's."""
        self._queue, self._wake, self._thread = deque(), threading.Condition(), None
        self._busy, self._own, self._spooling = False, None, threading.Lock()

    def _run_thread(self) -> None:
        if self._thread is None and not self._stopped:
            self._thread = threading.Thread(target=self._run, name="redrive-sender", daemon=True)
            self._thread.start()

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
                log.exception("redrive: the sender stumbled")
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
                self._others_at = time.monotonic() + _OTHERS_EVERY_S
                for left in self._spool.left_behind():
                    self._send_file(left, Delivery(*self._parts(left)), wait_s)
                    left.remove()
            self.seen_there()
        except Away as away:
            self.seen_away(away)
            self._spool_queue()

    def _send_queue(self, wait_s: float) -> None:
        while self._queue:
            handed = self._queue[0]
            if self._spool.has(handed.record.run):
                return
            answer = self._direct.send(handed.record, wait_s)
            self._queue.popleft()
            if handed.record.do in ENDS:
                self._leases.pop(handed.record.run, None)
            handed.settle(answer)
            self._told(handed.record, answer)

    def _spool_queue(self) -> None:
        """The whole queue in one write, or as much of it as fits."""
        with self._spooling:
            self._move_to_spool()

    def _move_to_spool(self) -> None:
        taken = list(self._queue)
        if not taken:
            return
        try:
            self._spool.append(*(handed.record for handed in taken))
        except SpoolFull as full:
            self._full_until = time.monotonic() + _RETRY_MAX_S
            if len(taken) > _QUEUE_MAX:
                log.error("redrive: %d reports are lost: %s", len(taken) - _QUEUE_MAX, full)
                for _ in range(len(taken) - _QUEUE_MAX):
                    self._queue.popleft()
            return
        for handed in taken:
            self._queue.popleft()
            # Whoever waits for an answer learns that there will be none for now.
            handed.settle(None)

    def _send_own(self, wait_s: float) -> None:
        own = self._spool.own()
        if own is None:
            return
        try:
            if self._own is None or self._own[0] is not own:
                own.leases = self._leases
                self._own = (own, Delivery(*self._parts(own)))
            self._send_file(own, self._own[1], wait_s)
            self._spool.clear_if_sent(own.sent_to)
        except FileNotFoundError:
            self._spool.lose_own()

    def _send_file(self, file: SpoolFile, delivery: Delivery, wait_s: float) -> None:
        """All that is in it now; the place where it got to is kept after each line."""
        for record, end in file.records():
            if record is None:
                log.warning("redrive: a line of %s can't be read and is left out", file.path.name)
            else:
                self._told(record, delivery.send(record, wait_s))
                if record.do in ENDS:
                    file.leases.pop(record.run, None)
            file.mark(end, sync=record is not None and record.do == "start")

    def _parts(
        self, file: SpoolFile
    ) -> tuple[Transport, Callable[[Record, str], None], dict[str, str | None], dict[str, str]]:
        return self._transport, self._spool.set_aside, file.leases, file.starts()
