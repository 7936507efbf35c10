// What can be said of the modules without a browser: they are typed, and they stay small.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

const ASSETS = "crates/server/src/ui/assets";
const LINES_MAX = 1_500;
const modules = readdirSync(ASSETS).filter((name) => name.endsWith(".js")).map((name) => join(ASSETS, name));

export const sources = [
  [
    "the_scripts_are_typed",
    (bench) => {
      const tsc = bench.packages().require.resolve("typescript/bin/tsc");
      const options = ["--noEmit", "--allowJs", "--checkJs", "--strict", "--noUncheckedIndexedAccess", "--target", "es2022"];
      const more = ["--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2022,dom,dom.iterable"];
      try {
        execFileSync(process.execPath, [tsc, ...options, ...more, ...modules], { stdio: "pipe" });
      } catch (error) {
        assert.fail(String(error.stdout));
      }
    },
  ],
  [
    "the_scripts_stay_small",
    () => {
      const lines = modules.map((path) => readFileSync(path, "utf8").split("\n").length);
      assert.ok(lines.reduce((sum, n) => sum + n, 0) <= LINES_MAX, `${lines}`);
    },
  ],
];
