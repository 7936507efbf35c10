// The demo as a new user sees it: the login link, the largest pattern, a replay with a canary, a bulk discard, the keyboard.

import assert from "node:assert/strict";
import test from "node:test";

import { openPage, sharedDemo } from "./support.mjs";

/** The printed link works once, so later tests reuse its session cookie. */
let cookies;

async function openDemo() {
  const demo = await sharedDemo();
  const opened = await openPage();
  if (cookies) {
    await opened.context.addCookies(cookies);
    await opened.page.goto(demo.url);
  } else {
    await opened.page.goto(demo.link);
    cookies = await opened.context.cookies();
  }
  return { ...opened, url: demo.url };
}

async function finished(page) {
  await page.locator("h1", { hasText: /Done|Stopped after/ }).waitFor({ timeout: 90_000 });
}

test("demo_link_opens_the_overview_with_urgent_work_first", async () => {
  const { page, done } = await openDemo();
  await page.locator("h1", { hasText: "need a person" }).waitFor();
  await page.getByRole("heading", { name: "Needs you now" }).waitFor();
  // Every number leads to the list behind it.
  await page.locator("#needs td.lead a").first().click();
  await page.locator("#runs tr[data-run]").first().waitFor();
  assert.match(await page.locator("h1").innerText(), /^[\d,]+ dead letters? match$/);
  await done();
});

test("canary_replay_of_the_largest_pattern_completes", async () => {
  const { page, url, done } = await openDemo();
  await page.goto(`${url}/patterns`);
  await page.getByRole("link", { name: "Open the largest" }).click();
  await page.getByText("Why grouped:").waitFor();
  await page.getByRole("link", { name: "Replay with a canary…" }).click();
  await page.getByLabel("Canary size (empty: no canary)").fill("2");
  await page.getByLabel("Allowed canary failures").selectOption("0.5");
  await page.getByLabel("Reason").fill("the provider is back");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText("Nothing has moved yet.").waitFor();
  await page.getByRole("button", { name: /^Start: replay/ }).click();
  // The page updates itself: there is no reload.
  await finished(page);
  const succeeded = page.locator("#progress a", { hasText: "Succeeded" }).locator("b");
  const failed = page.locator("#progress a", { hasText: "Failed again" }).locator("b");
  assert.ok(Number(await succeeded.innerText()) + Number(await failed.innerText()) > 0);
  await done();
});

test("all_matching_runs_are_discarded_with_a_reason", async () => {
  const { page, url, done } = await openDemo();
  await page.goto(`${url}/runs?state=dead&dead_because=permanent`);
  await page.getByLabel(/^all [\d,]+ matching$/).check();
  await page.getByRole("button", { name: "Discard…" }).click();
  await page.getByLabel("Reason").fill("made by a test account");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("button", { name: /^Start: discard/ }).click();
  await finished(page);
  await page.locator("#items a").first().click();
  await page.locator("h1 .badge", { hasText: "discarded" }).waitFor();
  await page.locator("#happened").getByText("made by a test account").waitFor();
  await done();
});

test("keyboard_alone_finds_opens_and_assigns_a_run", async () => {
  const { page, url, done } = await openDemo();
  await page.goto(`${url}/`);
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  await press("g", "d");
  await page.locator("#runs").waitFor();
  await press("?");
  await page.getByRole("dialog").waitFor();
  await press("Escape");
  await press("j", "j", "x");
  await page.locator("#selected", { hasText: "1 selected" }).waitFor();
  const second = await page.locator("#runs tbody tr").nth(1).getAttribute("data-run");
  assert.equal(await page.locator("#runs tr[aria-selected=true]").getAttribute("data-run"), second);
  await press("k", "Enter");
  await page.locator("#happened").waitFor();
  // The link in the header unfolds its section and focuses it.
  await page.getByRole("link", { name: "Assign…" }).focus();
  await press("Enter");
  await page.keyboard.type("night shift");
  await press("Enter");
  await page.getByText("Assigned.").waitFor();
  await page.locator("#facts").getByText("night shift").waitFor();
  await page.getByRole("link", { name: "Replay with a fix…" }).waitFor();
  await press("e");
  await page.getByLabel("Payload (JSON)").waitFor();
  await done();
});

test("session_cookie_is_refused_after_logout", async () => {
  const { page, url, context, done } = await openDemo();
  const before = await context.cookies();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByRole("heading", { name: "Log in" }).waitFor();
  await context.addCookies(before);
  const response = await page.goto(`${url}/runs`);
  assert.equal(response?.status(), 401);
  await done();
});
