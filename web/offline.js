// Starts a service worker that keeps the page's files for visits without a network. Without isolation headers from the server, it loads
// the page once more through the worker, which adds them.

const FOLDER = new URL("./", location.href).href;
/// Scripts of workers that start later: in an isolated page they need the service worker's headers, too.
const LATER = ["measuring.js", "reading.js"];
/// Maximum number of listed files.
const MOST = 100;
const { serviceWorker } = navigator;

/// Paths in the page's folder: of its scripts, styles and programs among these addresses.
function paths(addresses) {
  const below = addresses.filter((address) => address.startsWith(FOLDER)).map((address) => address.slice(FOLDER.length).split(/[?#]/)[0]);
  return below.filter((path) => /\.(css|js|wasm)$/.test(path));
}

const loaded = () => paths(performance.getEntriesByType("resource").map((entry) => entry.name));
/// The files that a worker's address lists.
const listOf = (worker) => (worker ? new URL(worker.scriptURL).searchParams.getAll("file") : []);
/// The worker of this folder; another one may control a folder around it.
const registered = async () => {
  const registration = await serviceWorker.getRegistration(FOLDER);
  return registration?.scope === FOLDER ? registration : undefined;
};

/// Whether the server isolates the page. A service worker answers only GET requests.
async function isolatedByServer() {
  if (!crossOriginIsolated || !serviceWorker.controller) return crossOriginIsolated;
  const { headers } = await fetch(location.pathname, { method: "HEAD" });
  return headers.get("Cross-Origin-Opener-Policy") === "same-origin" && headers.has("Cross-Origin-Embedder-Policy");
}

async function forget() {
  await (await registered())?.unregister();
  await caches.delete("parallax-page");
}

/// Makes the worker list the page's first files, these others, and its present list. If it misses some
/// of the first, its list is of an older version, and useless.
async function list(first, others = []) {
  const before = listOf((await registered())?.active);
  const known = first.every((path) => before.includes(path)) ? before : first;
  const all = [...new Set([...known, ...others])].slice(0, MOST);
  const script = `./worker.js?${new URLSearchParams(all.map((path) => ["file", path]))}`;
  const registration = await serviceWorker.register(script);
  const worker = registration.installing ?? registration.waiting ?? registration.active;
  while (worker.state !== "activated") {
    if (worker.state === "redundant") return;
    await new Promise((changed) => worker.addEventListener("statechange", changed, { once: true }));
  }
  worker.postMessage("keep");
}

/// Once in a tab, and never during a run.
function isolate() {
  if (crossOriginIsolated || !serviceWorker.controller || document.querySelector("#stop:not([hidden])")) return;
  if (sessionStorage.getItem("parallax-isolated")) return;
  sessionStorage.setItem("parallax-isolated", "asked");
  location.reload();
}

/// Files of the programs that measure and that make reports. Each program names its own when it starts, which may be before the page
/// has loaded.
const early = [];
let addFiles = (files) => early.push(...files);

async function begin() {
  if (await isolatedByServer().catch(() => false)) return forget();
  const first = [...new Set([...loaded(), ...LATER])];
  let listed = list(first, early);
  addFiles = (files) => {
    listed = listed.then(() => list(first, files)).catch(() => {});
  };
  serviceWorker.addEventListener("controllerchange", isolate);
  await listed;
  isolate();
}

// Neither a run that a command line started nor an embedded page is kept.
if (serviceWorker && isSecureContext && top === self && !new URLSearchParams(location.search).has("report")) {
  new BroadcastChannel("parallax-files").addEventListener("message", ({ data }) => addFiles(paths(data)));
  // A browser without storage for the page: the page works while there is a network.
  addEventListener("load", () => begin().catch(() => {}));
}
