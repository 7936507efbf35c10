"""One HTTP call with a bound on its time, over connections that are kept. Knows nothing of runs."""

from __future__ import annotations

import http.client
import io
import ipaddress
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from .context import start_daemon
from .logs import keep_secret, redact

#: The server closes idle connections after 30 s: one that may be closing is not used.
_IDLE_MAX_S = 15.0
_IDLE_MAX_CONNECTIONS = 64
_ADDRESS_KEPT_S = 30.0
_ANSWER_MAX_BYTES = 64 * 1024 * 1024


T = TypeVar("T")
#: Path, body, and the field that every good answer has.
Call = tuple[str, str, "str | None"]


class Away(Exception):
    """No answer, or one that says to come back: nothing is known to have been stored."""

    def __init__(self, why: str, status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.retry_after_s = retry_after_s


class NotRedrive(Away):
    """Something answers, and it is not a Redrive server: a redirect, a page, another API. The address is wrong."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        """The problem's stable code; empty for an answer that is none."""
        code = self.body.get("code") if isinstance(self.body, dict) else None
        return code if isinstance(code, str) else ""

    @property
    def detail(self) -> str:
        found = self.body.get("detail") if isinstance(self.body, dict) else None
        return found if isinstance(found, str) else f"HTTP {self.status}"


class Transport:
    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        self.url = url
        self._host = parts.hostname or ""
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self._prefix = parts.path.rstrip("/")
        self._key = key.strip()
        keep_secret(self._key)
        if parts.password:
            keep_secret(parts.password)
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._address: tuple[Any, float] | None = None

    def post(self, path: str, body: str, wait_s: float, has: str | None = None) -> Answer:
        """`has` is a field that every good answer to this call has: without it somebody else has answered."""
        data = body.encode("utf-8", "backslashreplace")
        return _checked(self._over_a_connection(lambda connection, until: self._ask(connection, path, data, until), wait_s), has)

    def post_many(self, calls: Sequence[Call], wait_s: float) -> list[Answer | Away]:
        """Several calls in one round trip: all are sent over one connection before the first answer is read, and the server
        works on them in order. Where a call has no answer, what it met instead is in its place."""
        met: list[Answer | Away] = []
        try:
            self._over_a_connection(lambda connection, until: self._ask_many(connection, calls, until, met), wait_s)
        except Away as away:
            met += [away] * (len(calls) - len(met))
        return met

    def _over_a_connection(self, talk: Callable[[http.client.HTTPConnection, float], T], wait_s: float) -> T:
        if not self._key:
            raise Away("no key: set REDRIVE_KEY, or redrive.configure(key=…)")
        until = time.monotonic() + wait_s
        kept = self._take()
        if kept is not None:
            try:
                return talk(kept, until)
            except (http.client.RemoteDisconnected, ConnectionError):
                # The server had closed it while it lay idle. Every call of ours may be sent twice.
                kept.close()
            except (OSError, http.client.HTTPException, ValueError) as error:
                kept.close()
                raise Away(_words(error)) from error
        connection = None
        try:
            connection = self._connect(until)
            return talk(connection, until)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if connection is not None:
                connection.close()
            raise Away(_words(error)) from error

    def _ask(self, connection: http.client.HTTPConnection, path: str, body: bytes, until: float) -> Answer:
        _bound(connection, until)
        connection.request("POST", self._prefix + path, body=body, headers=self._headers())
        response = connection.getresponse()
        raw = response.read(_ANSWER_MAX_BYTES)
        self._keep_or_close(connection, response.will_close)
        return _answer(response, raw)

    def _ask_many(
        self, connection: http.client.HTTPConnection, calls: Sequence[Call], until: float, met: list[Answer | Away]
    ) -> None:
        met.clear()
        _bound(connection, until)
        connection.sock.sendall(b"".join(self._written(path, body) for path, body, _ in calls))
        will_close = False
        with connection.sock.makefile("rb") as buffer:
            for _, _, has in calls:
                response = http.client.HTTPResponse(_OneOfMany(buffer), method="POST")  # type: ignore[arg-type]
                response.begin()
                raw = response.read(_ANSWER_MAX_BYTES)
                try:
                    met.append(_checked(_answer(response, raw), has))
                except Away as away:
                    met.append(away)
                if will_close := response.will_close:
                    break
        met += [Away("the server closed the connection")] * (len(calls) - len(met))
        self._keep_or_close(connection, will_close)

    def _written(self, path: str, body: str) -> bytes:
        """A request as `http.client` writes it: a connection of its own would wait for the answer before the next one."""
        connection, sock = http.client.HTTPConnection(self._host, self._port), _Written()
        connection.sock = sock
        connection.request("POST", self._prefix + path, body=body.encode("utf-8", "backslashreplace"), headers=self._headers())
        return b"".join(sock.parts)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}", "User-Agent": "redrive-python", "Content-Type": "application/json"}

    def _keep_or_close(self, connection: http.client.HTTPConnection, will_close: bool) -> None:
        if will_close:
            connection.close()
        else:
            self._keep(connection)

    def _connect(self, until: float) -> http.client.HTTPConnection:
        address = self._resolve(until)
        sock = socket.create_connection(address, timeout=_left(until))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            sock = self._tls.wrap_socket(sock, server_hostname=self._host)
        connection = http.client.HTTPConnection(self._host, self._port)
        connection.sock = _BoundedSocket(sock)
        return connection

    def _resolve(self, until: float) -> tuple[str, int]:
        """Names are looked up beside the agent: the system's look-up has no time limit of its own."""
        try:
            ipaddress.ip_address(self._host)
            return (self._host, self._port)
        except ValueError:
            pass
        if self._address is not None and time.monotonic() - self._address[1] < _ADDRESS_KEPT_S:
            return (str(self._address[0]), self._port)
        found: list[Any] = []

        def look() -> None:
            try:
                found.append(socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)[0][4][0])
            except OSError as error:
                found.append(error)

        thread = start_daemon("redrive-lookup", look)
        if thread is None:
            look()
        else:
            thread.join(_left(until))
        if not found:
            raise TimeoutError(f"{self._host} could not be resolved in time")
        if isinstance(found[0], OSError):
            raise found[0]
        self._address = (found[0], time.monotonic())
        return (str(found[0]), self._port)

    def _take(self) -> http.client.HTTPConnection | None:
        with self._lock:
            if self._pid != os.getpid():
                # A forked child must not speak over its parent's connections.
                self._idle, self._pid = [], os.getpid()
            while self._idle:
                connection, since = self._idle.pop()
                if time.monotonic() - since < _IDLE_MAX_S:
                    return connection
                connection.close()
        return None

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _IDLE_MAX_CONNECTIONS and self._pid == os.getpid():
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()

    def forget(self) -> None:
        """In a forked child: the connections are the parent's, and its threads may hold the lock."""
        self._lock, self._idle, self._pid = threading.RLock(), [], os.getpid()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time for the call is up")
    return left


class _BoundedSocket:
    """A socket with one time limit for a whole call. A plain socket's timeout restarts with each byte, so that a server
    which drips them, or answers `100 Continue` for ever, would hold the agent without end."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self.until = sock, 0.0
        self._files, self._closed = 0, False

    def sendall(self, data: Any) -> None:
        self._sock.settimeout(_left(self.until))
        self._sock.sendall(data)

    def recv_into(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self.until))
        return self._sock.recv_into(buffer)

    def makefile(self, _mode: str = "rb") -> io.BufferedReader:
        self._files += 1
        return io.BufferedReader(_Reader(self))

    def file_closed(self) -> None:
        self._files -= 1
        if self._closed and self._files <= 0:
            self._sock.close()

    def close(self) -> None:
        """A response that ends with the connection is still to be read."""
        self._closed = True
        if self._files <= 0:
            self._sock.close()


class _Reader(io.RawIOBase):
    def __init__(self, sock: _BoundedSocket) -> None:
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._sock.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._sock.file_closed()


class _Written:
    """Stands for a socket, and keeps what is sent."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.parts.append(data)

    def close(self) -> None:
        pass


class _OneOfMany:
    """Stands for the socket of one answer among several on a connection: they share a buffer, and none closes it."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer

    def makefile(self, _mode: str = "rb") -> _OneOfMany:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buffer, name)

    def close(self) -> None:
        pass


def _bound(connection: http.client.HTTPConnection, until: float) -> None:
    if isinstance(connection.sock, _BoundedSocket):
        connection.sock.until = until


def _checked(answer: Answer, has: str | None) -> Answer:
    if answer.ok and has is not None and not (isinstance(answer.body, dict) and has in answer.body):
        raise NotRedrive(f"{answer.status} without {has!r} in its answer", answer.status)
    return answer


def _answer(response: http.client.HTTPResponse, raw: bytes) -> Answer:
    status = response.status
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = None
    if 300 <= status < 400:
        raise NotRedrive(f"{status} redirects to {response.getheader('Location') or 'nowhere'}", status)
    answer = Answer(status, body)
    after_s = _seconds(response.getheader("Retry-After"))
    # A key that is wrong today may be right tomorrow; what was to be said is kept until then.
    if status in (401, 403, 408, 429) or status >= 500 or answer.code in ("wrong_tenant", "tenant_required"):
        raise Away(f"{status} {answer.code} {answer.detail}".strip(), status, after_s)
    if not isinstance(body, (dict, list)):
        raise NotRedrive(f"{status} without JSON from {response.getheader('Server') or 'an unnamed server'}", status)
    if not answer.ok and not answer.code:
        raise NotRedrive(f"{status} without a code in its answer", status)
    return answer


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None


def _words(error: BaseException) -> str:
    return redact(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
