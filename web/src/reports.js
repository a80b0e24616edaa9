// Fetches what makes reports, which is a program of its own: WebAssembly, and the script that goes with it.

let loading;

async function load(glue, program) {
  const made = await import(new URL(glue, document.baseURI));
  await made.default({ module_or_path: new URL(program, document.baseURI) });
  return made;
}

/// It, ready to be used, however often it is asked for; once it did not arrive, the next time tries again.
export function reports(glue, program) {
  loading ??= load(glue, program).catch((error) => {
    loading = undefined;
    throw error;
  });
  return loading;
}
