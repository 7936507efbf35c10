// @ts-check
// Replay with a fix: reports JSON errors at once, and shows differences and plan while the user types.

const WAIT_MS = 500;

/** @param {string} text @returns {string} The error; empty if the text is valid. */
function wrong(text) {
  if (!text.trim()) return "";
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : "not JSON";
  }
}

/** Fetches the page that submitting the form would show.
 * @param {HTMLFormElement} form */
async function check(form) {
  const body = new URLSearchParams();
  for (const [name, value] of new FormData(form)) body.append(name, String(value));
  const answer = await fetch(form.action, { method: "POST", body, credentials: "same-origin" });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [now, next] = [document.getElementById("checked"), fresh.getElementById("checked")];
  if (now && next) now.replaceChildren(...document.adoptNode(next).childNodes);
  const [bar, freshBar] = [document.querySelector(".head .bar"), fresh.querySelector(".head .bar")];
  if (bar && freshBar) bar.replaceChildren(...document.adoptNode(freshBar).childNodes);
}

export function startFix() {
  const form = /** @type {HTMLFormElement | null} */ (document.getElementById("draft"));
  const syntax = document.getElementById("syntax");
  if (!form || !syntax) return;
  const payload = /** @type {HTMLTextAreaElement | null} */ (form.elements.namedItem("payload"));
  /** @type {number | undefined} */
  let waiting;
  form.addEventListener("input", () => {
    const says = wrong(payload?.value ?? "");
    syntax.textContent = says;
    syntax.hidden = !says;
    payload?.setAttribute("aria-invalid", String(Boolean(says)));
    clearTimeout(waiting);
    if (!says) waiting = setTimeout(() => check(form).catch(() => undefined), WAIT_MS);
  });
}
