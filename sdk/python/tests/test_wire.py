"""The way to the server: waits that are bounded as a whole, heartbeats, wrong servers, fields of the wrong type, and secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import threading
import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

from fake import FakeCase
from live import PATIENCE_S, LiveCase, step_of, until
from suite import main

import redrive
import redrive.logs
from redrive import clock, transport
from redrive.client import Client
from redrive.heartbeat import Heartbeats
from redrive.mend import mended
from redrive.record import Record
from redrive.settings import Settings
from redrive.transport import Answer, Away, Transport


class Peer:
    """Answers every connection with what the script does to it."""

    def __init__(self, script: Callable[[socket.socket], None], many: int = 1) -> None:
        self._script, self._many, self.asked = script, many, 0
        self.read = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.over = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                self.read = read_request(connection, self._many)
                self.asked += 1
                self._script(connection)
        except OSError:
            pass

    def close(self) -> None:
        self.over.set()
        self._socket.close()


def read_request(connection: socket.socket, many: int = 1) -> bytes:
    """All of it: closing a connection with bytes unread resets it, and the answer is lost."""
    request = b""
    while (received := connection.recv(65536)) != b"":
        request += received
        rest, whole = request, 0
        while (end := _length(rest)) is not None:
            rest, whole = rest[end:], whole + 1
        if whole >= many:
            break
    return request


def _length(request: bytes) -> int | None:
    """Of the first request in it; none while it is not whole."""
    head, is_whole, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    size = int(length[1]) if length else 0
    return len(head) + 4 + size if is_whole and len(body) >= size else None


def says(status: str, body: str = "", *headers: str) -> Callable[[socket.socket], None]:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", body]
    return lambda connection: connection.sendall("\r\n".join(lines).encode())


class PeerCase(FakeCase):
    def peer(self, script: Callable[[socket.socket], None], **settings: Any) -> tuple[Peer, Client]:
        peer = Peer(script)
        self.addCleanup(peer.close)
        given = {"url": peer.url, "key": "rd_secret_key_1", "spool_dir": self.client.spool.folder, "catch_sigterm": False}
        client = Client(Settings(**{**given, "exit_wait_ms": 100, **settings}))
        self.addCleanup(client.close, 0)
        return peer, client


class Waits(PeerCase):
    def given_up(self, first: bytes, again: bytes) -> None:
        """The peer goes on for ever, and each byte that is read takes a tenth of a second. The limit is thirty seconds."""

        def goes_on(connection: socket.socket) -> None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(first)
            while not peer.over.is_set():
                connection.sendall(again)

        peer, client = self.peer(goes_on)
        time_s, receive = 1_000.0, transport._BoundedSocket.recv_into

        def dripped(sock: Any, buffer: Any) -> int:
            nonlocal time_s
            time_s += 0.1
            return receive(sock, memoryview(buffer)[:1])

        with (
            mock.patch.object(transport.time, "monotonic", lambda: time_s),
            mock.patch.object(transport._BoundedSocket, "recv_into", dripped),
            self.assertRaisesRegex(Away, "the time for the call is up"),
        ):
            client.transport.post("/v1/runs", "{}", 30.0)
        self.assertLess(time_s, 1_000.0 + 30.2)

    def test_a_server_that_drips_bytes_is_given_up_in_time(self) -> None:
        self.given_up(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" ")

    def test_a_server_that_says_continue_for_ever_is_given_up(self) -> None:
        self.given_up(b"", b"HTTP/1.1 100 Continue\r\n\r\n")

    def test_a_busy_default_executor_holds_up_no_report(self) -> None:
        go_on = threading.Event()

        async def work() -> bool:
            loop = asyncio.get_running_loop()
            loop.set_default_executor(ThreadPoolExecutor(1))
            busy = loop.run_in_executor(None, go_on.wait, PATIENCE_S)
            async with self.client.run("busy") as run:
                await run.do_async("pay", lambda: asyncio.sleep(0, "paid"), effect=True)
            waited = busy.done()
            go_on.set()
            await busy
            return waited

        self.assertFalse(asyncio.run(work()), "the run was over while the executor was busy")
        self.assertEqual(self.ended("busy"), ["succeed"])

    def test_an_intent_answered_late_is_resent_as_the_same(self) -> None:
        post, intents = self.server.post, 0

        def answers_late(path: str, body: str, wait_s: float, has: str | None = None) -> Answer:
            nonlocal intents
            answer = post(path, body, wait_s, has)
            intents += path.endswith("/steps")
            if intents == 1:
                raise Away("timed out")
            return answer

        self.server.post = answers_late  # type: ignore[method-assign]
        with self.client.run("late") as run:
            self.assertEqual(run.do("pay", lambda: "paid", effect=True), "paid")
        self.assertEqual((self.ended("late"), self.status("late:pay")), (["succeed"], "committed"))
        self.assertEqual(list(self.client.spool.folder.glob("refused*")), [], "the server knew it again")

    def test_an_answer_that_ends_with_the_connection_is_read(self) -> None:
        _, client = self.peer(lambda c: c.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"state":"running"}'))
        self.assertEqual(client.transport.post("/v1/runs", "{}", 2.0).body, {"state": "running"})


def _answer(body: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


class Pipelines(FakeCase):
    """Several calls over one connection."""

    CALLS = [(f"/v1/runs/{n}/steps", f'{{"n":{n}}}', "status") for n in range(3)]

    def met(self, *answers: bytes) -> list[Any]:
        """What three calls come to with a peer that reads all of them before it answers the first."""
        peer = Peer(lambda connection: [connection.sendall(answer) for answer in answers] and None, many=3)
        self.addCleanup(peer.close)
        met = Transport(peer.url, "rd_secret_key_1").post_many(self.CALLS, PATIENCE_S)
        self.assertEqual(re.findall(rb"POST /v1/runs/(\d)/steps", peer.read), [b"0", b"1", b"2"])
        return [each.body if isinstance(each, Answer) else type(each) for each in met]

    def test_calls_are_all_sent_before_the_first_answer(self) -> None:
        told = [{"status": "committed", "n": n} for n in range(3)]
        self.assertEqual(self.met(b"".join(_answer(json.dumps(each)) for each in told)), told)

    def test_a_connection_lost_in_between_keeps_the_answers_before(self) -> None:
        self.assertEqual(self.met(_answer('{"status":"committed"}')), [{"status": "committed"}, Away, Away])

    def test_a_refusal_in_between_changes_no_other_answer(self) -> None:
        done = _answer('{"status":"committed"}')
        busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}"
        self.assertEqual(self.met(done, busy, done), [{"status": "committed"}, Away, {"status": "committed"}])


class Mends(unittest.TestCase):
    """A report whose form the server refuses."""

    def test_effects_of_an_end_survive_its_mending(self) -> None:
        plain = {"name": "load", "key": "step:load", "effect": False, "status": "committed"}
        effect = {"name": "pay", "key": "r:pay", "effect": True, "status": "started"}
        end = Record("fail", "r", "r", json.dumps({"error": {"message": "x" * 5_000}, "steps": [plain, {**effect, "odd": 1}]}))
        for field in ("steps[1].odd", None):
            better = mended(end, Answer(422, {"code": "invalid", "detail": "no", "field": field}), 0)
            assert better is not None
            self.assertEqual(json.loads(better[0].body)["steps"], [effect])


class Beats(FakeCase):
    def test_a_thousand_runs_are_kept_alive_in_time(self) -> None:
        time_s, beats = 1_000.0, 0

        class Slow:
            """Each call takes 50 ms."""

            def post(self, path: str, body: str, wait_s: float, has: str | None = None) -> Answer:
                nonlocal time_s, beats
                time_s, beats = time_s + 0.05, beats + 1
                leases = json.loads(body)["leases"]
                return Answer(200, {"leases": [{"run_id": each["run_id"], "lease_expires_at": "x"} for each in leases]})

        class Alive:
            lease_s = 3.0

            def __init__(self, n: int) -> None:
                self.record = Record("heartbeat", f"{n}", f"run-{n}", "{}", None, f"lease-{n}")
                self.renewed = 0.0

            def beat_record(self) -> Record:
                return self.record

            def beat_answered(self, asked_at: float, code: str) -> None:
                self.renewed = time_s

        runs = [Alive(n) for n in range(1_000)]
        with mock.patch("redrive.heartbeat.now", lambda: time_s), mock.patch("redrive.heartbeat.start_daemon"):
            heartbeats = Heartbeats(Slow())  # type: ignore[arg-type]
            for run in runs:
                time_s += 0.000_1
                heartbeats.add(run)
            while not all(run.renewed for run in runs):
                # The thread's own rounds, at the times at which it would wake up.
                time_s = max(time_s, min(due for _, due in heartbeats._runs.values()))
                heartbeats.beat(heartbeats._next())
        self.assertLess(max(run.renewed for run in runs), 1_000.0 + Alive.lease_s)
        self.assertLess(beats, 10, "in few calls")

    def test_a_lost_lease_among_many_is_told_to_its_run(self) -> None:
        with self.client.run("kept") as kept, self.client.run("lost") as lost:
            self.server.post = lambda *_: Answer(  # type: ignore[method-assign]
                200, {"leases": [{"run_id": "kept", "lease_expires_at": "x"}, {"run_id": "lost", "code": "cancelled"}]}
            )
            self.client.heartbeats.beat([kept, lost])
            del self.server.post
        self.assertEqual((kept.lost, lost.lost), ("", "cancelled"))

    def test_a_run_is_kept_alive_until_its_end_arrives(self) -> None:
        with self.client.run("on-its-way") as run:
            self.client.sender._retry_at = float("inf")
            run.output = "x"
        self.client.sender.to_spool()
        self.client.heartbeats.beat([run])
        self.assertEqual(self.server.calls[-1][0], "/v1/runs/on-its-way/heartbeat")
        self.client.sender._retry_at = 0.0
        self.assertEqual(self.ended("on-its-way"), ["succeed"])
        self.client.heartbeats.beat([run])
        self.assertEqual((self.server.calls[-1][0], self.client.heartbeats._runs), ("/v1/runs/on-its-way/succeed", {}))

    def test_a_server_without_the_call_for_many_gets_single_ones(self) -> None:
        paths: list[str] = []

        def post(path: str, body: str, wait_s: float, has: str | None = None) -> Answer:
            paths.append(path)
            return Answer(404, {"code": "not_found"}) if path == "/v1/heartbeats" else Answer(200, {"lease_expires_at": "x"})

        with self.client.run("one") as one, self.client.run("two") as two:
            self.server.post = post  # type: ignore[method-assign]
            self.client.heartbeats.beat([one, two])
            self.client.heartbeats.beat([one, two])
            del self.server.post
        singles = ["/v1/runs/one/heartbeat", "/v1/runs/two/heartbeat"]
        self.assertEqual(paths, ["/v1/heartbeats", *singles, *singles])

    def test_leases_are_counted_on_a_clock_that_sleeps_with_nobody(self) -> None:
        slept = 0.0
        real, clock.time.clock_gettime = clock.time.clock_gettime, lambda which: real(which) + slept  # type: ignore[assignment]
        try:
            with self.client.run("asleep") as run:
                slept = 3_600.0
                self.server.away = True
                with self.assertRaises(redrive.LeaseLost):
                    run.do("pay", lambda: self.fail("it began"), effect=True)
        finally:
            clock.time.clock_gettime = real


class Wrong(PeerCase):
    def kept(self, script: Callable[[socket.socket], None], words: str) -> None:
        _, client = self.peer(script)
        with self.assertLogs("redrive", logging.ERROR) as logged:
            for n in range(3):
                with client.run(f"wrong-{n}", payload=n) as run:
                    run.output = run.do("work", lambda: "done")
            until(lambda: self.spooled().count('"succeed"') == 3, "the ends are on disk")
        [said] = logged.output
        self.assertIn(words, said)
        self.assertIn("REDRIVE_URL", said)
        self.assertIn(str(client.spool.folder), said)
        self.assertEqual(list(client.spool.folder.glob("refused*")), [])

    def spooled(self) -> str:
        return "".join(path.read_text() for path in self.client.spool.folder.glob("*.spool"))

    def test_a_redirect_is_a_wrong_address(self) -> None:
        self.kept(says("302 Found", '{"a":1}', "Location: https://login.example/"), "redirects to https://login.example/")

    def test_an_empty_object_is_a_wrong_address(self) -> None:
        self.kept(says("200 OK", "{}"), "is not a Redrive server")

    def test_a_page_is_a_wrong_address(self) -> None:
        self.kept(says("200 OK", "<html>hello</html>", "Server: nginx"), "without JSON from nginx")

    def test_a_foreign_404_is_a_wrong_address(self) -> None:
        self.kept(says("404 Not Found", '{"message":"no such route"}'), "404 without a code")

    def test_unreadable_spool_lines_are_kept_in_a_named_file(self) -> None:
        self.server.away = True
        for n in range(2):
            with self.client.run(f"torn-{n}") as run:
                run.output = n
        until(lambda: self.spooled().count('"succeed"') == 2, "the ends are on disk")
        self.client.close(0)
        [path] = self.client.spool.folder.glob("*.spool")
        whole = path.read_bytes().replace(b'"run_id":"torn-1"', b'"run_id":"evil-1"')
        path.write_bytes(whole + b'0badc0de {"do":"fail"')
        self.client.spool.lose_own()
        self.server.away = False
        with self.assertLogs("redrive", logging.WARNING) as logged:
            after = self.make_client()
            with after.run("next") as run:
                run.output = "x"
            until(lambda: not path.exists(), "the file is sent")
        [aside] = self.client.spool.folder.glob("unreadable*")
        text = aside.read_text()
        self.assertEqual((text.count("evil-1"), text.count("0badc0de")), (2, 1))
        self.assertIn(str(aside), "".join(logged.output))


class Secrets(PeerCase):
    def logged(self, call: Callable[[], Any]) -> str:
        with self.assertLogs("redrive", logging.DEBUG) as logged:
            call()
        formatted = [logging.Formatter().format(record) for record in logged.records]
        return "\n".join([*logged.output, *formatted])

    def test_a_key_that_breaks_a_header_is_in_no_log(self) -> None:
        def work() -> None:
            transport = Transport(self.peer(says("200 OK", "{}"))[0].url, "x")
            transport._key = "rd_secret\nkey_22"
            redrive.logs.keep_secret("rd_secret\nkey_22")
            self.client.transport = self.client.sender._transport = transport  # type: ignore[assignment]
            try:
                self.client.transport.post("/v1/runs", "{}", 1.0)
            except Away as away:
                redrive.logs.log.warning("redrive: no: %s", away)
                redrive.logs.log.exception("redrive: no")

        said = self.logged(work)
        self.assertNotIn("rd_secret", said)
        self.assertNotIn("key_22", said)

    def test_a_secret_in_an_exceptions_text_is_in_no_log(self) -> None:
        def work() -> None:
            log = logging.getLogger("redrive")
            try:
                raise ValueError("Invalid header value b'Bearer rd_secret_key_1' for sk-live_abcdefgh1234")
            except ValueError as error:
                log.warning("redrive: %s", error)
                log.exception("redrive: http://me:hunter22@example.com")

        said = self.logged(work)
        for secret in ("rd_secret_key_1", "sk-live", "hunter22"):
            self.assertNotIn(secret, said)
        self.assertIn("ValueError", said)

    def test_a_key_with_a_newline_is_taken_without_it(self) -> None:
        settings = Settings(key="rd_secret_key_1\n", url="http://127.0.0.1:9\n")
        self.assertEqual((settings.key, settings.url), ("rd_secret_key_1", "http://127.0.0.1:9"))


class Forms(LiveCase):
    def test_a_field_of_the_wrong_type_costs_the_run_nothing(self) -> None:
        odd = {
            "customer": 42, "agent": 7.5, "severity": "HIGH", "links": {"trace": 1, "bad": object()}, "versions": {"prompt": 7},
            "resumable": "yes", "deadline_ms": 60_000.0, "idempotency_key": "a key/with spaces", "model": ["gpt-5"],
            "lease_ms": "5000", "headers": "none", "environment": "production\n",
        }  # fmt: skip
        with self.assertLogs("redrive", logging.WARNING) as logged:
            with self.client.run(4711, queue="odd queue", payload={"n": 1}, **odd) as run:
                run.used(12.0, "7", "0.5", model="gpt-5")
                run.used(float("nan"), object(), -1)  # type: ignore[arg-type]
                run.output = "done"
        self.assertEqual(run.outcome(PATIENCE_S).state, "succeeded")
        seen = self.server.run("4711")
        self.assertEqual((seen["payload"], seen["customer"], seen["severity"]), ({"n": 1}, "42", "high"))
        self.assertRegex(seen["queue"], r"^odd_queue:[0-9a-f]{16}$")
        self.assertEqual((seen["versions"], seen["links"]), ({"prompt": "7"}, {"trace": "1"}))
        self.assertEqual(seen["attempts"][0]["usage"], {"input_tokens": 12, "output_tokens": 7, "cost_usd": 0.5})
        said = " ".join(logged.output)
        for name in ("field model is ignored", "field headers is ignored", "field bad is ignored"):
            self.assertIn(name, said)

    def test_an_end_whose_form_is_refused_is_mended_and_sent(self) -> None:
        run = self.client.run("mended", payload=1).__enter__()
        run._finish(lambda: ("succeed", '{"output":"done","usage":{"input_tokens":-1},"colour":"red","finish_reason":"stop"}'))
        run._inside.leave()
        self.assertEqual((run.outcome(PATIENCE_S).state, self.server.run("mended")["output"]), ("succeeded", "done"))

    def test_a_start_whose_form_is_refused_keeps_payload_and_queue(self) -> None:
        run = self.client.run("mended-start", queue="mail", payload={"n": 1}, severity="high")
        run._fields["severity"], run._fields["colour"] = "purple", "red"
        with run:
            run.do("pay", lambda: "paid", effect=True)
            run.output = "done"
        self.assertEqual(run.outcome(PATIENCE_S).state, "succeeded")
        seen = self.server.run("mended-start")
        self.assertEqual((seen["queue"], seen["payload"], step_of(seen, "pay")["status"]), ("mail", {"n": 1}, "committed"))


if __name__ == "__main__":
    main(__file__)
