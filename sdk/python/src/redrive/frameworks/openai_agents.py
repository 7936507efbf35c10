"""OpenAI's Agents SDK through its run hooks.

    with redrive.run(run_id="task-42", queue="invoices", payload=task):
        Runner.run_sync(agent, task, hooks=Hooks(effects=["send_mail"]))

The SDK drops why a generation ended, and hides a tool's exception behind a fixed text. Importing this module keeps the
first, for the `openai` clients of code inside a run; the hooks themselves see the second.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Collection
from typing import Any, TypeVar

from agents import RunHooks, default_tool_error_function

from ..aio import off_loop
from ..attempt import Run
from ..context import current_run
from ..encode import text_of
from ..lazy import followed
from .common import Watch, quietly

C = TypeVar("C")
_SEEN = "_redrive_sees"
_INVALID = "Invalid JSON input for tool"


class Hooks(RunHooks):  # type: ignore[misc, unused-ignore, type-arg]
    """Give it to `Runner.run(..., hooks=...)`. `effects` names the tools that change the outside world; where it is left
    out every tool counts as one that may. The intent of such a tool is on record before it runs."""

    def __init__(self, run: Run | None = None, effects: Collection[str] | None = None) -> None:
        self.watch = Watch(run, effects)
        self._errors: dict[str, BaseException] = {}
        #: Agents whose last generation asked for a tool.
        self._asked: dict[int, bool] = {}

    async def on_llm_start(self, context: Any, agent: Any, *_: Any) -> None:
        run = self.watch.run
        if run is not None:
            run.evidence.finish_reason = None

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self._generated(agent, response)

    @quietly
    def _generated(self, agent: Any, response: Any) -> None:
        usage, run = getattr(response, "usage", None), self.watch.run
        items = getattr(response, "output", None) or []
        self._asked[id(agent)] = any(getattr(item, "type", None) == "function_call" for item in items)
        reason = run.evidence.finish_reason if run is not None else None
        if reason in (None, "stop", "tool_calls") and any(getattr(item, "status", None) == "incomplete" for item in items):
            reason = "length"
        tokens = getattr(usage, "input_tokens", 0), getattr(usage, "output_tokens", 0)
        model = agent.model if isinstance(getattr(agent, "model", None), str) else None
        self.watch.model_ends(reason, *tokens, model, getattr(getattr(agent, "model_settings", None), "max_tokens", None))

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        call, arguments = getattr(context, "tool_call_id", None), getattr(context, "tool_arguments", None)
        self._see_errors(tool)
        if _is_valid(tool, arguments):
            await off_loop(lambda: self.watch.tool_begins(tool.name, call, arguments))

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        call = getattr(context, "tool_call_id", None)
        error = self._errors.pop(call, None) if call is not None else None
        if error is None:
            await off_loop(lambda: self.watch.tool_ends(tool.name, result, call))
            return
        words, ran = text_of(error) or type(error).__name__, not text_of(error).startswith(_INVALID)
        await off_loop(lambda: self.watch.tool_fails(tool.name, words, error, call, ran))

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        # A handler of `max_turns` makes an answer of it. Other designs end with a tool on purpose.
        if self._asked.get(id(agent)):
            if getattr(agent, "tool_use_behavior", None) == "run_llm_again":
                self.watch.capped("the agent was stopped after it had asked for a tool")
            else:
                self.watch.ended_with_a_tool()
        self.watch.answers(output)

    @quietly
    def _see_errors(self, tool: Any) -> None:
        """The SDK turns a tool's exception into text; this callback gets the exception itself."""
        invoker = getattr(tool, "on_invoke_tool", None)
        handled = getattr(invoker, "_on_handled_error", None)
        if not callable(handled):
            return
        seeing = getattr(handled, _SEEN, None)
        if seeing is not None:
            # The tool is used again, by another run's hooks.
            seeing.append(self)
            del seeing[:-16]
            return
        hooks: list[Hooks] = [self]

        def on_handled_error(function_tool: Any, error: Exception, given: str, context: Any) -> None:
            call = getattr(context, "tool_call_id", None)
            for each in hooks:
                if call is not None and each.watch.run is current_run():
                    each._errors[call] = error
            handled(function_tool, error, given, context)

        setattr(on_handled_error, _SEEN, hooks)
        invoker._on_handled_error = on_handled_error  # type: ignore[union-attr]


def _is_valid(tool: Any, arguments: Any) -> bool:
    """A call whose arguments can't be read never reaches the tool."""
    prepare = getattr(getattr(tool, "on_invoke_tool", None), "prepare_arguments", None)
    if not callable(prepare) or not isinstance(arguments, str):
        return True
    try:
        prepare(arguments, tool.name)
        return True
    except Exception:  # noqa: BLE001 - whatever it objects to, it will say to the model
        return False


def tool_error(context: Any, error: Exception) -> str:
    """For `function_tool(failure_error_function=...)`: the model gets the usual text. The hooks see
    the exception by themselves; this is for a tool that is used without them."""
    name = getattr(context, "tool_name", None) or "tool"
    Watch(effects=()).tool_fails(name, text_of(error) or type(error).__name__, error)
    return str(default_tool_error_function(context, error))


def watch_client(client: C, run: Run | None = None) -> C:
    """Keeps why each generation of an `AsyncOpenAI` client ended, also one of a class of its own. Gives back the same
    client."""
    completions = client.chat.completions  # type: ignore[attr-defined]
    if not hasattr(completions.create, _SEEN):
        completions.create = _keeping_reasons(completions.create, run)
    return client


def _keeping_reasons(create: Any, run: Run | None = None) -> Any:
    @functools.wraps(create)
    async def watched(*args: Any, **kwargs: Any) -> Any:
        answer = create(*args, **kwargs)
        answer = await answer if inspect.isawaitable(answer) else answer
        here = run or current_run()
        if here is None:
            return answer
        if hasattr(type(answer), "__aiter__") and hasattr(type(answer), "__anext__"):
            return followed(answer, lambda error, chunks: _keep_reason(here, chunks))
        _keep_reason(here, [answer])
        return answer

    setattr(watched, _SEEN, True)
    return watched


@quietly
def _keep_reason(run: Run, answers: list[Any]) -> None:
    for answer in answers:
        for choice in getattr(answer, "choices", None) or []:
            if getattr(choice, "finish_reason", None):
                run.evidence.finish_reason = choice.finish_reason


def _install() -> None:
    try:
        from openai.resources.chat.completions import AsyncCompletions
    except ImportError:
        return
    if not hasattr(AsyncCompletions.create, _SEEN):
        AsyncCompletions.create = _keeping_reasons(AsyncCompletions.create)


_install()
