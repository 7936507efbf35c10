"""The scenarios that every SDK must pass, played with this one."""

from __future__ import annotations

import sys
import unittest

from live import HERE
from play import Story, scenarios
from suite import main


class Scenarios(unittest.TestCase):
    pass


def _test(scenario: dict) -> object:
    def test(self: unittest.TestCase) -> None:
        Story(scenario, [sys.executable, str(HERE / "driver.py")]).play()

    return test


for each in scenarios():
    setattr(Scenarios, f"test_{each['name']}", _test(each))


if __name__ == "__main__":
    main(__file__)
