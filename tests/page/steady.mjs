// Movements of the page while it starts.

import { strict as assert } from "node:assert";

/// Largest allowed layout shift: half of a good score.
const MOST = 0.05;
const WINDOWS = [360, 1280];

/// By name, for a caller's means to open the page in a context.
export const steadyTests = ({ openOn, server, enabledRun }) => ({
  async "pushes nothing down while it starts"() {
    for (const width of WINDOWS) {
      const page = await openOn("about:blank", undefined, { serviceWorkers: "block", viewport: { width, height: 800 } });
      await page.addInitScript(() => {
        window.moved = [];
        const note = ({ value, sources, hadRecentInput }) =>
          hadRecentInput || window.moved.push([value, ...sources.map(({ node }) => node?.id || node?.nodeName)]);
        new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ type: "layout-shift", buffered: true });
      });
      await page.goto(server.address);
      await enabledRun(page);
      await page.waitForTimeout(500);
      const moved = await page.evaluate(() => window.moved);
      const sum = moved.reduce((sum, [value]) => sum + value, 0);
      assert.ok(sum < MOST, `${sum} at ${width} px: ${JSON.stringify(moved)}`);
      await page.context().close();
    }
  },
});
