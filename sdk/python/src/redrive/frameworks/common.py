"""What the hooks of all frameworks have in common: from what was seen to the evidence of the run, and the intents of tools
that change the outside world."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from ..attempt import Run
from ..context import current_run
from ..encode import Unstable, cut, digest, dumps, label, stable, text_of
from ..errors import EffectRefused, LeaseLost, NotDone
from ..evidence import Problem, tool_words
from ..guard import guarded_names
from ..judge import failed_text
from ..logs import log
from ..step import Step

F = TypeVar("F", bound=Callable[..., Any])
_WORDS_MAX = 2_000
#: Open calls of a hook that nobody closes must not grow without end.
_OPEN_MAX = 10_000


def quietly(method: F) -> F:
    """A hook runs inside somebody's agent: what goes wrong in it is ours, and stays here. What we raise on purpose passes:
    going on could do harm."""

    @functools.wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except EffectRefused:
            raise
        except Exception:  # noqa: BLE001
            log.exception("redrive: a hook failed")
            return None

    return called  # type: ignore[return-value]


class Watch:
    """The run that a hook is about, and what was seen of it. Without a run given it is the current one. `effects` names the
    tools that change the outside world; where it is left out every tool counts as one that may."""

    def __init__(self, run: Run | None = None, effects: Collection[str] | None = None) -> None:
        self._run = run
        self._effects = None if effects is None else frozenset(effects)
        self._open: dict[Any, Step] = {}
        self._lock = threading.RLock()

    @property
    def run(self) -> Run | None:
        return self._run or current_run()

    def effect(self, tool: str) -> bool | None:
        """Whether a tool changes the outside world; none where nobody has said."""
        return None if self._effects is None else tool in self._effects

    @quietly
    def tool_begins(self, name: str, call: Any = None, arguments: Any = None, can_skip: bool = False) -> Step | None:
        """Before the tool runs. Where it counts as an effect its intent is on record when this returns: whatever becomes of
        the process, the run is not tried again as if nothing had happened. Raises `EffectRefused` where a tool that was
        named must not begin; with `can_skip` the step of one that was done before is given instead."""
        run = self.run
        if run is None:
            return None
        run.evidence.step = run.evidence.tool = label(name)
        effect = self.effect(name)
        # What `redrive.effect` guards has an intent of its own.
        if effect is False or name in guarded_names or run._client.settings.off:
            return None
        step = None
        try:
            step = run._tool_step(name, effect, _mark(arguments))
            step._begin(interruptible=False)
        except LeaseLost:
            raise
        except EffectRefused as refused:
            if effect:
                raise
            # Nobody has said that it is an effect: it is not kept from its work.
            log.info("redrive: the intent of %s was not recorded: %s", name, refused)
            return None
        if step.done:
            if effect and not can_skip:
                raise EffectRefused(step.key, "an earlier attempt has done it, and a hook can't skip it; use @redrive.effect")
            return step if effect else None
        with self._lock:
            if len(self._open) < _OPEN_MAX:
                self._open[(name, call)] = step
        return step

    def _close(self, name: str, call: Any) -> Step | None:
        with self._lock:
            return self._open.pop((name, call), None)

    @quietly
    def tool_ends(self, name: str, output: Any, call: Any = None) -> None:
        run = self.run
        if run is None:
            return
        failed = failed_text(output)
        if failed is not None:
            self.tool_fails(name, failed, call=call)
            return
        run.evidence.tool_done(name)
        run.evidence.step = run.evidence.tool = None
        run.evidence.tool_output = output
        step = self._close(name, call)
        if step is not None:
            step.output = output
            step._settle(None)
        else:
            run.note(name, output, effect=False if self._effects is None and name in guarded_names else self.effect(name))

    @quietly
    def tool_fails(
        self, name: str, message: str, error: BaseException | None = None, call: Any = None, ran: bool = True
    ) -> None:
        """A tool's last word was an error, and the framework went on with it. Without `ran` it never began."""
        run = self.run
        if run is None:
            return
        run.evidence.step = run.evidence.tool = label(name)
        words = cut(tool_words(name) + (message or "no message"), _WORDS_MAX)
        lasting = ran and (error is not None or self.effect(name) is True)
        run.evidence.tool_failed(name, Problem(words, None, error, label(name)), lasting)
        step = self._close(name, call)
        if step is not None:
            not_done = not ran or isinstance(error, NotDone)
            step.tool = False
            step._settle(error or _Failed(message), not_done=not_done)
        elif ran or self.effect(name) is False:
            run.note(name, None, effect=self.effect(name), failed=True)

    @quietly
    def model_ends(
        self,
        finish_reason: Any = None,
        input_tokens: Any = 0,
        output_tokens: Any = 0,
        model: Any = None,
        tokens_max: Any = None,
    ) -> None:
        """`tokens_max` is what the generation was allowed: where no reason was given and all of it was used, it was cut off."""
        run = self.run
        if run is None:
            return
        if not finish_reason and _tokens(tokens_max) and _tokens(output_tokens) >= tokens_max:
            finish_reason = "length"
        run.evidence.problems.pop("model", None)
        # Of a conversation only the last turn's end counts.
        run.evidence.finish_reason = label(finish_reason) if finish_reason else None
        run.used(_tokens(input_tokens), _tokens(output_tokens), model=text_of(model) if model else None)

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
    def ended_with_a_tool(self) -> None:
        """By its design the tool's output is the answer: that its last generation asked for a tool says nothing."""
        if self.run is not None:
            self.run.evidence.finish_reason = None

    @quietly
    def answers(self, output: Any) -> None:
        """What the agent gave, unless the code around it says so itself."""
        run = self.run
        if run is not None and (run.output is None or run.output is self._last):
            run.output = self._last = output

    _last: Any = None


class _Failed(Exception):
    """A failure of which only the words are known."""


def _mark(arguments: Any) -> str | None:
    """A tool call's arguments as a part of its key: the same call in the next attempt is the same effect."""
    if arguments is None:
        return None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            pass
    try:
        return digest(stable(arguments))
    except Unstable:
        return digest(dumps(arguments))


def _tokens(tokens: Any) -> Any:
    return tokens if isinstance(tokens, (int, float)) and not isinstance(tokens, bool) else 0
