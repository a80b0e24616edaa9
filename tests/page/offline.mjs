// The service worker: its copies for visits without a network, the headers that it adds, and requests that it ignores.

import { strict as assert } from "node:assert";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serve } from "./serve.mjs";
import { measuringWorker } from "./worker.mjs";

/// An image of one pixel.
const PIXEL = Buffer.from("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "base64");

/// Waits until a question to the page has a true answer; a page that is loaded anew meanwhile is asked again.
async function until(page, question, what) {
  for (let tries = 0; !(await page.evaluate(question).catch(() => false)); tries += 1) {
    assert.ok(tries < 600, what);
    await page.waitForTimeout(100);
  }
}

const controlled = (page) => until(page, () => navigator.serviceWorker.controller !== null, "no service worker is in charge");
const isolated = (page) => until(page, () => crossOriginIsolated, "the page is not isolated");
/// Files with a copy. The first use creates a store.
const kept = (page) =>
  page.evaluate(async () => ((await caches.has("parallax-page")) ? (await (await caches.open("parallax-page")).keys()).map(({ url }) => url) : []));
/// Names of the pages' lists in the worker's address, and of the programs that measure.
const MEASURING = { page: "", list: "file", program: "worker/parallax_worker_bg.wasm" };
const LAB = { page: "lab/", list: "lab", program: "lab/parallax_lab_worker_bg.wasm" };

/// The page and files without a copy, of those that the worker lists, the program that measures among them.
function missing(tab, { page, list, program } = MEASURING) {
  const question = async ([page, list, program]) => {
    const registration = await navigator.serviceWorker.getRegistration();
    const folder = registration.scope;
    const listed = new URL(navigator.serviceWorker.controller.scriptURL).searchParams.getAll(list);
    if (!listed.some((path) => path === program || path === program.replace("worker/", "threads/"))) {
      const { installing, waiting, active } = registration;
      const states = [installing, waiting, active].map((worker) => `${worker?.state}: ${worker?.scriptURL.split("?")[1]}`);
      return [`${program} is not listed`, ...states];
    }
    const copies = await Promise.all([page, ...listed].map((path) => caches.match(folder + path, { ignoreVary: true })));
    return [page, ...listed].filter((_, index) => copies[index] === undefined);
  };
  return tab.evaluate(question, [page, list, program]).catch((error) => [error.message]);
}

/// Waits until a page and every file that the worker lists for it have copies.
async function allKept(tab, of = MEASURING) {
  for (let tries = 0, lacking; (lacking = await missing(tab, of)).length > 0; tries += 1) {
    assert.ok(tries < 150, `no copy: ${lacking.join()}`);
    await tab.waitForTimeout(100);
  }
}

/// Visits a page until it is isolated and all its files have copies. Chromium sometimes keeps the earlier service worker while a page is
/// open, as if an event of a left page went on; then the new worker is in charge from the next visit.
async function allKeptAfterVisits(tab, address, of) {
  let lacking;
  for (let visits = 0; visits < 5; visits += 1) {
    await tab.goto(address);
    for (let tries = 0; tries < 60; tries += 1) {
      lacking = await missing(tab, of);
      if (lacking.length === 0 && (await tab.evaluate(() => crossOriginIsolated).catch(() => false))) return;
      await tab.waitForTimeout(100);
    }
    await tab.goto("about:blank");
    await tab.waitForTimeout(500);
  }
  assert.fail(`after five visits: ${lacking.join() || "not isolated"}`);
}
const registrations = (page) => page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length);

/// Another program on a port: a page at every address that is not listed here.
async function otherProgram(port, answers = {}) {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request.url);
    const [type, body] = answers[request.url] ?? ["text/html", "<!doctype html><title>Another program</title><p>It is here now."];
    response.writeHead(200, { "Content-Type": type }).end(body);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { address: `http://127.0.0.1:${server.address().port}/`, asked, close };
}

/// By name, for a built page and the means of the caller to open it.
export const offlineTests = ({ dist, openOn, enabledRun }) => ({
  async "works without a network once it has been seen"() {
    const own = await serve(dist, { isolated: false });
    const page = await openOn(own.address);
    await isolated(page);
    await enabledRun(page);
    await allKept(page);
    // The page's program, and the script and the program that measure.
    const urls = await kept(page);
    for (const part of [/parallax-web-\w+_bg\.wasm$/, /parallax_worker\.js$/, /parallax_worker_bg\.wasm$/, /compilers\.js$/]) {
      assert.ok(urls.some((url) => part.test(url)), `${part} of ${urls}`);
    }
    const measuring = () => page.workers().filter((worker) => worker.url().endsWith("/measuring.js")).length;
    const workers = measuring();
    own.close();
    await page.reload();
    await enabledRun(page);
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
    // The one that measures, and those in which its threads compute.
    assert.equal(measuring(), workers);
    await page.context().close();
  },

  async "isolates itself where the server does not"() {
    const plain = await serve(dist, { isolated: false });
    const page = await openOn(plain.address);
    await isolated(page);
    await enabledRun(page);
    assert.doesNotMatch(await page.textContent("#device"), /not isolated/);
    assert.equal(await (await measuringWorker(page)).evaluate(() => crossOriginIsolated), true);
    await page.context().close();
    plain.close();
  },

  async "has no service worker where the server isolates, and ends one that is left"() {
    const plain = await serve(dist, { isolated: false });
    const page = await openOn(plain.address);
    await isolated(page);
    plain.close();
    const own = await serve(dist, { port: plain.port });
    await page.reload();
    await until(page, async () => (await navigator.serviceWorker.getRegistrations()).length === 0, "it is still registered");
    await page.goto(own.address);
    assert.equal(await page.evaluate(() => navigator.serviceWorker.controller), null);
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
    await page.waitForTimeout(1000);
    assert.deepEqual([await registrations(page), await page.evaluate(() => caches.keys())], [0, []]);
    await page.context().close();
    own.close();
  },

  async "gives the server's answer where a copy cannot be kept"() {
    const folder = await mkdtemp(join(tmpdir(), "parallax-page-"));
    const front = join(folder, "index.html");
    // A browser without room for the site, and an answer that forbids copies.
    for (const more of [{}, { Vary: "*" }]) {
      await cp(dist, folder, { recursive: true });
      const own = await serve(folder, { isolated: false, more });
      const page = await openOn(own.address);
      await isolated(page);
      if (more.Vary) assert.deepEqual(await kept(page), []);
      const session = await page.context().newCDPSession(page);
      await session.send("Storage.overrideQuotaForOrigin", { origin: new URL(own.address).origin, quotaSize: 1 });
      await writeFile(front, (await readFile(front, "utf8")).replace("<title>Parallax</title>", "<title>A new version</title>"));
      await writeFile(join(folder, "new.js"), "export const x = 1;");
      await page.reload();
      assert.equal(await page.title(), "A new version");
      assert.deepEqual(await page.evaluate(() => fetch("./new.js").then((r) => [r.status, r.statusText])), [200, "OK"]);
      assert.equal(await page.evaluate(() => crossOriginIsolated), true);
      // The older page, whose files are gone, is no answer to anything.
      await until(page, async () => !(await caches.match("./")), "the older page is kept");
      await page.context().close();
      own.close();
    }
    await rm(folder, { recursive: true });
  },

  async "keeps the files that the page listed, and nothing else"() {
    const own = await serve(dist, { isolated: false });
    const page = await openOn(own.address);
    await isolated(page);
    await until(page, async () => (await (await caches.open("parallax-page")).keys()).length > 3, "nothing is kept");
    await page.evaluate(() => Promise.all(["./other.json", "./?a=b", "./open-trace.html", "./worker.js", "./alive.js"].map((path) => fetch(path))));
    await page.waitForTimeout(300);
    const listed = await page.evaluate(() => new URL(navigator.serviceWorker.controller.scriptURL).searchParams.getAll("file"));
    const paths = (await kept(page)).map((url) => url.slice(own.address.length));
    assert.ok(paths.includes("") && paths.includes("alive.js"), paths.join());
    assert.deepEqual(paths.filter((path) => path !== "" && !listed.includes(path)), []);
    assert.ok(listed.length < 40 && listed.every((path) => /\.(js|css|wasm)$/.test(path)), listed.join());
    await page.context().close();
    own.close();
  },

  async "leaves another program on its port alone"() {
    const elsewhere = await otherProgram(0, { "/pixel.gif": ["image/gif", PIXEL] });
    for (const path of ["", "index.html?preset=quick", "elsewhere/", "alive.js"]) {
      const own = await serve(dist, { isolated: false });
      const page = await openOn(own.address);
      await isolated(page);
      // The last of its files: from then on the page asks for nothing more.
      await allKept(page);
      await page.waitForTimeout(500);
      own.close();
      const body = `<!doctype html><title>Another program</title><img src="${elsewhere.address}pixel.gif"><script src="/alive.js"></script>`;
      const other = await otherProgram(own.port, { [`/${path}`]: ["text/html", body], "/alive.js": ["text/javascript", "window.other = true"] });
      if (path === "alive.js") {
        // Its script, where a file of the page was.
        await page.goto(`${own.address}somewhere`);
        await page.addScriptTag({ url: "/alive.js" });
        assert.ok(await page.evaluate(() => window.other));
      } else {
        await page.goto(own.address + path);
        assert.equal(await page.title(), "Another program");
        assert.equal(await page.evaluate(() => document.images[0].naturalWidth), 1, "its image is there");
        assert.deepEqual(await page.evaluate(() => [crossOriginIsolated, window.other]), [false, true]);
      }
      const copies = page.evaluate(async () => ((await caches.match("/alive.js")) ? (await caches.match("/alive.js")).text() : ""));
      assert.ok(!(await kept(page)).some((url) => /elsewhere|somewhere/.test(url)) && !(await copies).includes("window.other"));
      const seen = ["", "index.html?preset=quick"].includes(path);
      if (seen) {
        const gone = async () => [...(await navigator.serviceWorker.getRegistrations()), ...(await caches.keys())].length === 0;
        await until(page, gone, `the worker or its copies stay: ${path}`);
      }
      await other.close();
      await assert.rejects(page.goto(seen ? own.address : `${own.address}somewhere`), /ERR_CONNECTION_REFUSED/);
      await page.context().close();
    }
    await elsewhere.close();
  },
});

/// The same for the page of the lab. `compared` runs two kernels that agree, and checks their result.
export const labOfflineTests = ({ dist, openOn, compared }) => ({
  async "works without a network once it has been opened"() {
    // Below a folder, as in a site.
    const own = await serve(dist, { isolated: false, below: "/run" });
    const page = await openOn(`${own.address}run/lab/`);
    await isolated(page);
    await allKept(page, LAB);
    own.close();
    await page.goto(`${own.address}run/lab/index.html`);
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
    await compared(page);
    await page.context().close();
  },

  async "has one service worker with the page that measures"() {
    const own = await serve(dist, { isolated: false });
    const page = await openOn("about:blank");
    await allKeptAfterVisits(page, own.address, MEASURING);
    await allKeptAfterVisits(page, `${own.address}lab/`, LAB);
    assert.equal(await registrations(page), 1);
    own.close();
    // Neither page displaces the files of the other.
    for (const of of [MEASURING, LAB]) {
      await page.goto(own.address + of.page);
      await allKept(page, of);
      await page.locator("#run:enabled, #compare:enabled").waitFor();
    }
    await compared(page);
    await page.context().close();
  },

  async "is isolated by its own worker, not by a late one of the page that measures"() {
    const own = await serve(dist, { isolated: false });
    const held = {};
    held.here = new Promise((go) => (held.go = go));
    held.seen = new Promise((see) => (held.see = see));
    const page = await openOn("about:blank");
    // The second version, with the program that measures, waits until the lab is open.
    const isSecond = (url) => url.pathname === "/worker.js" && url.searchParams.getAll("file").some((path) => /_worker_bg\.wasm$/.test(path));
    await page.context().route(isSecond, async (route) => (held.see(), await held.here, route.continue()));
    await page.goto(own.address);
    await held.seen;
    await page.goto(`${own.address}lab/`);
    await page.locator("#compare:enabled").waitFor();
    held.go();
    await isolated(page);
    await page.context().close();
    own.close();
  },

  async "is not loaded anew after a kernel was given"() {
    const own = await serve(dist, { isolated: false });
    const held = {};
    held.here = new Promise((go) => (held.go = go));
    const page = await openOn("about:blank");
    // The service worker's own requests pass here, too.
    await page.context().route("**/worker.js?*", async (route) => (await held.here, route.continue()));
    await page.goto(`${own.address}lab/`);
    await page.fill("#text-a", "// mine");
    held.go();
    await controlled(page);
    await allKept(page, LAB);
    assert.equal(await page.inputValue("#text-a"), "// mine");
    assert.equal(await page.evaluate(() => crossOriginIsolated), false);
    await page.context().close();
    own.close();
  },
});
