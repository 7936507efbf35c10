"""Plays the scenarios with an SDK and compares the server's record with what it must be.

    python3 sdk/scenarios/play.py -- COMMAND…      the SDK's agent program, see README.md

Exits with 1 when a scenario does not come to its record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from server import Server, until

#: What the story's teller does itself; the rest is the agent's.
_ITS_OWN = ("kill", "server", "replay", "await")


def scenarios() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((Path(__file__).parent / "scenarios.json").read_text())["scenarios"]
    return found


class Story:
    """One scenario with a server and a spool of its own."""

    def __init__(self, scenario: dict[str, Any], command: list[str]) -> None:
        self._scenario, self._command = scenario, command
        self._server = Server()
        self._spool = tempfile.TemporaryDirectory(prefix="redrive-scenario-")
        self._agent: subprocess.Popen[str] | None = None
        self._run_id = ""

    def play(self) -> None:
        """Raises an `AssertionError` that names the line which came out otherwise."""
        try:
            for number, line in enumerate(self._scenario["story"]):
                given = {name: value for name, value in line.items() if name != "gives"}
                answer = self._teller(given) if line["do"] in _ITS_OWN else self._ask(given)
                differs = difference(line.get("gives", {}), answer)
                assert not differs, f"line {number}, {given}: {differs}, answered {answer}"
            self._compare()
        finally:
            self._close()

    def _ask(self, line: dict[str, Any]) -> dict[str, Any]:
        if line["do"] == "start":
            self._run_id = line["run_id"]
        if self._agent is None:
            environment = {
                **os.environ,
                "REDRIVE_URL": self._server.url,
                "REDRIVE_KEY": self._server.worker_key,
                "REDRIVE_SPOOL_DIR": self._spool.name,
            }
            self._agent = subprocess.Popen(
                self._command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._agent.stdin is not None and self._agent.stdout is not None
        self._agent.stdin.write(json.dumps(line) + "\n")
        self._agent.stdin.flush()
        said = self._agent.stdout.readline()
        assert said, f"the agent ended at {line}"
        answer: dict[str, Any] = json.loads(said)
        return answer

    def _teller(self, line: dict[str, Any]) -> dict[str, Any]:
        if line["do"] == "kill":
            assert self._agent is not None
            self._agent.kill()
            self._agent.communicate()
            self._agent = None
        elif line["do"] == "server":
            self._server.kill() if line["is"] == "away" else self._server.start()
        elif line["do"] == "replay":
            status, body = self._server.replay(self._run_id, **({"force": True} if line.get("force") else {}))
            assert status == 200, body
        else:
            run_id, state = line.get("run_id", self._run_id), line["state"]
            until(lambda: self._server.run(run_id)["state"] == state, f"{run_id} is {state}")
        return {}

    def _compare(self) -> None:
        wanted = self._scenario["record"]
        seen = self._server.run(wanted.get("run_id", self._run_id))
        differs = difference(wanted["run"], seen)
        assert not differs, f"the run: {differs}"
        for part in ("attempts", "steps"):
            differs = difference(sort(wanted[part]), sort(seen[part]))
            assert not differs, f"{part}: {differs}, there is {json.dumps(seen[part])}"
        history = [[entry["event"], entry["from"], entry["to"]] for entry in seen["history"]]
        assert history == wanted["history"], f"the history is {json.dumps(history)}"

    def _close(self) -> None:
        if self._agent is not None:
            self._agent.kill()
            self._agent.communicate()
        self._server.close()
        self._spool.cleanup()


def sort(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps have no order of their own; what they are called gives them one."""
    return sorted(rows, key=lambda row: (str(row.get("name") or row.get("key")), str(row.get("output"))))


def difference(wanted: Any, seen: Any, at: str = "") -> str:
    """Where what is seen is not what is wanted; an object may have more than is named."""
    if isinstance(wanted, dict):
        if not isinstance(seen, dict):
            return f"{at or 'it'} is {seen!r}"
        return next((d for name, value in wanted.items() if (d := difference(value, seen.get(name), f"{at}.{name}"))), "")
    if isinstance(wanted, list) and isinstance(seen, list) and len(wanted) == len(seen):
        return next((d for i, value in enumerate(wanted) if (d := difference(value, seen[i], f"{at}[{i}]"))), "")
    return "" if wanted == seen else f"{at or 'it'} is {seen!r}, not {wanted!r}"


def main() -> int:
    command = sys.argv[sys.argv.index("--") + 1 :]
    failed = 0
    for scenario in scenarios():
        try:
            Story(scenario, command).play()
            print(f"ok      {scenario['name']}")
        except AssertionError as error:
            failed += 1
            print(f"FAILED  {scenario['name']}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
