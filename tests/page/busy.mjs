// How long a page's own thread is busy at a time.
//
// Tasks count by the processor time that they take, not by the clock: where the processors also emulate a GPU, every task waits for
// one, and waiting is not the page's doing. What a slower processor adds is taken off by the time of a fixed loop on it.

import { strict as assert } from "node:assert";

/// Milliseconds of the loop on the machine that bounds were set on.
const USUAL = 3.7;

/// The page's thread while something is done in it: milliseconds of its tasks, the longest first, as of a usual machine.
export async function busiest(browser, page, doing) {
  await browser.startTracing(page, { categories: ["toplevel", "blink.user_timing"] });
  await doing();
  const slow = Math.max(1, (await page.evaluate(loop)) / USUAL);
  const { traceEvents } = JSON.parse(await browser.stopTracing());
  // Of all the browser's threads, the one that ran the loop.
  const here = traceEvents.find(({ name }) => name === "the page's thread");
  assert.ok(here, "the trace lacks the page's mark");
  const mine = traceEvents.filter(({ pid, tid, name }) => pid === here.pid && tid === here.tid && name === "ThreadControllerImpl::RunTask");
  return mine.filter(({ ts }) => ts < here.ts).map(({ tdur }) => (tdur ?? 0) / 1000 / slow).sort((a, b) => b - a);
}

function loop() {
  performance.mark("the page's thread");
  const once = () => {
    const began = performance.now();
    let x = 1;
    for (let i = 0; i < 3e6; i += 1) x = (Math.imul(x, 1664525) + 1013904223) | 0;
    return [performance.now() - began, x];
  };
  // The fastest of many had a processor for itself.
  return Math.min(...Array.from({ length: 20 }, () => once()[0]));
}
