"""What could not be said yet, on disk: one append-only file a process, synced before anybody relies on it, mode 0600.

Its owner holds a lock on it as long as it lives. A process that gets the lock of a file (the next process of the same server
and tenant, or `redrive spool send`) may send what the owner could not. Beside `NAME.spool` lies `NAME.sent`: how far
it has been sent, and under which leases; a crash in between sends some lines again, which changes nothing."""

from __future__ import annotations

import glob
import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from .logs import log
from .record import Record, record_of, sealed, unsealed

try:
    import fcntl
except ImportError:  # pragma: no cover - not POSIX: each process then sends its own file only
    fcntl = None  # type: ignore[assignment]


#: The end of the name of a file with late effects, before `.spool`.
_LATE = "-late"


class SpoolFull(Exception):
    """The bound is reached, or the disk is full: it was not kept."""


def lock(file: IO[bytes]) -> bool:
    if fcntl is None:  # pragma: no cover
        return False
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


class SpoolFile:
    """One file, with the place up to which it has been sent."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self.file = file
        self.leases: dict[str, str | None] = {}
        self.sent_to = 0
        mark = _read_mark(path.with_suffix(".sent"))
        if mark is not None:
            self.sent_to, self.leases = int(mark["to"]), dict(mark["leases"])

    @property
    def is_late(self) -> bool:
        """Whether it holds the late effects of one run."""
        return self.path.stem.endswith(_LATE)

    def records(self) -> Iterator[tuple[Record | None, int, bytes]]:
        """What is yet to be sent, each with the place after it and its bytes; none for a line that can't be read."""
        with open(self.path, "rb") as file:
            file.seek(self.sent_to)
            for line in file:
                if not line.endswith(b"\n"):
                    # Still being written, or cut off by a crash: then nobody was told that it is there.
                    return
                end = file.tell()
                fields = unsealed(line)
                if fields is not None and "v" in fields:
                    continue
                yield (record_of(fields) if fields else None, end, line)

    def torn(self) -> bytes:
        """What is left after the last whole line."""
        with open(self.path, "rb") as file:
            file.seek(self.sent_to)
            rest = file.read()
        return rest[rest.rfind(b"\n") + 1 :]

    def starts(self) -> dict[str, str]:
        """The bodies of all starts, sent or not."""
        found = {}
        with open(self.path, "rb") as file:
            for line in file:
                fields = unsealed(line)
                record = record_of(fields) if fields else None
                if record is not None and record.do == "start":
                    found[record.run] = record.body
        return found

    def mark(self, to: int, sync: bool) -> None:
        """Atomic. A lease that was given is synced: under it all that follows may be sent twice, without it a start that
        was answered and has ended would be started again."""
        self.sent_to = to
        path = self.path.with_suffix(".sent")
        fresh = path.with_suffix(".new")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(sealed({"to": to, "leases": self.leases}))
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(fresh, path)

    def remove(self) -> None:
        for path in (self.path, self.path.with_suffix(".sent")):
            path.unlink(missing_ok=True)
        self.file.close()


def _read_mark(path: Path) -> dict[str, Any] | None:
    try:
        return unsealed(path.read_bytes())
    except OSError:
        return None


class Spool:
    """This process's file, and those that others left behind."""

    def __init__(self, folder: Path, url: str, tenant: str | None, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._head = {"v": 1, "url": url.rstrip("/"), "tenant": tenant}
        self._own: SpoolFile | None = None
        self._size = 0
        # A destructor that ends a stream may run in the middle of our own code, in the same thread.
        self._lock = threading.RLock()
        self._drained = threading.Condition(self._lock)
        #: Runs of this process of which a line has not been sent yet: all that follows of them has to queue behind it.
        self._waiting: set[str] = set()
        self._others: tuple[int, float] = (0, 0.0)

    @property
    def folder(self) -> Path:
        return self._folder

    def append(self, *records: Record) -> None:
        """On disk when it returns."""
        lines = b"".join(record.line() for record in records)
        with self._lock:
            if self._size + self._left_by_others() + len(lines) > self._max_bytes:
                raise SpoolFull(f"the spool in {self._folder} has reached its limit of {self._max_bytes} bytes")
            try:
                own = self._open()
                _write_all(own.file, lines)
                os.fsync(own.file.fileno())
            except OSError as error:
                if self._own is not None:
                    # Half a line would spoil the next one.
                    os.ftruncate(self._own.file.fileno(), self._size)
                raise SpoolFull(f"the spool in {self._folder}: {error}") from error
            self._size += len(lines)
            self._waiting.update(record.run for record in records)

    def has(self, run: str) -> bool:
        """Whether something said of the run still waits here."""
        return run in self._waiting

    def wait_clear(self, run: str, seconds: float) -> bool:
        with self._drained:
            return self._drained.wait_for(lambda: run not in self._waiting, seconds)

    @property
    def empty(self) -> bool:
        return not self._waiting

    def own(self) -> SpoolFile | None:
        return self._own

    def clear_if_sent(self, to: int) -> bool:
        """Gives the file up once all of it is sent; what is appended later makes a new one."""
        with self._lock:
            if self._own is None or to < self._size:
                return False
            self._own.remove()
            self._own, self._size = None, 0
            self._waiting.clear()
            self._drained.notify_all()
            return True

    def left_behind(self) -> Iterator[SpoolFile]:
        """Files whose owners are gone, for the same server and tenant, each locked while it is looked at."""
        for path in sorted(self._folder.glob("*.spool")) if self._folder.is_dir() else ():
            own = self._own
            if own is not None and path == own.path:
                continue
            try:
                file = open(path, "rb+")  # noqa: SIM115 - it is locked as long as it is open
            except OSError:
                continue
            with file:
                if lock(file) and path.exists() and self._is_for_us(file):
                    yield SpoolFile(path, file)

    def write_late(self, run: str, record: Record) -> SpoolFile:
        """A separate file for one report, synced, and locked until its holder closes it."""
        lines = sealed(self._head) + record.line()
        with self._lock:
            if self._size + self._left_by_others() + len(lines) > self._max_bytes:
                raise SpoolFull(f"the spool in {self._folder} has reached its limit of {self._max_bytes} bytes")
            try:
                self._make_folder()
                path = self._new_path(f"{run}{_LATE}")
                # Under another name until it is whole: nobody sends half of it.
                fresh = path.with_suffix(".fresh")
                file = open(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)  # noqa: SIM115
                lock(file)
                _write_all(file, lines)
                os.fsync(file.fileno())
                os.replace(fresh, path)
                _sync_folder(self._folder)
            except OSError as error:
                raise SpoolFull(f"the spool in {self._folder}: {error}") from error
            return SpoolFile(path, file)

    def late_of(self, run: str) -> SpoolFile | None:
        """The late effects of a run whose process is gone, locked."""
        for path in sorted(self._folder.glob(f"*-{glob.escape(run)}{_LATE}.spool"), reverse=True):
            try:
                file = open(path, "rb+")  # noqa: SIM115 - it is locked as long as it is open
            except OSError:
                continue
            if lock(file) and path.exists() and self._is_for_us(file):
                return SpoolFile(path, file)
            file.close()
        return None

    def lose_own(self) -> None:
        """Somebody has removed the file from under us."""
        with self._lock:
            if self._own is not None:
                log.error("redrive: the spool file %s was removed; its reports are lost", self._own.path)
                self._own.file.close()
            self._own, self._size = None, 0
            self._waiting.clear()
            self._drained.notify_all()

    def set_aside(self, record: Record, why: str) -> None:
        """What the server will never take is kept for a person, up to the same bound."""
        path = self._folder / "refused.jsonl"
        text = json.dumps({"at": time.time(), "why": why, "do": record.do, "run_id": record.run_id, "body": record.body})
        try:
            self._make_folder()
            if path.exists() and path.stat().st_size + len(text) > self._max_bytes:
                return
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
                file.write(text + "\n")
        except OSError as error:
            log.warning("redrive: a refused report could not be set aside: %s", error)

    def set_aside_line(self, raw: bytes) -> Path:
        """A line that can't be read is kept as it is, for a person."""
        path = self._folder / "unreadable.spool-lines"
        try:
            self._make_folder()
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
                file.write(raw if raw.endswith(b"\n") else raw + b"\n")
        except OSError as error:
            log.error("redrive: an unreadable line could not be set aside: %s", error)
        return path

    def forget(self) -> None:
        """In a forked child: the file is the parent's."""
        self._lock = threading.RLock()
        self._drained = threading.Condition(self._lock)
        self._own, self._size, self._waiting = None, 0, set()

    def _open(self) -> SpoolFile:
        if self._own is None:
            self._make_folder()
            path = self._new_path(uuid.uuid4().hex[:8])
            file = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600), "ab", buffering=0)  # noqa: SIM115
            lock(file)
            head = sealed(self._head)
            _write_all(file, head)
            self._own, self._size = SpoolFile(path, file), len(head)
            _sync_folder(self._folder)
        return self._own

    def _new_path(self, mark: str) -> Path:
        return self._folder / f"{time.time_ns():020d}-{os.getpid()}-{mark}.spool"

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _is_for_us(self, file: IO[bytes]) -> bool:
        return unsealed(file.readline()) == self._head

    def _left_by_others(self) -> int:
        """Looked up at most once a second: the bound is for the disk, not for the byte."""
        size, since = self._others
        if time.monotonic() - since > 1.0:
            paths = self._folder.glob("*.spool") if self._folder.is_dir() else ()
            own = self._own.path if self._own else None
            size = 0
            for path in paths:
                try:
                    size += 0 if path == own else path.stat().st_size
                except OSError:
                    continue
            self._others = (size, time.monotonic())
        return size


def _write_all(file: IO[bytes], data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def _sync_folder(folder: Path) -> None:
    """A new file's name is on disk only when its folder is."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
