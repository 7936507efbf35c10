"""AutoGen's AgentChat with its real OpenAI client."""

from __future__ import annotations

import asyncio
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_core.models import ModelInfo
from autogen_core.tools import FunctionTool, StaticWorkbench, TextResultContent, ToolResult
from autogen_ext.models.openai import OpenAIChatCompletionClient
from frameworks import FIRST, TOOLS, FrameworkCase, is_killed, look_up, run_killed
from provider import call, text
from suite import main

from redrive.frameworks.autogen import watch

INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)


class AutoGen(FrameworkCase):
    PAGE = "frameworks/autogen.md"

    def assistant(self, rounds: int) -> AssistantAgent:
        more = {} if self.tokens_max is None else {"max_tokens": self.tokens_max}
        client = OpenAIChatCompletionClient(
            model="gpt-4o-mini", base_url=self.provider.url, api_key="sk-nobody", max_retries=0, model_info=INFO, **more
        )
        tools: Any = TOOLS
        return AssistantAgent("biller", client, tools=tools, max_tool_iterations=rounds, model_client_stream=self.streams)

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        async def work() -> Any:
            assistant = self.assistant(steps_max)
            try:
                return await watch(assistant.run_stream(task="Send invoice 7."), effects=self.effects)
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

    def test_an_async_effect_past_an_outer_limit_is_unknown(self) -> None:
        begun = asyncio.Event()

        async def wire(amount: int) -> str:
            """Wires an amount."""
            begun.set()
            await asyncio.Event().wait()
            return "never"

        async def work() -> None:
            agent = self.assistant(3)
            agent._workbench = AssistantAgent("wirer", agent._model_client, tools=[wire])._workbench
            async with self.client.run("outer"):
                working = asyncio.ensure_future(watch(agent.run_stream(task="Wire it."), effects=["wire"]))
                await begun.wait()
                await asyncio.wait_for(working, 0.1)

        self.provider.says(call("wire", amount=7), text("It is wired."))
        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(work())
        seen = self.settled("outer", "dead")
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("timeout", "unsafe", [("wire", "unknown")]))

    def test_an_effects_intent_is_on_record_in_a_team_too(self) -> None:
        seen = {}

        async def wire(amount: int) -> str:
            """Wires an amount."""
            seen.update(self.server.run("in-team"))
            return "wired"

        async def work() -> None:
            agent = self.assistant(3)
            agent._workbench = AssistantAgent("wirer", agent._model_client, tools=[wire])._workbench
            team = RoundRobinGroupChat([agent], termination_condition=TextMentionTermination("is wired"))
            async with self.client.run("in-team"):
                await watch(team.run_stream(task="Wire it."), effects=["wire"])

        self.provider.says(call("wire", amount=7), text("It is wired."))
        asyncio.run(work())
        self.assertEqual(self.statuses(seen), [("wire", "started")])
        self.assertEqual(self.statuses(self.settled("in-team", "succeeded")), [("wire", "committed")])

    def test_a_tools_failure_object_is_a_failure(self) -> None:
        class Fails(StaticWorkbench):
            async def call_tool(self, name: str, *args: Any, **options: Any) -> ToolResult:
                return ToolResult(name=name, result=[TextResultContent(content="no such account")], is_error=True)

        async def work() -> None:
            agent = self.assistant(3)
            agent._workbench = [Fails([FunctionTool(look_up, "Looks an invoice up.")])]
            async with self.client.run("failure"):
                await watch(agent.run_stream(task="Look it up."), effects=["look_up"])

        self.provider.says(FIRST, text("It is 700 EUR."))
        asyncio.run(work())
        seen = self.settled("failure", "dead")
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("tool_error", "unsafe", [("look_up", "unknown")]))

    def test_the_message_cap_of_a_team_is_a_failure(self) -> None:
        async def work() -> None:
            team = RoundRobinGroupChat([self.assistant(3)], termination_condition=MaxMessageTermination(3))
            async with self.client.run("messages"):
                await watch(team.run_stream(task="Send invoice 7."), effects=[])

        self.provider.says(text("I am at it."), text("I am still at it."), text("I am still at it."))
        asyncio.run(work())
        self.assertEqual(self.settled("messages", "scheduled")["reason"], "max_iterations")

    def test_a_handoff_leaves_nothing_to_do(self) -> None:
        async def work() -> None:
            client = self.assistant(1)._model_client
            opener = AssistantAgent("opener", client, handoffs=["closer"])
            closer = AssistantAgent("closer", client)
            team = Swarm([opener, closer], termination_condition=TextMentionTermination("700 EUR"))
            async with self.client.run("handoff"):
                await watch(team.run_stream(task="Close it."), effects=None)

        self.provider.says(call("transfer_to_closer"), text("It is 700 EUR."))
        asyncio.run(work())
        seen = self.settled("handoff", "succeeded")
        self.assertEqual((seen["output"], seen["steps"]), ("It is 700 EUR.", []))


del FrameworkCase

if __name__ == "__main__":
    if is_killed():
        run_killed(AutoGen)
    main(__file__)
