"""A piece of an attempt: a plain step, or an effect, which the ledger guards."""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import interrupt
from .errors import NotDone, TimeLimit

if TYPE_CHECKING:
    from .attempt import Run

log = logging.getLogger("redrive")
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
    ) -> None:
        self.run, self.name, self.effect = run, name, effect
        self.timeout_s, self.check = timeout_s, check
        self._given_key = key
        self._not_done_on: tuple[type[BaseException], ...] = (NotDone, *not_done_on)
        self.key = ""
        #: An earlier attempt has done it: `output` is what it gave then, and the work must not be done again.
        self.done = False
        self.timed_out = False
        self._output: Any = _NOTHING
        self._over = False
        self._lock = threading.Lock()
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
        from .aio import off_loop

        await off_loop(lambda: self._begin(interruptible=False))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from .aio import off_loop

        self._close()
        await off_loop(lambda: self._settle(error))

    def __call__(self, work: Callable[..., T]) -> Callable[..., T]:
        """As a decorator: each call is a step of its own."""

        def again() -> Step:
            return Step(
                self.run, self.name, self._given_key, self.effect, self.timeout_s, self.check, self._not_done_on
            )

        if inspect.iscoroutinefunction(work):

            @functools.wraps(work)
            async def called_async(*args: Any, **kwargs: Any) -> Any:
                return await again().do_async(functools.partial(work, *args, **kwargs))

            return called_async  # type: ignore[return-value]

        @functools.wraps(work)
        def called(*args: Any, **kwargs: Any) -> T:
            return again().do(functools.partial(work, *args, **kwargs))

        return called

    def do(self, work: Callable[[], T]) -> T:
        """Does the work, or gives back what it gave before. With a time limit the work has a thread of its own, and
        may go on in it after the limit: what it comes to is then recorded when it is known."""
        if self.timeout_s is not None:
            return self._do_beside(work)
        with self:
            if not self.done:
                self.output = work()
        return self.output  # type: ignore[no-any-return]

    async def do_async(self, work: Callable[[], Awaitable[T]]) -> T:
        from .aio import bounded

        async with self:
            if not self.done:
                self.output = await bounded(work(), self.timeout_s, self)
        return self.output  # type: ignore[no-any-return]

    def _do_beside(self, work: Callable[[], T]) -> T:
        self._begin(interruptible=False, timed=False)
        if self.done:
            return self.output  # type: ignore[no-any-return]
        thrown: list[BaseException] = []

        def working() -> None:
            try:
                self.output = work()
            except BaseException as error:  # noqa: BLE001 - it is handed to whoever waits
                thrown.append(error)
            # After the limit this is the late word of the one who began it: it still counts.
            self._settle(thrown[0] if thrown else None)

        thread = threading.Thread(target=working, name=f"redrive-step-{self.name}", daemon=True)
        thread.start()
        thread.join(self.timeout_s)
        if thread.is_alive():
            self.timed_out = True
            limit = TimeLimit(f"the step {self.name} took longer than {self.timeout_s} s and may still go on")
            self.run._step_in_doubt(self)
            raise limit
        if thrown:
            raise thrown[0]
        return self.output  # type: ignore[no-any-return]

    def _begin(self, interruptible: bool, timed: bool = True) -> None:
        self.key = self.run._key_of(self.name, self._given_key, self.effect)
        self.run._step_begins(self)
        if not self.done and interruptible and timed and self.timeout_s is not None:
            interrupt.prepare()
            thread = threading.get_ident()
            self._timer = self.run._timers.after(self.timeout_s, lambda: self._time_is_up(thread))

    def _time_is_up(self, thread: int) -> None:
        with self._lock:
            if not self._over:
                self.timed_out = True
                self.run._step_in_doubt(self)
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

    def _settle(self, error: BaseException | None) -> None:
        """What is known of the step now. An effect that was left by an error may have happened: only its own word
        that it did not (`NotDone`, `not_done_on`) makes it `failed`."""
        if self.done:
            return
        if error is None:
            self.run._step_ends(self, "committed", self.output)
        elif isinstance(error, self._not_done_on) and not isinstance(error, TimeLimit):
            self.run._step_ends(self, "failed", None)
        elif self.effect is not False or isinstance(error, TimeLimit) or self.timed_out:
            self.run._step_in_doubt(self)
        else:
            self.run._step_ends(self, "failed", None)
