"""One thread that calls back in time. What it calls is short and does no I/O, so that no time limit is late."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

from .context import start_daemon
from .logs import log

#: How long a thread waits for something to do before it ends.
IDLE_S = 10.0


class Timer:
    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """What it would have called is let go of at once: limits are long and runs are many."""
        self.call = None


class Timers:
    def __init__(self) -> None:
        self._due: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        when = time.monotonic() + seconds
        with self._wake:
            heapq.heappush(self._due, (when, next(self._count), timer))
            # Only a time before all others changes what the thread waits for.
            if self._thread is None:
                self._thread = start_daemon("redrive-timers", self._run)
            elif self._due[0][2] is timer:
                self._wake.notify()
        return timer

    def forget(self) -> None:
        """In a forked child: the thread is the parent's."""
        self._due, self._wake, self._thread = [], threading.Condition(), None

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._due or self._due[0][0] > time.monotonic():
                    idle = not self._due
                    in_time = self._wake.wait(IDLE_S if idle else self._due[0][0] - time.monotonic())
                    if idle and not in_time and not self._due:
                        # A client that is not used any more keeps no thread.
                        self._thread = None
                        return
                call = heapq.heappop(self._due)[2].call
            if call is None:
                continue
            try:
                call()
            except Exception:  # noqa: BLE001 - one callback must not end the others
                log.exception("redrive: a timer failed")
