// Measuring in the page itself, where its workers cannot: what would be said to a worker goes through a channel.

export async function here(glue, program) {
  const { default: start, measure } = await import(new URL(glue, document.baseURI));
  await start({ module_or_path: new URL(program, document.baseURI) });
  const { port1, port2 } = new MessageChannel();
  measure(port1);
  return port2;
}
