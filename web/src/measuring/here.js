// Measures in the page itself, where its workers cannot: a channel stands in for the worker.

export async function here(glue, program) {
  const addresses = [glue, program].map((file) => new URL(file, document.baseURI).href);
  const { default: start, measure } = await import(addresses[0]);
  await start({ module_or_path: addresses[1] });
  const { port1, port2 } = new MessageChannel();
  measure(port1);
  // For visits without a network.
  const files = [...addresses, ...performance.getEntriesByType("resource").map((entry) => entry.name)];
  new BroadcastChannel("parallax-files").postMessage(files);
  return port2;
}
