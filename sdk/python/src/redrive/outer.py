"""Whether a cancellation is the work of a time limit around the task. What leaves the block is a `CancelledError` then, and
only outside of it a `TimeoutError` is made of it."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

_expired: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
_installed = False


def install() -> None:
    """`asyncio.timeout` tells nobody that it has struck; so it is noted."""
    global _installed
    timeout = getattr(asyncio, "Timeout", None)
    strike = getattr(timeout, "_on_timeout", None)
    if _installed or timeout is None or strike is None:
        return
    _installed = True

    def on_timeout(self: Any) -> None:
        task = getattr(self, "_task", None)
        if task is not None:
            _expired.add(task)
        strike(self)

    timeout._on_timeout = on_timeout


def by_time_limit(error: asyncio.CancelledError) -> bool:
    try:
        if any("deadline exceeded" in str(word) for word in error.args):
            # anyio's scopes say so.
            return True
        task = asyncio.current_task()
        if task is None:
            return False
        if task in _expired:
            _expired.discard(task)
            return True
        return any(_waits_no_longer(other.get_coro(), task) for other in asyncio.all_tasks() if other is not task)
    except Exception:  # noqa: BLE001 - another Python, another shape
        return False


def _waits_no_longer(work: Any, task: asyncio.Task[Any]) -> bool:
    """Before 3.12 `wait_for` has a task of its own for what it waits for, and cancels that."""
    for _ in range(100):
        frame = getattr(work, "cr_frame", None)
        if frame is None:
            return False
        if frame.f_code.co_name == "wait_for" and frame.f_locals.get("fut") is task:
            waiter = frame.f_locals.get("waiter")
            return waiter is not None and waiter.done() and not waiter.cancelled()
        work = getattr(work, "cr_await", None)
    return False
