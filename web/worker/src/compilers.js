// Fetches CubeCL's compilers, which are a program of their own: WebAssembly, and the script that goes with it.

export async function load(glue, program) {
  const began = performance.now();
  const { default: start, translate, lastWords } = await import(glue);
  await start({ module_or_path: program });
  const took = performance.now() - began;
  const [file] = performance.getEntriesByName(program);
  return {
    milliseconds: took,
    sent: file?.encodedBodySize ?? 0,
    bytes: file?.decodedBodySize ?? 0,
    translate(recipe) {
      try {
        return translate(recipe);
      } catch (end) {
        throw new Error(lastWords() || end.message);
      }
    },
  };
}
