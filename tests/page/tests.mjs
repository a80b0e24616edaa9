// Tests by name, one after the other, and what became of them: a line each on the terminal, and the exit code.

/// `wanted` is a part of the names of those that are to run. A test is given what an earlier one left. `failed` may say more of a
/// failure, before it is told.
export async function runTests(tests, { wanted = "", failed } = {}) {
  const chosen = Object.entries(tests).filter(([name]) => name.includes(wanted));
  let failures = 0;
  let left;
  for (const [name, test] of chosen) {
    try {
      left = (await test(left)) ?? left;
      console.log(`ok    ${name}`);
    } catch (error) {
      failures += 1;
      await failed?.(failures);
      console.log(`FAIL  ${name}\n      ${String(error.stack ?? error).replaceAll("\n", "\n      ")}`);
    }
  }
  console.log(`${chosen.length - failures} passed, ${failures} failed`);
  // No test at all is a failure, too.
  process.exitCode = failures === 0 && chosen.length > 0 ? 0 : 1;
}
