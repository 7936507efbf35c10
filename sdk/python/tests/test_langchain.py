"""LangChain's agents, with its own middlewares that make an answer of a failure."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
from frameworks import FIRST, TOOLS, FrameworkCase, is_killed, look_up, run_killed
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ModelCallLimitMiddleware,
    ModelRetryMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from live import PATIENCE_S
from provider import RATE_LIMITED, Refused, call, text
from suite import main

from redrive.frameworks.langchain import Callback


def jams(invoice: int) -> str:
    """Prints an invoice."""
    raise ToolException("paper jam")


class LangChain(FrameworkCase):
    PAGE = "frameworks/langchain.md"

    middleware: list[Any] = []

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        model = ChatOpenAI(model="gpt-4o-mini", base_url=self.provider.url, max_retries=0, streaming=self.streams, max_completion_tokens=self.tokens_max)
        limit = ModelCallLimitMiddleware(run_limit=steps_max, exit_behavior="end")
        quiet = StructuredTool.from_function(jams, handle_tool_error=True)
        agent = create_agent(model, [*TOOLS, quiet], middleware=[limit, *self.middleware])
        question = {"messages": [{"role": "user", "content": "Send invoice 7."}]}
        config = {"callbacks": [Callback(effects=self.effects)]}
        if self.streams:
            return list(agent.stream(question, config=config, stream_mode="values"))[-1]
        return agent.invoke(question, config=config)

    def test_without_named_effects_every_tool_counts_as_one(self) -> None:
        self.effects = None
        seen = self.comes_to(FIRST, Refused(429, RATE_LIMITED))
        self.assertEqual((seen["state"], seen["reason"], seen["dead_because"]), ("dead", "rate_limited", "unsafe"))

    def test_a_failed_effect_tool_is_unknown(self) -> None:
        self.effects = ["breaks"]
        seen = self.comes_to(FIRST, call("breaks", invoice=7), text("I have sent it."))
        self.assertEqual((seen["state"], seen["dead_because"]), ("dead", "unsafe"))
        self.assertEqual({step["name"]: step["status"] for step in seen["steps"]}, {"look_up": "committed", "breaks": "unknown"})

    def test_a_tool_error_hidden_by_a_middleware_is_a_failure(self) -> None:
        self.middleware = [ToolRetryMiddleware(max_retries=0, on_failure="continue")]
        seen = self.comes_to(FIRST, call("breaks", invoice=7), text("I have sent it."))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "tool_error"))

    def test_a_tool_that_handles_its_own_error_is_a_failure(self) -> None:
        seen = self.comes_to(FIRST, call("jams", invoice=7), text("I have printed it."))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "tool_error"))
        self.assertEqual(seen["attempts"][0]["error"]["message"], "the tool jams failed: paper jam")

    def test_a_provider_error_hidden_by_a_middleware_is_a_failure(self) -> None:
        self.middleware = [ModelRetryMiddleware(max_retries=0, on_failure="continue")]
        seen = self.comes_to(FIRST, Refused(429, RATE_LIMITED))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "rate_limited"))

    def invoke(self, run_id: str, *tools: Any, **options: Any) -> dict[str, Any]:
        model = ChatOpenAI(model="gpt-4o-mini", base_url=self.provider.url, max_retries=0)
        agent = create_agent(model, list(tools), **options)
        question = {"messages": [{"role": "user", "content": "Send invoice 7."}]}
        with self.client.run(run_id, queue="agents", payload=7) as run:
            agent.invoke(question, config={"callbacks": [Callback(effects=self.effects)]})
        run.outcome(PATIENCE_S)
        return self.server.run(run_id)

    def test_a_tool_output_as_final_answer_is_a_success(self) -> None:
        self.provider.says(FIRST)
        seen = self.invoke("direct", StructuredTool.from_function(look_up, return_direct=True))
        self.assertEqual((seen["state"], seen["output"]), ("succeeded", "invoice 7: 700 EUR"))

    def test_a_structured_answer_is_one(self) -> None:
        class Amount(pydantic.BaseModel):
            """The amount."""

            amount: int

        self.provider.says(FIRST, call("Amount", amount=700))
        seen = self.invoke("structured", look_up, response_format=ToolStrategy(Amount))
        self.assertEqual((seen["state"], self.statuses(seen)), ("succeeded", [("look_up", "committed")]))

    def test_an_answer_after_a_tool_limit_is_a_cap(self) -> None:
        self.provider.says(FIRST, FIRST, text("It is about 700 EUR."))
        seen = self.invoke("limited", look_up, middleware=[ToolCallLimitMiddleware(run_limit=1)])
        self.assertEqual((seen["state"], seen["reason"]), ("scheduled", "max_iterations"))

    def test_a_model_limit_that_raises_is_a_cap(self) -> None:
        self.provider.says(FIRST, FIRST)
        limit = ModelCallLimitMiddleware(run_limit=1, exit_behavior="error")
        with self.assertRaisesRegex(Exception, "limit"):
            self.invoke("limit-raises", look_up, middleware=[limit])
        self.assertEqual(self.settled("limit-raises", "scheduled", "dead")["reason"], "max_iterations")

    def test_a_tool_limit_that_raises_is_a_cap(self) -> None:
        self.provider.says(FIRST, FIRST)
        limit = ToolCallLimitMiddleware(run_limit=1, exit_behavior="error")
        with self.assertRaisesRegex(Exception, "limit"):
            self.invoke("tool-limit-raises", look_up, middleware=[limit])
        self.assertEqual(self.settled("tool-limit-raises", "scheduled", "dead")["reason"], "max_iterations")

    def test_an_agent_inside_a_tool_leaves_nothing_to_do(self) -> None:
        model = ChatOpenAI(model="gpt-4o-mini", base_url=self.provider.url, max_retries=0)
        closer = create_agent(model, [look_up])

        def close(invoice: int) -> str:
            """Hands an invoice to the closer."""
            answer = closer.invoke({"messages": [{"role": "user", "content": f"Close invoice {invoice}."}]})
            return str(answer["messages"][-1].content)

        self.provider.says(call("close", invoice=7), FIRST, text("It is 700 EUR."), text("It is closed."))
        seen = self.invoke("sub-agent", close)
        self.assertEqual((seen["state"], seen["output"]), ("succeeded", "It is closed."))
        self.assertEqual(self.statuses(seen), [("look_up", "committed"), ("close", "committed")])

    def test_an_async_effect_past_an_outer_limit_is_unknown(self) -> None:
        self.effects, begun = ["wire"], asyncio.Event()

        async def wire(amount: int) -> str:
            """Wires an amount."""
            begun.set()
            await asyncio.Event().wait()
            return "never"

        async def work() -> None:
            model = ChatOpenAI(model="gpt-4o-mini", base_url=self.provider.url, max_retries=0)
            agent = create_agent(model, [wire])
            question = {"messages": [{"role": "user", "content": "Wire it."}]}
            async with self.client.run("outer", queue="agents", payload=7):
                working = asyncio.ensure_future(agent.ainvoke(question, config={"callbacks": [Callback(effects=self.effects)]}))
                await begun.wait()
                await asyncio.wait_for(working, 0.1)

        self.provider.says(call("wire", amount=7), text("It is wired."))
        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(work())
        seen = self.settled("outer", "dead")
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("timeout", "unsafe", [("wire", "unknown")]))

    def test_an_effect_in_doubt_is_not_retried_by_a_middleware(self) -> None:
        self.effects, calls = ["wire"], []

        def wire(amount: int) -> str:
            """Wires an amount."""
            calls.append(amount)
            raise ConnectionError("no answer")

        self.provider.says(call("wire", amount=7), text("It is wired."))
        retries = ToolRetryMiddleware(max_retries=3, initial_delay=0, on_failure="continue")
        seen = self.invoke("retried", StructuredTool.from_function(wire), middleware=[retries])
        self.assertEqual((calls, seen["dead_because"], self.statuses(seen)), ([7], "unsafe", [("wire", "unknown")]))


del FrameworkCase

if __name__ == "__main__":
    if is_killed():
        run_killed(LangChain)
    main(__file__)
