"""Generators, streams and awaitables: they end when they are exhausted, closed or failed."""

from __future__ import annotations

import asyncio
from typing import Any

from fake import FakeCase
from suite import main

import redrive


class Lazy(FakeCase):
    def test_a_coroutine_handed_to_do_is_an_error(self) -> None:
        done = []

        async def pay() -> None:
            done.append(1)

        with self.client.run("lazy") as run:
            for work in (pay, lambda: pay()):
                with self.assertRaisesRegex(TypeError, "do_async"):
                    run.do("pay", work, key="k", effect=True)
        self.assertEqual(done, [])
        self.assertEqual([s["status"] for s in self.server.effects.values()], ["failed"])

    def test_a_generator_is_committed_when_it_is_exhausted(self) -> None:
        @redrive.effect
        def send(n: int) -> Any:
            for i in range(n):
                yield f"part {i} "

        with self.client.run("stream"):
            items = send(3)
            self.assertEqual(self.server.effects, {})
            self.assertEqual(next(items), "part 0 ")
            [key] = self.server.effects
            self.assertEqual(self.status(key), "started")
            self.assertEqual(list(items), ["part 1 ", "part 2 "])
            self.assertEqual(self.status(key), "committed")
        self.assertEqual(self.server.effects[key]["output"], "part 0 part 1 part 2 ")

    def test_a_generator_closed_early_leaves_its_effect_in_doubt(self) -> None:
        @redrive.effect
        def send() -> Any:
            yield 1
            yield 2

        with self.client.run("closed"):
            items = send()
            next(items)
            items.close()
        self.client.flush()
        self.assertEqual([s["status"] for s in self.server.effects.values()], ["unknown"])

    def test_an_awaitable_of_a_plain_function_is_committed_when_awaited(self) -> None:
        async def later() -> str:
            return "paid"

        @redrive.effect
        def pay() -> Any:
            return later()

        async def work() -> str:
            async with self.client.run("awaitable"):
                paying = pay()
                self.assertEqual([s["status"] for s in self.server.effects.values()], ["started"])
                return await paying

        self.assertEqual(asyncio.run(work()), "paid")
        self.assertEqual([s["output"] for s in self.server.effects.values()], ["paid"])

    def test_an_async_generator_is_committed_when_it_is_exhausted(self) -> None:
        @redrive.effect
        async def send() -> Any:
            yield 1
            yield 2

        async def work() -> list[int]:
            async with self.client.run("agen"):
                return [item async for item in send()]

        self.assertEqual(asyncio.run(work()), [1, 2])
        self.assertEqual([(s["status"], s["output"]) for s in self.server.effects.values()], [("committed", [1, 2])])

    def test_an_agent_that_streams_ends_with_its_stream(self) -> None:
        @redrive.agent(run_id=lambda n: f"stream-{n}", client=self.client)
        def write(n: int) -> Any:
            for i in range(n):
                self.assertEqual(redrive.current_run().run_id, "stream-2")
                yield f"{i} "

        items = write(2)
        self.assertEqual(self.server.runs, {})
        self.assertEqual(next(items), "0 ")
        self.assertIsNone(redrive.current_run())
        self.assertEqual(self.server.runs["stream-2"]["state"], "running")
        self.assertEqual(list(items), ["1 "])
        self.assertEqual(self.ended("stream-2"), ["succeed"])
        self.assertEqual(self.server.runs["stream-2"]["ends"][0][1]["output"], "0 1 ")

    def test_an_agent_whose_stream_fails_or_is_closed_has_failed(self) -> None:
        @redrive.agent(run_id=lambda how: how, client=self.client)
        async def write(how: str) -> Any:
            yield 1
            if how == "fails":
                raise ConnectionError("reset")
            yield 2

        async def work() -> None:
            with self.assertRaises(ConnectionError):
                async for _ in write("fails"):
                    pass
            items = write("closed")
            await items.__anext__()
            await items.aclose()

        asyncio.run(work())
        self.assertEqual((self.ended("fails"), self.ended("closed")), (["fail"], ["fail"]))
        self.assertEqual(self.server.runs["closed"]["ends"][0][1]["error"]["reason"], "cancelled")

    def test_an_agent_that_gives_a_stream_object_ends_with_it(self) -> None:
        class Stream:
            model = "gpt-5"

            def __init__(self) -> None:
                self.left = [1, 2]

            def __iter__(self) -> Any:
                return self

            def __next__(self) -> int:
                if not self.left:
                    raise StopIteration
                return self.left.pop(0)

        @redrive.agent(run_id=lambda n: "object", client=self.client)
        def write(n: int) -> Any:
            return Stream()

        stream = write(1)
        self.assertTrue(self.client.flush())
        self.assertEqual((stream.model, self.server.runs["object"]["state"]), ("gpt-5", "running"))
        self.assertEqual(list(stream), [1, 2])
        self.assertEqual(self.ended("object"), ["succeed"])

if __name__ == "__main__":
    main(__file__)
