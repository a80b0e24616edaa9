// Compilation of a group's kernels beside each other, in a browser with processors for it.

import { strict as assert } from "node:assert";
import { measuringWorker } from "./worker.mjs";

/// Runs in the page and in the worker that measures: a machine with eight processors, and the number of pipelines of each kind.
const EIGHT = () => {
  Object.defineProperty(navigator, "hardwareConcurrency", { value: 8 });
  globalThis.made = { beside: 0, alone: 0 };
  const count = (method, kind) => {
    const own = GPUDevice.prototype[method];
    GPUDevice.prototype[method] = function (descriptor) {
      // The device's own short kernels have no name of a case's stage.
      if (/attention|depthwise|hash/.test(descriptor.label)) globalThis.made[kind] += 1;
      return own.call(this, descriptor);
    };
  };
  count("createComputePipelineAsync", "beside");
  count("createComputePipeline", "alone");
};

/// By name, for a caller's means to open the page and to wait for the end of a run.
export const aheadTests = ({ open, query, enabledRun, finished, download }) => ({
  async "compiles the kernels of several cases beside each other"() {
    const page = await open(query, EIGHT);
    await enabledRun(page);
    await page.click("#run");
    await finished(page);
    const made = await (await measuringWorker(page)).evaluate(() => globalThis.made);
    assert.ok(made.beside >= 3, JSON.stringify(made));
    // Each kernel is compiled once more, for the time of a second compilation.
    assert.ok(made.alone <= made.beside, JSON.stringify(made));
    const { data: run } = await download(page, "#download-json");
    assert.deepEqual(run.records.map(({ outcome }) => outcome), ["pass", "pass", "pass"]);
    for (const { case: name, compiled } of run.records) {
      assert.ok(compiled.steps.find((step) => step.name === "pipeline").time > 1e6, `${name}: ${JSON.stringify(compiled)}`);
    }
    assert.deepEqual(page.problems, []);
    await page.context().close();
  },
});
