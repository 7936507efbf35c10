"""`@redrive.effect`: a tool that changes the outside world does so once a run, whichever framework calls it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar, overload

from . import lazy
from .attempt import Run
from .client import open_runs
from .context import Inside, current_run
from .encode import Unstable, digest, effect_key, id_of, stable
from .errors import UnstableKey
from .logs import log
from .step import Step

F = TypeVar("F", bound=Callable[..., Any])
#: Names of functions under the guard: a framework's hook leaves them to it.
guarded_names: set[str] = set()


@overload
def effect(work: F, /) -> F: ...


@overload
def effect(
    *,
    name: str | None = None,
    key: Callable[..., str] | None = None,
    timeout_s: float | None = None,
    check: str | None = None,
    not_done_on: tuple[type[BaseException], ...] = (),
) -> Callable[[F], F]: ...


def effect(
    work: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    key: Callable[..., str] | None = None,
    timeout_s: float | None = None,
    check: str | None = None,
    not_done_on: tuple[type[BaseException], ...] = (),
) -> Any:
    """Guards a function by the ledger wherever it is called inside a run: its intent is recorded before it, its outcome
    after it, and the same call in a later attempt returns the recorded output. Concurrent calls are one call.

    `key` makes the key from the arguments. Without it, the arguments themselves (except `self`) are the key: each must have
    a text that is the same in every process, otherwise the first call inside a run raises `UnstableKey`. Outside a run the
    function is unchanged."""

    def wrap(work: Any) -> Any:
        if isinstance(work, (staticmethod, classmethod)):
            return type(work)(wrap(work.__func__))
        guard = _Guard(work, name, key, timeout_s, check, not_done_on)
        guarded_names.add(guard.name)
        return guard.wrapped()

    return wrap if work is None else wrap(work)


class _Guard:
    def __init__(
        self,
        work: Callable[..., Any],
        name: str | None,
        key: Callable[..., str] | None,
        timeout_s: float | None,
        check: str | None,
        not_done_on: tuple[type[BaseException], ...],
    ) -> None:
        self.work, self._key = work, key
        self._options: tuple[Any, ...] = (timeout_s, check, not_done_on)
        plain: str = getattr(work, "__name__", None) or type(work).__name__
        self.name = name or plain
        #: `Mailer.send` and `Pager.send` are two effects; where the function was defined says nothing.
        self._identity = name or getattr(work, "__qualname__", plain).rpartition("<locals>.")[2]
        self._signature = _signature(work)
        if key is None and self._signature is None:
            raise UnstableKey(f"{self.name} has no signature to derive a key from; pass key=")

    def wrapped(self) -> Callable[..., Any]:
        work = self.work
        if inspect.isasyncgenfunction(work):
            return _as_function(work, self._async_stream)
        if inspect.isgeneratorfunction(work):
            return _as_function(work, self._stream)
        if inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(getattr(type(work), "__call__", None)):
            return _as_coroutine_function(work, self._call_async)
        return _as_function(work, self._call)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        run = self._run_here()
        if run is None:
            return self.work(*args, **kwargs)
        step = self._step(run, args, kwargs)
        if step.timeout_s is not None:
            return step.do(functools.partial(self.work, *args, **kwargs))
        step._begin(interruptible=False)
        if step.done:
            return step.output
        try:
            value = self.work(*args, **kwargs)
        except BaseException as error:
            step._close()
            step._settle(error)
            raise
        # A function that gives back a coroutine is as async as one that is written so.
        return step._take(value, awaitable=True)

    async def _call_async(self, *args: Any, **kwargs: Any) -> Any:
        run = self._run_here()
        if run is None:
            return await self.work(*args, **kwargs)
        return await self._step(run, args, kwargs).do_async(functools.partial(self.work, *args, **kwargs))

    def _stream(self, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        run = self._run_here()
        return self.work(*args, **kwargs) if run is None else self._guarded_stream(run, args, kwargs)

    def _guarded_stream(self, run: Run, args: Any, kwargs: Any) -> Generator[Any, Any, Any]:
        """Begun with its first item, when its work is."""
        step = self._step(run, args, kwargs)
        step._begin(interruptible=False)
        if step.done:
            return (yield from lazy.again(step.output))
        inside = functools.partial(Inside, run)
        return (yield from lazy.followed(self.work(*args, **kwargs), step._streamed, inside))

    def _async_stream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        run = self._run_here()
        return self.work(*args, **kwargs) if run is None else self._guarded_async_stream(run, args, kwargs)

    async def _guarded_async_stream(self, run: Run, args: Any, kwargs: Any) -> AsyncGenerator[Any, Any]:
        step = self._step(run, args, kwargs)
        await step._begin_async()
        items = (
            lazy.again_async(step.output)
            if step.done
            else lazy.followed(self.work(*args, **kwargs), step._streamed, functools.partial(Inside, run))
        )
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()

    def _step(self, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        if self._key is not None:
            identity, counted = id_of(str(self._key(*args, **kwargs))), False
        else:
            identity, counted = effect_key(run.run_id, self._identity, self._mark(args, kwargs)), True
        run.guarded.add(self.name)
        return Step(run, self.name, identity, True, *self._options, counted=counted, tool=True)

    def _mark(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        assert self._signature is not None
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            # The call itself will say what is wrong with it.
            return digest("")
        bound.apply_defaults()
        given = dict(bound.arguments)
        first = next(iter(given), None)
        if first in ("self", "cls") and "." in self._identity:
            del given[first]
        for name, value in given.items():
            try:
                stable(value)
            except Unstable as why:
                raise UnstableKey(f"{self.name}({name}=…): {why}; pass key= to @redrive.effect") from None
        return digest(stable(given))

    def _run_here(self) -> Run | None:
        run = current_run()
        if run is None and open_runs():
            log.warning(
                "redrive: %s was called outside any run while runs are open, so it is not guarded; use run.bind or run.attached "
                "in threads that the run did not start",
                self.name,
            )
        return run


def _signature(work: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(work)
    except (TypeError, ValueError):
        return None


def _as_function(work: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function, so that it binds as a method where it is defined in a class."""

    def guarded(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return functools.update_wrapper(guarded, work)


def _as_coroutine_function(work: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        return await call(*args, **kwargs)

    return functools.update_wrapper(guarded, work)
