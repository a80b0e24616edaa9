// Reports a program that does not start, or that ends: WebAssembly may be blocked, or not arrive, or run out
// of memory, which it cannot report itself.

const PATIENCE = 15_000;
const root = document.documentElement;
const alive = () => "alive" in root.dataset;

function notice(key, title, text) {
  if (document.querySelector(`[data-notice=${key}]`)) return;
  const [notice, strong, span] = ["p", "strong", "span"].map((name) => document.createElement(name));
  notice.className = "notice error";
  notice.dataset.notice = key;
  strong.textContent = title;
  span.textContent = ` ${text}`;
  notice.append(strong, span);
  document.querySelector("#notices").append(notice);
}

function dead(why) {
  if (alive()) return;
  notice("dead", "The page's program did not start.", why);
  document.querySelector("#device").textContent = "Not asked for.";
}

/// A trap ends the program. The key is that of a panic, whose message says more.
function trapped(error) {
  if (!(error instanceof WebAssembly.RuntimeError || error instanceof RangeError)) return;
  const at = root.dataset.at ? `, at ${root.dataset.at}` : "";
  notice("crash", "This page stopped working.", `It ran out of memory, or hit a bug${at}. Reload it. The browser said: ${error.message}`);
  for (const line of document.querySelectorAll("#compare-line, #share-line")) line.textContent = "";
  document.querySelector("#run").disabled = true;
}

// In a site, this page is at run/.
if (/\/run\/(index\.html)?$/.test(location.pathname)) {
  document.querySelector("#site").classList.remove("absent");
  document.querySelector("#home").href = "../";
}

const hear = (error, message) => (alive() ? trapped(error) : dead(`Reload the page. The browser said: ${message}`));

if (typeof WebAssembly !== "object") {
  dead("This browser blocks WebAssembly, as some do in a mode of higher security. Allow it for this site and reload.");
} else {
  addEventListener("error", (event) => hear(event.error, event.message));
  addEventListener("unhandledrejection", (event) => hear(event.reason, event.reason));
  setTimeout(() => dead("It has not arrived, or the browser does not run it. Reload the page."), PATIENCE);
}
