"""The agent program of the scenarios: does with the SDK what it is told, a line at a time (see sdk/scenarios/README.md)."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

if not os.environ.get("REDRIVE_INSTALLED"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import redrive
from redrive.errors import EffectInProgress, EffectUnknown, StartRefused

logging.getLogger("redrive").setLevel(logging.CRITICAL)


class Thrown(Exception):
    """An exception of whatever name the story gives it."""


class Agent:
    def __init__(self) -> None:
        self.run: Any = None

    def start(self, line: dict[str, Any]) -> dict[str, Any]:
        fields = {name: value for name, value in line.items() if name not in ("do", "payload")}
        try:
            self.run = redrive.run(payload=line.get("payload"), **fields).__enter__()
        except StartRefused as refused:
            return {"refused": refused.code}
        run = self.run
        return {
            "attempt": run.attempt,
            "replay": run.replay,
            "changes": run.changes,
            "changed": run.payload != line.get("payload"),
        }

    def step(self, line: dict[str, Any]) -> dict[str, Any]:
        return self._work(line, effect=False)

    def effect(self, line: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._work(line, key=line.get("key"), check=line.get("check"), effect=True)
        except (redrive.NotDone, Thrown):
            return {"raised": True}
        except EffectUnknown:
            return {"refused": "effect_unknown"}
        except EffectInProgress:
            return {"refused": "effect_in_progress"}

    def _work(self, line: dict[str, Any], **options: Any) -> dict[str, Any]:
        done = []

        def work() -> Any:
            done.append(True)
            ends = line.get("ends")
            if ends == "not_done":
                raise redrive.NotDone("declined")
            if ends == "in_doubt":
                raise Thrown("no answer")
            if ends == "never":
                say({"begun": True})
                threading.Event().wait()
            return line.get("output")

        output = self.run.do(line["name"], work, **options)
        return {"output": output, "skipped": not done}

    def succeed(self, line: dict[str, Any]) -> dict[str, Any]:
        outcome = self.run.succeed(line.get("output"), wait_s=30)
        return {"state": outcome.state, "verdict": outcome.verdict}

    def fail(self, line: dict[str, Any]) -> dict[str, Any]:
        outcome = self.run.fail(type(line["type"], (Thrown,), {})(line["message"]), wait_s=30)
        return {"state": outcome.state, "verdict": outcome.verdict}

    def flush(self, line: dict[str, Any]) -> dict[str, Any]:
        return {"flushed": redrive.flush(20)}


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    agent = Agent()
    for text in sys.stdin:
        told = json.loads(text)
        say(getattr(agent, told["do"])(told))
