"""`@redrive.effect` and `@redrive.agent`: stable keys, one call at a time, threads, lazy results, and every kind of function."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fake import FakeCase
from live import PATIENCE_S, SRC
from suite import main

import redrive
from redrive.encode import step_key


@dataclasses.dataclass
class Money:
    amount: int
    currency: str


class Api:
    """A client object: its text holds its address."""


class Keys(FakeCase):
    def keys(self, *calls: Any) -> list[str]:
        with self.client.run("keys"):
            for call in calls:
                call()
        return list(self.server.effects)

    def test_a_key_is_the_same_in_every_process(self) -> None:
        text = (
            "import redrive, fake, datetime, decimal\n"
            "case = fake.FakeCase(); case.setUp()\n"
            "@redrive.effect\n"
            "def send(to, tags, at, amount=decimal.Decimal('1.10')): return 1\n"
            "with case.client.run('r'):\n"
            "    send('c-9', {'b', 'a', 'c', 'd'}, datetime.date(2026, 1, 2))\n"
            "print(*case.server.effects)\n"
        )
        said = {
            subprocess.run(
                [sys.executable, "-c", text],
                env={"PYTHONPATH": f"{SRC}:{SRC.parent / 'tests'}", "PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
                capture_output=True,
                text=True,
            ).stdout
            for seed in ("1", "2", "3")
        }
        self.assertEqual(len(said), 1)
        self.assertRegex(said.pop(), r"^r:send@a[0-9a-f]{16}\n$")

    def test_positional_and_named_arguments_are_the_same_call(self) -> None:
        @redrive.effect
        def send(to: str, copy: bool = False) -> str:
            return to

        with self.client.run("same") as run:
            send("c-9")
        self.assertEqual(run.run_id, "same")
        [first] = self.server.effects
        with self.client.run("same2"):
            send(copy=False, to="c-9")
        self.assertEqual([key.replace("same2", "same") for key in self.server.effects][1:], [first])

    def test_an_argument_without_a_stable_text_is_refused(self) -> None:
        done = []

        @redrive.effect
        def send(api: Api, to: str) -> None:
            done.append(to)

        with self.client.run("refused"), self.assertRaisesRegex(redrive.UnstableKey, "api.*key="):
            send(Api(), "c-9")
        self.assertEqual((done, self.server.effects), ([], {}))
        send(Api(), "outside a run it is what it was")
        self.assertEqual(len(done), 1)

    def test_a_key_of_its_own_takes_any_argument(self) -> None:
        @redrive.effect(key=lambda api, to: f"mail:{to}")
        def send(api: Api, to: str) -> str:
            return to

        self.assertEqual(self.keys(lambda: send(Api(), "c-9")), ["mail:c-9"])

    def test_self_is_left_out_and_classes_stay_apart(self) -> None:
        class Mailer:
            @redrive.effect
            def send(self, to: str) -> str:
                return f"mail {to}"

        class Pager:
            @redrive.effect
            def send(self, to: str) -> str:
                return f"page {to}"

        # Both are there at once: their addresses differ.
        mailers = Mailer(), Mailer()
        with self.client.run("one"):
            mailers[0].send("c-9")
        with self.client.run("two"):
            self.assertEqual([mailers[1].send("c-9"), Pager().send("c-9")], ["mail c-9", "page c-9"])
        marks = [key.partition(":")[2] for key in self.server.effects]
        self.assertEqual(len(set(marks)), 2)
        self.assertEqual(marks[0], marks[1])

    def test_models_and_enums_have_a_stable_text(self) -> None:
        @redrive.effect
        def pay(money: Money) -> int:
            return money.amount

        self.assertEqual(len(self.keys(lambda: pay(Money(7, "EUR")), lambda: pay(Money(8, "EUR")))), 2)

    def test_different_steps_never_share_a_key(self) -> None:
        names = ["a b", "a_b", "a-b", "a:b", "a", "b", "a:2", "a@2", "ä b", "2", "x" * 300, "x" * 301, ""]
        with self.client.run("r:a") as run:
            for name in names:
                for _ in range(3):
                    run.do(name, lambda: 1)
                    run.do(name, lambda: 1, effect=True)
        with self.client.run("r") as run:
            for name in names:
                run.do(name, lambda: 1, effect=True)
        self.client.flush()
        told = [given for path, given in self.server.calls if path.endswith("/steps") and given["status"] == "committed"]
        plain = [step for _, end in self.server.runs["r:a"]["ends"] for step in end.get("steps", [])]
        effects = [step["key"] for step in told if step["effect"]]
        self.assertEqual(len(effects), len(set(effects)))
        self.assertEqual(len(effects), 4 * len(names))
        keys = {(step["name"], step["key"]) for step in [*told, *plain] if not step["effect"]}
        self.assertEqual(len({key for _, key in keys}), len(keys))
        for key in [*effects, *(key for _, key in keys)]:
            self.assertRegex(key, r"^[A-Za-z0-9._:@-]{1,200}$")


    def test_a_plain_steps_key_is_the_servers_own(self) -> None:
        self.assertEqual(step_key("send_mail", 1), "step:send_mail")
        self.assertEqual(step_key("send mail", 2), "step:send@20mail:2")
        self.assertEqual(len(step_key("x" * 181, 1)), 5 + 100 + 2 + 64)


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

    def test_an_effect_in_doubt_is_not_begun_again_in_its_attempt(self) -> None:
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
        self.assertIn("charge is called outside any run", logged.output[0])

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


class Results(FakeCase):
    def result(self, value: Any) -> tuple[list[str], list[str]]:
        @redrive.effect(name="pay")
        def pay() -> Any:
            return value

        with self.client.run("r") as run:
            self.assertIs(pay(), value)
            run.output = "All is well."
        ended = self.ended("r")
        return [s["status"] for s in self.server.effects.values()], ended

    def test_an_error_object_is_no_committed_effect(self) -> None:
        self.assertEqual(self.result({"ok": False, "error": "declined"}), (["unknown"], ["fail"]))

    def test_an_error_text_is_no_committed_effect(self) -> None:
        self.assertEqual(self.result("Error: card declined"), (["unknown"], ["fail"]))

    def test_an_error_with_a_code_is_no_committed_effect(self) -> None:
        self.assertEqual(self.result('{"error": {"type": "declined"}, "code": 402}'), (["unknown"], ["fail"]))

    def test_a_frameworks_error_object_is_no_committed_effect(self) -> None:
        class Message:
            def __init__(self) -> None:
                self.status, self.content = "error", "declined"

        self.assertEqual(self.result(Message()), (["unknown"], ["fail"]))

    def test_results_that_sound_like_errors_are_committed(self) -> None:
        for n, value in enumerate(
            ["Error rate report: sent", "Errors found: 0", {"error": None, "id": 1}, {"error": "", "n": 1}, {"error": 0.02},
             {"error": "none"}, {"status": "failed", "order": 7}, {"errors": []}, "No error: fine", {"error": "late", "result": 7}]
        ):  # fmt: skip
            with self.client.run(f"fine-{n}") as run:
                run.do("pay", lambda value=value: value, effect=True)
                run.output = "done"
            self.assertEqual((self.status(f"fine-{n}:pay"), self.ended(f"fine-{n}")), ("committed", ["succeed"]), value)

    def test_a_swallowed_exception_stands_until_the_tool_is_done(self) -> None:
        fails = [True]

        @redrive.effect
        def pay() -> str:
            if fails.pop():
                raise redrive.NotDone("declined")
            return "paid"

        for name, again in (("given-up", False), ("done-later", True)):
            fails[:] = [False, True]
            with self.client.run(name) as run:
                with self.assertRaises(redrive.NotDone):
                    pay()
                if again:
                    pay()
                run.output = "fine"
        self.assertEqual((self.ended("given-up"), self.ended("done-later")), (["fail"], ["succeed"]))


class Order(FakeCase):
    def test_plain_steps_are_on_record_before_an_effects_intent(self) -> None:
        with self.client.run("order") as run:
            for name in ("load", "think", "plan"):
                run.do(name, lambda: 1)
            with run.step("pay", effect=True):
                self.assertEqual(self.server.runs["order"]["plain"], ["load", "think", "plan"])
                self.assertEqual(self.status("order:pay"), "started")

    def test_plain_steps_are_on_disk_before_an_intent_is(self) -> None:
        self.server.away = True
        with self.client.run("offline") as run:
            run.do("load", lambda: 1)
            with run.step("pay", effect=True):
                [path] = self.client.spool.folder.glob("*.spool")
                text = path.read_text()
                self.assertLess(text.index("load"), text.index("offline:pay"))


class Agents(FakeCase):
    def agent(self, **options: Any) -> Any:
        return redrive.agent(client=self.client, **options)

    def given(self, run_id: str) -> Any:
        return self.server.runs[run_id]["given"].get("payload")

    def test_arguments_of_every_kind_reach_the_function_and_the_payload(self) -> None:
        @self.agent(run_id=lambda p: "kinds")
        def work(first: int, /, second: int, *rest: int, third: int = 3, **more: int) -> tuple[Any, ...]:
            return first, second, rest, third, more

        self.assertEqual(work(1, 2, 5, 6, third=4, x=9), (1, 2, (5, 6), 4, {"x": 9}))
        self.assertEqual(self.given("kinds"), {"first": 1, "second": 2, "rest": [5, 6], "third": 4, "more": {"x": 9}})
        with self.client.run("again", payload=self.given("kinds")) as run:
            self.assertEqual(work.redrive.call(run), (1, 2, (5, 6), 4, {"x": 9}))

    def test_a_method_is_an_agent_of_its_object(self) -> None:
        outer = self

        class Biller:
            def __init__(self, rate: int) -> None:
                self.rate = rate

            @outer.agent(run_id=lambda p: f"m-{p}")
            def bill(self, amount: int) -> int:
                return self.rate * amount

            @outer.agent(run_id=lambda p: f"s-{p}")
            @staticmethod
            def static(amount: int) -> int:
                return amount

            @outer.agent(run_id=lambda p: f"c-{p}")
            @classmethod
            def named(cls, amount: int) -> str:
                return f"{cls.__name__} {amount}"

        self.assertEqual((Biller(3).bill(2), Biller.static(4), Biller.named(5)), (6, 4, "Biller 5"))
        self.assertEqual([self.given(name) for name in ("m-2", "s-4", "c-5")], [2, 4, 5])
        worker = redrive.Worker(["q"], [Biller(7).bill], client=self.client)
        with self.client.run("w", payload=3) as run:
            self.assertEqual(worker._agents["bill"].call(run), 21)

    def test_a_class_with_call_is_an_agent(self) -> None:
        @self.agent(run_id=lambda p: f"k-{p}")
        class Doubler:
            def __call__(self, n: int) -> int:
                return 2 * n

        class Later:
            async def __call__(self, n: int) -> int:
                return 3 * n

        self.assertEqual((Doubler()(4), self.given("k-4")), (8, 4))
        later = self.agent(run_id=lambda p: f"l-{p}")(Later())
        self.assertEqual((asyncio.run(later(4)), self.ended("l-4")), (12, ["succeed"]))
        self.assertEqual(redrive.Worker(["q"], [Doubler()], client=self.client)._agents["Doubler"].name, "Doubler")

    def test_the_signature_is_kept_without_the_run(self) -> None:
        @self.agent()
        def work(a: int, *, run: redrive.Run, b: str = "x") -> str:
            """Works."""
            return f"{a}{b}{run.attempt}"

        self.assertEqual((str(inspect.signature(work)), work.__doc__), ("(a: 'int', *, b: 'str' = 'x') -> 'str'", "Works."))
        self.assertEqual(work(1), "1x1")

    def test_the_caller_gets_the_very_value(self) -> None:
        value = object()

        @self.agent(run_id=lambda p: "very")
        def work(given: Any) -> Any:
            self.assertIs(given, value)
            return given

        with self.assertLogs("redrive", logging.WARNING):
            self.assertIs(work(value), value)
        with self.client.run("steps") as run:
            self.assertIs(run.do("pay", lambda: value, effect=True), value)


if __name__ == "__main__":
    main(__file__)
