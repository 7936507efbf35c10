// @ts-check
// The list of runs: selection, and news that do not move the rows on screen.

import { pageNow } from "./live.js";

const EVERY_MS = 10_000;

/** @returns {HTMLInputElement[]} */
function boxes() {
  return [...document.querySelectorAll(/** @type {"input"} */ ("#runs input[name=run]"))];
}

export function selectionChanged() {
  const all = boxes();
  const ticked = all.filter((box) => box.checked).length;
  for (const box of all) box.closest("tr")?.setAttribute("aria-selected", String(box.checked));
  const said = document.getElementById("selected");
  if (said) said.textContent = ticked ? `${ticked} selected` : "Select";
  const page = /** @type {HTMLInputElement | null} */ (document.getElementById("page"));
  if (page) {
    page.checked = ticked > 0 && ticked === all.length;
    page.indeterminate = ticked > 0 && ticked < all.length;
  }
}

/** Updates rows in place and only counts new ones, so that the list does not move.
 * @param {Document} fresh */
function compare(fresh) {
  const rows = new Map([...fresh.querySelectorAll("#runs tr[data-run]")].map((row) => [row.getAttribute("data-run"), row]));
  const shown = [...document.querySelectorAll("#runs tr[data-run]")];
  for (const row of shown) {
    const next = rows.get(row.getAttribute("data-run"));
    rows.delete(row.getAttribute("data-run"));
    row.classList.toggle("gone", !next);
    const [now, then] = [row.lastElementChild, next?.lastElementChild];
    if (now && then && now.textContent !== then.textContent) now.replaceChildren(...document.adoptNode(then).childNodes);
  }
  const news = document.getElementById("newer");
  if (!news) return;
  news.hidden = rows.size === 0 && !shown.some((row) => row.classList.contains("gone"));
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "Reload the list";
  news.replaceChildren(rows.size ? `${rows.size} new. ` : "Some runs have changed. ", link);
}

export function startList() {
  const table = document.getElementById("runs");
  if (!table) return;
  document.getElementById("page")?.addEventListener("change", (event) => {
    for (const box of boxes()) box.checked = /** @type {HTMLInputElement} */ (event.target).checked;
    selectionChanged();
  });
  table.addEventListener("change", selectionChanged);
  selectionChanged();
  const round = async () => {
    if (!document.hidden) {
      const fresh = await pageNow();
      const sign = document.getElementById("live");
      if (sign) sign.hidden = !fresh;
      if (fresh) compare(fresh);
    }
    setTimeout(round, EVERY_MS);
  };
  setTimeout(round, EVERY_MS);
}
