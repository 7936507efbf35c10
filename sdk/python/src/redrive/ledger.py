"""The run's side of the ledger: keys, recorded steps, intents before effects, and outcomes after them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .encode import STEP_OUTPUT_MAX_BYTES, Raw, body, cut, dumps, id_of, label, step_key
from .errors import EffectInProgress, EffectRefused, EffectUnknown, LeaseLost
from .record import Record
from .spool import SpoolFull
from .transport import Answer, Away

if TYPE_CHECKING:
    from .client import Client
    from .ending import Evidence
    from .step import Step

log = logging.getLogger("redrive")

_CHECK_MAX_CHARS = 1_000
_OUTPUT_MAX_CHARS = 16 * STEP_OUTPUT_MAX_BYTES
#: More than this at once is sent before the time is up.
_STEPS_MAX = 200


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
        self._doubtful: set[str] = set()
        #: The start is in memory only: nothing that must survive us may rely on it.
        self._unseen = False
        #: Names of effects that were done under the ledger's guard.
        self.guarded: set[str] = set()

    def _know(self, steps: Iterable[Mapping[str, Any]]) -> None:
        self._recorded.update((step["key"], step) for step in steps)

    @property
    def recorded(self) -> list[Mapping[str, Any]]:
        """Steps that attempts before this one recorded."""
        return list(self._recorded.values())

    @property
    def in_doubt(self) -> list[Mapping[str, Any]]:
        """Effects that an earlier attempt began and nobody knows the end of."""
        return [step for step in self._recorded.values() if step.get("status") == "unknown"]

    def _key_of(self, name: str, key: str | None, effect: bool | None) -> str:
        """A step without a key is known by its name, and by which of that name it is within the attempt."""
        if key is not None:
            return key
        ordinal = self._next_ordinal(name)
        if effect is False:
            return step_key(name, ordinal)
        # An effect's key is known in the whole tenant, so it has the run in it.
        return id_of(f"{self.run_id}:{name}" + (f":{ordinal}" if ordinal > 1 else ""))

    def _next_ordinal(self, name: str) -> int:
        with self._lock:
            self._ordinals[name] += 1
            return self._ordinals[name]

    def note(self, name: str, output: Any = None, *, effect: bool | None = False, failed: bool = False) -> None:
        """A step that somebody else has done, told after the fact: it guards the next attempt, not this one. What
        `redrive.effect` guards is on record already."""
        if name in self.guarded:
            return
        # What may be an effect and failed may have happened all the same: it stays open, and its end makes it unknown.
        status = "committed" if not failed else "failed" if effect is False else "started"
        self._add_plain(step_fields(name, self._key_of(name, None, effect), effect, status, output))

    # Called by steps.

    def _step_begins(self, step: Step) -> None:
        self.evidence.step = step.name
        known = self._recorded.get(step.key)
        if known is not None and _is_done(known):
            if step.effect is False and known.get("output_omitted"):
                # A plain step whose output was too large to keep: only doing it again gives it back.
                return
            step.done, step.output = True, known.get("output")
            return
        if step.effect is False:
            return
        if known is not None and known.get("status") == "unknown":
            raise EffectUnknown(step.key, "an earlier attempt began it, and nobody knows whether it happened")
        self._intend(step)

    def _step_ends(self, step: Step, status: str, output: Any) -> None:
        self._doubtful.discard(step.key)
        told = _fields_of(step, status, output)
        if step.effect is False:
            if status == "committed":
                self.evidence.step = None
            self._add_plain(told)
        else:
            self._record_now(body(told))

    def _step_in_doubt(self, step: Step) -> None:
        """An effect's intent is on record and its outcome is not: the end of the attempt makes it unknown. Of a plain
        step it is told that it was begun."""
        if step.effect is False and step.key not in self._doubtful and not self._ended:
            self._add_plain(_fields_of(step, "started", None))
        self._doubtful.add(step.key)

    # Plain steps: in the background, or with the end.

    def _add_plain(self, told: dict[str, Any]) -> None:
        text = Raw(body(told))
        with self._lock:
            if self._ended:
                # The late word of somebody whose attempt is over.
                self._client.sender.put(self._step_record(text))
                return
            self._steps.append(text)
            if len(self._steps) >= _STEPS_MAX:
                self._flush()
            elif not self._flush_due:
                self._flush_due = True
                self._timers.after(self._client.settings.flush_ms / 1000, self._flush)

    def _flush(self) -> None:
        with self._lock:
            self._flush_due = False
            if self._ended or self._client.settings.off:
                return
            for text in self._take_steps():
                self._client.sender.put(self._step_record(text))

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
            raise LeaseLost(step.key, f"the attempt is no longer ours ({self.lost or 'it has ended'})")
        text = body(_fields_of(step, "started", None))
        answer = self._ask(text)
        if answer is None:
            self._intend_offline(step, text)
        elif answer.ok:
            if answer.body.get("replayed"):
                step.done, step.output = True, answer.body.get("output")
        else:
            raise self._refusal(step, answer)

    def _ask(self, text: str) -> Answer | None:
        """The server's answer within the agent's patience; none when it can't be had."""
        wait_s = self._client.settings.wait_ms / 1000
        until = time.monotonic() + wait_s
        if self._client.sender.is_away() or not self._client.spool.wait_clear(self._id, wait_s):
            return None
        if self._lease is None:
            return None
        record = self._step_record(text)
        try:
            return self._client.post(record.path, record.wire, max(0.05, until - time.monotonic()))
        except Away:
            return None

    def _intend_offline(self, step: Step, text: str) -> None:
        if self._lease is not None and time.monotonic() > self._alive_until:
            raise LeaseLost(step.key, "the lease has run out while the server could not be reached")
        if self._unseen and self._lease is None:
            raise EffectRefused(step.key, "neither the server nor the disk has the run")
        if self._client.settings.effects_offline == "refuse":
            raise EffectRefused(step.key, "the server can't be asked whether it may be done")
        try:
            self._client.keep(self._step_record(text))
        except SpoolFull as full:
            raise EffectRefused(step.key, f"its intent could not be kept: {full}") from full

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
        answer = self._ask(text)
        if answer is not None:
            if not answer.ok and answer.body.get("recorded") is not True:
                log.warning("redrive: an effect's outcome in %s was refused: %s", self.run_id, answer.detail)
                self._client.spool.set_aside(self._step_record(text), f"{answer.code} {answer.detail}")
            return
        try:
            self._client.keep(self._step_record(text))
        except SpoolFull as full:
            log.error("redrive: an effect's outcome in %s is only in memory: %s", self.run_id, full)
            self._client.sender.put(self._step_record(text))


def _is_done(step: Mapping[str, Any]) -> bool:
    return step.get("status") == "committed" or (
        step.get("status") == "reconciled" and step.get("outcome") == "committed"
    )


def _fields_of(step: Step, status: str, output: Any) -> dict[str, Any]:
    told = step_fields(step.name, step.key, step.effect, status, output)
    if status == "started" and step.check:
        told["check"] = cut(step.check, _CHECK_MAX_CHARS)
    return told


def step_fields(name: str, key: str, effect: bool | None, status: str, output: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"name": label(name), "key": key, "effect": effect, "status": status}
    if status == "committed" and output is not None:
        text = dumps(output)
        # Beyond what is kept the server notes its size; far beyond it the beginning is enough for that.
        told["output"] = Raw(text) if len(text) <= _OUTPUT_MAX_CHARS else Raw(dumps(text[: STEP_OUTPUT_MAX_BYTES + 1]))
    return told
