// Keeps the page for visits without a network, and gives it the headers that a plain file server cannot send: in an isolated page the
// clock has steps of 5 µs in place of 100.

const KEPT = "parallax-page";
/// Files whose names tell their contents.
const HASHED = /-[0-9a-f]{12,}(_bg)?\.(js|wasm|css)$/;
/// It must be able to talk to another site's window.
const NOT_ISOLATED = /\/open-trace\.html$/;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("message", (event) => {
  const files = (event.data?.keep ?? []).filter((file) => new URL(file).origin === location.origin);
  event.waitUntil(Promise.allSettled(files.map(keepIfNew)));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== location.origin || /^\/(api|desk)(\/|$)/.test(url.pathname)) return;
  event.respondWith(answer(request, url));
});

async function answer(request, url) {
  const cache = await caches.open(KEPT);
  if (HASHED.test(url.pathname)) {
    const kept = await cache.match(name(url));
    if (kept) return withHeaders(kept, url);
  }
  try {
    const response = await fetch(request);
    if (response.ok) await keep(cache, url, response.clone());
    return withHeaders(response, url);
  } catch (error) {
    const kept = await cache.match(name(url));
    if (!kept) throw error;
    return withHeaders(kept, url);
  }
}

/// Settings in the address are no other page.
function name(url) {
  return url.origin + url.pathname;
}

async function keepIfNew(file) {
  const [cache, url] = [await caches.open(KEPT), new URL(file)];
  if (await cache.match(name(url))) return;
  const response = await fetch(file);
  if (response.ok) await keep(cache, url, response);
}

async function keep(cache, url, response) {
  if (!response.headers.get("Content-Type")?.startsWith("text/html") || NOT_ISOLATED.test(url.pathname)) {
    await cache.put(name(url), response);
    return;
  }
  // A new page names its files; those of an older one are of no use any more.
  const text = await response.clone().text();
  await cache.put(name(url), response);
  for (const { url: kept } of await cache.keys()) {
    const file = kept.split("/").pop();
    if (HASHED.test(kept) && !text.includes(file)) await cache.delete(kept);
  }
}

function withHeaders(response, url) {
  if (NOT_ISOLATED.test(url.pathname) || response.type === "opaqueredirect") return response;
  const headers = new Headers(response.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  const { status, statusText } = response;
  return new Response(response.body, { status, statusText, headers });
}
