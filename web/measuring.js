// Worker that measures, in a program of its own with its script, on the requested number of threads,
// unless the target has no program here. A worker that is given the memory is one of those threads.

addEventListener(
  "message",
  async ({ data: { glue, program, memory, threads, gpu } }) => {
    try {
      const { default: start, begin, compute, measure } = await import(glue);
      await start({ module_or_path: program, memory });
      if (memory) return compute();
      if (threads > 1 && (navigator.gpu || !gpu)) await begin(threads);
      measure(self);
      // For visits without a network. The browser may list new arrivals a little later.
      const files = [glue, program].map((file) => new URL(file, location).href);
      files.push(...performance.getEntriesByType("resource").map((entry) => entry.name));
      new BroadcastChannel("parallax-files").postMessage(files);
    } catch (error) {
      // The page receives errors, but no unhandled rejections.
      setTimeout(() => {
        throw error;
      });
    }
  },
  { once: true },
);
