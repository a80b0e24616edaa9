// The built page in a real browser, on the browser's software adapter.
//
//   node run.mjs DIST_DIR ARTEFACT_DIR [PART OF THE NAMES OF TESTS]
//
// PARALLAX_TESTS=all adds tests of the released page: sizes, times, the program for threads, CubeCL's compilers.
// PARALLAX_BROWSER names the browser; otherwise one is looked for on the PATH. Nothing is downloaded.

import { strict as assert } from "node:assert";
import { mkdir, readFile, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress } from "node:zlib";
import { aheadTests } from "./ahead.mjs";
import { accessible } from "./accessible.mjs";
import { launch } from "./browser.mjs";
import { busiest } from "./busy.mjs";
import { modelTests } from "./model.mjs";
import { offlineTests } from "./offline.mjs";
import { around, outsideTests } from "./outside.mjs";
import { steadyTests } from "./steady.mjs";
import { end, runTests } from "./tests.mjs";
import { serve } from "./serve.mjs";
import { measuringWorker } from "./worker.mjs";

const [dist = "dist", artefacts = "tests/page/artefacts"] = process.argv.slice(2).map((p) => resolve(p));

const CASES = [
  "attention/fwd/b1,h1,s17,d8/f32/flash",
  "depthwise_conv2d/fwd/n1,c3,h9,k3,p1,nchw/f32/tiled",
  "hash_embedding/fwd/r100,g7,d16,sorted/f32/owner",
];
const TINY = `?${CASES.map((c) => `case=${c}`).join("&")}&budget=2`;
/// The same where a test is about something else than how high a device reaches, which takes ten seconds to find out.
const BARE = `${TINY}&ceilings=off`;
const RUN_TIMEOUT = 180_000;
// Largest compressed sizes. The folder of a clone changes a program by up to a thousand bytes, and has half a per cent of room.

/// The files that a measurement fetches.
const BUDGET = 425_000;
/// The same of the program for reports, fetched at the first report or comparison.
const REPORTS = 968_500;
/// The same of one program that measures: the host code in it is built for speed, because it is measured.
const MEASURING = 1_077_000;
/// The same of CubeCL's compilers, fetched for its kernels only.
const COMPILERS = 850_000;

/// The page and the program of the lab.
const LAB = 1_040_500;
/// The page and the program of models, which has all host code and all kernels.
const MODELS = 910_500;

/// Milliseconds until the page can be used, on its own thread four times as slow; emulating a GPU beside it takes the processor, too.
const SOON = 2000;

/// Run files of a GPU, as they are kept in the repository.
const RECORDED = fileURLToPath(new URL("../../docs/results/2026-11-22-h200/", import.meta.url));

const server = await serve(dist, { runs: RECORDED });
const browser = await launch();
const released = process.env.PARALLAX_TESTS === "all";
await mkdir(artefacts, { recursive: true });

/// A fresh page at a query, after an optional script that runs before the page's own, there and in the worker beside it. Collects its
/// errors.
let opened;
async function open(query, before) {
  return openOn(server.address + query, before, { serviceWorkers: "block" });
}

/// The same at an address, with further settings of the browser, and in another one.
async function openOn(address, before, told = {}, by = browser) {
  const context = await by.newContext({ viewport: { width: 1280, height: 900 }, acceptDownloads: true, ...told });
  const page = await context.newPage();
  opened = page;
  page.setDefaultTimeout(90_000);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  if (before) {
    await page.addInitScript(before);
    await page.route("**/measuring.js", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: `(${before})();\n${await response.text()}` });
    });
  }
  await page.goto(address);
  return page;
}

/// Until the device is open and the plan is shown. Run can be pressed before.
const enabledRun = (page) => page.locator("#run:enabled:not([data-early])").waitFor();
const finished = (page) => page.locator("#share").waitFor({ timeout: RUN_TIMEOUT });

/// Opens the menu of downloads for a button in it.
const open_menu = (page) => page.locator("#downloads").evaluateAll((menus) => menus.forEach((menu) => (menu.open = true)));

async function save(page, button) {
  await open_menu(page);
  const [file] = await Promise.all([page.waitForEvent("download"), page.click(button)]);
  return { name: file.suggestedFilename(), text: await readFile(await file.path(), "utf8") };
}

async function download(page, button) {
  const { name, text } = await save(page, button);
  return { name, data: JSON.parse(text) };
}

/// A picture as SVG that draws itself in an empty page, with nothing from elsewhere, and its PNG.
async function standsAlone(page, svg, png, name) {
  const picture = await save(page, svg);
  assert.match(picture.name, new RegExp(`${name.source}.*\\.svg$`));
  const alone = await page.context().newPage();
  const asked = [];
  alone.on("request", (request) => request.url().startsWith("http") && asked.push(request.url()));
  await alone.goto(`data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture.text)}`);
  assert.equal(await alone.evaluate(() => document.documentElement.tagName), "svg", "it is XML");
  assert.ok((await alone.locator(".point").count()) > 0);
  assert.deepEqual(asked, []);
  await photograph(alone, picture.name.replace(/.*?-(?=roofline|browser)/, ""));
  await alone.close();
  const { wide, bytes } = await pixels(page, png);
  assert.ok(wide > 600 && bytes > 10_000, `${wide} px, ${bytes} bytes`);
}

/// The size of a PNG that a button saves.
async function pixels(page, button, name) {
  await open_menu(page);
  const [file] = await Promise.all([page.waitForEvent("download"), page.click(button)]);
  const bytes = await readFile(await file.path());
  assert.equal(bytes.subarray(1, 4).toString(), "PNG");
  if (name) await file.saveAs(join(artefacts, name));
  return { wide: bytes.readUInt32BE(16), high: bytes.readUInt32BE(20), bytes: bytes.length };
}

/// Every letter of the plots in sight is large enough to read.
async function readable(page) {
  const small = await page.evaluate(() =>
    [...document.querySelectorAll("svg.plot text")].flatMap((text) => {
      const box = text.ownerSVGElement.getBoundingClientRect();
      const size = (parseFloat(getComputedStyle(text).fontSize) * box.width) / text.ownerSVGElement.viewBox.baseVal.width;
      return box.width > 0 && size < 11 ? [`${size.toFixed(1)} px: ${text.textContent}`] : [];
    }),
  );
  assert.deepEqual(small.slice(0, 5), []);
}

/// Texts of the progress line, each once, from now on.
function hearProgress(page) {
  return page.evaluate(() => {
    window.heard = [];
    const line = document.getElementById("progress-doing");
    new MutationObserver(() => {
      if (line.textContent && window.heard.at(-1) !== line.textContent) window.heard.push(line.textContent);
    }).observe(line, { childList: true, characterData: true, subtree: true });
  });
}

/// A picture as a file. A browser whose processors are all busy measuring, as they are here, now and then never finishes one, and takes
/// the next in a second.
async function photograph(page, name, told = {}) {
  const path = join(artefacts, `${name}.png`);
  await page.screenshot({ path, ...told, timeout: 30_000 }).catch((error) => {
    console.log(`      a second try at ${name}.png: ${String(error).split("\n")[0]}`);
    return page.screenshot({ path, ...told });
  });
}

async function pictures(page, name) {
  for (const [size, width, height] of [["desktop", 1280, 900], ["phone", 390, 844]]) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${name} on a ${size} is ${overflow} px too wide`);
      await photograph(page, `${name}-${size}-${colorScheme}`, { fullPage: true });
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
}

/// A picture of the whole page, wide and narrow, with nothing beyond its edge.
async function narrowAndWide(page, name) {
  for (const [width, height] of [[360, 800], [1280, 900]]) {
    await page.setViewportSize({ width, height });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${name} at ${width} is ${overflow} px too wide`);
    await readable(page);
    await photograph(page, `${name}-${width}`, { fullPage: true });
  }
}

const tests = {
  async "measures a tiny plan, stays responsive, and hands out its files"() {
    const page = await open(TINY);
    const makers = [];
    page.context().on("request", (request) => request.url().includes("/reports/") && makers.push(request.url()));
    await enabledRun(page);
    assert.equal(await page.title(), "Parallax");
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
    assert.match(await page.innerText("#device"), /software adapter/);
    assert.match(await page.innerText("#device-notices"), /software adapter, not a GPU/);
    assert.match(await page.innerText("#plan-line"), /3 cases/);
    await pictures(page, "before");
    for (const [width, height] of [[1280, 900], [360, 740]]) {
      await page.setViewportSize({ width, height });
      const box = await page.locator("#run").boundingBox();
      assert.ok(box.y + box.height < height, `at ${width} one scrolls to Run, which ends at ${box.y + box.height}`);
    }
    await page.setViewportSize({ width: 1280, height: 900 });

    await page.evaluate(() => {
      window.largestGap = 0;
      let last = performance.now();
      window.ticker = setInterval(() => {
        const now = performance.now();
        window.largestGap = Math.max(window.largestGap, now - last);
        last = now;
      }, 50);
    });
    await hearProgress(page);
    await page.click("#run");
    await page.locator("#stop:visible").waitFor();
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    const stop = await page.locator("#stop").boundingBox();
    assert.ok(stop.y >= 0 && stop.y < 200, `Stop stays in sight: at ${stop.y}`);
    await page.locator("#baseline").waitFor({ timeout: RUN_TIMEOUT });
    await finished(page);
    const heard = await page.evaluate(() => window.heard);
    assert.equal(heard[0], "Testing clocks");
    for (const name of CASES) {
      for (const doing of ["Preparing", "Checking"]) assert.ok(heard.includes(`${doing} ${name}`), `${doing} ${name}`);
    }
    assert.ok(heard.some((h) => /^Measuring 3 cases in rounds: /.test(h)), heard.join("\n"));

    const baseline = await page.innerText("#baseline");
    assert.match(baseline, /Waiting for an empty submission takes [\d.]+ [nµm]?s/);
    assert.match(baseline, /^memory\s+[\d.]+ [kMGT]?B\/s\s+at [\d.]+ [kMGT]?B/m);
    assert.match(baseline, /^f32\s+[\d.]+ [kMGT]?FLOP\/s/m);
    assert.match(baseline, /^upload\s+[\d.]+ [kMGT]?B\/s/m);
    const gap = await page.evaluate(() => (clearInterval(window.ticker), window.largestGap));
    console.log(`      largest gap of a 50 ms timer: ${gap.toFixed(0)} ms`);
    // On a machine whose processors are busy emulating the GPU; the long tasks of a run on the page's thread were ten times that.
    assert.ok(gap < 300, `the page did not answer for ${gap} ms`);

    for (const name of CASES) {
      const verdict = page.locator(`tr[data-case="${name}"] .verdict`);
      assert.equal(await verdict.innerText(), "pass", name);
      assert.match(await page.locator(`tr[data-case="${name}"] .median`).innerText(), /\d.* [nµm]?s/);
      const ceiling = await page.locator(`tr[data-case="${name}"] .ceiling`).innerText();
      assert.match(ceiling, /^[\d.]+ % (memory|compute|launch|latency)/, name);
      // The case's remarks are in the next row.
      const advice = page.locator(`tr[data-case="${name}"] + tr.note .advice`);
      assert.match(await advice.innerText(), /^\S.{20,}\.$/s, name);
    }
    assert.match(await page.innerText("#summary"), /3 pass/);
    assert.match(await page.innerText("#answer"), /^\S.*: .* memory, .* in f32, one call .*s\.$/);
    assert.equal(await page.locator("tr.busy").count(), 0);
    assert.equal(await page.locator("#roofline svg .point").count(), 3);
    assert.match(await page.locator("#drift svg path.dots").getAttribute("d"), /^M/);
    await narrowAndWide(page, "done");
    // The keyboard shows the same label of a case as the pointer; and a table has all of it.
    const spot = page.locator("#roofline .spot").first();
    assert.equal(await spot.locator(".said:visible").count(), 0);
    await spot.focus();
    const said = (await spot.locator(".said tspan").allTextContents()).join("");
    assert.ok(CASES.some((name) => said.startsWith(name)) && /FLOP\/s, .* FLOP\/B/.test(said), said);
    assert.equal(await spot.locator(".said:visible").count(), 1);
    await photograph(page, "spot");
    await page.click("#roofline .twin summary");
    assert.equal(await page.locator("#roofline .twin tbody tr").count(), 3);
    await page.locator("#roofline .past").focus();
    await page.keyboard.press("Enter");
    assert.ok(await page.evaluate(() => document.activeElement.matches("#roofline .legend")), "the points can be skipped");
    await pictures(page, "after");

    const run = await download(page, "#download-json");
    assert.match(run.name, /^parallax-browser-.*\.json$/);
    assert.equal(run.data.schema, "parallax.run");
    assert.equal(run.data.target, "browser");
    assert.equal(run.data.interrupted, null);
    assert.equal(run.data.environment.measured_in, "worker");
    // As fine as in an isolated page: 5 µs.
    assert.ok(run.data.clock.host_step <= 5100, `steps of ${run.data.clock.host_step} ns`);
    assert.deepEqual(run.data.planned, CASES);
    // Problems are measured in a random order.
    assert.deepEqual(run.data.records.map((r) => [r.case, r.outcome]).sort(), CASES.map((c) => [c, "pass"]));
    assert.ok(run.data.records.every((r) => r.timing.samples.length > 0));

    assert.ok(run.data.records.every((r) => r.timing.cache === "hot" && r.analysis.utilisation > 0));
    assert.equal(run.data.spec.precision, 0.02);
    assert.ok(run.data.drift.rows > 0);
    const { timer, ceilings } = run.data.baseline;
    assert.ok(timer.completion.median > 0 && timer.readback.median > 0);
    assert.ok(ceilings.bandwidth.length > 0 && ceilings.bandwidth.every((b) => b.rate > 0));
    assert.ok(ceilings.arithmetic.some((a) => a.dtype === "f32" && a.rate > 0));

    // The program for reports is fetched at the first report, and not before.
    assert.deepEqual(makers, []);
    const report = await save(page, "#download-report");
    assert.ok(makers.length >= 2, makers.join());
    assert.match(report.name, /^parallax-browser-.*\.html$/);
    assert.match(report.text, /^<!DOCTYPE html>/);
    assert.ok(report.text.includes("<svg") && CASES.every((c) => report.text.includes(c)));
    assert.ok(!report.text.includes("<script"));

    await standsAlone(page, "#download-svg", "#download-png", /-roofline/);
    const card = await pixels(page, "#download-card", "card.png");
    assert.deepEqual([card.wide, card.high], [1200, 630]);
    assert.ok(!(await page.locator("#downloads").evaluate((menu) => menu.open)), "the menu closes once one was chosen");

    const trace = await download(page, "#download-trace");
    assert.match(trace.name, /\.trace\.json$/);
    assert.ok(trace.data.traceEvents.length > 0);
    for (const name of CASES) assert.ok(JSON.stringify(trace.data).includes(name), `${name} is not in the trace`);
    assert.deepEqual(page.problems, []);
    return page;
  },

  async "hands the trace to the Perfetto UI through the page that is not isolated"(page) {
    assert.ok(page, "there is no trace: the test before this one did not get to its end");
    // A stand-in that answers as the Perfetto UI does: PING with PONG, and keeps the trace.
    await page.context().route("https://ui.perfetto.dev/**", (route) =>
      route.fulfill({
        contentType: "text/html",
        body: `<script>addEventListener("message", (e) => {
          if (e.data === "PING") e.source.postMessage("PONG", e.origin);
          else { window.title2 = e.data.perfetto.title; window.text = new TextDecoder().decode(e.data.perfetto.buffer); }
        })</script>`,
      }),
    );
    const [second] = await Promise.all([page.context().waitForEvent("page"), page.click("#open-trace")]);
    await second.locator("#open:enabled").waitFor();
    assert.equal(await second.evaluate(() => crossOriginIsolated), false);
    const [ui] = await Promise.all([page.context().waitForEvent("page"), second.click("#open")]);
    await ui.waitForFunction(() => window.text);
    assert.match(await ui.evaluate(() => window.title2), /^Parallax/);
    assert.ok(JSON.parse(await ui.evaluate(() => window.text)).traceEvents.length > 0);
    await second.getByText("Perfetto has the trace").waitFor();
    assert.match(await page.innerText("#share-line"), /second page/);
  },

  async "mirrors the controls in the address, and says when nothing matches"() {
    const page = await open("?budget=7");
    await enabledRun(page);
    await pictures(page, "plan");
    assert.equal(await page.inputValue("#budget"), "7");
    await page.locator("input[value=standard]").check({ force: true });
    await page.locator("input[value=f32]").check({ force: true });
    await page.fill("#filter", "attention*flash");
    assert.equal(await page.evaluate(() => location.search), "?preset=standard&filter=attention*flash&dtype=f32&budget=7");
    await page.locator("input[value=cold]").check({ force: true });
    assert.match(await page.evaluate(() => location.search), /&cache=cold$/);
    await page.locator("input[value=hot]").check({ force: true });
    assert.doesNotMatch(await page.evaluate(() => location.search), /cache/);
    await page.locator("#plan details").first().locator("summary b").getByText("attention", { exact: true }).waitFor();
    // Words of a filter are whole segments.
    for (const words of ["nothing-like-this", "hash"]) {
      await page.fill("#filter", words);
      await page.getByText("No case matches these settings").waitFor();
      assert.ok(await page.locator("#run").isDisabled());
      await page.fill("#filter", "");
      await enabledRun(page);
    }
    await page.fill("#filter", "hash*");
    await enabledRun(page);
    assert.equal(await page.getByText("No case matches").count(), 0);
    await page.fill("#budget", "0");
    await page.getByText("budget: `0` is not a number of seconds above 0").waitFor();
    await page.reload();
    await enabledRun(page);
    assert.equal(await page.inputValue("#filter"), "hash*");
    assert.deepEqual(page.problems, []);
  },

  async "compares the variants of a problem while it runs"() {
    const page = await open("?filter=hash_embedding&shape=r10000xg833&dtype=f32&budget=4&precision=0.000001");
    await enabledRun(page);
    await page.click("#run");
    await page.getByText("Testing clocks").waitFor();
    await pictures(page, "testing");
    await page.getByText(/in rounds: [1-9]/).waitFor({ timeout: RUN_TIMEOUT });
    assert.ok((await page.locator("tr.busy .state").allInnerTexts()).every((words) => words.startsWith("measuring")));
    await pictures(page, "during");
    await page.locator("tr[data-case]").nth(1).waitFor({ timeout: RUN_TIMEOUT });
    await finished(page);
    assert.ok((await page.locator(".meter.best").count()) > 0);
    // A shape in its five variants, of each of which one thing at most is to be said.
    assert.equal(await page.locator("tr[data-case]").count(), 5);
    const notes = await page.locator("tr.note").allInnerTexts();
    assert.ok(notes.length <= 5, notes.join("\n"));
    assert.equal(await page.locator(".verdict:not(.pass)").count(), 0);
    await pictures(page, "compared");
    assert.deepEqual(page.problems, []);
  },

  async "stops on request and keeps its results"() {
    const page = await open(`${TINY}0`);
    await enabledRun(page);
    // By the keyboard alone: the focused element is never removed.
    const focused = () => page.evaluate(() => document.activeElement.id);
    await page.focus("#run");
    await page.keyboard.press("Enter");
    await page.locator("#stop:visible").waitFor();
    assert.equal(await focused(), "stop");
    await page.keyboard.press("Enter");
    await finished(page);
    assert.equal(await focused(), "results-title", "the results come next");
    assert.match(await page.innerText("#summary"), /ended early.*stopped by the user/);
    const { data } = await download(page, "#download-json");
    assert.equal(data.interrupted, "stopped by the user");
    assert.ok(data.records.length < 3, `${data.records.length} records`);
    assert.deepEqual(page.problems, []);
  },

  async "keeps a run that a reload interrupts, and earlier runs"() {
    // Cases that are timed end in groups; those that are only verified end one by one, and these are too many to be done.
    const page = await open("?mode=verify&preset=awkward&filter=attention/fwd&dtype=f32");
    await enabledRun(page);
    await page.click("#run");
    await page.locator("tr[data-case]").first().waitFor({ timeout: RUN_TIMEOUT });
    await page.reload();
    await page.getByText("A run was not finished.").waitFor({ timeout: RUN_TIMEOUT });
    await pictures(page, "left");
    await page.getByRole("button", { name: "Keep the run" }).click();
    await page.locator("tr[data-case]").first().waitFor();
    assert.match(await page.innerText("#summary"), /It ended early: the page was left/);
    const { data } = await download(page, "#download-json");
    assert.ok(data.records.length >= 1 && data.interrupted);
    await page.goto(`${server.address}?case=${CASES[0]}&budget=1`);
    await enabledRun(page);
    assert.equal(await page.getByText("A run was not finished.").count(), 0);
    await page.click("#run");
    await finished(page);
    await page.locator("#history li").nth(1).waitFor();
    await page.getByRole("button", { name: "Show the run" }).last().click();
    await page.getByText("The run of").waitFor();
    await pictures(page, "recalled");
    for (const left of [1, 0]) {
      await page.getByRole("button", { name: "Delete the run" }).first().click();
      await page.waitForFunction((n) => document.querySelectorAll("#history li").length === n, left);
    }
    await page.reload();
    await enabledRun(page);
    assert.equal(await page.locator("#history-section:visible").count(), 0);
    assert.deepEqual(page.problems, []);
  },

  async "goes on after a lost device"() {
    const page = await open(`${BARE}&budget=8&precision=0.000001`, () => {
      // A device destroyed by script counts as given up, not as lost: report another reason, as a driver reset would.
      const request = GPUAdapter.prototype.requestDevice;
      GPUAdapter.prototype.requestDevice = async function (...args) {
        const device = await request.apply(this, args);
        const lost = new Promise((resolve) => {
          globalThis.lose = () => {
            resolve({ reason: "unknown", message: "lost by the test" });
            setTimeout(() => device.destroy());
          };
        });
        Object.defineProperty(device, "lost", { value: lost });
        return device;
      };
    });
    await enabledRun(page);
    await page.click("#run");
    await page.locator("tr.busy").first().waitFor({ timeout: RUN_TIMEOUT });
    await page.waitForTimeout(1500);
    await (await measuringWorker(page)).evaluate(() => globalThis.lose());
    await page.getByText("The browser took the device away").waitFor();
    await finished(page);
    const { data } = await download(page, "#download-json");
    assert.equal(data.interrupted, null);
    assert.deepEqual(data.records.map((r) => r.outcome).sort(), ["error", "pass", "pass"]);
  },

  async "goes on after the browser's GPU process crashed"() {
    // A browser of its own: it restarts a GPU process so often, and then no more.
    const alone = await launch();
    const page = await openOn(`${server.address}${BARE}&budget=8&precision=0.000001`, undefined, { serviceWorkers: "block" }, alone);
    await enabledRun(page);
    await page.click("#run");
    await page.locator("tr.busy").first().waitFor({ timeout: RUN_TIMEOUT });
    await page.waitForTimeout(1500);
    const session = await alone.newBrowserCDPSession();
    await session.send("Browser.crashGpuProcess");
    await page.getByText("The browser took the device away").waitFor();
    await finished(page);
    const { data } = await download(page, "#download-json");
    assert.equal(data.interrupted, null);
    assert.deepEqual(data.records.map((r) => r.outcome).sort(), ["error", "pass", "pass"]);
    await alone.close();
  },

  async "keeps within the memory that a browser offers"() {
    const small = "copy/fwd/n1000/f32/vec4";
    const large = "copy/fwd/n67108864/f32/vec4";
    const page = await open(`?case=${small}&case=${large}&budget=1&ceilings=off`, () => {
      const limits = Object.getOwnPropertyDescriptor(GPUAdapter.prototype, "limits").get;
      Object.defineProperty(GPUAdapter.prototype, "limits", {
        get() {
          const own = limits.call(this);
          // Limits of every device; smaller ones cannot be requested.
          const offered = { maxBufferSize: 1 << 28, maxStorageBufferBindingSize: 1 << 27 };
          return new Proxy(own, { get: (_, name) => offered[name] ?? own[name] });
        },
      });
    });
    await enabledRun(page);
    await page.click("#run");
    await finished(page);
    const { data } = await download(page, "#download-json");
    assert.equal(data.devices[0].caps.max_binding, 1 << 27);
    const outcome = (name) => data.records.find((r) => r.case === name);
    assert.equal(outcome(small).outcome, "pass");
    assert.equal(outcome(large).outcome, "skipped");
    assert.match(outcome(large).reason, /268 MB[^]*134 MB/);
  },

  async "measures in the page where the browser has no WebGPU in workers"() {
    for (const before of [
      () => "WorkerNavigator" in globalThis && Object.defineProperty(WorkerNavigator.prototype, "gpu", { get: () => undefined }),
      () => delete globalThis.Worker,
    ]) {
      const page = await open(BARE, before);
      await enabledRun(page);
      assert.equal(page.workers().length, 0);
      await page.click("#run");
      await finished(page);
      const { data } = await download(page, "#download-json");
      assert.equal(data.environment.measured_in, "page");
      assert.deepEqual(data.records.map((r) => r.outcome), ["pass", "pass", "pass"]);
      assert.deepEqual(page.problems, []);
    }
  },

  async "keeps finished cases when the worker fails"() {
    const page = await open("?mode=verify&preset=awkward&filter=attention/fwd&dtype=f32");
    await enabledRun(page);
    await page.click("#run");
    await page.locator("tr[data-case] .verdict").first().waitFor({ timeout: RUN_TIMEOUT });
    // An unknown request is a bug of the program.
    await (await measuringWorker(page)).evaluate(() => dispatchEvent(new MessageEvent("message", { data: "nonsense" }))).catch(() => {});
    await finished(page);
    await page.getByText("Measuring stopped working.").waitFor();
    assert.match(await page.innerText("#notices"), /the page posts orders/);
    assert.match(await page.innerText("#summary"), /ended early.*internal error while measuring/);
    assert.ok(await page.locator("#run").isDisabled());
    const { data } = await download(page, "#download-json");
    const outcomes = new Set(data.records.map((r) => r.outcome));
    assert.ok(outcomes.has("pass") && !outcomes.has("error"), [...outcomes].join());
    assert.match(data.interrupted, /the page posts orders/);
  },

  async "measures the processor by code compiled into the page"() {
    const cases = CASES.map((name) => name.replace(/[^/]+$/, "host"));
    const page = await open(`?target=wasm&threads=1&${cases.map((name) => `case=${name}`).join("&")}&budget=2`);
    await enabledRun(page);
    assert.match(await page.textContent("#device"), /processor[^]*1 thread, simd128/);
    assert.doesNotMatch(await page.innerText("#device-notices"), /software adapter/);
    await page.evaluate(() => {
      window.largestGap = 0;
      let last = performance.now();
      setInterval(() => {
        window.largestGap = Math.max(window.largestGap, performance.now() - last);
        last = performance.now();
      }, 50);
    });
    await page.click("#run");
    await finished(page);
    const gap = await page.evaluate(() => window.largestGap);
    console.log(`      largest gap of a 50 ms timer: ${gap.toFixed(0)} ms`);
    assert.ok(gap < 300, `the page did not answer for ${gap} ms`);
    const { name, data } = await download(page, "#download-json");
    assert.match(name, /^parallax-wasm-host-processor-/);
    assert.deepEqual([data.target, data.environment.measured_in, data.interrupted], ["wasm", "worker", null]);
    assert.deepEqual(data.devices[0].features, ["1 thread", "simd128"]);
    assert.deepEqual(data.records.map((r) => [r.case, r.outcome]).sort(), cases.map((c) => [c, "pass"]));
    assert.ok(data.records.every((r) => r.timing.samples.length > 0 && r.analysis.utilisation > 0));
    assert.ok(data.clock.host_step <= 5100 && data.baseline.ceilings.bandwidth.length > 0);
    await narrowAndWide(page, "processor");
    // And back, with the settings as they are.
    await page.fill("#budget", "3");
    await page.click("#other-target");
    await page.getByText("This is a software adapter, not a GPU.").waitFor();
    assert.match(page.url(), /budget=3/);
    assert.doesNotMatch(page.url(), /target/);
    assert.deepEqual(page.problems, []);
  },

  async "computes on one thread where there are no more, and says why"() {
    const wasm = `?target=wasm&case=${CASES[0].replace("flash", "host")}&budget=2&ceilings=off`;
    const plain = await serve(dist, { isolated: false });
    const missing = async (context) => context.route("**/threads/*", (route) => route.fulfill({ status: 404 }));
    for (const [address, spoil, why] of [
      [plain.address, async () => {}, /not isolated/],
      [server.address, missing, /did not start/],
    ]) {
      const page = await openOn("about:blank", undefined, { serviceWorkers: "block" });
      await spoil(page.context());
      await page.goto(address + wasm);
      await enabledRun(page);
      await page.click("#run");
      await finished(page);
      const { data } = await download(page, "#download-json");
      const [count, vectors, remark] = data.devices[0].features;
      assert.deepEqual([count, vectors], ["1 thread", "simd128"]);
      assert.match(remark, why);
      assert.deepEqual(data.records.map((r) => r.outcome), ["pass"]);
      await page.context().close();
    }
    plain.close();
  },

  async "notes a hidden tab while the processor is measured"() {
    const page = await open(`?target=wasm&threads=1&case=${CASES[0].replace("flash", "host")}&budget=20&precision=0.000001`);
    await enabledRun(page);
    await page.click("#run");
    await page.getByText(/in rounds: [1-9]/).waitFor({ timeout: RUN_TIMEOUT });
    const show = (visible) =>
      page.evaluate((visible) => {
        Object.defineProperty(document, "visibilityState", { value: visible ? "visible" : "hidden", configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, visible);
    await show(false);
    await page.waitForTimeout(300);
    await show(true);
    await page.waitForTimeout(500);
    await page.click("#stop");
    await finished(page);
    const { data } = await download(page, "#download-json");
    assert.equal(data.interrupted, "stopped by the user");
    const discarded = JSON.stringify(data.records.map((r) => r.timing?.discarded?.columns.reason));
    assert.ok(discarded.includes("the page was out of sight"), discarded);
  },

  async "notes a hidden tab in the page and in the file"() {
    // A precision that is never reached, so that sampling lasts.
    const page = await open(`${BARE}&budget=8&precision=0.000001`);
    await enabledRun(page);
    await page.click("#run");
    await page.locator("tr.busy").first().waitFor({ timeout: RUN_TIMEOUT });
    await page.getByText(/in rounds: [1-9]/).waitFor();
    const show = (visible) =>
      page.evaluate((visible) => {
        Object.defineProperty(document, "visibilityState", { value: visible ? "visible" : "hidden", configurable: true });
        Object.defineProperty(document, "hidden", { value: !visible, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, visible);
    await show(false);
    await page.getByText("This tab was hidden during the run").waitFor();
    await page.waitForTimeout(300);
    await show(true);
    await finished(page);
    const { data } = await download(page, "#download-json");
    assert.equal(data.environment.hidden_during_run, "true");
    const discarded = JSON.stringify(data.records.map((r) => r.timing?.discarded?.columns.reason));
    assert.ok(discarded.includes("the page was out of sight"), discarded);
    assert.match(await page.innerText("#results"), /samples discarded: .*the page was out of sight/);
  },

  async "reports every event in remote mode"() {
    server.events.length = 0;
    const page = await open(`${TINY}&report=/api/events&mode=verify`);
    await finished(page);
    await page.waitForTimeout(300);
    const [begin, ...rest] = server.events;
    assert.equal(begin.event, "begin");
    assert.deepEqual(begin.run.planned, CASES);
    assert.deepEqual(begin.run.records, []);
    const end = rest.pop();
    assert.equal(end.event, "end");
    assert.equal(end.interrupted, null);
    // Progress events come as time goes by; events of cases come in order.
    const told = rest.filter((e) => e.case ?? e.record);
    assert.deepEqual(
      told.map((e) => e.case ?? e.record.case),
      CASES.flatMap((c) => [c, c]),
    );
    assert.ok(told.filter((e) => e.record).every((e) => e.record.outcome === "pass" && e.record.timing === null));
    assert.deepEqual(page.problems, []);
  },

  async "shows partial results from the first round on, and nothing moves"() {
    const page = await open(`${BARE}&budget=6`, () => {
      window.seen = [];
      window.shifted = 0;
      addEventListener("DOMContentLoaded", () => {
        const table = document.getElementById("results");
        let last = "";
        new MutationObserver(() => {
          const rows = [...table.querySelectorAll("tr.busy")].filter((row) => row.querySelector(".preliminary"));
          const now = rows.map((row) => row.querySelector(".tally").textContent).join(" | ");
          if (now !== last) window.seen.push({ at: performance.now(), rows: rows.length, text: (last = now), high: table.offsetHeight, wide: rows[0]?.offsetWidth });
        }).observe(table, { childList: true, characterData: true, subtree: true });
        new PerformanceObserver((list) => {
          const measuring = table.querySelectorAll("tr.busy .preliminary").length === 3;
          for (const entry of list.getEntries()) if (measuring && !entry.hadRecentInput) window.shifted += entry.value;
        }).observe({ type: "layout-shift" });
      });
    });
    await enabledRun(page);
    await page.click("#run");
    await page.locator("tr.busy .preliminary").nth(2).waitFor({ timeout: RUN_TIMEOUT });
    assert.match(await page.locator("tr.busy .preliminary").first().innerText(), /^≈ [\d.]+ [nµm]?s$/);
    await page.locator("tr.busy .strip svg path").first().waitFor();
    await narrowAndWide(page, "live");
    await page.emulateMedia({ reducedMotion: "reduce" });
    assert.equal(await page.locator("tr.busy .strip svg:visible").count(), 0, "without motion there are figures alone");
    await page.emulateMedia({ reducedMotion: "no-preference" });
    await finished(page);
    const { seen, shifted } = await page.evaluate(() => ({ seen: window.seen, shifted: window.shifted }));
    const live = seen.filter(({ rows }) => rows === CASES.length);
    assert.ok(live.length > 2, `${live.length} times`);
    assert.ok(/\d samples so far/.test(live.at(-1).text), live.at(-1).text);
    // The rows of one look come as several changes.
    const looks = live.filter(({ at }, i) => i === 0 || at - live[i - 1].at > 100);
    assert.ok(looks.slice(1).every(({ at }, i) => at - looks[i].at > 300), "a few times a second at most");
    assert.ok(shifted < 0.02, `rows move by ${shifted}`);
    assert.equal(await page.locator(".preliminary").count(), 0);
    assert.equal(await page.locator("#results [aria-live], [aria-live] #results").count(), 0, "nothing is read out twice a second");
    assert.deepEqual(page.problems, []);
  },

  async "says how long a run will take, and learns from the last one"() {
    const page = await open(TINY);
    await enabledRun(page);
    const told = async () => {
      const line = await page.innerText("#plan-line");
      const [, low, lowUnit, high, unit] = line.match(/^3 cases, (?:about )?(?:([\d.]+)(?: (s))? to )?([\d.]+) (s|min)\./) ?? assert.fail(line);
      const seconds = (value, of) => Number(value) * (of === "min" ? 60 : 1);
      return { line, low: seconds(low ?? high, lowUnit ?? unit), high: seconds(high, unit) };
    };
    const before = await told();
    assert.ok(before.low < before.high, before.line);
    await page.click("#run");
    const began = Date.now();
    await finished(page);
    const took = (Date.now() - began) / 1e3;
    console.log(`    told ${before.line} took ${took.toFixed(0)} s`);
    for (let tries = 0; (await told()).line === before.line && tries < 50; tries += 1) await page.waitForTimeout(100);
    const after = await told();
    assert.ok(after.low <= took + 1 && took - 1 <= after.high, `${after.line} after ${took} s`);
    assert.ok(after.high / after.low < before.high / before.low, `${after.line} after ${before.line}`);
    // A reload forgets nothing, and a larger plan takes longer.
    await page.reload();
    await page.waitForFunction((line) => document.getElementById("plan-line").textContent === line, after.line);
    await page.fill("[data-setting=budget], #fields input[type=number]", "60");
    await page.waitForFunction((line) => document.getElementById("plan-line").textContent !== line, after.line);
    assert.ok((await told()).high > after.high);
    assert.deepEqual(page.problems, []);
  },

  async "explains a bad address, and reports it in remote mode"() {
    server.events.length = 0;
    const page = await open("?presett=quick&report=/api/events");
    await page.getByText("unknown setting `presett`").waitFor();
    await page.getByRole("link", { name: "Start with the default settings" }).waitFor();
    await pictures(page, "bad-query");
    assert.equal(server.events[0].event, "unavailable");
    server.events.length = 0;
    const nothing = await open("?filter=nothing-like-this&report=/api/events");
    await nothing.getByText("No case matches these settings").waitFor();
    await nothing.waitForTimeout(300);
    assert.equal(server.events[0].event, "unavailable");
    assert.match(server.events[0].reason, /nothing-like-this/);
    const foreign = await open("?report=https://elsewhere.example/");
    await foreign.getByText("is not a path that begins with /").waitFor();
  },

  async "explains settings of the address that only the worker can refuse"() {
    server.events.length = 0;
    const page = await open("?variant=flush&report=/api/events");
    await page.getByText("unknown variant `flush`").waitFor();
    await page.getByRole("link", { name: "Start with the default settings" }).waitFor();
    assert.ok(await page.locator("#run").isDisabled());
    await page.waitForTimeout(300);
    assert.equal(server.events[0].event, "unavailable");
    assert.match(server.events[0].reason, /flush/);
    for (const [query, what] of [["case=attention", "is not a case"], ["set=DEPHT=8", "unknown tunable"]]) {
      const other = await open(`?${query}`);
      await other.getByText("The address of this page has a mistake.").waitFor();
      await other.getByText(what).first().waitFor();
      assert.ok(await other.locator("#run").isDisabled());
    }
  },

  async "says that reports cannot be made when their program does not arrive"() {
    const page = await open(`?case=${CASES[0]}&budget=1&ceilings=off`);
    await enabledRun(page);
    await page.click("#run");
    await finished(page);
    await page.context().route("**/reports/**", (route) => route.abort());
    await open_menu(page);
    await page.click("#download-report");
    await page.getByText("The part of the page that makes this did not load").waitFor();
    await narrowAndWide(page, "reports-lost");
    await page.context().unroute("**/reports/**");
    assert.match((await save(page, "#download-report")).text, /^<!DOCTYPE html>/);
    const comparing = await openOn("about:blank", undefined, { serviceWorkers: "block" });
    let go;
    const held = new Promise((resolve) => (go = resolve));
    await comparing.context().route("**/reports/**", async (route) => (await held, route.abort()));
    await comparing.goto(`${server.address}?view=compare`);
    await comparing.getByText("Fetching the program for comparisons").waitFor();
    await narrowAndWide(comparing, "comparing-fetched");
    go();
    await comparing.getByText(/Runs cannot be compared now\..*Reload the page to try again\./).waitFor();
    await narrowAndWide(comparing, "comparing-lost");
    assert.ok(await comparing.locator("#compare-section[inert]").isVisible());
  },

  async "shares results in a link, and holds a run here against them"() {
    const page = await openOn(`${server.address}${BARE}`, undefined, {
      serviceWorkers: "block",
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await enabledRun(page);
    await page.click("#run");
    await finished(page);
    await page.click("#copy-results");
    await page.getByText("The link is on the clipboard. It contains the settings and a summary of the results").waitFor();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(link.slice(server.address.length), /^#r=[A-Za-z0-9_-]+$/);
    assert.ok(link.length < 700, `${link.length} letters for three cases`);
    await page.click("#copy-link");
    await page.getByText("It contains the settings, not the results").waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), page.url());
    await page.click("#copy-embedded");
    await page.getByText("The code is on the clipboard. Another page shows these results with it.").waitFor();
    const code = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(code.startsWith(`<iframe src="${server.address}?embed=1#r=`) && code.endsWith("</iframe>"), code);
    assert.deepEqual(page.problems, []);

    // Another site shows the results and nothing else; its frame cannot start a run.
    const site = await around(`<!doctype html><meta name="viewport" content="width=device-width">${code}`);
    const outside = await openOn(site.address, undefined, { serviceWorkers: "block" });
    const frame = outside.frameLocator("iframe");
    await frame.locator("#linked-table tbody tr").first().waitFor();
    assert.deepEqual((await frame.locator("#linked-table tbody tr").allInnerTexts()).map((row) => row.split("\t")[0]), CASES);
    for (const part of [".masthead", ".intro", "#run", "#device-section", "#run-linked", "footer"]) {
      assert.ok(await frame.locator(part).isHidden(), part);
    }
    assert.equal(outside.workers().length, 0);
    assert.deepEqual(outside.problems, []);
    await narrowAndWide(outside, "embedded");
    const [whole] = await Promise.all([outside.waitForEvent("popup"), frame.getByRole("link", { name: "Open in Parallax" }).click()]);
    await enabledRun(whole);
    assert.equal(whole.url(), link);
    await outside.goto(`${server.address}?embed=1`);
    await outside.getByText("No results.").waitFor();
    assert.ok(await outside.locator("#run").isHidden());
    await outside.context().close();
    site.close();

    const other = await openOn(link, undefined, { serviceWorkers: "block" });
    await enabledRun(other);
    assert.match(await other.innerText("#linked-about"), /Results shared by link\. .* not signed/);
    assert.match(await other.innerText("#linked-about"), /SwiftShader[^]*Chromium \d+ on Linux \(developer\), WebGPU[^]*case=attention/i);
    const headline = () => other.innerText("#linked-table .answer");
    assert.match(await headline(), /swiftshader in Chromium \d+ on Linux: 3 cases, all correct\.$/i);
    assert.match(await other.title(), /swiftshader · Parallax/i);
    assert.ok(await other.locator("#compare-linked").isHidden(), "this browser keeps no run");
    const rows = () => other.locator("#linked-table tbody tr").allInnerTexts();
    const before = await rows();
    assert.deepEqual(before.map((row) => row.split("\t")[0]), CASES);
    assert.ok(before.every((row) => /\t[\d.]+ [nµm]?s\t± [\d.]+ %\tpass$/.test(row)), before.join("\n"));
    await narrowAndWide(other, "linked");
    await other.click("#run-linked");
    await finished(other);
    assert.deepEqual((await other.innerText("#summary")).match(/\d+ pass/g), ["3 pass"]);
    for (const row of await rows()) assert.match(row, /\spass\s[\d.]+ [nµm]?s\s± [\d.]+ %\s[\d.]+×( \[[\d.]+, [\d.]+\])?$/);
    assert.match(other.url(), /case=attention.*#r=/);
    assert.match(await headline(), /This device takes [\d.]+× as long \(3 cases, geometric mean\)\.$/);
    await narrowAndWide(other, "linked-beside-ours");
    assert.deepEqual(other.problems, []);

    // Another link in the same page.
    await other.evaluate(() => (location.hash = "#r=AAAA"));
    await other.locator("[data-notice=link]").waitFor();
    assert.equal(await other.locator("#linked-section:visible").count(), 0);
    await other.evaluate((hash) => (location.hash = hash), new URL(link).hash);
    await other.locator("#linked-section").waitFor();
    assert.equal(await other.locator("[data-notice=link]").count(), 0);

    // The kept run of this browser and the link, in the page and in the other view.
    await other.reload();
    await other.click("#compare-linked");
    await other.locator("#linked-table th", { hasText: "your last run ÷ link" }).waitFor();
    assert.match(await headline(), /Your last run takes [\d.]+× as long/);
    await other.goto(`${server.address}?view=compare${new URL(link).hash}`);
    await other.locator("#compare-chips li").first().waitFor();
    await other.click("#compare-kept-card summary");
    await other.getByRole("button", { name: "Add the run" }).click();
    await other.locator("#compare-result th", { hasText: "÷ link" }).waitFor();
    assert.equal(await other.locator("#compare-result tbody tr").count(), 3);
    assert.match(await other.innerText("#compare-result"), /Results shared by link/i);
    await narrowAndWide(other, "compared-link");
    assert.deepEqual(other.problems, []);
  },

  async "calls a device as its user does: in the run, the history, links and comparisons"() {
    const page = await openOn(`${server.address}?case=${CASES[0]}&budget=1&ceilings=off`, undefined, {
      serviceWorkers: "block",
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await enabledRun(page);
    await page.fill("#device-name", "  Ann's <b>laptop</b> ");
    await page.locator("#device-name").blur();
    assert.equal(await page.inputValue("#device-name"), "Ann's <b>laptop</b>");
    await narrowAndWide(page, "named");
    await page.click("#run");
    await finished(page);
    const { data } = await download(page, "#download-json");
    assert.equal(data.environment.device_name, "Ann's <b>laptop</b>");
    await page.locator("#history li", { hasText: "Ann's <b>laptop</b> · 1 case" }).waitFor();
    await page.click("#copy-results");
    await page.getByText("The link is on the clipboard. It contains the settings and a summary of the results").waitFor();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    await page.reload();
    await enabledRun(page);
    assert.equal(await page.inputValue("#device-name"), "Ann's <b>laptop</b>", "the browser remembers it");
    await page.goto("about:blank");
    await page.goto(link);
    assert.match(await page.innerText("#linked-about"), /Ann's <b>laptop<\/b>/);

    const named = (name) => {
      const run = structuredClone(data);
      if (name) run.environment.device_name = name;
      return { name: `${name.length}.json`, buffer: Buffer.from(JSON.stringify(run)), mimeType: "application/json" };
    };
    await page.goto(`${server.address}?view=compare`);
    await page.locator("#compare-section:not([inert])").waitFor();
    await page.setInputFiles("#compare-files", [named(data.environment.device_name), named("Bob's")]);
    const heads = page.locator("#compare-result section:has(> h2:text-is('Verdicts')) .wide thead");
    await heads.first().waitFor();
    assert.match(await heads.first().innerText(), /Ann's <b>laptop<\/b>\s+Bob's\s+Bob's ÷ Ann's <b>laptop<\/b>/);
    assert.match(await page.innerText("#compare-chips"), /Bob's \(.*\) · browser/);
    assert.match(await page.innerText("#compare-result"), /the devices differ/);
    await narrowAndWide(page, "compared-by-name");
    assert.deepEqual(page.problems, []);
  },

  async "says in a sentence that a link's results are broken"() {
    for (const [fragment, said] of [
      ["#r=", "is damaged"],
      ["#r=7VZNb9swDP0rhM4pYDtJ", "is damaged"],
      ["#r=<script>alert(1)</script>", "is damaged"],
      [`#r=${"A".repeat(70_000)}`, "larger than any that this page makes"],
    ]) {
      const page = await open(fragment);
      await enabledRun(page);
      const notice = await page.locator("[data-notice=link]").innerText();
      assert.ok(notice.includes("The results in this link cannot be shown.") && notice.includes(said), notice);
      assert.equal(await page.locator("#linked-section:visible").count(), 0);
      assert.deepEqual(page.problems, []);
      await page.context().close();
    }
  },

  async "compares given files, and names unreadable ones"() {
    const page = await open("?view=compare");
    await page.getByText("Choose two or more run files").waitFor();
    assert.equal(await page.locator("#run-bar:visible, #device-section:visible").count(), 0);
    await narrowAndWide(page, "compare-empty");
    const good = ["browser", "cuda"].map((name) => join(RECORDED, `${name}.json`));
    const files = await Promise.all(good.map(async (path) => ({ name: path.split("/").pop(), buffer: await readFile(path) })));
    const text = files[0].buffer.toString();
    const broken = [
      ["cut.json", text.slice(0, text.length / 2), "not a Parallax run"],
      ["newer.json", text.replace('"version":3', '"version":99'), "written by a newer version"],
      ["foreign.json", '{"schema":"other"}', "its schema is"],
      ["deep.json", "[".repeat(1e6), "not a Parallax run"],
      ["<img src=x onerror=alert(1)>.json", "", "not a Parallax run"],
    ].map(([name, text, said]) => ({ name, buffer: Buffer.from(text), said }));
    const given = [files[0], ...broken, files[1]].map(({ name, buffer }) => ({ name, buffer, mimeType: "application/json" }));
    await page.setInputFiles("#compare-files", given);
    await page.locator("#compare-result .costs").first().waitFor();
    const names = () => page.locator("#compare-chips b").allInnerTexts();
    assert.deepEqual(await names(), ["browser", "cuda"]);
    const refused = await page.locator("#compare-refused li").allInnerTexts();
    for (const { name, said } of broken) {
      assert.ok(refused.some((line) => line.startsWith(name.replace(".json", "")) && line.includes(said)), `${name}: ${refused.join("\n")}`);
    }
    assert.equal(refused.length, broken.length);
    assert.equal(await page.locator("#compare-refused img").count(), 0);

    const rows = () => page.locator("#compare-result section:has(> h2:text-is('Verdicts')) .wide tbody tr").allInnerTexts();
    const whole = await rows();
    assert.ok(whole.length > 20 && whole.every((row) => /\d×.* (faster|slower|same|undecided)/.test(row)), whole.join("\n"));
    assert.match(await page.innerText("#compare-result"), /Time in browser over time in cuda/);
    await narrowAndWide(page, "compared-files");

    const drawn = () => page.locator("#compare-result .costs .name").allTextContents();
    const all = await drawn();
    await page.fill("#compare-filter", "softmax flash");
    await page.waitForURL(/[?&]filter=softmax%20flash/);
    const some = await rows();
    const plotted = await drawn();
    assert.ok(plotted.length > 0 && plotted.length < all.length && plotted.every((name) => /softmax|attention/.test(name)), plotted.join("\n"));
    assert.ok(some.length > 0 && some.length < whole.length && some.every((row) => /softmax|flash/.test(row)), some.join("\n"));
    await page.fill("#compare-filter", "");
    await page.check("#compare-sort");
    await page.waitForURL(/[?&]view=compare&sort=ratio$/);
    const ratios = (await rows()).map((row) => Number(row.match(/([\d.]+)×/)[1]));
    assert.deepEqual(ratios, [...ratios].sort((a, b) => b - a));

    // Workloads beside each other, and the cases of each on request.
    const families = page.locator("#compare-result .families > .wide");
    assert.match(await families.locator("thead").innerText(), /cuda ÷ browser\s+cases/);
    assert.ok((await families.locator("tbody tr").count()) >= 5);
    const matmul = page.locator("#compare-result .families details", { hasText: "matmul: " }).first();
    await matmul.locator("summary").click();
    for (const row of await matmul.locator("tbody tr").allInnerTexts()) assert.match(row, /\bmatmul\//);
    await standsAlone(page, "[data-export=svg]", "[data-export=png]", /browser-over-cuda/);
    const bar = page.locator("#compare-result .costs .row").first();
    await bar.focus();
    assert.match(await bar.locator(".said").innerText(), /the same kernel|the fastest of each/);
    assert.equal(await bar.locator(".said:visible").count(), 1);

    const markdown = await save(page, "[data-export=md]");
    assert.match(markdown.text, /^\| case \| browser \| cuda \|/);
    assert.equal((await save(page, "[data-export=csv]")).name, "parallax-comparison.csv");
    assert.equal((await download(page, "[data-export=json]")).data.pairs.length, whole.length);

    // With the other base, a ratio is inverted.
    await page.getByRole("radio").last().check();
    await page.getByText("browser ÷ cuda").first().waitFor();
    // Its sentence names the slowest cases.
    assert.match(await page.innerText("#compare-result"), /Of \d+ comparisons with cuda: .* slower.*; slowest: /);
    await narrowAndWide(page, "compared-with-cuda");
    await accessible(page, "compared files");
    await page.getByRole("button", { name: "Remove browser" }).click();
    await page.getByText("One more is needed to compare.").waitFor();
    assert.deepEqual(await names(), ["cuda"]);
    assert.deepEqual(page.problems, []);
  },

  async "compares dropped files, files of its own site, and links"() {
    const page = await open(`?view=compare&a=runs/wgpu.json&b=https://elsewhere.example/x.json`, undefined);
    await page.getByText("it is on another site").waitFor();
    await page.getByText("One more is needed to compare.").waitFor();
    const text = await readFile(join(RECORDED, "browser.json"), "utf8");
    const drop = (name, text) =>
      page.evaluate(
        ([name, text]) => {
          const data = new DataTransfer();
          data.items.add(new File([text], name));
          dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
        },
        [name, text],
      );
    await drop("browser.json", text);
    await page.locator("#compare-result .costs").first().waitFor();
    assert.deepEqual(await page.locator("#compare-chips b").allInnerTexts(), ["wgpu", "browser"]);
    await page.evaluate(() => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(200 << 20)], "huge.json"));
      dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
    });
    await page.getByText("it is larger than 16 MiB").waitFor();
    for (const [link, said] of [["https://a.example/", "not a link with results"], ["#r=AAAA", "is damaged"]]) {
      await page.fill("#compare-link", link);
      await page.keyboard.press("Enter");
      await page.getByText(said).waitFor();
    }
    assert.equal(await page.locator("#compare-chips li").count(), 2);
    assert.deepEqual(page.problems, []);
  },

  async "requests experimental features if the address says so, and records it"() {
    const [flash, subgroup] = ["flash", "subgroup"].map((variant) => `attention/fwd/b1,h1,s17,d8/f32/${variant}`);
    const matrices = "matmul/fwd/m33,n65,k17/f16/coopmat";
    const measured = async (features, before) => {
      const asked = [flash, subgroup, matrices].map((c) => `case=${c}`).join("&");
      const page = await open(`?${asked}&mode=verify&ceilings=off${features}`, before);
      await enabledRun(page);
      await page.click("#run");
      await finished(page);
      const { data } = await download(page, "#download-json");
      assert.deepEqual(page.problems, []);
      await page.context().close();
      const why = Object.fromEntries(data.records.map((r) => [r.case, r.actual?.reason ?? (r.outcome === "skipped" ? r.reason : r.outcome)]));
      assert.equal(why[flash], "pass");
      return { data, device: data.devices[0], why };
    };
    const stock = await measured("");
    // This browser was started with flags that take the rounding off timestamps.
    assert.equal(stock.data.reach, "developer");
    assert.equal(stock.device.caps.subgroup, null);
    assert.match(stock.why[subgroup], /does not offer/);
    const further = await measured("&features=unsafe");
    assert.equal(further.data.reach, "unsafe");
    assert.deepEqual(
      further.device.features.filter((name) => !stock.device.features.includes(name)),
      ["subgroups", "subgroup-size-control"],
    );
    const [least, most] = further.device.caps.subgroup;
    assert.ok(least >= 1 && most >= least);
    assert.match(further.why[subgroup], new RegExp(`this device may have ${least}`), "wgpu's device has the added features");
    for (const { why, device } of [stock, further]) {
      assert.equal(device.caps.matrices, undefined);
      assert.match(why[matrices], device.caps.dtypes.includes("f16") ? /--features unsafe/ : /f16/);
    }
    // In the page itself, where no worker is to be had, the same.
    const inside = await measured("&features=unsafe", () => delete globalThis.Worker);
    assert.deepEqual([inside.data.environment.measured_in, inside.device.caps.subgroup], ["page", [least, most]]);
  },

  async "offers experimental features of the adapter, or the reason of their absence"() {
    const choice = (page, name) => page.locator(`#way input[value=${name}]`);
    const page = await open(`${TINY}&features=developer`);
    await choice(page, "developer").waitFor();
    assert.ok((await choice(page, "developer").isChecked()) && (await choice(page, "unsafe").isDisabled()));
    assert.match(await page.innerText("#way"), /visit nothing else with it\.[^]*this browser offers no such matrices/);
    await narrowAndWide(page, "reach-absent");
    await page.context().close();

    // An adapter with tensor cores, as far as the choice can tell.
    const able = await open(TINY, () => {
      const { has } = GPUSupportedFeatures.prototype;
      GPUSupportedFeatures.prototype.has = function (name) {
        return name === "chromium-experimental-subgroup-matrix" || has.call(this, name);
      };
    });
    await choice(able, "unsafe").waitFor();
    assert.ok((await choice(able, "stock").isChecked()) && !(await choice(able, "unsafe").isDisabled()));
    assert.ok(!(await able.innerText("#way")).includes("no such matrices"));
    await narrowAndWide(able, "reach-offered");
    await Promise.all([able.waitForURL(/features=unsafe/), choice(able, "unsafe").click()]);
    // It requests features that this adapter only claims, and reports the result.
    await able.getByText("No device.").waitFor();
    await able.context().close();

    const asked = await open(`${TINY}&features=unsafe`);
    await choice(asked, "unsafe").waitFor();
    assert.ok(await choice(asked, "unsafe").isChecked());
    await Promise.all([asked.waitForURL((url) => !url.search.includes("features")), choice(asked, "stock").click()]);
    await enabledRun(asked);
    assert.deepEqual(asked.problems, []);
  },

  async "explains a browser without WebGPU"() {
    const page = await open("", () => {
      Object.defineProperty(Navigator.prototype, "gpu", { get: () => undefined, configurable: true });
    });
    await page.getByText("This browser does not offer WebGPU").waitFor();
    await pictures(page, "no-webgpu");
    // No dead end: the processor is there all the same.
    await page.getByRole("link", { name: "Measure the processor instead" }).click();
    await enabledRun(page);
    assert.match(page.url(), /\?target=wasm$/);
    assert.match(await page.textContent("#device"), /simd128/);
    assert.deepEqual(page.problems, []);
  },

  async "explains that its program is blocked, or does not arrive"() {
    for (const [spoil, said] of [
      [async (context) => context.route("**/*.wasm", (route) => route.abort()), "The browser said"],
      [async (context) => context.addInitScript(() => delete globalThis.WebAssembly), "blocks WebAssembly"],
    ]) {
      const context = await browser.newContext();
      await spoil(context);
      const page = await context.newPage();
      await page.goto(server.address);
      await page.getByText("The page's program did not start.").waitFor();
      assert.match(await page.innerText("#notices"), new RegExp(said));
      await photograph(page, "dead");
      await context.close();
    }
    // The page is present, and the worker is not.
    const page = await openOn("about:blank", undefined, { serviceWorkers: "block" });
    await page.context().route(/\/(worker|threads)\//, (route) => route.abort());
    await page.goto(server.address);
    await page.getByText("The worker did not start").waitFor();
    assert.match(await page.innerText("#device"), /no device could be opened/);
  },

  async "explains a browser that does not answer, and goes on when it does"() {
    const page = await open("", () => {
      const ask = GPU.prototype.requestAdapter;
      GPU.prototype.requestAdapter = async function (...asked) {
        await new Promise((answer) => (globalThis.answer = answer));
        return ask.apply(this, asked);
      };
    });
    await page.getByText("The browser does not answer.").waitFor();
    await (await measuringWorker(page)).evaluate(() => globalThis.answer());
    await enabledRun(page);
    assert.equal(await page.getByText("The browser does not answer.").count(), 0);
    assert.deepEqual(page.problems, []);
  },

  ...offlineTests({ dist, openOn, enabledRun }),
  ...steadyTests({ server, openOn, enabledRun }),

  ...aheadTests({ open, query: BARE, enabledRun, finished, download }),

  ...modelTests({ server, open, enabledRun, finished, download, save, narrowAndWide }),

  ...outsideTests({
    dist,
    server,
    open,
    openOn,
    enabledRun,
    finished,
    download,
    narrowAndWide,
    recorded: RECORDED,
    brief: `case=${CASES[0]}&budget=1&ceilings=off`,
  }),

  async "can be used by everybody, at rest and with results"() {
    for (const colorScheme of ["light", "dark"]) {
      const page = await openOn(server.address + TINY, undefined, { serviceWorkers: "block", colorScheme });
      await enabledRun(page);
      await accessible(page, `at rest, ${colorScheme}`);
      if (colorScheme === "dark") continue;
      await page.click("#run");
      await finished(page);
      await accessible(page, "with results");
      const { text } = await save(page, "#download-report");
      const report = await page.context().newPage();
      await report.setContent(text);
      await accessible(report, "the report");
    }
  },

  async "lets in nothing but its own files"() {
    const page = await open("");
    await enabledRun(page);
    const entered = await page.evaluate(async () => {
      const script = document.createElement("script");
      script.textContent = "window.intruder = true";
      document.body.append(script);
      const mark = document.createElement("p");
      mark.setAttribute("style", "color: red");
      document.body.append(mark);
      const away = await fetch("https://elsewhere.example/", { mode: "no-cors" }).then(() => "sent", () => "refused");
      return [window.intruder, mark.style.color, away];
    });
    assert.deepEqual(entered, [undefined, "", "refused"]);
    for (const what of ["inline script", "inline style", "Connecting to"]) {
      assert.ok(page.problems.some((problem) => problem.includes(what)), `${what}: ${page.problems}`);
    }
  },

  async "starts a run that was asked for before the device was open"() {
    // The worker arrives late.
    let go;
    const held = new Promise((resolve) => (go = resolve));
    const page = await (await browser.newContext({ serviceWorkers: "block" })).newPage();
    await page.route("**/worker.js*", async (route) => (await held, route.continue()));
    await page.goto(`${server.address}?case=${CASES[0]}&budget=1&ceilings=off`, { waitUntil: "commit" });
    await page.click("#run[data-early]:enabled");
    await page.getByText("The run starts as soon as the device is open.").waitFor();
    assert.ok(await page.locator("#run").isDisabled());
    go();
    await finished(page);
    assert.match(await page.innerText("#summary"), /1 pass\./);
    await page.context().close();
  },

  async "explains a browser without an adapter"() {
    const page = await open("", () => {
      GPU.prototype.requestAdapter = async () => null;
    });
    await page.getByText("No device.").waitFor();
    assert.match(await page.innerText("#notices"), /adapter/);
    assert.deepEqual(page.problems, []);
  },
};

/// Tests of the page as visitors get it: compiled for size and speed, with all its programs.
const ofTheRelease = {
  async "answers at any time: nothing on its own thread takes longer than 50 ms"() {
    const page = await openOn("about:blank", undefined, { serviceWorkers: "block" });
    const tasks = await busiest(browser, page, async () => {
      await page.goto(server.address);
      await enabledRun(page);
      // More cases than the preset that it begins with.
      await page.locator("input[value=full]").check({ force: true });
      await page.locator("#plan summary").first().waitFor();
      await page.goto(server.address + TINY);
      await enabledRun(page);
      await page.click("#run");
      await finished(page);
    });
    console.log(`      longest tasks: ${tasks.slice(0, 4).map((ms) => ms.toFixed(0)).join(", ")} ms, as of a usual machine`);
    assert.ok(tasks.length > 100, `only ${tasks.length} tasks were seen`);
    assert.ok(tasks[0] <= 50, `${tasks[0]} ms`);
    assert.deepEqual(page.problems, []);
  },

  async "can be used soon where the processor is slow"() {
    const context = await browser.newContext({ serviceWorkers: "block" });
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    await session.send("Emulation.setCPUThrottlingRate", { rate: 4 });
    await page.goto(server.address, { waitUntil: "commit" });
    await page.locator("#run:enabled").waitFor();
    const since = await page.evaluate(() => performance.now());
    console.log(`      Run can be pressed ${Math.round(since)} ms after the page was asked for, the processor a quarter as fast`);
    assert.ok(since < SOON, `${since} ms`);
    await context.close();
  },

  async "weighs little"() {
    // The page counts as far as a measurement fetches it; the service worker and the manifest are fetched by the browser itself.
    const fetched = new Set(["worker.js", "manifest.webmanifest"]);
    const visit = await openOn("about:blank");
    visit.context().on("request", (request) => fetched.add(new URL(request.url()).pathname.slice(1) || "index.html"));
    await visit.goto(`${server.address}${BARE}`);
    await enabledRun(visit);
    await visit.click("#run");
    await finished(visit);
    await visit.context().close();
    const folder = (name) => name.match(/^(reports|worker|threads|cube|lab|models)\//)?.[1] ?? "page";
    const files = (await readdir(dist, { recursive: true })).filter((name) => /\.(html|css|js|wasm|webmanifest)$/.test(name));
    const names = files.filter((name) => folder(name) !== "page" || fetched.has(name));
    assert.ok(names.includes("index.html") && names.some((name) => /^parallax-web-.*\.wasm$/.test(name)), names.join());
    // Side by side: the best compression of so much takes a while.
    const weigh = async (name) => [name, (await promisify(brotliCompress)(await readFile(join(dist, name)))).length];
    const sums = { page: 0, reports: 0, worker: 0, threads: 0, cube: 0, lab: 0, models: 0 };
    // Each worker has a folder, of which a browser fetches one.
    for (const [name, bytes] of await Promise.all(names.map(weigh))) sums[folder(name)] += bytes;
    const { page, reports, cube, lab, models, ...measuring } = sums;
    console.log(`      the page weighs ${page} bytes; workers ${Object.values(measuring).join(", ")}; reports ${reports}; CubeCL ${cube}; lab ${lab}; models ${models}`);
    assert.ok(page <= BUDGET, `${page} bytes`);
    assert.ok(reports > 1e5 && reports <= REPORTS, `${reports} bytes`);
    for (const [folder, bytes] of Object.entries(measuring)) assert.ok(bytes > 1e5 && bytes <= MEASURING, `${folder}: ${bytes} bytes`);
    assert.ok(cube <= COMPILERS, `${cube} bytes`);
    assert.ok(lab > 1e5 && lab <= LAB, `${lab} bytes`);
    assert.ok(models > 1e5 && models <= MODELS, `${models} bytes`);
  },

  async "fetches CubeCL's compilers when one of its kernels is asked for, and only then"() {
    const names = ["softmax/fwd/r5,c70", "copy/fwd/n4099", "matmul/fwd/m17,n19,k23"].flatMap((problem) =>
      problem.startsWith("matmul") ? [`${problem}/f32/cube`, `${problem}/f32/tiled`] : [`${problem}/f32/cube`],
    );
    const query = `?${names.map((name) => `case=${name}`).join("&")}&budget=2&ceilings=off`;
    const asked = [];
    const listen = (page) => page.context().on("request", (request) => request.url().includes("/cube/") && asked.push(request.url()));

    // The filter does not name it.
    let page = await open("?filter=softmax");
    listen(page);
    await enabledRun(page);
    await page.locator("#plan").getByText(/compilers only for a variant that the filter names/).first().waitFor({ state: "attached" });
    assert.deepEqual(asked, []);
    // Asked for while the page is there.
    await page.fill("#filter", "softmax*cube");
    await page.waitForFunction(() => /^\d+ cases?\b/.test(document.querySelector("#plan-line").textContent) && !document.querySelector("#run").disabled);
    assert.equal(asked.length, 2, asked.join(" "));
    assert.equal(await page.locator("#plan").getByText(/compilers only for a variant/).count(), 0);
    assert.deepEqual(page.problems, []);

    page = await open(query);
    await enabledRun(page);
    await page.click("#run");
    await finished(page);
    for (const name of names) assert.equal(await page.locator(`tr[data-case="${name}"] .verdict`).innerText(), "pass", name);
    const run = (await download(page, "#download-json")).data;
    console.log(`      CubeCL's compilers: ${run.environment.cube_module}`);
    assert.match(run.environment.cube_module, /^[\d.]+ [kM]B.* in \d+ ms$/);
    const steps = run.records.find((record) => record.case === names[0]).compiled.steps.map((step) => step.name);
    assert.deepEqual(steps.slice(0, 2), ["CubeCL expand", "CubeCL emit"]);
    assert.deepEqual(page.problems, []);

    // A page without them.
    page = await openOn("about:blank", undefined, { serviceWorkers: "block" });
    await page.context().route("**/cube/*", (route) => route.fulfill({ status: 404 }));
    await page.goto(server.address + query);
    await enabledRun(page);
    await page.locator("#plan").getByText(/CubeCL's compilers did not load: .*parallax_cube\.js/).first().waitFor({ state: "attached" });
    assert.match(await page.innerText("#plan-line"), /1 case\b/);
  },

  async "measures the processor on all its threads"() {
    const cases = CASES.map((name) => name.replace(/[^/]+$/, "host"));
    const page = await open(`?target=wasm&threads=1&${cases.map((name) => `case=${name}`).join("&")}&budget=2`);
    await enabledRun(page);
    // All threads are a page of their own, and so is the way back.
    const threads = (value) => page.locator(`#way input[name=threads][value="${value}"]`);
    assert.ok(await threads("1").isChecked());
    await Promise.all([page.waitForURL((url) => !url.search.includes("threads")), threads("all").click()]);
    await enabledRun(page);
    assert.ok(await threads("all").isChecked());
    assert.match(await page.textContent("#device"), /processor[^]*[2-9]\d* threads, simd128/);
    await page.click("#run");
    await finished(page);
    const { data: all } = await download(page, "#download-json");
    const count = await page.evaluate(() => navigator.hardwareConcurrency);
    assert.deepEqual(all.devices[0].features, [`${count} threads`, "simd128"]);
    assert.deepEqual(all.records.map((r) => [r.case, r.outcome]).sort(), cases.map((c) => [c, "pass"]));
    assert.equal(all.devices[0].caps.units, count);
    await Promise.all([page.waitForURL(/threads=1/), threads("1").click()]);
    await enabledRun(page);
    assert.deepEqual(page.problems, []);
  },
};

await runTests(released ? { ...tests, ...ofTheRelease } : tests, {
  wanted: process.argv[4],
  async failed(number) {
    await opened?.screenshot({ path: join(artefacts, `failed-${number}.png`), fullPage: true }).catch(() => {});
    if (opened?.problems.length) console.log(`      the page said: ${opened.problems.join("\n      ")}`);
    const notices = await opened?.locator("#notices, #device-notices, #device").allInnerTexts().catch(() => []);
    console.log(`      to be read there: ${notices?.join(" · ")}`);
  },
  // A page that stays keeps its device: thirty of them take gigabytes, and threads of the GPU process until it stops answering.
  async after(left) {
    await Promise.all(browser.contexts().filter((context) => context !== left?.context()).map((context) => context.close()));
  },
});
await end(browser.close(), server.close());
