// Says so when the page's program does not start: it is WebAssembly, which may be blocked, or not arrive.

const PATIENCE = 15_000;
const alive = () => "alive" in document.documentElement.dataset;

function tell(why) {
  if (alive() || document.querySelector("[data-notice=dead]")) return;
  const [notice, title, text] = ["p", "strong", "span"].map((name) => document.createElement(name));
  notice.className = "notice error";
  notice.dataset.notice = "dead";
  title.textContent = "The page's program did not start.";
  text.textContent = ` ${why}`;
  notice.append(title, text);
  document.querySelector("#notices").append(notice);
  document.querySelector("#device").textContent = "Not asked for.";
}

if (typeof WebAssembly !== "object") {
  tell("This browser blocks WebAssembly, as some do in a mode of higher security. Allow it for this site and reload.");
} else {
  addEventListener("error", (event) => tell(`Reload the page. The browser said: ${event.message}`));
  addEventListener("unhandledrejection", (event) => tell(`Reload the page. The browser said: ${event.reason}`));
  setTimeout(() => tell("It has not arrived, or the browser does not run it. Reload the page."), PATIENCE);
}
