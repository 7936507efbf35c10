"""Whether what a tool gave back is an error in the form of a result."""

from __future__ import annotations

import json
import re
from typing import Any

from .encode import cut, dumps, text_of

#: How frameworks and tools word a failure that they hand to the model as text; anchored at the first letter.
_FAILED = re.compile(
    r"Error: .* is not a valid tool, try one of \[|Error: .*\n Please fix your mistakes\."
    r"|Error (executing|invoking|calling|running|in|while|during|occurred)\b[^\n]{0,200}[:.]"
    r"|Tool execution error|Tool input validation error|Tool '.*' failed after \d+ attempts? with |I encountered an error\b"
    r"|You tried to use the tool .*, but it doesn't exist|An error occurred while running the tool\b"
    r"|Tool '.*' timed out after |Error: tool '.*' not found in any workbench|Error: (Function failed|Argument parsing failed)"
    r"|Error: Requested function |API request failed|Traceback \(most recent call last\):"
    r"|(?i:error|exception|fatal): |(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ",
    re.DOTALL,
)
_WORDS_MAX = 2_000
_TEXT_MAX = 1_000_000
_FINE = ("", "none", "null", "no", "false", "ok", "no error", "no errors", "n/a")


def failed_text(output: Any) -> str | None:
    """The error in a tool's output, where it is one: an object that says so, or words that stand for one."""
    try:
        return _failed_text(output)
    except Exception:  # noqa: BLE001 - a value that can't be compared, such as an array, says nothing
        return None


def _failed_text(output: Any) -> str | None:
    if output is None or isinstance(output, (bool, int, float)):
        return None
    if isinstance(output, BaseException):
        return cut(f"{type(output).__name__}: {text_of(output)}", _WORDS_MAX)
    found: Any = output
    if isinstance(output, str):
        text = output.strip()
        if _FAILED.match(text):
            return cut(text, _WORDS_MAX)
        try:
            found = json.loads(text) if text[:1] == "{" and len(text) <= _TEXT_MAX else None
        except (ValueError, RecursionError):
            return None
    if isinstance(found, dict):
        return cut(dumps(found), _WORDS_MAX) if _says_no(found) else None
    return _object_says_no(found)


def _says_no(found: dict[Any, Any]) -> bool:
    if found.get("ok") is False or found.get("success") is False:
        return True
    if found.get("isError") is True or found.get("is_error") is True or found.get("status") == "error":
        return True
    error = found.get("error")
    if not error or isinstance(error, (int, float)) and error is not True:
        return False
    if isinstance(error, str) and error.strip().lower() in _FINE:
        return False
    # A result that has an answer beside its error is for the model to judge.
    answers = ("ok", "success", "result", "data", "output", "value", "answer")
    return not any(found.get(name) for name in answers)


def _object_says_no(found: Any) -> str | None:
    """A framework's own object for a failed call: a message with a status, a result with a flag. Looked for in its fields
    and its type's, since a proxy or a mock has every name."""
    if found is None or isinstance(found, (list, tuple, set, bytes)):
        return None
    try:
        own = vars(found)
    except TypeError:
        return None
    says_no = own.get("is_error") is True or own.get("isError") is True or own.get("status") == "error"
    if not says_no:
        # A piece of text in a framework's wrapping is judged as the text.
        return _failed_text(own["text"]) if own.get("type") == "text" and isinstance(own.get("text"), str) else None
    for name in ("content", "result", "message", "error"):
        if own.get(name):
            return cut(text_of(own[name]), _WORDS_MAX)
    return cut(text_of(found), _WORDS_MAX)
