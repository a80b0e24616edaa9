// Says so when the page's program does not start: it is WebAssembly, which may be blocked, or not arrive.

const PATIENCE = 15_000;
/// The smallest program that computes in vectors.
const IN_VECTORS = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);
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
  if (WebAssembly.validate(IN_VECTORS)) {
    addEventListener("error", (event) => tell(`Reload the page. The browser said: ${event.message}`));
    addEventListener("unhandledrejection", (event) => tell(`Reload the page. The browser said: ${event.reason}`));
  } else {
    // The page's own program computes in vectors, and the browser refuses it. The same without them is slower.
    import("./plain/parallax-web.js")
      .then(({ default: start }) => start())
      .catch((error) => tell(`Update the browser: its WebAssembly does not compute in vectors (simd128). It said: ${error}`));
  }
  setTimeout(() => tell("It has not arrived, or the browser does not run it. Reload the page."), PATIENCE);
}
