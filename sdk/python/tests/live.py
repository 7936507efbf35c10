"""A live server and a client for each test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SRC = HERE.parent / "src"
SCENARIOS = HERE.parents[1] / "scenarios"
sys.path.insert(0, str(SCENARIOS))
# A test that is told to use an installed package must not see the one beside it.
if not os.environ.get("REDRIVE_INSTALLED"):
    sys.path.insert(0, str(SRC))

from server import PATIENCE_S, ROOT, TENANT, Server, binary, until

import redrive
import redrive.sender
from redrive.client import Client
from redrive.settings import Settings

__all__ = ["HERE", "PATIENCE_S", "ROOT", "SCENARIOS", "SRC", "TENANT", "LiveCase", "Server", "binary", "step_of", "time_is_up", "until"]


_RESEND_S = 10.0
# A server on a machine under load is slow, and no test is about how slow.
redrive.sender._WAIT_S = PATIENCE_S


class LiveCase(unittest.TestCase):
    """A server for the whole class, a spool of its own for each test."""

    CONFIG = ""
    #: How long an agent waits for an answer. Tests that take the server away have less patience.
    WAIT_MS = 60_000
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
        return Client(Settings(**self._settings(settings)))

    def default(self, **settings: Any) -> Client:
        """The client that `redrive.run` and `@redrive.agent` use."""
        client = redrive.configure(**self._settings(settings))
        self.addCleanup(lambda: client.close(1.0))
        return client

    def _settings(self, given: dict[str, Any]) -> dict[str, Any]:
        known = {"url": self.server.url, "key": self.server.worker_key, "spool_dir": self.spool, "wait_ms": self.WAIT_MS}
        return {**known, **given}

    def settled(self, run_id: str, *states: str) -> dict[str, Any]:
        """The run, once it is in one of these states."""
        resend_at = time.monotonic() + _RESEND_S

        def look() -> dict[str, Any] | None:
            nonlocal resend_at
            if time.monotonic() > resend_at:
                # A program that met a slow server has left its reports on disk and is gone.
                resend_at = time.monotonic() + _RESEND_S
                subprocess.run([binary(), "spool", "send", "--dir", str(self.spool)], env=self.environment(), capture_output=True)
            seen = self.server.run(run_id)
            return seen if seen["state"] in states else None

        return until(look, f"{run_id} is {states}")

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
            # Whoever runs the tests in the background ignores Ctrl-C, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def time_is_up(run: redrive.Run) -> None:
    """Lets the run's time limit strike now, as its timer would: a test says when, and no clock does."""
    threading.Thread(target=run._time_is_up, daemon=True).start()


def step_of(run: dict[str, Any], name: str) -> dict[str, Any]:
    return next(step for step in run["steps"] if step["name"] == name)
