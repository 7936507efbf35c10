"""From Python values to the JSON that travels: never raises, never larger than the server takes."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

#: The server refuses bodies of 16 MiB; the rest of the report needs room too.
PAYLOAD_MAX_BYTES = 8 * 1024 * 1024
OUTPUT_MAX_BYTES = 4 * 1024 * 1024
#: Above this the server keeps size and hash only; sending more would be for nothing.
STEP_OUTPUT_MAX_BYTES = 64 * 1024
TEXT_MAX_CHARS = 64 * 1024
LABEL_MAX_CHARS = 200

_quoted = json.encoder.encode_basestring_ascii
_ID_MAX = 200
_NOT_AN_ID = re.compile(r"[^A-Za-z0-9._:@-]")
_NOT_A_WORD = re.compile(r"[^A-Za-z0-9]")


def dumps(value: Any) -> str:
    """JSON of anything. What JSON has no word for is written as its own text."""
    try:
        return json.dumps(value, separators=(",", ":"), default=plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_readable(value, 0), separators=(",", ":"))


def plain(value: Any) -> Any:
    """A value's JSON form: models and dataclasses by their fields, the rest by their text."""
    for method in ("model_dump", "to_dict", "dict"):
        found = getattr(value, method, None)
        if callable(found) and not isinstance(value, type):
            try:
                return found(mode="json") if method == "model_dump" else found()
            except Exception:  # noqa: BLE001 - somebody else's method: its text is still better than nothing
                continue
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, Mapping):
        return {str(key): inner for key, inner in value.items()}
    return text_of(value)


_DEPTH_MAX = 50


def _readable(value: Any, depth: int) -> Any:
    """The slow way, for what the fast one stumbled over: odd keys, endless numbers, things that hold themselves."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if depth >= _DEPTH_MAX:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): _readable(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_readable(inner, depth + 1) for inner in value]
    return _readable(plain(value), depth + 1)


def text_of(value: Any) -> str:
    """`str`, also of things whose own `str` fails."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the text of a stranger's object
        return f"<{type(value).__name__}>"


def cut(text: Any, most: int = TEXT_MAX_CHARS) -> str:
    """The beginning and the end: errors say what matters at either."""
    whole: str = text if isinstance(text, str) else text_of(text)
    if len(whole) <= most:
        return whole
    head = most * 2 // 3
    return f"{whole[:head]}\n… {len(whole) - most} characters left out …\n{whole[len(whole) - (most - head) :]}"


def label(text: Any) -> str:
    return text_of(text)[:LABEL_MAX_CHARS]


def payload_fields(payload: Any) -> dict[str, Any]:
    """How a payload travels: as JSON, as bytes, or, where it is too large, by its size and hash."""
    if payload is None:
        return {}
    if isinstance(payload, (bytes, bytearray, memoryview)):
        raw = bytes(payload)
        if len(raw) > PAYLOAD_MAX_BYTES:
            return {"payload_omitted": _omitted(raw)}
        return {"payload_base64": base64.b64encode(raw).decode("ascii")}
    text = dumps(payload)
    if len(text) > PAYLOAD_MAX_BYTES:
        return {"payload_omitted": _omitted(text.encode())}
    return {"payload": Raw(text)}


def output_token(output: Any) -> Raw:
    """An output that is too large to send is still told of."""
    text = dumps(output)
    if len(text) <= OUTPUT_MAX_BYTES:
        return Raw(text)
    return Raw(dumps({"omitted": _omitted(text.encode()), "beginning": text[:4096]}))


def _omitted(raw: bytes) -> dict[str, Any]:
    return {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


class Raw(str):
    """JSON that is written already."""

    __slots__ = ()


def body(fields: Mapping[str, Any]) -> str:
    """An object of which some values are written already: they keep their bytes. Every step passes here."""
    return "{" + ",".join([f'"{name}":{_token(value)}' for name, value in fields.items() if value is not None]) + "}"


def _token(value: Any) -> str:
    kind = type(value)
    if kind is Raw:
        return str(value)
    if kind is str:
        return _quoted(value)
    if kind is bool:
        return "true" if value else "false"
    return dumps(value)


def id_of(text: str) -> str:
    """A text as an id: what an id can't hold becomes `_`, and its hash keeps it apart from others."""
    clean = _NOT_AN_ID.sub("_", text)
    if clean == text and len(text) <= _ID_MAX and text not in ("", ".", ".."):
        return text
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{clean[: _ID_MAX - 17]}:{mark}"


def step_key(name: str, ordinal: int) -> str:
    """The key that the server itself gives to a step without one."""
    stem = "step:" + _NOT_A_WORD.sub("_", name)[:180]
    return stem if ordinal == 1 else f"{stem}:{ordinal}"
