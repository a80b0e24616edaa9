// The page that compares two kernels of the visitor, in a real browser on its software adapter.
//
//   node lab.mjs DIST_DIR ARTEFACT_DIR [PART OF THE NAMES OF TESTS]

import { strict as assert } from "node:assert";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { deflateRawSync } from "node:zlib";
import { accessible } from "./accessible.mjs";
import { launch } from "./browser.mjs";
import { hostile } from "./hostile.mjs";
import { labOfflineTests } from "./offline.mjs";
import { end, runTests } from "./tests.mjs";
import { serve } from "./serve.mjs";

const [dist = "dist", artefacts = "tests/artefacts"] = process.argv.slice(2).map((path) => resolve(path));
const server = await serve(dist);
let browser = await launch();
await mkdir(artefacts, { recursive: true });

let opened;
async function open(fragment = "", { width = 1280, colorScheme = "light" } = {}) {
  return openOn(`${server.address}lab/${fragment}`, { viewport: { width, height: 900 }, colorScheme, serviceWorkers: "block" });
}

/// Opens an address with settings of the browser.
async function openOn(address, settings = {}) {
  const context = await browser.newContext(settings);
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  opened = page;
  page.setDefaultTimeout(40_000);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  page.on("request", (request) => new URL(request.url()).origin === new URL(address).origin || page.problems.push(`asked for ${request.url()}`));
  await page.goto(address);
  return page;
}

/// A kernel source with `x` (read), `y` (read_write) and a body that sees the global index `i`.
const text = (body, type = "f32") => `@group(0) @binding(0) var<storage, read> x: array<${type}>;
@group(0) @binding(1) var<storage, read_write> y: array<${type}>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
let i = at.x;
${body}
}
`;
const DOUBLE = text("y[i] = 2.0 * x[i];");

/// Fills both kernels and short settings.
async function fill(page, a, b, { elements = "4096", budget = "0.5", limit = "10" } = {}) {
  for (const [id, value] of Object.entries({ "text-a": a, "text-b": b, elements, budget, limit })) await page.fill(`#${id}`, value);
}

/// Runs, and waits for a result or a failure. Returns its words.
async function run(page) {
  await page.click("#compare");
  await page.locator("#result:not([hidden]), #failure .notice").first().waitFor();
  await page.locator("#compare:enabled").waitFor();
  const failure = page.locator("#failure .notice");
  return (await failure.count()) ? failure.innerText() : page.locator("#result").innerText();
}

/// Runs two kernels that agree.
async function compared(page) {
  await fill(page, DOUBLE, DOUBLE);
  assert.match(await run(page), /The outputs agree\./);
}

/// A file of `numpy.save` with float32.
function npy(values) {
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${values.length},), }`;
  const head = Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, header.length & 255, header.length >> 8]);
  return Buffer.concat([head, Buffer.from(header), Buffer.from(new Float32Array(values).buffer)]);
}

/// Drops a file on an element.
async function drop(page, selector, name, bytes) {
  const data = await page.evaluateHandle(([name, bytes]) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], name));
    return data;
  }, [name, [...bytes]]);
  await page.dispatchEvent(selector, "drop", { dataTransfer: data });
}

const tests = {
  async "the example agrees and is timed, on a phone and on a desk"() {
    for (const [width, colorScheme] of [[360, "dark"], [1280, "light"]]) {
      const page = await open("", { width, colorScheme });
      await page.screenshot({ path: join(artefacts, `lab-empty-${width}.png`), fullPage: true });
      await page.click("#example");
      await page.locator("#bindings tr").nth(1).waitFor();
      assert.match(await page.innerText("#reflected"), /A launches 16384×1×1 workgroups of 64×1×1 threads; B launches 4096/);
      await page.fill("#budget", "1");
      const said = await run(page);
      assert.match(said, /The outputs agree\./, said);
      assert.match(said, /B over A: [\d.]+× \[/, said);
      assert.equal(await page.locator("#times tr").count(), 2);
      assert.equal(await page.evaluate(() => document.activeElement.id), "sentence");
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${overflow} px too wide at ${width}`);
      await accessible(page, `lab at ${width}`);
      await page.screenshot({ path: join(artefacts, `lab-${width}.png`), fullPage: true });
      assert.deepEqual(page.problems, []);
    }
  },

  async "outputs that differ are shown, without a time"() {
    const page = await open();
    await fill(page, DOUBLE, text("y[i] = 2.0 * x[i]; if i >= 4000u { y[i] = 0.5; }"));
    const said = await run(page);
    assert.match(said, /No time is shown, because the outputs differ: `y`\./);
    assert.match(said, /\[4000\]: .* in A, 0\.5 in B/);
    assert.equal(await page.locator("#times-card").isVisible(), false);
    await page.screenshot({ path: join(artefacts, "lab-differs-1280.png"), fullPage: true });
  },

  async "a fault names its line or its binding"() {
    const page = await open();
    for (const [b, part] of [
      [text("y[i] = 2.0 * ;"), "B, line 6: "],
      [text("y[i] = q;"), "B, line 6: "],
      [DOUBLE.replace("binding(1)", "binding(2)"), "binding 0.1 does not match: "],
      [DOUBLE.replace("workgroup_size(64)", "workgroup_size(16384)"), "B: 16384 threads in a workgroup, the limit of this device is "],
      [DOUBLE.replace("workgroup_size(64)", "workgroup_size(1000000)"), "B"],
      [`${DOUBLE}${"/".repeat(70_000)}`, "the limit is 65536"],
      [text(`y[i] = ${"(".repeat(30_000)}1.0${")".repeat(30_000)};`), "nested too deeply"],
    ]) {
      await fill(page, DOUBLE, b);
      const said = await run(page);
      assert.ok(said.includes(part), `${said.slice(0, 400)} lacks ${part}`);
    }
    await fill(page, DOUBLE, text("y[i] = q;"));
    await page.locator("#reflected", { hasText: "B, line 6" }).waitFor();
    for (const [field, value, part] of [
      ["workgroups-a", "0", "A: write one to three numbers of workgroups"],
      ["workgroups-a", "100000", "A: 100000 workgroups in one dimension"],
      ["elements", "1e99", "The field elements takes a whole number"],
      ["elements", "999999999999", "the limit is 1073741824"],
      ["tolerance", "x", "The tolerance takes a number"],
    ]) {
      await fill(page, DOUBLE, DOUBLE);
      await page.fill("#workgroups-a", "");
      await page.fill("#tolerance", "");
      await page.fill(`#${field}`, value);
      const said = await run(page);
      assert.ok(said.includes(part), `${said} lacks ${part}`);
    }
  },

  async "a link has both kernels, and runs nothing"() {
    const page = await open();
    const second = text("y[i] = x[i] + x[i]; // ½ × 2");
    await fill(page, DOUBLE, second, { elements: "777" });
    await page.locator("#bindings tr").nth(1).waitFor();
    await page.locator("#bindings tr").nth(1).locator("input[type=text]").fill("1, 2");
    await page.click("#link");
    await page.locator("#line", { hasText: "clipboard" }).waitFor();
    const address = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(address.includes("/lab/#lab=") && address.length < 1500, address);
    const other = await open(new URL(address).hash);
    await other.locator("#line", { hasText: "They run only when you press Run" }).waitFor();
    assert.equal(await other.inputValue("#text-a"), DOUBLE);
    assert.equal(await other.inputValue("#text-b"), second);
    assert.equal(await other.inputValue("#elements"), "777");
    await other.locator("#bindings tr").nth(1).waitFor();
    assert.equal(await other.locator("#bindings tr").nth(1).locator("input[type=text]").inputValue(), "1, 2");
    assert.equal(await other.locator("#result").isVisible(), false);
    const broken = await open("#lab=AAAA");
    await broken.locator("#failure", { hasText: "The link cannot be read" }).waitFor();
  },

  async "files are dropped as kernels and as contents"() {
    const page = await open();
    await page.fill("#elements", "64");
    await page.fill("#budget", "0.5");
    await drop(page, "[data-label=a]", "a.wgsl", Buffer.from(DOUBLE));
    await drop(page, "[data-label=b]", "b.wgsl", Buffer.from(text("y[i] = x[i] + 4.0;")));
    await page.locator("#bindings tr").nth(1).waitFor();
    // Both give eight for an input of four.
    assert.match(await run(page), /outputs differ/);
    await drop(page, "#bindings tr:first-child", "x.npy", npy(new Array(64).fill(4)));
    await page.locator("#bindings tr:first-child input[placeholder=file]").waitFor();
    assert.match(await run(page), /The outputs agree\./);
    await drop(page, "#bindings tr:first-child", "x.npy", Buffer.from("no array"));
    await page.locator("#reflected", { hasText: "not a NumPy array file" }).waitFor();
    assert.deepEqual(page.problems, []);
  },

  async "indices out of bounds leave the page alive"() {
    const page = await open();
    await fill(page, DOUBLE, text("y[i + 1000000000u] = x[i * 77777u] + y[4294967295u - i];"));
    assert.match(await run(page), /outputs differ/);
    await compared(page);
    assert.deepEqual(page.problems, []);
  },

  async "an endless loop ends in a message, and the page runs again"() {
    const page = await open();
    await fill(page, DOUBLE, text("loop { y[i] += 1.0; if x[i] > 1e30 { break; } }"), { elements: "256" });
    const said = await run(page);
    assert.match(said, /B: a loop has 1048576 iterations in one invocation and does not end/, said);
    await page.screenshot({ path: join(artefacts, "lab-endless-1280.png"), fullPage: true });
    await compared(page);
    assert.deepEqual(page.problems, []);
  },

  async "hostile kernels end in a message that names them, and the page runs again"() {
    const page = await open();
    const endings = { refused: ["message"], failed: ["message"], compared: ["result"], either: ["message", "result"] };
    for (const { name, text, ends, says, both } of hostile) {
      await fill(page, DOUBLE, "", { budget: "0.1" });
      await page.fill("#iterations", "2000");
      // Megabytes come as a file, and are never shown.
      const long = text.length > 65_536;
      if (long) await drop(page, "[data-label=b]", "b.wgsl", Buffer.from(text));
      else await page.locator("#text-b").evaluate((field, text) => { field.value = text; }, text);
      const said = long ? await page.locator("#failure .notice").innerText() : await run(page);
      const message = await page.locator("#failure .notice").count();
      assert.ok(endings[ends].includes(message ? "message" : "result"), `${name}: ${said}`);
      if (!message) continue;
      assert.ok(said.includes(says) && (both || said.startsWith("B")), `${name}: ${said} lacks ${says}`);
      assert.doesNotMatch(said, /[\u202a-\u202e\u2066-\u2069\u001b]/, name);
    }
    await compared(page);
    // A trap of the compiler is an error of the worker, and no other error reaches the page.
    assert.deepEqual(page.problems.filter((problem) => !/^RuntimeError|^RangeError|Uncaught RuntimeError/.test(problem)), []);
  },

  async "a broken or a swollen link ends in a message"() {
    const packed = (text) => deflateRawSync(Buffer.from(text)).toString("base64url");
    for (const [fragment, part] of [
      ["AAAA", ""],
      ["%%%", ""],
      [packed("{}").slice(0, 2), ""],
      [packed("null"), "it has no kernels"],
      [packed("[1]"), "it has no kernels"],
      [packed('"text"'), "it has no kernels"],
      [packed("{"), ""],
      [packed('{"given":5}'), ""],
      [packed('{"given":[5]}'), ""],
      [packed(JSON.stringify({ "text-a": "x".repeat(70_000) })), "A has 70000 bytes, the limit is 65536"],
      // 200 MB of zeros in 200 kB.
      [packed(Buffer.alloc(200 << 20)), "it is too long"],
    ]) {
      const page = await open(`#lab=${fragment}`);
      const notice = page.locator("#failure .notice");
      await notice.waitFor();
      const said = await notice.innerText();
      assert.ok(said.startsWith("The link cannot be read: ") && said.includes(part), `${fragment.slice(0, 40)}: ${said}`);
      await page.context().close();
    }
    const page = await open("#lab=AAAA");
    await compared(page);
  },

  async "a worker that does not answer is ended and replaced"() {
    const page = await open();
    // A worker of an isolated page is isolated too.
    const headers = { "Content-Type": "text/javascript", "Cross-Origin-Embedder-Policy": "require-corp" };
    await page.route("**/lab/worker.js", (route) => route.fulfill({ headers, body: "onmessage = () => { for (;;); };" }));
    await page.reload();
    await fill(page, DOUBLE, DOUBLE, { limit: "1" });
    await page.clock.install();
    await page.click("#compare");
    await page.locator("#stop").waitFor();
    await page.clock.runFor(32_000);
    await page.locator("#failure", { hasText: "The worker was ended and replaced" }).waitFor();
    await page.unroute("**/lab/worker.js");
    await page.click("#compare");
    await page.locator("#stop").click();
    await page.locator("#failure", { hasText: "The comparison was stopped." }).waitFor();
    assert.equal(await page.locator("#compare").isEnabled(), true);
  },

  ...labOfflineTests({ dist, openOn, compared }),
};

await runTests(tests, {
  wanted: process.argv[4],
  failed: (number) => opened?.screenshot({ path: join(artefacts, `lab-failed-${number}.png`) }).catch(() => {}),
  after: async () => {
    await Promise.race([Promise.all(browser.contexts().map((context) => context.close())), new Promise((done) => setTimeout(done, 10_000))]);
  },
});
await end(browser.close(), server.close());
