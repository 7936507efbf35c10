"""The exceptions that the SDK raises into an agent: only where going on could do harm, or where the agent asked for a time
limit. All other errors of the SDK are logged once and swallowed."""

from __future__ import annotations

from typing import Any


class RedriveError(Exception):
    """The base of all exceptions of the SDK."""


class StartRefused(RedriveError):
    """The run may not begin now. `code` is the server's reason: `in_flight`, `not_due`, `held`, `run_conflict`, …"""

    def __init__(self, code: str, detail: str, problem: dict[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.problem = problem or {}


class AlreadyDone(StartRefused):
    """The run is already closed; `output` is its recorded output."""

    def __init__(self, state: str, output: Any) -> None:
        super().__init__("closed", f"the run is {state} already")
        self.state = state
        self.output = output


class DeadLettered(StartRefused):
    """A person has to decide first; `verdict` says why."""

    @property
    def verdict(self) -> dict[str, Any]:
        return dict(self.problem.get("verdict") or {})


class EffectRefused(RedriveError):
    """The effect must not begin now. It has not been started."""

    def __init__(self, key: str, detail: str) -> None:
        super().__init__(f"{key}: {detail}")
        self.key = key


class EffectUnknown(EffectRefused):
    """The effect was started before, and its outcome is unknown: somebody has to check."""


class EffectInProgress(EffectRefused):
    """Another call, or another run, is doing the same effect."""


class LeaseLost(EffectRefused):
    """The attempt has lost its lease: it expired, somebody cancelled the run, or another worker has it."""


class UnstableKey(RedriveError, TypeError):
    """An argument of the effect has no text that is the same in every process, so a replay could not recognise the effect.
    Pass `key=` to `@redrive.effect`. The effect has not been started."""


class TimeLimit(RedriveError):
    """The time limit of the attempt or the step is up. What was under way may go on: it is unknown, not undone."""


class NotDone(Exception):
    """Raise it (or a subclass) inside an effect to assert that nothing has happened, so that it may be started again."""
