"""CrewAI with its real OpenAI client."""

from __future__ import annotations

import logging
from typing import Any

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from frameworks import TOOLS, FrameworkCase, is_killed, run_killed
from live import PATIENCE_S
from provider import RATE_LIMITED, Refused, call, text
from suite import main

from redrive.frameworks.crewai import watch

logging.disable(logging.ERROR)


class CrewAI(FrameworkCase):
    PAGE = "frameworks/crewai.md"

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        llm = LLM(model="openai/gpt-4o-mini", base_url=self.provider.url, api_key="sk-nobody", max_retries=0, stream=self.streams)
        tools = [tool(work.__name__)(work) for work in TOOLS]
        biller = Agent(
            role="biller", goal="bill", backstory="bills", llm=llm, tools=tools, max_iter=steps_max, max_retry_limit=0
        )
        task = Task(description="Send invoice 7.", expected_output="a word", agent=biller)
        with watch(effects=self.effects):
            return Crew(agents=[biller], tasks=[task], tracing=False).kickoff()

    def kickoff(self, run_id: str, work: Any, **options: Any) -> dict[str, Any]:
        llm = LLM(model="openai/gpt-4o-mini", base_url=self.provider.url, api_key="sk-nobody", max_retries=0)
        biller = Agent(role="biller", goal="bill", backstory="bills", llm=llm, tools=[work], max_retry_limit=0)
        task = Task(description="Send invoice 7.", expected_output="a word", agent=biller)
        with self.client.run(run_id, queue="agents", payload=7, **options) as run, watch(effects=self.effects):
            Crew(agents=[biller], tasks=[task], tracing=False).kickoff()
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

    def test_a_tools_output_that_is_the_answer_by_design_is_one(self) -> None:
        @tool("look", result_as_answer=True)
        def look(invoice: int) -> str:
            """Looks an invoice up."""
            return "700 EUR"

        self.provider.says(call("look", invoice=7), text("never asked for"))
        self.assertEqual(self.kickoff("by-design", look)["output"], "700 EUR")

    def test_an_effect_that_was_done_is_skipped_and_its_output_given(self) -> None:
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
