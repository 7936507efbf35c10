"""The thread that keeps the leases of the process alive, three times a lease, all of them in one call."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Protocol

from .clock import now
from .context import start_daemon
from .encode import body
from .logs import log
from .record import Record
from .timers import IDLE_S
from .transport import Answer, Away, NotRedrive, Transport

#: So many fit into a lease: two may get lost.
BEATS_PER_LEASE = 3
_WAIT_MAX_S = 5.0
#: What the server takes in one call.
_BATCH_MAX = 1_000
#: What is due within this share of its interval goes along.
_AHEAD = 0.25
#: A machine that was asleep is noticed within this time.
_NAP_MAX_S = 5.0


class Alive(Protocol):
    """What a run shows to the heartbeats."""

    lease_s: float

    def beat_record(self) -> Record | None:
        """None when there is nothing to keep alive."""

    def beat_answered(self, asked_at: float, code: str) -> None:
        """Empty: the lease is renewed. Otherwise why it is not."""


class Heartbeats:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._runs: dict[int, tuple[Alive, float]] = {}
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        #: The server does not know the call for many.
        self._one_by_one = False

    def add(self, run: Alive) -> None:
        with self._wake:
            self._runs[id(run)] = (run, now() + run.lease_s / BEATS_PER_LEASE)
            if self._thread is None:
                self._thread = start_daemon("redrive-heartbeat", self._run)
            else:
                self._wake.notify()

    def remove(self, run: Alive) -> None:
        with self._wake:
            self._runs.pop(id(run), None)

    def forget(self) -> None:
        """In a forked child: runs and thread are the parent's."""
        self._runs, self._wake, self._thread = {}, threading.Condition(), None

    def _run(self) -> None:
        while runs := self._next():
            try:
                self.beat(runs)
            except Exception:  # noqa: BLE001 - one run's trouble must not silence the others
                log.exception("redrive: a heartbeat failed")

    def _next(self) -> list[Alive]:
        """Waits until a run is due; returns it with those that will be due soon. Empty if there has been no run for a while: a
        client that is not used any more keeps no thread."""
        with self._wake:
            while True:
                due = min((when for _, when in self._runs.values()), default=None)
                if due is not None and due <= now():
                    return self._take_due()
                in_time = self._wake.wait(IDLE_S if due is None else min(_NAP_MAX_S, max(0.0, due - now())))
                if due is None and not in_time and not self._runs:
                    self._thread = None
                    return []

    def _take_due(self) -> list[Alive]:
        at, taken = now(), []
        for mark, (run, when) in self._runs.items():
            interval = run.lease_s / BEATS_PER_LEASE
            if when <= at + interval * _AHEAD:
                self._runs[mark] = (run, at + interval)
                taken.append(run)
        return taken

    def beat(self, runs: Iterable[Alive]) -> None:
        beats = []
        for run in runs:
            record = run.beat_record()
            if record is None:
                self.remove(run)
            else:
                beats.append((run, record))
        for first in range(0, len(beats), _BATCH_MAX):
            batch = beats[first : first + _BATCH_MAX]
            wait_s = min(_WAIT_MAX_S, *(run.lease_s / BEATS_PER_LEASE for run, _ in batch))
            try:
                if len(batch) == 1 or self._one_by_one or not self._beat_many(batch, wait_s):
                    self._beat_each(batch, wait_s)
            except Away:
                # A server that is away for a beat may be back for the next one.
                return

    def _beat_many(self, batch: list[tuple[Alive, Record]], wait_s: float) -> bool:
        asked_at = now()
        leases = [{"run_id": record.run_id, "tenant": record.tenant, "lease": record.lease} for _, record in batch]
        text = body({"leases": [{name: value for name, value in lease.items() if value} for lease in leases]})
        try:
            answer = self._transport.post("/v1/heartbeats", text, wait_s)
        except NotRedrive as other:
            if other.status not in (404, 405):
                raise
            self._one_by_one = True
            return False
        told = answer.body.get("leases") if answer.ok and isinstance(answer.body, dict) else None
        if not isinstance(told, list) or len(told) != len(batch):
            # Older than the call, or not of one mind with us about it: each for itself is always understood.
            self._one_by_one = self._one_by_one or answer.status in (404, 405)
            return False
        for (run, _), each in zip(batch, told, strict=True):
            run.beat_answered(asked_at, each.get("code") or "")
        return True

    def _beat_each(self, batch: list[tuple[Alive, Record]], wait_s: float) -> None:
        for run, record in batch:
            asked_at = now()
            answer: Answer = self._transport.post(record.path, record.wire, wait_s)
            if answer.ok or answer.status == 409:
                run.beat_answered(asked_at, "" if answer.ok else answer.code)
