// The page of a model: it starts the worker with the settings of its address, and shows its state.

const settings = new URLSearchParams(location.search);
const job = settings.get("job");
const show = (text) => (document.getElementById("status").textContent = text);

/// Facts about the browser. Nothing here identifies a person.
const environment = {
  user_agent: navigator.userAgent,
  platform: navigator.platform,
  host_threads: String(navigator.hardwareConcurrency),
  cross_origin_isolated: String(crossOriginIsolated),
};

/// Reports the end of a worker that cannot do so itself.
function failed(reason) {
  show(`The model failed: ${reason}`);
  fetch(job, { method: "POST", body: JSON.stringify({ message: "failed", reason }) }).catch(() => {});
}

function start() {
  const worker = new Worker("./worker.js", { type: "module" });
  worker.onerror = (event) => {
    event.preventDefault();
    failed(event.message || "the worker of models did not load");
  };
  worker.onmessage = ({ data }) => show(data);
  const [target, kernels] = [settings.get("target") ?? "browser", settings.get("kernels")];
  worker.postMessage({ job, target, kernels, experimental: settings.get("features") === "unsafe", environment });
}

// A command line gives an address of this page's own server.
if (job?.startsWith("/api/")) start();
