"""The logger `redrive`. No secret leaves through it, neither in a message nor in an exception's text or traceback."""

from __future__ import annotations

import logging
import re

log = logging.getLogger("redrive")

_MASK = "[secret]"
_SHAPES = re.compile(
    r"(?P<keep>bearer\s+)[^\s'\"\\,;]+"
    r"|(?P<keep2>\w://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|\b(?:rd|sk|pk|rk|ghp|gho|xoxb|xoxp|xoxa)[-_][A-Za-z0-9_-]{8,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*",
    re.IGNORECASE,
)
_secrets: set[str] = set()


def keep_secret(text: str) -> None:
    """Masks this text from now on, in the forms in which an exception may quote it."""
    bare = text.strip()
    if len(bare) >= 4:
        _secrets.update({bare, repr(bare)[1:-1]})


def redact(text: str) -> str:
    for secret in _secrets:
        text = text.replace(secret, _MASK)
    return _SHAPES.sub(lambda found: (found["keep"] or found["keep2"] or "") + _MASK, text)


class _Redacting(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        try:
            record.msg, record.args = redact(record.getMessage()), None
            if record.exc_info:
                record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
                # Handlers would format the exception again from this.
                record.exc_info = None
        except Exception:  # noqa: BLE001 - a line that can't be checked is not written
            record.msg, record.args, record.exc_info = "redrive: a log line could not be formatted", None, None
        return True


log.addFilter(_Redacting())
