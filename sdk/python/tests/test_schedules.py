"""Random schedules of threads, tasks, cancellations, outages and kills against the ledger's rules. Whatever happens, no effect
is done twice by our doing, none is retried while in doubt, and no end is lost."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

from fake import DONE, RUNNING, SCHEDULED, UNSAFE, FakeCase, seeds
from live import PATIENCE_S, SRC, LiveCase, until
from suite import main

import redrive
import redrive.heartbeat
import redrive.timers
from redrive.client import Client

ATTEMPTS = 4


#: One attempt of a run, with a client of its own: whether it came to an end by itself.
Attempt = Callable[[random.Random, "World", Client, str], bool]


class Killed(BaseException):
    """The process is gone at this point: what it does from here on reaches nobody."""


class World:
    """The outside: what was done to it, and whether anybody may do it again."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.lock = threading.Lock()
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.doubt: set[str] = set()
        self.killed = False

    def touch(self, what: str) -> str:
        """One effect: it happens, says that it did not, leaves a doubt, or is where the process dies."""
        with self.lock:
            if self.killed:
                raise Killed
            if what in self.doubt:
                self.wrong.append(f"{what} was begun while in doubt")
            fate = self.random.random()
            if fate < 0.15:
                raise redrive.NotDone("declined")
            if fate < 0.25:
                self.doubt.add(what)
                self.done[what] += self.random.random() < 0.5
                raise ConnectionError("no answer")
            if fate < 0.33:
                self.doubt.add(what)
                self.done[what] += self.random.random() < 0.5
                self.killed = True
                raise Killed
            self.done[what] += 1
            return f"done {what}"

    async def touch_async(self, what: str) -> str:
        pauses = self.random.randrange(3)
        for _ in range(pauses):
            await asyncio.sleep(0)
        return self.touch(what)


#: What an agent meets in a schedule and swallows.
REFUSED = (redrive.RedriveError, redrive.NotDone, ConnectionError)


class Schedules(FakeCase):
    def setUp(self) -> None:
        super().setUp()
        logging.getLogger("redrive").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("redrive").setLevel, logging.NOTSET)
        switch = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        self.addCleanup(sys.setswitchinterval, switch)
        # Here a kill takes what is in memory, and no disk loses power.
        no_sync = mock.patch("os.fsync")
        no_sync.start()
        self.addCleanup(no_sync.stop)
        # Thousands of clients come and go, and none may leave its threads behind.
        for module in (redrive.timers, redrive.heartbeat):
            idle = mock.patch.object(module, "IDLE_S", 0.05)
            idle.start()
            self.addCleanup(idle.stop)
        self.counts: Counter[str] = Counter()

    def play(self, first_seed: int, count: int, attempt: Attempt) -> None:
        for seed in seeds(count):
            self.schedule(first_seed + seed, attempt)
        if os.environ.get("REDRIVE_SCHEDULES_COUNTS"):
            print(f"counts of {self.id().rpartition('.')[2]}: {dict(sorted(self.counts.items()))}", flush=True)

    def schedule(self, seed: int, attempt: Attempt) -> None:
        """The attempts of one run until it is closed, each in a process of its own as far as the SDK can tell."""
        chance = random.Random(seed)
        world, run_id = World(chance), f"run-{seed}"
        self.counts["schedules"] += 1
        for number in range(ATTEMPTS):
            client = self.make_client(wait_ms=200, flush_ms=20, spool_dir=self.client.spool.folder / f"{seed}-{number}")
            world.killed = False
            finished = attempt(chance, world, client, run_id)
            self.counts["attempts"] += 1
            if world.killed:
                self.counts["kills"] += 1
                self.kill(client, run_id, chance)
            else:
                self.come_back(client)
                assert client.flush(PATIENCE_S), seed
                client.close(0)
                ends = self.server.runs[run_id]["ends"]
                if finished and self.server.runs[run_id]["state"] == RUNNING:
                    world.wrong.append(f"the end of attempt {number} is lost: {ends}")
            if self.server.runs.get(run_id, {"state": SCHEDULED})["state"] in (DONE, UNSAFE):
                break
        self.counts["effects"] += sum(world.done.values())
        self.counts["ends"] += len(self.server.runs.get(run_id, {"ends": []})["ends"])
        twice = [what for what, times in world.done.items() if times > 1]
        self.assertEqual((twice, world.wrong), ([], []), f"seed {seed}")

    def go_away(self) -> None:
        self.server.away = True
        self.counts["outages"] += 1

    def come_back(self, client: Client) -> None:
        self.server.away = False
        client.sender._retry_at = 0.0

    def lease_runs_out(self, run_id: str, chance: random.Random) -> None:
        """Sometimes an outage takes longer than the lease."""
        if self.server.away and chance.random() < 0.5:
            self.counts["leases over in an outage"] += 1
            self.server.silence(run_id)

    def kill(self, client: Client, run_id: str, chance: random.Random) -> None:
        """What is in memory is gone. The next process sends what is on disk, before or after the lease has run out."""
        with client.sender._wake:
            client.sender._queue.clear()
            client.sender._in_hand.clear()
            client.sender._stopped = True
            client.sender._wake.notify_all()
            client.sender._wake.wait_for(lambda: not client.sender._busy, PATIENCE_S)
        client._runs.clear()
        client.sender._late.give_up_all()
        folder, own = client.spool.folder, client.spool.own()
        if own is not None:
            own.file.close()
        self.server.away = False
        if chance.random() < 0.5:
            self.server.silence(run_id)
        following = self.make_client(spool_dir=folder)
        until(lambda: not self.left(following, late=False), "what was on disk is sent")
        self.server.silence(run_id)
        # Late effects wait while an attempt is under way.
        until(lambda: not self.left(following, late=True), "late effects are sent")
        following.close(0)

    def left(self, client: Client, late: bool) -> list[Path]:
        """Spool files that are still to be sent, with those of late effects or without."""
        client.sender._others_at = 0.0
        client.sender.poke()
        return [path for path in client.spool.folder.glob("*.spool") if late or not path.stem.endswith("-late")]

    def attempt(self, client: Client, run_id: str, chance: random.Random, world: World, work: Callable[[redrive.Run], None]) -> bool:
        """Whether the attempt came to an end of its own."""
        try:
            with client.run(run_id, payload=1, resumable=True) as run:
                work(run)
                self.lease_runs_out(run_id, chance)
                if world.killed:
                    raise Killed
                if chance.random() < 0.4:
                    raise TimeoutError("Request timed out")
                run.output = "done"
        except Killed:
            return False
        except (TimeoutError, redrive.StartRefused):
            pass
        return True

    def test_threads_kills_and_outages_do_nothing_twice(self) -> None:
        def attempt(chance: random.Random, world: World, client: Client, run_id: str) -> bool:
            @redrive.effect
            def pay(what: str) -> str:
                return world.touch(what)

            @redrive.effect(key=lambda what: f"{run_id}:by-key:{what}")
            def mail(what: str) -> str:
                return world.touch(f"mail-{what}")

            def one(name: int) -> None:
                with suppress(*REFUSED):
                    (pay if name % 2 else mail)(f"{name}")

            def work(run: redrive.Run) -> None:
                run.do("load", lambda: 1)
                # One key from several threads at once, and others beside it. The same arguments again, after the first
                # call has ended, are another effect: of those there is one a name.
                names = [2 * chance.randrange(2) for _ in range(chance.randrange(1, 4))] * chance.randrange(1, 4)
                names += [n for n in (1, 3) if chance.random() < 0.5]
                if chance.random() < 0.15:
                    self.go_away()
                if chance.random() < 0.5:
                    with ThreadPoolExecutor(len(names)) as pool:
                        for call in [pool.submit(one, name) for name in names]:
                            call.result()
                    return
                threads = [threading.Thread(target=run.bind(quiet(one)), args=(name,)) for name in set(names)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

            return self.attempt(client, run_id, chance, world, work)

        self.play(0, 700, attempt)

    def test_tasks_and_cancellations_do_nothing_twice(self) -> None:
        def attempt(chance: random.Random, world: World, client: Client, run_id: str) -> bool:
            @redrive.effect
            async def pay(what: str) -> str:
                return await world.touch_async(what)

            async def one(name: str) -> None:
                with suppress(*REFUSED):
                    await pay(name)

            async def block() -> None:
                async with client.run(run_id, payload=1, resumable=True) as run:
                    names = [f"{chance.randrange(3)}" for _ in range(chance.randrange(1, 4))] * chance.randrange(1, 3)
                    await asyncio.gather(*(one(name) for name in names))
                    if chance.random() < 0.3:
                        raise TimeoutError("Request timed out")
                    run.output = "done"

            async def work() -> None:
                task = asyncio.ensure_future(block())
                if chance.random() < 0.5:
                    await asyncio.sleep(chance.random() * 0.004)
                    self.counts["cancellations"] += task.cancel()
                with suppress(TimeoutError, asyncio.CancelledError, redrive.StartRefused):
                    await task

            try:
                asyncio.run(work())
            except Killed:
                return False
            return True

        self.play(100_000, 700, attempt)

    def test_a_frameworks_tools_are_not_retried_in_doubt(self) -> None:
        from redrive.frameworks.common import Watch

        def attempt(chance: random.Random, world: World, client: Client, run_id: str) -> bool:
            def tool(watch: Watch, name: str, call: int) -> None:
                try:
                    step = watch.tool_begins(name, call, {"n": 1}, can_skip=True)
                except redrive.EffectRefused:
                    return
                if step is not None and step.done:
                    return
                try:
                    # The model asks for the same again on purpose: that is another effect.
                    watch.tool_ends(name, world.touch(step.key if step is not None else name), call)
                except (redrive.NotDone, ConnectionError) as error:
                    watch.tool_fails(name, str(error), error, call)

            def work(run: redrive.Run) -> None:
                watch = Watch(run, effects=["pay", "mail"])
                for call in range(chance.randrange(1, 5)):
                    if chance.random() < 0.05:
                        self.go_away()
                    tool(watch, chance.choice(["pay", "mail"]), call)

            return self.attempt(client, run_id, chance, world, work)

        self.play(200_000, 600, attempt)


def quiet(call: Any) -> Any:
    def called(*args: Any) -> None:
        with suppress(Killed):
            call(*args)

    return called


PROGRAM = """
import multiprocessing, os, random, signal, sys, threading, time
import fake, redrive
spool, seed = sys.argv[1], int(sys.argv[2])
chance = random.Random(seed)
redrive.configure(url="http://127.0.0.1:9", key="k", spool_dir=spool, wait_ms=50, exit_wait_ms=50)
def child(n):
    with redrive.run(f"child-{n}", payload=n) as run:
        run.output = n
    print(f"child-{n}", flush=True)
for n in range(3):
    how = chance.choice(["plain", "fork", "thread", "exit"])
    if how == "plain":
        child(n)
    elif how == "thread":
        thread = threading.Thread(target=child, args=(n,)); thread.start(); thread.join()
    elif how == "fork":
        process = multiprocessing.get_context("fork").Process(target=child, args=(n,)); process.start(); process.join()
    elif os.fork() == 0:
        child(n); redrive.flush(0.02); os._exit(0)
    else:
        os.wait()
if chance.random() < 0.5:
    redrive.flush(0.02)
    os.kill(os.getpid(), signal.SIGKILL)
"""


class RealKills(LiveCase):
    """Real processes, killed at a random moment between the start of their run and its end, with a real server."""

    PAYMENTS = 5

    def work(self, run_id: str, client: Client, world: Path) -> None:
        def pay(n: int) -> str:
            with open(world, "a") as file:
                file.write(f"{n}\n")
            return f"paid {n}"

        with client.run(run_id, payload=1, resumable=True) as run:
            for n in range(self.PAYMENTS):
                run.do(f"pay-{n}", lambda n=n: pay(n), key=f"{run_id}:{n}", effect=True)

    def killed(self, run_id: str, world: Path, chance: random.Random) -> bool:
        """Whether the process had said that all of it is told before it was killed."""
        told, say = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                client = self.make_client(lease_ms=500)
                os.write(say, b"b")
                self.work(run_id, client, world)
                if client.flush(PATIENCE_S):
                    os.write(say, b"e")
                threading.Event().wait()
            finally:
                os._exit(1)
        os.close(say)
        os.read(told, 1)
        threading.Event().wait(chance.random() * 0.06)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(told, "rb") as rest:
            return rest.read() == b"e"

    def test_processes_killed_at_random_do_nothing_twice(self) -> None:
        self.spool.mkdir()
        ended = {}
        for seed in seeds(100):
            ended[seed] = self.killed(f"kill-{seed}", self.spool / f"world-{seed}", random.Random(seed))
        for seed, was_told in ended.items():
            run_id, world = f"kill-{seed}", self.spool / f"world-{seed}"
            if not was_told and self.server.run(run_id)["state"] is None and not world.exists():
                # Killed before its start was on record anywhere: it has done nothing.
                continue
            seen = self.settled(run_id, "succeeded") if was_told else self.settled(run_id, "dead", "scheduled", "succeeded")
            done = world.read_text().split() if world.exists() else []
            status = {step["name"].removeprefix("pay-"): step["status"] for step in seen["steps"]}
            self.assertLessEqual(set(done), set(status), f"seed {seed}: an effect without an intent on record")
            self.assertEqual(seen["state"] == "dead", "unknown" in status.values(), (seed, status))
            if seen["state"] == "scheduled":
                self.assertEqual(self.server.replay(run_id)[0], 200)
                self.work(run_id, self.client, world)
                done = world.read_text().split()
                self.assertEqual(sorted(done), [f"{n}" for n in range(self.PAYMENTS)], seed)
            self.assertEqual(len(done), len(set(done)), f"seed {seed}: done twice")


class Kills(FakeCase):
    def test_ends_of_killed_and_forked_processes_are_on_disk(self) -> None:
        for seed in seeds(2_000)[::200]:
            folder = self.client.spool.folder / f"killed-{seed}"
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, str(folder), str(seed)],
                env={**os.environ, "PYTHONPATH": f"{SRC}:{SRC.parent / 'tests'}", "REDRIVE_OFF": ""},
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            ended = done.stdout.split()
            kept = "".join(path.read_text() for path in folder.glob("*.spool"))
            for name in ended:
                self.assertEqual(kept.count('"do":"succeed","run":"'), len(ended), done.stderr[-2000:])
                self.assertIn(f'"run_id":"{name}"', kept)
            self.assertEqual(len(ended), 3, done.stderr[-2000:])
            shutil.rmtree(folder)


if __name__ == "__main__":
    main(__file__)
