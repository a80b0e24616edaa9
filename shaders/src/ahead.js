// Compilation of pipelines beside each other. wgpu calls only `createComputePipeline`, so that call is replaced for a moment.

const started = new Map();
let next = 0;

/// Whether the browser compiles several pipelines at once, and has processors for it.
export function available() {
  return navigator.userAgent.includes("Chrome/") && navigator.hardwareConcurrency >= 4;
}

/// Starts every pipeline that is created until `restore`, and gives it a number, counted from the result.
export function start(device) {
  device.createComputePipeline = (descriptor) => {
    const begun = performance.now();
    const made = (pipeline) => ({ pipeline, milliseconds: performance.now() - begun });
    started.set(next++, device.createComputePipelineAsync(descriptor).then(made, () => undefined));
    return {};
  };
  return next;
}

/// The time of a started pipeline once it is compiled, or undefined if it failed.
export async function finished(number) {
  return (await started.get(number))?.milliseconds;
}

/// Makes the next created pipeline this one, which is compiled.
export async function provide(device, number) {
  const { pipeline } = await started.get(number);
  started.delete(number);
  device.createComputePipeline = () => pipeline;
}

/// Forgets a started pipeline.
export function forget(number) {
  started.delete(number);
}

export function restore(device) {
  delete device.createComputePipeline;
}
