"""Hands a record to the server and settles what its answer means: done, come back later, or never."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from .encode import body
from .late import LateEffects
from .logs import log
from .mend import mended
from .record import ENDS, Record
from .transport import Answer, Away, NotRedrive, Transport

#: What a start says that a failure reported in one call does not.
_OF_A_START = ("mode", "start_id", "lease_ms", "idle_ms", "deadline_ms", "due_at")
#: A record that makes the server itself stumble must not hold up all others for ever.
_STUMBLES_MAX = 5
_NO_LEASE = "no_lease"
_LEASE_IS_OVER = ("lease_lost", "cancelled", _NO_LEASE)
#: A process may run for years: only the last ends are remembered.
_ENDED_MAX = 10_000


class Busy(Exception):
    """Another attempt of the run is under way: late effects are recorded once it has ended."""


class Delivery:
    """`leases` and `starts` are of runs whose start was not answered when it happened; both may be from disk. `ended` has the
    lease of each attempt whose end was sent."""

    def __init__(
        self,
        transport: Transport,
        set_aside: Callable[[Record, str], None],
        late: LateEffects,
        leases: dict[str, str | None],
        starts: dict[str, str],
        ended: dict[str, str | None],
        waits_for_others: bool = False,
    ) -> None:
        self._transport, self._set_aside, self._late = transport, set_aside, late
        self._leases, self._starts, self._ended = leases, starts, ended
        self._waits_for_others = waits_for_others
        self._stumbles: dict[int, int] = {}

    def know_start(self, run: str, start: str) -> None:
        """Of a start that was refused: what there is to say of the run is in it."""
        self._starts[run] = start

    def send(self, record: Record, wait_s: float) -> Answer | None:
        """The answer; none for what could not be said. Raises `Away` when it has to be tried again."""
        if record.run in self._ended and not _is_effect(record):
            # An attempt has one end. A second one without its lease would be taken for another attempt's.
            return None
        if record.do not in ENDS:
            return self._send(record, wait_s)
        record = self._late.merged(self._under_lease(record))
        answer = self._send(record, wait_s)
        if self._late.has(record.run):
            taken = answer is not None and answer.ok
            (self._late.delivered if taken else self._late.give_up)(record.run)
        self._ended[record.run] = record.lease
        self._starts.pop(record.run, None)
        if len(self._ended) > _ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        return answer

    def may_share(self, record: Record) -> bool:
        """Whether the record may be sent before the one in front of it is answered: a step under a lease that is known."""
        return record.do == "step" and record.run not in self._ended and self._under_lease(record).lease is not None

    def send_all(self, records: list[Record], wait_s: float) -> Iterator[Answer | None]:
        """The answers in order. Raises `Away` at the first record that has to be tried again."""
        if len(records) == 1:
            yield self.send(records[0], wait_s)
            return
        records = [self._under_lease(record) for record in records]
        calls = [(record.path, record.wire, record.answered_with) for record in records]
        for record, met in zip(records, self._transport.post_many(calls, wait_s), strict=True):
            if isinstance(met, Away) and met.status is None:
                raise met
            # What was refused is sent by itself: it may be mended, or has to be kept.
            yield met if isinstance(met, Answer) and met.ok else self.send(record, wait_s)

    def _under_lease(self, record: Record) -> Record:
        return record.under(self._leases.get(record.run) or self._ended.get(record.run))

    def _send(self, record: Record, wait_s: float) -> Answer | None:
        if record.do == "start":
            return self._start(record, wait_s)
        record = self._under_lease(record)
        if record.lease is None:
            return self._without_lease(record, wait_s)
        answer, record = self._post_mended(record, wait_s)
        if answer is None or answer.ok or self._is_kept(answer):
            return answer
        if not self._keep_late(record, answer.code):
            self._refuse(record, answer)
        return answer

    def _keep_late(self, record: Record, code: str) -> bool:
        """An effect that was done, and that no lease covers any more, still has to reach the ledger."""
        if code not in _LEASE_IS_OVER or not _is_effect(record):
            return False
        log.warning("redrive: an effect of %s was reported after its lease expired; it follows with the end", record.run_id)
        self._late.add(record, self._run_fields(record.run))
        if record.run in self._ended:
            self._late.give_up(record.run)
        return True

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
            log.warning("redrive: %s was started offline and refused by the server: %s", record.run_id, answer.detail)
        return answer

    def _without_lease(self, record: Record, wait_s: float) -> Answer | None:
        """The attempt ran although the server never took its start: its end is still reported."""
        if record.do == "fail":
            path, text = self._as_failure(record)
        elif record.do == "succeed":
            path, text = record.path, record.body
        else:
            if not self._keep_late(record, _NO_LEASE):
                self._set_aside(record, "its attempt has no lease")
            return None
        answer = self._post(record, path, text, wait_s)
        if answer is not None and not answer.ok:
            if self._waits_for_others and answer.code == "in_flight":
                raise Busy
            self._refuse(record, answer)
        return answer

    def _run_fields(self, run: str) -> dict[str, Any]:
        """What the start of a run says about the run itself."""
        start: dict[str, Any] = json.loads(self._starts.get(run) or "{}")
        return {name: value for name, value in start.items() if name not in _OF_A_START}

    def _as_failure(self, record: Record) -> tuple[str, str]:
        failed = {"run_id": record.run_id, **self._run_fields(record.run), **json.loads(record.body)}
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


def _is_effect(record: Record) -> bool:
    return record.do == "step" and json.loads(record.body).get("effect") is not False


def note_mended(record: Record, answer: Answer, lost: str) -> None:
    what = record.do, record.run_id, lost, answer.detail
    log.warning("redrive: the server refused the form of %s of %s; sent again without %s: %s", *what)
