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
from .common import Watch


class Callback(BaseCallbackHandler):  # type: ignore[misc, unused-ignore]
    """Give it in `config={"callbacks": [...]}`. `effects` names the tools that change the outside world; where it is
    left out every tool counts as one that does."""

    #: In the order in which things happen, and in the agent's own thread.
    run_inline = True
    raise_error = False

    def __init__(self, run: Run | None = None, effects: Collection[str] | None = None) -> None:
        super().__init__()
        self.watch = Watch(run, effects)
        self._tools: dict[UUID, tuple[str, Any]] = {}

    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        name = (serialized or {}).get("name") or kwargs.get("name") or "tool"
        self._tools[run_id] = (name, kwargs.get("inputs") or input_str)
        self.watch.tool_begins(name)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        name, given = self._tools.pop(run_id, (getattr(output, "name", None) or "tool", None))
        content = getattr(output, "content", output)
        # `handle_tool_error` calls this a good end; only the message's status tells.
        if getattr(output, "status", None) == "error":
            self.watch.tool_fails(name, text_of(content))
        else:
            self.watch.tool_ends(name, content, given)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        name, _ = self._tools.pop(run_id, ("tool", None))
        self.watch.tool_fails(name, text_of(error) or type(error).__name__, error)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        generation = next((g for batch in response.generations for g in batch), None)
        message = getattr(generation, "message", None)
        told = {**(getattr(generation, "generation_info", None) or {}), **(getattr(message, "response_metadata", None) or {})}
        usage = getattr(message, "usage_metadata", None) or {}
        self.watch.model_ends(
            told.get("finish_reason") or told.get("stop_reason") or told.get("done_reason"),
            usage.get("input_tokens", 0),
            usage.get("output_tokens", 0),
            told.get("model_name") or told.get("model"),
        )

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.watch.model_fails(error)

    def on_chain_end(self, outputs: Any, *, parent_run_id: UUID | None = None, **kwargs: Any) -> None:
        if parent_run_id is None:
            self.watch.answers(_answer(outputs))


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
