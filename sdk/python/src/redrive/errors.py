"""What the SDK raises into an agent. It is little: only where going on could do harm, or where the agent asked for a
time limit. Everything else that goes wrong on our side is logged once and swallowed."""

from __future__ import annotations

from typing import Any


class RedriveError(Exception):
    """All of ours."""


class StartRefused(RedriveError):
    """The run may not begin now. `code` is the server's word: `in_flight`, `not_due`, `held`, `run_conflict`, …"""

    def __init__(self, code: str, detail: str, problem: dict[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.problem = problem or {}


class AlreadyDone(StartRefused):
    """The run has come to its end before; `output` is what it gave."""

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
    """The effect must not begin now. Nothing of it has happened."""

    def __init__(self, key: str, detail: str) -> None:
        super().__init__(f"{key}: {detail}")
        self.key = key


class EffectUnknown(EffectRefused):
    """An earlier attempt began this effect and nobody knows whether it happened: somebody has to look."""


class EffectInProgress(EffectRefused):
    """Another run is at the same effect."""


class LeaseLost(EffectRefused):
    """The attempt is no longer ours: its lease ran out, a person cancelled it, or another worker has it."""


class UnstableKey(RedriveError, TypeError):
    """An effect's arguments have no text that is the same in every process, so that a replay could not know the effect
    again. Give `@redrive.effect` a `key=`. Nothing of it has happened."""


class TimeLimit(RedriveError):
    """The attempt's, or the step's, time is up. What was under way may still go on: it is unknown, not undone."""


class NotDone(Exception):
    """Raise it (or a subclass) inside an effect to assert that nothing has happened: it may be begun anew."""
