// Measures TensorFlow.js and ONNX Runtime Web on cases of the suite, in this page's browser, and posts its results to `result`.
//
// Data stays on the GPU. A sample is a batch of calls that takes 50 ms and more, from the first call to the queue's word that all is
// done; the figure is the median of the samples. Before that a few results are compared with a sum in double precision.

import { cost, expected, inputs, numbers, parsed } from "./cases.mjs";
import { onnx } from "./onnx.mjs";
import { tensorflow } from "./tensorflow.mjs";

const SAMPLES = 7;
const SAMPLE_MS = 50;
/// Limit; longer cases are not measured.
const LONGEST_MS = 2000;
/// Of the largest value that was expected.
const TOLERANCE = { f32: 2e-3, f16: 2e-2 };

const log = (line) => (document.getElementById("log").textContent += `${line}\n`);

/// Inputs by name: dimensions and numbers, rounded to the case's type.
function data(the, bsnh) {
  const scale = { gamma: 1, beta: 1, w: 0.2, w1: 0.05, w2: 0.05 };
  const made = Object.entries(inputs(the, bsnh)).map(([name, dims], seed) => {
    const count = dims.reduce((product, extent) => product * extent, 1);
    const values = numbers(count, seed + 1, scale[name] ?? 1, name === "indices" ? the.e.v : undefined);
    // Inputs of a case in halves lie in the range of a half.
    return [name, { dims, values: the.dtype === "f16" && name !== "indices" ? new Float16Array(values) : values }];
  });
  return Object.fromEntries(made);
}

/// The largest error among a few results, over the largest of them.
function wrong(the, made, result, bsnh) {
  const plain = Object.fromEntries(Object.entries(made).map(([name, { values }]) => [name, values]));
  const want = expected(the, plain, bsnh);
  const top = Math.max(...want.map(([, value]) => Math.abs(value)));
  return Math.max(...want.map(([at, value]) => Math.abs(result[at] - value))) / top;
}

async function measured(the, peer) {
  const made = data(the, peer.bsnh);
  const work = await peer.prepare(the, made);
  try {
    const error = wrong(the, made, await work.result(), peer.bsnh);
    if (!(error <= TOLERANCE[the.dtype])) throw new Error(`wrong by ${error} of the largest value`);
    // Each way of calling it that its users have; the fastest counts.
    let best;
    for (const way of work.ways) {
      const found = await timed(work, way);
      if (!best || found.ms < best.ms) best = { way, ...found };
    }
    const { flops, bytes } = cost(the);
    const rate = flops ? `${(flops / best.ms / 1e9).toFixed(2)} TFLOP/s` : `${(bytes / best.ms / 1e6).toFixed(0)} GB/s`;
    return { ...best, error, rate };
  } finally {
    work.free();
  }
}

/// Median, fastest and slowest of samples, each of several calls.
async function timed(work, way) {
  work.choose(way);
  const batch = async (calls) => {
    const began = performance.now();
    for (let i = 0; i < calls; i++) await work.call();
    await work.done();
    return performance.now() - began;
  };
  await batch(1);
  const once = await batch(1);
  if (once > LONGEST_MS) throw new Error(`one call takes ${(once / 1000).toFixed(1)} s`);
  // Waiting is most of one short call: how many fill a sample is asked of several.
  const several = Math.ceil(SAMPLE_MS / (5 * once)) + 2;
  const calls = Math.max(3, Math.ceil((SAMPLE_MS * several) / (await batch(several))));
  const samples = [];
  for (let i = 0; i < SAMPLES; i++) samples.push((await batch(calls)) / calls);
  samples.sort((a, b) => a - b);
  return { ms: samples[(SAMPLES - 1) / 2], low: samples[0], high: samples[SAMPLES - 1], calls };
}

const wanted = new URLSearchParams(location.search).get("only") ?? "";
const names = await (await fetch("cases.json")).json();
const results = [];
for (const peer of [await tensorflow(), onnx()]) {
  for (const [number, name] of names.entries()) {
    if (!name.includes(wanted)) continue;
    const the = { ...parsed(name), number };
    const row = { case: name, peer: peer.name };
    try {
      const why = peer.lacks(the);
      Object.assign(row, why ? { skipped: why } : await measured(the, peer));
    } catch (error) {
      row.error = String(error?.message ?? error).slice(0, 500);
    }
    results.push(row);
    log(JSON.stringify(row));
    await fetch("progress", { method: "POST", body: JSON.stringify(row) });
  }
}
const adapter = await navigator.gpu.requestAdapter();
const device = [adapter?.info?.vendor, adapter?.info?.architecture, adapter?.info?.description].filter(Boolean).join(" ");
await fetch("result", { method: "POST", body: JSON.stringify({ browser: navigator.userAgent, device, results }) });
