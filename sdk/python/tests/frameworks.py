"""The same nine agents for each framework: what each must come to in the server. A framework's own file says how the agent
is built; the model is the loopback provider."""

from __future__ import annotations

import os
import threading
from typing import Any

from live import LiveCase
from pages import run_page
from provider import OVERFLOW, RATE_LIMITED, UNAUTHORIZED, Hangs, Insists, Provider, Refused, call, text

import redrive

# No framework may speak to anybody but us.
for name in ("CREWAI_DISABLE_TELEMETRY", "CREWAI_DISABLE_TRACKING", "OTEL_SDK_DISABLED", "OPENAI_AGENTS_DISABLE_TRACING"):
    os.environ[name] = "true"
os.environ.update(LANGSMITH_TRACING="false", CREWAI_TRACING_ENABLED="false", OPENAI_API_KEY="sk-nobody", ANONYMIZED_TELEMETRY="false")


class PrinterOnFire(Exception):
    pass


def look_up(invoice: int) -> str:
    """Looks an invoice up."""
    return f"invoice {invoice}: 700 EUR"


def breaks(invoice: int) -> str:
    """Sends an invoice, and fails."""
    raise PrinterOnFire("the printer is on fire")


def complains(invoice: int) -> str:
    """Sends an invoice, and says that it failed."""
    return '{"ok": false, "error": "the printer has no paper"}'


paid: list[int] = []


@redrive.effect
def pay(amount: int) -> str:
    """Pays an amount."""
    paid.append(amount)
    return f"paid {amount} EUR"


TOOLS = [look_up, breaks, complains, pay]
#: Where the script of an agent begins: one tool call that goes well.
FIRST = call("look_up", invoice=7)


class FrameworkCase(LiveCase):
    PAGE = ""
    provider: Provider

    def test_the_page_of_the_docs_runs_as_it_is_written(self) -> None:
        self.assertEqual(run_page(self, self.PAGE), 1)

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.provider = Provider()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.provider.close()
        super().tearDownClass()

    def setUp(self) -> None:
        super().setUp()
        self.client.close(0)
        self.client = self.default()

    def agent(self, run: Any, steps_max: int = 10) -> Any:
        """Runs the framework's agent inside the run and gives back its answer."""
        raise NotImplementedError

    def comes_to(self, *script: Any, steps_max: int = 10, timeout_s: float | None = None) -> dict[str, Any]:
        """What the server has of the agent afterwards, and whether it raised."""
        self.provider.says(*script)
        run_id, self.raised = self.id().rpartition(".")[2], None
        try:
            with self.client.run(run_id, queue="agents", payload={"n": 7}, timeout_s=timeout_s) as run:
                self.agent(run, steps_max)
        except Exception as error:  # noqa: BLE001 - what it raises is looked at
            self.raised = error
        self.assertTrue(run.outcome(30).known)
        seen = self.server.run(run_id)
        done = [step["name"] for step in seen["steps"] if step["status"] == "committed"]
        self.assertEqual(done, ["look_up"], "the completed step is there")
        return seen

    def test_a_guarded_tool_happens_once_over_a_retry(self) -> None:
        paid.clear()
        run_id = self.id().rpartition(".")[2]
        self.provider.says(call("pay", amount=700), Refused(429, RATE_LIMITED))
        with self.assertRaises(Exception), self.client.run(run_id, payload=7, resumable=True) as run:
            self.agent(run)
        self.assertEqual((run.outcome(30).state, paid), ("scheduled", [700]))
        self.assertEqual(self.server.replay(run_id)[0], 200)
        self.provider.says(call("pay", amount=700), text("It is paid."))
        with self.client.run(run_id, payload=7, resumable=True) as run:
            self.agent(run)
        self.assertEqual((run.outcome(30).state, run.output, paid), ("recovered", "It is paid.", [700]))
        effects = [(step["name"], step["effect"], step["output"]) for step in self.server.run(run_id)["steps"]]
        self.assertEqual(effects, [("pay", True, "paid 700 EUR")])

    def test_an_agent_that_succeeds_leaves_nothing_to_do(self) -> None:
        seen = self.comes_to(FIRST, text("It is 700 EUR."))
        self.assertEqual((self.raised, seen["state"], seen["output"]), (None, "succeeded", "It is 700 EUR."))
        self.assertEqual(seen["attempts"][0]["usage"], {"input_tokens": 20, "output_tokens": 10, "cost_usd": None})

    def test_a_tool_that_raises_is_a_failure_whatever_the_framework_makes_of_it(self) -> None:
        seen = self.comes_to(FIRST, call("breaks", invoice=7), text("I have sent it."))
        self.assertEqual((seen["state"], seen["reason"], seen["tool"]), ("scheduled", "tool_error", "breaks"))
        self.assertIn("the tool breaks failed: ", seen["attempts"][0]["error"]["message"])

    def test_a_tool_error_that_comes_back_as_text_is_a_failure(self) -> None:
        seen = self.comes_to(FIRST, call("complains", invoice=7), text("I have sent it."))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "tool_error"))
        self.assertEqual(seen["tool"], "complains")
        self.assertIn("the printer has no paper", seen["attempts"][0]["error"]["message"])
        self.assertEqual(seen["attempts"][0]["partial_output"], "I have sent it.")

    def test_a_tool_that_failed_and_then_did_it_is_no_failure(self) -> None:
        seen = self.comes_to(call("complains", invoice=7), FIRST, text("It is 700 EUR."))
        self.assertEqual(seen["state"], "succeeded")

    def test_an_agent_that_hits_its_cap_is_a_failure(self) -> None:
        self.provider.says(Insists(FIRST))
        run_id = self.id().rpartition(".")[2]
        try:
            with self.client.run(run_id, queue="agents", timeout_s=60) as run:
                self.agent(run, 3)
        except Exception:  # noqa: BLE001 - some frameworks raise, others answer
            pass
        run.outcome(30)
        seen = self.server.run(run_id)
        self.assertEqual((seen["state"], seen["reason"]), ("scheduled", "max_iterations"))
        self.assertEqual({step["name"] for step in seen["steps"]}, {"look_up"})

    def test_an_answer_that_was_cut_off_is_a_failure(self) -> None:
        seen = self.comes_to(FIRST, text("The amount to be paid is", "length"))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "output_truncated"))

    def test_a_provider_that_hangs_is_ended_by_the_time_limit(self) -> None:
        run_id, hung = self.id().rpartition(".")[2], self.provider.over

        def let_go() -> None:
            """Only once it is reported: some frameworks wait for their threads, and those for the provider."""
            self.settled(run_id, "scheduled", seconds=40)
            hung.set()

        watching = threading.Thread(target=let_go)
        watching.start()
        seen = self.comes_to(FIRST, Hangs(), timeout_s=3)
        watching.join()
        self.assertTrue(hung.is_set())
        self.provider.over = threading.Event()
        self.assertEqual((seen["state"], seen["reason"]), ("scheduled", "timeout"))

    def test_a_rate_limit_of_the_provider_is_retried_in_time(self) -> None:
        seen = self.comes_to(FIRST, Refused(429, RATE_LIMITED))
        self.assertEqual((seen["state"], seen["reason"]), ("scheduled", "rate_limited"))

    def test_a_wrong_key_is_a_dead_letter(self) -> None:
        seen = self.comes_to(FIRST, Refused(401, UNAUTHORIZED))
        self.assertEqual((seen["state"], seen["reason"], seen["dead_because"]), ("dead", "auth_failed", "permanent"))

    def test_a_context_overflow_is_known_as_one(self) -> None:
        seen = self.comes_to(FIRST, Refused(400, OVERFLOW))
        self.assertEqual((seen["reason"], seen["category"]), ("context_overflow", "conditional"))
