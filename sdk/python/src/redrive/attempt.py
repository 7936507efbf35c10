"""One attempt of a run: started on the server or on disk, kept alive, and ended exactly once."""

from __future__ import annotations

import asyncio
import functools
import threading
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import context, ending, interrupt, outer
from .aio import TaskLimit, off_loop
from .clock import now
from .context import Inside
from .encode import Raw, cut, dumps, id_of, label
from .errors import AlreadyDone, DeadLettered, LeaseLost, StartRefused, TimeLimit
from .evidence import Evidence
from .ledger import Ledger
from .logs import log
from .record import Record
from .sender import Handed
from .spool import SpoolFull
from .step import Step
from .transport import Answer

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Run(Ledger):
    """Made by `redrive.run(...)`, `@redrive.agent` or a `Worker`. Its methods may be called from any thread."""

    def __init__(
        self,
        client: Client,
        fields: dict[str, Any],
        payload: Any,
        timeout_s: float | None,
        on_refused: str,
        leased: Mapping[str, Any] | None = None,
    ) -> None:
        self._client, self._fields, self._timeout_s = client, fields, timeout_s
        self._on_refused = on_refused
        self._id = str(uuid.uuid4())
        self.run_id: str = fields["run_id"]
        self.tenant: str | None = fields.get("tenant")
        self.queue: str | None = fields.get("queue")
        #: What this attempt has to work with. A changed retry gets another one than was captured.
        self.payload = payload
        self.attempt = 0
        self.revision = 1
        self.replay = False
        #: What was changed for this attempt, and whether it is in the payload already.
        self.changes: list[dict[str, Any]] = []
        self.lease_s = fields.get("lease_ms", client.settings.lease_ms) / 1000
        self._lease: str | None = None
        self._alive_until = 0.0
        #: The server's word for why the attempt is no longer ours; empty while it is.
        self.lost = ""
        self.on_lost: Callable[[str], None] | None = None
        self._ended = False
        self._end: Handed | None = None
        self._lock = threading.RLock()
        self._limit: Any = None
        self._limit_struck = False
        self._task: TaskLimit | None = None
        self._thread = 0
        self._entered = False
        self._inside = Inside(self)
        self.evidence = Evidence(model=fields.get("model"))
        self._open_ledger(client)
        if leased is not None:
            self._begun(leased)

    # Entering and leaving.

    def __enter__(self) -> Run:
        self._start()
        self._inside.enter()
        self._thread = threading.get_ident()
        self._start_limit()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        struck = self._leave()
        if struck and error is None:
            raise TimeLimit(self._limit_words())
        self._end_by(error)

    async def __aenter__(self) -> Run:
        await self._start_async()
        self._inside.enter()
        self._task = TaskLimit()
        self._start_limit()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._leave():
            # The task was cancelled by us: to the caller it is a time limit, not a cancellation.
            raise TimeLimit(self._limit_words()) from error
        self._end_by(error)

    def _start(self) -> None:
        try:
            self._enter()
        except StartRefused:
            raise
        except BaseException as error:
            self._end_unbegun(error)
            raise

    async def _start_async(self) -> None:
        """A task that is cancelled while it starts never ends: its end is reported here."""
        outer.install()
        try:
            await off_loop(self._enter)
        except StartRefused:
            raise
        except BaseException as error:
            self._end_unbegun(error)
            raise

    def _end_unbegun(self, error: BaseException) -> None:
        """Interrupted while it began: whether the server has begun it is found by asking again with the same id."""
        if self._lease is None and not self._ended and not self._client.settings.off:
            self._client.sender.put(self._start_record())
        self._end_by(error)

    def _enter(self) -> None:
        if self._entered:
            return
        context.install()
        outer.install()
        self._client.opened(self)
        if self._lease is None and not self._client.settings.off:
            self._begin()
        self._entered = True

    def _leave(self) -> bool:
        self._inside.leave()
        with self._lock:
            if self._limit is not None:
                self._limit.cancel()
            if self._limit_struck and self._task is None:
                interrupt.call_off(self._thread)
            return self._limit_struck

    # In threads that were not started by the run's own code.

    def bind(self, call: F) -> F:
        """Wraps a function so that it runs inside this run, in whichever thread it is called."""

        @functools.wraps(call)
        def bound(*args: Any, **kwargs: Any) -> Any:
            return context.carried(self, call, *args, **kwargs)

        return bound  # type: ignore[return-value]

    def attached(self) -> Inside:
        """`with run.attached():` makes this the current run inside the block, in any thread."""
        return Inside(self)

    def _forked(self) -> None:
        """In a forked child: the run stays its parent's, whose threads may have held these locks."""
        self._lock, self.evidence._lock = threading.RLock(), threading.RLock()
        self._steps, self._flush_due, self._last_handed, self._flights = [], False, None, {}

    def _end_by(self, error: BaseException | None) -> None:
        if error is None:
            self._finish(lambda: ending.success(self.evidence, self._take_steps()))
        elif isinstance(error, asyncio.CancelledError) and outer.by_time_limit(error):
            self._finish(lambda: ending.time_limit(self.evidence, self._take_steps(), "a time limit around the run has passed"))
        else:
            self._finish(lambda: ending.failure(self.evidence, self._take_steps(), error))

    # The attempt's time limit.

    def _start_limit(self) -> None:
        if self._timeout_s is not None:
            interrupt.prepare()
            self._limit = self._timers.after(self._timeout_s, lambda: self._by_timer(self._time_is_up))

    def _limit_words(self) -> str:
        return f"the attempt took longer than {self._timeout_s} s"

    def _time_is_up(self) -> None:
        with self._lock:
            if self._ended:
                return
            self._limit_struck = True
            words = self._limit_words()
            self._finish(lambda: ending.time_limit(self.evidence, self._take_steps(), words))
            if self._task is not None:
                self._task.strike()
            elif self._thread:
                interrupt.interrupt(self._thread)

    # Beginning.

    def _begin(self) -> None:
        record = self._start_record()
        try:
            answer = self._client.begin(record)
        except SpoolFull as full:
            self._client.say_once("runs are not recorded for now", full)
            self._unseen = True
            self._client.sender.put(record)
            return
        if answer is not None:
            self._take_start(answer, refuse=self._on_refused == "raise")

    def _start_record(self) -> Record:
        return Record("start", self._id, self.run_id, ending.start_body(self._fields, self._id), self.tenant)

    def _take_start(self, answer: Answer, refuse: bool) -> None:
        if answer.ok and answer.body.get("lease"):
            self._begun(answer.body)
            return
        closed = answer.ok
        code = "closed" if closed else answer.code
        if not closed and answer.status != 409:
            # A mistake in what we sent must not keep the agent from its work.
            self._client.say_once(f"starts are refused ({code})", answer.detail)
            self._detach(code)
            return
        self._detach(code)
        if not refuse:
            return
        self._ended = True
        self._client.closed(self)
        if closed:
            raise AlreadyDone(answer.body.get("state", "closed"), answer.body.get("output"))
        kind = DeadLettered if code == "dead_lettered" else StartRefused
        raise kind(code, answer.detail, answer.body)

    def _begun(self, told: Mapping[str, Any]) -> None:
        with self._lock:
            self._lease = told["lease"]
            self._alive_until = now() + self.lease_s
            self.tenant = told.get("tenant", self.tenant)
            self.attempt, self.revision = told.get("attempt", 1), told.get("revision", 1)
            self.replay, self.changes = bool(told.get("replay")), list(told.get("changes") or ())
            if "payload" in told:
                self.payload = told["payload"]
            elif told.get("payload_base64") is not None:
                self.payload = ending.from_base64(told["payload_base64"])
            self._know(told.get("steps") or ())
            ended = self._ended
        if not ended:
            self._client.heartbeats.add(self)

    def started_late(self, answer: Answer) -> None:
        """The spooled start has been answered while the attempt is, or was, under way."""
        if not self._ended:
            self._take_start(answer, refuse=False)

    # Staying alive.

    def beat_record(self) -> Record | None:
        if self._lease is None or (self._ended and not self._client.is_ending(self)):
            return None
        return Record("heartbeat", self._id, self.run_id, "{}", self.tenant, self._lease)

    def beat_answered(self, asked_at: float, code: str) -> None:
        if not code:
            self._alive_until = asked_at + self.lease_s
        elif self._ended:
            self._client.ended(self._id)
        else:
            self._detach(code)

    def _detach(self, code: str) -> None:
        """The attempt is no longer ours: heartbeats end, and no effect may begin any more."""
        self.lost = code or "lease_lost"
        self._client.heartbeats.remove(self)
        if self._lease is None:
            # Its end is reported without a lease, as a separate call.
            self._client.sender.know_start(self._id, self._start_record().body)
        if self.on_lost is not None:
            try:
                self.on_lost(self.lost)
            except Exception:  # noqa: BLE001 - the agent's own callback
                log.exception("redrive: on_lost of %s failed", self.run_id)

    def check(self) -> None:
        """Raises `LeaseLost` if the attempt has lost its lease, for loops that want to stop early."""
        if self.lost:
            raise LeaseLost(self.run_id, f"the attempt has lost its lease ({self.lost})")

    # What there is to say of it.

    def step(
        self,
        name: str,
        *,
        key: str | None = None,
        effect: bool | None = False,
        timeout_s: float | None = None,
        check: str | None = None,
        not_done_on: tuple[type[BaseException], ...] = (),
    ) -> Step:
        """A step of the attempt. `key` identifies it across attempts; `check` says in words how to find out whether an effect
        happened; `not_done_on` lists exceptions after which it certainly did not."""
        return Step(self, name, None if key is None else id_of(key), effect, timeout_s, check, not_done_on)

    def do(self, name: str, work: Callable[[], T], **options: Any) -> T:
        """Does the work as a step, or returns what an earlier attempt recorded for it."""
        return self.step(name, **options).do(work)

    async def do_async(self, name: str, work: Callable[[], Any], **options: Any) -> Any:
        return await self.step(name, **options).do_async(work)

    def used(self, input_tokens: float = 0, output_tokens: float = 0, cost_usd: float = 0.0, model: str | None = None) -> None:
        """Adds to the tokens and the cost of the attempt."""
        self.evidence.used(input_tokens, output_tokens, cost_usd, model)

    @property
    def output(self) -> Any:
        """The result of the attempt: set it, and the end of the block reports it."""
        return self.evidence.output

    @output.setter
    def output(self, value: Any) -> None:
        self.evidence.output = value

    def partial(self, output: Any) -> None:
        """Keeps a partial output, in case the attempt does not finish."""
        self.evidence.partial = cut(output if isinstance(output, str) else dumps(output))

    # Ending.

    def succeed(self, output: Any = None, *, finish_reason: str | None = None, wait_s: float | None = None) -> Outcome:
        """Ends the attempt as a success, unless a detector objects: then the outcome's `verdict` says what happens next. Waits
        for the answer up to `wait_ms`; without one, the outcome is not `known`."""
        self.evidence.output = output
        if finish_reason is not None:
            self.evidence.finish_reason = label(finish_reason)
        self._finish(lambda: ending.success(self.evidence, self._take_steps()))
        return self.outcome(wait_s)

    def fail(
        self,
        error: BaseException | str,
        *,
        reason: str | None = None,
        terminal: bool = False,
        wait_s: float | None = None,
    ) -> Outcome:
        """Ends the attempt as failed, without an exception that leaves the block."""
        said = {"reason": reason, "terminal": True if terminal else None}
        self._finish(lambda: ending.failure(self.evidence, self._take_steps(), error, **said))
        return self.outcome(wait_s)

    def release(self) -> None:
        """Gives the attempt back: no try is spent, and another worker may start it again."""
        self._finish(lambda: ("release", "{}"))

    def outcome(self, wait_s: float | None = None) -> Outcome:
        """The server's answer to the end."""
        seconds = self._client.settings.wait_ms / 1000 if wait_s is None else wait_s
        answer = self._end.wait(seconds) if self._end is not None else None
        return Outcome(answer)

    def _finish(self, make: Callable[[], tuple[str, str]]) -> None:
        """The first end counts; what the agent still does is of no consequence to the run."""
        if not self._is_mine:
            # A forked child that leaves its parent's block.
            self._flush()
            return
        with self._lock:
            if self._ended:
                return
            self._ended = True
            try:
                self._hand_over(make)
            except RecursionError:
                # The stack is full; another thread has one of its own.
                self._ended = False
                self._timers.after(0, lambda: self._finish(make))
                return
            except Exception:  # noqa: BLE001 - the agent must not fail because its report did
                self._client.ended(self._id)
                log.exception("redrive: the end of %s could not be reported", self.run_id)
            except BaseException:
                # Ctrl-C in the middle of it: the end is reported before the exception propagates.
                self._hand_over(make)
                self._client.closed(self)
                raise
        self._client.closed(self)

    def _hand_over(self, make: Callable[[], tuple[str, str]]) -> None:
        do, text = make()
        if not self._client.settings.off:
            record = Record(do, self._id, self.run_id, text, self.tenant, self._lease)
            if self._lease is not None:
                self._client.ending(self)
            self._end = self._client.sender.put(record)

    def abandon(self, make: Callable[[Evidence, list[Raw]], tuple[str, str]]) -> None:
        """The process ends, or the worker stops, with the attempt under way."""
        self.lost = self.lost or "process_ends"
        self._finish(lambda: make(self.evidence, self._take_steps()))


class Outcome:
    """The server's answer to the end of an attempt."""

    def __init__(self, answer: Answer | None) -> None:
        self.known = answer is not None
        body: dict[str, Any] = answer.body if answer is not None and isinstance(answer.body, dict) else {}
        self.state: str | None = body.get("state")
        #: None: nobody objects.
        self.verdict: dict[str, Any] | None = body.get("verdict")
        self.refused: str | None = answer.code if answer is not None and not answer.ok else None

    def __repr__(self) -> str:
        why = (self.verdict or {}).get("why")
        return f"Outcome({self.state or self.refused or 'not known yet'}{': ' + why if why else ''})"
