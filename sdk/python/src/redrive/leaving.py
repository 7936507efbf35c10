"""What is reported when the process ends with runs under way: on exit, and on SIGTERM unless another handler is set.
A process that is killed says nothing; its runs are found by their silence."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from . import ending

if TYPE_CHECKING:
    from .client import Client

_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_registered = False


def watch(client: Client) -> None:
    global _registered
    _clients.add(client)
    if not _registered:
        _registered = True
        atexit.register(_at_exit)
        _watch_multiprocessing()
    if client.settings.catch_sigterm and not client.settings.off:
        _catch_sigterm()


def unwatch(client: Client) -> None:
    _clients.discard(client)


def forget() -> None:
    """In a forked child."""
    for client in list(_clients):
        client.forget()
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        # Its children end by `os._exit`, which runs its own finalizers and no others; those of the parent it forgets first.
        util.register_after_fork(_clients, lambda _: _watch_multiprocessing())


def _watch_multiprocessing() -> None:
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, _at_exit, exitpriority=10)


def _at_exit() -> None:
    for client in list(_clients):
        for run in client.open_runs():
            run.abandon(ending.process_ends)
        client.close()


def _catch_sigterm() -> None:
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(_signum: int, _frame: Any) -> None:
    # Not here: the main thread may hold any lock at this line.
    threading.Thread(target=_leave_by_sigterm, name="redrive-sigterm").start()


def _leave_by_sigterm() -> None:
    """Reports, then lets the signal do what it would have done without us."""
    try:
        for client in list(_clients):
            for run in client.open_runs():
                run.abandon(ending.told_to_stop)
            client.close()
    finally:
        os.kill(os.getpid(), signal.SIGKILL) if not _default_again() else os.kill(os.getpid(), signal.SIGTERM)


def _default_again() -> bool:
    """Only the main thread may set a handler; libc's own way is open to all."""
    import ctypes

    try:
        libc = ctypes.CDLL(None)
        libc.signal.restype = ctypes.c_void_p
        libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
        libc.signal(signal.SIGTERM, None)
        return True
    except (OSError, AttributeError):
        return False
