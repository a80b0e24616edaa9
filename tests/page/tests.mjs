// Tests by name, one after the other, with their results: a line each on the terminal, and the exit code.

/// `wanted` is a part of the names of the tests to run. A test receives the result of the one before it. `failed` may describe a
/// failure before it is reported; `after` closes the pages of a test, except its result.
export async function runTests(tests, { wanted = "", failed, after } = {}) {
  const chosen = Object.entries(tests).filter(([name]) => name.includes(wanted));
  let failures = 0;
  let left;
  for (const [name, test] of chosen) {
    const started = performance.now();
    try {
      left = await test(left);
      console.log(`ok    ${name} (${((performance.now() - started) / 1000).toFixed(1)} s)`);
    } catch (error) {
      left = undefined;
      failures += 1;
      await failed?.(failures);
      console.log(`FAIL  ${name}\n      ${String(error.stack ?? error).replaceAll("\n", "\n      ")}`);
    }
    await after?.(left);
  }
  console.log(`${chosen.length - failures} passed, ${failures} failed`);
  // No test at all is a failure, too.
  process.exitCode = failures === 0 && chosen.length > 0 ? 0 : 1;
}

/// Ends the program once its own things are closed: a test that failed may have left a server or a browser, which would keep it for ever.
export async function end(...closing) {
  await Promise.race([Promise.allSettled(closing), new Promise((resolve) => setTimeout(resolve, 10_000))]);
  process.exit();
}
