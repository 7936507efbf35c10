"""LangGraph's prebuilt agent and a graph of one's own."""

import asyncio
import threading
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import httpx
from frameworks import FIRST, TOOLS, FrameworkCase, JumpingLoop, an_hour_later, is_killed, look_up, run_killed
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import InjectedToolCallId, StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, create_react_agent, tools_condition
from langgraph.types import Command
from live import PATIENCE_S
from provider import Insists, call, text
from suite import main

from redrive.frameworks.langgraph import Callback

GO = {"messages": [{"role": "user", "content": "Go."}]}


class LangGraph(FrameworkCase):
    PAGE = "frameworks/langgraph.md"

    def model(self) -> ChatOpenAI:
        # LangChain keeps one async client for the process, whose connections belong to the event loop of another test.
        more: Any = {"http_async_client": httpx.AsyncClient(), "streaming": self.streams, "max_completion_tokens": self.tokens_max, "stream_usage": True}
        return ChatOpenAI(model="gpt-4o-mini", base_url=self.provider.url, max_retries=0, **more)

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        warnings.simplefilter("ignore", DeprecationWarning)
        graph = create_react_agent(self.model(), ToolNode(TOOLS, handle_tool_errors=True))
        question = {"messages": [{"role": "user", "content": "Send invoice 7."}]}
        config = {"callbacks": [Callback(effects=self.effects)], "recursion_limit": 2 * steps_max}
        if self.streams:
            return list(graph.stream(question, config=config, stream_mode="values"))[-1]
        return graph.invoke(question, config=config)

    def graph(self, *tools: Any, thought: Callable[[], None] = lambda: None) -> Any:
        """A graph of one's own; `thought` is called after each generation."""
        model = self.model().bind_tools(tools)

        def think(state: MessagesState) -> dict[str, Any]:
            answer = model.invoke(state["messages"])
            thought()
            return {"messages": [answer]}

        async def think_async(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph = StateGraph(MessagesState)
        graph.add_node("think", RunnableLambda(think, think_async))
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", tools_condition, {"tools": "tools", END: END})
        graph.add_edge("tools", "think")
        return graph.compile()

    def test_a_recursion_limit_that_raises_is_known_as_a_cap(self) -> None:
        self.provider.says(Insists(FIRST))
        with self.assertRaisesRegex(Exception, "Recursion limit"), self.client.run("recursion") as run:
            self.graph(*TOOLS).invoke(GO, config={"callbacks": [Callback(effects=[])], "recursion_limit": 4})
        self.assertEqual(run.outcome(PATIENCE_S).verdict["reason"], "max_iterations")

    def test_a_tools_failure_object_is_a_failure(self) -> None:
        def jams(invoice: int) -> str:
            """Prints an invoice."""
            raise ToolException("paper jam")

        graph = self.graph(StructuredTool.from_function(jams, handle_tool_error=True))
        self.provider.says(call("jams", invoice=7), text("I have printed it."))
        with self.client.run("failure", queue="agents", payload=7) as run:
            graph.invoke(GO, config={"callbacks": [Callback(effects=[])]})
        self.assertEqual(run.outcome(PATIENCE_S).verdict["reason"], "tool_error")
        self.assertEqual(self.server.run("failure")["tool"], "jams")

    def test_a_handoff_leaves_nothing_to_do(self) -> None:
        def transfer_to_closer(state: Annotated[dict, InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
            """Hands over to the closer."""
            told = ToolMessage("handed over", name="transfer_to_closer", tool_call_id=tool_call_id)
            return Command(goto="closer", graph=Command.PARENT, update={"messages": [*state["messages"], told]})

        warnings.simplefilter("ignore", DeprecationWarning)
        team = StateGraph(MessagesState)
        team.add_node("opener", create_react_agent(self.model(), [transfer_to_closer], name="opener"), destinations=("closer",))
        team.add_node("closer", create_react_agent(self.model(), [look_up], name="closer"))
        team.add_edge(START, "opener")
        self.provider.says(call("transfer_to_closer"), FIRST, text("It is 700 EUR."))
        with self.client.run("handoff", queue="agents", payload=7) as run:
            team.compile().invoke(GO, config={"callbacks": [Callback(effects=[])]})
        self.assertEqual(run.outcome(PATIENCE_S).state, "succeeded")
        seen = self.server.run("handoff")
        self.assertEqual((seen["output"], self.statuses(seen)[-1]), ("It is 700 EUR.", ("look_up", "committed")))

    def test_an_async_effect_past_a_step_timeout_is_unknown(self) -> None:
        async def wire(amount: int) -> str:
            """Wires an amount."""
            an_hour_later()
            await asyncio.Event().wait()
            return "never"

        async def work() -> None:
            graph = self.graph(wire)
            graph.step_timeout = 1_800
            async with self.client.run("step-timeout", queue="agents", payload=7):
                await graph.ainvoke(GO, config={"callbacks": [Callback(effects=["wire"])]})

        self.provider.says(call("wire", amount=7), text("It is wired."))
        with self.assertRaises(TimeoutError), asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(work())
        seen = self.settled("step-timeout", "dead")
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("timeout", "unsafe", [("wire", "unknown")]))

    def test_a_sync_effect_past_a_step_timeout_is_known(self) -> None:
        def wire(amount: int) -> str:
            """Wires an amount."""
            threading.Event().wait(3)
            return "wired"

        def limit_the_next() -> None:
            graph.step_timeout = 0.1

        graph = self.graph(wire, thought=limit_the_next)
        self.provider.says(call("wire", amount=7), text("It is wired."))
        with self.assertRaises(TimeoutError), self.client.run("sync-timeout", queue="agents", payload=7):
            graph.invoke(GO, config={"callbacks": [Callback(effects=["wire"])]})
        seen = self.settled("sync-timeout", "dead", "scheduled")
        # LangGraph waits for its thread, so that the tool has come to its end.
        self.assertEqual((seen["reason"], self.statuses(seen)), ("timeout", [("wire", "committed")]))

    def test_an_async_effect_past_an_outer_limit_is_unknown(self) -> None:
        async def wire(amount: int) -> str:
            """Wires an amount."""
            an_hour_later()
            await asyncio.Event().wait()
            return "never"

        async def work() -> None:
            async with self.client.run("outer", queue="agents", payload=7):
                working = self.graph(wire).ainvoke(GO, config={"callbacks": [Callback(effects=["wire"])]})
                await asyncio.wait_for(working, 1_800)

        self.provider.says(call("wire", amount=7), text("It is wired."))
        with self.assertRaises(asyncio.TimeoutError), asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(work())
        seen = self.settled("outer", "dead")
        self.assertEqual((seen["reason"], seen["dead_because"], self.statuses(seen)), ("timeout", "unsafe", [("wire", "unknown")]))


del FrameworkCase

if __name__ == "__main__":
    if is_killed():
        run_killed(LangGraph)
    main(__file__)
