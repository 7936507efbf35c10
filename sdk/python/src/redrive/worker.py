"""Leases due runs, including retries and replays, and runs them with the agents of this process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import lazy
from .attempt import Run
from .client import Client, default_client
from .decorator import Agent, spec_of
from .encode import body, label
from .logs import log
from .transport import Away

_LEASE_WAIT_MS = 1_000
_SLACK_S = 10.0
_PAUSE_S = 1.0


class Worker:
    """`Worker(agents=[bill, write]).run()` works until SIGTERM or Ctrl-C; `start()` and `stop()` do the same in the
    background. `agents` are functions decorated with `@redrive.agent`; each gets the runs that name it. With `any_agent`,
    the first one also gets the runs that name no agent, or one that is not in the list."""

    def __init__(
        self,
        queues: Iterable[str] | None = None,
        agents: Iterable[Callable[..., Any]] = (),
        *,
        any_agent: bool = False,
        concurrency: int = 4,
        grace_s: float = 30.0,
        lease_ms: int | None = None,
        name: str | None = None,
        client: Client | None = None,
    ) -> None:
        self._agents = {spec.name: spec for spec in map(spec_of, agents)}
        if not self._agents:
            raise ValueError("a worker needs at least one function decorated with @redrive.agent")
        self._client = client or default_client()
        self._queues = list(queues) if queues is not None else self._queues_of_agents()
        self._any_agent = any_agent
        self._concurrency, self._grace_s = max(1, concurrency), grace_s
        self._lease_ms = lease_ms or self._client.settings.lease_ms
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._in_hand: dict[int, Run] = {}
        self._thread: threading.Thread | None = None

    def _queues_of_agents(self) -> list[str]:
        return sorted({spec.queue or "default" for spec in self._agents.values()})

    def run(self) -> None:
        """Works until told to stop; call it in the main thread."""
        before = {sig: signal.signal(sig, lambda *_: self._stop.set()) for sig in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._loop()
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def start(self) -> Worker:
        self._thread = threading.Thread(target=self._loop, name="redrive-worker", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Takes no more work, lets running attempts finish, and releases those that do not within the grace period."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._grace_s + _LEASE_WAIT_MS / 1000 + _SLACK_S)

    def __enter__(self) -> Worker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _loop(self) -> None:
        while not self._stop.is_set():
            free = self._wait_for_room()
            if free == 0:
                continue
            for leased in self._lease(free):
                if self._stop.is_set():
                    self._run_of(leased).release()
                else:
                    self._begin(leased)
        self._finish_in_hand()
        self._client.flush(self._client.settings.exit_wait_ms / 1000)

    def _wait_for_room(self) -> int:
        with self._changed:
            self._changed.wait_for(lambda: len(self._in_hand) < self._concurrency, _PAUSE_S)
            return self._concurrency - len(self._in_hand)

    def _lease(self, free: int) -> list[Mapping[str, Any]]:
        wanted = {
            "tenant": self._client.settings.tenant,
            "queues": self._queues,
            "agents": None if self._any_agent else sorted(self._agents),
            "versions": dict(self._client.settings.versions) or None,
            "max": free,
            "wait_ms": _LEASE_WAIT_MS,
            "lease_ms": self._lease_ms,
            "worker": label(self.name),
        }
        try:
            answer = self._client.transport.post("/v1/leases", body(wanted), _LEASE_WAIT_MS / 1000 + _SLACK_S, "leases")
        except Away as away:
            log.info("redrive: lease call failed: %s", away)
            self._stop.wait(_PAUSE_S)
            return []
        if not answer.ok:
            log.error("redrive: the lease call was refused: %s %s", answer.code, answer.detail)
            self._stop.wait(_PAUSE_S * 5)
            return []
        return list(answer.body["leases"])

    def _run_of(self, leased: Mapping[str, Any]) -> Run:
        fields = {"run_id": leased["run_id"], "queue": leased.get("queue"), "lease_ms": self._lease_ms}
        if leased.get("model"):
            fields["model"] = leased["model"]
        return Run(self._client, fields, None, self._agent_of(leased).timeout_s, "raise", leased)

    def _agent_of(self, leased: Mapping[str, Any]) -> Agent:
        return self._agents.get(leased.get("agent") or "") or next(iter(self._agents.values()))

    def _begin(self, leased: Mapping[str, Any]) -> None:
        spec = self._agent_of(leased)
        run = self._run_of(leased)
        with self._changed:
            self._in_hand[id(run)] = run
        threading.Thread(target=self._work, args=(spec, run), name=f"redrive-run-{run.run_id}", daemon=True).start()

    def _work(self, spec: Agent, run: Run) -> None:
        try:
            if spec.is_async:
                asyncio.run(_in_task(spec, run))
            else:
                with run:
                    output = spec.call(run)
                    run.output = lazy.recorded(list(output)) if lazy.is_stream(output) else output
        except Exception as error:  # noqa: BLE001 - it is reported; the worker goes on with the next run
            log.info("redrive: %s failed: %s", run.run_id, error)
        except BaseException as error:  # noqa: BLE001 - an agent that exits ends its run, not the worker
            log.warning("redrive: %s left by %s", run.run_id, type(error).__name__)
        finally:
            with self._changed:
                self._in_hand.pop(id(run), None)
                self._changed.notify_all()

    def _finish_in_hand(self) -> None:
        until = time.monotonic() + self._grace_s
        with self._changed:
            self._changed.wait_for(lambda: not self._in_hand, max(0.0, until - time.monotonic()))
            left = list(self._in_hand.values())
        for run in left:
            log.warning("redrive: %s did not finish within the grace period and is released", run.run_id)
            run.lost = "worker_stopped"
            run.release()


async def _in_task(spec: Agent, run: Run) -> None:
    async with run:
        output = spec.call(run)
        if lazy.is_awaitable(output):
            output = await output
        run.output = lazy.recorded([item async for item in output]) if hasattr(type(output), "__anext__") else output
