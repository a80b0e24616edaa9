// Handing a trace to the Perfetto UI. Used by the page (through wasm-bindgen) and by open-trace.html.
//
// Perfetto takes a trace from the window that opened it: ask PING until it answers PONG, then post the bytes. A page
// that is cross-origin isolated cannot do that, because isolation separates opener and opened; it puts the
// trace into IndexedDB, and open-trace.html, which is not isolated, reads it.

const UI = "https://ui.perfetto.dev";
const GIVE_UP_AFTER_MS = 60_000;

/// Opens the Perfetto UI and sends it a trace. Must be called from a click. `tell` gets "sent" or "silent" later.
/// Returns false when the browser blocked the window.
export function openInPerfetto(bytes, title, tell) {
  const ui = window.open(UI);
  if (!ui) return false;
  // A copy: the receiver takes the buffer over, and the caller's may be memory of the WebAssembly module.
  const buffer = bytes.slice().buffer;
  const since = Date.now();
  const ping = setInterval(() => {
    if (Date.now() - since > GIVE_UP_AFTER_MS || ui.closed) {
      finish("silent");
      return;
    }
    ui.postMessage("PING", UI);
  }, 100);
  const finish = (outcome) => {
    clearInterval(ping);
    window.removeEventListener("message", onMessage);
    tell(outcome);
  };
  const onMessage = (event) => {
    if (event.source !== ui || event.origin !== UI || event.data !== "PONG") return;
    ui.postMessage({ perfetto: { buffer, title } }, UI, [buffer]);
    finish("sent");
  };
  window.addEventListener("message", onMessage);
  return true;
}

function store(mode, use) {
  return new Promise((resolve, reject) => {
    const open = indexedDB.open("parallax", 1);
    open.onupgradeneeded = () => open.result.createObjectStore("traces");
    open.onerror = () => reject(open.error);
    open.onsuccess = () => {
      const database = open.result;
      const transaction = database.transaction("traces", mode);
      const request = use(transaction.objectStore("traces"));
      transaction.oncomplete = () => {
        database.close();
        resolve(request.result);
      };
      transaction.onabort = () => {
        database.close();
        reject(transaction.error);
      };
    };
  });
}

/// Stores a trace for open-trace.html, in place of any earlier one.
export function handOver(bytes, title) {
  const trace = { bytes: bytes.slice(), title };
  return store("readwrite", (traces) => traces.put(trace, "latest"));
}

/// The stored trace, or undefined.
export function pickUp() {
  return store("readonly", (traces) => traces.get("latest"));
}
