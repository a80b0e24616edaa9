// Sizes of a site's pages, and their response times on a phone's processor, as a Markdown table.
//
//   node weigh.mjs SITE_DIR

import { resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { launch } from "./browser.mjs";
import { serve } from "./serve.mjs";

const ROUNDS = 3;
const SLOWER = 4;

const server = await serve(resolve(process.argv[2]));
const browser = await launch();

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(2)} s`;

/// A page that writes its paint, its long tasks and its shifts down.
async function open(width, slower) {
  const context = await browser.newContext({ viewport: { width, height: width < 500 ? 780 : 900 }, serviceWorkers: "block" });
  const page = await context.newPage();
  if (slower > 1) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: slower });
  await page.addInitScript(() => {
    window.seen = { paint: 0, tasks: [], shift: 0 };
    const on = (type, f) => new PerformanceObserver((list) => list.getEntries().forEach(f)).observe({ type, buffered: true });
    on("paint", (entry) => entry.name === "first-contentful-paint" && (window.seen.paint = entry.startTime));
    on("longtask", (entry) => window.seen.tasks.push([entry.startTime, entry.duration]));
    on("layout-shift", (entry) => entry.hadRecentInput || (window.seen.shift += entry.value));
  });
  return page;
}

/// One look at a page: a page that measures answers when it can run, any other after its last long task.
async function look(path, ready) {
  const page = await open(360, SLOWER);
  const bodies = [];
  page.on("response", (response) => bodies.push(response.body().catch(() => Buffer.alloc(0))));
  await page.goto(server.address + path);
  if (ready) await page.locator(ready).first().waitFor({ timeout: 120_000 });
  const answered = ready ? await page.evaluate(() => performance.now()) : undefined;
  await page.waitForTimeout(1500);
  const { paint, tasks, shift, loaded } = await page.evaluate(() => {
    const { domContentLoadedEventEnd } = performance.getEntriesByType("navigation")[0];
    return { ...window.seen, loaded: domContentLoadedEventEnd };
  });
  const sizes = (await Promise.all(bodies)).map((body) => gzipSync(body).length);
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  await page.context().close();
  const idle = Math.max(loaded, ...tasks.map(([at, took]) => at + took));
  return { bytes, requests: sizes.length, paint, answered: answered ?? idle, longest: Math.max(0, ...tasks.map(([, took]) => took)), shift };
}

/// Nodes and heights, which no processor changes.
async function size(path, ready) {
  const sizes = [];
  for (const width of [1280, 360]) {
    const page = await open(width, 1);
    await page.goto(server.address + path);
    if (ready) await page.locator(ready).first().waitFor({ timeout: 120_000 });
    sizes.push(await page.evaluate(() => [document.querySelectorAll("*").length, document.documentElement.scrollHeight]));
    await page.context().close();
  }
  return { nodes: sizes[0][0], heights: sizes.map(([, height]) => height).join(" / ") };
}

const rows = [
  ["", undefined],
  ["run/", "#run:enabled"],
  ["device/h200/", undefined],
  ["compare/on-h200/", undefined],
  ["explain/tax/", undefined],
  ["explain/waiting/", undefined],
];
console.log(`| page | bytes (gzip) | requests | first paint, ${SLOWER}× | answers, ${SLOWER}× | longest task, ${SLOWER}× | layout shift | nodes | height at 1280 / 360 px |`);
console.log("| --- | --: | --: | --: | --: | --: | --: | --: | --: |");
for (const [path, ready] of rows) {
  const looks = [];
  for (let round = 0; round < ROUNDS; round++) looks.push(await look(path, ready));
  const of = (key) => median(looks.map((look) => look[key]));
  const { nodes, heights } = await size(path, ready);
  console.log(
    `| /${path} | ${of("bytes")} | ${of("requests")} | ${seconds(of("paint"))} | ${seconds(of("answered"))} | ${of("longest").toFixed(0)} ms | ${of("shift").toFixed(3)} | ${nodes} | ${heights} |`,
  );
}
await browser.close();
server.close();
