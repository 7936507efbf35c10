"""Threads of our own for calls that may wait while an event loop goes on. The loop's default executor is the agent's: when it
is busy, a report of ours would wait for the agent's work, and at the end of the interpreter it takes no more."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from .context import start_daemon

T = TypeVar("T")
_THREADS_MAX = 64
_IDLE_S = 10.0


class Offload:
    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._threads = self._idle = 0

    def submit(self, call: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._calls.put((future, call))
        with self._lock:
            wanted = self._idle < self._calls.qsize() and self._threads < _THREADS_MAX
            self._threads += wanted
        if wanted and start_daemon("redrive-call", self._work) is None:
            with self._lock:
                self._threads -= 1
                alone = self._threads == 0
            if alone:
                self._drain()
        return future

    def forget(self) -> None:
        """In a forked child."""
        self.__init__()  # type: ignore[misc]

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            try:
                future, call = self._calls.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    self._idle -= 1
                    if self._calls.empty():
                        self._threads -= 1
                        return
                continue
            with self._lock:
                self._idle -= 1
            _settle(future, call)

    def _drain(self) -> None:
        while not self._calls.empty():
            _settle(*self._calls.get())


def _settle(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - it is passed to the waiter
        future.set_exception(error)


OFFLOAD = Offload()
