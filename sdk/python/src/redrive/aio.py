"""The few places where asyncio differs: our waiting is done off the loop, and a limit cancels the task."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import TimeLimit
from .offload import OFFLOAD

if TYPE_CHECKING:
    from .step import Step

T = TypeVar("T")


async def off_loop(call: Callable[[], T]) -> T:
    """Runs a call of ours that may wait in a thread of ours. A cancelled task still gets its answer first, however often it
    is cancelled: what was begun with the server must not be forgotten half way, and our calls are bounded."""
    context = contextvars.copy_context()
    future = asyncio.wrap_future(OFFLOAD.submit(lambda: context.run(call)))
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError as error:
            cancelled = error
            if future.cancelled():
                break
        except BaseException:  # noqa: BLE001, S110 - raised below, by its result
            pass
    if cancelled is not None:
        if not future.cancelled():
            future.exception()
        raise cancelled
    return future.result()


async def bounded(work: Awaitable[T], seconds: float | None, step: Step) -> T:
    if seconds is None:
        return await work
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
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
            try:
                self._loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                # The loop is closed: there is nothing left to end.
                pass
