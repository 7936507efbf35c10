"""`@redrive.effect` and `@redrive.agent`: results that are errors, the order of the record, and every kind of function."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

from fake import FakeCase
from suite import main

import redrive
from redrive.transport import Answer


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

    def test_five_steps_before_an_effect_take_one_round_trip(self) -> None:
        with self.client.run("shared") as run:
            for number in range(5):
                run.do(f"think-{number}", lambda: 1)
            with run.step("pay", effect=True):
                self.assertEqual(self.server.shared, [5])
                self.assertEqual(self.server.runs["shared"]["plain"], [f"think-{number}" for number in range(5)])
                self.assertEqual(self.status("shared:pay"), "started")

    def test_steps_refused_in_a_shared_round_trip_are_sent_alone(self) -> None:
        post, refused = self.server.post, []

        def refuses_once(path: str, body: str, wait_s: float, has: str | None = None) -> Any:
            if "think-1" in body and not refused:
                refused.append(path)
                return Answer(422, {"code": "invalid", "detail": "not like this", "field": "output"})
            return post(path, body, wait_s, has)

        self.server.post = refuses_once  # type: ignore[method-assign]
        with self.client.run("refused") as run:
            for number in range(3):
                run.do(f"think-{number}", lambda: 1)
            with run.step("pay", effect=True):
                self.assertEqual(self.server.runs["refused"]["plain"], ["think-0", "think-2", "think-1"])

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
