// The worker of a model. It fetches the job of the command line, computes it, and sends the passes back.

const [glue, program] = ["parallax_models_worker.js", "parallax_models_worker_bg.wasm"].map((file) => new URL(`./${file}`, location).href);

/// The response to a request, of which only 2xx is a success.
async function ask(address, init) {
  const response = await fetch(address, init);
  if (!response.ok) throw new Error(`${address.replace(/\/[0-9a-f]+$/, "")}: ${response.status} ${await response.text()}`);
  return response;
}

onmessage = async ({ data: { job, target, kernels, experimental, environment } }) => {
  const post = (message) => fetch(job, { method: "POST", body: message }).then((response) => response.ok, () => false);
  try {
    postMessage("Loading the model …");
    const { default: start, run } = await import(glue);
    await start({ module_or_path: program });
    const texts = kernels ? await (await ask(kernels)).json() : {};
    const bytes = new Uint8Array(await (await ask(job)).arrayBuffer());
    const settings = JSON.stringify({ target, experimental, kernels: texts, environment });
    postMessage("Computing the model …");
    const passes = await run(bytes, settings, post);
    await ask(job, { method: "PUT", body: passes });
    postMessage("The model is computed. The command line has its answers.");
  } catch (error) {
    const reason = String(error.message ?? error);
    postMessage(`The model failed: ${reason}`);
    await post(JSON.stringify({ message: "failed", reason }));
  }
};
