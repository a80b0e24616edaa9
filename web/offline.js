// Starts a service worker that keeps the files of a page for visits without a network. Without isolation headers from the server, it
// loads the page once more through the worker, which adds them. All pages of the folder have one worker.

const FOLDER = new URL("./", document.currentScript.src).href;
/// Pages of the folder: the name of a page's list in the worker's address, and scripts of workers that start later. In an isolated page
/// they need the service worker's headers, too.
const PAGES = {
  "": { list: "file", later: ["measuring.js", "reading.js"] },
  "lab/": { list: "lab", later: ["lab/worker.js"] },
};
const PAGE = location.href.split(/[?#]/)[0].slice(FOLDER.length).replace(/(^|\/)index\.html$/, "$1");
const { list: LIST, later: LATER } = PAGES[PAGE];
/// Maximum number of files in a list.
const MOST = 100;
const { serviceWorker } = navigator;

/// Paths in the page's folder: of its scripts, styles and programs among these addresses.
function paths(addresses) {
  const below = addresses.filter((address) => address.startsWith(FOLDER)).map((address) => address.slice(FOLDER.length).split(/[?#]/)[0]);
  return below.filter((path) => /\.(css|js|wasm)$/.test(path));
}

const loaded = () => paths(performance.getEntriesByType("resource").map((entry) => entry.name));
/// The lists of a worker's address.
const listsOf = (worker) => new URLSearchParams(worker ? new URL(worker.scriptURL).search : "");
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
/// of the first, its list is of an older version, and useless. The lists of other pages stay as they are.
async function list(first, others = []) {
  const lists = listsOf((await registered())?.active);
  const before = lists.getAll(LIST);
  const known = first.every((path) => before.includes(path)) ? before : first;
  lists.delete(LIST);
  for (const path of [...new Set([...known, ...others])].slice(0, MOST)) lists.append(LIST, path);
  // One order of the lists, by name: another address would be another worker.
  lists.sort();
  const registration = await serviceWorker.register(`${FOLDER}worker.js?${lists}`);
  const worker = registration.installing ?? registration.waiting ?? registration.active;
  while (worker.state !== "activated") {
    if (worker.state === "redundant") return;
    await new Promise((changed) => worker.addEventListener("statechange", changed, { once: true }));
  }
  worker.postMessage({ keep: PAGE });
}

/// Loads the page once more, where the worker in charge lists it. Once in a tab, and never during a run or after the visitor gave a
/// kernel: a page that is loaded anew has lost it.
function isolate() {
  if (crossOriginIsolated || !listsOf(serviceWorker.controller).has(LIST) || document.querySelector("#stop:not([hidden])")) return;
  const asked = `parallax-isolated ${PAGE}`;
  if (sessionStorage.getItem(asked) || [...document.querySelectorAll("textarea")].some(({ value }) => value)) return;
  sessionStorage.setItem(asked, "asked");
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
  // Pages in other tabs hear of the files, too.
  const isOwn = (path) => path.startsWith("lab/") === (PAGE === "lab/");
  new BroadcastChannel("parallax-files").addEventListener("message", ({ data }) => addFiles(paths(data).filter(isOwn)));
  // A browser without storage for the page: the page works while there is a network.
  addEventListener("load", () => begin().catch(() => {}));
}
