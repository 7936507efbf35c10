"""What is seen of an attempt while it is under way: what it used, where it is, and what went wrong without being raised."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from .encode import label
from .fields import amount, count


@dataclass
class Problem:
    """A failure that the framework keeps to itself: it ends in an answer all the same."""

    message: str
    reason: str | None = None
    error: BaseException | None = None
    tool: str | None = None


@dataclass
class Evidence:
    model: str | None = None
    output: Any = None
    partial: str | None = None
    finish_reason: str | None = None
    step: str | None = None
    tool: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    #: What the last tool that went well gave: by some designs it is the answer.
    tool_output: Any = None
    #: Each stands until what it is about went well after all.
    problems: dict[str, Problem] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def used(self, input_tokens: Any, output_tokens: Any, cost_usd: Any, model: Any) -> None:
        tokens = count(input_tokens, "input_tokens"), count(output_tokens, "output_tokens")
        cost = amount(cost_usd, "cost_usd")
        with self._lock:
            self.input_tokens += tokens[0]
            self.output_tokens += tokens[1]
            self.cost_usd += cost
            if model:
                self.model = label(model)

    def tool_failed(self, tool: str, problem: Problem, lasting: bool) -> None:
        """`lasting`: only the tool itself can make up for it. Otherwise it stands until any tool has gone well."""
        with self._lock:
            name = f"tool:{tool}" if lasting else "tool"
            before = self.problems.pop(name, None)
            # The exception itself says more than the text that a framework made of it.
            keep = before is not None and before.error is not None and problem.error is None and before.tool == problem.tool
            self.problems[name] = before if keep and before is not None else problem

    def tool_done(self, tool: str) -> None:
        with self._lock:
            self.problems.pop("tool", None)
            self.problems.pop(f"tool:{tool}", None)

    def problems_of_tools(self) -> list[Problem]:
        with self._lock:
            return [problem for name, problem in self.problems.items() if name.startswith("tool")]

    def standing(self) -> Problem | None:
        """What a success must not pass over: the newest."""
        with self._lock:
            return list(self.problems.values())[-1] if self.problems else None

    def usage(self) -> dict[str, Any] | None:
        if not (self.input_tokens or self.output_tokens or self.cost_usd):
            return None
        used: dict[str, Any] = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        return used | ({"cost_usd": self.cost_usd} if self.cost_usd else {})


def tool_words(tool: str | None) -> str:
    """Said in front of a tool's own words: what failed is in them, and where is in these."""
    return f"the tool {tool or '?'} failed: "
