// Input from outside: files that break their reader, names that write backwards, addresses and frames of other sites, and a
// browser without room.

import { strict as assert } from "node:assert";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { serve } from "./serve.mjs";

/// Bytes that the program that reads files may have besides those it begins with: more than the good files take, less than the large one.
const ROOM = 14 << 20;
const PAGE = 65_536;
const RIGHT_TO_LEFT = "\u202e";

/// A number of WebAssembly: seven bits a byte, the lowest first.
function number(bytes, at) {
  let value = 0;
  for (let shift = 0; ; shift += 7, at += 1) {
    value += (bytes[at] & 0x7f) * 2 ** shift;
    if (bytes[at] < 0x80) return [value, at + 1];
  }
}

function written(value) {
  const bytes = [];
  do bytes.push((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
  while ((value >>= 7) > 0);
  return Buffer.from(bytes);
}

/// A program whose memory ends after `room` bytes more than it begins with: its section of memories has a largest size.
function withRoom(program, room) {
  for (let at = 8; at < program.length; ) {
    const [size, begin] = number(program, at + 1);
    if (program[at] === 5) {
      const [count, flags] = number(program, begin);
      const [least] = number(program, flags + 1);
      assert.ok(count === 1 && (program[flags] & 1) === 0, "one memory that may grow");
      const section = Buffer.concat([Buffer.from([1, 1]), written(least), written(least + room / PAGE)]);
      return Buffer.concat([program.subarray(0, at + 1), written(section.length), section, program.subarray(begin + size)]);
    }
    at = begin + size;
  }
  return assert.fail("the program has no memory");
}

/// A page of another origin with this frame.
export async function around(frame) {
  const server = createServer((_, response) => response.writeHead(200, { "Content-Type": "text/html" }).end(frame));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { address: `http://127.0.0.1:${server.address().port}/`, close: () => (server.closeAllConnections(), server.close()) };
}

/// A page of another origin that shows an address in a frame.
const framing = (address) => around(`<iframe src="${address}" style="width: 100%; height: 600px"></iframe>`);

/// By name, for a built page and the means of the caller to open it. `recorded` is a folder of run files.
export const outsideTests = ({ dist, server, open, openOn, enabledRun, finished, download, narrowAndWide, recorded, brief }) => {
  const file = async (name) => ({ name, buffer: await readFile(join(recorded, name)), mimeType: "application/json" });
  const comparing = async (page) => {
    await page.goto(`${server.address}?view=compare`);
    await page.locator("#compare-section:not([inert])").waitFor();
  };

  return {
    async "names the file that breaks its reader, and reads the next"() {
      const page = await openOn("about:blank", undefined, { serviceWorkers: "block" });
      await page.context().route("**/parallax-reports_bg.wasm*", async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, body: withRoom(await response.body(), ROOM) });
      });
      await comparing(page);
      const large = { name: "large.json", buffer: Buffer.from(`{"schema":"parallax.run","x":"${"x".repeat(15 << 20)}"}`), mimeType: "application/json" };
      await page.setInputFiles("#compare-files", [await file("browser.json"), large, await file("cuda.json")]);
      await page.locator("#compare-result .costs").first().waitFor();
      assert.deepEqual(await page.locator("#compare-chips b").allInnerTexts(), ["browser", "cuda"]);
      const refused = await page.locator("#compare-refused li").allInnerTexts();
      assert.equal(refused.length, 1, refused.join("\n"));
      assert.match(refused[0], /^large: reading it needs more memory than there is, or hit a bug.*please report this, with the file\.$/);
      assert.equal(await page.innerText("#compare-line"), "");
      await narrowAndWide(page, "file-broke");
      assert.deepEqual(page.problems, []);
    },

    async "reports the end of its own memory, and the step"() {
      const page = await open("?view=compare");
      await page.locator("#compare-section:not([inert])").waitFor();
      await page.evaluate(() => {
        document.documentElement.dataset.at = "large";
        document.querySelector("#compare-line").textContent = "Comparing …";
        setTimeout(() => {
          throw new WebAssembly.RuntimeError("unreachable");
        });
      });
      await page.getByText(/This page stopped working\..*out of memory, or hit a bug, at large\. Reload it\./).waitFor();
      assert.equal(await page.innerText("#compare-line"), "");
      await narrowAndWide(page, "trapped");
    },

    async "shows characters of names that would turn the line as their codes"() {
      const page = await openOn("about:blank", undefined, { serviceWorkers: "block" });
      await comparing(page);
      const run = JSON.parse((await file("browser.json")).buffer);
      run.environment.device_name = `a${RIGHT_TO_LEFT}b`;
      const named = { name: `c${RIGHT_TO_LEFT}d.json`, buffer: Buffer.from(JSON.stringify(run)), mimeType: "application/json" };
      const broken = { name: `e${RIGHT_TO_LEFT}f.json`, buffer: Buffer.from(`{"schema":"g${RIGHT_TO_LEFT}h"}`), mimeType: "application/json" };
      await page.setInputFiles("#compare-files", [named, broken]);
      await page.locator("#compare-chips li").waitFor();
      await page.locator("#compare-refused li").waitFor();
      const [chip, refused] = [await page.innerText("#compare-chips"), await page.innerText("#compare-refused")];
      for (const text of ["a\\u{202e}b", "c\\u{202e}d"]) assert.ok(chip.includes(text), chip);
      for (const text of ["e\\u{202e}f", "g\\u{202e}h"]) assert.ok(refused.includes(text), refused);
      for (const part of ["#compare-chips", "#compare-refused"]) {
        assert.ok(!(await page.locator(part).evaluate((element) => element.outerHTML)).includes(RIGHT_TO_LEFT), part);
      }
      // A setting of the address, which a notice quotes.
      const query = await open(`?preset%E2%80%AEt=quick`);
      await query.locator("[data-notice=query]").waitFor();
      assert.ok((await query.innerText("#notices")).includes("preset\\u{202e}t"));
      assert.deepEqual(page.problems, []);
    },

    async "does nothing inside another site"() {
      for (const query of ["", "?view=compare", "?report=/api/events"]) {
        server.events.length = 0;
        const around = await framing(server.address + query);
        const page = await openOn(around.address, undefined, { serviceWorkers: "block" });
        const frame = page.frameLocator("iframe");
        await frame.getByText("This page is shown inside another site.").waitFor();
        assert.ok(await frame.locator("#run").isDisabled());
        await page.waitForTimeout(500);
        assert.deepEqual([page.workers().length, server.events], [0, []]);
        const [alone] = await Promise.all([page.waitForEvent("popup"), frame.getByRole("link", { name: "Open it in a tab" }).click()]);
        await enabledRun(alone);
        assert.equal(alone.url(), server.address);
        await narrowAndWide(page, "framed");
        await page.context().close();
        around.close();
      }
    },

    async "sends results to its own server only, whatever an address says"() {
      for (const path of ["/%09/elsewhere.example/x", "/%0A/elsewhere.example/x", "/%5C/elsewhere.example", "//elsewhere.example/x", "%09//elsewhere.example"]) {
        const page = await openOn("about:blank", undefined, { serviceWorkers: "block" });
        const asked = [];
        page.context().on("request", (request) => asked.push(request.url()));
        await page.goto(`${server.address}?report=${path}&${brief}`);
        await page.getByText("is not a path that begins with /").waitFor();
        assert.ok(await page.locator("#run").isDisabled());
        assert.deepEqual(asked.filter((url) => !url.startsWith(server.address)), []);
        assert.deepEqual(page.problems, []);
        await page.context().close();
      }
    },

    async "begins no run by itself where no command line takes the results"() {
      // One refuses, and one answers everything with a page, as servers for development do.
      const page = await openOn("about:blank", undefined, { serviceWorkers: "block" });
      for (const answer of [undefined, { status: 200, contentType: "text/html", body: "<!doctype html><title>Anything</title>" }]) {
        if (answer) await page.context().route("**/x", (route) => route.fulfill(answer));
        await page.goto(`${server.address}?report=/x&${brief}`);
        await page.getByText("No run began.").waitFor();
        assert.match(await page.innerText("#notices"), /its results at `\/x`/);
        assert.ok(await page.locator("#run").isDisabled());
        await page.waitForTimeout(500);
        assert.equal(await page.locator("tr[data-case], #stop:visible").count(), 0);
        await narrowAndWide(page, "unasked");
        await page.getByRole("link", { name: "Choose the cases here" }).click();
        await enabledRun(page);
        assert.ok(!page.url().includes("report") && page.url().includes(brief.split("&")[0]), page.url());
      }
    },

    async "says that a run is not kept, and offers it as a file"() {
      // No room, and a browser that keeps nothing.
      for (const before of [undefined, () => Object.defineProperty(globalThis, "indexedDB", { value: undefined })]) {
        const own = await serve(dist);
        const page = await openOn(`${own.address}?${brief}`, before, { serviceWorkers: "block" });
        await enabledRun(page);
        const session = await page.context().newCDPSession(page);
        if (!before) await session.send("Storage.overrideQuotaForOrigin", { origin: new URL(own.address).origin, quotaSize: 1 });
        await page.click("#run");
        await finished(page);
        await page.locator("[data-notice=not-kept]").waitFor();
        assert.match(await page.innerText("[data-notice=not-kept]"), /does not keep the run.*Download the results before you leave/s);
        assert.equal(await page.getByText("A run was not finished.").count(), 0);
        const { data } = await download(page, "[data-notice=not-kept] button");
        assert.deepEqual(data.records.map((record) => record.outcome), ["pass"]);
        await narrowAndWide(page, before ? "keeps-nothing" : "no-room");
        // One that can be kept says nothing.
        if (!before) {
          await session.send("Storage.overrideQuotaForOrigin", { origin: new URL(own.address).origin });
          await page.click("#run");
          await page.locator("#stop:visible").waitFor();
          await finished(page);
          await page.locator("#history li").last().waitFor();
          assert.equal(await page.locator("[data-notice=not-kept]").count(), 0);
        }
        assert.deepEqual(page.problems, []);
        await page.context().close();
        own.close();
      }
    },
  };
};
