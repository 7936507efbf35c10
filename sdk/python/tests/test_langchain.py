"""LangChain's agents, with its own middlewares that make an answer of a failure."""

from __future__ import annotations

from typing import Any

from frameworks import FIRST, TOOLS, FrameworkCase
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, ModelRetryMiddleware, ToolRetryMiddleware
from langchain_core.tools import StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from provider import RATE_LIMITED, Refused, call, text
from suite import main

from redrive.frameworks.langchain import Callback


def jams(invoice: int) -> str:
    """Prints an invoice."""
    raise ToolException("paper jam")


class LangChain(FrameworkCase):
    PAGE = "frameworks/langchain.md"

    middleware: list[Any] = []
    effects: list[str] | None = []

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        model = ChatOpenAI(model="gpt-4o-mini", base_url=self.provider.url, max_retries=0)
        limit = ModelCallLimitMiddleware(run_limit=steps_max, exit_behavior="end")
        quiet = StructuredTool.from_function(jams, handle_tool_error=True)
        agent = create_agent(model, [*TOOLS, quiet], middleware=[limit, *self.middleware])
        question = {"messages": [{"role": "user", "content": "Send invoice 7."}]}
        return agent.invoke(question, config={"callbacks": [Callback(effects=self.effects)]})

    def test_where_nobody_says_which_tools_are_effects_each_counts_as_one(self) -> None:
        self.effects = None
        seen = self.comes_to(FIRST, Refused(429, RATE_LIMITED))
        self.assertEqual((seen["state"], seen["reason"], seen["dead_because"]), ("dead", "rate_limited", "unsafe"))

    def test_a_tool_that_is_an_effect_and_failed_may_have_happened(self) -> None:
        self.effects = ["breaks"]
        seen = self.comes_to(FIRST, call("breaks", invoice=7), text("I have sent it."))
        self.assertEqual((seen["state"], seen["dead_because"]), ("dead", "unsafe"))
        self.assertEqual({step["name"]: step["status"] for step in seen["steps"]}, {"look_up": "committed", "breaks": "unknown"})

    def test_a_tool_error_that_a_middleware_made_an_answer_of_is_a_failure(self) -> None:
        self.middleware = [ToolRetryMiddleware(max_retries=0, on_failure="continue")]
        seen = self.comes_to(FIRST, call("breaks", invoice=7), text("I have sent it."))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "tool_error"))

    def test_a_tool_that_handles_its_own_error_ends_well_and_is_a_failure(self) -> None:
        seen = self.comes_to(FIRST, call("jams", invoice=7), text("I have printed it."))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "tool_error"))
        self.assertEqual(seen["attempts"][0]["error"]["message"], "the tool jams failed: paper jam")

    def test_a_provider_error_that_a_middleware_made_an_answer_of_is_a_failure(self) -> None:
        self.middleware = [ModelRetryMiddleware(max_retries=0, on_failure="continue")]
        seen = self.comes_to(FIRST, Refused(429, RATE_LIMITED))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "rate_limited"))


del FrameworkCase

if __name__ == "__main__":
    main(__file__)
