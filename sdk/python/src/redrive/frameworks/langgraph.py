"""LangGraph: the same callbacks as LangChain, which LangGraph itself is built upon. `create_react_agent`'s answer at its
step cap is a text, and a recursion limit an exception; both are told apart from an answer by the server's detectors and rules.

    with redrive.run(run_id="task-42", queue="invoices", payload=task):
        graph.invoke(task, config={"callbacks": [Callback(effects=["send_mail"])]})
"""

from __future__ import annotations

from .langchain import Callback

__all__ = ["Callback"]
