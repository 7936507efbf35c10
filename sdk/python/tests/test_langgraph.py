"""LangGraph's prebuilt agent and a graph of one's own."""

from __future__ import annotations

import warnings
from typing import Any

from frameworks import FIRST, TOOLS, FrameworkCase, is_killed, run_killed
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from live import PATIENCE_S
from provider import Insists
from suite import main

from redrive.frameworks.langgraph import Callback


class LangGraph(FrameworkCase):
    PAGE = "frameworks/langgraph.md"

    def model(self) -> ChatOpenAI:
        return ChatOpenAI(model="gpt-4o-mini", base_url=self.provider.url, max_retries=0, streaming=self.streams, stream_usage=True)

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        warnings.simplefilter("ignore", DeprecationWarning)
        graph = create_react_agent(self.model(), ToolNode(TOOLS, handle_tool_errors=True))
        question = {"messages": [{"role": "user", "content": "Send invoice 7."}]}
        config = {"callbacks": [Callback(effects=self.effects)], "recursion_limit": 2 * steps_max}
        if self.streams:
            return list(graph.stream(question, config=config, stream_mode="values"))[-1]
        return graph.invoke(question, config=config)

    def test_a_recursion_limit_that_raises_is_known_as_a_cap(self) -> None:
        model = self.model().bind_tools(TOOLS)
        graph = StateGraph(MessagesState)
        graph.add_node("think", lambda state: {"messages": [model.invoke(state["messages"])]})
        graph.add_node("tools", ToolNode(TOOLS))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", tools_condition, {"tools": "tools", END: END})
        graph.add_edge("tools", "think")
        self.provider.says(Insists(FIRST))
        with self.assertRaisesRegex(Exception, "Recursion limit"), self.client.run("recursion") as run:
            question = {"messages": [{"role": "user", "content": "Go."}]}
            graph.compile().invoke(question, config={"callbacks": [Callback(effects=[])], "recursion_limit": 4})
        self.assertEqual(run.outcome(PATIENCE_S).verdict["reason"], "max_iterations")


del FrameworkCase

if __name__ == "__main__":
    if is_killed():
        run_killed(LangGraph)
    main(__file__)
