"""AutoGen's AgentChat (0.7) through the messages that a task streams, and its model client for what messages leave out.

    with redrive.run(run_id="task-42", queue="invoices", payload=task):
        result = await watch(team.run_stream(task=task), effects=["send_mail"])

No message says why a generation ended; `watch_client` keeps it.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Collection
from typing import Any, TypeVar

from ..attempt import Run
from ..encode import text_of
from .common import Watch, quietly

C = TypeVar("C")
_CAPS = ("Maximum number of turns ", "Maximum number of messages ")


async def watch(stream: AsyncIterator[Any], run: Run | None = None, effects: Collection[str] | None = None) -> Any:
    """Runs the task to its end and gives back its `TaskResult`. `effects` names the tools that change the outside world;
    where it is left out every tool counts as one that does."""
    seen = _Seen(Watch(run, effects))
    result = None
    async for message in stream:
        seen.message(message)
        result = message
    seen.result(result)
    return result


class _Seen:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._rounds = 0
        self._last: Any = None

    @quietly
    def message(self, message: Any) -> None:
        kind = type(message).__name__
        if kind == "ToolCallRequestEvent":
            self._rounds += 1
            for asked in message.content:
                self._watch.tool_begins(asked.name)
        elif kind == "ToolCallExecutionEvent":
            for done in message.content:
                if done.is_error:
                    self._watch.tool_fails(done.name, text_of(done.content))
                else:
                    self._watch.tool_ends(done.name, done.content)
        if hasattr(message, "source"):
            self._last = message
        usage = getattr(message, "models_usage", None)
        run = self._watch.run
        if usage is not None and run is not None:
            run.used(usage.prompt_tokens, usage.completion_tokens)

    @quietly
    def result(self, result: Any) -> None:
        stopped = getattr(result, "stop_reason", None) or ""
        last, run = self._last, self._watch.run
        self._watch.answers(getattr(last, "content", None))
        if type(last).__name__ == "ToolCallSummaryMessage" and run is not None:
            # The answer is a tool's output, by design after one round and for want of more after several.
            run.evidence.finish_reason = None
            if self._rounds > 1:
                self._watch.capped(f"the agent stopped after {self._rounds} rounds of tools without an answer")
        if stopped.startswith(_CAPS):
            self._watch.capped(stopped)


def watch_client(client: C, run: Run | None = None) -> C:
    """Keeps why each generation of a `ChatCompletionClient` ended. Gives back the same client."""
    create = client.create  # type: ignore[attr-defined]
    seen = Watch(run)

    @functools.wraps(create)
    async def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            answer = await create(*args, **kwargs)
        except Exception as error:
            seen.model_fails(error)
            raise
        seen.model_ends(getattr(answer, "finish_reason", None))
        return answer

    client.create = watched  # type: ignore[attr-defined]
    return client
