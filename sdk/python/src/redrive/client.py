"""Everything that the runs of a process share: connections, spool, threads, and what happens when the process ends."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from . import leaving
from .encode import id_of, payload_fields
from .heartbeat import Heartbeats
from .record import Record
from .sender import Sender
from .settings import Settings, from_environment
from .spool import Spool
from .timers import Timers
from .transport import Answer, Away, Transport

if TYPE_CHECKING:
    from .attempt import Run

log = logging.getLogger("redrive")


class Client:
    """Made by `redrive.configure(...)`; a process usually has one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.transport = Transport(settings.url, settings.key)
        self.spool = Spool(settings.spool_dir, settings.url, settings.tenant, settings.spool_max_bytes)
        self.sender = Sender(self.transport, self.spool, self._told)
        self.heartbeats = Heartbeats(self.transport)
        self.timers = Timers()
        self._runs: dict[str, Run] = {}
        leaving.watch(self)

    def run(
        self,
        run_id: str | None = None,
        *,
        queue: str | None = None,
        payload: Any = None,
        timeout_s: float | None = None,
        on_refused: str = "raise",
        **fields: Any,
    ) -> Run:
        """See `redrive.run`."""
        from .attempt import Run

        return Run(self, self._fields(run_id, queue, payload, fields), payload, timeout_s, on_refused)

    def _fields(self, run_id: str | None, queue: str | None, payload: Any, more: dict[str, Any]) -> dict[str, Any]:
        if unknown := set(more) - FIELDS:
            raise TypeError(f"redrive.run() does not take {', '.join(sorted(unknown))}")
        settings = self.settings
        fields: dict[str, Any] = {
            "run_id": _run_id(run_id),
            "tenant": settings.tenant,
            "queue": queue,
            "environment": settings.environment,
            "lease_ms": settings.lease_ms,
            **more,
        }
        if versions := {**settings.versions, **(more.get("versions") or {})}:
            fields["versions"] = {name: str(version) for name, version in versions.items()}
        return {name: value for name, value in fields.items() if value is not None} | payload_fields(payload)

    # For runs.

    def begin(self, record: Record) -> Answer | None:
        """The server's answer; none when the start is on disk instead. Raises `SpoolFull` when it is nowhere."""
        if not self.sender.is_away():
            try:
                return self.post(record.path, record.wire, self.settings.wait_ms / 1000)
            except Away:
                pass
        self.keep(record)
        return None

    def post(self, path: str, body: str, wait_s: float) -> Answer:
        try:
            answer = self.transport.post(path, body, wait_s)
        except Away as away:
            self.sender.seen_away(away)
            raise
        return answer

    def keep(self, record: Record) -> None:
        self.spool.append(record)
        self.sender.poke()

    def opened(self, run: Run) -> None:
        self._runs[run._id] = run

    def closed(self, run: Run) -> None:
        self._runs.pop(run._id, None)
        self.heartbeats.remove(run)

    def open_runs(self) -> list[Run]:
        return list(self._runs.values())

    def _told(self, record: Record, answer: Answer | None) -> None:
        """A record that had to wait has been answered."""
        run = self._runs.get(record.run)
        if run is not None and record.do == "start" and answer is not None:
            run.started_late(answer)

    # For people.

    def flush(self, seconds: float = 10.0) -> bool:
        """Waits until everything has been said; false when the time was not enough."""
        return self.sender.flush(seconds)

    def close(self, seconds: float | None = None) -> None:
        """Says what can be said in the time there is; the rest is on disk afterwards."""
        leaving.unwatch(self)
        self.sender.close(self.settings.exit_wait_ms / 1000 if seconds is None else seconds)
        self.transport.close()

    def forget(self) -> None:
        """In a forked child: threads, files and open runs are the parent's."""
        self._runs = {}
        self.spool.forget()
        self.sender.forget()
        self.heartbeats.forget()
        self.timers.forget()


#: What describes a run beside its id, queue and payload, as the wire has it.
FIELDS = frozenset(
    "tenant agent task_type content_type headers idempotency_key order_key environment customer severity versions model "
    "provider resumable links destination lease_ms idle_ms deadline_ms".split()
)


def _run_id(given: str | None) -> str:
    import uuid

    if given is None:
        return str(uuid.uuid4())
    return id_of(str(given))


_client: Client | None = None
_lock = threading.Lock()


def configure(**settings: Any) -> Client:
    """Says where the server is, once, before the first run. What is left out comes from the environment."""
    global _client
    with _lock:
        if _client is not None:
            _client.close()
        _client = Client(from_environment(**settings))
        return _client


def default_client() -> Client:
    global _client
    with _lock:
        if _client is None:
            _client = Client(from_environment())
        return _client


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    leaving.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
