// ONNX Runtime Web on its WebGPU provider: inputs and outputs are buffers of its own device.

import * as ort from "./node_modules/onnxruntime-web/dist/ort.jspi.bundle.min.mjs";

ort.env.wasm.wasmPaths = new URL("./node_modules/onnxruntime-web/dist/", import.meta.url).href;
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";

/// The peer. Its fused attention takes rows of all heads.
export function onnx() {
  return { name: `ONNX Runtime Web ${ort.env.versions.web}`, bsnh: true, lacks, prepare };
}

function lacks(the) {
  return the.last ? "its models have channels first" : undefined;
}

const KINDS = { f32: "float32", f16: "float16" };

async function prepare(the, made) {
  const options = { executionProviders: ["webgpu"], preferredOutputLocation: "gpu-buffer" };
  const session = await ort.InferenceSession.create(new URL(`models/${the.number}.onnx`, import.meta.url).href, options);
  const device = await ort.env.webgpu.device;
  const buffers = [];
  const tensor = (name, { dims, values }) => {
    const size = Math.ceil(values.byteLength / 16) * 16;
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = device.createBuffer({ size, usage });
    // Writes of hundreds of megabytes at once are refused by some browsers.
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    for (let at = 0; at < bytes.length; at += 1 << 26) {
      const piece = bytes.subarray(at, Math.min(at + (1 << 26), bytes.length));
      device.queue.writeBuffer(buffer, at, piece, 0, piece.length - (piece.length % 4));
    }
    buffers.push(buffer);
    return ort.Tensor.fromGpuBuffer(buffer, { dataType: name === "indices" ? "int32" : KINDS[the.dtype], dims });
  };
  const feeds = Object.fromEntries(Object.entries(made).map(([name, input]) => [name, tensor(name, input)]));
  let fetches;
  let own;
  return {
    ways: ["a buffer of its own for each result", "one buffer for all results"],
    choose: (way) => (fetches = way.startsWith("one") ? { y: own } : undefined),
    result: async () => {
      const { y } = await session.run(feeds);
      const dims = y.dims;
      const size = Math.ceil((y.size * (the.dtype === "f16" ? 2 : 4)) / 16) * 16;
      const buffer = device.createBuffer({ size, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC });
      buffers.push(buffer);
      own = ort.Tensor.fromGpuBuffer(buffer, { dataType: KINDS[the.dtype], dims });
      const values = await y.getData(true);
      // Halves come as their bits where a build knows no other array for them.
      return values instanceof Uint16Array ? new Float16Array(values.buffer, values.byteOffset, values.length) : values;
    },
    call: async () => {
      if (fetches) return void (await session.run(feeds, fetches));
      const { y } = await session.run(feeds);
      y.dispose();
    },
    done: () => device.queue.onSubmittedWorkDone(),
    free: () => {
      session.release();
      for (const buffer of buffers) buffer.destroy();
    },
  };
}
