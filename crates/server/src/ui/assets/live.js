// @ts-check
// Live updates: fetches the page again and replaces only the marked parts. A part stays if the user has selected,
// opened or focused something in it.

const EVERY_MS = 5_000;
const BUSY_EVERY_MS = 1_000;

/** Marked as automatic, so that it does not extend the session.
 * @returns {Promise<Document | null>} The current page; null if it could not be loaded. */
export async function pageNow() {
  try {
    const answer = await fetch(location.href, { credentials: "same-origin", headers: { accept: "text/html", "x-redrive-follows": "1" } });
    if (!answer.ok) return null;
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return null;
  }
}

/** @param {Element} part Whether the user is busy there. */
function inUse(part) {
  const selection = document.getSelection();
  const selecting = selection && !selection.isCollapsed && selection.anchorNode && part.contains(selection.anchorNode);
  const here = part.contains(document.activeElement) && part !== document.activeElement;
  return Boolean(selecting || here || part.querySelector("details[open]"));
}

/** @param {Document} fresh */
function replaceParts(fresh) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const name = part.getAttribute("data-live");
    const next = fresh.querySelector(`[data-live="${name}"]`);
    if (next && part.innerHTML !== next.innerHTML && !inUse(part)) part.replaceWith(document.adoptNode(next));
    else if (next && next.hasAttribute("data-busy") !== part.hasAttribute("data-busy")) part.toggleAttribute("data-busy");
  }
}

/** @param {boolean} well */
function showLive(well) {
  const sign = document.getElementById("live");
  if (sign) sign.hidden = !well;
}

export function startLive() {
  if (!document.querySelector("[data-live]")) return;
  showLive(true);
  const round = async () => {
    if (!document.hidden) {
      const fresh = await pageNow();
      showLive(fresh !== null);
      if (fresh) replaceParts(fresh);
    }
    setTimeout(round, document.querySelector("[data-busy]") ? BUSY_EVERY_MS : EVERY_MS);
  };
  setTimeout(round, document.querySelector("[data-busy]") ? BUSY_EVERY_MS : EVERY_MS);
}
