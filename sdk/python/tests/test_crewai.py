"""CrewAI with its real OpenAI client."""

from __future__ import annotations

import logging
from typing import Any

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from frameworks import TOOLS, FrameworkCase
from suite import main

from redrive.frameworks.crewai import watch

logging.disable(logging.ERROR)


class CrewAI(FrameworkCase):
    PAGE = "frameworks/crewai.md"

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        llm = LLM(model="openai/gpt-4o-mini", base_url=self.provider.url, api_key="sk-nobody", max_retries=0)
        tools = [tool(work.__name__)(work) for work in TOOLS]
        biller = Agent(
            role="biller", goal="bill", backstory="bills", llm=llm, tools=tools, max_iter=steps_max, max_retry_limit=0
        )
        task = Task(description="Send invoice 7.", expected_output="a word", agent=biller)
        with watch(effects=[]):
            return Crew(agents=[biller], tasks=[task], tracing=False).kickoff()


del FrameworkCase

if __name__ == "__main__":
    main(__file__)
