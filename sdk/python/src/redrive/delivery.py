"""Hands a record to the server and settles what its answer means: done, come back later, or never."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .encode import body
from .logs import log
from .mend import mended
from .record import ENDS, Record
from .transport import Answer, Away, NotRedrive, Transport

#: What a start says that a failure reported in one call does not.
_OF_A_START = ("mode", "start_id", "lease_ms", "idle_ms", "deadline_ms", "due_at")
#: A record that makes the server itself stumble must not hold up all others for ever.
_STUMBLES_MAX = 5
#: A process may run for years: only the last ends are remembered.
_ENDED_MAX = 10_000


class Delivery:
    """`leases` and `starts` are of runs whose start was not answered when it happened; both may be from disk."""

    def __init__(
        self,
        transport: Transport,
        set_aside: Callable[[Record, str], None],
        leases: dict[str, str | None],
        starts: dict[str, str],
    ) -> None:
        self._transport, self._set_aside = transport, set_aside
        self._leases, self._starts = leases, starts
        self._stumbles: dict[int, int] = {}
        self._ended: dict[str, None] = {}

    def know_start(self, run: str, start: str) -> None:
        """Of a start that was refused: what there is to say of the run is in it."""
        self._starts[run] = start

    def send(self, record: Record, wait_s: float) -> Answer | None:
        """The answer; none for what could not be said. Raises `Away` when it has to be tried again."""
        if record.run in self._ended:
            # An attempt has one end. A second one without its lease would be taken for another attempt's.
            return None
        answer = self._send(record, wait_s)
        if record.do in ENDS:
            self._ended[record.run] = None
            self._starts.pop(record.run, None)
            if len(self._ended) > _ENDED_MAX:
                del self._ended[next(iter(self._ended))]
        return answer

    def _send(self, record: Record, wait_s: float) -> Answer | None:
        if record.do == "start":
            return self._start(record, wait_s)
        if record.lease is None and record.run in self._leases:
            record = record.under(self._leases[record.run])
        if record.lease is None:
            return self._without_lease(record, wait_s)
        answer, record = self._post_mended(record, wait_s)
        if answer is None or answer.ok or self._is_kept(answer):
            return answer
        self._refuse(record, answer)
        return answer

    def _post_mended(self, record: Record, wait_s: float) -> tuple[Answer | None, Record]:
        """The answer, and the form in which the server took it or at last refused it."""
        round = 0
        while True:
            answer = self._post(record, record.path, record.wire, wait_s)
            better = mended(record, answer, round) if answer is not None and not answer.ok else None
            if answer is None or better is None:
                return answer, record
            note_mended(record, answer, better[1])
            record, round = better[0], round + 1

    def _start(self, record: Record, wait_s: float) -> Answer | None:
        self._starts[record.run] = record.body
        answer, _ = self._post_mended(record, wait_s)
        lease = answer.body.get("lease") if answer is not None and answer.ok else None
        self._leases[record.run] = lease
        if answer is not None and not answer.ok:
            log.warning("redrive: %s began without being asked for, and may not: %s", record.run_id, answer.detail)
        return answer

    def _without_lease(self, record: Record, wait_s: float) -> Answer | None:
        """The attempt was made although it could not be begun with the server: its end is told all the same."""
        if record.do == "fail":
            path, text = self._as_failure(record)
        elif record.do == "succeed":
            path, text = record.path, record.body
        else:
            self._set_aside(record, "its attempt has no lease")
            return None
        answer = self._post(record, path, text, wait_s)
        if answer is not None and not answer.ok:
            self._refuse(record, answer)
        return answer

    def _as_failure(self, record: Record) -> tuple[str, str]:
        start: dict[str, Any] = json.loads(self._starts.get(record.run) or "{}")
        fields = {name: value for name, value in start.items() if name not in _OF_A_START}
        failed = {"run_id": record.run_id, **fields, **json.loads(record.body)}
        return record.path.replace(record.path.partition("?")[0], "/v1/failures"), body(failed)

    def _post(self, record: Record, path: str, text: str, wait_s: float) -> Answer | None:
        try:
            return self._transport.post(path, text, wait_s, record.answered_with)
        except NotRedrive:
            raise
        except Away as away:
            if away.status != 500:
                raise
            mark = hash((path, text))
            self._stumbles[mark] = self._stumbles.get(mark, 0) + 1
            if self._stumbles[mark] < _STUMBLES_MAX:
                raise
            self._set_aside(record, str(away))
            log.error("redrive: %s of %s was set aside: %s", record.do, record.run_id, away)
            return None

    @staticmethod
    def _is_kept(answer: Answer) -> bool:
        """Too late to move the run, and kept on its record."""
        return isinstance(answer.body, dict) and answer.body.get("recorded") is True

    def _refuse(self, record: Record, answer: Answer) -> None:
        log.warning("redrive: %s of %s was refused: %s %s", record.do, record.run_id, answer.code, answer.detail)
        self._set_aside(record, f"{answer.status} {answer.code} {answer.detail}")


def note_mended(record: Record, answer: Answer, lost: str) -> None:
    log.warning("redrive: %s of %s is sent without %s: %s", record.do, record.run_id, lost, answer.detail)
