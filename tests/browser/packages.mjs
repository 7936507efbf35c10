// The packages that the suite uses, put into a folder of their own the first time: nothing lands beside the sources.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PACKAGES = ["axe-core@4.14.0", "playwright-core@1.65.0", "typescript@5.9.3"];

/** Where they are, and a `require` that finds them. */
export function providePackages() {
  const mark = createHash("sha256").update(PACKAGES.join(" ")).digest("hex").slice(0, 12);
  const home = join(tmpdir(), `redrive-browser-${mark}`);
  const done = join(home, "done");
  if (!existsSync(done)) {
    mkdirSync(home, { recursive: true });
    writeFileSync(join(home, "package.json"), "{}");
    const options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"];
    execFileSync("npm", ["install", ...options, ...PACKAGES], { cwd: home, stdio: ["ignore", "ignore", "inherit"] });
    writeFileSync(done, PACKAGES.join("\n"));
  }
  return { home, require: createRequire(join(home, "package.json")) };
}
