"""A server in memory, behind the transport: the ledger's rules and no others, so that thousands of schedules take seconds."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from live import PATIENCE_S  # `live` puts the package on the path

import redrive
import redrive.client
from redrive.client import Client
from redrive.settings import Settings
from redrive.transport import Answer, Away

DONE, UNSAFE, SCHEDULED, RUNNING = "succeeded", "dead", "scheduled", "running"


class FakeServer:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.runs: dict[str, dict[str, Any]] = {}
        self.effects: dict[str, dict[str, Any]] = {}
        #: In the order in which they came.
        self.calls: list[tuple[str, dict[str, Any]]] = []
        #: How many calls came in each round trip that had several.
        self.shared: list[int] = []
        self.away = False
        self.epoch = 0

    def post(self, path: str, body: str, wait_s: float, has: str | None = None) -> Answer:
        if self.away:
            raise Away("away")
        with self.lock:
            given = json.loads(body)
            self.calls.append((path, given))
            if path == "/v1/heartbeats":
                return Answer(200, {"leases": [{"run_id": each["run_id"]} for each in given["leases"]]})
            if path == "/v1/runs":
                return self._start(given)
            if path == "/v1/failures":
                return self._failure(given)
            run_id, verb = unquote(path).split("/")[3:5]
            return self._report(self.runs[run_id], verb, given)

    def post_many(self, calls: Any, wait_s: float) -> list[Answer | Away]:
        with self.lock:
            self.shared.append(len(calls))
        return [self.post(path, body, wait_s, has) for path, body, has in calls]

    def _start(self, given: dict[str, Any]) -> Answer:
        run = self.runs.setdefault(given["run_id"], {"state": SCHEDULED, "attempt": 0, "start_id": None, "ends": []})
        if run["state"] == RUNNING and run["start_id"] == given["start_id"]:
            return Answer(200, self._started(run, given["run_id"]))
        if run["state"] in (DONE, UNSAFE):
            return Answer(409, {"code": "dead_lettered", "detail": run["state"]})
        if run["state"] == RUNNING:
            return Answer(409, {"code": "in_flight", "detail": "running"})
        self.epoch += 1
        run.update(state=RUNNING, attempt=run["attempt"] + 1, start_id=given["start_id"], lease=f"lease-{self.epoch}", given=given)
        run["ended_with"] = None
        run.setdefault("leases", {})[run["lease"]] = True
        return Answer(201, self._started(run, given["run_id"]))

    def _started(self, run: dict[str, Any], run_id: str) -> dict[str, Any]:
        steps = [step for step in self.effects.values() if step["run_id"] == run_id and step["status"] != "failed"]
        return {"run_id": run_id, "state": RUNNING, "attempt": run["attempt"], "lease": run["lease"], "steps": [dict(s) for s in (*steps, *run.get("steps", {}).values())]}

    def _report(self, run: dict[str, Any], verb: str, given: dict[str, Any]) -> Answer:
        current = given.get("lease") == run.get("lease") and run["state"] == RUNNING
        if verb == "heartbeat":
            return Answer(200, {"lease_expires_at": "later"}) if current else Answer(409, {"code": "lease_lost", "detail": "lost"})
        if verb == "steps":
            return self._step(run, given, current)
        if run.get("ended_with") == (verb, given):
            return Answer(200, {"state": run["state"]})
        if current or (verb == "succeed" and given.get("lease") == run.get("lease") and not run.get("ended_with")):
            # A success also counts after the lease, as long as nobody has begun anew.
            run["ends"].append((verb, given))
            run["ended_with"] = (verb, given)
            self._end(run, given, DONE if verb == "succeed" else None)
            return Answer(200, {"state": run["state"]})
        known = run.setdefault("leases", {}).get(given.get("lease"))
        if known:
            run["ends"].append((verb, given))
        return Answer(409, {"code": "lease_lost", "detail": "lost", "recorded": bool(known and verb == "fail")})

    def _failure(self, given: dict[str, Any]) -> Answer:
        """A failed attempt that nobody had a lease for."""
        run = self.runs[given["run_id"]]
        if run["state"] == RUNNING:
            return Answer(409, {"code": "in_flight", "detail": "running"})
        run["attempt"] += 1
        run["ended_with"] = ("fail", given)
        self._end(run, given, DONE if run["state"] == DONE else None)
        return Answer(200, {"state": run["state"]})

    def _end(self, run: dict[str, Any], given: dict[str, Any], state: str | None) -> None:
        for step in given.get("steps") or ():
            known = self.effects.get(step["key"])
            if step.get("effect") is not False and not (known and known["status"] == "committed"):
                self.effects[step["key"]] = {"output": None, **step, "run_id": run["given"]["run_id"]}
        self._close(run)
        run["state"] = state or (UNSAFE if self.in_doubt(run) else SCHEDULED)

    def _step(self, run: dict[str, Any], given: dict[str, Any], current: bool) -> Answer:
        run_id, key = run["given"]["run_id"], given["key"]
        if given.get("effect") is False:
            run.setdefault("plain", []).append(given["name"])
            run.setdefault("steps", {})[key] = {name: value for name, value in given.items() if name != "lease"}
            return Answer(200, {"key": key, "status": given["status"]})
        known = self.effects.get(key)
        if given["status"] == "started":
            if not current:
                return Answer(409, {"code": "lease_lost", "detail": "lost"})
            if known and known["status"] == "committed":
                return Answer(200, {**known, "replayed": True})
            if known and known["status"] == "unknown":
                return Answer(409, {"code": "effect_unknown", "detail": "unknown"})
            if known and known["status"] == "started":
                if known.get("call_id") == given.get("call_id"):
                    return Answer(200, dict(known))
                return Answer(409, {"code": "effect_in_progress", "detail": "in progress"})
        elif known is None:
            return Answer(409, {"code": "lease_lost", "detail": "never begun"})
        step = {"key": key, "name": given["name"], "effect": True, "run_id": run_id, "output": given.get("output")}
        if not (known and known["status"] == "committed"):
            self.effects[key] = {**step, "status": given["status"], "call_id": given.get("call_id")}
        return Answer(200, self.effects[key])

    def _close(self, run: dict[str, Any]) -> None:
        for step in self.effects.values():
            if step["run_id"] == run["given"]["run_id"] and step["status"] == "started":
                step["status"] = "unknown"

    def in_doubt(self, run: dict[str, Any]) -> bool:
        return any(s["run_id"] == run["given"]["run_id"] and s["status"] == "unknown" for s in self.effects.values())

    def silence(self, run_id: str) -> None:
        """The lease of a killed process runs out."""
        with self.lock:
            run = self.runs.get(run_id)
            if run is not None and run["state"] == RUNNING:
                self._close(run)
                run["state"] = UNSAFE if self.in_doubt(run) else SCHEDULED

    # What the transport has beside `post`.
    url = "http://fake"

    def forget(self) -> None:
        pass

    def close(self) -> None:
        pass


class FakeCase(unittest.TestCase):
    def setUp(self) -> None:
        self.server = FakeServer()
        self._folder = tempfile.TemporaryDirectory(prefix="redrive-fake-")
        self.addCleanup(self._folder.cleanup)
        self.client = self.make_client()
        before, redrive.client._client = redrive.client._client, self.client
        self.addCleanup(setattr, redrive.client, "_client", before)

    def make_client(self, **settings: Any) -> Client:
        given = {"key": "rd_fake_key_1", "spool_dir": Path(self._folder.name) / "spool", "catch_sigterm": False, **settings}
        theirs, redrive.client.Transport = redrive.client.Transport, lambda *_: self.server  # type: ignore[assignment, misc]
        try:
            client = Client(Settings(**given))
        finally:
            redrive.client.Transport = theirs  # type: ignore[misc]
        self.addCleanup(client.close, 0)
        return client

    def ended(self, run_id: str) -> list[str]:
        assert self.client.flush(PATIENCE_S)
        return [verb for verb, _ in self.server.runs[run_id]["ends"]]

    def status(self, key: str) -> str:
        return str(self.server.effects[key]["status"])


def seeds(default: int) -> range:
    """How many schedules a property is tried with; `REDRIVE_SCHEDULES` asks for more."""
    return range(int(os.environ.get("REDRIVE_SCHEDULES", default)))
