"""A worker takes retries and replays, and does them with what earlier attempts have done."""

from __future__ import annotations

import asyncio
import signal
import threading

from live import PATIENCE_S, LiveCase, until
from suite import main

import redrive
from redrive.client import Client

CONFIG = """
[queue.quick]
schedule_ms = [1000, 1000, 1000]
"""


class Workers(LiveCase):
    CONFIG = CONFIG

    def enqueue(self, run_id: str, **fields: object) -> None:
        body = {"mode": "enqueue", "run_id": run_id, "queue": "quick", "tenant": "acme", **fields}
        status, answer = self.server.call("POST", "/v1/runs", body)
        self.assertEqual(status, 201, answer)

    def worker(self, *agents: object, **settings: object) -> redrive.Worker:
        worker = redrive.Worker(["quick"], agents, client=self.client, **settings).start()
        self.addCleanup(worker.stop)
        return worker

    def test_a_worker_gives_each_run_to_its_agent(self) -> None:
        @redrive.agent(queue="quick", client=self.client)
        def add(a: int, b: int) -> int:
            return a + b

        @redrive.agent(queue="quick", client=self.client)
        async def shout(text: str) -> str:
            return await asyncio.sleep(0, text.upper())

        self.enqueue("w-add", agent="add", payload={"a": 2, "b": 3})
        self.enqueue("w-shout", agent="shout", payload="hey")
        self.worker(add, shout)
        self.assertEqual(self.settled("w-add", "succeeded")["output"], 5)
        self.assertEqual(self.settled("w-shout", "succeeded")["output"], "HEY")

    def test_a_retry_skips_the_steps_that_are_done(self) -> None:
        counted = {"load": 0, "pay": 0, "tries": 0}

        def count(what: str) -> int:
            counted[what] += 1
            return counted[what]

        @redrive.agent(name="payer", queue="quick", client=self.client)
        def pay(task: dict[str, int], run: redrive.Run) -> str:
            run.do("load", lambda: count("load"))
            run.do("pay", lambda: count("pay"), effect=True)
            if count("tries") < 3:
                raise ConnectionError("Connection reset by peer")
            return "paid"

        self.enqueue("w-retry", agent="payer", payload={"n": 1}, resumable=True)
        self.worker(pay)
        seen = self.settled("w-retry", "recovered")
        self.assertEqual((counted, seen["attempt"]), ({"load": 1, "pay": 1, "tries": 3}, 3))

    def test_a_changed_retry_gets_the_changed_payload(self) -> None:
        got = []

        @redrive.agent(name="talker", queue="quick", client=self.client)
        def talk(request: dict[str, object], run: redrive.Run) -> str:
            got.append((request, run.changes))
            if len(got) == 1:
                raise ValueError("Agent stopped due to max iterations.")
            return "ok"

        request = {"model": "gpt-5", "messages": [{"role": "user", "content": "Sum it up."}]}
        self.enqueue("w-changed", agent="talker", payload=request)
        self.worker(talk)
        until(lambda: self.server.run("w-changed").get("reason") == "max_iterations", "the first attempt failed")
        self.assertEqual(self.server.replay("w-changed")[0], 200)
        self.settled("w-changed", "recovered")
        self.assertEqual(got[0], (request, []))
        self.assertEqual(got[1][1][0]["change"], "add_last_error")
        self.assertTrue(got[1][1][0]["applied"])
        self.assertIn("max iterations", str(got[1][0]["messages"]))

    def test_runs_without_an_agent_need_any_agent(self) -> None:
        @redrive.agent(name="anybody", queue="quick", client=self.client)
        def anybody(n: int) -> int:
            return n

        self.enqueue("w-unnamed", payload=1)
        self.enqueue("w-named", agent="anybody", payload=2)
        worker = self.worker(anybody)
        self.settled("w-named", "succeeded")
        worker.stop()
        self.assertEqual(self.server.run("w-unnamed")["state"], "scheduled")
        self.worker(anybody, any_agent=True)
        self.assertEqual(self.settled("w-unnamed", "succeeded")["output"], 1)

    def test_no_more_runs_are_taken_than_there_is_room_for(self) -> None:
        go_on, at_once, most = threading.Event(), [], []

        @redrive.agent(name="slow", queue="quick", client=self.client)
        def slow(n: int) -> int:
            at_once.append(n)
            most.append(len(at_once))
            go_on.wait(PATIENCE_S)
            at_once.remove(n)
            return n

        for n in range(6):
            self.enqueue(f"w-room-{n}", agent="slow", payload=n)
        self.worker(slow, concurrency=2)
        until(lambda: len(at_once) == 2, "two are under way")
        states = [self.server.run(f"w-room-{n}")["state"] for n in range(6)]
        self.assertEqual(sorted(states), ["running"] * 2 + ["scheduled"] * 4)
        go_on.set()
        for n in range(6):
            self.settled(f"w-room-{n}", "succeeded")
        self.assertEqual(max(most), 2)

    def test_a_stopped_worker_finishes_or_releases_its_runs(self) -> None:
        go_on, begun = threading.Event(), threading.Semaphore(0)

        @redrive.agent(name="stuck", queue="quick", client=self.client)
        def stuck(n: int, run: redrive.Run) -> str:
            begun.release()
            go_on.wait(PATIENCE_S)
            run.do("pay", lambda: "paid", effect=True)
            return "late"

        self.enqueue("w-stuck", agent="stuck", payload=1)
        worker = self.worker(stuck, grace_s=0.2)
        self.assertTrue(begun.acquire(timeout=PATIENCE_S))
        worker.stop()
        seen = self.settled("w-stuck", "scheduled")
        self.assertEqual(seen["attempts"], [], "no try was spent")
        go_on.set()

    def test_sigterm_stops_a_worker_process_without_losing_its_run(self) -> None:
        text = """
import redrive, threading
go_on = threading.Event()
@redrive.agent(name="long", queue="quick")
def long(n):
    print("begun")
    threading.Event().wait(1)
    return "finished"
redrive.Worker(agents=[long]).run()
print("stopped")
"""
        self.enqueue("w-term", agent="long", payload=1)
        program = self.program(text)
        self.assertEqual(program.stdout.readline(), "begun\n")
        program.send_signal(signal.SIGTERM)
        self.assertEqual(program.communicate(timeout=PATIENCE_S)[0], "stopped\n")
        self.assertEqual((program.returncode, self.settled("w-term", "succeeded")["output"]), (0, "finished"))

    def test_a_worker_outlives_an_agent_that_exits(self) -> None:
        @redrive.agent(name="quitter", queue="quick", client=self.client)
        def quitter(n: int) -> int:
            if n == 0:
                raise SystemExit(1)
            return n

        self.enqueue("w-quit", agent="quitter", payload=0)
        self.enqueue("w-stay", agent="quitter", payload=1)
        self.worker(quitter, concurrency=1)
        self.settled("w-stay", "succeeded")
        self.assertEqual(self.server.run("w-quit")["attempts"][0]["error"]["message"], "the agent exited: 1")

    def test_a_function_that_is_no_agent_is_refused_at_once(self) -> None:
        with self.assertRaisesRegex(TypeError, "not decorated with @redrive.agent"):
            redrive.Worker(["quick"], [len], client=self.client)
        with self.assertRaisesRegex(ValueError, "at least one"):
            redrive.Worker(["quick"], client=self.client)
        self.assertIsInstance(self.client, Client)


if __name__ == "__main__":
    main(__file__)
