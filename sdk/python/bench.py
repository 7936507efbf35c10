"""What the SDK costs an agent: the same agent bare and inside a run, in turn, in one process. Prints one JSON object.

    REDRIVE_URL=… REDRIVE_KEY=… python3 sdk/python/bench.py [RUNS]"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

import redrive

STEPS = 5
EFFECTS_EVERY = 10


def work(n: int) -> dict[str, Any]:
    """What a step gives: about what a tool call does."""
    return {"invoice": n, "amount": 700, "currency": "EUR", "lines": ["one", "two", "three"]}


def ms(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def bare(n: int) -> None:
    for _ in range(STEPS):
        work(n)


def five_steps(run: redrive.Run, n: int) -> None:
    for _ in range(STEPS):
        run.do("look_up", lambda: work(n))


def measure(runs: int) -> dict[str, float]:
    seen: dict[str, list[float]] = {name: [] for name in ("bare", "start", "steps", "end", "effect")}
    for n in range(runs):
        seen["bare"].append(ms(partial(bare, n)))
        run = redrive.run(queue="bench", payload={"n": n})
        seen["start"].append(ms(run.__enter__))
        seen["steps"].append(ms(partial(five_steps, run, n)))
        if n % EFFECTS_EVERY == 0:
            seen["effect"].append(ms(partial(run.do, "charge", lambda: "ch_1", effect=True)))
        run.output = "done"
        seen["end"].append(ms(partial(run.__exit__, None, None, None)))
    assert redrive.flush(60)
    middle = {name: statistics.median(values) for name, values in seen.items()}
    return {
        "runs": runs,
        "start_ms": middle["start"],
        "five_steps_and_end_ms": middle["steps"] + middle["end"] - middle["bare"],
        "effect_ms": middle["effect"],
        "bare_ms": middle["bare"],
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as spool:
        redrive.configure(spool_dir=spool)
        measure(50)
        print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)))
