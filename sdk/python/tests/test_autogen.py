"""AutoGen's AgentChat with its real OpenAI client."""

from __future__ import annotations

import asyncio
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient
from frameworks import FIRST, TOOLS, FrameworkCase
from provider import call, text
from suite import main

from redrive.frameworks.autogen import watch, watch_client

INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)


class AutoGen(FrameworkCase):
    PAGE = "frameworks/autogen.md"

    def assistant(self, rounds: int) -> AssistantAgent:
        client = OpenAIChatCompletionClient(
            model="gpt-4o-mini", base_url=self.provider.url, api_key="sk-nobody", max_retries=0, model_info=INFO
        )
        tools: Any = TOOLS
        return AssistantAgent("biller", watch_client(client), tools=tools, max_tool_iterations=rounds)

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        async def work() -> Any:
            assistant = self.assistant(steps_max)
            try:
                return await watch(assistant.run_stream(task="Send invoice 7."), effects=[])
            finally:
                await assistant._model_client.close()

        return asyncio.run(work())

    def test_the_turn_cap_of_a_team_is_a_failure(self) -> None:
        async def work() -> None:
            team = RoundRobinGroupChat([self.assistant(3)], max_turns=2)
            async with self.client.run("team"):
                await watch(team.run_stream(task="Send invoice 7."), effects=[])

        self.provider.says(FIRST, text("I am at it."))
        asyncio.run(work())
        self.assertEqual(self.settled("team", "scheduled")["reason"], "max_iterations")

    def test_one_round_of_tools_by_design_is_an_answer(self) -> None:
        async def work() -> None:
            async with self.client.run("one-round"):
                await watch(self.assistant(1).run_stream(task="Look up invoice 7."), effects=[])

        self.provider.says(FIRST)
        asyncio.run(work())
        self.assertEqual(self.settled("one-round", "succeeded")["output"], "invoice 7: 700 EUR")

    def test_an_error_as_the_whole_answer_is_a_failure(self) -> None:
        async def work() -> None:
            async with self.client.run("raw-error"):
                await watch(self.assistant(1).run_stream(task="Send invoice 7."), effects=[])

        self.provider.says(call("breaks", invoice=7))
        asyncio.run(work())
        self.assertEqual(self.settled("raw-error", "scheduled")["reason"], "tool_error")


del FrameworkCase

if __name__ == "__main__":
    main(__file__)
