"""Keys of effects and steps: the same call has the same key in every process, and different ones never share one."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

from fake import FakeCase
from live import SRC
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
        self.assertEqual(step_key("\ud800", 1), "step:@ed@a0@80")
        self.assertEqual(step_key("\ud83d\ude00", 1), "step:@f0@9f@98@80")

    def test_a_plain_steps_key_is_made_of_the_name_that_is_sent(self) -> None:
        with self.client.run("r:cut") as run:
            for name in ("y" * 2000 + "1", "y" * 2000 + "2"):
                run.do(name, lambda: 1)
        self.client.flush()
        sent = [step for _, end in self.server.runs["r:cut"]["ends"] for step in end.get("steps", [])]
        self.assertEqual([step["key"] for step in sent], [step_key(sent[0]["name"], 1), step_key(sent[0]["name"], 2)])

if __name__ == "__main__":
    main(__file__)
