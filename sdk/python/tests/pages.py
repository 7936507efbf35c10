"""The examples of the docs: each block of Python is a program, and the block of text after it is what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from live import PATIENCE_S, ROOT, LiveCase

_BLOCK = re.compile(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", re.DOTALL)


def programs(page: str) -> list[tuple[str, str]]:
    """Those that say what they print."""
    text = (ROOT / "docs" / page).read_text()
    return [(code, printed) for code, printed in _BLOCK.findall(text) if printed]


def run_page(case: LiveCase, page: str) -> int:
    found = programs(page)
    for code, printed in found:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=case.environment(PYTHONPATH=":".join([str(Path(p)) for p in sys.path if p])),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        case.assertEqual(done.returncode, 0, done.stderr[-3000:])
        # CrewAI draws frames around what it does.
        said = [line for line in done.stdout.splitlines() if line in printed.splitlines()]
        case.assertEqual(said, printed.splitlines(), done.stdout[-3000:] + done.stderr[-2000:])
    return len(found)
