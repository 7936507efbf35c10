"""CrewAI through its event bus.

    with redrive.run(run_id="task-42", queue="invoices", payload=task), watch(effects=["send_mail"]):
        crew.kickoff(inputs=task)

The bus calls its handlers in threads of its own and in no order, so what counts is each event's own number.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from crewai.events import crewai_event_bus
from crewai.events.types.crew_events import CrewKickoffCompletedEvent
from crewai.events.types.llm_events import (
    LLMCallCompletedEvent,
    LLMCallFailedEvent,
    LLMCallStartedEvent,
)
from crewai.events.types.tool_usage_events import (
    ToolFailureDetectedEvent,
    ToolUsageErrorEvent,
    ToolUsageFinishedEvent,
    ToolUsageStartedEvent,
)

from ..attempt import Run
from ..context import current_run
from ..encode import text_of
from .common import Watch, quietly

#: What CrewAI asks for when `max_iter` is reached; its answer is then given as the task's.
_FORCED = "MUST give your absolute best final answer"
_FLUSH_S = 5.0


@contextmanager
def watch(run: Run | None = None, effects: Collection[str] | None = None) -> Iterator[None]:
    """Enter it inside the run. `effects` names the tools that change the outside world; where it is left out every tool
    counts as one that does. What happens in another run's crew is not looked at."""
    mine = run or current_run()
    seen = _Seen(Watch(mine, effects), mine)
    handlers = [(kind, crewai_event_bus.on(kind)(handler)) for kind, handler in seen.handlers()]
    try:
        yield
    finally:
        crewai_event_bus.flush(_FLUSH_S)
        for kind, handler in handlers:
            crewai_event_bus.off(kind, handler)


class _Seen:
    def __init__(self, watch: Watch, run: Run | None) -> None:
        self._watch, self._run = watch, run
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}
        self._forced = False

    def handlers(self) -> list[tuple[Any, Any]]:
        """A function each: the bus takes no methods."""
        found = [
            (ToolUsageStartedEvent, self.tool_started),
            (ToolUsageFinishedEvent, self.tool_finished),
            (ToolUsageErrorEvent, self.tool_error),
            (ToolFailureDetectedEvent, self.tool_failure),
            (LLMCallStartedEvent, self.llm_started),
            (LLMCallCompletedEvent, self.llm_completed),
            (LLMCallFailedEvent, self.llm_failed),
            (CrewKickoffCompletedEvent, self.kickoff_completed),
        ]

        def handler(method: Any) -> Any:
            def handle(source: Any, event: Any) -> None:
                # The bus carries the context of whoever emits: another run's event is none of ours.
                if current_run() in (None, self._run):
                    method(event)

            return handle

        return [(kind, handler(method)) for kind, method in found]

    def _is_news(self, about: str, event: Any) -> bool:
        number = event.emission_sequence or 0
        if number < self._newest.get(about, -1):
            return False
        self._newest[about] = number
        return True

    @quietly
    def tool_started(self, event: Any) -> None:
        with self._lock:
            if self._is_news("tool", event):
                self._watch.tool_begins(event.tool_name)

    @quietly
    def tool_finished(self, event: Any) -> None:
        with self._lock:
            standing = self._problem()
            news = self._is_news("tool", event)
            if event.failure is not None:
                self._failed(event.tool_name, event.failure.message, news)
            else:
                self._watch.tool_ends(event.tool_name, event.output)
                if not news and standing is not None and self._run is not None:
                    # It ended well before what has failed since.
                    self._run.evidence.problems["tool"] = standing

    @quietly
    def tool_error(self, event: Any) -> None:
        with self._lock:
            error = event.error
            self._failed(
                event.tool_name, text_of(error), self._is_news("tool", event), error if isinstance(error, BaseException) else None
            )

    @quietly
    def tool_failure(self, event: Any) -> None:
        with self._lock:
            if self._problem() is None and self._is_news("tool", event):
                self._watch.tool_fails(event.tool_name, event.failure.message)

    def _problem(self) -> Any:
        return self._run.evidence.problems.get("tool") if self._run is not None else None

    def _failed(self, tool: str, message: str, news: bool, error: BaseException | None = None) -> None:
        if news:
            self._watch.tool_fails(tool, message, error)

    @quietly
    def llm_started(self, event: Any) -> None:
        with self._lock:
            last = event.messages[-1] if isinstance(event.messages, list) and event.messages else event.messages
            if _FORCED in text_of(last.get("content") if isinstance(last, dict) else last):
                self._watch.capped("max_iter was reached, and the answer was given without the work")

    @quietly
    def llm_completed(self, event: Any) -> None:
        usage = event.usage or {}
        tokens = (
            usage.get("prompt_tokens") or usage.get("input_tokens") or 0,
            usage.get("completion_tokens") or usage.get("output_tokens") or 0,
        )
        with self._lock:
            kept = self._run.evidence.finish_reason if self._run is not None else None
            news = self._is_news("model", event)
            self._watch.model_ends(event.finish_reason if news else kept, *tokens, event.model)

    @quietly
    def llm_failed(self, event: Any) -> None:
        with self._lock:
            if self._is_news("model", event):
                self._watch.model_fails(event.error)

    @quietly
    def kickoff_completed(self, event: Any) -> None:
        output = event.output
        self._watch.answers(getattr(output, "raw", None) if hasattr(output, "raw") else output)
