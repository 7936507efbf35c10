"""Effects happen once: over replays, kills and time limits. The programs that are killed are real ones."""

from __future__ import annotations

import asyncio
import signal
import threading

from live import PATIENCE_S, LiveCase, step_of, time_is_up, until
from suite import main

import redrive


class Declined(Exception):
    pass


class Effects(LiveCase):
    def test_the_intent_is_recorded_before_the_effect_begins(self) -> None:
        with self.client.run("intent") as run:
            with run.step("charge", key="intent:charge", effect=True, check="ask the bank") as charge:
                seen = step_of(self.server.run("intent"), "charge")
                self.assertEqual((seen["status"], seen["effect"], seen["check"]), ("started", True, "ask the bank"))
                charge.output = {"charge": "ch_9"}
            seen = step_of(self.server.run("intent"), "charge")
            self.assertEqual((seen["status"], seen["output"]), ("committed", {"charge": "ch_9"}))

    def test_steps_before_an_effect_are_on_record_in_order(self) -> None:
        with self.client.run("in-order") as run:
            for number in range(40):
                run.do(f"think-{number:02}", lambda: "x" * 900)
            with run.step("pay", effect=True):
                names = [step["name"] for step in self.server.run("in-order")["steps"]]
        self.assertEqual(names, [*(f"think-{number:02}" for number in range(40)), "pay"])

    def test_a_replay_skips_what_is_done_and_gets_its_output(self) -> None:
        with self.assertRaises(ConnectionError):
            with self.client.run("resume", payload=1, resumable=True) as run:
                run.do("load", lambda: [1, 2])
                run.do("charge", lambda: {"id": "ch_1"}, effect=True)
                raise ConnectionError("Connection refused")
        self.assertEqual(run.outcome(PATIENCE_S).state, "scheduled")
        self.assertEqual(self.server.replay("resume")[0], 200)
        done = []
        with self.client.run("resume", payload=1, resumable=True) as again:
            self.assertEqual((again.attempt, again.replay), (2, True))
            done = [
                again.do("load", lambda: self.fail("loaded again")),
                again.do("charge", lambda: self.fail("charged again"), effect=True),
                again.step("mail", effect=True)(lambda to: f"mail to {to}")("c-9"),
            ]
            with again.step("load") as second:
                self.assertFalse(second.done, "another step of the same name is another step")
        self.assertEqual(done, [[1, 2], {"id": "ch_1"}, "mail to c-9"])
        self.assertEqual(again.outcome(PATIENCE_S).state, "recovered")

    def test_an_effect_done_by_another_run_is_skipped(self) -> None:
        with self.client.run("first") as run:
            run.do("charge", lambda: "ch_7", key="order-7:charge", effect=True)
        with self.client.run("second") as run:
            self.assertEqual(run.do("charge", lambda: self.fail("twice"), key="order-7:charge", effect=True), "ch_7")

    def test_an_effect_that_another_run_is_at_is_refused(self) -> None:
        with self.client.run("at-it") as run, run.step("charge", key="order-8:charge", effect=True):
            with self.client.run("wants-it") as other, self.assertRaises(redrive.EffectInProgress):
                other.do("charge", lambda: self.fail("twice"), key="order-8:charge", effect=True)

    def test_an_effect_that_raises_is_unknown_unless_not_done(self) -> None:
        with self.assertRaises(ConnectionError), self.client.run("doubt", resumable=True) as run:
            with run.step("charge", effect=True):
                raise ConnectionError("Connection reset by peer")
        self.assertEqual(run.outcome(PATIENCE_S).verdict["dead_because"], "unsafe")
        self.assertEqual(step_of(self.server.run("doubt"), "charge")["status"], "unknown")
        for name, error in [("declined", Declined("no money")), ("not-done", redrive.NotDone("no money"))]:
            with self.assertRaises(type(error)), self.client.run(name, resumable=True) as run:
                with run.step("charge", effect=True, not_done_on=(Declined,)):
                    raise error
            self.assertNotEqual(run.outcome(PATIENCE_S).verdict["dead_because"], "unsafe")
            self.assertEqual(step_of(self.server.run(name), "charge")["status"], "failed")

    def test_an_unknown_effect_is_not_restarted_by_a_forced_replay(self) -> None:
        with self.assertRaises(OSError), self.client.run("forced") as run, run.step("charge", effect=True):
            raise OSError("gone")
        run.outcome(PATIENCE_S)
        self.assertEqual(self.server.replay("forced")[1]["code"], "effect_unknown")
        self.assertEqual(self.server.replay("forced", force=True)[0], 200)
        with self.assertRaises(redrive.EffectUnknown), self.client.run("forced") as again:
            self.assertEqual([step["key"] for step in again.in_doubt], ["forced:charge"])
            again.do("charge", lambda: self.fail("charged again"), effect=True)
        self.assertEqual(again.outcome(PATIENCE_S).verdict["dead_because"], "unsafe")

    def test_a_large_output_is_committed_and_marked_as_omitted(self) -> None:
        with self.client.run("large") as run:
            run.do("mail", lambda: "x" * 2_000_000, effect=True)
        run.outcome(PATIENCE_S)
        seen = step_of(self.server.run("large"), "mail")
        self.assertEqual((seen["status"], seen["output"]), ("committed", None))
        self.assertGreater(seen["output_omitted"]["bytes"], 65_536)


class Limits(LiveCase):
    def test_a_time_limit_interrupts_a_blocking_main_thread(self) -> None:
        with self.assertRaises(redrive.TimeLimit), self.client.run("blocks", timeout_s=3_600) as run:
            with run.step("wait"):
                time_is_up(run)
                threading.Event().wait(PATIENCE_S)
                self.fail("it waited for the call to end")
        verdict = run.outcome(PATIENCE_S).verdict
        self.assertEqual((verdict["reason"], verdict["action"]), ("timeout", "retry"))
        self.assertEqual(self.server.run("blocks")["step"], "wait")

    def test_a_time_limit_ends_a_loop_in_another_thread(self) -> None:
        seen: list[BaseException] = []

        def work() -> None:
            try:
                with self.client.run("spins", timeout_s=0.3):
                    while True:
                        sum(range(40))
            except redrive.TimeLimit as limit:
                seen.append(limit)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(PATIENCE_S)
        self.assertEqual(len(seen), 1)
        self.assertEqual(self.settled("spins", "scheduled")["reason"], "timeout")

    def test_an_effect_past_its_limit_records_its_late_outcome(self) -> None:
        go_on, over = threading.Event(), threading.Event()

        def refund() -> str:
            go_on.wait(PATIENCE_S)
            over.set()
            return "refunded"

        with self.assertRaises(redrive.TimeLimit), self.client.run("lies", resumable=True) as run:
            run.do("refund", refund, effect=True, timeout_s=0.2)
        self.assertEqual(run.outcome(PATIENCE_S).verdict["dead_because"], "unsafe")
        self.assertEqual(step_of(self.server.run("lies"), "refund")["status"], "unknown")
        go_on.set()
        self.assertTrue(over.wait(PATIENCE_S))
        until(lambda: step_of(self.server.run("lies"), "refund")["status"] == "committed", "the late word is kept")
        self.assertEqual(step_of(self.server.run("lies"), "refund")["output"], "refunded")

    def test_a_whole_attempts_limit_leaves_an_open_effect_unknown(self) -> None:
        with self.assertRaises(redrive.TimeLimit), self.client.run("open", timeout_s=3_600, resumable=True) as run:
            with run.step("charge", effect=True):
                time_is_up(run)
                threading.Event().wait(PATIENCE_S)
        self.assertEqual(run.outcome(PATIENCE_S).verdict["dead_because"], "unsafe")
        self.assertEqual(step_of(self.server.run("open"), "charge")["status"], "unknown")

    def test_a_step_time_limit_ends_only_that_step(self) -> None:
        with self.client.run("slow-step") as run:
            with self.assertRaises(redrive.TimeLimit):
                with run.step("search", timeout_s=0.2):
                    threading.Event().wait(PATIENCE_S)
            run.do("other", lambda: "found")
            run.output = "answered without it"
        self.assertEqual(run.outcome(PATIENCE_S).state, "succeeded")
        statuses = {step["name"]: step["status"] for step in self.server.run("slow-step")["steps"]}
        self.assertEqual(statuses["other"], "committed")
        self.assertNotIn(statuses["search"], ("committed", "failed"), "begun, and never said to be undone")

    def test_an_async_attempt_is_cancelled_and_reported_at_its_limit(self) -> None:
        async def hangs() -> None:
            async with self.client.run("async-hangs", timeout_s=3_600) as run:
                await run.do_async("think", lambda: asyncio.sleep(0, "ok"))
                time_is_up(run)
                await asyncio.Event().wait()

        with self.assertRaises(redrive.TimeLimit):
            asyncio.run(hangs())
        seen = self.settled("async-hangs", "scheduled")
        self.assertEqual((seen["reason"], step_of(seen, "think")["status"]), ("timeout", "committed"))

    def test_an_async_steps_limit_leaves_its_effect_in_doubt(self) -> None:
        async def hangs() -> None:
            async with self.client.run("async-step", resumable=True) as run:
                await run.do_async("pay", asyncio.Event().wait, effect=True, timeout_s=0.2)

        with self.assertRaises(redrive.TimeLimit):
            asyncio.run(hangs())
        self.assertEqual(step_of(self.settled("async-step", "dead"), "pay")["status"], "unknown")


KILLED = """
import redrive, sys, threading
with redrive.run("{run_id}", payload=1, resumable=True, lease_ms=3000) as run:
    with run.step("charge", effect=True) as charge:
        {during}
        charge.output = "ch_1"
    print("charged")
    threading.Event().wait()
"""


class Leaving(LiveCase):
    def test_an_agent_killed_inside_an_effect_is_dead_as_unsafe(self) -> None:
        program = self.program(KILLED.format(run_id="k1", during='print("charging"); threading.Event().wait()'))
        self.assertEqual(program.stdout.readline(), "charging\n")
        program.send_signal(signal.SIGKILL)
        program.communicate()
        seen = self.settled("k1", "dead")
        self.assertEqual((seen["reason"], seen["dead_because"]), ("silent", "unsafe"))
        self.assertEqual(step_of(seen, "charge")["status"], "unknown")

    def test_a_replay_after_a_kill_skips_the_done_effect(self) -> None:
        program = self.program(KILLED.format(run_id="k2", during="pass"))
        self.assertEqual(program.stdout.readline(), "charged\n")
        program.send_signal(signal.SIGKILL)
        program.communicate()
        seen = self.settled("k2", "scheduled")
        self.assertEqual((seen["reason"], step_of(seen, "charge")["status"]), ("silent", "committed"))
        self.assertEqual(self.server.replay("k2")[0], 200)
        with self.client.run("k2", payload=1, resumable=True) as again:
            self.assertEqual(again.do("charge", lambda: self.fail("charged again"), effect=True), "ch_1")
        self.assertEqual(again.outcome(PATIENCE_S).state, "recovered")

    def test_sigterm_is_reported_and_still_ends_the_process(self) -> None:
        program = self.program(KILLED.format(run_id="t1", during="pass"))
        self.assertEqual(program.stdout.readline(), "charged\n")
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=PATIENCE_S)
        self.assertEqual(program.returncode, -signal.SIGTERM)
        seen = self.settled("t1", "scheduled")
        self.assertEqual((seen["reason"], seen["attempts"][0]["error"]["type"]), ("x:terminated", "Terminated"))
        self.assertEqual(seen["verdict"]["action"], "retry")

    def test_ctrl_c_is_reported_as_called_off(self) -> None:
        program = self.program(KILLED.format(run_id="c1", during="pass"))
        self.assertEqual(program.stdout.readline(), "charged\n")
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=PATIENCE_S)
        self.assertIn("KeyboardInterrupt", out)
        self.assertEqual(self.settled("c1", "dead")["reason"], "cancelled")

    def test_an_exit_with_the_run_under_way_is_reported(self) -> None:
        inside = self.program('import redrive, sys\nwith redrive.run("e1"):\n    sys.exit(3)')
        inside.communicate(timeout=PATIENCE_S)
        self.assertEqual(inside.returncode, 3)
        seen = self.settled("e1", "scheduled", "dead")
        self.assertEqual(seen["attempts"][0]["error"]["message"], "the agent exited: 3")
        around = self.program('import redrive\nrun = redrive.run("e2").__enter__()\nprint(run.attempt)')
        self.assertEqual(around.communicate(timeout=PATIENCE_S)[0], "1\n")
        self.assertEqual(self.settled("e2", "scheduled")["reason"], "x:process_exit")

    def test_a_forked_child_has_runs_of_its_own(self) -> None:
        text = """
import os, redrive
with redrive.run("parent") as run:
    if os.fork() == 0:
        with redrive.run("child") as child:
            child.output = "c"
        redrive.flush()
        os._exit(0)
    os.wait()
    run.output = "p"
"""
        program = self.program(text)
        print(program.communicate(timeout=PATIENCE_S)[0], end="")
        for name, output in [("parent", "p"), ("child", "c")]:
            self.assertEqual(self.settled(name, "succeeded")["output"], output)


if __name__ == "__main__":
    main(__file__)
