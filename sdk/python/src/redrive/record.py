"""One thing said of a run: what travels to the server, and what waits in the spool until it can.

A line of the spool is the CRC-32 of the rest as eight hex digits, a space, and one JSON object:

    {"do": "start" | "step" | "succeed" | "fail" | "release",
     "run": the start's id, which ties the lines of one attempt together,
     "run_id": …, "tenant": … or null, "lease": … or null while the start is not answered,
     "body": the request's JSON as a text, without the lease}

Every sender puts the lease in front of the body's text and changes nothing else, so that the same line is always the
same bytes, and the server recognises a resend."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

ENDS = frozenset({"succeed", "fail", "release"})


@dataclass(frozen=True)
class Record:
    do: str
    run: str
    run_id: str
    body: str
    tenant: str | None = None
    lease: str | None = None

    def with_body(self, body: str) -> Record:
        return replace(self, body=body)

    def under(self, lease: str | None) -> Record:
        return self if lease is None or self.lease is not None else replace(self, lease=lease)

    @property
    def answered_with(self) -> str:
        """A field of every good answer to it."""
        return "status" if self.do == "step" else "state"

    @property
    def path(self) -> str:
        tenant = "?" + urlencode({"tenant": self.tenant}) if self.tenant else ""
        if self.do == "start":
            return f"/v1/runs{tenant}"
        verb = "steps" if self.do == "step" else self.do
        return f"/v1/runs/{quote(self.run_id, safe='')}/{verb}{tenant}"

    @property
    def wire(self) -> str:
        if self.do == "start" or self.lease is None:
            return self.body
        rest = self.body[1:]
        return '{"lease":' + json.dumps(self.lease) + ("" if rest == "}" else ",") + rest

    def line(self) -> bytes:
        fields = {
            "do": self.do,
            "run": self.run,
            "run_id": self.run_id,
            "tenant": self.tenant,
            "lease": self.lease,
            "body": self.body,
        }
        return sealed(fields)


def sealed(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def unsealed(line: bytes) -> dict[str, Any] | None:
    """The object of a line; none for one that was cut off or has changed since."""
    crc, _, text = line.rstrip(b"\n").partition(b" ")
    try:
        if not line.endswith(b"\n") or int(crc, 16) != zlib.crc32(text):
            return None
        fields = json.loads(text)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def record_of(fields: dict[str, Any]) -> Record | None:
    try:
        return Record(
            do=fields["do"],
            run=fields["run"],
            run_id=fields["run_id"],
            body=fields["body"],
            tenant=fields.get("tenant"),
            lease=fields.get("lease"),
        )
    except KeyError:
        return None
