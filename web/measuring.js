// Where measuring happens: beside the page, in the page's own program, which the page hands over compiled as it is; or in the program
// for memory that threads share, which comes with its script. Its threads start here as well, with the memory.

addEventListener(
  "message",
  async ({ data: { glue, program, memory } }) => {
    try {
      const { default: start, compute } = await import(glue);
      await start({ module_or_path: program, memory });
      if (memory) compute();
    } catch (error) {
      // The page hears of errors, but not of promises that nobody keeps.
      setTimeout(() => {
        throw error;
      });
    }
  },
  { once: true },
);
