// A reporter for `node --test` that prints as `cargo test` does, so that `cargo xtask test` counts these tests like any other.

import { relative } from "node:path";

export default async function* libtest(events) {
  const began = Date.now();
  const failures = [];
  const counts = { passed: 0, ignored: 0, filtered: 0 };
  yield "     Running tests/browser (tests/browser)\n\n";
  for await (const { type, data } of events) {
    if (type === "test:stderr") yield data.message;
    if (type !== "test:pass" && type !== "test:fail") continue;
    // A file that dies before its tests is reported under its own path.
    const name = data.name === data.file ? relative(".", data.file) : data.name;
    if (type === "test:fail") {
      failures.push([name, data.details.error]);
      yield `test ${name} ... FAILED\n`;
    } else if (String(data.skip).includes("does not match")) {
      counts.filtered += 1;
    } else if (data.skip !== undefined) {
      counts.ignored += 1;
      yield `test ${name} ... ignored\n`;
    } else {
      counts.passed += 1;
      yield `test ${name} ... ok\n`;
    }
  }
  if (failures.length) {
    yield "\nfailures:\n\n";
    for (const [name, error] of failures) {
      const cause = error.cause ?? error;
      yield `---- ${name} stdout ----\n${cause.stack ?? cause}\n\n`;
    }
    yield `\nfailures:\n${failures.map(([name]) => `    ${name}\n`).join("")}`;
  }
  const verdict = failures.length ? "FAILED" : "ok";
  const seconds = ((Date.now() - began) / 1000).toFixed(2);
  yield `\ntest result: ${verdict}. ${counts.passed} passed; ${failures.length} failed; ${counts.ignored} ignored; `;
  yield `0 measured; ${counts.filtered} filtered out; finished in ${seconds}s\n\n`;
}
