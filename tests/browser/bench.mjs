// What the tests share: one browser, one demo, one empty server, each started when it is first asked for. Every page
// that is opened reports what must never happen: a script that was not ours, a policy that was broken, an error.

import assert from "node:assert/strict";

import { providePackages } from "./packages.mjs";
import { startDemo, startServer } from "./server.mjs";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const PATIENCE_MS = 20_000;

export class Bench {
  #browser;
  #demo;
  #server;
  #packages;

  packages() {
    this.#packages ??= providePackages();
    return this.#packages;
  }

  async browser() {
    const { chromium } = this.packages().require("playwright-core");
    this.#browser ??= chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
    return this.#browser;
  }

  async demo() {
    this.#demo ??= startDemo();
    return this.#demo;
  }

  async server() {
    this.#server ??= startServer();
    return this.#server;
  }

  /** A person with a browser of their own. */
  async person(options = {}) {
    const browser = await this.browser();
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    const seen = [];
    page.on("pageerror", (error) => seen.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => {
      seen.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("console", (message) => {
      if (/Content Security Policy|Refused to/i.test(message.text())) seen.push(`policy: ${message.text()}`);
    });
    await page.exposeFunction("hit", (n) => seen.push(`a stranger's script ran: ${n}`));
    await page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) => {
        // @ts-ignore
        window.hit(`policy ${event.violatedDirective} ${event.blockedURI}`);
      });
    });
    const done = async () => {
      await context.close();
      assert.deepEqual(seen, []);
    };
    return { page, context, done };
  }

  /** Logged in by typing a key of the empty server. */
  async loggedIn(who, options) {
    const server = await this.server();
    const person = await this.person(options);
    await person.page.goto(`${server.url}/login`);
    await person.page.getByLabel("Key").fill(server.keys[who]);
    await person.page.getByRole("button", { name: "Log in" }).click();
    await person.page.getByRole("link", { name: "Overview" }).waitFor();
    return { ...person, server };
  }

  async close() {
    await (await this.#browser)?.close();
    await (await this.#demo)?.stop();
    await (await this.#server)?.stop();
  }
}
