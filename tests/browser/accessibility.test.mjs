// axe on every page, light and dark: no serious or critical violation. On every page, also at phone width, nothing
// overflows and there is at most one primary button.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { logIn, packages } from "./support.mjs";

/** Creates something to show on each page and returns their paths. */
async function createPages(server) {
  const fail = (run, more) => server.call("worker", "/v1/failures", { run_id: run, queue: "invoices", payload: { a: [1, { b: "c" }] }, ...more });
  await fail("axe-1", { error: { type: "KeyError", message: "'inv_90311' in billing.lookup", detail: 'File "/srv/a.py", line 1, in a\n', terminal: true } });
  await fail("axe-2", { error: { message: "lost" }, steps: [{ name: "charge", key: "axe:charge", effect: true, status: "started" }] });
  await server.call("operator", "/v1/runs/axe-2/review", { tenant: "acme", reason: "look" }).catch(() => undefined);
  const run = await server.call("operator", "/v1/runs/axe-1?tenant=acme", undefined, "GET");
  const made = await server.call("operator", "/v1/operations", { action: "replay", filter: { pattern: run.pattern }, reason: "r", dry_run: true });
  return [
    "/", "/patterns", `/patterns/${run.pattern}`, "/runs?state=dead", "/runs?q=nothing-like-it", "/runs/acme/axe-1", "/runs/acme/axe-2",
    "/runs/acme/axe-1/fix", "/runs/acme/axe-1/payload", "/runs/acme/axe-1/payload?view=hex", "/runs/acme/axe-1/attempts/1", "/operations",
    `/operations/${made.id}`, "/operations/new?action=replay&state=dead", "/tenants", "/tenants/acme", "/queues", "/queues/invoices", "/settings", "/nowhere",
  ];
}

async function checkPages(options, withAxe = true) {
  const { page, server, done } = await logIn("admin", options);
  const axe = readFileSync(packages().resolve("axe-core/axe.min.js"), "utf8");
  const problems = [];
  for (const path of ["/login", ...(await createPages(server))]) {
    await page.goto(server.url + path);
    // By evaluation: the page's content security policy blocks script tags.
    if (withAxe) await page.evaluate(axe);
    const violations = !withAxe ? [] : await page.evaluate(() =>
      // @ts-ignore
      axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
        violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).join(" | ")}`)));
    problems.push(...violations.map((what) => `${path} ${what}`));
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (overflow > 0) problems.push(`${path} overflows the screen by ${overflow} px`);
    const primary = await page.locator(".primary:visible").count();
    if (primary > 1) problems.push(`${path} has ${primary} primary buttons`);
  }
  assert.deepEqual(problems, []);
  await done();
}

test("axe_finds_no_serious_problem_in_light_mode", () => checkPages({ colorScheme: "light" }));

test("axe_finds_no_serious_problem_in_dark_mode", () => checkPages({ colorScheme: "dark", reducedMotion: "reduce" }));

test("no_page_overflows_a_phone_screen", () => checkPages({ viewport: { width: 375, height: 800 } }, false));
