// The collector from outside: `parallax serve`, its page, and its runs.
//
//   node collector.mjs PROGRAM DIST_DIR ARTEFACT_DIR

import { strict as assert } from "node:assert";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { launch } from "./browser.mjs";
import { end, runTests } from "./tests.mjs";

const [program, dist, artefacts] = process.argv.slice(2).map((path) => resolve(path));
const CASE = "attention/fwd/b1,h1,s17,d8/f32/flash";
const results = await mkdtemp(join(tmpdir(), "parallax-collector-"));
await mkdir(artefacts, { recursive: true });
const browser = await launch();

/// The program on a free port, once it has printed its address.
async function serve(...further) {
  const args = ["--quiet", "serve", "--port", "0", "--page", dist, "--results", results, ...further];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) return { child, address: line };
  throw new Error("the program printed no address");
}

async function open(address, width = 1280, height = 900, told = {}) {
  const context = await browser.newContext({ viewport: { width, height }, ...told });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  await page.goto(address);
  return page;
}

async function picture(page, name) {
  for (const [width, height] of [[1280, 900], [360, 800]]) {
    await page.setViewportSize({ width, height });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${name} at ${width} is ${overflow} px too wide`);
    await page.screenshot({ path: join(artefacts, `collector-${name}-${width}.png`), fullPage: true });
  }
}

const { child, address } = await serve();
const token = new URL(address).searchParams.get("desk");
const desk = new URL(`/desk/?desk=${token}`, address).href;

const tests = {
  async "an empty collector says how to begin, and needs the token"() {
    const page = await open(desk);
    assert.match(await page.innerText("main"), /Nothing has been measured yet/);
    assert.equal(await page.innerText(".join code"), address);
    await picture(page, "empty");
    assert.deepEqual(page.problems, []);
    await page.context().close();
    assert.equal((await fetch(new URL("/desk/", address))).status, 401);
  },

  async "a run is sent by itself, kept, and shown at the collector"() {
    const page = await open(`${address}&case=${CASE}&budget=1&ceilings=off`);
    await page.locator("#run:enabled:not([data-early])").waitFor();
    assert.ok(!page.url().includes(token) && page.url().includes(CASE), "the token leaves the address");
    assert.match(await page.innerText("#privacy"), /sent only to the collector/);
    await page.click("#run");
    const way = page.locator("#share-line a");
    await way.waitFor({ timeout: 45_000 });
    const [, name] = (await page.innerText("#share-line")).match(/^Kept as (parallax-browser-\S+\.json); see all results\.$/);
    const run = JSON.parse(await readFile(join(results, name), "utf8"));
    assert.equal(run.records[0].case, CASE);
    await picture(page, "sent");

    await page.click("#send");
    await page.locator("#share-line", { hasText: "has this result already" }).waitFor();
    assert.deepEqual(await readdir(results), [name]);
    await page.reload();
    // A tab remembers its collector.
    await page.locator("#privacy", { hasText: "sent only to the collector" }).waitFor();
    await page.context().close();

    const front = await open(desk);
    const device = front.locator("h3 a").first();
    await picture(front, "front");
    await device.click();
    // The problem has a row; its variants are on the family's page.
    const problem = CASE.slice(0, CASE.lastIndexOf("/"));
    await front.locator("td", { hasText: problem }).first().waitFor({ state: "attached" });
    await front.locator("a", { hasText: "Measure" }).first().click();
    await front.locator("#run").waitFor({ state: "attached" });
    assert.deepEqual([...page.problems, ...front.problems], []);
    await front.context().close();
  },

  async "a page with another token names the next step"() {
    const page = await open(`${new URL("/", address)}?desk=0123456789abcdef&case=${CASE}&budget=1&ceilings=off`);
    await page.click("#run:enabled");
    await page.locator("#stop:visible").waitFor();
    await page.click("#stop");
    await page.locator("#share-line", { hasText: "Not sent. The collector is open to anyone with its address" }).waitFor();
    assert.equal((await readdir(results)).length, 1);
    await page.context().close();
  },

  async "another interface has https, a code for cameras, and a page that is isolated"() {
    const { child, address } = await serve("--host", "0.0.0.0", "--tls");
    try {
      assert.match(address, /^https:\/\//);
      const home = address.replace(/\/\/[^/:]+/, "//127.0.0.1");
      const page = await open(home, 1280, 900, { ignoreHTTPSErrors: true });
      await page.locator("#run:enabled:not([data-early])").waitFor();
      assert.equal(await page.evaluate(() => crossOriginIsolated), true);
      await page.goto(new URL("/desk/" + new URL(home).search, home).href);
      await page.locator("svg.code").waitFor();
      await picture(page, "code");
      await page.context().close();
    } finally {
      child.kill();
    }
  },
};

await runTests(tests);
child.kill();
await end(browser.close(), rm(results, { recursive: true }));
