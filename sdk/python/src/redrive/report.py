"""From an exception to the report of it: the whole chain, what the provider answered, and nothing that is too large."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from .encode import cut, label, text_of

_CHAIN_MAX = 20
_MESSAGE_MAX_CHARS = 8 * 1024
_HEADER_MAX = 64
#: The innermost frames of a traceback that are told: a recursion without end has a thousand, of each of its runs.
_FRAMES_MAX = 100


def error_of(error: BaseException, **said: Any) -> dict[str, Any]:
    """What was thrown. `said` (reason, category, terminal) is the caller's own word and outranks the rules."""
    links = _causes(error)
    status = next((s for s in map(http_status, links) if s is not None), None)
    headers = next((h for h in map(_headers, links) if h), {})
    report = {
        "type": label(_name(_telling(links))),
        "message": cut(_message(links), _MESSAGE_MAX_CHARS),
        "detail": cut(_traceback(_worded(links))),
        "http_status": status,
        "headers": headers,
        **said,
    }
    return {name: value for name, value in report.items() if value not in (None, {}, "")} | {"message": report["message"]}


def response_of(error: BaseException) -> dict[str, Any] | None:
    """What the service answered, where the exception carries it."""
    for link in _causes(error):
        response = getattr(link, "response", None)
        status = _number(getattr(response, "status_code", getattr(response, "status", None)))
        if status is None:
            continue
        body = getattr(link, "body", None)
        if body is None:
            try:
                body = response.text  # type: ignore[union-attr]
            except Exception:  # noqa: BLE001 - a stream that was not read, or is closed
                body = None
        found = {"status": status, "headers": _headers(link), "body": cut(body) if body else None}
        return {name: value for name, value in found.items() if value}
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """From the exception to what it came from: what it names, what it was raised in the middle of, what it groups."""
    seen: set[int] = set()
    pending: list[BaseException] = [error]
    while pending and len(seen) < _CHAIN_MAX:
        link = pending.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        if link.__cause__ is not None:
            pending.append(link.__cause__)
        elif link.__context__ is not None and not link.__suppress_context__:
            pending.append(link.__context__)
        grouped = getattr(link, "exceptions", None)
        if isinstance(grouped, (list, tuple)):
            pending.extend(inner for inner in grouped if isinstance(inner, BaseException))


def http_status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    for holder, name in ((error, "status_code"), (error, "http_status"), (error, "status"), (response, "status_code"), (response, "status")):
        found = _number(getattr(holder, name, None))
        if found is not None and 100 <= found <= 599:
            return found
    return None


def _causes(error: BaseException) -> list[BaseException]:
    """The exception and what it says it came from. What it was merely raised in the middle of counts only where it has no
    words of its own, and a cancellation is no cause: it is what a time limit does."""
    links = [error]
    for link in chain(error):
        if link is error or isinstance(link, asyncio.CancelledError):
            continue
        if _is_named(link, links) or not text_of(error).strip():
            links.append(link)
    return links


def _is_named(link: BaseException, links: list[BaseException]) -> bool:
    return any(link is known.__cause__ or link in (getattr(known, "exceptions", None) or ()) for known in links)


def _traceback(error: BaseException) -> str:
    told = traceback.TracebackException.from_exception(error, limit=-_FRAMES_MAX)
    _without_noise(told, 0, keep_context=not text_of(error).strip())
    return "".join(told.format())


def _without_noise(told: traceback.TracebackException, depth: int, keep_context: bool = False) -> None:
    told.__suppress_context__ = told.__suppress_context__ or not keep_context
    if told.__cause__ is not None and told.__cause__.exc_type is asyncio.CancelledError:
        told.__cause__ = None
    inner = [told.__cause__, *(getattr(told, "exceptions", None) or ())]
    for each in inner:
        if each is not None and depth < _CHAIN_MAX:
            _without_noise(each, depth + 1)


def _is_validation(error: BaseException) -> bool:
    """The wrong value itself says more than the wording of the layer that passed it on."""
    root = type(error).__module__.partition(".")[0]
    return isinstance(error, json.JSONDecodeError) or (
        type(error).__name__ == "ValidationError" and root in ("pydantic", "pydantic_core", "jsonschema", "msgspec", "marshmallow")
    )


def _telling(links: list[BaseException]) -> BaseException:
    """Frameworks wrap what the provider threw: the first that has a status tells most, then what was invalid, otherwise the
    first cause."""
    by_status = next((link for link in links if http_status(link) is not None), None)
    if by_status is not None:
        return by_status
    invalid = next((link for link in links if _is_validation(link)), None)
    return invalid or (links[-1] if links[0].__cause__ is not None else links[0])


def _worded(links: list[BaseException]) -> BaseException:
    """The exception whose words are told: the outermost, unless something invalid is behind it."""
    told = _telling(links)
    return told if _is_validation(told) else links[0]


def _message(links: list[BaseException]) -> str:
    """The outermost words first, as a person would tell it."""
    told = _worded(links)
    if told is not links[0]:
        return text_of(told).strip() or _name(told)
    said: list[str] = []
    for link in links:
        text = text_of(link).strip() or _name(link)
        if not any(text in before for before in said):
            said.append(text)
    return "\ncaused by: ".join(said)


def _name(error: BaseException) -> str:
    return type(error).__name__


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _headers(error: BaseException) -> dict[str, str]:
    found = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    if not isinstance(found, Mapping) and not hasattr(found, "items"):
        return {}
    try:
        pairs = list(found.items())[:_HEADER_MAX]  # type: ignore[union-attr]
    except Exception:  # noqa: BLE001 - a stranger's object
        return {}
    return {text_of(name).lower(): cut(value, 1024) for name, value in pairs}
