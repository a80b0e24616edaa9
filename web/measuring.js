// Where measuring happens: beside the page, in the page's own program, which the page hands over compiled as it is.

addEventListener(
  "message",
  async ({ data: { glue, program } }) => {
    try {
      const { default: start } = await import(glue);
      await start({ module_or_path: program });
    } catch (error) {
      // The page hears of errors, but not of promises that nobody keeps.
      setTimeout(() => {
        throw error;
      });
    }
  },
  { once: true },
);
