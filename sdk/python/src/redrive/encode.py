"""From Python values to the JSON that travels: never raises, never hangs, never larger than the server takes.

`docs/sdk/python.md` has the table of forms. What JSON has no form for is written as `{"$type": …, "$text": …}`, so that a
reader sees what was lost, and what is too deep, too wide or holds itself ends in a marker."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import hashlib
import json
import math
import pathlib
import re
import uuid
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

#: The server refuses bodies of 16 MiB; the rest of the report needs room too.
PAYLOAD_MAX_BYTES = 8 * 1024 * 1024
OUTPUT_MAX_BYTES = 4 * 1024 * 1024
#: Above this the server keeps size and hash only; sending more would be for nothing.
STEP_OUTPUT_MAX_BYTES = 64 * 1024
TEXT_MAX_CHARS = 64 * 1024
LABEL_MAX_CHARS = 200

#: Values in one JSON document, nested ones included; 64 characters of text count as one.
_NODES_MAX = 500_000
_DEPTH_MAX = 50
_INT_MAX = 2**63
_INT_BITS_MAX = 1_000
_ID_MAX = 200
_NOT_AN_ID = re.compile(r"[^A-Za-z0-9._:@-]")
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_encode_text = json.encoder.encode_basestring


class Unstable(TypeError):
    """A value without a text that is the same in every process."""


def dumps(value: Any) -> str:
    """JSON of anything."""
    return encode(value)[0]


def encode(value: Any) -> tuple[str, Loss]:
    """JSON of anything, and what it lost on the way."""
    if _plain(value, _NODES_MAX, 0) >= 0:
        return _clean(json.dumps(value, separators=(",", ":"), ensure_ascii=False)), _NO_LOSS
    walk = _Walk()
    return _clean(json.dumps(walk.tree(value, 0), separators=(",", ":"), ensure_ascii=False)), walk.loss


def stable(value: Any) -> str:
    """A text that is the same for the same value in every process; raises `Unstable` where there is none."""
    return _clean(json.dumps(_Walk(strict=True).tree(value, 0), separators=(",", ":"), ensure_ascii=False, sort_keys=True))


@dataclasses.dataclass
class Loss:
    """`cut`: a bound was met. `text_only`: the first type that JSON has no form for."""

    cut: bool = False
    text_only: str | None = None


_NO_LOSS = Loss()


def _plain(value: Any, left: int, depth: int) -> int:
    """How much room is left after a value that JSON has a form for as it is; negative when it is another one."""
    kind = type(value)
    if kind is str:
        return left - 1 - (len(value) >> 6)
    if kind is bool or value is None:
        return left - 1
    if kind is int:
        return left - 1 if -_INT_MAX <= value < _INT_MAX else -1
    if kind is float:
        return left - 1 if math.isfinite(value) else -1
    if depth >= _DEPTH_MAX:
        return -1
    if kind is dict:
        for key, inner in value.items():
            if type(key) is not str or left < 0:
                return -1
            left = _plain(inner, left - 1 - (len(key) >> 6), depth + 1)
    elif kind is list or kind is tuple:
        for inner in value:
            left = _plain(inner, left, depth + 1)
            if left < 0:
                return -1
    else:
        return -1
    return left - 1


class _Walk:
    """Builds what JSON has a form for out of anything. `strict` refuses what has no stable text."""

    def __init__(self, strict: bool = False) -> None:
        self.loss = Loss()
        self._strict = strict
        self._left = _NODES_MAX
        self._open: set[int] = set()

    def tree(self, value: Any, depth: int) -> Any:
        try:
            return self._tree(value, depth)
        except Unstable:
            raise
        except Exception:  # noqa: BLE001 - a stranger's object may raise from anything
            return self._text_only(value)

    def _tree(self, value: Any, depth: int) -> Any:
        self._left -= 1
        kind = type(value)
        if value is None or kind is bool:
            return value
        if isinstance(value, enum.Enum):
            return self.tree(value.value, depth + 1)
        if isinstance(value, str):
            self._left -= len(value) >> 6
            return value if self._left > 0 else self._cut()
        if isinstance(value, bool):
            return bool(value)
        if isinstance(value, int):
            return self._int(int(value))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else _infinite(value)
        if self._left <= 0 or depth >= _DEPTH_MAX:
            return self._cut()
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            # pandas' NaT is a date by its type, and none by its meaning.
            return value.isoformat() if value == value else None  # noqa: PLR0124
        if isinstance(value, datetime.timedelta):
            return value.total_seconds()
        if isinstance(value, (decimal.Decimal, uuid.UUID, pathlib.PurePath)):
            return str(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(bytes(value))
        if id(value) in self._open:
            self.loss.cut = True
            return {"$cycle": kind.__name__}
        self._open.add(id(value))
        try:
            return self._container(value, kind, depth)
        finally:
            self._open.discard(id(value))

    def _container(self, value: Any, kind: type, depth: int) -> Any:
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return self._map(zip(kind._fields, value, strict=False), depth)
        if isinstance(value, Mapping):
            return self._map(value.items(), depth)
        if isinstance(value, (list, tuple, deque)):
            return self._list(value, depth)
        if isinstance(value, (set, frozenset)):
            found = [self.tree(inner, depth + 1) for inner in islice(value, max(0, self._left))]
            return sorted(found, key=lambda inner: json.dumps(inner, sort_keys=True))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._map([(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)], depth)
        root = kind.__module__.partition(".")[0]
        if root == "numpy":
            return self._numpy(value, depth)
        if root == "pandas":
            return self._pandas(value, kind, depth)
        # By the type, never by the instance: a mock or a proxy answers to every name.
        for method in ("model_dump", "to_dict", "dict"):
            if callable(getattr(kind, method, None)) and not isinstance(value, type):
                found = value.model_dump(mode="json") if method == "model_dump" else getattr(value, method)()
                if type(found) in (dict, list, str):
                    return self.tree(found, depth + 1)
        if names := getattr(kind, "__attrs_attrs__", None):
            return self._map([(field.name, getattr(value, field.name)) for field in names], depth)
        return self._text_only(value)

    def _map(self, items: Any, depth: int) -> Any:
        pairs = [(key, self.tree(inner, depth + 1)) for key, inner in islice(items, max(0, self._left))]
        named = {self._name(key): inner for key, inner in pairs}
        if len(named) < len(pairs):
            # 1 and "1" are two keys in Python and would be one in JSON.
            return {"$pairs": [[self.tree(key, depth + 1), inner] for key, inner in pairs]}
        return named

    def _name(self, key: Any) -> str:
        if isinstance(key, enum.Enum):
            key = key.value
        if isinstance(key, str):
            return key
        found = self.tree(key, _DEPTH_MAX - 2)
        return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"), ensure_ascii=False)

    def _list(self, values: Any, depth: int) -> list[Any]:
        found = []
        for inner in values:
            if self._left <= 0:
                found.append(self._cut())
                break
            found.append(self.tree(inner, depth + 1))
        return found

    def _int(self, value: int) -> Any:
        bits = value.bit_length()
        if bits <= _INT_BITS_MAX:
            return value
        self._left -= bits >> 8
        return {"$int": hex(value)} if self._left > 0 else self._cut()

    def _bytes(self, raw: bytes) -> Any:
        self._left -= len(raw) >> 5
        return {"$base64": base64.b64encode(raw).decode("ascii")} if self._left > 0 else self._cut()

    def _numpy(self, value: Any, depth: int) -> Any:
        if getattr(value, "size", 1) > self._left:
            return self._cut()
        found = value.tolist() if hasattr(type(value), "tolist") else value
        return self.tree(found, depth + 1) if type(found) is not type(value) else self._text_only(value)

    def _pandas(self, value: Any, kind: type, depth: int) -> Any:
        if kind.__name__ in ("NAType", "NaTType"):
            return None
        if getattr(value, "size", 0) > self._left:
            return self._cut()
        if kind.__name__ == "DataFrame":
            return self.tree(value.to_dict(orient="split"), depth + 1)
        if kind.__name__ == "Series":
            split = {"name": value.name, "index": list(value.index), "data": value.tolist()}
            return self.tree(split, depth + 1)
        if hasattr(kind, "tolist"):
            return self.tree(value.tolist(), depth + 1)
        return self._text_only(value)

    def _cut(self) -> str:
        if self._strict:
            raise Unstable("it is too large or too deep")
        self.loss.cut = True
        return "…"

    def _text_only(self, value: Any) -> dict[str, str]:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if self._strict:
            raise Unstable(f"{name} has no stable text form")
        self.loss.text_only = self.loss.text_only or name
        return {"$type": name, "$text": cut(text_of(value), 4096)}


def _infinite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _clean(text: str) -> str:
    """Lone surrogates have no UTF-8 form; as JSON escapes they travel."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


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


def size_of(text: str) -> int:
    """Bytes as UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "backslashreplace"))


def payload_fields(payload: Any) -> tuple[dict[str, Any], str | None]:
    """How a payload travels: as JSON, as bytes, or, where it is too large, by its size and hash; and a warning where it
    is not what it was."""
    if payload is None:
        return {}, None
    if isinstance(payload, (bytes, bytearray, memoryview)):
        raw = bytes(payload)
        if len(raw) > PAYLOAD_MAX_BYTES:
            return {"payload_omitted": _omitted(raw)}, "the payload is too large to keep: the run can't be replayed"
        return {"payload_base64": base64.b64encode(raw).decode("ascii")}, None
    text, loss = encode(payload)
    # A retry with half a payload would do the wrong work.
    if loss.cut or size_of(text) > PAYLOAD_MAX_BYTES:
        omitted = {"payload_omitted": _omitted(text.encode())}
        return omitted, "the payload is too large, too deep or holds itself: the run can't be replayed"
    warning = None
    if loss.text_only:
        warning = f"the payload holds a {loss.text_only}, which JSON has no form for: a retry gets its text"
    return {"payload": Raw(text)}, warning


def output_token(output: Any) -> Raw:
    """An output that is too large to send is still told of."""
    text = dumps(output)
    if size_of(text) <= OUTPUT_MAX_BYTES:
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
        return _clean(_encode_text(value))
    if kind is bool:
        return "true" if value else "false"
    return dumps(value)


def id_of(text: str) -> str:
    """A text as an id: what an id can't hold becomes `_`, and its hash keeps it apart from others."""
    clean = _NOT_AN_ID.sub("_", text)
    if clean == text and len(text) <= _ID_MAX and text not in ("", ".", ".."):
        return text
    return f"{clean[: _ID_MAX - 17]}:{digest(text)}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _word(name: str) -> str:
    """A name as a part of a key, different for different names. It has no `:`, and `@` only in front of its hash."""
    return name if _WORD.fullmatch(name) else f"{_NOT_AN_ID.sub('_', name).translate(_NO_MARKS)[:60]}@n{digest(name)}"


_NO_MARKS = {ord(":"): "_", ord("@"): "_"}


def effect_key(run_id: str, name: str, arguments: str | None = None) -> str:
    """The key of an effect that has none of its own. It is known in the whole tenant, so the run is in it. Read from the
    right it falls apart in one way only, so that different effects never share a key."""
    key = f"{run_id}:{_word(name)}" + (f"@a{arguments}" if arguments else "")
    # Room for an ordinal.
    return key if len(key) <= _ID_MAX - 12 else f"{_NOT_AN_ID.sub('_', run_id)[:150]}:@k{digest(key)}"


def nth_key(key: str, ordinal: int) -> str:
    return key if ordinal == 1 else f"{key}@{ordinal}"


_PLAIN_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def step_key(name: str, ordinal: int) -> str:
    """The key that the server itself gives to a step without one, different for different names (docs/ledger.md). The
    name is as it is sent: the server refuses a key that is made of another name."""
    if _WORD.fullmatch(name):
        return f"step:{name}" if ordinal == 1 else f"step:{name}:{ordinal}"
    # Two halves of a character that stand side by side are that character once they are JSON.
    joined = name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    raw = joined.encode("utf-8", "surrogatepass")
    stem = "".join(chr(byte) if byte in _PLAIN_BYTES else f"@{byte:02x}" for byte in raw)
    if len(stem) > 180:
        stem = f"{stem[:100]}@@{hashlib.sha256(raw).hexdigest()}"
    return f"step:{stem}" if ordinal == 1 else f"step:{stem}:{ordinal}"
