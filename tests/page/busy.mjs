// How long a page's own thread is busy at a time.
//
// Tasks count by the processor time that they take, not by the clock: where the processors also emulate a GPU, every task waits for
// one, and waiting is not the page's doing. Beside the page's own tasks a fixed loop runs every now and then; by how much it takes longer
// than usual, on a slow processor or on one that is shared with another thread, the others are taken to take longer, too.

import { strict as assert } from "node:assert";

/// Milliseconds of the loop on the machine that bounds were set on, at rest.
const USUAL = 3.7;
const LOOP = "a loop of the test";

/// The page's thread while something is done in it: milliseconds of its tasks, the longest first, as of a usual machine.
export async function busiest(browser, page, doing) {
  await page.addInitScript((mark) => {
    const loop = () => {
      let x = 1;
      for (let i = 0; i < 3e6; i += 1) x = (Math.imul(x, 1664525) + 1013904223) | 0;
      performance.mark(mark, { detail: x });
    };
    setInterval(loop, 200);
  }, LOOP);
  await browser.startTracing(page, { categories: ["toplevel", "blink.user_timing"] });
  await doing();
  const { traceEvents } = JSON.parse(await browser.stopTracing());
  const marks = traceEvents.filter(({ name }) => name === LOOP);
  assert.ok(marks.length > 10, `the loop ran only ${marks.length} times`);
  const { pid, tid } = marks[0];
  const tasks = traceEvents.filter((e) => e.pid === pid && e.tid === tid && e.name === "ThreadControllerImpl::RunTask" && e.tdur);
  const ofTheTest = ({ ts, dur }) => marks.some((mark) => mark.ts >= ts && mark.ts <= ts + dur);
  const loops = tasks.filter(ofTheTest).map(({ tdur }) => tdur / 1000).sort((a, b) => a - b);
  // One of the slower ones, as the longest task is one that met with the worst.
  const slow = Math.max(1, loops[Math.floor(0.9 * loops.length)] / USUAL);
  console.log(`      a loop of ${USUAL} ms takes ${(slow * USUAL).toFixed(1)} ms here`);
  return tasks.filter((task) => !ofTheTest(task)).map(({ tdur }) => tdur / 1000 / slow).sort((a, b) => b - a);
}
