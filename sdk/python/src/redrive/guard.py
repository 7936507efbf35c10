"""`@redrive.effect`: a tool that changes the outside world does so once a run, whichever framework calls it."""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from .attempt import Run, current_run
from .client import default_client
from .encode import dumps

log = logging.getLogger("redrive")
F = TypeVar("F", bound=Callable[..., Any])


def effect(
    work: F | None = None,
    *,
    name: str | None = None,
    key: Callable[..., str] | None = None,
    timeout_s: float | None = None,
    check: str | None = None,
    not_done_on: tuple[type[BaseException], ...] = (),
) -> Any:
    """Puts a function under the ledger's guard wherever it is called inside a run: the intent is recorded before it, the
    outcome after it, and the same call in a later attempt gives back what it gave. `key` makes the key from the
    arguments; without it the arguments themselves are it. Outside any run the function is what it was."""

    def wrap(work: F) -> F:
        said = name or work.__name__
        options = {"effect": True, "timeout_s": timeout_s, "check": check, "not_done_on": not_done_on}

        def key_of(run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
            run.guarded.add(said)
            if key is not None:
                return key(*args, **kwargs)
            mark = hashlib.sha256(dumps([args, kwargs]).encode()).hexdigest()[:16]
            # The same call a second time within an attempt is meant to happen twice.
            ordinal = run._next_ordinal(f"{said}:{mark}")
            return f"{run.run_id}:{said}:{mark}" + (f":{ordinal}" if ordinal > 1 else "")

        if inspect.iscoroutinefunction(work):

            @functools.wraps(work)
            async def called_async(*args: Any, **kwargs: Any) -> Any:
                run = run_here()
                if run is None:
                    return await work(*args, **kwargs)
                step_key = key_of(run, args, kwargs)
                return await run.do_async(said, functools.partial(work, *args, **kwargs), key=step_key, **options)

            return called_async  # type: ignore[return-value]

        @functools.wraps(work)
        def called(*args: Any, **kwargs: Any) -> Any:
            run = run_here()
            if run is None:
                return work(*args, **kwargs)
            return run.do(said, functools.partial(work, *args, **kwargs), key=key_of(run, args, kwargs), **options)

        return called  # type: ignore[return-value]

    return wrap if work is None else wrap(work)


def run_here() -> Run | None:
    """The run that this code is inside of. Frameworks that call tools in threads of their own lose it; the only run that
    is open in the process is then the one that is meant."""
    run = current_run()
    if run is not None:
        return run
    open_runs = default_client().open_runs()
    if len(open_runs) == 1:
        return open_runs[0]
    if open_runs:
        log.warning("redrive: %d runs are open and none is this thread's: an effect is not guarded", len(open_runs))
    return None
