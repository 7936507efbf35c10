// A Redrive of the suite's own: a throw-away folder or the demo, on a free port, ended by whoever started it.

import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BINARY = join(process.env.CARGO_TARGET_DIR ?? "target", "debug", "redrive");
// What configures a developer's own server must not colour the suite's.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("REDRIVE_")));

async function freePort() {
  const server = createServer();
  await new Promise((ready) => server.listen(0, "127.0.0.1", () => ready(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  await new Promise((closed) => server.close(closed));
  return port;
}

/** Waits until a line of its output fits. */
function lineOf(child, fits) {
  let text = "";
  return new Promise((found, ended) => {
    child.stdout.on("data", (data) => {
      text += data;
      const match = fits(text);
      if (match) found(match);
    });
    child.on("exit", (code) => ended(new Error(`it ended early with ${code}: ${text}`)));
  });
}

async function end(child) {
  if (child.exitCode !== null) return;
  const gone = new Promise((done) => child.on("exit", done));
  child.kill("SIGTERM");
  await gone;
}

/** The demo, as a newcomer meets it: `link` logs in once. */
export async function startDemo(runs = 3000) {
  const child = spawn(BINARY, ["demo", "--listen", "127.0.0.1:0", "--history-runs", String(runs), "--speed", "3"], {
    stdio: ["pipe", "pipe", "inherit"],
    env,
  });
  const text = await lineOf(child, (all) => (all.includes("Ctrl-C") ? all : null));
  const link = /https?:\/\/\S+\/login\?token=\S+/.exec(text)?.[0];
  const key = /REDRIVE_KEY=(\S+)/.exec(text)?.[1];
  return { url: new URL(link).origin, link, key, stop: () => end(child) };
}

/** A server with nothing in it, and a key of each kind. */
export async function startServer() {
  const data = mkdtempSync(join(tmpdir(), "redrive-desk-"));
  const port = await freePort();
  const args = ["serve", "--listen", `127.0.0.1:${port}`, "--data", join(data, "data")];
  const child = spawn(BINARY, args, { stdio: ["ignore", "pipe", "ignore"], env });
  await lineOf(child, (all) => (all.includes("rdk_") ? all : null));
  const url = `http://127.0.0.1:${port}`;
  for (;;) {
    const ready = await fetch(`${url}/readyz`).catch(() => null);
    if (ready?.ok) break;
    await new Promise((later) => setTimeout(later, 50));
  }
  const key = (role, tenant) => {
    const more = tenant ? ["--tenant", tenant] : [];
    const out = execFileSync(BINARY, ["keys", "create", "--role", role, ...more, "--json", "--data", join(data, "data")], { env });
    return JSON.parse(String(out)).key;
  };
  const keys = {
    worker: key("worker", "acme"),
    tenant: key("tenant", "acme"),
    other: key("worker", "globex"),
    operator: key("operator"),
    admin: key("admin"),
  };
  const call = async (who, path, body, method = "POST") => {
    const answer = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${keys[who]}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const json = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`);
    return json;
  };
  const stop = async () => {
    await end(child);
    rmSync(data, { recursive: true, force: true });
  };
  return { url, keys, call, stop };
}
