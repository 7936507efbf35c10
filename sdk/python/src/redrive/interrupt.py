"""Ends Python code from outside when its time is up: the main thread by a signal, which also ends a blocking call;
another thread at its next line of Python. Code that blocks outside Python goes on until it returns: nobody can end it,
so what it does in the meantime is unknown."""

from __future__ import annotations

import ctypes
import signal
import threading
from typing import Any

from .errors import TimeLimit

_due: set[int] = set()
_ready = False


def prepare() -> None:
    """Called in the thread that may have to be ended. The signal is taken only where nobody else has asked for it."""
    global _ready
    if _ready or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        return
    if signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, None):
        signal.signal(signal.SIGALRM, _on_alarm)
        _ready = True


def _on_alarm(_signum: int, _frame: Any) -> None:
    if _due:
        _due.clear()
        raise TimeLimit("the time limit has passed")


def interrupt(thread: int) -> None:
    main = threading.main_thread().ident
    if thread == main and _ready:
        _due.add(thread)
        signal.pthread_kill(thread, signal.SIGALRM)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TimeLimit))


def call_off(thread: int) -> None:
    """The work ended in the same moment: what is on its way must not hit what comes after it."""
    _due.discard(thread)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)
