"""CrewAI with its real OpenAI client."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from frameworks import TOOLS, FrameworkCase, JumpingLoop, an_hour_later, is_killed, run_killed
from live import PATIENCE_S
from provider import RATE_LIMITED, Refused, call, text
from suite import main

from redrive.frameworks.crewai import watch

logging.disable(logging.ERROR)


class CrewAI(FrameworkCase):
    PAGE = "frameworks/crewai.md"

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        llm = self.llm(stream=self.streams, max_tokens=self.tokens_max)
        tools = [tool(work.__name__)(work) for work in TOOLS]
        biller = Agent(
            role="biller", goal="bill", backstory="bills", llm=llm, tools=tools, max_iter=steps_max, max_retry_limit=0
        )
        task = Task(description="Send invoice 7.", expected_output="a word", agent=biller)
        with watch(effects=self.effects):
            return Crew(agents=[biller], tasks=[task], tracing=False).kickoff()

    def llm(self, **options: Any) -> LLM:
        return LLM(model="openai/gpt-4o-mini", base_url=self.provider.url, api_key="sk-nobody", max_retries=0, **options)

    def crew(self, work: Any, **options: Any) -> Crew:
        biller = Agent(
            role="biller", goal="bill", backstory="bills", llm=self.llm(), tools=[work], max_retry_limit=0, **options
        )
        task = Task(description="Send invoice 7.", expected_output="a word", agent=biller)
        return Crew(agents=[biller], tasks=[task], tracing=False)

    def kickoff(self, run_id: str, work: Any, **options: Any) -> dict[str, Any]:
        with self.client.run(run_id, queue="agents", payload=7, **options) as run, watch(effects=self.effects):
            self.crew(work).kickoff()
        run.outcome(PATIENCE_S)
        return self.server.run(run_id)

    def test_a_tools_failure_object_is_a_failure(self) -> None:
        @tool("wire")
        def wire(amount: int) -> Any:
            """Wires an amount."""
            return ToolFailure(message="no such account", reason=ToolFailureReason.TOOL_REPORTED)

        self.effects = ["wire"]
        self.provider.says(call("wire", amount=7), text("It is wired."))
        seen = self.kickoff("failure", wire)
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("tool_error", "unsafe", [("wire", "unknown")]))

    def test_a_tool_output_as_final_answer_is_a_success(self) -> None:
        @tool("look", result_as_answer=True)
        def look(invoice: int) -> str:
            """Looks an invoice up."""
            return "700 EUR"

        self.provider.says(call("look", invoice=7), text("never asked for"))
        self.assertEqual(self.kickoff("by-design", look)["output"], "700 EUR")

    def test_a_delegation_leaves_nothing_to_do(self) -> None:
        opener, closer = (
            Agent(role=role, goal="bill", backstory="bills", llm=self.llm(), max_retry_limit=0, allow_delegation=role == "opener")
            for role in ("opener", "closer")
        )
        task = Task(description="Send invoice 7.", expected_output="a word", agent=opener)
        delegate = call("delegate_work_to_coworker", task="Close it.", context="Invoice 7.", coworker="closer")
        self.provider.says(delegate, text("It is 700 EUR."), text("It is closed."))
        with self.client.run("delegation", queue="agents", payload=7) as run, watch(effects=[]):
            Crew(agents=[opener, closer], tasks=[task], tracing=False).kickoff()
        self.assertEqual(run.outcome(PATIENCE_S).state, "succeeded")
        seen = self.server.run("delegation")
        self.assertEqual((seen["output"], {status for _, status in self.statuses(seen)}), ("It is closed.", {"committed"}))

    def hangs(self, run_id: str, kickoff: Callable[[Any], Awaitable[Any]]) -> dict[str, Any]:
        """What the server has of a crew whose effect hangs until its report is there. The limits are an hour long, and the hour
        passes when the tool has begun: CrewAI runs each tool in a thread, which goes on after any limit."""
        let_go, seen = threading.Event(), {}
        runner = asyncio.Runner(loop_factory=JumpingLoop)

        @tool("wire")
        def wire(amount: int) -> str:
            """Wires an amount."""
            runner.get_loop().call_soon_threadsafe(an_hour_later)
            let_go.wait(PATIENCE_S)
            return "late"

        async def work() -> None:
            async with self.client.run(run_id, queue="agents", payload=7):
                with watch(effects=["wire"]):
                    await kickoff(wire)

        def release() -> None:
            seen.update(self.settled(run_id, "dead"))
            let_go.set()

        releasing = threading.Thread(target=release)
        releasing.start()
        self.provider.says(call("wire", amount=7), text("It is wired."))
        with self.assertRaises(asyncio.TimeoutError), runner:
            runner.run(work())
        releasing.join()
        return seen

    def test_an_effect_past_max_execution_time_of_akickoff_is_unknown(self) -> None:
        seen = self.hangs("async-limit", lambda wire: self.crew(wire, max_execution_time=1_800).akickoff())
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("timeout", "unsafe", [("wire", "unknown")]))

    def test_an_effect_past_an_outer_limit_of_akickoff_is_unknown(self) -> None:
        seen = self.hangs("akickoff", lambda wire: asyncio.wait_for(self.crew(wire).akickoff(), 1_800))
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("timeout", "unsafe", [("wire", "unknown")]))

    def test_an_effect_past_a_limit_around_kickoff_async_is_unknown(self) -> None:
        seen = self.hangs("kickoff-async", lambda wire: asyncio.wait_for(self.crew(wire).kickoff_async(), 1_800))
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("timeout", "unsafe", [("wire", "unknown")]))

    def test_a_sync_effect_past_max_execution_time_is_known(self) -> None:
        @tool("wire")
        def wire(amount: int) -> str:
            """Wires an amount."""
            threading.Event().wait(4)
            return "wired"

        self.provider.says(call("wire", amount=7), text("It is wired."))
        with self.assertRaises(TimeoutError), self.client.run("limit", queue="agents", payload=7), watch(effects=["wire"]):
            self.crew(wire, max_execution_time=1).kickoff()
        seen = self.settled("limit", "dead", "scheduled")
        # CrewAI waits for its thread, so that the tool has come to its end.
        self.assertEqual((seen["reason"], self.statuses(seen)), ("timeout", [("wire", "committed")]))

    def test_a_done_effect_is_skipped_and_its_output_returned(self) -> None:
        calls: list[int] = []

        @tool("wire")
        def wire(amount: int) -> str:
            """Wires an amount."""
            calls.append(amount)
            return f"wired {amount}"

        self.effects = ["wire"]
        self.provider.says(call("wire", amount=7), Refused(429, RATE_LIMITED))
        with self.assertRaises(Exception):
            self.kickoff("skipped", wire, resumable=True)
        self.settled("skipped", "scheduled")
        self.assertEqual(self.server.replay("skipped")[0], 200)
        self.provider.says(call("wire", amount=7), text("It is wired."))
        self.assertEqual((self.kickoff("skipped", wire, resumable=True)["state"], calls), ("recovered", [7]))


del FrameworkCase

if __name__ == "__main__":
    if is_killed():
        run_killed(CrewAI)
    main(__file__)
