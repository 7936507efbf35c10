"""One call at a time of one effect inside a process: later callers wait for the first and get its result."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .errors import EffectInProgress

_inside: contextvars.ContextVar[tuple[Flight, ...]] = contextvars.ContextVar("redrive_flights", default=())


class Flight:
    """An effect under way. It ends once, with an output or an error."""

    def __init__(self, key: str) -> None:
        self.key = key
        #: The calls that wait for it; none is added once its outcome is being recorded.
        self.calls: list[int] = []
        self.settling = False
        self.output: Any = None
        self.error: BaseException | None = None
        self._over = threading.Event()
        self._lock = threading.RLock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._loop = _running_loop()
        _inside.set((*(flight for flight in _inside.get() if not flight.over), self))

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def end(self, output: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._over.is_set():
                return
            self.output, self.error = output, error
            self._over.set()
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:
                # Its loop is closed: nobody waits there any more.
                pass
        _inside.set(tuple(flight for flight in _inside.get() if flight is not self))

    def wait(self) -> None:
        loop = _running_loop()
        if loop is not None and loop is self._loop:
            raise EffectInProgress(self.key, "it is running on this event loop; waiting for it here would block the loop")
        self._not_from_inside()
        with _waiting_for(self):
            self._over.wait()

    async def wait_async(self) -> None:
        self._not_from_inside()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            if self._over.is_set():
                return
            self._waiting.append((loop, future))
        with _waiting_for(self):
            await future

    def _not_from_inside(self) -> None:
        if self in _inside.get() and not self.over:
            raise EffectInProgress(self.key, "the effect calls itself with the same arguments")


#: Effects under way, each with those that a call inside it waits for.
_waits: dict[Flight, list[Flight]] = {}
_waits_lock = threading.RLock()


@contextmanager
def _waiting_for(flight: Flight) -> Iterator[None]:
    """Refuses to wait for an effect which waits, over any number of others, for the one that the caller is inside of."""
    mine = [each for each in _inside.get() if not each.over]
    with _waits_lock:
        if any(_leads_to(flight, each) for each in mine):
            raise EffectInProgress(flight.key, "it is waiting for the effect that calls it")
        for each in mine:
            _waits.setdefault(each, []).append(flight)
    try:
        yield
    finally:
        with _waits_lock:
            for each in mine:
                _waits[each].remove(flight)
                if not _waits[each]:
                    del _waits[each]


def _leads_to(flight: Flight, wanted: Flight) -> bool:
    seen, pending = {flight}, [flight]
    while pending:
        for each in _waits.get(pending.pop(), ()):
            if each is wanted:
                return True
            if each not in seen:
                seen.add(each)
                pending.append(each)
    return False


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
