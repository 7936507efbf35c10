// Checks of the page scripts that need no browser: types and size.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { packages } from "./support.mjs";

const ASSETS = "crates/server/src/ui/assets";
const LINES_MAX = 1_500;
const modules = readdirSync(ASSETS).filter((name) => name.endsWith(".js")).map((name) => join(ASSETS, name));

test("scripts_pass_the_type_checker", () => {
  const tsc = packages().resolve("typescript/bin/tsc");
  const options = ["--noEmit", "--allowJs", "--checkJs", "--strict", "--noUncheckedIndexedAccess", "--target", "es2022"];
  const more = ["--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2022,dom,dom.iterable"];
  try {
    execFileSync(process.execPath, [tsc, ...options, ...more, ...modules], { stdio: "pipe" });
  } catch (error) {
    assert.fail(String(error.stdout));
  }
});

test("scripts_stay_below_their_line_limit", () => {
  const lines = modules.map((path) => readFileSync(path, "utf8").split("\n").length);
  assert.ok(lines.reduce((sum, n) => sum + n, 0) <= LINES_MAX, `${lines}`);
});
