"""One call of an effect at a time, and the run to which a thread belongs."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fake import FakeCase
from live import PATIENCE_S
from suite import main

import redrive


class AtOnce(FakeCase):
    def charge(self, **options: Any) -> tuple[Any, list[int], threading.Event]:
        done: list[int] = []
        go_on = threading.Event()

        @redrive.effect(**options)
        def charge(amount: int) -> str:
            done.append(amount)
            go_on.wait(PATIENCE_S)
            return f"ch_{len(done)}"

        return charge, done, go_on

    def at_once(self, **options: Any) -> tuple[list[str], list[int]]:
        charge, done, go_on = self.charge(**options)
        with self.client.run("at-once"), ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(charge, 700) for _ in range(3)]
            while not done:
                pass
            threading.Timer(0.05, go_on.set).start()
            return [call.result(10) for call in calls], done

    def test_concurrent_calls_of_one_effect_are_one_call(self) -> None:
        self.assertEqual(self.at_once(), (["ch_1"] * 3, [700]))

    def test_concurrent_calls_of_one_key_are_one_call(self) -> None:
        self.assertEqual(self.at_once(key=lambda amount: "order-7"), (["ch_1"] * 3, [700]))

    def test_concurrent_tasks_of_one_effect_are_one_call(self) -> None:
        done: list[int] = []

        @redrive.effect
        async def charge(amount: int) -> str:
            done.append(amount)
            await asyncio.sleep(0.01)
            return f"ch_{len(done)}"

        async def work() -> list[str]:
            async with self.client.run("tasks"):
                return await asyncio.gather(*(charge(700) for _ in range(3)))

        self.assertEqual((asyncio.run(work()), done), (["ch_1"] * 3, [700]))

    def test_whoever_waits_gets_the_first_ones_error(self) -> None:
        begun, go_on, raised = threading.Event(), threading.Event(), []

        @redrive.effect
        def charge() -> None:
            begun.set()
            go_on.wait(PATIENCE_S)
            raise ConnectionError("reset")

        def call() -> None:
            try:
                charge()
            except ConnectionError as error:
                raised.append(error)

        with self.client.run("errors") as run:
            threads = [threading.Thread(target=call) for _ in range(3)]
            for thread in threads:
                thread.start()
            begun.wait(PATIENCE_S)
            go_on.set()
            for thread in threads:
                thread.join(10)
            # A later one is not begun while the first is in doubt.
            with self.assertRaises(redrive.EffectUnknown):
                charge()
        self.assertEqual(len({id(error) for error in raised}), 1)
        self.assertEqual(run.outcome(10).state, "dead")

    def test_the_same_call_after_the_first_is_another_effect(self) -> None:
        charge, _, go_on = self.charge()
        go_on.set()
        with self.client.run("twice"):
            self.assertEqual([charge(1), charge(1)], ["ch_1", "ch_2"])
        self.assertEqual(len(self.server.effects), 2)

    def test_an_effect_that_calls_itself_does_not_wait_for_itself(self) -> None:
        @redrive.effect
        def charge() -> None:
            charge()

        with self.client.run("inside"), self.assertRaises(redrive.EffectInProgress):
            charge()

    def test_a_key_is_done_once_while_the_server_is_away(self) -> None:
        self.server.away = True
        done = []
        with self.client.run("offline") as run:
            for _ in range(2):
                run.do("pay", lambda: done.append(1), key="order-9", effect=True)
        self.assertEqual(done, [1])

    def test_an_unknown_effect_is_not_restarted_in_its_attempt(self) -> None:
        done = []

        @redrive.effect
        def charge() -> None:
            done.append(1)
            raise ConnectionError("no answer")

        with self.client.run("again") as run:
            with self.assertRaises(ConnectionError):
                charge()
            with self.assertRaises(redrive.EffectUnknown):
                charge()
            run.output = "fine"
        self.assertEqual((done, self.ended("again")), ([1], ["fail"]))


class Threads(FakeCase):
    def setUp(self) -> None:
        super().setUp()

        @redrive.effect
        def charge(name: str) -> str:
            run = redrive.current_run()
            return run.run_id if run is not None else ""

        self.charge = charge

    def in_thread(self, call: Any) -> Any:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(call()))
        thread.start()
        thread.join(10)
        return found[0]

    def test_a_thread_belongs_to_the_run_that_started_it(self) -> None:
        with self.client.run("outer"), self.client.run("other"):
            pass
        with self.client.run("first"):
            with self.client.run("second"):
                self.assertEqual(self.in_thread(lambda: self.charge("x")), "second")
            self.assertEqual(self.in_thread(lambda: self.charge("x")), "first")

    def test_a_thread_of_nobody_is_never_given_the_open_run(self) -> None:
        go_on, found = threading.Event(), []

        def work() -> None:
            go_on.wait(PATIENCE_S)
            found.append(self.charge("x"))

        thread = threading.Thread(target=work)
        thread.start()
        with self.assertLogs("redrive", logging.WARNING) as logged, self.client.run("open"):
            go_on.set()
            thread.join(10)
        self.assertEqual((found, self.server.effects), ([""], {}))
        self.assertIn("charge was called outside any run", logged.output[0])

    def test_an_executor_carries_the_run_of_whoever_submits(self) -> None:
        with ThreadPoolExecutor(1) as pool:
            with self.client.run("one"):
                first = pool.submit(self.charge, "x").result(10)
            with self.client.run("two"):
                second = pool.submit(self.charge, "x").result(10)
            third = pool.submit(self.charge, "x").result(10)
        self.assertEqual([first, second, third], ["one", "two", ""])

    def test_a_loops_executor_carries_the_run(self) -> None:
        async def work() -> str:
            async with self.client.run("loop"):
                return await asyncio.get_running_loop().run_in_executor(None, self.charge, "x")

        self.assertEqual(asyncio.run(work()), "loop")

    def test_a_handle_binds_a_foreign_thread_to_its_run(self) -> None:
        jobs: list[Any] = []
        go_on, found = threading.Event(), []

        def work() -> None:
            go_on.wait(PATIENCE_S)
            found.extend(job() for job in jobs)

        thread = threading.Thread(target=work)
        thread.start()
        with self.client.run("bound") as run:

            def attached() -> str:
                with run.attached():
                    return self.charge("y")

            jobs.extend([lambda: run.bind(self.charge)("x"), attached])
            go_on.set()
            thread.join(10)
        self.assertEqual(found, ["bound", "bound"])

    def test_a_thread_that_outlives_its_run_begins_no_effect(self) -> None:
        go_on, raised = threading.Event(), []

        def work() -> None:
            go_on.wait(PATIENCE_S)
            try:
                self.charge("late")
            except redrive.LeaseLost as lost:
                raised.append(lost)

        with self.client.run("over"):
            thread = threading.Thread(target=work)
            thread.start()
        go_on.set()
        thread.join(10)
        self.assertEqual((len(raised), self.server.effects), (1, {}))

if __name__ == "__main__":
    main(__file__)
