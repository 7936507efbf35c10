// Single sign-on with a real OpenID provider: npm's oidc-provider, on a port of its own.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after, before } from "node:test";
import { pathToFileURL } from "node:url";

import { freePort, openPage, packages, startServer } from "./support.mjs";

const GROUPS = { ada: ["staff", "sre"], carl: ["support-acme"], mallory: ["staff"] };

let provider;
let server;
let folder;

/** Anybody may sign in there with any password; the provider says who they are. */
async function startProvider(port, redirect) {
  const { default: Provider } = await import(pathToFileURL(packages().resolve("oidc-provider")).href);
  const issuer = `http://127.0.0.1:${port}`;
  const oidc = new Provider(issuer, {
    clients: [{ client_id: "desk", client_secret: "a secret/with+signs", redirect_uris: [redirect] }],
    claims: { openid: ["sub"], profile: ["name"], email: ["email", "email_verified"], groups: ["groups"] },
    cookies: { keys: ["a key"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, name: id, email: `${id}@example.com`, email_verified: true, groups: GROUPS[id] ?? [] }),
    }),
  });
  const http = createServer(oidc.callback());
  await new Promise((ready) => http.listen(port, "127.0.0.1", () => ready(undefined)));
  return { issuer, stop: () => new Promise((closed) => http.close(closed).closeAllConnections()) };
}

before(async () => {
  const port = await freePort();
  folder = mkdtempSync(join(tmpdir(), "redrive-sso-"));
  provider = await startProvider(await freePort(), `http://127.0.0.1:${port}/login/oidc/callback`);
  const config = join(folder, "redrive.toml");
  const groups = `{ sre = "operator", support-acme = "tenant:acme" }`;
  const secret = "REDRIVE_TEST_OIDC_SECRET";
  writeFileSync(config, `[oidc]\nissuer = "${provider.issuer}"\nclient_id = "desk"\nclient_secret_env = "${secret}"\ngroups = ${groups}\n`);
  server = await startServer({ port, args: ["--config", config], env: { [secret]: "a secret/with+signs" } });
});

after(async () => {
  await server?.stop();
  await provider?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function signIn(page, person, from = "/login") {
  await page.goto(server.url + from);
  await page.getByRole("link", { name: "Sign in with SSO" }).click();
  await page.locator("input[name=login]").fill(person);
  await page.locator("input[name=password]").fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}

test("sso_login_acts_under_the_persons_name", async () => {
  await server.call("worker", "/v1/failures", { run_id: "sso-1", queue: "mail", error: { message: "timeout" } });
  const { page, done } = await openPage();
  await signIn(page, "ada", "/runs/acme/sso-1");
  await page.waitForURL(`${server.url}/runs/acme/sso-1`);
  assert.equal(await page.getByRole("link", { name: "Operations" }).count(), 1, "an operator's page");
  const token = await page.locator("input[name=csrf]").first().inputValue();
  const noted = await page.request.post(`${server.url}/runs/acme/sso-1/note`, { form: { csrf: token, text: "seen", reason: "seen" } });
  assert.ok(noted.ok());
  const run = await server.call("operator", "/v1/runs/sso-1?tenant=acme", undefined, "GET");
  assert.match(JSON.stringify(run), /operator:ada@example\.com/);
  await done();
});

test("sso_tenant_sees_its_own_runs_only", async () => {
  await server.call("other", "/v1/failures", { run_id: "sso-2", queue: "mail", error: { message: "timeout" } });
  const { page, done } = await openPage();
  await signIn(page, "carl");
  await page.getByRole("link", { name: "Health" }).waitFor();
  const foreign = await page.goto(`${server.url}/runs/globex/sso-2`);
  assert.equal(foreign.status(), 404);
  await done();
});

test("sso_person_without_a_group_gets_a_clear_page", async () => {
  const { page, done } = await openPage();
  await signIn(page, "mallory");
  await page.getByRole("heading", { name: "No access" }).waitFor();
  assert.match(await page.locator("main").innerText(), /mallory@example\.com is in no group/);
  await page.goto(server.url);
  await page.getByRole("heading", { name: "Log in" }).waitFor();
  await done();
});

test("sso_answer_works_once_and_in_its_own_browser", async () => {
  const { page, done } = await openPage();
  let callback;
  page.on("request", (request) => {
    if (request.url().includes("/login/oidc/callback")) callback = request.url();
  });
  await signIn(page, "ada");
  await page.getByRole("link", { name: "Overview" }).waitFor();
  const again = await page.goto(callback);
  assert.equal(again.status(), 401);
  await page.getByRole("heading", { name: "Sign-in expired" }).waitFor();
  const elsewhere = await fetch(callback);
  assert.equal(elsewhere.status, 401);
  await done();
});
