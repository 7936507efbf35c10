"""Runs the tests of one file and prints as `cargo test` does, so that its figures join the project's own."""

from __future__ import annotations

import faulthandler
import os
import sys
import time
import traceback
import unittest

#: A test that takes longer is remarked on, as libtest does.
_SLOW_S = 60.0
#: A test that takes longer than this hangs: where it hangs is shown, and the file ends there.
_HANGS_S = 1_800.0


class _Result(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.passed = 0
        self._began = time.monotonic()
        self.broken: list[tuple[str, str]] = []

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._began = time.monotonic()
        faulthandler.dump_traceback_later(_HANGS_S, exit=True)

    def _say(self, test: unittest.TestCase, word: str) -> None:
        took = time.monotonic() - self._began
        if took > _SLOW_S:
            print(f"test {_name(test)} has been running for over 60 seconds")
        print(f"test {_name(test)} ... {word}", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.passed += 1
        self._say(test, "ok")

    def _break(self, test: unittest.TestCase, err: object) -> None:
        self.broken.append((_name(test), "".join(traceback.format_exception(*err))))  # type: ignore[misc]
        self._say(test, "FAILED")

    addFailure = addError = _break  # type: ignore[assignment]

    def addSubTest(self, test: unittest.TestCase, subtest: object, err: object) -> None:
        raise AssertionError("a case of its own is a test of its own")


def _name(test: unittest.TestCase) -> str:
    return test.id().rpartition(".")[2].removeprefix("test_")


def main(file: str, module: str = "__main__") -> None:
    """`file` is the test's `__file__`; a word on the command line picks the tests whose name contains it."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    everything = list(_flat(unittest.defaultTestLoader.loadTestsFromName(module)))
    chosen = [test for test in everything if wanted in _name(test)]
    here = os.path.relpath(file, os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    print(f"     Running {here} (tests/{os.path.basename(file).replace('.', '_')}-py)", flush=True)
    print(f"\nrunning {len(chosen)} tests")
    began, result = time.monotonic(), _Result()
    suite = unittest.TestSuite(chosen)
    suite.run(result)
    faulthandler.cancel_dump_traceback_later()
    for name, why in result.broken:
        print(f"\n---- {name} ----\n{why[-6000:]}")
    if result.broken:
        print("\nfailures:")
        for name, _ in result.broken:
            print(f"    {name}")
    word = "FAILED" if result.broken else "ok"
    took = time.monotonic() - began
    print(
        f"\ntest result: {word}. {result.passed} passed; {len(result.broken)} failed; 0 ignored; 0 measured; "
        f"{len(everything) - len(chosen)} filtered out; finished in {took:.2f}s",
        flush=True,
    )
    sys.exit(1 if result.broken else 0)


def _flat(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    found: list[unittest.TestCase] = []
    for test in suite:
        found.extend(_flat(test) if isinstance(test, unittest.TestSuite) else [test])
    return found
