"""The settings of a client. Every limit has its unit in its name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from .logs import redact

DEFAULT_URL = "http://127.0.0.1:7070"
LEASE_MS_MIN, LEASE_MS_MAX = 500, 86_400_000


def default_spool_dir() -> Path:
    """Where this user's programs keep what outlives them."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state) / "redrive" / "spool"


@dataclass(frozen=True)
class Settings:
    """Everything is optional; `redrive.configure(...)` and the environment fill it in."""

    url: str = DEFAULT_URL
    key: str = field(default="", repr=False)
    #: Needed only with a key that spans tenants.
    tenant: str | None = None
    #: The longest that one call of the SDK blocks the agent.
    wait_ms: int = 1_000
    #: How long the server waits for a heartbeat; they are sent three times as often.
    lease_ms: int = 60_000
    #: How long plain steps are collected before they are sent.
    flush_ms: int = 500
    #: How long the end of the process may take while reports are still to be sent.
    exit_wait_ms: int = 2_000
    #: An effect while the server is unreachable: store its intent on disk and go on, or refuse it.
    effects_offline: Literal["spool", "refuse"] = "spool"
    spool_dir: Path = field(default_factory=default_spool_dir)
    spool_max_bytes: int = 64 * 1024 * 1024
    environment: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    #: Report open runs on SIGTERM, unless the program handles the signal itself.
    catch_sigterm: bool = True
    #: Turns the SDK off, for tests and laptops.
    off: bool = False

    def __post_init__(self) -> None:
        # Read from a file or an environment they often end in a newline.
        for name in ("url", "key", "tenant", "environment"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, value.strip())
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(redact(f"url must be http://… or https://…, not {self.url!r}"))
        if self.effects_offline not in ("spool", "refuse"):
            raise ValueError("effects_offline must be 'spool' or 'refuse'")
        if not LEASE_MS_MIN <= self.lease_ms <= LEASE_MS_MAX:
            raise ValueError(f"lease_ms must be from {LEASE_MS_MIN} to {LEASE_MS_MAX}")
        for name in ("wait_ms", "flush_ms", "exit_wait_ms", "spool_max_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        object.__setattr__(self, "spool_dir", Path(self.spool_dir))


def from_environment(**given: Any) -> Settings:
    """Arguments take precedence over the environment, and the environment over the defaults."""
    known: dict[str, Any] = {}
    for name in ("url", "key", "tenant", "environment"):
        if text := os.environ.get(f"REDRIVE_{name.upper()}"):
            known[name] = text.strip()
    if text := os.environ.get("REDRIVE_SPOOL_DIR"):
        known["spool_dir"] = Path(text)
    if os.environ.get("REDRIVE_OFF", "").strip().lower() in ("1", "true", "yes"):
        known["off"] = True
    return Settings(**{**known, **given})
