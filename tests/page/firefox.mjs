// The built page in Firefox: without WebGPU, it names the missing part and a next step; with WebGPU, it measures.
//
//   node firefox.mjs DIST_DIR ARTEFACT_DIR
//
// PARALLAX_FIREFOX names the browser; otherwise one is looked for on the PATH. It is driven by its own WebDriver BiDi.

import { strict as assert } from "node:assert";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import WebSocket from "ws";
import { find } from "./browser.mjs";
import { hostile } from "./hostile.mjs";
import { end, runTests } from "./tests.mjs";
import { serve } from "./serve.mjs";

const [dist, artefacts] = process.argv.slice(2).map((path) => resolve(path));
const CASE = "softmax/fwd/r3,c7/f32/host";
/// Cases of the GPU: rows, a GEMM in workgroup memory, a convolution.
const ON_GPU = ["softmax/fwd/r3,c7/f32/row", "matmul/fwd/m65,n67,k33/f32/tiled", "conv2d/fwd/n2,c3,m5,h7,w5,k3,p1,nchw,bias,relu/f32/implicit_gemm"];
const BARE = `${ON_GPU.map((name) => `case=${name}`).join("&")}&ceilings=off`;
const PATIENCE = 60_000;
const KERNEL = `@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) at: vec3<u32>) { y[at.x] = 2.0 * x[at.x]; }
`;
/// Hostile kernels of the test in this browser: its own compiler is that of the lab.
const HOSTILE = ["an endless loop of one thread", "stores out of bounds", "a workgroup of 65536 threads", "many negations"];

/// Firefox on a profile of its own, and one tab of it.
class Firefox {
  static async start(preferences) {
    const self = new Firefox();
    self.profile = await mkdtemp(join(tmpdir(), "parallax-firefox-"));
    const lines = Object.entries(preferences).map(([name, value]) => `user_pref("${name}", ${value});\n`);
    await writeFile(join(self.profile, "user.js"), lines.join(""));
    const args = ["--headless", "--no-remote", "--profile", self.profile, "--remote-debugging-port", "0"];
    self.child = spawn(find(process.env.PARALLAX_FIREFOX, ["firefox-esr", "firefox"]), args, { stdio: ["ignore", "ignore", "pipe"] });
    const address = await self.told(/WebDriver BiDi listening on (ws:\S+)/);
    self.socket = new WebSocket(`${address}/session`);
    self.waiting = new Map();
    self.socket.on("message", (text) => self.hear(JSON.parse(text)));
    await new Promise((open, failed) => self.socket.on("open", open).on("error", failed));
    await self.say("session.new", { capabilities: {} });
    const { contexts } = await self.say("browsingContext.getTree", {});
    self.tab = contexts[0].context;
    return self;
  }

  async told(pattern) {
    for await (const line of createInterface({ input: this.child.stderr })) {
      const found = line.match(pattern);
      if (found) return found[1];
    }
    throw new Error("Firefox ended before it could be driven");
  }

  hear({ id, type, result, error, message }) {
    const answer = this.waiting.get(id);
    this.waiting.delete(id);
    if (type === "success") answer?.resolve(result);
    else if (type === "error") answer?.reject(new Error(`${error}: ${message}`));
  }

  say(method, params) {
    const id = (this.last = (this.last ?? 0) + 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.socket.send(JSON.stringify({ id, method, params }));
    });
  }

  open(url) {
    return this.say("browsingContext.navigate", { context: this.tab, url, wait: "complete" });
  }

  /// Value of an expression in the page, as JSON.
  async evaluate(expression) {
    const whole = `(async () => JSON.stringify(await (${expression})))()`;
    const { result, exceptionDetails } = await this.say("script.evaluate", {
      expression: whole,
      target: { context: this.tab },
      awaitPromise: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.text);
    return result.value === undefined ? undefined : JSON.parse(result.value);
  }

  /// Until an expression is true.
  async until(expression) {
    for (const end = Date.now() + PATIENCE; Date.now() < end; ) {
      if (await this.evaluate(`Boolean(${expression})`)) return;
      await new Promise((later) => setTimeout(later, 100));
    }
    throw new Error(`never true: ${expression}; the page says: ${await this.evaluate("document.body.innerText.slice(0, 600)")}`);
  }

  async picture(name) {
    for (const width of [1280, 360]) {
      await this.say("browsingContext.setViewport", { context: this.tab, viewport: { width, height: 900 } });
      const { data } = await this.say("browsingContext.captureScreenshot", { context: this.tab, origin: "document" });
      await writeFile(join(artefacts, `firefox-${name}-${width}.png`), Buffer.from(data, "base64"));
      const overflow = await this.evaluate("document.documentElement.scrollWidth - innerWidth");
      assert.ok(overflow <= 0, `${name} at ${width} is ${overflow} px too wide`);
    }
  }

  async end() {
    this.socket?.close();
    const ended = new Promise((exit) => this.child.on("exit", exit));
    this.child.kill();
    await ended;
    await rm(this.profile, { recursive: true, force: true });
  }
}

const server = await serve(dist, { below: "/run" });
await mkdir(artefacts, { recursive: true });
// As in a Firefox that has no WebGPU yet, whatever its version.
const firefox = await Firefox.start({ "dom.webgpu.enabled": false });
const WEBGPU = { "dom.webgpu.enabled": true, "dom.webgpu.workers.enabled": true, "gfx.webgpu.ignore-blocklist": true };
const webgpu = await Firefox.start(WEBGPU);
const page = `${server.address}run/`;

/// Opens an address, starts its run, and returns when the run has begun.
async function start(browser, query) {
  await browser.open(`${page}?${query}`);
  await browser.until(`document.querySelector("#run:enabled")`);
  await browser.evaluate(`document.querySelector("#run").click()`);
}

/// Runs an address to its end.
async function run(browser, query) {
  await start(browser, query);
  await browser.until(`!document.querySelector("#share").hidden`);
}

/// Presses the first button whose name begins so.
async function press(browser, name) {
  const button = `[...document.querySelectorAll("button")].find((button) => (button.ariaLabel ?? button.innerText).startsWith("${name}"))`;
  await browser.until(button);
  await browser.evaluate(`${button}.click()`);
}

/// Runs two kernels in the open lab, and returns the words of its result or of its message.
async function compareKernels(b, a = KERNEL) {
  const fields = { "text-a": a, "text-b": b, elements: 4096, budget: 0.3, iterations: 2000 };
  await webgpu.evaluate(`Object.entries(${JSON.stringify(fields)}).forEach(([id, value]) => { document.getElementById(id).value = value; })`);
  await webgpu.evaluate(`document.querySelector("#compare").click()`);
  await webgpu.until(`document.querySelector("#compare:enabled") && document.querySelector("#result:not([hidden]), #failure .notice")`);
  return webgpu.evaluate(`document.querySelector("#result:not([hidden]), #failure .notice").innerText`);
}

const tests = {
  async "names the missing part, and offers the processor and results of others"() {
    await firefox.open(page);
    await firefox.until(`document.querySelector("[data-notice=webgpu] a")`);
    assert.equal(await firefox.evaluate(`"gpu" in navigator`), false);
    const notice = await firefox.evaluate(`document.querySelector("[data-notice=webgpu]").innerText`);
    assert.match(notice, /No WebGPU.*This browser does not offer WebGPU/s);
    const links = await firefox.evaluate(`[...document.querySelectorAll("[data-notice=webgpu] a")].map((a) => [a.innerText, a.href])`);
    assert.deepEqual(links, [
      ["Measure the processor instead, in WebAssembly", `${page}?target=wasm`],
      ["See the times of other devices", server.address],
    ]);
    assert.equal(await firefox.evaluate(`document.querySelector("#run").disabled`), true);
    await firefox.picture("no-webgpu");
  },

  async "measures the processor"() {
    await run(firefox, `target=wasm&case=${CASE}&budget=1&ceilings=off`);
    assert.equal(await firefox.evaluate(`document.querySelector('tr[data-case="${CASE}"] .verdict').innerText`), "pass");
    assert.equal(await firefox.evaluate(`document.querySelectorAll("[data-notice=crash]").length`), 0);
    await firefox.picture("processor");
  },

  async "measures the GPU, and prompts completions"() {
    await run(webgpu, `${BARE}&budget=2`);
    for (const name of ON_GPU) {
      assert.equal(await webgpu.evaluate(`document.querySelector('tr[data-case="${name}"] .verdict').innerText`), "pass", name);
    }
    assert.equal(await webgpu.evaluate(`document.querySelectorAll("[data-notice=crash]").length`), 0);
    // Firefox looks for completed work every 100 ms; waits that prompt it end sooner.
    const text = await webgpu.evaluate(`document.body.textContent`);
    const readback = text.match(/reading a few bytes back takes ([\d.]+) (ms|µs)/);
    assert.ok(readback, text);
    assert.ok(readback[2] === "µs" || Number(readback[1]) < 50, readback[0]);
    await webgpu.picture("webgpu");
  },

  async "measures in the page where there are no workers"() {
    const { script } = await webgpu.say("script.addPreloadScript", { functionDeclaration: "() => { delete globalThis.Worker; }" });
    await run(webgpu, `${BARE}&budget=2`);
    for (const name of ON_GPU) {
      assert.equal(await webgpu.evaluate(`document.querySelector('tr[data-case="${name}"] .verdict').innerText`), "pass", name);
    }
    // The file that the page hands out, as text.
    await webgpu.evaluate(`void (URL.createObjectURL = new Proxy(URL.createObjectURL, {
      apply: (make, self, [blob]) => ((globalThis.handedOut = blob.text()), Reflect.apply(make, self, [blob])),
    }))`);
    await webgpu.evaluate(`document.querySelector("#download-json").click()`);
    await webgpu.until("globalThis.handedOut");
    const { environment } = JSON.parse(await webgpu.evaluate("globalThis.handedOut"));
    assert.equal(environment.measured_in, "page");
    assert.match(environment.user_agent, /Firefox/);
    await webgpu.say("script.removePreloadScript", { script });
  },

  async "keeps a run that a reload interrupts, and earlier runs"() {
    await start(webgpu, "mode=verify&preset=awkward&filter=attention/fwd&dtype=f32");
    await webgpu.until(`document.querySelector("tr[data-case]")`);
    await webgpu.open(page);
    await press(webgpu, "Keep the run");
    await webgpu.until(`/It ended early: the page was left/.test(document.querySelector("#summary").innerText)`);
    await run(webgpu, `${BARE}&budget=1`);
    // The runs of both tests before, the interrupted one, and this one.
    await webgpu.until(`document.querySelectorAll("#history li").length === 4`);
    await webgpu.picture("history");
  },

  async "compares two kept runs"() {
    await webgpu.open(`${page}?view=compare`);
    await webgpu.until(`document.querySelector("#compare-kept-card summary")`);
    await webgpu.evaluate(`document.querySelector("#compare-kept-card summary").click()`);
    // The oldest and the newest: one between was interrupted.
    for (const [added, place] of [0, -1].entries()) {
      const buttons = `[...document.querySelectorAll("#compare-kept-card button")].filter((button) => button.ariaLabel?.startsWith("Add the run"))`;
      await webgpu.until(`${buttons}.length >= 2`);
      await webgpu.evaluate(`${buttons}.at(${place}).click()`);
      await webgpu.until(`document.querySelectorAll("#compare-chips li").length === ${added + 1}`);
    }
    await webgpu.until(`document.querySelector("#compare-result tbody tr")`);
    const rows = await webgpu.evaluate(`[...document.querySelectorAll("#compare-result .wide tbody tr")].map((row) => row.innerText)`);
    for (const name of ON_GPU) assert.ok(rows.some((row) => row.includes(name)), `${name}: ${rows.join("\n")}`);
    await webgpu.picture("compared");
  },

  async "compares two kernels in the lab, and ends hostile ones with a message"() {
    await webgpu.open(`${page}lab/`);
    const said = await compareKernels(KERNEL.replace("2.0 * x[at.x]", "x[at.x] + x[at.x]"));
    assert.match(said, /The outputs agree\./);
    assert.match(said, /B over A: [\d.]+×/);
    await webgpu.picture("lab");
    for (const { text, ends, says } of HOSTILE.map((name) => hostile.find((one) => one.name === name))) {
      const said = await compareKernels(text);
      if (ends === "compared") assert.match(said, /outputs differ/);
      else assert.ok(said.startsWith("B") && said.includes(says), `${said} lacks ${says}`);
    }
    assert.match(await compareKernels(KERNEL), /The outputs agree\./);
  },
};

await runTests(tests);
await end(firefox.end(), webgpu.end(), server.close());
