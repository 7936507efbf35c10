// The desk beside a worker: reconciling an effect, a tenant's view, use without JavaScript, live lists.

import assert from "node:assert/strict";
import test from "node:test";

import { logIn } from "./support.mjs";

/** Leases runs as a worker until it gets this one, and succeeds it. */
async function succeed(server, run) {
  for (;;) {
    const { leases } = await server.call("worker", "/v1/leases", { queues: ["*"], max: 10, wait_ms: 1_000 });
    const lease = leases.find((one) => one.run_id === run);
    if (!lease) continue;
    await server.call("worker", `/v1/runs/${run}/succeed`, { lease: lease.lease, output: { ok: true } });
    return lease;
  }
}

/** A failed run whose charge may or may not have happened. */
async function reportUnknownEffect(server, run) {
  await server.call("worker", "/v1/failures", {
    run_id: run,
    queue: "invoices",
    agent: "biller",
    payload: { invoice: run, currency: "EURO" },
    resumable: true,
    error: { type: "WorkerLost", message: "no heartbeat for 60 s" },
    steps: [
      { name: "load", key: `${run}:load`, effect: false, status: "committed", output: { total: 12 } },
      { name: "charge_card", key: `charge-${run}`, effect: true, status: "started", check: "look it up in the console" },
    ],
  });
}

test("unknown_effect_is_reconciled_and_the_run_recovers_with_a_fix", async () => {
  const { page, server, done } = await logIn("operator");
  await reportUnknownEffect(server, "invoice-7");
  await page.goto(`${server.url}/runs/acme/invoice-7`);
  const plan = page.locator("#plan");
  await plan.locator("tr", { hasText: "charge_card" }).getByText("unknown").waitFor();
  await plan.locator("tr", { hasText: "load" }).getByText("skip").waitFor();
  await page.getByRole("link", { name: "Reconcile charge_card…" }).click();
  await plan.getByLabel("Outcome").selectOption("not_done");
  await plan.getByLabel(/Reason/).fill("the console shows no charge");
  await plan.getByRole("button", { name: "Record outcome" }).click();
  await page.getByText("Outcome recorded.").waitFor();
  await page.getByRole("link", { name: "Replay with a fix…" }).click();
  const payload = page.getByLabel("Payload (JSON)");
  await payload.fill("{ broken");
  await page.locator("#syntax").waitFor({ state: "visible" });
  await payload.fill('{"invoice":"invoice-7","currency":"EUR"}');
  // The difference is shown while typing; nothing was sent.
  await page.locator("#differences ins", { hasText: "EUR" }).waitFor();
  await page.getByRole("button", { name: "Replay with this fix" }).click();
  await page.getByText("Replay scheduled.").waitFor();
  const lease = await succeed(server, "invoice-7");
  assert.deepEqual(lease.payload, { invoice: "invoice-7", currency: "EUR" });
  assert.deepEqual(lease.steps.map((step) => step.name), ["load", "charge_card"]);
  // The page updates itself.
  await page.locator("h1 .badge", { hasText: "recovered" }).waitFor();
  await done();
});

test("tenant_sees_only_its_own_runs_and_actions", async () => {
  const { page, server, done } = await logIn("tenant");
  await server.call("worker", "/v1/failures", { run_id: "mine", error: { message: "mine broke", terminal: true } });
  await server.call("other", "/v1/failures", { run_id: "theirs", error: { message: "theirs broke", terminal: true } });
  await page.goto(`${server.url}/runs?state=dead`);
  await page.getByRole("link", { name: "mine" }).waitFor();
  assert.equal(await page.getByText("theirs").count(), 0);
  assert.deepEqual(await page.locator(".nav a").allInnerTexts(), ["Overview", "Patterns", "Dead letters", "Health", "Settings"]);
  assert.equal((await page.goto(`${server.url}/runs/globex/theirs`))?.status(), 404);
  assert.equal((await page.goto(`${server.url}/operations`))?.status(), 403);
  await page.goto(`${server.url}/runs/acme/mine`);
  await page.getByRole("link", { name: "Discard…" }).click();
  await page.keyboard.type("a test");
  await page.keyboard.press("Enter");
  await page.getByText("Discarded.").waitFor();
  await page.locator("h1 .badge", { hasText: "discarded" }).waitFor();
  await done();
});

test("desk_works_without_javascript", async () => {
  const { page, server, done } = await logIn("tenant", { javaScriptEnabled: false });
  await server.call("worker", "/v1/failures", { run_id: "plain", payload: { n: 1 }, error: { message: "plain broke", terminal: true } });
  await page.goto(`${server.url}/runs?state=dead`);
  await page.getByRole("link", { name: "plain" }).click();
  await page.getByRole("link", { name: "Replay with a fix…" }).click();
  await page.getByLabel("Payload (JSON)").fill('{"n":2}');
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByRole("button", { name: "Replay with this fix" }).click();
  await page.getByText("Replay scheduled.").waitFor();
  const lease = await succeed(server, "plain");
  assert.deepEqual(lease.payload, { n: 2 });
  await done();
});

test("list_announces_new_runs_without_moving_rows", async () => {
  const { page, server, done } = await logIn("operator");
  const fail = (run) => server.call("worker", "/v1/failures", { run_id: run, error: { message: "again", terminal: true } });
  await fail("seen-1");
  await page.goto(`${server.url}/runs?state=dead&q=seen-`);
  const rows = () => page.locator("#runs tr[data-run]").evaluateAll((all) => all.map((row) => row.getAttribute("data-run")));
  assert.deepEqual(await rows(), ["acme/seen-1"]);
  await fail("seen-2");
  await page.getByText("1 new.").waitFor();
  assert.deepEqual(await rows(), ["acme/seen-1"]);
  await page.getByRole("link", { name: "Reload the list" }).click();
  assert.deepEqual(await rows(), ["acme/seen-2", "acme/seen-1"]);
  await done();
});
