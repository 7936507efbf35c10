"""The run's side of the ledger: keys, recorded steps, intents before effects, and outcomes after them."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .clock import now
from .encode import (
    STEP_OUTPUT_MAX_BYTES,
    Raw,
    body,
    cut,
    dumps,
    effect_key,
    label,
    nth_key,
    step_key,
    text_of,
)
from .errors import EffectInProgress, EffectRefused, EffectUnknown, LeaseLost
from .evidence import Evidence, Problem, tool_words
from .flight import Flight
from .logs import log
from .record import Record
from .sender import Handed
from .spool import SpoolFull
from .step import Step
from .transport import Answer, Away

if TYPE_CHECKING:
    from .client import Client

_CHECK_MAX_CHARS = 1_000
_OUTPUT_MAX_CHARS = 16 * STEP_OUTPUT_MAX_BYTES
#: More than this at once is sent before the time is up.
_STEPS_MAX = 200
_LOCKED_RETRY_S = 0.02


class Ledger:
    """What `Run` inherits; it knows steps, and leaves beginning and ending to the run."""

    run_id: str
    tenant: str | None
    lost: str
    lease_s: float
    _id: str
    _lease: str | None
    _alive_until: float
    _ended: bool
    _client: Client
    #: Where the attempt is, is shown with a failure.
    evidence: Evidence
    _lock: threading.RLock

    def _open_ledger(self, client: Client) -> None:
        self._timers = client.timers
        self._recorded: dict[str, Mapping[str, Any]] = {}
        self._ordinals: Counter[str] = Counter()
        self._steps: list[Raw] = []
        self._flush_due = False
        self._last_handed: Handed | None = None
        self._pid = os.getpid()
        #: Keys whose outcome nobody knows, and what of effects they stand for.
        self._doubtful: set[str] = set()
        self._doubted: set[str] = set()
        self._flights: dict[str, Flight] = {}
        #: What this attempt has done itself: what it gave, and how often.
        self._done_here: dict[str, Any] = {}
        self._done_times: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        #: The start is in memory only: nothing that must survive us may rely on it.
        self._unseen = False
        #: Names of effects that were done under the ledger's guard.
        self.guarded: set[str] = set()

    def _know(self, steps: Iterable[Mapping[str, Any]]) -> None:
        self._recorded.update((step["key"], step) for step in steps)

    @property
    def recorded(self) -> list[Mapping[str, Any]]:
        """The steps that earlier attempts recorded."""
        return list(self._recorded.values())

    @property
    def in_doubt(self) -> list[Mapping[str, Any]]:
        """Effects that an earlier attempt started and whose outcome is unknown."""
        return [step for step in self._recorded.values() if step.get("status") == "unknown"]

    def _next_ordinal(self, name: str) -> int:
        with self._lock:
            self._ordinals[name] += 1
            return self._ordinals[name]

    @property
    def _is_mine(self) -> bool:
        """A forked child has its parent's runs in its memory, and no right to end them."""
        return self._pid == os.getpid()

    def _claim(self, step: Step) -> Flight | None:
        """Gives the step its key, or the call of the same effect that is under way."""
        if step.key:
            return None
        if step.effect is False:
            name = label(step.name)
            step.key = step.identity or step_key(name, self._next_ordinal(name))
            return None
        if step.identity is None:
            if not self._is_mine:
                raise EffectRefused(step.name, "an effect in a forked child needs key=, because the parent counts its calls too")
            step.key = nth_key(effect_key(self.run_id, step.name), self._next_ordinal(step.name))
            return None
        with self._lock:
            if step.counted and not step.call:
                self._calls[step.identity] += 1
                step.call = self._calls[step.identity]
            other = self._flights.get(step.identity)
            if other is not None and not other.over:
                step.joins = not other.settling
                if step.joins and step.counted:
                    other.calls.append(step.call)
                return other
            if step.identity in self._doubted:
                raise EffectUnknown(step.identity, "this attempt started it before, and its outcome is unknown")
            # The same call again, after the first has ended, is meant to happen twice; a key of one's own is one effect.
            ordinal = 1
            if step.counted:
                joined = self._recorded.get(self._call_key(step, step.call))
                ordinal = int(joined["output"]) if joined is not None else self._done_times[step.identity] + 1
            step.key = nth_key(step.identity, ordinal)
            step.flight = self._flights[step.identity] = Flight(step.key)
        return None

    def _call_key(self, step: Step, call: int) -> str:
        return f"{step.identity}@c{call}"

    def _note_joined(self, step: Step) -> None:
        """Calls at the same time are one effect. In a later attempt the first of them is answered at once, and the others
        would come after it: that they were the same one is on record before its outcome is."""
        flight = step.flight
        if flight is None or not step.counted:
            return
        with self._lock:
            flight.settling = True
            calls = [call for call in flight.calls if self._call_key(step, call) not in self._recorded]
        _, _, ordinal = step.key.removeprefix(str(step.identity)).partition("@")
        for call in calls:
            key = self._call_key(step, call)
            self._record_now(body(step_fields(f"{step.name} (joined)", key, False, "committed", int(ordinal or 1))))

    def _release(self, step: Step) -> None:
        with self._lock:
            if step.identity is not None and self._flights.get(step.identity) is step.flight:
                del self._flights[step.identity]

    def _tool_step(self, name: str, effect: bool | None, arguments: str | None) -> Step:
        """A tool call of a framework that counts as an effect. It can't be skipped or made to wait from outside, so each call
        is one of its own; one that is named an effect is refused while an earlier one of the same arguments is in doubt."""
        identity = effect_key(self.run_id, name, arguments) if effect else None
        if identity is not None and identity in self._doubted:
            raise EffectUnknown(identity, "this attempt started it before, and its outcome is unknown")
        step = Step(self, name, identity, effect, None, None, (), tool=True)  # type: ignore[arg-type]
        step.key = nth_key(identity or effect_key(self.run_id, name), self._next_ordinal(identity or name))
        return step

    def note(self, name: str, output: Any = None, *, effect: bool | None = False, failed: bool = False) -> None:
        """A step that somebody else has done, told after the fact: it guards the next attempt, not this one. What
        `redrive.effect` guards is on record already."""
        if name in self.guarded:
            return
        # What may be an effect and failed may have happened all the same: it stays open, and its end makes it unknown.
        status = "committed" if not failed else "failed" if effect is False else "started"
        if effect is False:
            key = step_key(label(name), self._next_ordinal(label(name)))
        else:
            key = nth_key(effect_key(self.run_id, name), self._next_ordinal(name))
        self._add_plain(step_fields(name, key, effect, status, output))

    # Called by steps.

    def _step_begins(self, step: Step) -> None:
        self.evidence.step = step.name
        known = self._recorded.get(step.key)
        if known is not None and _is_done(known):
            if step.effect is False and known.get("output_omitted"):
                # A plain step whose output was too large to keep: only doing it again gives it back.
                return
            self._was_done(step, known.get("output"))
            return
        if step.effect is False:
            return
        if known is not None and known.get("status") == "unknown":
            raise EffectUnknown(step.key, "an earlier attempt started it, and its outcome is unknown")
        if step.key in self._done_here:
            self._was_done(step, self._done_here[step.key])
            return
        self._intend(step)

    def _was_done(self, step: Step, output: Any) -> None:
        step.done, step.output = True, output
        self._count_done(step)

    def _count_done(self, step: Step) -> None:
        """How many of an effect this attempt is past."""
        if step.identity is not None:
            with self._lock:
                _, _, ordinal = step.key.removeprefix(step.identity).partition("@")
                self._done_times[step.identity] = max(self._done_times[step.identity], int(ordinal or 1))

    def _step_ends(self, step: Step, status: str, output: Any, error: BaseException | None = None) -> None:
        told = _fields_of(step, status, output)
        if step.effect is False:
            self._doubtful.discard(step.key)
            if status == "committed":
                self.evidence.step = None
            self._add_plain(told)
            return
        with self._lock:
            self._doubtful.discard(step.key)
            if step.identity is not None:
                self._doubted.discard(step.identity)
                if status == "committed":
                    self._done_here[step.key] = output
                    self._count_done(step)
        if step.tool:
            self._judge_tool(step, None if status == "committed" else error, "")
        self._record_now(body(told))

    def _step_in_doubt(self, step: Step, error: BaseException | None, said: str = "") -> None:
        """An effect's intent is on record and its outcome is not: the end of the attempt makes it unknown. Of a plain
        step it is told that it was begun."""
        if step.effect is False and step.key not in self._doubtful and not self._ended:
            self._add_plain(_fields_of(step, "started", None))
        with self._lock:
            self._doubtful.add(step.key)
            if step.identity is not None:
                self._doubted.add(step.identity)
        if step.tool:
            self._judge_tool(step, error, said)

    def _judge_tool(self, step: Step, error: BaseException | None, said: str) -> None:
        """What a tool raised or complained of stands against a success until the tool has done it after all."""
        if error is None and not said:
            self.evidence.tool_done(step.name)
            return
        words = said or text_of(error) or type(error).__name__
        problem = Problem(tool_words(step.name) + words, None, error, label(step.name))
        self.evidence.tool_failed(step.name, problem, lasting=True)

    # Plain steps: in the background, or with the end.

    def _add_plain(self, told: dict[str, Any]) -> None:
        if self._client.settings.off:
            return
        text = Raw(body(told))
        with self._lock:
            if self._ended or not self._is_mine:
                # The late word of somebody whose attempt is over, or of a child who may end at any moment.
                self._client.sender.put(self._step_record(text))
                return
            self._steps.append(text)
            if len(self._steps) >= _STEPS_MAX:
                self._flush()
            elif not self._flush_due:
                self._flush_due = True
                self._timers.after(self._client.settings.flush_ms / 1000, lambda: self._by_timer(self._flush))

    def _by_timer(self, call: Callable[[], None]) -> None:
        """All runs share the thread of the timers: it does not wait for one whose output takes its time."""
        if not self._lock.acquire(blocking=False):
            self._timers.after(_LOCKED_RETRY_S, lambda: self._by_timer(call))
            return
        try:
            call()
        finally:
            self._lock.release()

    def _flush(self) -> None:
        with self._lock:
            self._flush_due = False
            if self._ended:
                return
            steps = [self._step_record(text) for text in self._take_steps()]
            if steps:
                self._last_handed = self._client.sender.put_all(steps)[-1]

    def _take_steps(self) -> list[Raw]:
        with self._lock:
            taken, self._steps = self._steps, []
            return taken

    def _step_record(self, text: str) -> Record:
        return Record("step", self._id, self.run_id, text, self.tenant, self._lease)

    # Effects: the intent is on disk, the server's or ours, before the effect may begin.

    def _intend(self, step: Step) -> None:
        if self._client.settings.off:
            return
        if self.lost or self._ended:
            raise LeaseLost(step.key, f"the attempt has ended or lost its lease ({self.lost or 'ended'})")
        told = _fields_of(step, "started", None)
        if not self._client.takes_call_id:
            told.pop("call_id", None)
        text = body(told)
        until = time.monotonic() + self._client.settings.wait_ms / 1000
        self._send_plain_first(until)
        answer = self._ask(text, until)
        if answer is None:
            # The same text again: the server may have recorded it although its answer came too late, and `call_id` is how it
            # recognises a second sending.
            self._intend_offline(step, text)
        elif answer.ok:
            if answer.body.get("replayed"):
                self._was_done(step, answer.body.get("output"))
        else:
            raise self._refusal(step, answer)

    def _send_plain_first(self, until: float) -> None:
        """A process killed inside an effect leaves a record of everything done before it."""
        self._flush()
        if self._last_handed is not None:
            self._last_handed.wait(max(0.0, until - time.monotonic()))
            self._last_handed = None

    def _ask(self, text: str, until: float) -> Answer | None:
        """The server's answer within the agent's patience; none when it can't be had."""
        if self._client.sender.is_away() or not self._client.spool.wait_clear(self._id, max(0.0, until - time.monotonic())):
            return None
        if self._lease is None:
            return None
        try:
            return self._client.post(self._step_record(text), until)
        except Away:
            return None

    def _intend_offline(self, step: Step, text: str) -> None:
        if self._lease is not None and now() > self._alive_until:
            raise LeaseLost(step.key, "the lease expired while the server was unreachable")
        if self._unseen and self._lease is None:
            raise EffectRefused(step.key, "the start of the run could be stored neither on the server nor on disk")
        if self._client.settings.effects_offline == "refuse":
            raise EffectRefused(step.key, "the server is unreachable, and effects_offline is 'refuse'")
        # What waits for the server was said before.
        self._client.sender.to_spool()
        try:
            self._client.keep(self._step_record(text))
        except SpoolFull as full:
            raise EffectRefused(step.key, f"its intent could not be stored: {full}") from full

    def _refusal(self, step: Step, answer: Answer) -> EffectRefused:
        if answer.code == "effect_unknown":
            return EffectUnknown(step.key, answer.detail)
        if answer.code == "effect_in_progress":
            return EffectInProgress(step.key, answer.detail)
        if answer.code in ("lease_lost", "cancelled"):
            self.lost = answer.code
            return LeaseLost(step.key, answer.detail)
        return EffectRefused(step.key, f"{answer.code}: {answer.detail}")

    def _record_now(self, text: str) -> None:
        """An outcome that must not get lost: told to the server, or on disk, before the agent goes on."""
        if self._client.settings.off:
            return
        try:
            answer = self._ask(text, time.monotonic() + self._client.settings.wait_ms / 1000)
        except BaseException:
            # Ctrl-C or a time limit: whether the server has it is not known, and saying it twice changes nothing.
            self._keep_outcome(text)
            raise
        if answer is not None and answer.code not in ("lease_lost", "cancelled"):
            if not answer.ok:
                log.warning("redrive: the outcome of an effect of %s was refused: %s", self.run_id, answer.detail)
                self._client.spool.set_aside(self._step_record(text), f"{answer.code} {answer.detail}")
            return
        if answer is not None and answer.body.get("recorded") is True:
            return
        self._keep_outcome(text)

    def _keep_outcome(self, text: str) -> None:
        try:
            self._client.keep(self._step_record(text))
        except SpoolFull as full:
            log.error("redrive: the outcome of an effect of %s is kept in memory only: %s", self.run_id, full)
            self._client.sender.put(self._step_record(text))


def _is_done(step: Mapping[str, Any]) -> bool:
    return step.get("status") == "committed" or (
        step.get("status") == "reconciled" and step.get("outcome") == "committed"
    )


def _fields_of(step: Step, status: str, output: Any) -> dict[str, Any]:
    told = step_fields(step.name, step.key, step.effect, status, output)
    if status == "started":
        if step.check:
            told["check"] = cut(step.check, _CHECK_MAX_CHARS)
        if step.call_id:
            # It distinguishes a resent intent from another call.
            told["call_id"] = step.call_id
    return told


def step_fields(name: str, key: str, effect: bool | None, status: str, output: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"name": label(name), "key": key, "effect": effect, "status": status}
    if status == "committed" and output is not None:
        text = dumps(output)
        # Beyond the limit the server stores only the size; far beyond it the beginning is enough for that.
        told["output"] = Raw(text) if len(text) <= _OUTPUT_MAX_CHARS else Raw(dumps(text[: STEP_OUTPUT_MAX_BYTES + 1]))
    return told
