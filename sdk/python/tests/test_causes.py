"""The cause, not the noise: what a report says of an exception with a history."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from live import PATIENCE_S, LiveCase
from suite import main

from redrive.report import error_of


class RateLimited(Exception):
    status_code = 429


class ValidationError(Exception):
    """As pydantic's is, without pydantic."""

    __module__ = "pydantic_core"


def raised(call: Any) -> BaseException:
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - it is what is looked at
        return error
    raise AssertionError("nothing was raised")


class Causes(LiveCase):
    def reason(self, run_id: str, call: Any) -> str:
        with self.assertRaises(BaseException), self.client.run(run_id) as run:
            call()
        return str(run.outcome(PATIENCE_S).verdict["reason"])

    def async_reason(self, run_id: str, work: Any) -> str:
        async def main() -> None:
            try:
                await work(run_id)
            except (asyncio.CancelledError, asyncio.TimeoutError):
                pass

        asyncio.run(main())
        return str(self.settled(run_id, "scheduled", "dead")["reason"])

    async def hang(self, run_id: str) -> None:
        async with self.client.run(run_id):
            await asyncio.Event().wait()

    def test_a_timeout_inside_the_run_outranks_its_cancellation(self) -> None:
        async def work(run_id: str) -> None:
            async with self.client.run(run_id):
                await asyncio.wait_for(asyncio.Event().wait(), 0.05)

        self.assertEqual(self.async_reason("inner", work), "timeout")

    def test_a_timeout_around_the_run_outranks_its_cancellation(self) -> None:
        async def waits(run_id: str) -> None:
            await asyncio.wait_for(self.hang(run_id), 0.3)

        async def limits(run_id: str) -> None:
            async with asyncio.timeout(0.3):
                await self.hang(run_id)

        async def strikes_at_once(run_id: str) -> None:
            async with asyncio.timeout(0):
                await self.hang(run_id)

        self.assertEqual(self.async_reason("wait-for", waits), "timeout")
        if hasattr(asyncio, "timeout"):
            self.assertEqual(self.async_reason("timeout", limits), "timeout")
            self.assertEqual(self.async_reason("at-once", strikes_at_once), "timeout")

    def test_a_cancellation_by_hand_is_one(self) -> None:
        async def work(run_id: str) -> None:
            task = asyncio.ensure_future(self.hang(run_id))
            await asyncio.sleep(0.3)
            task.cancel()
            await task

        self.assertEqual(self.async_reason("by-hand", work), "cancelled")

    def test_an_incidental_context_is_not_the_cause(self) -> None:
        def call() -> None:
            try:
                raise RateLimited("Rate limit reached")
            except RateLimited:
                raise PermissionError("Invalid API key provided")

        told = error_of(raised(call))
        self.assertEqual((told["type"], told["message"], told.get("http_status")), ("PermissionError", "Invalid API key provided", None))
        self.assertNotIn("Rate limit", told["detail"])
        self.assertEqual(self.reason("context", call), "auth_failed")

    def test_a_cause_counts_with_all_it_carries(self) -> None:
        def call() -> None:
            try:
                raise RateLimited("Rate limit reached")
            except RateLimited as error:
                raise RuntimeError("could not bill") from error

        told = error_of(raised(call))
        self.assertEqual((told["type"], told["http_status"]), ("RateLimited", 429))
        self.assertEqual(self.reason("cause", call), "rate_limited")

    def test_a_wordless_exception_is_told_by_its_context(self) -> None:
        def call() -> None:
            try:
                raise ConnectionResetError("Connection reset by peer")
            except ConnectionResetError:
                raise RuntimeError

        self.assertEqual(self.reason("wordless", call), "network")

    def test_a_validation_error_outranks_its_wrappers_words(self) -> None:
        def call() -> None:
            try:
                raise ValidationError("1 validation error for Invoice\namount\n  Field required [type=missing]")
            except ValidationError as error:
                raise RuntimeError("Request timed out while reading the answer") from error

        self.assertEqual(self.reason("invalid", call), "schema_mismatch")

    def test_unreadable_json_outranks_its_wrappers_words(self) -> None:
        def call() -> None:
            try:
                json.loads("{")
            except ValueError as error:
                raise RuntimeError("the connection to the model timed out") from error

        self.assertEqual(self.reason("unreadable", call), "malformed_output")

    def test_file_names_say_nothing_of_the_cause(self) -> None:
        def at(path: str) -> Any:
            return eval(compile("lambda: {}['no such invoice']", path, "eval"))

        named = at("/app/rate_limit/connection_refused_timeout.py")
        self.assertEqual(self.reason("plain-path", at("x.py")), self.reason("named-path", named))


if __name__ == "__main__":
    main(__file__)
