"""A piece of an attempt: a plain step, or an effect, which the ledger guards."""

from __future__ import annotations

import functools
import inspect
import threading
import uuid
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import interrupt, lazy
from .aio import bounded, off_loop
from .context import Inside
from .errors import NotDone, TimeLimit
from .flight import Flight
from .judge import failed_text

if TYPE_CHECKING:
    from .attempt import Run

T = TypeVar("T")
_NOTHING = object()


class Step:
    """Use it as a context manager, as a decorator, or through `Run.do`.

    A `with` block can't be skipped for you: ask `step.done` first. `Run.do` and the decorator skip by themselves."""

    def __init__(
        self,
        run: Run,
        name: str,
        key: str | None,
        effect: bool | None,
        timeout_s: float | None,
        check: str | None,
        not_done_on: tuple[type[BaseException], ...],
        *,
        counted: bool = False,
        tool: bool = False,
    ) -> None:
        self.run, self.name, self.effect = run, name, effect
        self.timeout_s, self.check = timeout_s, check
        #: What makes it the same step again. With `counted` it may be meant more than once in an attempt.
        self.identity, self.counted = key, counted
        #: A framework may swallow what it raises, so that it stands against a success by itself.
        self.tool = tool
        self._not_done_on: tuple[type[BaseException], ...] = (NotDone, *not_done_on)
        self.key = ""
        self.call_id = ""
        #: Which call of its identity it is within the attempt.
        self.call = 0
        #: Whether it is the same call as the one under way.
        self.joins = False
        #: An earlier attempt has done it: `output` is what it gave then, and the work must not be done again.
        self.done = False
        self.timed_out = False
        self.flight: Flight | None = None
        self._output: Any = _NOTHING
        self._over = False
        self._settled = False
        self._lock = threading.RLock()
        self._timer: Any = None

    @property
    def output(self) -> Any:
        return None if self._output is _NOTHING else self._output

    @output.setter
    def output(self, value: Any) -> None:
        self._output = value

    def __enter__(self) -> Step:
        self._begin(interruptible=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._close() and error is None:
            error = TimeLimit(f"the step {self.name} took longer than {self.timeout_s} s")
            self._settle(error)
            raise error
        self._settle(error)

    async def __aenter__(self) -> Step:
        await self._begin_async()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        await self._settle_async(error)

    def __call__(self, work: Callable[..., T]) -> Callable[..., T]:
        """As a decorator: each call is a step of its own."""
        if inspect.iscoroutinefunction(work):

            @functools.wraps(work)
            async def called_async(*args: Any, **kwargs: Any) -> Any:
                return await self.anew().do_async(functools.partial(work, *args, **kwargs))

            return called_async  # type: ignore[return-value]

        @functools.wraps(work)
        def called(*args: Any, **kwargs: Any) -> T:
            return self.anew().do(functools.partial(work, *args, **kwargs))

        return called

    def anew(self) -> Step:
        return Step(self.run, self.name, self.identity, self.effect, self.timeout_s, self.check, self._not_done_on)

    def do(self, work: Callable[[], T]) -> T:
        """Does the work, or gives back what it gave before. With a time limit the work has a thread of its own, and
        may go on in it after the limit: what it comes to is then recorded when it is known."""
        if _is_async(work):
            raise TypeError(f"the work of {self.name} is async: use do_async")
        if self.timeout_s is not None:
            return self._do_beside(work)
        self._begin(interruptible=True)
        if self.done:
            return self.output  # type: ignore[no-any-return]
        try:
            value = work()
        except BaseException as error:
            self._close()
            self._settle(error)
            raise
        return self._take(value)  # type: ignore[no-any-return]

    def _take(self, value: Any, awaitable: bool = False) -> Any:
        """What the work gave; the caller gets the very same, or a stream that is followed to its end."""
        if lazy.is_awaitable(value) and not awaitable:
            refused = TypeError(f"the work of {self.name} gave an awaitable: use do_async")
            self._close()
            if inspect.iscoroutine(value):
                # It was never begun.
                value.close()
                self._settle(refused, not_done=True)
            else:
                self._settle(refused)
            raise refused
        if lazy.is_lazy(value):
            return lazy.followed(value, self._streamed, lambda: Inside(self.run))
        self.output = value
        if self._close():
            late = TimeLimit(f"the step {self.name} took longer than {self.timeout_s} s")
            self._settle(late)
            raise late
        self._settle(None)
        return value

    def _streamed(self, error: BaseException | None, items: list[Any]) -> None:
        self.output = lazy.recorded(items)
        self._close()
        if isinstance(error, lazy.Closed) and self.effect is False:
            error = None
        self._settle(error)

    async def do_async(self, work: Callable[[], Awaitable[T]]) -> T:
        await self._begin_async()
        if self.done:
            return self.output  # type: ignore[no-any-return]
        try:
            value: Any = work()
            if lazy.is_awaitable(value):
                value = await bounded(value, self.timeout_s, self)
        except BaseException as error:
            self._close()
            await self._settle_async(error)
            raise
        if lazy.is_lazy(value):
            return lazy.followed(value, self._streamed, lambda: Inside(self.run))  # type: ignore[no-any-return]
        self.output = value
        self._close()
        await self._settle_async(None)
        return value  # type: ignore[no-any-return]

    def _do_beside(self, work: Callable[[], T]) -> T:
        self._begin(interruptible=False, timed=False)
        if self.done:
            return self.output  # type: ignore[no-any-return]
        thrown: list[BaseException] = []

        def working() -> None:
            try:
                with Inside(self.run):
                    self.output = work()
            except BaseException as error:  # noqa: BLE001 - it is passed to the waiter
                thrown.append(error)
            if not thrown and lazy.is_lazy(self.output):
                return
            # After the limit this is the late word of the one who began it: it still counts.
            self._settle(thrown[0] if thrown else None)

        thread = threading.Thread(target=working, name=f"redrive-step-{self.name}", daemon=True)
        thread.start()
        thread.join(self.timeout_s)
        if thread.is_alive():
            self.timed_out = True
            limit = TimeLimit(f"the step {self.name} took longer than {self.timeout_s} s and may still go on")
            self.run._step_in_doubt(self, limit)
            self._end_flight(limit)
            raise limit
        if thrown:
            raise thrown[0]
        if lazy.is_lazy(self.output):
            return self._take(self.output)  # type: ignore[no-any-return]
        return self.output  # type: ignore[no-any-return]

    # Starting: behind a call that does the same effect already.

    def _begin(self, interruptible: bool, timed: bool = True) -> None:
        while (other := self.run._claim(self)) is not None:
            joins = self.joins
            other.wait()
            if joins:
                self._join(other)
                return
        self._ask_to_begin()
        self._if_done()
        if not self.done and interruptible and timed and self.timeout_s is not None:
            interrupt.prepare()
            thread = threading.get_ident()
            self._timer = self.run._timers.after(self.timeout_s, lambda: self._time_is_up(thread))

    async def _begin_async(self) -> None:
        while (other := self.run._claim(self)) is not None:
            joins = self.joins
            await other.wait_async()
            if joins:
                self._join(other)
                return
        if self.effect is False:
            self._ask_to_begin()
            return
        try:
            await off_loop(self._ask_to_begin)
        except BaseException as error:
            # Cancelled with its intent on record: it never began.
            if not self._settled and not self.done and self.call_id:
                await self._settle_async(error, not_done=True)
            elif self.done:
                self._end_flight(None)
            raise
        if self.done:
            # Here, and not in the thread: calls started together with it join it in every attempt.
            await off_loop(self._if_done)

    def _join(self, other: Flight) -> None:
        if other.error is not None:
            raise other.error
        self.done, self.output = True, other.output

    def _ask_to_begin(self) -> None:
        self.call_id = str(uuid.uuid4()) if self.effect is not False else ""
        try:
            self.run._step_begins(self)
        except BaseException as error:
            self.call_id = ""
            self._end_flight(error)
            raise

    def _if_done(self) -> None:
        if self.done and self.flight is not None:
            self.run._note_joined(self)
            self._end_flight(None)

    def _end_flight(self, error: BaseException | None) -> None:
        if self.flight is not None:
            self.run._release(self)
            self.flight.end(self.output, error)

    # Ending.

    def _time_is_up(self, thread: int) -> None:
        with self._lock:
            if not self._over:
                self.timed_out = True
                self.run._step_in_doubt(self, None)
                interrupt.interrupt(thread)

    def _close(self) -> bool:
        """Ends the step's time limit; whether it had struck."""
        with self._lock:
            self._over = True
            if self._timer is not None:
                self._timer.cancel()
            if self.timed_out:
                interrupt.call_off(threading.get_ident())
            return self.timed_out

    async def _settle_async(self, error: BaseException | None, not_done: bool = False) -> None:
        if self.effect is False or self.done:
            self._settle(error, not_done)
        else:
            await off_loop(lambda: self._settle(error, not_done))

    def _settle(self, error: BaseException | None, not_done: bool = False) -> None:
        """What is known of the step now. An effect that was left by an error may have happened: only its own word
        that it did not (`NotDone`, `not_done_on`) makes it `failed`. A result that says it failed is no outcome either."""
        if self.done:
            return
        self._settled = True
        try:
            said = failed_text(self.output) if error is None and self.effect is not False else None
            if said is not None:
                self.run._step_in_doubt(self, None, said)
            elif error is None:
                self.run._note_joined(self)
                self.run._step_ends(self, "committed", self.output)
            elif not_done or (isinstance(error, self._not_done_on) and not isinstance(error, TimeLimit)):
                self.run._step_ends(self, "failed", None, error)
            elif self.effect is not False or isinstance(error, TimeLimit) or self.timed_out:
                self.run._step_in_doubt(self, error)
            else:
                self.run._step_ends(self, "failed", None, error)
        finally:
            self._end_flight(error)


def _is_async(work: Callable[..., Any]) -> bool:
    inner: Any = work
    while isinstance(inner, functools.partial):
        inner = inner.func
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(type(inner), "__call__", None))
