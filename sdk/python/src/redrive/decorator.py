"""`@redrive.agent`: a function whose every call is a run, and which a `Worker` can call again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, TypeVar, overload

from . import lazy
from .attempt import Run
from .client import Client, default_client
from .context import Inside
from .errors import AlreadyDone
from .logs import log

F = TypeVar("F", bound=Callable[..., Any])
_RUN = "run"
_SELF = ("self", "cls")
_NOTHING = object()


@dataclass(frozen=True)
class Agent:
    """What the decorator knows of a function: enough to call it again from a payload."""

    work: Callable[..., Any]
    name: str
    queue: str | None
    run_id: Callable[[Any], Any] | None
    timeout_s: float | None
    fields: dict[str, Any] = field(default_factory=dict)
    client: Client | None = None
    #: The object that the function is a method of, where a worker calls it.
    owner: Any = _NOTHING

    @functools.cached_property
    def kind(self) -> str:
        """How a call of it ends."""
        for work in (self.work, getattr(type(self.work), "__call__", None)):
            if inspect.isasyncgenfunction(work):
                return "async stream"
            if inspect.isgeneratorfunction(work):
                return "stream"
            if inspect.iscoroutinefunction(work):
                return "async"
        return "plain"

    @property
    def is_async(self) -> bool:
        return self.kind.startswith("async")

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.work)

    @functools.cached_property
    def is_method(self) -> bool:
        first = next(iter(self.signature.parameters), None)
        return first in _SELF and "." in getattr(self.work, "__qualname__", "").rpartition("<locals>.")[2]

    @functools.cached_property
    def without_run(self) -> inspect.Signature:
        """As its callers see it."""
        return self.signature.replace(parameters=[p for n, p in self.signature.parameters.items() if n != _RUN])

    @property
    def wants_run(self) -> bool:
        return _RUN in self.signature.parameters

    @functools.cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """Those that the payload is made of."""
        return list(self.without_run.parameters.values())[1 if self.is_method else 0 :]

    @property
    def _takes_one(self) -> bool:
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return len(self.parameters) == 1 and self.parameters[0].kind not in variadic

    def payload_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The one argument itself, or all of them by name."""
        bound = self.without_run.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {p.name: bound.arguments[p.name] for p in self.parameters}
        return given[self.parameters[0].name] if self._takes_one else given

    def call(self, run: Run, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, sent: Any = _NOTHING) -> Any:
        """With the arguments that it was called with, or with the run's payload where that has been changed."""
        given = {_RUN: run} if self.wants_run else {}
        if sent is not _NOTHING and run.payload is sent:
            return self.work(*args, **(kwargs or {}), **given)
        owner = self.owner if self.owner is not _NOTHING else args[0] if self.is_method and args else _NOTHING
        positional, named = self._arguments(run.payload)
        before = () if owner is _NOTHING or not self.is_method else (owner,)
        return self.work(*before, *positional, **named, **given)

    def _arguments(self, payload: Any) -> tuple[list[Any], dict[str, Any]]:
        if not self.parameters:
            return [], {}
        values = {self.parameters[0].name: payload} if self._takes_one else payload
        if not isinstance(values, dict):
            raise TypeError(f"{self.name} takes {len(self.parameters)} arguments, but the payload is not an object with their names")
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.name not in values:
                continue
            value = values[parameter.name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                # What stands before it has to be positional too.
                positional = [named.pop(p.name) if p.name in named else p.default for p in self._before(parameter, positional)]
                positional += list(value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                named.update(value)
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[parameter.name] = value
        return positional, named

    def _before(self, parameter: inspect.Parameter, positional: list[Any]) -> list[Any]:
        ahead = self.parameters[: self.parameters.index(parameter)]
        given = [_Given(value) for value in positional]
        return [*given, *ahead[len(given) :]]

    def run_for(self, payload: Any) -> Run:
        client = self.client or default_client()
        run_id = None
        if self.run_id is not None:
            run_id = self.run_id(payload)
        fields = {"agent": self.name, **self.fields}
        return client.run(run_id, queue=self.queue, payload=payload, timeout_s=self.timeout_s, **fields)


class _Given:
    """A positional argument that is already known, in the shape of a parameter with a default."""

    def __init__(self, value: Any) -> None:
        self.name, self.default = "", value


@overload
def agent(work: F, /) -> F: ...


@overload
def agent(
    *,
    name: str | None = None,
    queue: str | None = None,
    run_id: Callable[[Any], Any] | None = None,
    timeout_s: float | None = None,
    client: Client | None = None,
    **fields: Any,
) -> Callable[[F], F]: ...


def agent(
    work: Any = None,
    *,
    name: str | None = None,
    queue: str | None = None,
    run_id: Callable[[Any], Any] | None = None,
    timeout_s: float | None = None,
    client: Client | None = None,
    **fields: Any,
) -> Any:
    """Turns every call into a run: the arguments are the payload, the return value is the output, and an exception is the
    failure. A run that is already done returns its recorded output. `run_id` makes the id from the payload; without it,
    each call is new work. Works for functions, methods, generators and classes with `__call__`, sync and async."""

    def wrap(work: Any) -> Any:
        if isinstance(work, (staticmethod, classmethod)):
            return type(work)(wrap(work.__func__))
        if inspect.isclass(work):
            # Its instances are the agents.
            spec = Agent(work.__call__, name or work.__name__, queue, run_id, timeout_s, fields, client)
            work.__call__ = _wrapped(spec)  # type: ignore[method-assign]
            return work
        said = name or getattr(work, "__name__", None) or getattr(getattr(work, "func", None), "__name__", None)
        return _wrapped(Agent(work, said or type(work).__name__, queue, run_id, timeout_s, fields, client))

    return wrap if work is None else wrap(work)


def _wrapped(spec: Agent) -> Callable[..., Any]:
    makers = {"plain": _call, "async": _async_call, "stream": _stream, "async stream": _async_stream}
    wrapped: Any = makers[spec.kind](spec)
    functools.update_wrapper(wrapped, spec.work)
    if spec.wants_run:
        # A schema made from the signature must not ask the model for the run.
        wrapped.__signature__ = spec.without_run
    wrapped.redrive = spec
    return wrapped  # type: ignore[no-any-return]


def spec_of(work: Any) -> Agent:
    """What a worker needs: of a function, a bound method or an object that can be called."""
    for holder in (work, getattr(type(work), "__call__", None)):
        spec = getattr(holder, "redrive", None)
        if isinstance(spec, Agent):
            owner = getattr(work, "__self__", None) if holder is work else work
            return spec if owner is None else replace(spec, owner=owner)
    raise TypeError(f"{getattr(work, '__name__', work)} is not decorated with @redrive.agent")


def _call(spec: Agent) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        payload = spec.payload_of(args, kwargs)
        run = spec.run_for(payload)
        try:
            run._start()
        except AlreadyDone as done:
            # Of this run, that is: what another one raises inside it is its own affair.
            return done.output
        run.__enter__()
        try:
            output = spec.call(run, args, kwargs, payload)
        except BaseException as error:
            run.__exit__(type(error), error, error.__traceback__)
            raise
        if lazy.is_lazy(output):
            # It has ended when what it gave has.
            run._inside.leave()
            return lazy.followed(output, functools.partial(_streamed, run), run.attached)
        run.output = output
        run.__exit__(None, None, None)
        return output

    return called


def _async_call(spec: Agent) -> Callable[..., Any]:
    async def called(*args: Any, **kwargs: Any) -> Any:
        payload = spec.payload_of(args, kwargs)
        run = spec.run_for(payload)
        try:
            await run._start_async()
        except AlreadyDone as done:
            return done.output
        streams = None
        async with _unless(run, lambda: streams is not None):
            output = await spec.call(run, args, kwargs, payload)
            if lazy.is_lazy(output):
                streams = lazy.followed(output, functools.partial(_streamed, run), run.attached)
                return streams
            run.output = output
            return output

    return called


class _unless:
    """Ends the run with the block, unless what the block gives has yet to be consumed."""

    def __init__(self, run: Run, open: Callable[[], bool]) -> None:
        self._run, self._open = run, open

    async def __aenter__(self) -> None:
        await self._run.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open():
            self._run._inside.leave()
        else:
            await self._run.__aexit__(kind, error, trace)


def _streamed(run: Run, error: BaseException | None, items: list[Any]) -> None:
    """The end of an agent that gave a stream. One that was closed early was cancelled by its reader."""
    try:
        if isinstance(error, lazy.Closed):
            if items:
                run.partial(lazy.recorded(items))
            run.fail(error, reason="cancelled", wait_s=0)
            return
        if run.output is None and items:
            run.output = items[0] if len(items) == 1 and not isinstance(items[0], str) else lazy.recorded(items)
        run._leave()
        run._end_by(error)
    except Exception:  # noqa: BLE001 - the agent must not fail because its report did
        log.exception("redrive: the end of %s could not be reported", run.run_id)


def _stream(spec: Agent) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        """Begins with its first item, when the work does."""
        payload = spec.payload_of(args, kwargs)
        run = spec.run_for(payload)
        try:
            run._start()
        except AlreadyDone as done:
            return (yield from lazy.again(done.output))
        work = spec.call(run, args, kwargs, payload)
        return (yield from lazy.followed(work, functools.partial(_streamed, run), functools.partial(Inside, run)))

    return called


def _async_stream(spec: Agent) -> Callable[..., Any]:
    async def called(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        payload = spec.payload_of(args, kwargs)
        run = spec.run_for(payload)
        items: Any
        try:
            await run._start_async()
            work = spec.call(run, args, kwargs, payload)
            items = lazy.followed(work, functools.partial(_streamed, run), functools.partial(Inside, run))
        except AlreadyDone as done:
            items = lazy.again_async(done.output)
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()

    return called
