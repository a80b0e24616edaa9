// Worker that reads files from outside and makes reports and traces, in a program of its own. A file that
// breaks the program ends this worker, and the page begins another.

addEventListener(
  "message",
  async ({ data: { glue, program } }) => {
    try {
      const { default: start, ...made } = await import(glue);
      await start({ module_or_path: program });
      onmessage = ({ data: { what, text, bytes } }) => {
        try {
          postMessage({ made: made[what](text, bytes) });
        } catch (error) {
          // The program throws text. Any other end is a trap, after which its memory is unreliable.
          postMessage(typeof error === "string" ? { refused: error } : { broke: String(globalThis.panicked ?? error) });
        }
      };
      postMessage({ ready: true });
      // For visits without a network. The browser may list new arrivals a little later.
      const files = [glue, program].map((file) => new URL(file, location).href);
      files.push(...performance.getEntriesByType("resource").map((entry) => entry.name));
      new BroadcastChannel("parallax-files").postMessage(files);
    } catch {
      // The page finds out why when it loads the program itself.
      postMessage({ ready: false });
    }
  },
  { once: true },
);
