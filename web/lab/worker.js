// The worker of the lab. It answers each request of the page, in order.

import start, { compare, reflect } from "./parallax_lab_worker.js";

const started = start({ module_or_path: new URL("./parallax_lab_worker_bg.wasm", import.meta.url) });

onmessage = async ({ data: { id, kind, request, files } }) => {
  try {
    await started;
    const answer = kind === "reflect"
      ? reflect(request, files)
      : await compare(request, files, (phase) => postMessage({ id, phase }));
    postMessage({ id, answer: JSON.parse(answer) });
  } catch (error) {
    // A program that trapped is unusable.
    postMessage({ id, error: String(error.message ?? error), broken: error instanceof WebAssembly.RuntimeError });
  }
};
