"""The few places where asyncio differs: our waiting is done off the loop, and a limit cancels the task."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import TimeLimit

if TYPE_CHECKING:
    from .step import Step

T = TypeVar("T")


async def off_loop(call: Callable[[], T]) -> T:
    """Runs a call of ours that may wait in a thread. A cancelled task still gets its answer: what was begun with the
    server must not be forgotten half way."""
    context = contextvars.copy_context()
    future = asyncio.get_running_loop().run_in_executor(None, lambda: context.run(call))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


async def bounded(work: Awaitable[T], seconds: float | None, step: Step) -> T:
    if seconds is None:
        return await work
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait([task], timeout=seconds)
    if done:
        return task.result()
    step.timed_out = True
    task.cancel()
    raise TimeLimit(f"the step {step.name} took longer than {seconds} s")


class TaskLimit:
    """Cancels the task that entered the run, from whichever thread the limit strikes in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    def strike(self) -> None:
        task: Any = self._task
        if task is not None:
            self._loop.call_soon_threadsafe(task.cancel)
