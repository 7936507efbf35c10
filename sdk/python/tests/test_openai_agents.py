"""OpenAI's Agents SDK with its real client."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, ToolOutputText, function_tool
from frameworks import FIRST, TOOLS, FrameworkCase, breaks, is_killed, look_up, run_killed
from live import PATIENCE_S
from openai import AsyncOpenAI
from provider import Insists, call, text
from suite import main

from redrive.frameworks.openai_agents import Hooks, tool_error


class OpenAIAgents(FrameworkCase):
    PAGE = "frameworks/openai-agents.md"

    options: dict[str, Any] = {}

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        client = AsyncOpenAI(base_url=self.provider.url, max_retries=0)
        model = OpenAIChatCompletionsModel("gpt-4o-mini", client)
        tools = [function_tool(tool, **self.options) for tool in TOOLS]
        agent = Agent("biller", model=model, tools=tools, model_settings=ModelSettings(max_tokens=self.tokens_max))
        hooks = Hooks(effects=self.effects)
        if not self.streams:
            return Runner.run_sync(agent, "Send invoice 7.", hooks=hooks, max_turns=steps_max).final_output

        async def streamed() -> Any:
            result = Runner.run_streamed(agent, "Send invoice 7.", hooks=hooks, max_turns=steps_max)
            async for _ in result.stream_events():
                pass
            return result.final_output

        return asyncio.run(streamed())

    def test_a_tools_own_exception_is_reported_where_it_is_kept(self) -> None:
        self.options = {"failure_error_function": tool_error}
        seen = self.comes_to(FIRST, call("breaks", invoice=7), text("I have sent it."))
        self.assertEqual((seen["state"], seen["reason"], seen["tool"]), ("scheduled", "tool_error", "breaks"))
        error = seen["attempts"][0]["error"]
        self.assertEqual((error["type"], error["message"]), ("PrinterOnFire", "the tool breaks failed: the printer is on fire"))

    def run_agent(self, run_id: str, agent: Agent, **options: Any) -> dict[str, Any]:
        try:
            with self.client.run(run_id, queue="agents", payload=7) as run:
                Runner.run_sync(agent, "Send invoice 7.", hooks=Hooks(effects=self.effects), **options)
        except Exception as error:  # noqa: BLE001 - what it raises is looked at
            self.raised = error
        run.outcome(PATIENCE_S)
        return self.server.run(run_id)

    def model(self) -> OpenAIChatCompletionsModel:
        return OpenAIChatCompletionsModel("gpt-4o-mini", AsyncOpenAI(base_url=self.provider.url, max_retries=0))

    def test_a_handler_of_max_turns_makes_no_success_of_it(self) -> None:
        self.provider.says(Insists(FIRST))
        agent = Agent("biller", model=self.model(), tools=[function_tool(look_up)])
        seen = self.run_agent("handled", agent, max_turns=2, error_handlers={"max_turns": lambda _: "My best guess is 700 EUR."})
        self.assertEqual((seen["state"], seen["reason"]), ("scheduled", "max_iterations"))

    def test_a_tool_output_as_final_answer_is_a_success(self) -> None:
        self.provider.says(FIRST)
        agent = Agent("biller", model=self.model(), tools=[function_tool(look_up)], tool_use_behavior="stop_on_first_tool")
        seen = self.run_agent("by-design", agent)
        self.assertEqual((seen["state"], seen["output"]), ("succeeded", "invoice 7: 700 EUR"))

    def test_a_tools_failure_object_is_a_failure(self) -> None:
        def wire(amount: int) -> Any:
            """Wires an amount."""
            return ToolOutputText(text="Error: no such account")

        self.effects = ["wire"]
        self.provider.says(call("wire", amount=7), text("It is wired."))
        seen = self.run_agent("failure", Agent("biller", model=self.model(), tools=[function_tool(wire)]))
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("tool_error", "unsafe", [("wire", "unknown")]))

    def test_a_handoff_leaves_nothing_to_do(self) -> None:
        self.provider.says(call("transfer_to_closer"), FIRST, text("It is 700 EUR."))
        closer = Agent("closer", model=self.model(), tools=[function_tool(look_up)])
        seen = self.run_agent("handoff", Agent("opener", model=self.model(), handoffs=[closer]))
        self.assertEqual((seen["state"], seen["output"], self.statuses(seen)), ("succeeded", "It is 700 EUR.", [("look_up", "committed")]))

    def test_an_effect_past_the_sdks_own_limit_is_unknown(self) -> None:
        self.effects = ["wire"]

        async def wire(amount: int) -> str:
            """Wires an amount."""
            await asyncio.Event().wait()
            return "never"

        self.provider.says(call("wire", amount=7), text("It is wired."))
        tool = function_tool(wire, timeout=0.3) if _takes(function_tool, "timeout") else function_tool(wire, timeout_seconds=0.3)
        seen = self.run_agent("limit", Agent("biller", model=self.model(), tools=[tool]))
        self.assertEqual((seen["state"], seen["dead_because"], self.statuses(seen)), ("dead", "unsafe", [("wire", "unknown")]))

    def test_an_async_effect_past_an_outer_limit_is_unknown(self) -> None:
        begun = asyncio.Event()

        async def wire(amount: int) -> str:
            """Wires an amount."""
            begun.set()
            await asyncio.Event().wait()
            return "never"

        async def work() -> None:
            agent = Agent("biller", model=self.model(), tools=[function_tool(wire)])
            async with self.client.run("outer", queue="agents", payload=7):
                working = asyncio.ensure_future(Runner.run(agent, "Wire it.", hooks=Hooks(effects=["wire"])))
                await begun.wait()
                await asyncio.wait_for(working, 0.1)

        self.provider.says(call("wire", amount=7), text("It is wired."))
        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(work())
        seen = self.settled("outer", "dead")
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("timeout", "unsafe", [("wire", "unknown")]))

    def test_a_tool_that_may_raise_leaves_its_exception_unchanged(self) -> None:
        self.effects = ["breaks"]
        self.provider.says(FIRST, call("breaks", invoice=7), text("I have sent it."))
        tools = [function_tool(tool, failure_error_function=None) for tool in (look_up, breaks)]
        seen = self.run_agent("raises", Agent("biller", model=self.model(), tools=tools))
        self.assertIn("PrinterOnFire", {type(link).__name__ for link in (self.raised, self.raised.__cause__)})
        self.assertEqual((seen["dead_because"], self.statuses(seen)[-1]), ("unsafe", ("breaks", "unknown")))


def _takes(function: Any, name: str) -> bool:
    return name in inspect.signature(function).parameters


del FrameworkCase

if __name__ == "__main__":
    if is_killed():
        run_killed(OpenAIAgents)
    main(__file__)
