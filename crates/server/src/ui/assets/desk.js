// @ts-check
// The entry point: each module checks whether the page needs it. The pages work without any of them.

import { startFix } from "./fix.js";
import { startKeys } from "./keys.js";
import { startList } from "./list.js";
import { startLive } from "./live.js";

// An error page links back to the page before.
for (const link of document.querySelectorAll("a[data-back]")) {
  link.addEventListener("click", (event) => {
    if (history.length > 1) {
      event.preventDefault();
      history.back();
    }
  });
}

// A double click must not submit a form twice.
document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (form.method !== "post" || event.defaultPrevented) return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
});

// Unfolds the section that a link points into.
function unfold() {
  const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
  const folded = target?.closest("details");
  if (!target || !folded) return;
  folded.open = true;
  target.focus();
}
window.addEventListener("hashchange", unfold);
unfold();

startLive();
startList();
startFix();
startKeys();
