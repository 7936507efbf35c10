"""AutoGen's AgentChat (0.7) through the messages that a task streams, its tools, and its agents' generations.

    async with redrive.run(run_id="task-42", queue="invoices", payload=task):
        result = await watch(team.run_stream(task=task), effects=["send_mail"])

A team's messages arrive after the fact, and none says why a generation ended. So importing this module wraps
`BaseTool.run_json` and `AssistantAgent._call_llm`; both do nothing outside `watch`.
"""

from __future__ import annotations

import contextvars
import functools
import json
from collections.abc import AsyncIterator, Collection
from typing import Any, TypeVar

from autogen_agentchat.agents import AssistantAgent
from autogen_core.tools import BaseTool

from ..aio import off_loop
from ..attempt import Run
from ..encode import text_of
from .common import Watch, quietly

C = TypeVar("C")
_CAPS = ("Maximum number of turns ", "Maximum number of messages ")
_WRAPPED = "_redrive_wrapped"
_seen: contextvars.ContextVar[_Seen | None] = contextvars.ContextVar("redrive_autogen", default=None)


async def watch(stream: AsyncIterator[Any], run: Run | None = None, effects: Collection[str] | None = None) -> Any:
    """Runs the task to its end and gives back its `TaskResult`. `effects` names the tools that change the outside world;
    where it is left out every tool counts as one that may. The intent of such a tool is on record before it runs."""
    seen = _Seen(Watch(run, effects))
    token = _seen.set(seen)
    result = None
    try:
        async for message in stream:
            seen.message(message)
            result = message
    finally:
        _seen.reset(token)
    seen.result(result)
    return result


class _Seen:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.calls: set[str] = set()
        #: What each call was asked with.
        self._arguments: dict[str, str] = {}
        self._rounds = 0
        self._last: Any = None

    @quietly
    def message(self, message: Any) -> None:
        kind = type(message).__name__
        if kind == "ToolCallRequestEvent":
            self._rounds += 1
            self._arguments.update((asked.id, asked.arguments) for asked in message.content)
        elif kind == "ToolCallExecutionEvent":
            for done in message.content:
                if done.call_id in self.calls:
                    continue
                # No tool of ours: it is unknown, its arguments could not be read, or another workbench has done it.
                if done.is_error:
                    self.watch.tool_fails(done.name, text_of(done.content), ran=self._may_have_run(done))
                elif not text_of(done.name).startswith("transfer_to_"):
                    self.watch.tool_ends(done.name, done.content)
        if hasattr(message, "source"):
            self._last = message
        usage = getattr(message, "models_usage", None)
        run = self.watch.run
        if usage is not None and run is not None:
            run.used(usage.prompt_tokens, usage.completion_tokens)

    def _may_have_run(self, done: Any) -> bool:
        if text_of(done.content) in (f"Error: tool '{done.name}' not found in any workbench", f"Tool {done.name} not found."):
            return False
        try:
            return isinstance(json.loads(self._arguments.get(done.call_id) or "{}"), dict)
        except ValueError:
            return False

    @quietly
    def result(self, result: Any) -> None:
        stopped = getattr(result, "stop_reason", None) or ""
        last, run = self._last, self.watch.run
        self.watch.answers(getattr(last, "content", None))
        if type(last).__name__ == "ToolCallSummaryMessage" and run is not None:
            # The answer is a tool's output, by design after one round and for want of more after several.
            self.watch.ended_with_a_tool()
            if self._rounds > 1:
                self.watch.capped(f"the agent stopped after {self._rounds} rounds of tools without an answer")
        if stopped.startswith(_CAPS):
            self.watch.capped(stopped)

    @quietly
    def generated(self, answer: Any, client: Any) -> None:
        run = self.watch.run
        if run is not None and getattr(answer, "finish_reason", None):
            # Tokens are counted by the messages.
            self.watch.model_ends(_reason(answer, client))


def watch_client(client: C, run: Run | None = None) -> C:
    """Keeps why each generation of a `ChatCompletionClient` ended, for agents other than `AssistantAgent`. Gives back the
    same client."""
    create = client.create  # type: ignore[attr-defined]
    seen = Watch(run)

    @functools.wraps(create)
    async def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            answer = await create(*args, **kwargs)
        except Exception as error:
            seen.model_fails(error)
            raise
        seen.model_ends(_reason(answer, client))
        return answer

    client.create = watched  # type: ignore[attr-defined]
    return client


def _reason(answer: Any, client: Any) -> str | None:
    """Why a generation ended. AutoGen says `unknown` where the provider gave no reason: then it was cut off if it used all that
    its client allows it."""
    reason: str | None = getattr(answer, "finish_reason", None)
    if reason != "unknown":
        return reason
    allowed = getattr(client, "_create_args", None) or {}
    tokens_max = allowed.get("max_completion_tokens") or allowed.get("max_tokens")
    return "length" if tokens_max and answer.usage.completion_tokens >= tokens_max else None


def _is_handoff(tool: Any) -> bool:
    return getattr(getattr(tool, "_func", None), "__name__", "") == "_handoff_tool"


def _is_valid(tool: Any, arguments: Any) -> bool:
    try:
        tool._args_type.model_validate(arguments)
        return True
    except Exception:  # noqa: BLE001 - the tool itself will say what is wrong
        return False


def _wrap_run_json(run_json: Any) -> Any:
    @functools.wraps(run_json)
    async def watched(self: Any, args: Any, cancellation_token: Any, call_id: str | None = None) -> Any:
        seen = _seen.get()
        if seen is None or _is_handoff(self):
            return await run_json(self, args, cancellation_token, call_id)
        watch, name = seen.watch, self.name
        if call_id is not None:
            seen.calls.add(call_id)
        ran = _is_valid(self, args)
        if ran:
            step = await off_loop(lambda: watch.tool_begins(name, call_id, dict(args), can_skip=True))
            if step is not None and step.done:
                return step.output
        try:
            output = await run_json(self, args, cancellation_token, call_id)
        except BaseException as error:
            thrown = error
            await off_loop(lambda: watch.tool_fails(name, text_of(thrown) or type(thrown).__name__, thrown, call_id, ran))
            raise
        await off_loop(lambda: watch.tool_ends(name, output, call_id))
        return output

    setattr(watched, _WRAPPED, True)
    return watched


def _wrap_call_llm(call_llm: Any) -> Any:
    @functools.wraps(call_llm)
    async def watched(cls: Any, *args: Any, **kwargs: Any) -> Any:
        client = kwargs.get("model_client", args[0] if args else None)
        async for each in call_llm(cls, *args, **kwargs):
            seen = _seen.get()
            if seen is not None:
                seen.generated(each, client)
            yield each

    setattr(watched, _WRAPPED, True)
    return watched


def _install() -> None:
    if not hasattr(BaseTool.run_json, _WRAPPED):
        BaseTool.run_json = _wrap_run_json(BaseTool.run_json)
    call_llm = getattr(AssistantAgent, "_call_llm", None)
    inner = getattr(call_llm, "__func__", None)
    if inner is not None and not hasattr(inner, _WRAPPED):
        AssistantAgent._call_llm = classmethod(_wrap_call_llm(inner))


_install()
