"""Agents that do their worst: nothing of theirs is lost, doubled or hung by our doing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any
from unittest import mock

from fake import FakeCase
from live import PATIENCE_S, SRC, until
from suite import main

import redrive
from redrive import heartbeat, timers


def beside(call: Callable[[], Any]) -> Any:
    """Does it in a thread of its own, so that a deadlock is a failure and not the end of all tests."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    if not found:
        raise AssertionError("it hangs, or has raised")
    return found[0]


class Hostile(FakeCase):
    def test_a_stream_collected_under_our_locks_hangs_nobody(self) -> None:
        @redrive.effect
        def pay(what: str) -> Generator[str, None, None]:
            yield what
            yield what

        def work() -> bool:
            self.server.away = True
            with self.client.run("collected") as run:
                for lock in (run.evidence._lock, self.client.spool._lock, self.client.sender._wake, self.client.sender._spooling):
                    stream = pay(str(id(lock)))
                    next(stream)
                    cycle: list[Any] = [stream]
                    cycle.append(cycle)
                    del stream
                    with lock:
                        del cycle
                        gc.collect()
            self.server.away = False
            self.client.sender._retry_at = 0.0
            return True

        self.assertTrue(beside(work))
        self.assertEqual(self.ended("collected"), ["fail"])
        self.assertEqual({step["status"] for step in self.server.effects.values()}, {"unknown"})

    def test_runs_nested_until_the_stack_is_full_all_end(self) -> None:
        def dive(depth: int) -> None:
            with self.client.run(f"deep-{depth}"):
                dive(depth + 1)

        limit = sys.getrecursionlimit()
        self.addCleanup(sys.setrecursionlimit, limit)
        sys.setrecursionlimit(len(inspect.stack(0)) + 150)
        with self.assertRaises(RecursionError):
            dive(0)
        sys.setrecursionlimit(limit)
        # Where no call at all was possible any more, the end of the process is the end of the run.
        until(lambda: len(self.client.open_runs()) <= 3, "the runs have ended")
        self.client.close(PATIENCE_S)
        open_still = {run.run_id for run in self.client.open_runs()}
        lost = [name for name, run in self.server.runs.items() if len(run["ends"]) != 1 and name not in open_still]
        self.assertEqual(lost, [])
        self.assertGreater(len(self.server.runs), 10)

    def test_ctrl_c_while_an_outcome_is_told_keeps_it(self) -> None:
        post, struck = self.server.post, []

        def interrupted(path: str, body: str, wait_s: float, has: str | None = None) -> Any:
            if '"committed"' in body and not struck:
                struck.append(path)
                raise KeyboardInterrupt
            return post(path, body, wait_s, has)

        self.server.post = interrupted  # type: ignore[method-assign]
        with self.assertRaises(KeyboardInterrupt), self.client.run("ctrl-c") as run:
            run.do("pay", lambda: "paid", effect=True)
        self.assertEqual((self.ended("ctrl-c"), self.status("ctrl-c:pay")), (["fail"], "committed"))

    def test_ctrl_c_while_the_end_is_handed_over_keeps_it(self) -> None:
        put, struck = self.client.sender.put, []

        def interrupted(record: Any) -> Any:
            if record.do == "succeed" and not struck:
                struck.append(record)
                raise KeyboardInterrupt
            return put(record)

        self.client.sender.put = interrupted  # type: ignore[method-assign]
        with self.assertRaises(KeyboardInterrupt), self.client.run("ctrl-c-end") as run:
            run.output = "done"
        self.assertEqual(self.ended("ctrl-c-end"), ["succeed"])

    def test_a_result_that_fights_comparison_is_committed(self) -> None:
        class Fights:
            def __eq__(self, other: object) -> bool:
                raise ValueError("the truth value is ambiguous")

            def __bool__(self) -> bool:
                raise ValueError("the truth value is ambiguous")

            __hash__ = None  # type: ignore[assignment]

        for name, value in (("status", {"status": Fights()}), ("error", {"error": Fights()})):
            with self.client.run(f"fights-{name}") as run:
                self.assertIs(run.do("pay", lambda value=value: value, effect=True), value)
            self.assertEqual(self.ended(f"fights-{name}"), ["succeed"])
            self.assertEqual(self.status(f"fights-{name}:pay"), "committed")

    def test_runs_left_in_the_wrong_order_leave_none_behind(self) -> None:
        first, second, third = (self.client.run(f"order-{n}") for n in range(3))
        first.__enter__()
        second.__enter__()
        third.__enter__()
        second.__exit__(None, None, None)
        self.assertIs(redrive.current_run(), third)
        first.__exit__(None, None, None)
        self.assertIs(redrive.current_run(), third)
        third.__exit__(None, None, None)
        self.assertIsNone(redrive.current_run())

    def test_an_output_that_hangs_holds_up_no_other_limit(self) -> None:
        let_go, asked = threading.Event(), threading.Event()
        self.addCleanup(let_go.set)

        class Hangs:
            def __str__(self) -> str:
                asked.set()
                let_go.wait(PATIENCE_S)
                return "at last"

            __repr__ = __str__

        def hang() -> None:
            with client.run("hangs") as run:
                run.do("load", lambda: 1)
                run.output = Hangs()

        client, limit = self.make_client(flush_ms=1), threading.Event()
        hanging = threading.Thread(target=hang, daemon=True)
        hanging.start()
        self.assertTrue(asked.wait(PATIENCE_S))
        # Both come after the flush of the run that hangs.
        client.timers.after(0.1, lambda: client.timers.after(0.0, limit.set))
        self.assertTrue(limit.wait(PATIENCE_S), "the timers go on")
        let_go.set()
        hanging.join(PATIENCE_S)

    def test_effects_that_wait_for_each_other_end(self) -> None:
        inside = threading.Barrier(2, timeout=PATIENCE_S)
        done: list[str] = []

        @redrive.effect
        def debit(nested: bool) -> str:
            if nested:
                inside.wait()
                with contextlib.suppress(redrive.EffectInProgress):
                    credit(True)
            done.append("debit")
            return "debit"

        @redrive.effect
        def credit(nested: bool) -> str:
            if nested:
                inside.wait()
                with contextlib.suppress(redrive.EffectInProgress):
                    debit(True)
            done.append("credit")
            return "credit"

        def work() -> bool:
            with self.client.run("crossed"):
                threads = [threading.Thread(target=call, args=(True,), daemon=True) for call in (debit, credit)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            return True

        self.assertTrue(beside(work))
        self.assertEqual(sorted(done), ["credit", "debit"])

    def test_a_child_that_vanishes_inside_an_effect_changes_nothing(self) -> None:
        def pay() -> str:
            child = os.fork()
            if child == 0:
                try:
                    with self.client.run("of-the-child"):
                        os._exit(0)
                finally:
                    os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            return "paid"

        with self.client.run("forks") as run:
            self.assertEqual(run.do("pay", pay, key="forks:pay", effect=True), "paid")
        self.assertEqual((self.ended("forks"), self.status("forks:pay")), (["succeed"], "committed"))

    def test_an_async_stream_left_behind_is_ended(self) -> None:
        @redrive.agent(client=self.client, run_id=lambda n: f"stream-{n}")
        async def count(n: int) -> AsyncGenerator[int, None]:
            while True:
                yield n

        async def work() -> None:
            async for _ in count(7):
                break

        asyncio.run(work())
        gc.collect()
        self.assertEqual(self.ended("stream-7"), ["fail"])

    def test_a_task_cancelled_again_and_again_ends_once(self) -> None:
        begun: list[int] = []

        async def pay() -> str:
            begun.append(1)
            while True:
                try:
                    await asyncio.sleep(3_600)
                except asyncio.CancelledError:
                    if len(begun) > 5:
                        raise
                    begun.append(1)

        async def block() -> None:
            async with self.client.run("stubborn") as run:
                await run.do_async("pay", pay, key="stubborn:pay", effect=True)

        async def work() -> None:
            task = asyncio.ensure_future(block())
            while not task.done():
                await asyncio.sleep(0)
                if begun:
                    task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(work())
        self.assertEqual((self.ended("stubborn"), self.status("stubborn:pay")), (["fail"], "unknown"))

    def test_a_thread_that_exits_inside_an_effect_leaves_it_unknown(self) -> None:
        def work(run: redrive.Run) -> None:
            with run.step("pay", key="exits:pay", effect=True):
                sys.exit(3)

        with self.client.run("exits") as run:
            thread = threading.Thread(target=work, args=(run,))
            thread.start()
            thread.join()
            raised = run.in_doubt
        self.assertEqual(raised, [])
        self.assertEqual((self.ended("exits"), self.status("exits:pay")), (["succeed"], "unknown"))

    def test_a_destructor_that_opens_a_run_at_exit_loses_nothing(self) -> None:
        text = """
import redrive, sys
redrive.configure(url="http://127.0.0.1:9", key="k", spool_dir=sys.argv[1], wait_ms=50, exit_wait_ms=50)
class Late:
    def __del__(self):
        with redrive.run("of-a-destructor", payload=1) as run:
            run.output = "done"
        raise RuntimeError("in a destructor")
keep = Late()
with redrive.run("before", payload=1) as run:
    run.output = "done"
print("left", flush=True)
"""
        folder = self.client.spool.folder
        done = subprocess.run(
            [sys.executable, "-c", text, str(folder)], env={**os.environ, "PYTHONPATH": str(SRC), "REDRIVE_OFF": ""},
            capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        kept = "".join(path.read_text() for path in folder.glob("*.spool"))
        self.assertEqual((done.returncode, done.stdout), (0, "left\n"), done.stderr)
        for run_id in ("before", "of-a-destructor"):
            self.assertEqual(kept.count(f'"run_id":"{run_id}","tenant":null,"lease":null,"body":"{{\\"output'), 1, done.stderr)

    def test_clients_without_runs_keep_no_threads(self) -> None:
        def ours() -> list[str]:
            return [thread.name for thread in threading.enumerate() if thread.name in ("redrive-timers", "redrive-heartbeat")]

        before = len(ours())
        with mock.patch.object(timers, "IDLE_S", 0.01), mock.patch.object(heartbeat, "IDLE_S", 0.01):
            for number in range(5):
                client = self.make_client(flush_ms=1)
                with client.run(f"brief-{number}") as run:
                    run.do("load", lambda: 1)
                client.close()
            until(lambda: len(ours()) <= before, "their threads have ended")
            with client.run("after", timeout_s=3_600) as run:
                self.assertIn("redrive-timers", ours(), "a new run has them again")

    def test_a_recursive_agent_is_one_run_a_call(self) -> None:
        @redrive.agent(client=self.client, run_id=lambda n: f"count-{n}")
        def count(n: int) -> int:
            return 0 if n == 0 else 1 + count(n - 1)

        self.assertEqual(count(20), 20)
        self.assertEqual([self.ended(f"count-{n}") for n in range(21)], [["succeed"]] * 21)
        with self.assertRaises(redrive.StartRefused):
            self.agent_of_itself()

    def agent_of_itself(self) -> None:
        @redrive.agent(client=self.client, run_id=lambda n: "always-the-same")
        def again(n: int) -> int:
            return int(again(n + 1))

        again(0)


if __name__ == "__main__":
    main(__file__)
