"""Ends are not lost: over forks, exits without goodbye, cancelled starts and the end of the interpreter."""

from __future__ import annotations

import asyncio
import threading

from fake import FakeCase
from live import PATIENCE_S, LiveCase, step_of, until
from suite import main

import redrive

FORKED = """
import multiprocessing, os, redrive
def work(n):
    with redrive.run(f"{name}-{{n}}") as run:
        run.do("step", lambda: n)
        run.output = n
def main():
    {before}
    context = multiprocessing.get_context("{method}")
    children = [context.Process(target=work, args=(n,)) for n in range(3)]
    for child in children: child.start()
    for child in children: child.join()
if __name__ == "__main__":
    main()
"""


class Processes(LiveCase):
    def children(self, name: str, method: str, before: str = "pass") -> None:
        path = self.spool.parent / "program.py"
        path.write_text(FORKED.format(name=name, method=method, before=before))
        program = self.program(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')")
        print(program.communicate(timeout=PATIENCE_S)[0], end="")
        for n in range(3):
            self.assertEqual(self.settled(f"{name}-{n}", "succeeded")["output"], n)

    def test_a_forked_childs_end_survives(self) -> None:
        self.children("fork", "fork")

    def test_a_forked_childs_end_survives_beside_its_parents_run(self) -> None:
        self.children("both", "fork", 'work(9); keep = redrive.run("both-parent").__enter__()')
        self.assertEqual(self.settled("both-parent", "scheduled")["reason"], "x:process_exit")

    def test_a_fork_servers_childs_end_survives(self) -> None:
        self.children("server", "forkserver")

    def test_a_childs_end_without_a_server_is_spooled(self) -> None:
        text = """
import multiprocessing, redrive
def work():
    with redrive.run("dark-child") as run:
        run.output = "c"
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
"""
        self.program(text, REDRIVE_URL="http://127.0.0.1:9").communicate(timeout=PATIENCE_S)
        spooled = "".join(path.read_text() for path in self.spool.glob("*.spool"))
        self.assertEqual((spooled.count('"do":"start"'), spooled.count('"do":"succeed"')), (1, 1))

    def test_a_forked_child_never_ends_its_parents_attempt(self) -> None:
        text = """
import os, sys, redrive
with redrive.run("whole") as run:
    run.do("before", lambda: 1)
    if os.fork() == 0:
        run.do("in_child", lambda: 2, key="whole:child", effect=True)
        raise SystemExit(3)
    os.wait()
    run.do("after", lambda: 3)
    run.output = "parent"
"""
        program = self.program(text)
        print(program.communicate(timeout=PATIENCE_S)[0], end="")
        seen = self.settled("whole", "succeeded")
        self.assertEqual((seen["output"], len(seen["attempts"])), ("parent", 1))
        self.assertEqual({step["name"] for step in seen["steps"]}, {"before", "in_child", "after"})

    def test_an_effect_in_a_forked_child_needs_a_key(self) -> None:
        text = """
import os, redrive
with redrive.run("counted") as run:
    if os.fork() == 0:
        try:
            run.do("pay", lambda: 1, effect=True)
        except redrive.EffectRefused as refused:
            print("refused", flush=True)
        os._exit(0)
    os.wait()
"""
        # Beside it newer Pythons complain of forks in a process with threads.
        self.assertIn("refused", self.program(text).communicate(timeout=PATIENCE_S)[0])

    def test_an_exit_without_goodbye_after_a_flush_loses_nothing(self) -> None:
        text = """
import os, redrive
with redrive.run("gone") as run:
    run.do("step", lambda: 1)
    run.output = "x"
with redrive.run("open") as run:
    run.do("early", lambda: 1)
    redrive.flush(5)
    os._exit(0)
"""
        self.program(text).communicate(timeout=PATIENCE_S)
        self.assertEqual(self.settled("gone", "succeeded")["output"], "x")
        self.assertEqual(step_of(self.server.run("open"), "early")["status"], "committed")

    def test_a_flush_that_had_no_time_leaves_all_on_disk(self) -> None:
        text = """
import os, socket, redrive
hole = socket.create_server(("127.0.0.1", 0), backlog=64)
redrive.configure(url=f"http://127.0.0.1:{hole.getsockname()[1]}", wait_ms=50)
with redrive.run("held") as run:
    run.output = "x"
print(redrive.flush(0.1))
os._exit(0)
"""
        self.assertEqual(self.program(text).communicate(timeout=PATIENCE_S)[0].splitlines()[-1], "False")
        spooled = "".join(path.read_text() for path in self.spool.glob("*.spool"))
        self.assertEqual(spooled.count('"succeed"'), 1)

    def test_a_run_that_ends_while_the_interpreter_does_is_kept(self) -> None:
        text = """
import atexit
def late():
    with redrive.run("very-late", payload=1) as run:
        run.output = "x"
# Registered before ours, and so called after it.
atexit.register(late)
import redrive, threading, time
def work():
    with redrive.run("in-thread") as run:
        time.sleep(0.3)
        run.output = "x"
with redrive.run("first"):
    pass
threading.Thread(target=work).start()
"""
        print(self.program(text).communicate(timeout=PATIENCE_S)[0], end="")
        for name in ("first", "in-thread"):
            self.settled(name, "succeeded")
        with self.make_client().run("sends-what-is-left") as run:
            run.output = "x"
        self.settled("very-late", "succeeded")


class Cancelled(FakeCase):
    def test_a_task_cancelled_during_its_start_is_ended(self) -> None:
        begun, go_on = threading.Event(), threading.Event()
        start = self.server._start

        def slow(given: dict) -> object:
            begun.set()
            go_on.wait(PATIENCE_S)
            return start(given)

        self.server._start = slow  # type: ignore[method-assign, assignment]

        @redrive.agent(run_id=lambda n: f"agent-{n}", client=self.client)
        async def agent(n: int) -> None:
            self.fail("it began")

        async def block() -> None:
            async with self.client.run("block"):
                self.fail("it began")

        async def cancel(work: object) -> None:
            begun.clear()
            go_on.clear()
            task = asyncio.ensure_future(work)  # type: ignore[call-overload]
            while not begun.is_set():
                await asyncio.sleep(0.001)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0.001)
            go_on.set()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(cancel(block()))
        asyncio.run(cancel(agent(1)))
        self.assertEqual((self.ended("block"), self.ended("agent-1")), (["fail"], ["fail"]))
        self.assertEqual(self.client.open_runs(), [])

    def test_a_task_cancelled_before_its_effect_leaves_nothing_in_doubt(self) -> None:
        begun, go_on = threading.Event(), threading.Event()
        step = self.server._step

        def slow(*given: object) -> object:
            begun.set()
            go_on.wait(PATIENCE_S)
            return step(*given)  # type: ignore[arg-type]

        async def work() -> None:
            async with self.client.run("effect") as run:
                self.server._step = slow  # type: ignore[method-assign, assignment]
                await run.do_async("pay", lambda: self.fail("it began"), key="k", effect=True)

        async def cancel() -> None:
            task = asyncio.ensure_future(work())
            while not begun.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.sleep(0.01)
            go_on.set()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(cancel())
        self.assertEqual((self.ended("effect"), self.status("k")), (["fail"], "failed"))

    def test_an_interrupted_start_is_ended_under_its_lease(self) -> None:
        post = self.server.post

        def interrupted(path: str, body: str, wait_s: float, has: str | None = None) -> object:
            answer = post(path, body, wait_s, has)
            if path == "/v1/runs" and not self.hit:
                self.hit = True
                raise KeyboardInterrupt
            return answer

        self.hit = False
        self.server.post = interrupted  # type: ignore[method-assign, assignment]
        with self.assertRaises(KeyboardInterrupt), self.client.run("ctrl-c"):
            self.fail("it began")
        self.assertEqual(self.ended("ctrl-c"), ["fail"])

    def test_no_thread_to_be_had_puts_the_end_on_disk(self) -> None:
        import redrive.sender

        with self.client.run("no-thread") as run:
            start, redrive.sender.start_daemon = redrive.sender.start_daemon, lambda *_: None  # type: ignore[assignment]
            self.client.sender._thread = None
            run.output = "x"
        redrive.sender.start_daemon = start
        spooled = "".join(path.read_text() for path in self.client.spool.folder.glob("*.spool"))
        self.assertEqual(spooled.count('"succeed"'), 1)
        until(lambda: self.client.flush(1), "it is sent")
        self.assertEqual(self.ended("no-thread"), ["succeed"])


if __name__ == "__main__":
    main(__file__)
