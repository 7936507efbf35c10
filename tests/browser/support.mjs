// What the tests share: npm packages, Chromium, a demo and an empty server, each started on first use and stopped after
// the last test of the file. Every page records script errors, dialogs, policy violations and injected scripts.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const PACKAGES = ["axe-core@4.14.0", "playwright-core@1.65.0", "typescript@5.9.3"];
const TIMEOUT_MS = 20_000;
const BINARY = join(process.env.CARGO_TARGET_DIR ?? "target", "debug", "redrive");
// A developer's own REDRIVE_… settings must not reach the servers under test.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("REDRIVE_")));

/** Resolves the packages above, which are installed into a temporary folder on first use: nothing lands beside the sources. */
export function packages() {
  const version = createHash("sha256").update(PACKAGES.join(" ")).digest("hex").slice(0, 12);
  const folder = join(tmpdir(), `redrive-browser-packages-${version}`);
  if (!existsSync(folder)) install(folder);
  return createRequire(join(folder, "package.json"));
}

/** Test files run in processes of their own: the folder appears complete, by a rename, or not at all. */
function install(folder) {
  const partial = `${folder}.${process.pid}`;
  mkdirSync(partial, { recursive: true });
  writeFileSync(join(partial, "package.json"), "{}");
  const options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"];
  execFileSync("npm", ["install", ...options, ...PACKAGES], { cwd: partial, stdio: ["ignore", "ignore", "inherit"] });
  try {
    renameSync(partial, folder);
  } catch (error) {
    rmSync(partial, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}

async function freePort() {
  const server = createServer();
  await new Promise((ready) => server.listen(0, "127.0.0.1", () => ready(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  await new Promise((closed) => server.close(closed));
  return port;
}

/** Waits until the child's output matches. */
function outputOf(child, match) {
  let text = "";
  return new Promise((resolve, reject) => {
    child.stdout.on("data", (data) => {
      text += data;
      const result = match(text);
      if (result) resolve(result);
    });
    child.on("exit", (code) => reject(new Error(`redrive exited with ${code}: ${text}`)));
  });
}

async function stop(child) {
  if (child.exitCode !== null) return;
  const exited = new Promise((done) => child.on("exit", done));
  child.kill("SIGTERM");
  await exited;
}

/** `redrive demo`; its `link` logs in once. */
async function startDemo() {
  const args = ["demo", "--listen", "127.0.0.1:0", "--history-runs", "3000", "--speed", "3"];
  const child = spawn(BINARY, args, { stdio: ["pipe", "pipe", "inherit"], env });
  const text = await outputOf(child, (all) => (all.includes("Ctrl-C") ? all : null));
  const link = /https?:\/\/\S+\/login\?token=\S+/.exec(text)?.[0];
  const key = /REDRIVE_KEY=(\S+)/.exec(text)?.[1];
  return { url: new URL(link).origin, link, key, stop: () => stop(child) };
}

/** An empty server in a temporary folder, with one key per role. */
async function startServer() {
  const data = mkdtempSync(join(tmpdir(), "redrive-desk-"));
  const port = await freePort();
  const args = ["serve", "--listen", `127.0.0.1:${port}`, "--data", join(data, "data")];
  const child = spawn(BINARY, args, { stdio: ["ignore", "pipe", "ignore"], env });
  await outputOf(child, (all) => (all.includes("rdk_") ? all : null));
  const url = `http://127.0.0.1:${port}`;
  for (;;) {
    const ready = await fetch(`${url}/readyz`).catch(() => null);
    if (ready?.ok) break;
    await new Promise((later) => setTimeout(later, 50));
  }
  const createKey = (role, tenant) => {
    const scope = tenant ? ["--tenant", tenant] : [];
    const out = execFileSync(BINARY, ["keys", "create", "--role", role, ...scope, "--json", "--data", join(data, "data")], { env });
    return JSON.parse(String(out)).key;
  };
  const keys = {
    worker: createKey("worker", "acme"),
    tenant: createKey("tenant", "acme"),
    other: createKey("worker", "globex"),
    operator: createKey("operator"),
    admin: createKey("admin"),
  };
  const call = async (role, path, body, method = "POST") => {
    const response = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${keys[role]}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const json = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`);
    return json;
  };
  const stopAndRemove = async () => {
    await stop(child);
    rmSync(data, { recursive: true, force: true });
  };
  return { url, keys, call, stop: stopAndRemove };
}

let browser;
let demo;
let server;

export function sharedDemo() {
  demo ??= startDemo();
  return demo;
}

// What did not start needs no end, and must not keep the rest from ending.
after(async () => {
  const [opened, ...processes] = await Promise.allSettled([browser, demo, server]);
  await opened.value?.close();
  for (const { value } of processes) await value?.stop();
});

/** A page in a browser context of its own. `done` closes it and fails if it recorded anything. */
export async function openPage(options = {}) {
  browser ??= packages()("playwright-core").chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  const context = await (await browser).newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  const violations = [];
  page.on("pageerror", (error) => violations.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    violations.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/Content Security Policy|Refused to/i.test(message.text())) violations.push(`policy: ${message.text()}`);
  });
  await page.exposeFunction("hit", (n) => violations.push(`injected script ran: ${n}`));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      // @ts-ignore
      window.hit(`policy ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  const done = async () => {
    await context.close();
    assert.deepEqual(violations, []);
  };
  return { page, context, done };
}

/** Opens a page of the empty server and logs in with the key of a role. */
export async function logIn(role, options) {
  server ??= startServer();
  const { url, keys } = await server;
  const opened = await openPage(options);
  await opened.page.goto(`${url}/login`);
  await opened.page.getByLabel("Key").fill(keys[role]);
  await opened.page.getByRole("button", { name: "Log in" }).click();
  await opened.page.getByRole("link", { name: "Overview" }).waitFor();
  return { ...opened, server: await server };
}
