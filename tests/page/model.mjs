// Model of the user: a file becomes a plan, a run of the plan has the model's time, and other files change nothing.

import { strict as assert } from "node:assert";
import { mkdtemp, open as openFile, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const example = (name) => readFile(fileURLToPath(new URL(`../../core/model/examples/${name}`, import.meta.url)));

/// A configuration of few and small operations.
const CONFIG = {
  model_type: "bert",
  hidden_size: 16,
  intermediate_size: 32,
  num_hidden_layers: 2,
  num_attention_heads: 2,
  vocab_size: 50,
  max_position_embeddings: 64,
  hidden_act: "gelu",
};
const config = (fields) => Buffer.from(JSON.stringify({ ...CONFIG, ...fields }));

/// Field of a protobuf message: a number, or bytes with their length.
function field(number, value) {
  const varint = (n) => (n < 128n ? [Number(n)] : [Number(n & 127n) | 128, ...varint(n >> 7n)]);
  if (typeof value === "number") return Buffer.from([...varint(BigInt(number * 8)), ...varint(BigInt(value))]);
  const bytes = Buffer.isBuffer(value) ? value : Buffer.from(value);
  return Buffer.concat([Buffer.from([...varint(BigInt(number * 8 + 2)), ...varint(BigInt(bytes.length))]), bytes]);
}
const message = (...fields) => Buffer.concat(fields);

/// A graph of f32 with nodes, an input `x` of some dimensions, and weights.
function graph(nodes, dims, ...weights) {
  const shape = dims.map((dim) => field(1, field(typeof dim === "number" ? 1 : 2, dim)));
  const type = field(1, message(field(1, 1), field(2, message(...shape))));
  const input = message(field(1, "x"), field(2, type));
  const node = ([operator, inputs, output]) => field(1, message(...inputs.map((name) => field(1, name)), field(2, output), field(4, operator)));
  return field(7, message(...nodes.map(node), field(2, "g"), ...weights.map((weight) => field(5, weight)), field(11, input)));
}

/// Weights in a file outside the folder of the graph.
const outside = message(
  field(1, 1 << 20),
  field(1, 512),
  field(2, 1),
  field(8, "w"),
  field(13, message(field(1, "location"), field(2, "../../../etc/passwd"))),
  field(14, 1),
);

/// By name, for the means of the caller to open the built page.
export const modelTests = ({ server, open, enabledRun, finished, download, save, narrowAndWide }) => {
  const brief = "?budget=1&ceilings=off";
  const give = (page, name, buffer) => page.setInputFiles("#model-file", { name, buffer, mimeType: "application/octet-stream" });
  const drop = async (page, name, buffer) =>
    page.evaluate(
      ([name, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], name));
        dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
      },
      [name, buffer.toString("base64")],
    );
  const choose = (page, name, value) => page.locator(`#model-form [name="${name}"]`).fill(value).then(() => page.keyboard.press("Tab"));
  const planned = (page, said) => page.locator("#model").getByText(said).first().waitFor();

  return {
    async "measures the operations of a dropped model, and compares their times"() {
      const page = await open(brief);
      const asked = [];
      page.context().on("request", (request) => request.url().includes("/reports/") && asked.push(request.url()));
      await enabledRun(page);
      await drop(page, "encoder.onnx", await example("encoder.onnx"));
      await planned(page, /model encoder \(ONNX graph, batch 1, seq 128\)/);
      assert.ok(asked.length > 0, "the reader arrives with the first file");
      await choose(page, "dim.seq", "8");
      await planned(page, /batch 1, seq 8\)/);
      assert.match(await page.innerText("#model"), /31 of 31 executions are measured as 9 problems/);
      await page.locator("#model summary").click();
      assert.match(await page.innerText("#model table"), /attention\/fwd\/b1,h4,s8,d32\/f32/);
      assert.match(await page.innerText("#plan-line"), /^\d+ cases/);
      await narrowAndWide(page, "model");

      await page.click("#run");
      await page.locator("#model-section[inert]").waitFor({ state: "attached" });
      await finished(page);
      const times = page.locator("#model-time");
      await times.getByText(/^One pass of encoder takes [\d.]+ [nµm]?s \[/).waitFor();
      assert.match(await times.innerText(), /attention\/fwd\/b1,h4,s8,d32\/f32[^]*%/);
      await narrowAndWide(page, "model-times");

      const run = await download(page, "#download-json");
      const { model, spec, records } = run.data;
      assert.deepEqual([model.name, model.format, model.extents], ["encoder", "onnx", { batch: 1, seq: 8 }]);
      const problems = model.operations.flatMap((operation) => operation.coverage.problem?.problem ?? []);
      assert.deepEqual(spec.problem, [...new Set(problems)]);
      assert.ok(records.every((record) => spec.problem.some((problem) => record.case.startsWith(`${problem}/`))));
      const report = await save(page, "#download-report");
      assert.match(report.text, /<h2>Model<\/h2>[^]*one pass takes/);

      // The kept run has its model, too.
      await page.goto(server.address);
      await enabledRun(page);
      assert.equal(await times.innerText(), "");
      await page.locator("#history [data-wish=show]").first().click();
      await times.getByText(/^One pass of encoder takes/).waitFor();

      await page.goto(`${server.address}?view=compare`);
      await page.locator("#compare-section:not([inert])").waitFor();
      const buffer = Buffer.from(JSON.stringify(run.data));
      await page.setInputFiles("#compare-files", ["one.json", "two.json"].map((name) => ({ name, buffer, mimeType: "application/json" })));
      await page.locator("#compare-result").getByText("model encoder (ONNX graph, batch 1, seq 8), times of one pass:").waitFor();
      await narrowAndWide(page, "model-compared");
      assert.match((await save(page, "[data-export=md]")).text, /times of one pass/);
      assert.deepEqual(page.problems, []);
    },

    async "reads the choices of a model, and names a wrong one"() {
      const page = await open(brief);
      await enabledRun(page);
      await give(page, "tiny.json.gz", gzipSync(config({ torch_dtype: "bfloat16" })));
      await planned(page, "does not compute in bf16");
      await planned(page, /model tiny \(model configuration, batch 1, seq 128\)/);
      assert.equal(await page.locator("#model-form [name=phase]").count(), 0, "an encoder has one phase");
      for (const [value, said] of [["0", "seq: `0` is no whole number from 1"], ["", "seq: `` is no whole number"], ["99999999999", "`seq` is 99999999999"]]) {
        await choose(page, "dim.seq", value);
        await planned(page, said);
        await page.locator("#run:disabled").waitFor();
      }
      await choose(page, "dim.seq", "4");
      await planned(page, /batch 1, seq 4\)/);
      await enabledRun(page);

      await give(page, "llama.json", config({ model_type: "llama" }));
      await page.locator("#model-form [name=phase]").selectOption("decode");
      await page.locator("#plan").getByText("attention_decode/fwd/").first().waitFor({ state: "attached" });
      await page.locator("#model-form [name=dtype]").selectOption("f32");
      await enabledRun(page);

      // Weights beside the graph are not fetched; a cycle and an operation without a problem stay in the list.
      const nodes = [["MatMul", ["x", "w"], "y"], ["Relu", ["b"], "a"], ["Relu", ["a"], "b"], ["<b>Odd", ["y"], "z"]];
      await give(page, "outside.onnx", graph(nodes, ["rows", 1 << 20], outside));
      await planned(page, /without a problem: \d/);
      assert.match(await page.innerText("#model"), /these are: .*<b>Odd/);
      assert.deepEqual(page.problems, []);
    },

    async "says in a line why a file is no model, and goes on"() {
      const page = await open(brief);
      await enabledRun(page);
      const line = await page.innerText("#plan-line");
      const folder = await mkdtemp(join(tmpdir(), "parallax-model-"));
      const large = join(folder, "large.onnx");
      const file = await openFile(large, "w");
      await file.truncate(2 ** 31);
      await file.close();
      const whole = await example("mobilenet_v2.onnx");
      const relus = (count, shape) => graph(Array.from({ length: count }, (_, i) => ["Relu", ["x"], `y${i}`]), shape);
      for (const [name, given, said] of [
        ["empty.onnx", Buffer.alloc(0), "the file is empty"],
        ["cut.onnx", whole.subarray(0, whole.length / 2), "this is no ONNX graph"],
        ["noise.onnx", Buffer.alloc(1000, 0xff), "this is no ONNX graph"],
        ["long.onnx", message(field(7, "").subarray(0, 1), Buffer.from([0xff, 0xff, 0xff, 0xff, 7])), "this is no ONNX graph"],
        ["dims.onnx", relus(1, Array.from({ length: 41 }, (_, i) => `d${i}`)), "41 dimensions without a size"],
        ["odd.onnx", graph([["Odd", ["x"], "y"]], [4]), "none of its 1 operation has a problem"],
        ["cut.json", Buffer.from('{"model_type": "bert"'), "this is no JSON object"],
        ["other.json", Buffer.from("{}"), "neither `model_type`"],
        ["deep.json", Buffer.from(`{"model_type": ${"[".repeat(100_000)}`), "this is no JSON object"],
        ["new.json", config({ model_type: "x".repeat(100_000) }), "model type `xxx"],
        ["cut.json.gz", gzipSync(config()).subarray(0, 40), "could not read it"],
        ["large.onnx", large, "has 2147483648 bytes"],
      ]) {
        if (Buffer.isBuffer(given)) await give(page, name, given);
        else await page.setInputFiles("#model-file", given);
        const notice = page.locator("#notices [data-notice=model]").filter({ hasText: `${name} cannot be measured:` });
        await notice.filter({ hasText: said }).waitFor();
        assert.ok((await notice.innerText()).length < 600, name);
        assert.equal(await page.innerText("#plan-line"), line, name);
      }
      await rm(folder, { recursive: true });
      await give(page, "tiny.json", config());
      await planned(page, "model tiny");
      assert.equal(await page.locator("[data-notice=model]").count(), 0);
      assert.deepEqual(page.problems, []);
    },
  };
};
