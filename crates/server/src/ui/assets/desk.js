// @ts-check
// What a page begins with: each part looks whether it has anything to do here. Without any of it the pages read and act.

import { startFix } from "./fix.js";
import { startKeys } from "./keys.js";
import { startList } from "./list.js";
import { startLive } from "./live.js";

// A problem leads back to where it was met.
for (const link of document.querySelectorAll("a[data-back]")) {
  link.addEventListener("click", (event) => {
    if (history.length > 1) {
      event.preventDefault();
      history.back();
    }
  });
}

// A form is sent once: a second click would be a second wish.
document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (form.method !== "post" || event.defaultPrevented) return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
});

// What a link points at may lie in something that is folded.
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
