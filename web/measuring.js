// Where measuring happens: beside the page, in a program of its own, which comes with its script, and for which so many threads begin
// unless what it should measure is not here. Where the memory is given, this is one of those threads.

addEventListener(
  "message",
  async ({ data: { glue, program, memory, threads, gpu } }) => {
    try {
      const { default: start, begin, compute, measure } = await import(glue);
      await start({ module_or_path: program, memory });
      if (memory) return compute();
      if (threads > 1 && (navigator.gpu || !gpu)) await begin(threads);
      measure(self);
      // For visits without a network. The browser may list what has just arrived a little later.
      const files = [glue, program].map((file) => new URL(file, location).href);
      files.push(...performance.getEntriesByType("resource").map((entry) => entry.name));
      new BroadcastChannel("parallax-files").postMessage(files);
    } catch (error) {
      // The page hears of errors, but not of promises that nobody keeps.
      setTimeout(() => {
        throw error;
      });
    }
  },
  { once: true },
);
