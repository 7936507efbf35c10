"""Two lines around an agent: its failures, hangs and silences reach Redrive, and its effects happen once.

    import redrive

    with redrive.run(run_id="task-42", queue="invoices", payload=task) as run:
        run.output = agent(task)

Nothing here breaks or blocks the agent: what goes wrong on our side is logged by the logger `redrive` and swallowed,
and no call waits longer than `wait_ms`. The exceptions that are raised are in `redrive.errors`, and each means that
going on could do harm."""

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

    `run_id` names the work and stays the same over retries; `payload` is what a retry needs to do it again. The attempt
    ends as a success when the block does, and as a failure when an exception leaves it, after `timeout_s`, or when the
    process ends. More fields: agent, task_type, idempotency_key, order_key, environment, customer, severity, versions,
    model, provider, resumable, links, headers, destination, lease_ms, idle_ms, deadline_ms.

    Raises `AlreadyDone`, `DeadLettered` or another `StartRefused` where the server says that it must not begin;
    `on_refused="go_on"` does it all the same, without effects."""
    client = default_client()
    return client.run(run_id, queue=queue, payload=payload, timeout_s=timeout_s, on_refused=on_refused, **fields)


def flush(seconds: float = 10.0) -> bool:
    """Waits until everything has been said; false when the time was not enough."""
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
