"""CrewAI through its tool hooks and its event bus.

    with redrive.run(run_id="task-42", queue="invoices", payload=task), watch(effects=["send_mail"]):
        crew.kickoff(inputs=task)

The tool hooks are called in the agent's own thread, before and after each tool. The bus calls its handlers in threads of its
own and in no order, so of events what counts is each one's own number.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from crewai.events import crewai_event_bus
from crewai.events.types.crew_events import CrewKickoffCompletedEvent
from crewai.events.types.llm_events import LLMCallCompletedEvent, LLMCallFailedEvent, LLMCallStartedEvent
from crewai.events.types.tool_usage_events import ToolFailureDetectedEvent, ToolUsageErrorEvent, ToolUsageFinishedEvent
from crewai.hooks import (
    register_after_tool_call_hook,
    register_before_tool_call_hook,
    unregister_after_tool_call_hook,
    unregister_before_tool_call_hook,
)

from ..attempt import Run
from ..context import current_run
from ..encode import label, text_of
from ..errors import EffectRefused
from ..evidence import Problem, tool_words
from ..judge import failed_text
from ..step import Step
from .common import Watch, quietly

#: What CrewAI asks for when `max_iter` is reached; its answer is then given as the task's.
_FORCED = "MUST give your absolute best final answer"
_FLUSH_S = 5.0
#: Failures in which the tool was never reached.
_NEVER_RAN = ("unknown_tool", "invalid_input", "usage_limit", "repeated_call")
_INVALID = ("arguments validation failed", "Arguments validation failed")
_watching = 0
_lock = threading.Lock()


@contextmanager
def watch(run: Run | None = None, effects: Collection[str] | None = None) -> Iterator[None]:
    """Enter it inside the run. `effects` names the tools that change the outside world; where it is left out every tool
    counts as one that may. The intent of such a tool is on record before it runs. What happens in another run's crew is not
    looked at."""
    global _watching
    mine = run or current_run()
    seen = _Seen(Watch(mine, effects), mine)
    before, after = seen.mine(seen.before), seen.mine(seen.after)
    with _lock:
        _watching += 1
    register_before_tool_call_hook(before)
    register_after_tool_call_hook(after)
    handlers = [(kind, crewai_event_bus.on(kind)(handler)) for kind, handler in seen.handlers()]
    try:
        yield
    finally:
        crewai_event_bus.flush(_FLUSH_S)
        for kind, handler in handlers:
            crewai_event_bus.off(kind, handler)
        unregister_before_tool_call_hook(before)
        unregister_after_tool_call_hook(after)
        with _lock:
            _watching -= 1
        seen.settle()


class _Seen:
    def __init__(self, watch: Watch, run: Run | None) -> None:
        self._watch, self._run = watch, run
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}
        self._skipped: dict[int, str] = {}
        #: What the bus told: the newest failure that no tool hook saw, what tools raised, and which call went well last.
        self._failure: tuple[int, str, str] | None = None
        self._errors: dict[str, BaseException] = {}
        self._went_well = -1

    def mine(self, method: Any) -> Any:
        """The bus and the hooks are the process's: another run's call is none of ours."""

        def handle(*given: Any) -> Any:
            here = current_run()
            if here is self._run or (here is None and _watching == 1):
                return method(*given)
            return None

        return handle

    # Around each tool, in the agent's own thread.

    def before(self, call: Any) -> bool | None:
        """False keeps the tool from running."""
        mark, name = id(call.tool_input), call.tool_name
        if not _is_valid(call):
            return None
        try:
            step: Step | None = self._watch.tool_begins(name, mark, dict(call.tool_input or {}), can_skip=True)
        except EffectRefused as refused:
            self._watch.tool_fails(name, text_of(refused), refused)
            with self._lock:
                self._skipped[mark] = f"Error: {refused}"
            return False
        if step is not None and step.done:
            with self._lock:
                self._skipped[mark] = text_of(step.output)
            return False
        return None

    def after(self, call: Any) -> str | None:
        """A text in place of the tool's."""
        mark, name = id(call.tool_input), call.tool_name
        with self._lock:
            skipped = self._skipped.pop(mark, None)
        if skipped is not None:
            return skipped
        self._judge(name, mark, call.raw_tool_result, text_of(call.tool_result))
        return None

    @quietly
    def _judge(self, name: str, mark: int, raw: Any, text: str) -> None:
        failed = None
        if type(raw).__name__ == "ToolFailure":
            reason = getattr(getattr(raw, "reason", None), "value", getattr(raw, "reason", None))
            self._watch.tool_fails(name, text_of(raw.message), call=mark, ran=reason not in _NEVER_RAN)
            return
        failed = failed_text(raw) or failed_text(text)
        if failed is not None:
            ran = not any(words in failed for words in _INVALID)
            self._watch.tool_fails(name, failed.removeprefix("Error executing tool: "), call=mark, ran=ran)
        else:
            self._watch.tool_ends(name, text if raw is None else raw, mark)

    # From the bus.

    def handlers(self) -> list[tuple[Any, Any]]:
        """A function each: the bus takes no methods."""
        found = [
            (ToolUsageFinishedEvent, self.tool_finished),
            (ToolUsageErrorEvent, self.tool_error),
            (ToolFailureDetectedEvent, self.tool_failure),
            (LLMCallStartedEvent, self.llm_started),
            (LLMCallCompletedEvent, self.llm_completed),
            (LLMCallFailedEvent, self.llm_failed),
            (CrewKickoffCompletedEvent, self.kickoff_completed),
        ]

        def handler(method: Any) -> Any:
            mine = self.mine(method)

            def handle(source: Any, event: Any) -> None:
                mine(event, source)

            return handle

        return [(kind, handler(method)) for kind, method in found]

    def _is_news(self, about: str, event: Any) -> bool:
        number = event.emission_sequence or 0
        if number < self._newest.get(about, -1):
            return False
        self._newest[about] = number
        return True

    @quietly
    def tool_finished(self, event: Any, source: Any) -> None:
        with self._lock:
            if event.failure is None and failed_text(event.output) is None:
                self._went_well = max(self._went_well, event.emission_sequence or 0)
        if event.failure is not None:
            self._fails(event, event.failure.message)

    @quietly
    def tool_error(self, event: Any, source: Any) -> None:
        if isinstance(event.error, BaseException):
            with self._lock:
                self._errors[event.tool_name] = event.error
        self._fails(event, text_of(event.error))

    @quietly
    def tool_failure(self, event: Any, source: Any) -> None:
        self._fails(event, event.failure.message)

    def _fails(self, event: Any, words: str) -> None:
        with self._lock:
            number = event.emission_sequence or 0
            if self._failure is None or number >= self._failure[0]:
                self._failure = (number, event.tool_name, words)

    @quietly
    def settle(self) -> None:
        """What the bus knows more than the hooks: a tool that does not exist, and the exception behind a text."""
        if self._run is None:
            return
        evidence = self._run.evidence
        if evidence.tool_output is not None and text_of(evidence.tool_output) == text_of(self._run.output):
            # `result_as_answer`
            self._watch.ended_with_a_tool()
        for problem in evidence.problems_of_tools():
            if problem.error is None and problem.tool in self._errors:
                problem.error = self._errors[problem.tool]
        if self._failure is not None and self._failure[0] > self._went_well and not evidence.problems_of_tools():
            _, tool, words = self._failure
            problem = Problem(tool_words(tool) + words, None, self._errors.get(tool), label(tool))
            evidence.tool_failed(tool, problem, lasting=False)
            evidence.tool = label(tool)

    @quietly
    def llm_started(self, event: Any, source: Any) -> None:
        with self._lock:
            last = event.messages[-1] if isinstance(event.messages, list) and event.messages else event.messages
            if _FORCED in text_of(last.get("content") if isinstance(last, dict) else last):
                self._watch.capped("max_iter was reached, and the answer was given without the work")

    @quietly
    def llm_completed(self, event: Any, source: Any) -> None:
        usage = event.usage or {}
        tokens = (
            usage.get("prompt_tokens") or usage.get("input_tokens") or 0,
            usage.get("completion_tokens") or usage.get("output_tokens") or 0,
        )
        with self._lock:
            kept = self._run.evidence.finish_reason if self._run is not None else None
            news = self._is_news("model", event)
            tokens_max = getattr(source, "max_completion_tokens", None) or getattr(source, "max_tokens", None)
            self._watch.model_ends(event.finish_reason if news else kept, *tokens, event.model, tokens_max if news else None)

    @quietly
    def llm_failed(self, event: Any, source: Any) -> None:
        with self._lock:
            if self._is_news("model", event):
                self._watch.model_fails(event.error)

    @quietly
    def kickoff_completed(self, event: Any, source: Any) -> None:
        output = event.output
        self._watch.answers(getattr(output, "raw", None) if hasattr(output, "raw") else output)


def _is_valid(call: Any) -> bool:
    """A call whose arguments the tool does not take never reaches it."""
    schema = getattr(call.tool, "args_schema", None)
    if schema is None or not getattr(schema, "model_fields", None):
        return True
    try:
        schema.model_validate(call.tool_input)
        return True
    except Exception:  # noqa: BLE001 - the tool itself will say what is wrong
        return False
