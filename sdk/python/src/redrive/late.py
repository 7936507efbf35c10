"""Effects that reach the server too late for their lease: done while it could not be reached, and reported after it gave the
attempt up. The ledger takes them with the end of the attempt, or else with a failure report of their own. Until one of the
two has arrived they are on disk.

The file of a run is a spool file like any other, with that failure report as its only line. Its owner holds the lock as long
as the end may still come; a process that dies, or gives the run up, leaves the file to the next sender of the spool."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .encode import Raw, body, dumps
from .logs import log
from .record import Record
from .spool import Spool, SpoolFile, SpoolFull

_MESSAGE = "effects of an earlier attempt were reported after its lease had run out"


@dataclass
class _Held:
    run_id: str
    tenant: str | None
    fields: dict[str, Any]
    steps: list[str] = field(default_factory=list)
    file: SpoolFile | None = None

    def record(self, run: str) -> Record:
        error = {"type": "LateEffect", "message": _MESSAGE, "reason": "x:late_effect", "category": "transient"}
        text = body({**self.fields, "error": error, "steps": Raw(f"[{','.join(self.steps)}]")})
        return Record("fail", f"late-{run}", self.run_id, text, self.tenant)


def _step_of_an_end(text: str) -> str:
    """The end of an attempt lists its steps, and knows nothing of single calls."""
    step = json.loads(text)
    if "call_id" not in step:
        return text
    del step["call_id"]
    return dumps(step)


class LateEffects:
    """By the run that each belongs to."""

    def __init__(self, spool: Spool, on_given_up: Callable[[], None]) -> None:
        self._spool, self._on_given_up = spool, on_given_up
        self._held: dict[str, _Held] = {}
        self._lock = threading.RLock()

    def add(self, record: Record, fields: dict[str, Any]) -> None:
        """On disk when it returns. `fields` describe the run, in case the server does not have it."""
        with self._lock:
            held = self._held.setdefault(record.run, _Held(record.run_id, record.tenant, fields))
            held.steps.append(_step_of_an_end(record.body))
            before = held.file
            try:
                held.file = self._spool.write_late(record.run, held.record(record.run))
            except SpoolFull as full:
                log.error("redrive: a late effect of %s is kept in memory only: %s", record.run_id, full)
                return
            if before is not None:
                before.remove()

    def merged(self, record: Record) -> Record:
        """The end of an attempt, with its late effects among its steps."""
        with self._lock:
            held = self._held.get(record.run) or self._load(record.run)
        if held is None or record.do == "release":
            return record
        late = ",".join(held.steps)
        if "steps" not in json.loads(record.body):
            comma = "" if record.body == "{}" else ","
            return record.with_body(f'{record.body[:-1]}{comma}"steps":[{late}]}}')
        # The steps are the last field of every end.
        return record.with_body(f"{record.body[:-2]},{late}]}}")

    def has(self, run: str) -> bool:
        return run in self._held

    def delivered(self, run: str) -> None:
        with self._lock:
            held = self._held.pop(run, None)
        if held is not None and held.file is not None:
            held.file.remove()

    def give_up(self, run: str) -> None:
        """No end takes them: the file is sent by itself from now on."""
        with self._lock:
            held = self._held.pop(run, None)
        if held is None:
            return
        if held.file is None:
            self._spool.set_aside(held.record(run), "its lease had run out, and the spool was full")
        else:
            held.file.file.close()
            self._on_given_up()

    def give_up_all(self) -> None:
        for run in list(self._held):
            self.give_up(run)

    def forget(self) -> None:
        """In a forked child: the files are the parent's."""
        self._held, self._lock = {}, threading.RLock()

    def _load(self, run: str) -> _Held | None:
        """What a process that is gone has left of the run."""
        found = self._spool.late_of(run)
        for record, _, _ in found.records() if found is not None else ():
            if record is not None:
                steps = [json.dumps(step, ensure_ascii=False) for step in json.loads(record.body).get("steps", ())]
                held = self._held[run] = _Held(record.run_id, record.tenant, {}, steps, found)
                return held
        return None
