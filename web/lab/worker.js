// The worker of the lab. It answers each request of the page, in order.

const [glue, program] = ["parallax_lab_worker.js", "parallax_lab_worker_bg.wasm"].map((file) => new URL(`./${file}`, location).href);

/// Loads the program. Imports of a module that is loaded later are in the browser's list of arrivals.
async function load() {
  const loaded = await import(glue);
  await loaded.default({ module_or_path: program });
  // For visits without a network. The browser may list new arrivals a little later.
  const files = [glue, program, ...performance.getEntriesByType("resource").map((entry) => entry.name)];
  new BroadcastChannel("parallax-files").postMessage(files);
  return loaded;
}

const loading = load();
// The first request receives the error.
loading.catch(() => {});

onmessage = async ({ data: { id, kind, request, files } }) => {
  const onKernel = (kernel) => postMessage({ id, kernel });
  let lab;
  try {
    lab = await loading;
    const answer = kind === "reflect"
      ? lab.reflect(request, files, onKernel)
      : await lab.compare(request, files, onKernel, (phase) => postMessage({ id, phase }));
    postMessage({ id, answer: JSON.parse(answer) });
  } catch (error) {
    const message = String(error.message ?? error);
    if (!lab) return postMessage({ id, error: `The program of the lab did not load: ${message}. Reload the page.`, broken: true });
    // A program that trapped is unusable, and so is one that ran out of stack.
    const trapped = error instanceof WebAssembly.RuntimeError || error instanceof RangeError;
    postMessage({ id, error: message, trapped, broken: trapped });
  }
};
