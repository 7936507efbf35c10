// Cross-site scripting: markup in every field that a caller or an operator can fill is shown as text on every page.

import assert from "node:assert/strict";
import test from "node:test";

import { logIn } from "./support.mjs";

const EVIL = `"><script>hit(1)</script><img src=x onerror=hit(2)><svg onload=hit(3)>'--></title></textarea><style>*{display:none}</style>\u202e\u0000{{7*7}}`;
/** The same, within the length limit of names. */
const NAME = `"><script>hit(1)</script><img src=x onerror=hit(2)>\u202e{{7*7}}`;
const LINK = "javascript:hit(4)";

/** Puts the text into every field of a report, a queue, a note and a reason. */
async function fillEveryField(server) {
  const report = {
    run_id: "evil",
    queue: "evil",
    agent: EVIL,
    task_type: EVIL,
    customer: EVIL,
    model: EVIL,
    provider: EVIL,
    environment: EVIL,
    versions: { [NAME]: EVIL },
    headers: { "x-evil": EVIL },
    links: { [NAME]: LINK, trace: `https://example.com/"onmouseover="hit(5)` },
    destination: LINK,
    content_type: EVIL,
    payload: { [EVIL]: [EVIL, { deep: EVIL }] },
    resumable: true,
    tool: EVIL,
    step: EVIL,
    error: { type: EVIL, message: `${EVIL} broke`, detail: `Traceback\n  File "${EVIL}", line 1, in ${EVIL}\n`, headers: { h: EVIL }, terminal: true },
    response: { status: 500, headers: { [EVIL]: EVIL }, body: EVIL },
    partial_output: EVIL,
    finish_reason: EVIL,
    steps: [
      { name: EVIL, key: "evil:1", effect: false, status: "committed", output: EVIL },
      { name: EVIL, key: "evil:2", effect: true, status: "started", check: EVIL },
    ],
  };
  await server.call("worker", "/v1/failures", report);
  await server.call("worker", "/v1/failures", { ...report, run_id: "evil-2", steps: [] });
  await server.call("admin", "/v1/queues/evil", { owner: EVIL, description: EVIL, runbook: LINK, instructions: EVIL }, "PUT");
  const on = { tenant: "acme" };
  await server.call("operator", "/v1/runs/evil/note", { ...on, reason: EVIL });
  await server.call("operator", "/v1/runs/evil/assign", { ...on, to: EVIL, reason: EVIL });
  const run = await server.call("operator", "/v1/runs/evil?tenant=acme", undefined, "GET");
  await server.call("operator", `/v1/patterns/${run.pattern}/assign`, { ...on, to: EVIL, reason: EVIL });
  await server.call("operator", `/v1/patterns/${run.pattern}/note`, { ...on, reason: EVIL });
  await server.call("operator", "/v1/tenants/acme/breaker", { action: "open", reason: EVIL, environment: EVIL });
  await server.call("admin", "/v1/keys", { role: "tenant", tenant: "acme", note: EVIL });
  const patch = [{ op: "add", path: "/x", value: EVIL }];
  const filter = { pattern: run.pattern };
  const made = await server.call("operator", "/v1/operations", { action: "replay", filter, fix: { json_patch: patch }, reason: EVIL, dry_run: true });
  return { pattern: run.pattern, operation: made.id };
}

/** Elements and attributes that only injected markup could have created. */
function injected() {
  const all = [...document.querySelectorAll("*")];
  const handlers = all.flatMap((one) => [...one.attributes].filter((a) => /^on/i.test(a.name)).map((a) => a.name));
  const links = [...document.querySelectorAll("a")].filter((a) => !/^https?:$/.test(a.protocol)).map((a) => a.href);
  const scripts = [...document.scripts].map((one) => one.src).filter((src) => !src.endsWith("/assets/desk.js"));
  const inline = all.filter((one) => one.hasAttribute("style")).length;
  return { handlers, links, scripts, inline, images: document.images.length, styles: document.querySelectorAll("style").length };
}

test("untrusted_text_is_escaped_on_every_page", async () => {
  const { page, server, done } = await logIn("admin");
  const { pattern, operation } = await fillEveryField(server);
  const run = "/runs/acme/evil";
  const encoded = encodeURIComponent(EVIL.replaceAll("\u0000", ""));
  const pages = [
    "/", "/patterns", `/patterns/${pattern}`, "/runs", `/runs?agent=${encoded}`, `/runs?q=${encoded.slice(0, 120)}`, run, `${run}/fix`,
    `${run}/payload`, `${run}/payload?view=raw`, `${run}/payload?view=hex`, `${run}/attempts/1`, "/operations",
    `/operations/${operation}`, `/operations/new?action=discard&agent=${encoded}`, "/tenants", "/tenants/acme", "/queues", "/queues/evil", "/settings",
    `/patterns?q=${encoded.slice(0, 120)}`, `/login?token=${encoded}`, `/nowhere/${encoded}`,
  ];
  const shown = new Set();
  for (const path of pages) {
    await page.goto(server.url + path);
    const found = await page.evaluate(injected);
    assert.deepEqual(found, { handlers: [], links: [], scripts: [], inline: 0, images: 0, styles: 0 }, path);
    if ((await page.locator("body").innerText()).includes("<script>hit(1)</script>")) shown.add(path);
  }
  for (const path of [run, `/patterns/${pattern}`, `/operations/${operation}`, "/tenants/acme", "/queues/evil", "/settings", "/runs"]) {
    assert.ok(shown.has(path), `${path} does not show the text`);
  }
  await done();
});

test("form_input_is_escaped_when_shown_again", async () => {
  const { page, server, done } = await logIn("operator");
  await page.goto(`${server.url}/settings`);
  await page.getByLabel("Error text").fill(EVIL.replaceAll("\u0000", ""));
  await page.getByLabel("Type").fill(EVIL.replaceAll("\u0000", ""));
  await page.getByRole("button", { name: "Classify" }).click();
  await page.getByRole("heading", { name: "Result" }).waitFor();
  const found = await page.evaluate(injected);
  assert.deepEqual(found, { handlers: [], links: [], scripts: [], inline: 0, images: 0, styles: 0 });
  await done();
});
