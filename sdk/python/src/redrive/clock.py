"""Time for leases: a clock that goes on while the machine sleeps, as the server's does."""

from __future__ import annotations

import time

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> float:
    """Seconds from an arbitrary point. A laptop that was shut for an hour has lost its leases, and this says so."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
