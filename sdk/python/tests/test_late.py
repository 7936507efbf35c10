"""Effects that were done while the server could not be reached, and are reported after it gave the attempt up: the ledger gets
them with the end, or by themselves. None is dropped."""

from __future__ import annotations

import threading
from typing import Any

from live import PATIENCE_S, LiveCase, step_of, until
from suite import main

import redrive
from redrive.client import Client
from redrive.transport import Away


class Cut(LiveCase):
    """The network is cut for longer than a lease; the server is up all the time, and takes the attempt for silent."""

    WAIT_MS = 1_000

    def setUp(self) -> None:
        super().setUp()
        self.client.close(0)
        self.cut = threading.Event()
        self.client = self.with_cuts(self.make_client(lease_ms=500))

    def with_cuts(self, client: Client) -> Client:
        for name in ("post", "post_many"):
            call = getattr(client.transport, name, None)
            if call is not None:
                setattr(client.transport, name, lambda *args, call=call: self._unless_cut(call, *args))
        return client

    def _unless_cut(self, call: Any, *args: Any) -> Any:
        if self.cut.is_set():
            raise Away("the network is cut")
        return call(*args)

    def give_up(self, run_id: str) -> None:
        """Waits until the server has given the attempt up, then mends the network."""
        self.settled_by_silence(run_id)
        self.mend()

    def settled_by_silence(self, run_id: str) -> None:
        until(lambda: self.server.run(run_id)["state"] in ("scheduled", "dead"), "the lease has run out")

    def mend(self) -> None:
        self.cut.clear()
        self.client.sender._retry_at = 0.0
        self.client.sender.poke()

    def pay(self, run: redrive.Run) -> None:
        self.cut.set()
        self.assertEqual(run.do("pay", lambda: "paid", key=f"{run.run_id}:pay", effect=True), "paid")

    def recorded(self, run_id: str, status: str) -> dict[str, Any]:
        """The run, once its payment is in the ledger."""

        def look() -> dict[str, Any] | None:
            seen = self.server.run(run_id)
            return seen if [step["status"] for step in seen["steps"]] == [status] else None

        return until(look, f"the payment of {run_id} is {status}")

    def test_a_late_success_brings_its_effects_along(self) -> None:
        with self.client.run("late-success", payload=1) as run:
            self.pay(run)
            self.give_up("late-success")
            run.output = "done"
        seen = self.recorded("late-success", "committed")
        self.assertEqual((seen["state"], step_of(seen, "pay")["output"]), ("recovered", "paid"))
        until(lambda: not list(self.spool.glob("*")), "nothing is left on disk")

    def test_a_late_failure_holds_the_run_for_its_effects(self) -> None:
        with self.assertRaises(TimeoutError), self.client.run("late-failure", payload=1) as run:
            self.pay(run)
            self.give_up("late-failure")
            raise TimeoutError("Request timed out")
        seen = self.recorded("late-failure", "committed")
        self.assertEqual((seen["state"], seen["dead_because"]), ("dead", "unsafe"))
        until(lambda: not list(self.spool.glob("*")), "nothing is left on disk")

    def test_an_effect_that_ends_after_the_outage_is_recorded(self) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def slow() -> str:
            begun.set()
            go_on.wait(PATIENCE_S)
            return "paid"

        def outage() -> None:
            begun.wait(PATIENCE_S)
            self.give_up("late-outcome")
            until(lambda: self.client.spool.empty, "its intent was sent, and refused")
            go_on.set()

        watching = threading.Thread(target=outage)
        watching.start()
        with self.assertRaises(TimeoutError), self.client.run("late-outcome", payload=1) as run:
            self.cut.set()
            run.do("pay", slow, key="late-outcome:pay", effect=True)
            raise TimeoutError("Request timed out")
        watching.join()
        self.assertEqual(self.recorded("late-outcome", "committed")["dead_because"], "unsafe")

    def test_an_effect_left_in_doubt_holds_the_run(self) -> None:
        def no_answer() -> str:
            raise ConnectionError("no answer")

        with self.assertRaises(ConnectionError), self.client.run("late-doubt", payload=1, resumable=True) as run:
            self.cut.set()
            try:
                run.do("pay", no_answer, key="late-doubt:pay", effect=True)
            finally:
                self.give_up("late-doubt")
        seen = self.recorded("late-doubt", "unknown")
        self.assertEqual((seen["state"], seen["dead_because"]), ("dead", "unsafe"))

    def test_a_killed_process_leaves_its_late_effects_on_disk(self) -> None:
        text = """
import redrive, threading
from redrive.transport import Away
client = redrive.configure()
with redrive.run("late-killed", payload=1, lease_ms=500, resumable=True) as run:
    def cut(*args):
        raise Away("the network is cut")
    client.transport.post = client.transport.post_many = cut
    run.do("pay", lambda: print("paying", flush=True) or threading.Event().wait(), key="late-killed:pay", effect=True)
"""
        program = self.program(text)
        assert program.stdout is not None
        until(lambda: program.stdout.readline() == "paying\n", "the effect has begun")
        self.settled_by_silence("late-killed")
        program.kill()
        program.communicate()
        with self.client.run("late-next", payload=1) as run:
            run.output = "x"
        seen = self.recorded("late-killed", "unknown")
        self.assertEqual((seen["state"], seen["dead_because"]), ("dead", "unsafe"))

    def test_late_effects_wait_for_another_attempt_under_way(self) -> None:
        other = self.make_client(lease_ms=60_000)
        self.addCleanup(other.close, 0)
        with self.assertRaises(TimeoutError), self.client.run("late-busy", payload=1, resumable=True) as run:
            self.pay(run)
            self.settled_by_silence("late-busy")
            self.assertEqual(self.server.replay("late-busy")[0], 200)
            second = other.run("late-busy", payload=1, resumable=True).__enter__()
            self.mend()
            raise TimeoutError("Request timed out")
        until(lambda: self.client.spool.empty and list(self.spool.glob("*-late.spool")), "its effects wait on disk")
        self.assertEqual(self.server.run("late-busy")["steps"], [])
        self.assertEqual(second.fail("Request timed out", wait_s=PATIENCE_S).state, "scheduled")

        def sent() -> bool:
            self.client.sender._others_at = 0.0
            self.client.sender.poke()
            return not list(self.spool.glob("*-late.spool"))

        until(sent, "the next look sends them")
        self.recorded("late-busy", "committed")

    def test_effects_of_a_run_that_may_not_begin_are_recorded(self) -> None:
        other = self.make_client(lease_ms=60_000)
        self.addCleanup(other.close, 0)
        first = other.run("late-start", payload=1, resumable=True).__enter__()
        self.cut.set()
        with self.client.run("late-start", payload=1, resumable=True) as run:
            self.assertEqual(run.do("pay", lambda: "paid", key="late-start:pay", effect=True), "paid")
            self.mend()
            until(lambda: run.lost, "the start was refused")
        self.assertEqual(first.fail("Request timed out", wait_s=PATIENCE_S).state, "scheduled")

        def sent() -> bool:
            self.client.sender._others_at = 0.0
            self.client.sender.poke()
            return self.client.spool.empty and not list(self.spool.glob("*-late.spool"))

        until(sent, "the next look sends them")
        self.recorded("late-start", "committed")

    def test_a_late_word_after_the_end_is_sent_from_disk(self) -> None:
        with self.assertRaises(redrive.TimeLimit), self.client.run("late-word", payload=1, lease_ms=60_000) as run:
            go_on = threading.Event()
            step = run.step("pay", key="late-word:pay", effect=True, timeout_s=0.05)
            try:
                step.do(lambda: go_on.wait(PATIENCE_S) and "paid")
            finally:
                self.cut.set()
        go_on.set()
        until(lambda: step._settled and self.client.spool.has(run._id), "its outcome is on disk")
        self.mend()
        self.assertEqual(step_of(self.recorded("late-word", "committed"), "pay")["output"], "paid")


if __name__ == "__main__":
    main(__file__)
