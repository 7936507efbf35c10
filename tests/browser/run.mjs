// The desk as a person meets it: real Chromium, a real server, and whoever sits in front of it. Prints as `cargo test`
// does; an argument is a word that a test's name must contain.

import { accessibility } from "./accessibility.mjs";
import { attacks } from "./attacks.mjs";
import { Bench } from "./bench.mjs";
import { demo } from "./demo.mjs";
import { people } from "./people.mjs";
import { sources } from "./sources.mjs";

const filter = process.argv[2] ?? "";
const all = [...sources, ...demo, ...people, ...attacks, ...accessibility];
const chosen = all.filter(([name]) => name.includes(filter));
const began = Date.now();
const failures = [];

console.log(`\nrunning ${chosen.length} tests`);
const bench = new Bench();
for (const [name, run] of chosen) {
  try {
    await run(bench);
    console.log(`test ${name} ... ok`);
  } catch (error) {
    failures.push([name, error]);
    console.log(`test ${name} ... FAILED`);
  }
}
await bench.close();

if (failures.length) {
  console.log("\nfailures:\n");
  for (const [name, error] of failures) console.log(`---- ${name} stdout ----\n${error?.stack ?? error}\n`);
}
const verdict = failures.length ? "FAILED" : "ok";
const left = all.length - chosen.length;
const took = ((Date.now() - began) / 1000).toFixed(2);
console.log(
  `\ntest result: ${verdict}. ${chosen.length - failures.length} passed; ${failures.length} failed; 0 ignored; 0 measured; ${left} filtered out; finished in ${took}s\n`,
);
process.exit(failures.length ? 101 : 0);
