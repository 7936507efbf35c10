// axe on every page, light and dark: nothing serious, nothing critical. There and on a phone nothing is wider than the
// screen, and there is one primary button.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

async function pagesOf(server) {
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

async function look(bench, options, withAxe = true) {
  const { page, server, done } = await bench.loggedIn("admin", options);
  const axe = readFileSync(bench.packages().require.resolve("axe-core/axe.min.js"), "utf8");
  const wrong = [];
  for (const path of ["/login", ...(await pagesOf(server))]) {
    await page.goto(server.url + path);
    // Through the browser's own door: the page's policy lets no foreign script in.
    if (withAxe) await page.evaluate(axe);
    const found = !withAxe ? [] : await page.evaluate(() =>
      // @ts-ignore
      axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
        violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).join(" | ")}`)));
    wrong.push(...found.map((what) => `${path} ${what}`));
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wider > 0) wrong.push(`${path} is ${wider} px wider than the screen`);
    const primary = await page.locator(".primary:visible").count();
    if (primary > 1) wrong.push(`${path} has ${primary} primary buttons`);
  }
  assert.deepEqual(wrong, []);
  await done();
}

export const accessibility = [
  ["axe_finds_nothing_serious_on_any_page_in_light", (bench) => look(bench, { colorScheme: "light" })],
  ["axe_finds_nothing_serious_on_any_page_in_dark", (bench) => look(bench, { colorScheme: "dark", reducedMotion: "reduce" })],
  ["on_a_phone_nothing_is_wider_than_the_screen", (bench) => look(bench, { viewport: { width: 375, height: 800 } }, false)],
];
