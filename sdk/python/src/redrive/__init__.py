"""Two lines around an agent report its failures, hangs and crashes to Redrive, and make its effects happen once.

    import redrive

    with redrive.run(run_id="task-42", queue="invoices", payload=task) as run:
        run.output = agent(task)

The SDK does not break or block the agent: its own errors are logged (logger `redrive`) and swallowed, and no call waits
longer than `wait_ms`. It raises only where going on could do harm; those exceptions are in `redrive.errors`."""

from __future__ import annotations

from typing import Any

from .attempt import Outcome, Run
from .client import Client, configure, default_client
from .context import current_run
from .decorator import agent
from .errors import (
    AlreadyDone,
    DeadLettered,
    EffectInProgress,
    EffectRefused,
    EffectUnknown,
    LeaseLost,
    NotDone,
    RedriveError,
    StartRefused,
    TimeLimit,
    UnstableKey,
)
from .guard import effect
from .settings import Settings
from .step import Step
from .worker import Worker

__version__ = "0.1.0"


def run(
    run_id: str | None = None,
    *,
    queue: str | None = None,
    payload: Any = None,
    timeout_s: float | None = None,
    on_refused: str = "raise",
    **fields: Any,
) -> Run:
    """One attempt of a run, as a context manager, also for `async with`.

    `run_id` identifies the work and stays the same across retries; `payload` is what a retry needs to do it again. The
    attempt succeeds when the block ends, and fails when the block raises, after `timeout_s`, or when the process ends.
    Optional fields: agent, task_type, idempotency_key, order_key, environment, customer, severity, versions,
    model, provider, resumable, links, headers, destination, lease_ms, idle_ms, deadline_ms.

    Raises `AlreadyDone`, `DeadLettered` or another `StartRefused` if the server does not let it begin;
    `on_refused="go_on"` runs the block anyway, without effects."""
    client = default_client()
    return client.run(run_id, queue=queue, payload=payload, timeout_s=timeout_s, on_refused=on_refused, **fields)


def flush(seconds: float = 10.0) -> bool:
    """Waits until every report is sent; false if the time was not enough."""
    return default_client().flush(seconds)


__all__ = [
    "AlreadyDone",
    "Client",
    "DeadLettered",
    "EffectInProgress",
    "EffectRefused",
    "EffectUnknown",
    "LeaseLost",
    "NotDone",
    "Outcome",
    "RedriveError",
    "Run",
    "Settings",
    "StartRefused",
    "Step",
    "TimeLimit",
    "UnstableKey",
    "Worker",
    "agent",
    "configure",
    "current_run",
    "effect",
    "flush",
    "run",
]
