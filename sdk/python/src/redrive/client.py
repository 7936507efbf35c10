"""What the runs of a process share: connections, spool and threads."""

from __future__ import annotations

import os
import threading
import time
import uuid
from typing import Any

from . import leaving
from .attempt import Run
from .delivery import note_mended
from .encode import id_of, payload_fields, text_of
from .fields import FIELDS, formed
from .heartbeat import Heartbeats
from .logs import log
from .mend import mended
from .offload import OFFLOAD
from .record import ENDS, Record
from .sender import Sender
from .settings import Settings, from_environment
from .spool import Spool
from .timers import Timers
from .transport import Answer, Away, Transport


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
        #: Ended under a lease, and the end is on its way: until it arrives their heartbeats go on.
        self._ending: dict[str, Run] = {}
        self._said: set[str] = set()
        #: False once a server has refused an intent's `call_id` as a field that it does not know.
        self.takes_call_id = True
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
        return Run(self, self._fields(run_id, queue, payload, fields), payload, timeout_s, on_refused)

    def _fields(self, run_id: str | None, queue: str | None, payload: Any, more: dict[str, Any]) -> dict[str, Any]:
        if unknown := set(more) - FIELDS:
            raise TypeError(f"redrive.run() does not take {', '.join(sorted(unknown))}")
        settings = self.settings
        given = {
            "tenant": settings.tenant,
            "queue": queue,
            "environment": settings.environment,
            "lease_ms": settings.lease_ms,
            **{name: value for name, value in more.items() if value is not None},
        }
        theirs = more.get("versions")
        if settings.versions and (theirs is None or isinstance(theirs, dict)):
            given["versions"] = {**settings.versions, **(theirs or {})}
        fields = {"run_id": _run_id(run_id), **formed(given)}
        fields.setdefault("lease_ms", settings.lease_ms)
        carried, warning = payload_fields(payload)
        if warning is not None:
            log.warning("redrive: %s: %s", fields["run_id"], warning)
        return fields | carried

    # For runs.

    def begin(self, record: Record) -> Answer | None:
        """The server's answer; none when the start is on disk instead. Raises `SpoolFull` when it is nowhere."""
        if not self.sender.is_away():
            until = time.monotonic() + self.settings.wait_ms / 1000
            try:
                return self.post(record, until)
            except Away:
                pass
        self.keep(record)
        return None

    def post(self, record: Record, until: float) -> Answer:
        """One report now, by this time, in a form that the server takes."""
        round = 0
        while True:
            try:
                wait_s = max(0.05, until - time.monotonic())
                answer = self.transport.post(record.path, record.wire, wait_s, record.answered_with)
            except Away as away:
                self.sender.seen_away(away)
                raise
            better = None if answer.ok else mended(record, answer, round)
            if better is None:
                return answer
            if better[1] == "call_id":
                # A server that is older than the field.
                self.takes_call_id = False
            else:
                note_mended(record, answer, better[1])
            record, round = better[0], round + 1

    def keep(self, record: Record) -> None:
        self.spool.append(record)
        self.sender.poke()

    def opened(self, run: Run) -> None:
        self._runs[run._id] = run

    def ending(self, run: Run) -> None:
        """Before the end is handed over. Behind a backlog it may take longer than the lease: without heartbeats the server would
        take the run for silent, and refuse what is still to come of it."""
        self._ending[run._id] = run

    def is_ending(self, run: Run) -> bool:
        on_its_way = run._end is None or not run._end.settled or self.spool.has(run._id)
        return run._id in self._ending and on_its_way

    def ended(self, run_id: str) -> None:
        run = self._ending.pop(run_id, None)
        if run is not None:
            self.heartbeats.remove(run)

    def closed(self, run: Run) -> None:
        self._runs.pop(run._id, None)
        if run._id not in self._ending:
            self.heartbeats.remove(run)

    def open_runs(self) -> list[Run]:
        return list(self._runs.values())

    def say_once(self, what: str, why: object) -> None:
        """An outage is one piece of news, however many runs it meets."""
        if what not in self._said:
            self._said.add(what)
            log.error("redrive: %s: %s", what, why)

    def _told(self, record: Record, answer: Answer | None) -> None:
        """A record that had to wait has been answered."""
        if record.do in ENDS:
            self.ended(record.run)
        run = self._runs.get(record.run)
        if run is not None and record.do == "start" and answer is not None:
            run.started_late(answer)

    # For people.

    def flush(self, seconds: float = 10.0) -> bool:
        """Waits until every report is sent; false if the time was not enough. What is left is then on disk, so the process may
        end in any way."""
        for run in self.open_runs():
            run._flush()
        return self.sender.flush(seconds)

    def close(self, seconds: float | None = None) -> None:
        """Sends what it can in the given time; the rest is on disk afterwards."""
        leaving.unwatch(self)
        self.sender.close(self.settings.exit_wait_ms / 1000 if seconds is None else seconds)
        for run_id in list(self._ending):
            # Nobody of this process sends its end any more.
            self.ended(run_id)
        self.transport.close()

    def forget(self) -> None:
        """In a forked child: threads, files and open runs are the parent's."""
        for run in self._runs.values():
            run._forked()
        self._runs, self._ending = {}, {}
        self.transport.forget()
        self.spool.forget()
        self.sender.forget()
        self.heartbeats.forget()
        self.timers.forget()


def _run_id(given: Any) -> str:
    text = "" if given is None else text_of(given).strip()
    return id_of(text) if text else str(uuid.uuid4())


_client: Client | None = None
_lock = threading.Lock()


def configure(**settings: Any) -> Client:
    """Configures the default client, once, before the first run. What is left out comes from the environment."""
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


def open_runs() -> bool:
    """Whether any run of the default client is under way; makes no client."""
    return _client is not None and bool(_client._runs)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    OFFLOAD.forget()
    leaving.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
