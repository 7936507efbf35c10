"""OpenAI's Agents SDK with its real client."""

from __future__ import annotations

from typing import Any

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool
from frameworks import FIRST, TOOLS, FrameworkCase
from openai import AsyncOpenAI
from provider import call, text
from suite import main

from redrive.frameworks.openai_agents import Hooks, tool_error, watch_client


class OpenAIAgents(FrameworkCase):
    PAGE = "frameworks/openai-agents.md"

    options: dict[str, Any] = {}

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        client = watch_client(AsyncOpenAI(base_url=self.provider.url, max_retries=0))
        model = OpenAIChatCompletionsModel("gpt-4o-mini", client)
        tools = [function_tool(tool, **self.options) for tool in TOOLS]
        agent = Agent("biller", model=model, tools=tools, model_settings=ModelSettings())
        return Runner.run_sync(agent, "Send invoice 7.", hooks=Hooks(effects=[]), max_turns=steps_max).final_output

    def test_a_tools_own_exception_is_reported_where_it_is_kept(self) -> None:
        self.options = {"failure_error_function": tool_error}
        seen = self.comes_to(FIRST, call("breaks", invoice=7), text("I have sent it."))
        self.assertEqual((seen["state"], seen["reason"], seen["tool"]), ("scheduled", "tool_error", "breaks"))
        error = seen["attempts"][0]["error"]
        self.assertEqual((error["type"], error["message"]), ("PrinterOnFire", "the tool breaks failed: the printer is on fire"))


del FrameworkCase

if __name__ == "__main__":
    main(__file__)
