"""The thread that says "still at it" for every open run of the process, three times a lease."""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

from .transport import Answer, Away, Transport

log = logging.getLogger("redrive")

#: So many fit into a lease: two may get lost.
BEATS_PER_LEASE = 3
_WAIT_MAX_S = 5.0


class Alive(Protocol):
    """What a run shows to the heartbeats."""

    lease_s: float

    def beat_request(self) -> tuple[str, str] | None:
        """Path and body; none when there is nothing to keep alive."""

    def beat_answered(self, asked_at: float, answer: Answer) -> None: ...


class Heartbeats:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._runs: dict[int, tuple[Alive, float]] = {}
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, run: Alive) -> None:
        with self._wake:
            self._runs[id(run)] = (run, time.monotonic() + run.lease_s / BEATS_PER_LEASE)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="redrive-heartbeat", daemon=True)
                self._thread.start()
            else:
                self._wake.notify()

    def remove(self, run: Alive) -> None:
        with self._wake:
            self._runs.pop(id(run), None)

    def forget(self) -> None:
        """In a forked child: runs and thread are the parent's."""
        self._runs, self._wake, self._thread = {}, threading.Condition(), None

    def _run(self) -> None:
        while True:
            run = self._next()
            try:
                self._beat(run)
            except Exception:  # noqa: BLE001 - one run's trouble must not silence the others
                log.exception("redrive: a heartbeat failed")

    def _next(self) -> Alive:
        """Waits for the run that is due first, and puts it behind the others."""
        with self._wake:
            while True:
                due = min((when for _, when in self._runs.values()), default=None)
                now = time.monotonic()
                if due is not None and due <= now:
                    mark = min(self._runs, key=lambda mark: self._runs[mark][1])
                    run = self._runs[mark][0]
                    self._runs[mark] = (run, now + run.lease_s / BEATS_PER_LEASE)
                    return run
                self._wake.wait(None if due is None else due - now)

    def _beat(self, run: Alive) -> None:
        request = run.beat_request()
        if request is None:
            return
        asked_at = time.monotonic()
        try:
            answer = self._transport.post(*request, min(run.lease_s / BEATS_PER_LEASE, _WAIT_MAX_S))
        except Away:
            # A server that is away for a beat may be back for the next one.
            return
        run.beat_answered(asked_at, answer)
