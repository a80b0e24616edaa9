// Has the service worker keep this page for visits without a network, and where the server sends no headers of isolation, load it
// once more through the worker, which adds them.

const asked = new URLSearchParams(location.search);

/// A run that a command line started is neither kept nor begun twice.
if ("serviceWorker" in navigator && isSecureContext && !asked.has("report")) {
  const began = () => document.querySelector("#stop:not([hidden])");
  const isolate = () => {
    // Once in a tab: what the worker cannot mend, another turn does not mend either.
    if (crossOriginIsolated || sessionStorage.getItem("parallax-isolated") || began()) return;
    sessionStorage.setItem("parallax-isolated", "asked");
    location.reload();
  };
  const keep = async (files) => (await navigator.serviceWorker.ready).active.postMessage({ keep: files });
  // What measures tells of which files it is made, whenever it starts.
  new BroadcastChannel("parallax-files").addEventListener("message", ({ data }) => keep(data));
  addEventListener("load", async () => {
    try {
      await navigator.serviceWorker.register("./worker.js");
      const files = performance.getEntriesByType("resource").map((entry) => entry.name);
      // What starts measuring in a worker may come later than this.
      const later = new URL("./measuring.js", location.href).href;
      await keep([location.href, later, ...files]);
      if (navigator.serviceWorker.controller) isolate();
      else navigator.serviceWorker.addEventListener("controllerchange", isolate, { once: true });
    } catch {
      // A browser that keeps nothing for this page: it works all the same, as long as there is a network.
    }
  });
}
