"""What becomes of Python values on their way: their forms, their bounds, and that none of them hurts the agent."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import logging
import types
import unittest
import uuid
from pathlib import Path
from typing import Any
from unittest import mock

from fake import FakeCase
from suite import main

from redrive import encode
from redrive.encode import dumps, payload_fields


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    at: datetime.datetime


Pair = collections.namedtuple("Pair", "left right")


class Model:
    """As pydantic's are."""

    def model_dump(self, mode: str = "python") -> dict[str, Any]:
        return {"mode": mode}


class Forms(unittest.TestCase):
    def becomes(self, value: Any, wanted: Any) -> None:
        self.assertEqual(json.loads(dumps({"v": value}))["v"], wanted)

    def test_dates_and_times_are_iso_texts(self) -> None:
        at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
        self.becomes([at, at.date(), at.time(), datetime.timedelta(minutes=1)], [at.isoformat(), "2026-01-02", "03:04:05", 60.0])

    def test_numbers_that_json_lacks_are_texts(self) -> None:
        self.becomes([decimal.Decimal("1.10"), float("nan"), float("-inf")], ["1.10", "NaN", "-Infinity"])
        self.becomes(10**5000, {"$int": hex(10**5000)})
        self.becomes(2**70, 2**70)

    def test_bytes_say_what_they_are(self) -> None:
        self.becomes(b"\x00\xff", {"$base64": "AP8="})

    def test_objects_with_fields_are_objects(self) -> None:
        at = datetime.datetime(2026, 1, 2)
        self.becomes(Point(1, at), {"x": 1, "at": "2026-01-02T00:00:00"})
        self.becomes([Pair(1, 2), Model(), Colour.RED], [{"left": 1, "right": 2}, {"mode": "json"}, "red"])
        self.becomes([uuid.UUID(int=1), Path("/a")], [str(uuid.UUID(int=1)), "/a"])

    def test_sets_have_an_order_and_odd_keys_a_text(self) -> None:
        self.becomes({"b", "a", "c"}, ["a", "b", "c"])
        self.becomes({1: "a", Colour.RED: "b", None: "c"}, {"1": "a", "red": "b", "null": "c"})
        self.becomes({1: "a", "1": "b"}, {"$pairs": [[1, "a"], ["1", "b"]]})

    def test_what_has_no_form_says_so(self) -> None:
        self.becomes(ValueError("no"), {"$type": "builtins.ValueError", "$text": "no"})
        _, warning = payload_fields({"api": threading_lock()})
        self.assertIn("_thread.lock", str(warning))

    def test_text_is_utf8_and_lone_surrogates_are_escaped(self) -> None:
        self.assertEqual(dumps("für 漢字"), '"für 漢字"')
        self.assertEqual(encode.body({"a": "漢", "b": "\ud800"}), '{"a":"漢","b":"\\ud800"}')
        self.assertEqual(encode.size_of(dumps("漢" * 1000)), 3002)

    def test_numpy_and_pandas_have_their_forms(self) -> None:
        try:
            import numpy
            import pandas
        except ImportError:
            self.check_lookalikes()
            return
        self.becomes([numpy.int64(7), numpy.float32(0.5), numpy.array([[1, 2]]), numpy.bool_(True)], [7, 0.5, [[1, 2]], True])
        frame = pandas.DataFrame({"a": [1, 2]}, index=["x", "y"])
        self.becomes(frame, {"index": ["x", "y"], "columns": ["a"], "data": [[1], [2]]})
        self.becomes([pandas.Timestamp("2026-01-02"), pandas.NaT, pandas.NA], ["2026-01-02T00:00:00", None, None])

    def check_lookalikes(self) -> None:
        kind = type("ndarray", (), {"__module__": "numpy", "size": 2, "tolist": lambda self: [1, 2]})
        self.becomes(kind(), [1, 2])


def threading_lock() -> Any:
    import threading

    return threading.Lock()


class Bounds(unittest.TestCase):
    def encoded(self, value: Any) -> str:
        text = dumps(value)
        self.assertLess(len(text), 64 * 1024 * 1024)
        json.loads(text)
        return text

    def test_a_shared_value_is_not_written_without_end(self) -> None:
        value: Any = "x" * 100
        for _ in range(30):
            value = [value] * 10
        self.encoded(value)

    def test_depth_width_and_cycles_are_bounded(self) -> None:
        deep: Any = []
        for _ in range(100_000):
            deep = [deep]
        loop: dict[str, Any] = {}
        loop["self"] = loop
        self.encoded(deep)
        self.encoded(list(range(2_000_000)))
        self.assertEqual(self.encoded(loop), '{"self":{"$cycle":"dict"}}')

    def test_hostile_objects_neither_hang_nor_raise(self) -> None:
        class Hostile:
            def __getattr__(self, name: str) -> Any:
                return self

            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return self

            def __iter__(self) -> Any:
                return iter(int, 1)

            def __str__(self) -> str:
                raise RuntimeError("no")

        class Raises(dict):  # type: ignore[type-arg]
            def items(self) -> Any:
                raise RuntimeError("no")

        endless = types.MappingProxyType({})
        for value in (Hostile(), mock.MagicMock(), Raises(a=1), endless, iter(int, 1), type, lambda: 1):
            self.encoded(value)

    def test_a_truncated_payload_is_marked_as_omitted(self) -> None:
        fields, warning = payload_fields(list(range(2_000_000)))
        self.assertEqual((list(fields), "can't be replayed" in str(warning)), (["payload_omitted"], True))


class Recorded(FakeCase):
    def test_a_value_of_any_kind_is_returned_unchanged(self) -> None:
        values = [b"\x00", {1, 2}, Point(1, datetime.datetime(2026, 1, 2)), mock.MagicMock(), float("nan"), 10**5000]
        with self.assertLogs("redrive", logging.WARNING), self.client.run("values", payload=values) as run:
            for value in values:
                self.assertIs(run.do("plain", lambda value=value: value), value)
                self.assertIs(run.do("effect", lambda value=value: value, effect=True), value)
            run.output = values
        self.assertEqual(self.ended("values"), ["succeed"])
        self.assertIs(run.payload, values)


if __name__ == "__main__":
    main(__file__)
