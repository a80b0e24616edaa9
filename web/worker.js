// Keeps pages for visits without a network, and adds the headers that a plain file server cannot send: in an isolated page the
// clock has steps of 5 µs instead of 100. It handles only the pages and files that its own address lists.
// The server's answer always wins; a copy is given only where the network fails.

const KEPT = "parallax-page";
const FOLDER = self.registration.scope;
/// Pages of the folder, with the names of their lists.
const LISTS = { "": "file", "lab/": "lab" };
const SETTINGS = new URLSearchParams(location.search);
/// Files of each page that has been seen.
const FILES = new Map(Object.entries(LISTS).map(([page, name]) => [page, SETTINGS.getAll(name)]).filter(([, files]) => files.length));
const LISTED = new Set([...FILES.values()].flat());
/// First characters of a page; those of other programs differ.
const BEGINNING = '<!doctype html><html lang="en" data-program="parallax">';
/// Whether another program has the page's address now.
let retired = false;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(Promise.all([self.clients.claim(), clean()])));
self.addEventListener("message", (event) => FILES.has(event.data?.keep) && event.waitUntil(keepAll(event.data.keep)));

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const path = pathOf(request.url);
  if (request.method !== "GET" || path === undefined || request.headers.has("Range")) return;
  if (request.mode === "navigate") {
    const page = pageOf(path);
    if (FILES.has(page) && request.destination === "document") event.respondWith(navigation(event, page));
  } else if (LISTED.has(path)) {
    event.respondWith(file(event, path));
  }
});

/// The path of an address in the page's folder, without settings.
function pathOf(address) {
  const url = new URL(address);
  const whole = url.origin + url.pathname;
  return whole.startsWith(FOLDER) ? whole.slice(FOLDER.length) : undefined;
}

/// The page of a path.
const pageOf = (path) => path?.replace(/(^|\/)index\.html$/, "$1");

/// The answer to a navigation to a page.
async function navigation(event, page) {
  let response;
  try {
    response = await fetch(event.request);
  } catch (error) {
    return isolated(await copy(page, error));
  }
  if (response.status !== 200) return response;
  if (!(await isPage(response.clone()))) {
    event.waitUntil(retire());
    return response;
  }
  return isolated(response);
}

async function file(event, path) {
  // Another program of this origin may ask for a file of the same name: it gets the server's. Browsers do not name the workers that
  // workers begin, which compute here on several threads.
  const asking = await self.clients.get(event.clientId);
  const from = asking && pathOf(asking.url);
  if (retired || (asking && !(FILES.has(pageOf(from)) || LISTED.has(from)))) return fetch(event.request);
  const isWorker = event.request.destination === "worker";
  let response;
  try {
    response = await fetch(event.request);
  } catch (error) {
    response = await copy(path, error);
  }
  return isWorker ? isolated(response) : response;
}

/// Whether a response is a page of this program. Reads up to the first different letter.
async function isPage(response) {
  const [reader, decoder] = [response.body?.getReader(), new TextDecoder()];
  let begun = "";
  while (reader && begun.length < BEGINNING.length && BEGINNING.startsWith(begun)) {
    const { done, value } = await reader.read();
    if (done) break;
    begun += decoder.decode(value, { stream: true });
  }
  reader?.cancel().catch(() => {});
  return begun.startsWith(BEGINNING);
}

/// A response with the headers of isolation. Its body is read first: a page that is left would never read it to the end, and the
/// next service worker would wait for it.
async function isolated(response) {
  if (!response.ok) return response;
  const headers = new Headers(response.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  const { status, statusText } = response;
  return new Response(await response.arrayBuffer(), { status, statusText, headers });
}

/// The copy of a file; where there is none, the error of the network.
async function copy(path, error) {
  const kept = await caches.open(KEPT).then((cache) => cache.match(FOLDER + path, { ignoreVary: true })).catch(() => undefined);
  if (!kept) throw error;
  return kept;
}

/// Keeps a copy. If that fails, it drops the older one, which belongs to files of an older version. Never fails.
async function keep(path, response) {
  if (response.status !== 200 || response.redirected || retired) return;
  const address = FOLDER + path;
  const put = async () => (await caches.open(KEPT)).put(address, response);
  await put().catch(async () => (await caches.open(KEPT)).delete(address)).catch(() => {});
}

/// Keeps a page and its files anew, while the server still has the page. It asks for them itself: a copy of an answer to the
/// page may never end where the page is left meanwhile, and the next worker would wait for it. Files of another page may be of
/// another version.
async function keepAll(page) {
  const response = await fetch(FOLDER + page);
  if (!(await isPage(response.clone()))) return;
  await keep(page, response);
  await Promise.allSettled(FILES.get(page).map(async (path) => keep(path, await fetch(FOLDER + path))));
}

/// Drops copies of files that are not listed.
async function clean() {
  const cache = await caches.open(KEPT).catch(() => undefined);
  for (const { url } of (await cache?.keys()) ?? []) {
    const path = pathOf(url);
    if (path !== undefined && !FILES.has(path) && !LISTED.has(path)) await cache.delete(url);
  }
}

async function retire() {
  retired = true;
  await self.registration.unregister();
  await caches.delete(KEPT);
}
