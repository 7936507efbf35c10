"""When the server is away, slow or refuses: the agent goes on, and all that it said arrives later, once."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

from live import PATIENCE_S, LiveCase, Server, binary, step_of, until
from suite import main

import redrive
from redrive.client import Client
from redrive.clock import now
from redrive.record import Record, unsealed
from redrive.transport import Answer


def lines(spool: Path) -> list[dict[str, Any]]:
    found = [unsealed(line) for path in sorted(spool.glob("*.spool")) for line in path.read_bytes().splitlines(True)]
    return [line for line in found if line and "do" in line]


def waits_of(client: Client) -> list[float]:
    """How long each call of an agent may take, in seconds. The SDK's own threads have all the time they want."""
    post, allowed = client.transport.post, []

    def noted(path: str, body: str, wait_s: float, has: str | None = None) -> Answer:
        if not threading.current_thread().name.startswith("redrive-"):
            allowed.append(wait_s)
        return post(path, body, wait_s, has)

    client.transport.post = noted  # type: ignore[method-assign]
    return allowed


class Away(LiveCase):
    """Each test has a server of its own, since it takes it away."""

    WAIT_MS = 1_000

    @classmethod
    def setUpClass(cls) -> None:
        pass

    @classmethod
    def tearDownClass(cls) -> None:
        pass

    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)
        super().setUp()

    def said(self, run_id: str) -> list[str]:
        return [line["do"] for line in lines(self.spool) if line["run_id"] == run_id]

    def test_a_run_without_a_server_is_spooled_and_sent_later(self) -> None:
        self.server.kill()
        with self.client.run("offline", queue="mail", payload={"n": 1}) as run:
            run.do("load", lambda: 7)
            self.assertEqual(run.do("mail", lambda: "sent", effect=True), "sent")
            run.output = "ok"
        until(lambda: self.said("offline")[-1:] == ["succeed"], "the end is on disk")
        self.assertEqual(self.said("offline")[:3], ["start", "step", "step"])
        modes = {stat.S_IMODE(path.stat().st_mode) for path in self.spool.glob("*.spool")}
        self.assertEqual((modes, stat.S_IMODE(self.spool.stat().st_mode)), ({0o600}, 0o700))
        self.server.start()
        seen = self.settled("offline", "succeeded")
        self.assertEqual((seen["attempt"], seen["output"], seen["payload"]), (1, "ok", {"n": 1}))
        self.assertEqual({s["name"]: s["status"] for s in seen["steps"]}, {"load": "committed", "mail": "committed"})
        self.assertTrue(self.client.flush())
        self.assertEqual(list(self.spool.glob("*.spool")), [])

    def test_an_outage_in_the_middle_of_a_run_loses_nothing(self) -> None:
        with self.assertRaises(TimeoutError), self.client.run("middle", resumable=True) as run:
            run.do("first", lambda: 1, effect=True)
            self.server.kill()
            run.do("second", lambda: 2, effect=True)
            raise TimeoutError("Request timed out")
        self.server.start()
        seen = self.settled("middle", "scheduled")
        self.assertEqual((seen["reason"], len(seen["attempts"])), ("timeout", 1))
        self.assertEqual({s["name"]: s["output"] for s in seen["steps"]}, {"first": 1, "second": 2})

    def test_a_server_back_before_the_end_takes_the_run_over(self) -> None:
        self.server.kill()
        with self.make_client(wait_ms=60_000).run("back", payload=1) as run:
            self.server.start()
            until(lambda: run.attempt == 1, "the start was answered")
            self.assertEqual(self.server.run("back")["state"], "running")
            run.do("pay", lambda: "paid", effect=True)
            self.assertEqual(step_of(self.server.run("back"), "pay")["status"], "committed")
        self.assertEqual(run.outcome(PATIENCE_S).state, "succeeded")

    def test_an_end_queued_before_the_start_finds_its_lease(self) -> None:
        self.server.kill()
        run, told = self.client.run("overtaken").__enter__(), self.client.sender._told

        def end_it(record: Record, answer: Any) -> None:
            if record.do == "start":
                self.client.sender.put(Record("succeed", run._id, "overtaken", '{"output":"x"}'))
            told(record, answer)

        self.client.sender._told = end_it
        self.server.start()
        self.settled("overtaken", "succeeded")

    def test_what_a_dead_process_left_the_next_one_sends(self) -> None:
        self.server.kill()
        text = """
import redrive, threading
with redrive.run("left", queue="mail", payload=1) as run:
    run.do("pay", lambda: "paid", effect=True)
threading.Event().wait()
"""
        program = self.program(text)
        until(lambda: self.said("left")[-1:] == ["succeed"], "its end is on disk")
        # It lives, and sends nothing.
        program.send_signal(signal.SIGSTOP)
        self.server.start()
        held = self.make_client()
        with held.run("unrelated") as run:
            run.output = "x"
        held.flush()
        self.assertTrue(lines(self.spool), "its owner lives: nobody else sends it")
        program.send_signal(signal.SIGKILL)
        program.communicate()
        following = self.make_client()
        with following.run("next") as run:
            run.output = "x"
        seen = self.settled("left", "succeeded")
        self.assertEqual((seen["attempt"], step_of(seen, "pay")["output"]), (1, "paid"))
        until(lambda: not list(self.spool.glob("*.spool")), "the file is gone")

    def test_the_command_line_sends_only_spools_of_dead_processes(self) -> None:
        self.server.kill()
        text = """
import redrive, threading
with redrive.run("{run_id}", queue="mail", payload=1, resumable=True) as run:
    run.do("pay", lambda: "paid", effect=True)
    raise TimeoutError("Request timed out")
"""
        wait = "threading.excepthook\nimport sys\nsys.excepthook = lambda *_: threading.Event().wait()\n"
        dead = self.program(text.format(run_id="cli-dead") + "\n")
        dead.communicate(timeout=PATIENCE_S)
        living = self.program(text.format(run_id="cli-living").replace("threading\n", f"threading\n{wait}", 1))
        until(lambda: self.said("cli-living")[-1:] == ["fail"], "its end is on disk")
        living.send_signal(signal.SIGSTOP)
        self.server.start()
        command = [binary(), "spool", "send", "--dir", str(self.spool), "--json"]
        told = json.loads(subprocess.check_output(command, env=self.environment()))
        self.assertEqual(told, {"files": 1, "sent": 4, "refused": 0, "unreadable": 0, "in_use": 1, "for_others": 0})
        seen = self.server.run("cli-dead")
        self.assertEqual((seen["state"], seen["reason"], seen["attempt"]), ("scheduled", "timeout", 1))
        self.assertEqual(step_of(seen, "pay")["output"], "paid")
        self.assertIsNone(self.server.run("cli-living")["state"])
        living.send_signal(signal.SIGKILL)
        living.communicate()
        self.assertIn("4 reports sent, 1 file done", subprocess.check_output(command[:-1], env=self.environment(), text=True))
        self.assertEqual(self.server.run("cli-living")["state"], "scheduled")
        self.assertEqual(list(self.spool.glob("*")), [])

    def test_an_agent_killed_during_an_outage_is_found_silent(self) -> None:
        self.server.kill()
        text = """
import redrive, threading
with redrive.run("dark", payload=1, lease_ms=600, resumable=True) as run:
    with run.step("pay", effect=True):
        print("paying")
        threading.Event().wait()
"""
        program = self.program(text)
        until(lambda: program.stdout.readline() == "paying\n", "it pays")
        program.send_signal(signal.SIGKILL)
        program.communicate()
        self.server.start()
        with self.make_client().run("next") as run:
            run.output = "x"
        seen = self.settled("dark", "dead")
        self.assertEqual((seen["reason"], seen["dead_because"], step_of(seen, "pay")["status"]), ("silent", "unsafe", "unknown"))

    def test_a_sender_killed_at_any_line_repeats_nothing(self) -> None:
        self.server.kill()
        said = ["start", "step", "step", "fail"]
        for n in range(len(said)):
            with self.assertRaises(TimeoutError), self.client.run(f"dies-{n}", payload=1, resumable=True) as run:
                run.do("pay", lambda: "paid", effect=True)
                raise TimeoutError("Request timed out")
        until(lambda: self.said(f"dies-{len(said) - 1}") == said, "the last end is on disk")
        self.client.close(0)
        self.client.spool.lose_own()
        self.server.start()
        # Sent, and dead before it could note so: once at each line of a run.
        text = """
import os, redrive, redrive.spool
def dies(self, to, sync, mark=redrive.spool.SpoolFile.mark):
    lines.append(to)
    if len(lines) == {line}:
        os._exit(9)
    mark(self, to, sync)
lines, redrive.spool.SpoolFile.mark = [], dies
with redrive.run():
    pass
redrive.flush()
"""
        for line in (1, 5, 5, 5):
            sender = self.program(text.format(line=line))
            sender.communicate(timeout=PATIENCE_S)
            self.assertEqual(sender.returncode, 9)
        with self.make_client().run("next") as run:
            run.output = "x"
        until(lambda: not list(self.spool.glob("*.spool")), "all of it is sent")
        for n in range(len(said)):
            seen = self.server.run(f"dies-{n}")
            self.assertEqual((seen["state"], [a["attempt"] for a in seen["attempts"]]), ("scheduled", [1]), n)
            self.assertEqual([(s["name"], s["status"]) for s in seen["steps"]], [("pay", "committed")])

    def test_damaged_spool_lines_do_not_stop_the_others(self) -> None:
        self.server.kill()
        for n in range(3):
            with self.client.run(f"torn-{n}") as run:
                run.output = n
        until(lambda: self.said("torn-2")[-1:] == ["succeed"], "the last end is on disk")
        self.client.close(0)
        [path] = self.spool.glob("*.spool")
        whole = path.read_bytes().replace(b'"run_id":"torn-1"', b'"run_id":"evil-1"')
        path.write_bytes(whole + b'0badc0de {"do":"fail"')
        self.client.spool.lose_own()
        self.server.start()
        with self.make_client().run("next") as run:
            run.output = "x"
        for name in ("torn-0", "torn-2"):
            self.settled(name, "succeeded")
        for name in ("torn-1", "evil-1"):
            self.assertIsNone(self.server.run(name)["state"], "a line that was changed says nothing")

    def test_an_end_spooled_twice_is_one_end(self) -> None:
        self.server.kill()
        with self.assertRaises(TimeoutError), self.client.run("twice", payload=1) as run:
            raise TimeoutError("Request timed out")
        until(lambda: self.said("twice")[-1:] == ["fail"], "the end is on disk")
        self.client.close(0)
        self.client.spool.lose_own()
        [path] = self.spool.glob("*.spool")
        whole = path.read_bytes().splitlines(True)
        path.write_bytes(b"".join([*whole, whole[-1]]))
        self.server.start()
        with self.make_client().run("next") as run:
            run.output = "x"
        until(lambda: not list(self.spool.glob("*.spool")), "all of it is sent")
        self.assertEqual([a["attempt"] for a in self.server.run("twice")["attempts"]], [1])

    def test_a_full_spool_stops_no_agent_but_begins_no_effect(self) -> None:
        self.server.kill()
        client = self.make_client(spool_max_bytes=2_000)
        self.addCleanup(lambda: client.close(0))
        for n in range(20):
            with client.run(f"full-{n}", payload="x" * 300) as run:
                run.output = n
        self.assertLess(sum(path.stat().st_size for path in self.spool.glob("*.spool")), 2_001)
        with client.run("full-effect", payload="x" * 2_000) as run, self.assertRaises(redrive.EffectRefused):
            run.do("pay", lambda: self.fail("it began"), effect=True)

    def test_effects_can_be_refused_while_the_server_is_away(self) -> None:
        self.server.kill()
        client = self.make_client(effects_offline="refuse", wait_ms=100)
        with client.run("careful") as run:
            with self.assertRaises(redrive.EffectRefused):
                run.do("pay", lambda: self.fail("it began"), effect=True)
            run.do("read", lambda: "plain steps go on")

    def test_an_offline_effect_under_an_expired_lease_is_refused(self) -> None:
        with self.make_client(wait_ms=60_000).run("lapsed", lease_ms=500) as run:
            self.server.kill()
            until(lambda: now() > run._alive_until, "the lease is over")
            with self.assertRaises(redrive.LeaseLost):
                run.do("pay", lambda: self.fail("it began"), effect=True)

    def test_a_server_that_never_answers_blocks_within_the_limit(self) -> None:
        with socket.socket() as hole:
            hole.bind(("127.0.0.1", 0))
            hole.listen(64)
            url = f"http://127.0.0.1:{hole.getsockname()[1]}"
            client = self.make_client(url=url, wait_ms=200, exit_wait_ms=200)
            waits = waits_of(client)
            with client.run("hole") as run:
                run.do("read", lambda: 1)
                run.do("pay", lambda: 2, effect=True)
            self.assertLessEqual(len(waits), 3, "a start, an intent and an outcome")
            client.close()
        self.assertLessEqual(max(waits), 0.2)
        self.assertEqual(self.said("hole")[0], "start")

    def test_reports_under_a_wrong_key_wait_for_the_right_one(self) -> None:
        wrong = self.make_client(key="rd_nobody")
        with wrong.run("locked-out", payload=1) as run:
            run.output = "x"
        until(lambda: self.said("locked-out")[-1:] == ["succeed"], "it is on disk")
        wrong.close(0)
        wrong.spool.lose_own()
        with self.make_client().run("next") as run:
            run.output = "x"
        self.settled("locked-out", "succeeded")

    def test_an_attempt_refused_after_the_fact_is_still_reported(self) -> None:
        with self.assertRaises(TimeoutError), self.client.run("early", payload=1):
            raise TimeoutError("Request timed out")
        self.settled("early", "scheduled")
        self.server.kill()
        with self.assertRaises(ConnectionError), self.client.run("early", payload=1):
            raise ConnectionError("Connection reset by peer")
        self.server.start()
        seen = until(lambda: (r := self.server.run("early"))["attempt"] == 2 and r, "the second failure is there")
        self.assertEqual([attempt["verdict"]["reason"] for attempt in seen["attempts"]], ["timeout", "network"])


class Outage(LiveCase):
    def test_an_outage_amid_1000_runs_loses_and_repeats_none(self) -> None:
        client = self.make_client(wait_ms=1_000, lease_ms=600_000)
        numbers, waits = iter(range(1000)), waits_of(client)
        lock, done, failed = threading.Lock(), [0], []

        def one(n: int) -> None:
            with client.run(f"o-{n}", queue="outage", payload={"n": n}, resumable=True) as run:
                run.do("read", lambda: n)
                run.do("pay", lambda: f"paid {n}", effect=True)
                threading.Event().wait(0.4)
                if n % 10 == 0:
                    raise TimeoutError("Request timed out")
                run.output = f"done {n}"

        def agent() -> None:
            while True:
                with lock:
                    n = next(numbers, None)
                if n is None:
                    return
                try:
                    one(n)
                except TimeoutError:
                    pass
                except BaseException as error:  # noqa: BLE001 - none may fail for our sake
                    failed.append((n, repr(error)))
                with lock:
                    done[0] += 1

        threads = [threading.Thread(target=agent) for _ in range(16)]
        for thread in threads:
            thread.start()
        until(lambda: done[0] >= 250, "the first 250 are done")
        self.server.kill()
        # The outage itself: this long nobody answers.
        threading.Event().wait(20)
        until(lambda: done[0] > 300, "agents go on without a server")
        self.server.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        self.assertLessEqual(max(waits), 1.0, "no call keeps an agent longer than it was told to")
        until(lambda: client.flush(1), "all of it is sent")
        client.close()
        for n in range(1000):
            seen = self.server.run(f"o-{n}")
            wanted = ("scheduled", None) if n % 10 == 0 else ("succeeded", f"done {n}")
            self.assertEqual((seen["state"], seen.get("output")), wanted, n)
            self.assertEqual([a["attempt"] for a in seen["attempts"]], [1], n)
            pay = step_of(seen, "pay")
            self.assertEqual((pay["status"], pay["output"], len(seen["steps"])), ("committed", f"paid {n}", 2), n)
        self.assertEqual(json.loads(json.dumps(lines(self.spool))), [])
        self.assertFalse((self.spool / "refused.jsonl").exists())


if __name__ == "__main__":
    main(__file__)
