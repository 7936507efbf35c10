"""A PostgreSQL of the tests' own: in a temporary folder on a free port, gone with them."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def programs() -> Path | None:
    """Where the newest `initdb` is; none where PostgreSQL is not installed."""
    found = shutil.which("initdb") or next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), reverse=True)), None)
    return Path(found).parent if found else None


@contextmanager
def private_postgres() -> Iterator[str | None]:
    """The address of its first database; none where PostgreSQL is not installed."""
    where = programs()
    if where is None:
        yield None
        return
    # PostgreSQL refuses to run as root.
    become = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="redrive-postgres-") as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        os.chmod(folder, 0o777)
        data, user = f"{folder}/data", "redrive"
        subprocess.check_output([*become, str(where / "initdb"), "-D", data, "-U", user, "-A", "trust", "--no-sync"], cwd="/")
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c max_connections=200"
        control = [*become, str(where / "pg_ctl"), "-D", data, "-w", "-l", f"{folder}/log"]
        subprocess.check_output([*control, "-o", options, "start"], cwd="/", stdin=subprocess.DEVNULL)
        try:
            yield f"postgres://{user}@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], cwd="/", capture_output=True)
