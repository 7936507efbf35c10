"""What the hooks of all frameworks have in common: from what was seen to the evidence of the run."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from ..attempt import Run
from ..context import current_run
from ..encode import cut, label, text_of
from ..evidence import Problem, tool_words
from ..judge import failed_text
from ..logs import log

F = TypeVar("F", bound=Callable[..., Any])

_WORDS_MAX = 2_000


def quietly(method: F) -> F:
    """A hook runs inside somebody's agent: what goes wrong in it is ours, and stays here."""

    @functools.wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception:  # noqa: BLE001
            log.exception("redrive: a hook failed")
            return None

    return called  # type: ignore[return-value]


class Watch:
    """The run that a hook is about, and what was seen of it. Without a run given it is the current one."""

    def __init__(self, run: Run | None = None, effects: Collection[str] | None = None) -> None:
        self._run = run
        self._effects = effects
        self._lock = threading.Lock()

    @property
    def run(self) -> Run | None:
        return self._run or current_run()

    def effect(self, tool: str) -> bool | None:
        """Whether a tool changes the outside world. Where nobody has said, it counts as one that does."""
        return None if self._effects is None else tool in self._effects

    @quietly
    def tool_begins(self, name: str) -> None:
        if self.run is not None:
            self.run.evidence.step = self.run.evidence.tool = label(name)

    @quietly
    def tool_ends(self, name: str, output: Any, arguments: Any = None) -> None:
        run = self.run
        if run is None:
            return
        failed = failed_text(output)
        if failed is not None:
            self.tool_fails(name, failed)
            return
        run.evidence.problems.pop("tool", None)
        run.evidence.step = run.evidence.tool = None
        run.note(name, output, effect=self.effect(name))

    @quietly
    def tool_fails(self, name: str, message: str, error: BaseException | None = None) -> None:
        """A tool's last word was an error, and the framework went on with it."""
        run = self.run
        if run is None:
            return
        run.evidence.step = run.evidence.tool = label(name)
        words = tool_words(name) + (message or "no message")
        run.evidence.problems.pop("tool", None)
        run.evidence.problems["tool"] = Problem(cut(words, _WORDS_MAX), None, error, label(name))
        run.note(name, None, effect=self.effect(name), failed=True)

    @quietly
    def model_ends(
        self, finish_reason: Any = None, input_tokens: Any = 0, output_tokens: Any = 0, model: Any = None
    ) -> None:
        run = self.run
        if run is None:
            return
        run.evidence.problems.pop("model", None)
        # Of a conversation only the last turn's end counts.
        run.evidence.finish_reason = label(finish_reason) if finish_reason else None
        run.used(_count(input_tokens), _count(output_tokens), model=text_of(model) if model else None)

    @quietly
    def model_fails(self, error: BaseException | str) -> None:
        """The provider failed; if the framework makes an answer of it, it is still a failure."""
        if self.run is not None:
            thrown = error if isinstance(error, BaseException) else None
            problem = Problem(cut(text_of(error), _WORDS_MAX), None, thrown)
            self.run.evidence.problems.pop("model", None)
            self.run.evidence.problems["model"] = problem

    @quietly
    def capped(self, message: str) -> None:
        """A limit on steps or turns ended it, and what it gave is no answer."""
        if self.run is not None:
            self.run.evidence.problems["cap"] = Problem(cut(message, _WORDS_MAX), "max_iterations")

    @quietly
    def answers(self, output: Any) -> None:
        """What the agent gave, unless the code around it says so itself."""
        run = self.run
        if run is not None and (run.output is None or run.output is self._last):
            run.output = self._last = output

    _last: Any = None


def _count(tokens: Any) -> int:
    return int(tokens) if isinstance(tokens, (int, float)) else 0
