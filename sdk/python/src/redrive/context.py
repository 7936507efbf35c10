"""The current run: from the context, and in a plain thread from the thread that started it.

A context variable follows tasks and `asyncio.to_thread`. Threads and executors do not carry it by themselves, so while
runs exist `Thread.start` notes the run of its caller, and `ThreadPoolExecutor.submit` hands it to the task. A thread that
was started elsewhere belongs to no run: `run.bind` and `run.attached` are for those."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attempt import Run

_ATTRIBUTE = "_redrive_run"


class _Unset:
    pass


_UNSET = _Unset()
_current: contextvars.ContextVar[Run | _Unset | None] = contextvars.ContextVar("redrive_run", default=_UNSET)
_start = threading.Thread.start
_submit = ThreadPoolExecutor.submit
_lock = threading.Lock()
_installed = False


def current_run() -> Run | None:
    """The run that the code is inside of, if any."""
    run = _current.get()
    if not isinstance(run, _Unset):
        return run
    found: Run | None = getattr(threading.current_thread(), _ATTRIBUTE, None)
    return found


class Inside:
    """Makes a run the current one: `enter` and `leave`, in the same context where that is possible."""

    __slots__ = ("_before", "_left", "_run", "_token")

    def __init__(self, run: Run | None) -> None:
        self._run = run
        self._token: contextvars.Token[Run | _Unset | None] | None = None
        self._before: Run | _Unset | None = _UNSET
        self._left = False

    def enter(self) -> None:
        self._token = _current.set(self._run)

    def leave(self) -> None:
        token, self._token = self._token, None
        if token is None:
            return
        self._before = _UNSET if token.old_value is token.MISSING else token.old_value
        self._left = True
        here = _current.get()
        try:
            _current.reset(token)
        except ValueError:
            # Entered in another context: it ends with that one.
            if here is self._run:
                _current.set(None)
            return
        if here is not self._run and not isinstance(here, _Unset) and here is not None and not here._inside._left:
            # Left in another order than entered: the one inside is still under way.
            _current.set(here)
            return
        found = _current.get()
        while not isinstance(found, _Unset) and found is not None and found._inside._left:
            found = found._inside._before
            _current.set(found)

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()


def carried(run: Run | None, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    with Inside(run):
        return call(*args, **kwargs)


def install() -> None:
    """Once a process, with its first run."""
    global _installed
    if _installed:
        return
    with _lock:
        if not _installed:
            threading.Thread.start = _noted_start  # type: ignore[method-assign]
            ThreadPoolExecutor.submit = _carrying_submit  # type: ignore[method-assign, assignment]
            _installed = True


def _noted_start(self: threading.Thread) -> None:
    run = current_run()
    if run is not None:
        setattr(self, _ATTRIBUTE, run)
    _start(self)


def _carrying_submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    # Also where there is none: the pool's thread may have been started by another run's code.
    return _submit(self, carried, current_run(), fn, *args, **kwargs)


def start_daemon(name: str, target: Callable[[], None]) -> threading.Thread | None:
    """A thread of our own, of no run; none when no more can be had, as at the end of the interpreter."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    try:
        _start(thread)
    except RuntimeError:
        return None
    return thread
