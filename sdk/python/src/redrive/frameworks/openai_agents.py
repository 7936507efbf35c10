"""OpenAI's Agents SDK through its run hooks, and its client for what the hooks leave out.

    with redrive.run(run_id="task-42", queue="invoices", payload=task):
        Runner.run_sync(agent, task, hooks=Hooks(effects=["send_mail"]))

The SDK drops why a generation ended; `watch_client` keeps it. It also hides a tool's exception behind a fixed text; with
`function_tool(failure_error_function=tool_error)` the exception reaches the report.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any, TypeVar

from agents import RunHooks, default_tool_error_function

from ..attempt import Run
from ..encode import text_of
from .common import Watch

C = TypeVar("C")


class Hooks(RunHooks):  # type: ignore[misc, unused-ignore, type-arg]
    """Give it to `Runner.run(..., hooks=...)`. `effects` names the tools that change the outside world; where it is left
    out every tool counts as one that does."""

    def __init__(self, run: Run | None = None, effects: Collection[str] | None = None) -> None:
        self.watch = Watch(run, effects)

    async def on_llm_start(self, context: Any, agent: Any, *_: Any) -> None:
        run = self.watch.run
        if run is not None:
            run.evidence.finish_reason = None

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        usage, run = getattr(response, "usage", None), self.watch.run
        kept = run.evidence.finish_reason if run is not None else None
        tokens = getattr(usage, "input_tokens", 0), getattr(usage, "output_tokens", 0)
        self.watch.model_ends(kept, *tokens, getattr(agent, "model", None) if isinstance(agent.model, str) else None)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.watch.tool_begins(tool.name)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        run = self.watch.run
        standing = run.evidence.problems.get("tool") if run is not None else None
        if standing is not None and standing.error is not None and getattr(standing.error, _TOLD, None) == tool.name:
            # `tool_error` has the exception itself; the text that stands for it says less.
            return
        self.watch.tool_ends(tool.name, result)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.watch.answers(output)


_TOLD = "_redrive_tool"


def tool_error(context: Any, error: Exception) -> str:
    """For `function_tool(failure_error_function=...)`: the model is told what it would have been told anyway."""
    name = getattr(context, "tool_name", None) or "tool"
    try:
        setattr(error, _TOLD, name)
    except AttributeError:
        pass
    Watch(effects=()).tool_fails(name, text_of(error) or type(error).__name__, error)
    return str(default_tool_error_function(context, error))


def watch_client(client: C, run: Run | None = None) -> C:
    """Keeps why each generation of an `AsyncOpenAI` client ended. Gives back the same client."""
    completions = client.chat.completions  # type: ignore[attr-defined]
    create = completions.create
    watch = Watch(run)

    @functools.wraps(create)
    async def watched(*args: Any, **kwargs: Any) -> Any:
        answer = await create(*args, **kwargs)
        here, choices = watch.run, getattr(answer, "choices", None)
        if here is not None and choices:
            here.evidence.finish_reason = getattr(choices[0], "finish_reason", None)
        return answer

    completions.create = watched
    return client
