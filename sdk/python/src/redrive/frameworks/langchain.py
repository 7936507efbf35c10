"""LangChain (agents, chains, LangGraph graphs) through its callbacks.

    with redrive.run(run_id="task-42", queue="invoices", payload=task):
        agent.invoke(task, config={"callbacks": [Callback(effects=["send_mail"])]})
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from ..attempt import Run
from ..encode import text_of
from .common import Watch, quietly

#: `ToolCallLimitMiddleware` tells the model so and lets it answer without the tool.
_LIMITED = "Tool call limit exceeded."
#: What parses the arguments: an error from in there came before the tool.
_PARSES = ("_parse_input", "_to_args_and_kwargs")


class Callback(BaseCallbackHandler):  # type: ignore[misc, unused-ignore]
    """Give it in `config={"callbacks": [...]}`. `effects` names the tools that change the outside world; where it is
    left out every tool counts as one that may. The intent of such a tool is on record before it runs."""

    #: In the order in which things happen, and in the agent's own thread.
    run_inline = True
    #: Only what must keep a tool from running is raised here; see `quietly`.
    raise_error = True

    def __init__(self, run: Run | None = None, effects: Collection[str] | None = None) -> None:
        super().__init__()
        self.watch = Watch(run, effects)
        self._tools: dict[UUID, str] = {}
        self._budgets: dict[UUID, Any] = {}

    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        name = (serialized or {}).get("name") or kwargs.get("name") or "tool"
        self._tools[run_id] = name
        inputs = kwargs.get("inputs")
        self.watch.tool_begins(name, run_id, input_str if inputs is None else inputs)

    @quietly
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        name = self._tools.pop(run_id, getattr(output, "name", None) or "tool")
        content = getattr(output, "content", output)
        # `handle_tool_error` calls this a good end; only the message's status tells.
        if getattr(output, "status", None) == "error":
            ran = not text_of(content).startswith("Tool input validation error")
            self.watch.tool_fails(name, text_of(content), call=run_id, ran=ran)
        else:
            self.watch.tool_ends(name, content, run_id)

    @quietly
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        name = self._tools.pop(run_id, "tool")
        self.watch.tool_fails(name, text_of(error) or type(error).__name__, error, run_id, ran=not _before_it_ran(error))

    @quietly
    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **kwargs: Any) -> None:
        params = kwargs.get("invocation_params") or {}
        budget = params.get("max_tokens") or params.get("max_completion_tokens") or params.get("max_output_tokens")
        if budget is not None:
            self._budgets[run_id] = budget

    def on_llm_start(self, *args: Any, **kwargs: Any) -> None:
        """A handler without it is complained of; there is nothing to do."""

    @quietly
    def on_llm_end(self, response: Any, *, run_id: UUID | None = None, **kwargs: Any) -> None:
        generation = next((g for batch in response.generations for g in batch), None)
        message = getattr(generation, "message", None)
        told = {**(getattr(generation, "generation_info", None) or {}), **(getattr(message, "response_metadata", None) or {})}
        usage = getattr(message, "usage_metadata", None) or {}
        reason = told.get("finish_reason") or told.get("stop_reason") or told.get("done_reason")
        if told.get("status") == "incomplete":
            reason = (told.get("incomplete_details") or {}).get("reason") or "length"
        budget = self._budgets.pop(run_id, None) if run_id is not None else None
        tokens = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
        self.watch.model_ends(reason, *tokens, told.get("model_name") or told.get("model"), budget)

    @quietly
    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.watch.model_fails(error)

    @quietly
    def on_chain_end(self, outputs: Any, *, parent_run_id: UUID | None = None, **kwargs: Any) -> None:
        if parent_run_id is None:
            self._look_at_messages(outputs)
            self.watch.answers(_answer(outputs))

    def _look_at_messages(self, outputs: Any) -> None:
        """What no callback tells: calls that were answered without a tool, and an agent that was stopped in the middle."""
        if not isinstance(outputs, dict) or outputs.get("__interrupt__") or not isinstance(outputs.get("messages"), list):
            return
        messages = outputs["messages"]
        refused = None
        for message in messages:
            if getattr(message, "type", None) == "human":
                refused = None
            elif getattr(message, "type", None) == "tool":
                refused = message if getattr(message, "status", None) == "error" else None
        if refused is not None and self.watch.run is not None and not self.watch.run.evidence.problems_of_tools():
            words = text_of(refused.content)
            if words.startswith(_LIMITED):
                self.watch.capped(words)
            else:
                self.watch.tool_fails(getattr(refused, "name", None) or "tool", words, ran=False)
        last = messages[-1] if messages else None
        if outputs.get("structured_response") is not None or getattr(last, "type", None) == "tool":
            self.watch.ended_with_a_tool()
        elif getattr(last, "tool_calls", None):
            self.watch.capped("the agent was stopped after it had asked for a tool")


def _before_it_ran(error: BaseException) -> bool:
    """Whether it was raised while the arguments were read."""
    trace, seen = error.__traceback__, False
    while trace is not None:
        name = trace.tb_frame.f_code.co_name
        if name in ("_run", "_arun"):
            return False
        seen = seen or name in _PARSES
        trace = trace.tb_next
    return seen


def _answer(outputs: Any) -> Any:
    """The last message's text, the executor's output, or whatever it is."""
    if isinstance(outputs, dict):
        messages = outputs.get("messages")
        if isinstance(messages, list) and messages:
            return _text(messages[-1])
        if "output" in outputs:
            return outputs["output"]
    return _text(outputs)


def _text(message: Any) -> Any:
    text = getattr(message, "text", None)
    text = text() if callable(text) and not isinstance(text, str) else text
    return str(text) if isinstance(text, str) else getattr(message, "content", message)
