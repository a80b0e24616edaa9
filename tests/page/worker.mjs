// The worker that measures, as the browser lists it.

import { strict as assert } from "node:assert";

/// The page's worker, once the browser lists it: under load, after the page has its answer. An error says the page's notices.
export async function measuringWorker(page) {
  for (let tries = 0; ; tries += 1) {
    const worker = page.workers().find((worker) => worker.url().endsWith("/measuring.js"));
    if (worker) return worker;
    if (tries === 100) assert.fail(`no worker measures; the page says: ${await page.locator("#notices, #device").allInnerTexts()}`);
    await page.waitForTimeout(100);
  }
}
