// The first hour: the demo's link, its largest cause, a canary, and a cleared list; then all of it by keyboard.

import assert from "node:assert/strict";

/** By the link that the demo printed; it works once, so the session is handed on. */
let cookies;

async function visitor(bench) {
  const demo = await bench.demo();
  const person = await bench.person();
  if (cookies) {
    await person.context.addCookies(cookies);
    await person.page.goto(demo.url);
  } else {
    await person.page.goto(demo.link);
    cookies = await person.context.cookies();
  }
  return { ...person, url: demo.url };
}

async function finished(page) {
  await page.locator("h1", { hasText: /Done|Stopped after/ }).waitFor({ timeout: 90_000 });
}

export const demo = [
  [
    "a_newcomer_follows_the_link_and_sees_what_needs_a_person_first",
    async (bench) => {
      const { page, done } = await visitor(bench);
      await page.locator("h1", { hasText: "need a person" }).waitFor();
      await page.getByRole("heading", { name: "Needs you now" }).waitFor();
      // Every number leads to the list behind it.
      await page.locator("#needs td.lead a").first().click();
      await page.locator("#runs tr[data-run]").first().waitFor();
      assert.match(await page.locator("h1").innerText(), /^[\d,]+ dead letters? match$/);
      await done();
    },
  ],
  [
    "the_largest_cause_is_previewed_sent_round_by_canary_and_watched_to_its_end",
    async (bench) => {
      const { page, url, done } = await visitor(bench);
      await page.goto(`${url}/patterns`);
      await page.getByRole("link", { name: "Open the largest" }).click();
      await page.getByText("Why grouped:").waitFor();
      await page.getByRole("link", { name: "Canary redrive…" }).click();
      await page.getByLabel("Canary (empty: all at once)").fill("2");
      await page.getByLabel("The canary may fail").selectOption("0.5");
      await page.getByLabel("Reason").fill("the provider is back");
      await page.getByRole("button", { name: "Preview" }).click();
      await page.getByText("Nothing has moved yet.").waitFor();
      await page.getByRole("button", { name: /^Start: replay/ }).click();
      // Without a reload: the page follows.
      await finished(page);
      const succeeded = page.locator("#progress a", { hasText: "Succeeded" }).locator("b");
      const failed = page.locator("#progress a", { hasText: "Failed again" }).locator("b");
      assert.ok(Number(await succeeded.innerText()) + Number(await failed.innerText()) > 0);
      await done();
    },
  ],
  [
    "all_that_match_are_discarded_with_a_reason",
    async (bench) => {
      const { page, url, done } = await visitor(bench);
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
    },
  ],
  [
    "a_run_is_found_opened_and_noted_without_a_mouse",
    async (bench) => {
      const { page, url, done } = await visitor(bench);
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
      // The link in the header opens what is folded and goes there.
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
    },
  ],
  [
    "after_logging_out_the_cookie_opens_nothing",
    async (bench) => {
      const { page, url, context, done } = await visitor(bench);
      const before = await context.cookies();
      await page.getByRole("button", { name: "Log out" }).click();
      await page.getByRole("heading", { name: "Log in" }).waitFor();
      await context.addCookies(before);
      const answer = await page.goto(`${url}/runs`);
      assert.equal(answer?.status(), 401);
      await done();
    },
  ],
];
