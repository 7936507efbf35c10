"""`@redrive.agent`: a function whose every call is a run, and which a `Worker` can call again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .attempt import Run
from .client import Client, default_client
from .errors import AlreadyDone

F = TypeVar("F", bound=Callable[..., Any])
_RUN = "run"


@dataclass(frozen=True)
class Agent:
    """What the decorator knows of a function: enough to call it anew from a payload."""

    work: Callable[..., Any]
    name: str
    queue: str | None
    run_id: Callable[[Any], str] | None
    timeout_s: float | None
    fields: dict[str, Any] = field(default_factory=dict)
    client: Client | None = None

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.work)

    @property
    def _parameters(self) -> list[str]:
        return [name for name in inspect.signature(self.work).parameters if name != _RUN]

    @property
    def _wants_run(self) -> bool:
        return _RUN in inspect.signature(self.work).parameters

    def payload_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The one argument itself, or all of them by name."""
        signature = inspect.signature(self.work)
        without_run = signature.replace(parameters=[p for n, p in signature.parameters.items() if n != _RUN])
        bound = without_run.bind(*args, **kwargs)
        bound.apply_defaults()
        return next(iter(bound.arguments.values())) if len(self._parameters) == 1 else dict(bound.arguments)

    def call(self, run: Run) -> Any:
        """With the run's payload, which a changed retry has changed."""
        given: dict[str, Any] = {_RUN: run} if self._wants_run else {}
        names = self._parameters
        if not names:
            return self.work(**given)
        if len(names) == 1:
            return self.work(**{names[0]: run.payload}, **given)
        return self.work(**{name: run.payload[name] for name in names if name in run.payload}, **given)

    def run_for(self, payload: Any) -> Run:
        client = self.client or default_client()
        run_id = self.run_id(payload) if self.run_id is not None else None
        fields = {"agent": self.name, **self.fields}
        return client.run(run_id, queue=self.queue, payload=payload, timeout_s=self.timeout_s, **fields)


def agent(
    work: F | None = None,
    *,
    name: str | None = None,
    queue: str | None = None,
    run_id: Callable[[Any], str] | None = None,
    timeout_s: float | None = None,
    client: Client | None = None,
    **fields: Any,
) -> Any:
    """Every call is a run: its arguments are the payload, what it returns the output, what it raises the failure. A run
    that was done before gives back what it gave then. `run_id` makes the id from the payload; without it each call is
    new work."""

    def wrap(work: F) -> F:
        spec = Agent(work, name or work.__name__, queue, run_id, timeout_s, fields, client)
        wrapped = _async_call(spec) if spec.is_async else _call(spec)
        functools.update_wrapper(wrapped, work)
        wrapped.redrive = spec  # type: ignore[attr-defined]
        return wrapped  # type: ignore[return-value]

    return wrap if work is None else wrap(work)


def _call(spec: Agent) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            with spec.run_for(spec.payload_of(args, kwargs)) as run:
                run.output = output = spec.call(run)
                return output
        except AlreadyDone as done:
            return done.output

    return called


def _async_call(spec: Agent) -> Callable[..., Any]:
    async def called(*args: Any, **kwargs: Any) -> Any:
        try:
            async with spec.run_for(spec.payload_of(args, kwargs)) as run:
                run.output = output = await spec.call(run)
                return output
        except AlreadyDone as done:
            return done.output

    return called
