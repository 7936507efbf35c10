"""The same agents for each framework: what each must come to in the server. A framework's own file says how the agent is built;
the model is the loopback provider."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from live import PATIENCE_S, LiveCase, step_of, time_is_up, until
from pages import run_page
from provider import OVERFLOW, RATE_LIMITED, UNAUTHORIZED, Hangs, Insists, Provider, Refused, both, call, text

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


def grumbles(invoice: int) -> str:
    """Sends an invoice, and says in plain words that it failed."""
    return "Error: the printer has no paper"


paid: list[int] = []


@redrive.effect
def pay(amount: int) -> str:
    """Pays an amount."""
    paid.append(amount)
    return f"paid {amount} EUR"


refunded: list[int] = []
#: Set: a refund goes through at once. Otherwise it hangs until then.
let_go = threading.Event()


def refund(amount: int) -> str:
    """Refunds an amount."""
    refunded.append(amount)
    if os.environ.get(_KILL) == "inside":
        print("refunding", flush=True)
    let_go.wait(PATIENCE_S)
    return f"refunded {amount} EUR"


attempts_of_flaky: list[int] = []


def flaky(invoice: int) -> str:
    """Sends an invoice, and fails the first time."""
    attempts_of_flaky.append(invoice)
    if len(attempts_of_flaky) == 1:
        raise PrinterOnFire("the printer is on fire")
    return f"invoice {invoice} is sent"


def report(invoice: int) -> str:
    """Reports on an invoice, in words that sound like an error."""
    return "Error rate report: 0 errors, 0 failures."


_KILL, _PROVIDER = "REDRIVE_TEST_KILL", "REDRIVE_TEST_PROVIDER"
TOOLS = [look_up, breaks, complains, grumbles, pay, refund, flaky, report]
#: Where the script of an agent begins: one tool call that goes well.
FIRST = call("look_up", invoice=7)


class FrameworkCase(LiveCase):
    PAGE = ""
    provider: Provider
    effects: list[str] | None = []
    streams = False
    #: What a generation may use; each that the provider gives uses five.
    tokens_max: int | None = None

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

    def record(self, *script: Any, steps_max: int = 10, struck_when: Callable[[], Any] | None = None) -> dict[str, Any]:
        """What the server has of the agent afterwards, and what left it. `struck_when` says when its time is up."""
        self.provider.says(*script)
        run_id, self.raised = self.id().rpartition(".")[2], None
        try:
            with self.client.run(run_id, queue="agents", payload={"n": 7}, timeout_s=struck_when and 3_600) as run:
                if struck_when is not None:
                    threading.Thread(target=lambda: until(struck_when, "it hangs") and time_is_up(run), daemon=True).start()
                self.agent(run, steps_max)
        except Exception as error:  # noqa: BLE001 - what it raises is looked at
            self.raised = error
        self.assertTrue(run.outcome(PATIENCE_S).known)
        return self.server.run(run_id)

    def statuses(self, seen: dict[str, Any]) -> list[tuple[str, str]]:
        return [(step["name"], step["status"]) for step in seen["steps"]]

    def comes_to(self, *script: Any, **options: Any) -> dict[str, Any]:
        """The same of an agent whose only step is the look-up."""
        seen = self.record(*script, **options)
        done = [step["name"] for step in seen["steps"] if step["status"] == "committed"]
        self.assertEqual(done, ["look_up"], "the completed step is there")
        return seen

    def test_a_guarded_tool_happens_once_over_a_retry(self) -> None:
        paid.clear()
        run_id = self.id().rpartition(".")[2]
        self.provider.says(call("pay", amount=700), Refused(429, RATE_LIMITED))
        with self.assertRaises(Exception), self.client.run(run_id, payload=7, resumable=True) as run:
            self.agent(run)
        self.assertEqual((run.outcome(PATIENCE_S).state, paid), ("scheduled", [700]))
        self.assertEqual(self.server.replay(run_id)[0], 200)
        self.provider.says(call("pay", amount=700), text("It is paid."))
        with self.client.run(run_id, payload=7, resumable=True) as run:
            self.agent(run)
        self.assertEqual((run.outcome(PATIENCE_S).state, run.output, paid), ("recovered", "It is paid.", [700]))
        effects = [(step["name"], step["effect"], step["output"]) for step in self.server.run(run_id)["steps"]]
        self.assertEqual(effects, [("pay", True, "paid 700 EUR")])

    def test_an_agent_that_succeeds_leaves_nothing_to_do(self) -> None:
        seen = self.comes_to(FIRST, text("It is 700 EUR."))
        self.assertEqual((self.raised, seen["state"], seen["output"]), (None, "succeeded", "It is 700 EUR."))
        self.assertEqual(seen["attempts"][0]["usage"], {"input_tokens": 20, "output_tokens": 10, "cost_usd": None})

    def test_a_swallowed_tool_exception_is_a_failure(self) -> None:
        seen = self.comes_to(FIRST, call("breaks", invoice=7), text("I have sent it."))
        self.assertEqual((seen["state"], seen["reason"], seen["tool"]), ("scheduled", "tool_error", "breaks"))
        self.assertIn("the tool breaks failed: ", seen["attempts"][0]["error"]["message"])

    def test_a_tool_error_returned_as_json_is_a_failure(self) -> None:
        self.complained("complains")

    def test_a_tool_error_returned_as_text_is_a_failure(self) -> None:
        self.complained("grumbles")

    def complained(self, tool: str) -> None:
        """The tool's last word was an error, and the model has answered as if nothing were wrong."""
        seen = self.comes_to(FIRST, call(tool, invoice=7), text("I have sent it."))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "tool_error"))
        self.assertEqual(seen["tool"], tool)
        self.assertIn("the printer has no paper", seen["attempts"][0]["error"]["message"])
        self.assertEqual(seen["attempts"][0]["partial_output"], "I have sent it.")

    def test_a_tool_failure_followed_by_success_is_a_success(self) -> None:
        seen = self.comes_to(call("complains", invoice=7), FIRST, text("It is 700 EUR."))
        self.assertEqual(seen["state"], "succeeded")

    def test_an_agent_that_hits_its_cap_is_a_failure(self) -> None:
        self.provider.says(Insists(FIRST))
        run_id = self.id().rpartition(".")[2]
        try:
            with self.client.run(run_id, queue="agents") as run:
                self.agent(run, 3)
        except Exception:  # noqa: BLE001 - some frameworks raise, others answer
            pass
        run.outcome(PATIENCE_S)
        seen = self.server.run(run_id)
        self.assertEqual((seen["state"], seen["reason"]), ("scheduled", "max_iterations"))
        self.assertEqual({step["name"] for step in seen["steps"]}, {"look_up"})

    def test_an_answer_that_was_cut_off_is_a_failure(self) -> None:
        seen = self.comes_to(FIRST, text("The amount to be paid is", "length"))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "output_truncated"))

    def test_an_answer_cut_off_without_a_reason_is_a_failure(self) -> None:
        self.tokens_max = 5
        seen = self.comes_to(FIRST, {**text("The amount to be"), "finish_reason": None})
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "output_truncated"))

    def test_an_answer_within_its_bound_needs_no_reason(self) -> None:
        self.tokens_max = 6
        seen = self.comes_to(FIRST, {**text("It is 700 EUR."), "finish_reason": None})
        self.assertEqual((self.raised, seen["state"], seen["output"]), (None, "succeeded", "It is 700 EUR."))

    def test_a_provider_that_hangs_is_ended_by_the_time_limit(self) -> None:
        run_id, hung = self.id().rpartition(".")[2], self.provider.over

        def let_go() -> None:
            """Only once it is reported: some frameworks wait for their threads, and those for the provider."""
            self.settled(run_id, "scheduled")
            hung.set()

        watching = threading.Thread(target=let_go)
        watching.start()
        seen = self.comes_to(FIRST, Hangs(), struck_when=self.provider.hanging.is_set)
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

    # What a framework does to a tool that changes the outside world.

    def test_an_effects_intent_is_on_record_before_it_runs(self) -> None:
        self.effects, seen = ["refund"], {}
        run_id = self.id().rpartition(".")[2]
        let_go.clear()
        refunded.clear()

        def look() -> None:
            until(lambda: refunded, "the refund has begun")
            seen.update(self.server.run(run_id))
            let_go.set()

        looking = threading.Thread(target=look)
        looking.start()
        after = self.record(FIRST, call("refund", amount=700), text("It is refunded."))
        looking.join()
        self.assertEqual(self.statuses(seen), [("look_up", "committed"), ("refund", "started")])
        self.assertEqual(self.statuses(after), [("look_up", "committed"), ("refund", "committed")])
        self.assertEqual((after["state"], step_of(after, "refund")["output"]), ("succeeded", "refunded 700 EUR"))

    def test_an_effect_that_hangs_is_unknown_and_the_run_held(self) -> None:
        self.effects = ["refund"]
        let_go.clear()
        refunded.clear()
        run_id = self.id().rpartition(".")[2]

        def release() -> None:
            """Only once it is reported: some frameworks wait for their threads."""
            self.settled(run_id, "dead")
            let_go.set()

        releasing = threading.Thread(target=release)
        releasing.start()
        seen = self.record(FIRST, call("refund", amount=700), text("It is refunded."), struck_when=lambda: refunded)
        releasing.join()
        self.assertEqual((seen["reason"], seen["dead_because"]), ("timeout", "unsafe"))
        self.assertIn(step_of(seen, "refund")["status"], ("unknown", "committed"))

    def test_an_effect_that_raises_is_unknown_and_the_run_held(self) -> None:
        self.effects = ["breaks"]
        seen = self.record(FIRST, call("breaks", invoice=7), text("I have sent it."))
        self.assertEqual((seen["state"], seen["reason"], seen["dead_because"]), ("dead", "tool_error", "unsafe"))
        self.assertEqual(self.statuses(seen), [("look_up", "committed"), ("breaks", "unknown")])

    def test_an_effect_that_complains_is_unknown_and_the_run_held(self) -> None:
        self.effects = ["complains"]
        seen = self.record(FIRST, call("complains", invoice=7), text("I have sent it."))
        self.assertEqual((seen["state"], seen["reason"], seen["dead_because"]), ("dead", "tool_error", "unsafe"))
        self.assertEqual(self.statuses(seen), [("look_up", "committed"), ("complains", "unknown")])

    def test_an_effect_with_invalid_arguments_never_began(self) -> None:
        self.effects = ["refund"]
        refunded.clear()
        let_go.set()
        seen = self.record(FIRST, call("refund", sum="all of it"), text("It is refunded."))
        self.assertNotIn(seen["state"], ("succeeded", "running"))
        self.assertNotEqual(seen["dead_because"], "unsafe")
        self.assertEqual([status for _, status in self.statuses(seen) if status in ("unknown", "started")], [])
        self.assertEqual(refunded, [])

    def test_a_tool_that_does_not_exist_is_a_failure(self) -> None:
        seen = self.record(FIRST, call("send_pigeon", invoice=7), text("I have sent it."))
        self.assertIn(seen["state"], ("scheduled", "dead"))
        self.assertIn(seen["reason"], ("tool_error", "tool_not_found"))

    def test_tools_called_together_are_all_on_record(self) -> None:
        self.effects = ["refund"]
        let_go.set()
        seen = self.record(both(FIRST, call("refund", amount=7), call("report", invoice=7)), text("It is done."))
        self.assertEqual((self.raised, seen["state"]), (None, "succeeded"))
        self.assertEqual({name: status for name, status in self.statuses(seen)},
                         {"look_up": "committed", "refund": "committed", "report": "committed"})  # fmt: skip

    def test_a_success_that_sounds_like_an_error_is_one(self) -> None:
        seen = self.record(FIRST, call("report", invoice=7), text("The error report is sent: no failures, no timeouts."))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "succeeded", None))

    def test_a_tool_that_succeeds_the_second_time_is_a_success(self) -> None:
        attempts_of_flaky.clear()
        seen = self.record(call("flaky", invoice=7), call("flaky", invoice=7), text("It is sent."))
        if self.raised is None:
            self.assertEqual(seen["state"], "succeeded", seen["attempts"])
        else:
            # A framework that lets the exception through has no second time.
            self.assertEqual(seen["reason"], "tool_error")

    def test_an_empty_answer_is_a_failure(self) -> None:
        seen = self.record(FIRST, text(""))
        self.assertIn(seen["state"], ("scheduled", "dead"))
        self.assertIn(seen["reason"], ("empty_output", "malformed_output"))

    def test_a_streamed_answer_comes_to_the_same(self) -> None:
        self.streams = True
        seen = self.record(FIRST, text("It is 700 EUR."))
        self.assertEqual((self.raised, seen["state"], seen["output"]), (None, "succeeded", "It is 700 EUR."))
        self.assertEqual(self.statuses(seen), [("look_up", "committed")])

    def test_a_streamed_answer_that_was_cut_off_is_a_failure(self) -> None:
        self.streams = True
        seen = self.record(FIRST, text("The amount to be paid is", "length"))
        self.assertEqual((self.raised, seen["state"], seen["reason"]), (None, "scheduled", "output_truncated"))

    def killed(self, where: str) -> dict[str, Any]:
        """The agent in a process of its own, killed without warning inside its effect or after it."""
        run_id = self.id().rpartition(".")[2]
        self.provider.says(FIRST, call("refund", amount=700), Hangs())
        self.provider.over = threading.Event()
        environment = self.environment(
            REDRIVE_TEST_KILL=where, REDRIVE_TEST_PROVIDER=self.provider.url, REDRIVE_TEST_RUN=run_id,
            PYTHONPATH=os.pathsep.join(p for p in sys.path if p),
        )  # fmt: skip
        program = subprocess.Popen(
            [sys.executable, "-u", sys.argv[0]], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if where == "inside":
            assert program.stdout is not None
            while program.stdout.readline() not in ("refunding\n", ""):
                pass
        else:
            self.settled_step(run_id, "refund", "committed")
        program.send_signal(signal.SIGKILL)
        program.communicate()
        self.provider.over.set()
        self.provider.over = threading.Event()
        return self.settled(run_id, "dead", "scheduled")

    def settled_step(self, run_id: str, name: str, status: str) -> None:
        until(lambda: (name, status) in self.statuses(self.server.run(run_id)), f"{name} is {status}")

    def test_a_kill_inside_an_effect_leaves_it_unknown(self) -> None:
        seen = self.killed("inside")
        self.assertEqual((seen["reason"], seen["dead_because"]), ("silent", "unsafe"))
        self.assertEqual(self.statuses(seen), [("look_up", "committed"), ("refund", "unknown")])

    def test_a_kill_after_an_effect_leaves_it_done(self) -> None:
        seen = self.killed("after")
        self.assertEqual((seen["state"], seen["reason"], seen["dead_because"]), ("dead", "silent", "unsafe"))
        self.assertEqual(self.statuses(seen), [("look_up", "committed"), ("refund", "committed")])


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test sets forward: a limit of an hour strikes at once, and never before its time."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


def an_hour_later() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    loop.ahead_s += 3_600


class _Elsewhere:
    """The provider of the test that started this process."""

    def __init__(self) -> None:
        self.url = os.environ[_PROVIDER]


def run_killed(case: type[FrameworkCase]) -> None:
    """In the process that is killed: the agent, and nothing after it."""
    if os.environ.get(_KILL) == "after":
        let_go.set()
    test = case("test_a_kill_inside_an_effect_leaves_it_unknown")
    test.provider, test.effects = _Elsewhere(), ["refund"]  # type: ignore[assignment]
    with redrive.run(os.environ["REDRIVE_TEST_RUN"], queue="agents", payload=7, lease_ms=4_000) as run:
        test.agent(run)


def is_killed() -> bool:
    return _KILL in os.environ
