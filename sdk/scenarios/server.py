"""A real server for tests of SDKs: started by them on a free port with a folder of its own, killed and started again at
will. `REDRIVE_BIN` names the binary; without it the one that cargo built is taken."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TENANT = "acme"
#: How long a test waits for what must happen. It only bounds a failure: a machine under load may take most of it.
PATIENCE_S = float(os.environ.get("SDK_TEST_PATIENCE_S", "600"))


def binary() -> str:
    return os.environ.get("REDRIVE_BIN") or str(ROOT / "target" / "debug" / "redrive")


class Server:
    def __init__(self, config: str = "") -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="redrive-sdk-")
        self.data = Path(self.folder.name) / "data"
        #: SQLite in a folder of its own, or a fresh database of the PostgreSQL that is named.
        self.store = ["--data", str(self.data)]
        if postgres := os.environ.get("SDK_TEST_POSTGRES"):
            self.store = ["--database-url", fresh_database(postgres)]
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
        command = [binary(), "serve", "--listen", f"127.0.0.1:{self.port}", *self.store]
        log = open(Path(self.folder.name) / "log", "ab")
        # REDRIVE_… of whoever runs the tests must not reach it.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("REDRIVE_")}
        self.process = subprocess.Popen(
            [*command, "--config", str(self.config)], stdout=log, stderr=log, env=environment, cwd=self.folder.name
        )
        until(lambda: self._ready(), "the server is ready")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.kill()
        self.folder.cleanup()

    def _ready(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def _key(self, role: str, tenant: str = TENANT) -> str:
        command = [binary(), "keys", "create", "--role", role, "--tenant", tenant, "--json", *self.store]
        made = json.loads(subprocess.check_output(command))
        key: str = made["key"]
        # The server sees a new key within a second.
        until(lambda: self.call("GET", "/v1/runs?limit=1", key=key)[0] != 401, "the key is known")
        return key

    def call(self, method: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
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


def fresh_database(url: str) -> str:
    """A new database on the server at `url`, which ends in the name of a database to create it from."""
    name = f"sdk_{os.urandom(6).hex()}"
    subprocess.check_output(["psql", url, "-qc", f"CREATE DATABASE {name}"])
    return f"{url.rpartition('/')[0]}/{name}"


def until(true: Any, what: str) -> Any:
    """Looks again and again until it is so."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = true()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.02)
