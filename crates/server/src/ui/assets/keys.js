// @ts-check
// Keyboard shortcuts. They act on the current row, and never while the user types.

import { selectionChanged } from "./list.js";

const HELP = [
  ["j, k", "next run, previous run"],
  ["x", "select the run"],
  ["a", "select the page"],
  ["enter", "open the run"],
  ["r", "replay the selection; on a run: replay it"],
  ["e", "edit and replay"],
  ["d", "discard the selection"],
  ["/", "search"],
  ["g o, g p, g d", "overview, patterns, dead letters"],
  ["?", "show these keys"],
];

/** @returns {HTMLTableRowElement[]} */
function rows() {
  return [...document.querySelectorAll(/** @type {"tr"} */ ("#runs tr[data-run]"))];
}

/** @returns {HTMLTableRowElement | undefined} */
function here() {
  return rows().find((row) => row.classList.contains("here"));
}

/** @param {number} by */
function move(by) {
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((row) => row.classList.contains("here"));
  const next = all[Math.min(all.length - 1, Math.max(0, now < 0 ? 0 : now + by))];
  for (const row of all) row.classList.toggle("here", row === next);
  next?.querySelector("a")?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function toggle() {
  const box = here()?.querySelector("input");
  if (!box) return;
  box.checked = !box.checked;
  selectionChanged();
}

/** @param {string} action Submits the selection; without one, the current row. */
function bulk(action) {
  const form = /** @type {HTMLFormElement | null} */ (document.getElementById("bulk"));
  if (!form) return false;
  if (!form.querySelector("input[name=run]:checked, #all:checked")) toggle();
  const button = /** @type {HTMLButtonElement | null} */ (form.querySelector(`button[value=${action}]`));
  button?.click();
  return true;
}

function help() {
  let dialog = /** @type {HTMLDialogElement | null} */ (document.getElementById("keys"));
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "keys";
    dialog.setAttribute("aria-label", "Keys");
    const list = document.createElement("dl");
    list.className = "facts";
    for (const [key, what] of HELP) {
      const [term, says] = [document.createElement("dt"), document.createElement("dd")];
      const mark = document.createElement("kbd");
      mark.textContent = key ?? "";
      term.append(mark);
      says.textContent = what ?? "";
      list.append(term, says);
    }
    dialog.append(list);
    document.body.append(dialog);
  }
  dialog.showModal();
}

/** @param {string} key */
function onPage(key) {
  const button = /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="${key}"]`));
  button?.click();
}

function edit() {
  const link = here()?.querySelector("a");
  if (link) location.href = `${link.href}/fix`;
  else onPage("e");
}

/** @type {Record<string, () => void>} */
const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  x: toggle,
  a: () => document.getElementById("page")?.click(),
  r: () => void (bulk("replay") || onPage("r")),
  d: () => void bulk("discard"),
  e: edit,
  "?": help,
  "/": () => /** @type {HTMLElement | null} */ (document.querySelector(".search input"))?.focus(),
};

/** @type {Record<string, string>} */
const PLACES = { o: "/", p: "/patterns", d: "/runs?state=dead", n: "/operations", t: "/tenants", q: "/queues", s: "/settings" };

export function startKeys() {
  let going = false;
  document.addEventListener("keydown", (event) => {
    const at = /** @type {HTMLElement} */ (event.target);
    const typing = at.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, dialog");
    if (event.key === "Escape" && typing) return at.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (going && PLACES[event.key]) {
      going = false;
      location.href = PLACES[event.key] ?? "/";
      return;
    }
    going = event.key === "g";
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
