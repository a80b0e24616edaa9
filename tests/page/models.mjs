// Models of the command line in a page, against the same models on the processor.
//
//   node models.mjs PROGRAM DIST_DIR [PART OF THE NAMES OF TESTS]

import { strict as assert } from "node:assert";
import { spawn } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { end, runTests } from "./tests.mjs";

const [program, dist] = process.argv.slice(2, 4).map((path) => resolve(path));
const folder = await mkdtemp(join(tmpdir(), "parallax-models-"));
const TARGETS = ["browser", "wasm"];
/// Largest difference of a logit, over the largest logit, as the program has it.
const TOLERANCE = 2 ** -10;

/// Runs the program in the folder, and interrupts it after some milliseconds. Resolves to its exit code and its words.
function parallax(args, { page = dist, interrupted } = {}) {
  const child = spawn(program, ["model", ...args, "--page", page], { cwd: folder });
  const output = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"]) child[stream].on("data", (data) => (output[stream] += data));
  if (interrupted) setTimeout(() => child.kill("SIGINT"), interrupted);
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, ...output })));
}

/// Runs a model on a target, and returns its run and the floats of its logits.
async function answered(model, data, target, extra = []) {
  const name = `${model}-${data}-${target}`;
  const { code, stdout, stderr } = await parallax([model, "--data", data, "--target", target, "--output", `${name}.json`, "--arrays", name, ...extra]);
  assert.equal(code, 0, `${name}: ${stderr}`);
  const run = JSON.parse(await readFile(join(folder, `${name}.json`), "utf8"));
  return { run, stdout, ...await array(join(folder, name, "logits.npy")), inputs: await readFile(join(folder, name, "inputs.npy")) };
}

/// The shape and the floats of a NumPy file.
async function array(path) {
  const bytes = await readFile(path);
  const start = 10 + bytes.readUInt16LE(8);
  const header = bytes.toString("latin1", 10, start);
  assert.match(header, /'descr': *'<f4'/);
  const [, shape] = header.match(/'shape': *\(([\d, ]+)\)/);
  const values = Array.from({ length: (bytes.length - start) / 4 }, (_, at) => bytes.readFloatLE(start + 4 * at));
  return { shape: shape.split(",").map((part) => part.trim()).filter(Boolean).map(Number), values };
}

const scores = (run) => Object.fromEntries(run.records[0].scores.map((score) => [score.name, score]));

/// Checks the answers of a page against those of the processor.
function agrees(ours, cpu, target) {
  assert.deepEqual([ours.shape, ours.inputs.equals(cpu.inputs)], [cpu.shape, true]);
  const largest = Math.max(1, ...cpu.values.map(Math.abs));
  const worst = Math.max(...ours.values.map((value, at) => Math.abs(value - cpu.values[at])));
  assert.ok(worst <= TOLERANCE * largest, `${target}: ${worst} of ${largest}`);
  assert.equal(ours.run.target, target);
  const [of, ofCpu] = [scores(ours.run), scores(cpu.run)];
  assert.ok(Math.abs(of["logit difference"].value - worst) <= 1e-6 * largest, `${of["logit difference"].value} and ${worst}`);
  assert.equal(of["equal predictions"].value, 1);
  for (const name of Object.keys(ofCpu)) assert.ok(of[name], `${target} lacks ${name}`);
  // A page's program and this one have the same inputs and the same layers.
  assert.deepEqual([ours.run.records[0].case, ours.run.records[0].cost], [cpu.run.records[0].case, cpu.run.records[0].cost]);
  assert.ok(of["latency p50, ms"].value > 0 && Object.keys(of).some((name) => /\/s$/.test(name)));
  return [of, ofCpu];
}

const tests = {
  async "classifies on the GPU and on the processor of a page as on the processor"() {
    const cpu = await answered("classify", "breast-cancer", "cpu");
    assert.deepEqual(cpu.shape, [113, 2]);
    for (const target of TARGETS) {
      const ours = await answered("classify", "breast-cancer", target);
      const [of, ofCpu] = agrees(ours, cpu, target);
      assert.equal(of.accuracy.value, ofCpu.accuracy.value);
      assert.match(ours.stdout, /113 held-out rows, seed 1/);
      const { environment, suite, devices } = ours.run;
      assert.ok(environment.browser_version && environment.user_agent && environment.os, JSON.stringify(environment));
      assert.equal(environment.cross_origin_isolated, "true");
      assert.ok(suite.version && devices[0].name, JSON.stringify(suite));
    }
  },

  async "tags entities and recognises images in a page"() {
    for (const [model, data] of [["ner", "notes"], ["image", "digits"]]) {
      const cpu = await answered(model, data, "cpu");
      // The software adapter takes minutes for both.
      const targets = process.env.PARALLAX_TESTS === "all" ? TARGETS : ["wasm"];
      for (const target of targets) agrees(await answered(model, data, target), cpu, target);
    }
  },

  async "takes texts, which the processor embeds"() {
    const line = (at) => JSON.stringify(at % 2 ? { text: `fracture of bone ${at}`, label: "injury" } : { text: `fever for ${at} days`, label: "infection" });
    await writeFile(join(folder, "texts.jsonl"), Array.from({ length: 40 }, (_, at) => `${line(at)}\n`).join(""));
    const training = ["train", "classify", "--data", "texts.jsonl", "--steps", "100", "--batch", "16", "--hidden", "8", "--weights", "w.safetensors", "--target", "cpu"];
    const trained = spawn(program, training, { cwd: folder, stdio: "ignore" });
    assert.equal(await new Promise((resolve) => trained.on("close", resolve)), 0);
    const weights = ["--weights", "w.safetensors"];
    const cpu = await answered("classify", "texts.jsonl", "cpu", weights);
    agrees(await answered("classify", "texts.jsonl", "wasm", weights), cpu, "wasm");
  },

  async "a page that fails, or has no program for models, is one error"() {
    const broken = join(folder, "broken");
    await cp(dist, broken, { recursive: true });
    const refused = async (said) => {
      const { code, stderr } = await parallax(["classify", "--target", "wasm", "--output", "none.json"], { page: broken });
      assert.equal(code, 2, stderr);
      const lines = stderr.trim().split("\n");
      assert.ok(lines.length === 1 && said.test(lines[0]), stderr);
      await assert.rejects(readFile(join(folder, "none.json")));
    };
    const worker = join(broken, "models/worker.js");
    await writeFile(worker, 'throw new Error("no such thing");');
    await refused(/target wasm: the page cannot compute the model: .*no such thing/);
    const passes = 'onmessage = ({ data: { job } }) => fetch(job, { method: "PUT", body: "nonsense" });';
    await writeFile(worker, passes);
    await refused(/target wasm: the page cannot compute the model: this is no file of safetensors/);
    await writeFile(join(broken, "models/parallax_models_worker_bg.wasm"), "nonsense");
    await cp(join(dist, "models/worker.js"), worker);
    await refused(/target wasm: the page cannot compute the model: /);
    await rm(join(broken, "models"), { recursive: true });
    await refused(/target wasm: the page in .* has no program for models; build it again with `\.\/x page`/);
  },

  async "an interruption ends the browser, without scores"() {
    const slow = join(folder, "slow");
    await cp(dist, slow, { recursive: true });
    // A worker that never answers.
    await writeFile(join(slow, "models/worker.js"), "onmessage = () => {};");
    const { code, stderr } = await parallax(["classify", "--target", "wasm", "--output", "none.json"], { page: slow, interrupted: 3000 });
    assert.equal(code, 1, stderr);
    assert.match(stderr, /stopped on request: there are no scores/);
    await assert.rejects(readFile(join(folder, "none.json")));
  },
};

await runTests(tests, { wanted: process.argv[4] });
await end(rm(folder, { recursive: true }));
