"""A report that the server refuses for its form is mended and sent, less the part that it did not take."""

from __future__ import annotations

import json
from typing import Any

from .encode import cut, dumps, text_of
from .record import Record
from .transport import Answer

#: These say that the form is wrong, not that the run can't take it.
_OF_FORM = (400, 413, 414, 415, 422)
MENDS_MAX = 6
_NEEDED = {
    "start": ("mode", "start_id", "run_id"),
    "step": ("name", "key", "status"),
    "fail": ("error",),
    "succeed": (),
    "release": (),
}
#: Cut sizes for a field without its own, from larger to smaller.
_CORES: dict[str, list[tuple[str, ...]]] = {
    "start": [
        ("mode", "start_id", "run_id", "tenant", "queue", "payload", "payload_base64", "payload_omitted", "resumable", "lease_ms"),
        ("mode", "start_id", "run_id", "tenant"),
    ],
    "step": [("name", "key", "effect", "status", "output"), ("name", "key", "effect", "status")],
    "fail": [("error", "step", "tool", "model"), ("error",)],
    "succeed": [("output", "finish_reason"), ("output",), ()],
    "release": [()],
}


def mended(record: Record, answer: Answer, round: int) -> tuple[Record, str] | None:
    """The report in another form, and what it lost; none where its form is not what is wrong with it."""
    if answer.status not in _OF_FORM or round >= MENDS_MAX or record.do not in _CORES:
        return None
    try:
        fields: dict[str, Any] = json.loads(record.body)
    except ValueError:
        return None
    named = _named(answer, fields)
    effects = _effects_of(fields)
    if named == "steps" and effects and effects != fields["steps"]:
        # Plain steps may be missing from the record. An effect that is would be done again.
        return record.with_body(dumps({**fields, "steps": effects})), "its plain steps"
    if named is not None and named not in _NEEDED[record.do]:
        del fields[named]
        return record.with_body(dumps(fields)), named
    for core in _CORES[record.do]:
        kept = {name: value for name, value in fields.items() if name in core}
        if record.do == "fail" and len(core) == 1:
            error = fields.get("error") if isinstance(fields.get("error"), dict) else {}
            kept = {"error": {"message": cut(text_of((error or {}).get("message") or "no message"), 2_000)}}
        if effects:
            kept["steps"] = effects
        text = dumps(kept)
        if len(text) < len(record.body):
            return record.with_body(text), ", ".join(sorted(set(fields) - set(kept))) or "its details"
    return None


def _effects_of(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """In the least form that says what was done."""
    steps = fields.get("steps")
    effects = [step for step in steps or () if step.get("effect") is not False]
    return [{name: value for name, value in step.items() if name in _CORES["step"][1]} for step in effects]


def _named(answer: Answer, fields: dict[str, Any]) -> str | None:
    """The field that the problem is about, by its first part: `steps[0].name` is in `steps`."""
    said = answer.body.get("field") if isinstance(answer.body, dict) else None
    if not isinstance(said, str):
        return None
    first = said.strip("/.").replace("/", ".").partition(".")[0].partition("[")[0]
    return first if first in fields else None
