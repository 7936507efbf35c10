"""A real server for the tests: started by them on a free port with a folder of its own, killed and started again at
will. `REDRIVE_BIN` names the binary; without it the one that cargo built is taken."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SRC = HERE.parent / "src"
# A test that is told to use an installed package must not see the one beside it.
if not os.environ.get("REDRIVE_INSTALLED"):
    sys.path.insert(0, str(SRC))

import redrive  # noqa: E402
from redrive.client import Client  # noqa: E402
from redrive.settings import Settings  # noqa: E402

TENANT = "acme"


def binary() -> str:
    return os.environ.get("REDRIVE_BIN") or str(ROOT / "target" / "debug" / "redrive")


class Server:
    def __init__(self, config: str = "") -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="redrive-sdk-")
        self.data = Path(self.folder.name) / "data"
        self.config = Path(self.folder.name) / "redrive.toml"
        self.config.write_text(config)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()
        self.worker_key = self._key("worker")
        self.tenant_key = self._key("tenant")
        self.operator_key = self._key("operator", "*")

    def start(self) -> None:
        command = [binary(), "serve", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.data)]
        log = open(Path(self.folder.name) / "log", "ab")
        # REDRIVE_… of whoever runs the tests must not reach it.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("REDRIVE_")}
        self.process = subprocess.Popen(
            [*command, "--config", str(self.config)], stdout=log, stderr=log, env=environment, cwd=self.folder.name
        )
        until(lambda: self._ready(), 20, "the server is ready")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.kill()
        self.folder.cleanup()

    def _ready(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def _key(self, role: str, tenant: str = TENANT) -> str:
        command = [binary(), "keys", "create", "--role", role, "--tenant", tenant, "--json", "--data", str(self.data)]
        made = json.loads(subprocess.check_output(command))
        key: str = made["key"]
        # The server sees a new key within a second.
        until(lambda: self.call("GET", "/v1/runs?limit=1", key=key)[0] != 401, 5, "the key is known")
        return key

    def call(self, method: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Bearer {key or self.operator_key}"}
        text = None if body is None else json.dumps(body)
        if text is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, body=text, headers=headers)
        response = connection.getresponse()
        raw = response.read()
        connection.close()
        return response.status, json.loads(raw) if raw else None

    def run(self, run_id: str) -> dict[str, Any]:
        status, body = self.call("GET", f"/v1/runs/{run_id}?tenant={TENANT}")
        return body if status == 200 else {"state": None, "steps": [], "attempts": []}

    def replay(self, run_id: str, **more: Any) -> tuple[int, Any]:
        return self.call("POST", f"/v1/runs/{run_id}/replay", {"tenant": TENANT, "reason": "a test", **more})


def until(true: Any, seconds: float, what: str) -> Any:
    """Looks again and again until it is so."""
    end = time.monotonic() + seconds
    while True:
        found = true()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


class LiveCase(unittest.TestCase):
    """A server for the whole class, a spool of its own for each test."""

    CONFIG = ""
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server(cls.CONFIG)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

    def setUp(self) -> None:
        self._spool = tempfile.TemporaryDirectory(prefix="redrive-spool-")
        self.addCleanup(self._spool.cleanup)
        self.spool = Path(self._spool.name) / "spool"
        self.client = self.make_client()
        self.addCleanup(lambda: self.client.close(1.0))

    def make_client(self, **settings: Any) -> Client:
        known = {"url": self.server.url, "key": self.server.worker_key, "spool_dir": self.spool, "lease_ms": 5_000}
        return Client(Settings(**{**known, **settings}))

    def default(self, **settings: Any) -> Client:
        """The client that `redrive.run` and `@redrive.agent` use."""
        known = {"url": self.server.url, "key": self.server.worker_key, "spool_dir": self.spool, "lease_ms": 5_000}
        client = redrive.configure(**{**known, **settings})
        self.addCleanup(lambda: client.close(1.0))
        return client

    def settled(self, run_id: str, *states: str, seconds: float = 10.0) -> dict[str, Any]:
        """The run, once it is in one of these states."""
        return until(
            lambda: (r := self.server.run(run_id))["state"] in states and r, seconds, f"{run_id} is {states}"
        )

    def environment(self, **more: str) -> dict[str, str]:
        """For a program of its own."""
        path = os.pathsep.join(p for p in (str(HERE), "" if os.environ.get("REDRIVE_INSTALLED") else str(SRC)) if p)
        known = {"REDRIVE_URL": self.server.url, "REDRIVE_KEY": self.server.worker_key, "PYTHONPATH": path}
        return {**os.environ, **known, "REDRIVE_SPOOL_DIR": str(self.spool), **more}

    def program(self, text: str, **more: str) -> subprocess.Popen[str]:
        """Runs a program beside the test; it says where it is by the lines it prints."""
        return subprocess.Popen(
            [sys.executable, "-u", "-c", text],
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def step_of(run: dict[str, Any], name: str) -> dict[str, Any]:
    return next(step for step in run["steps"] if step["name"] == name)
