"""What an agent's block comes to, in a live server."""

from __future__ import annotations

import asyncio
import threading

from live import PATIENCE_S, LiveCase, step_of, until
from pages import run_page
from suite import main

import redrive


class Runs(LiveCase):
    def test_a_block_that_ends_is_a_success(self) -> None:
        with self.client.run("good", queue="mail", payload={"to": "c-9"}) as run:
            with run.step("load") as load:
                load.output = {"rows": 3}
            run.output = "sent"
        self.assertEqual(run.outcome(PATIENCE_S).state, "succeeded")
        seen = self.server.run("good")
        self.assertEqual((seen["state"], seen["output"], seen["payload"]), ("succeeded", "sent", {"to": "c-9"}))
        self.assertEqual(step_of(seen, "load")["output"], {"rows": 3})

    def test_an_exception_is_reported_with_its_chain_and_reraised(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "could not bill"):
            with self.client.run("chain", queue="bills") as run:
                try:
                    raise TimeoutError("Request timed out")
                except TimeoutError as error:
                    raise RuntimeError("could not bill") from error
        verdict = run.outcome(PATIENCE_S).verdict
        attempt = self.server.run("chain")["attempts"][0]
        self.assertEqual((verdict["reason"], verdict["action"]), ("timeout", "retry"))
        self.assertEqual(attempt["error"]["type"], "TimeoutError")
        self.assertEqual(attempt["error"]["message"], "could not bill\ncaused by: Request timed out")
        self.assertIn("direct cause of the following exception", attempt["error"]["detail"])

    def test_what_the_provider_answered_travels_with_the_exception(self) -> None:
        class Response:
            status_code = 429
            headers = {"Retry-After": "7"}
            text = '{"error": "slow down"}'

        class RateLimited(Exception):
            response = Response()

        with self.assertRaises(RateLimited), self.client.run("provider") as run:
            run.used(900, 20, 0.01, model="gpt-5")
            run.partial("half an ans")
            raise RateLimited("Too many requests")
        self.assertEqual(run.outcome(PATIENCE_S).verdict["reason"], "rate_limited")
        attempt = self.server.run("provider")["attempts"][0]
        self.assertEqual(attempt["error"]["http_status"], 429)
        self.assertEqual(attempt["response"]["body"], '{"error": "slow down"}')
        self.assertEqual(attempt["usage"], {"input_tokens": 900, "output_tokens": 20, "cost_usd": 0.01})
        self.assertEqual((attempt["model"], attempt["partial_output"]), ("gpt-5", "half an ans"))

    def test_a_detector_overrules_a_false_success(self) -> None:
        with self.client.run("capped", queue="mail") as run:
            outcome = run.succeed("Agent stopped due to max iterations.")
        self.assertEqual(outcome.verdict["rule"], "detector.step_cap_answer")
        self.assertEqual(self.server.run("capped")["state"], "scheduled")

    def test_a_run_that_is_done_is_not_done_again(self) -> None:
        with self.client.run("once", payload=1) as run:
            run.succeed({"n": 7})
        with self.assertRaises(redrive.AlreadyDone) as done, self.client.run("once", payload=1):
            self.fail("it began")
        self.assertEqual(done.exception.output, {"n": 7})

    def test_a_dead_letter_is_not_begun_and_says_why(self) -> None:
        with self.assertRaises(PermissionError), self.client.run("dead") as run:
            raise PermissionError("Invalid API key provided")
        self.assertEqual(run.outcome(PATIENCE_S).state, "dead")
        with self.assertRaises(redrive.DeadLettered) as dead, self.client.run("dead"):
            self.fail("it began")
        self.assertEqual(dead.exception.verdict["action"], "dead_letter")

    def test_a_run_under_way_elsewhere_is_not_begun_twice(self) -> None:
        with self.client.run("twice", payload=1):
            with self.assertRaises(redrive.StartRefused) as refused, self.make_client().run("twice", payload=1):
                self.fail("it began")
        self.assertEqual(refused.exception.code, "in_flight")

    def test_heartbeats_keep_a_long_attempt_alive(self) -> None:
        with self.client.run("long", lease_ms=6_000) as run:
            granted = run._alive_until
            until(lambda: run._alive_until > granted, "a heartbeat has renewed the lease")
            run.succeed("done")
        self.assertEqual((run.outcome(PATIENCE_S).state, self.server.run("long")["attempt"]), ("succeeded", 1))

    def test_a_cancelled_attempt_begins_no_more_effects(self) -> None:
        with self.client.run("called-off") as run:
            self.server.call("POST", "/v1/runs/called-off/cancel", {"tenant": "acme", "reason": "no"})
            with self.assertRaises(redrive.LeaseLost), run.step("pay", effect=True):
                self.fail("it began")
            with self.assertRaises(redrive.LeaseLost):
                run.check()

    def test_switched_off_it_leaves_no_trace_and_the_agent_works(self) -> None:
        client = self.make_client(off=True, url="http://127.0.0.1:9")
        before = threading.active_count()
        with self.assertRaises(ValueError), client.run("off", timeout_s=None) as run:
            self.assertEqual(run.do("pay", lambda: "paid", effect=True), "paid")
            run.do("read", lambda: 1)
            raise ValueError("its own")
        self.assertEqual((run.outcome(0).known, threading.active_count()), (False, before))
        self.assertFalse(self.spool.exists())

    def test_reports_after_the_client_closed_are_on_disk(self) -> None:
        other = self.make_client()
        with other.run("after", payload=1) as run:
            other.close()
            run.output = "late"
        self.assertTrue(list(self.spool.glob("*.spool")))
        other.spool.lose_own()
        with self.make_client().run() as following:
            following.output = "x"
        self.assertEqual(self.settled("after", "succeeded")["output"], "late")

    def test_every_field_of_a_run_reaches_the_server(self) -> None:
        given = {"agent": "biller", "task_type": "invoice", "customer": "c-9", "severity": "high", "model": "gpt-5"}
        with self.client.run("fields", versions={"prompt": "7"}, links={"trace": "https://t/1"}, **given) as run:
            run.succeed("x")
        seen = self.server.run("fields")
        self.assertEqual({name: seen[name] for name in given}, given)
        self.assertEqual((seen["versions"], seen["links"]), ({"prompt": "7"}, {"trace": "https://t/1"}))
        with self.assertRaisesRegex(TypeError, "colour"):
            self.client.run("x", colour="red")

    def test_an_invalid_run_id_still_identifies_its_run(self) -> None:
        with self.client.run("mail/42 für C") as run:
            run.succeed("x")
        self.assertRegex(run.run_id, r"^mail_42_f_r_C:[0-9a-f]{16}$")
        self.assertEqual(self.server.run(run.run_id)["state"], "succeeded")

    def test_values_without_json_form_do_not_break_the_agent(self) -> None:
        loop: dict[str, object] = {"n": float("nan"), "o": object, "b": b"\x00", "s": {1}}
        loop["self"] = loop
        with self.client.run("odd", payload=b"\x00\xff") as run:
            with run.step("odd") as step:
                step.output = loop
            run.output = loop
        self.assertEqual(run.outcome(PATIENCE_S).state, "succeeded")
        self.assertEqual(self.server.run("odd")["payload_base64"], "AP8=")


class Agents(LiveCase):
    def test_a_repeated_agent_call_returns_the_first_answer(self) -> None:
        self.default()
        calls = []

        @redrive.agent(queue="bills", run_id=lambda bill: f"bill-{bill['n']}")
        def bill(bill: dict[str, int]) -> str:
            calls.append(bill)
            return f"billed {bill['n']}"

        self.assertEqual([bill({"n": 1}), bill({"n": 2})], ["billed 1", "billed 2"])
        self.assertTrue(redrive.flush())
        self.assertEqual((bill({"n": 1}), len(calls)), ("billed 1", 2))
        seen = self.server.run("bill-1")
        self.assertEqual((seen["agent"], seen["queue"], seen["payload"]), ("bill", "bills", {"n": 1}))

    def test_an_already_done_inner_run_is_not_the_agents_own(self) -> None:
        self.default()
        with redrive.run("inner-done") as run:
            run.succeed("inner")

        @redrive.agent(run_id=lambda n: f"outer-{n}")
        def outer(n: int) -> str:
            with redrive.run("inner-done"):
                return "not reached"

        with self.assertRaises(redrive.AlreadyDone):
            outer(1)
        self.settled("outer-1", "dead", "scheduled")

    def test_an_async_agent_is_a_run_too(self) -> None:
        self.default()

        @redrive.agent(run_id=lambda given: given["key"])
        async def write(key: str, words: int = 3, *, run: redrive.Run) -> str:
            async with run.step("think") as think:
                think.output = await asyncio.sleep(0, words)
            return await run.do_async("mail", lambda: asyncio.sleep(0, "sent"), effect=True)

        self.assertEqual(asyncio.run(write("async-1")), "sent")
        self.assertTrue(redrive.flush())
        seen = self.server.run("async-1")
        self.assertEqual((seen["state"], seen["payload"]), ("succeeded", {"key": "async-1", "words": 3}))
        self.assertEqual([(s["name"], s["effect"], s["output"]) for s in seen["steps"]], [("think", False, 3), ("mail", True, "sent")])

    def test_an_async_failure_is_raised_again(self) -> None:
        async def fails() -> None:
            async with self.client.run("async-fails"):
                self.assertEqual(redrive.current_run().run_id, "async-fails")
                raise ConnectionResetError("Connection reset by peer")

        with self.assertRaises(ConnectionResetError):
            asyncio.run(fails())
        self.assertEqual(self.settled("async-fails", "scheduled")["reason"], "network")
        self.assertIsNone(redrive.current_run())


class Docs(LiveCase):
    def test_the_page_of_the_docs_runs_as_it_is_written(self) -> None:
        self.assertEqual(run_page(self, "sdk/python.md"), 4)


if __name__ == "__main__":
    main(__file__)
