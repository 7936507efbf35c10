"""The fields of a run in the form that the server takes. What is unambiguous is converted; what is optional and has no such
form is left out with a warning. The run itself, its queue and its payload are never lost over one of them."""

from __future__ import annotations

import decimal
import enum
import math
import uuid
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from .encode import id_of, text_of
from .logs import log
from .settings import LEASE_MS_MAX, LEASE_MS_MIN

_TEXT_MAX = 1_000
_MAP_MAX = 64
_MS_MAX = 2**53
_SEVERITIES = ("low", "normal", "high", "critical")
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class _NoForm(Exception):
    pass


def text(value: Any) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, bool) or not isinstance(value, (str, int, float, decimal.Decimal, uuid.UUID, PurePath)):
        raise _NoForm
    found = text_of(value).strip()
    return found if len(found) <= _TEXT_MAX else found[: _TEXT_MAX - 1] + "…"


def _id(value: Any) -> str:
    found = text(value)
    if not found:
        raise _NoForm
    return id_of(found)


def whole(value: Any) -> int:
    """A count: 12.0, "12" and numpy's own twelve are twelve."""
    if isinstance(value, bool):
        raise _NoForm
    try:
        number = float(value)
        if not math.isfinite(number) or number < 0:
            raise _NoForm
        return int(value) if isinstance(value, int) else int(number)
    except (TypeError, ValueError, OverflowError) as error:
        raise _NoForm from error


def _milliseconds(value: Any) -> int:
    return min(whole(value), _MS_MAX)


def _lease_ms(value: Any) -> int:
    return min(max(whole(value), LEASE_MS_MIN), LEASE_MS_MAX)


def _yes_or_no(value: Any) -> bool:
    word = text_of(value).strip().lower()
    if word in _YES or word in _NO:
        return word in _YES
    raise _NoForm


def _severity(value: Any) -> str:
    found = text(value).lower()
    if found not in _SEVERITIES:
        raise _NoForm
    return found


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _NoForm
    found: dict[str, str] = {}
    for name, inner in list(value.items())[:_MAP_MAX]:
        try:
            found[text(name)] = text(inner)
        except _NoForm:
            _warn(f"{name}", inner)
    return found


_FORMS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("agent", "task_type", "content_type", "environment", "customer", "model", "provider", "destination"), text),
    **dict.fromkeys(("tenant", "queue", "idempotency_key", "order_key"), _id),
    **dict.fromkeys(("headers", "links", "versions"), _texts),
    **dict.fromkeys(("idle_ms", "deadline_ms"), _milliseconds),
    "lease_ms": _lease_ms,
    "resumable": _yes_or_no,
    "severity": _severity,
}

#: What describes a run beside its id and payload, as the wire has it.
FIELDS = frozenset(_FORMS)


def formed(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        try:
            found[name] = _FORMS[name](value)
        except _NoForm:
            _warn(name, value)
        except Exception:  # noqa: BLE001 - a stranger's object
            _warn(name, value)
    return found


def count(value: Any, name: str) -> int:
    """Tokens; none where it is no number."""
    try:
        return whole(value) if value is not None else 0
    except Exception:  # noqa: BLE001 - a stranger's object
        _warn(name, value)
        return 0


def amount(value: Any, name: str) -> float:
    try:
        found = float(value) if value is not None else 0.0
        return found if math.isfinite(found) and found >= 0 else 0.0
    except Exception:  # noqa: BLE001 - a stranger's object
        _warn(name, value)
        return 0.0


def _warn(name: str, value: Any) -> None:
    log.warning("redrive: field %s is ignored: unsupported value of type %s", name, type(value).__name__)
