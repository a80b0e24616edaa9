// Features of a device that wgpu has no names for: they are requested beside those of wgpu.

let adapter, granted;

/// Add these to the next request for a device in this page or worker, as far as its adapter has them.
export function ask(names) {
  const { prototype } = GPUAdapter;
  const request = prototype.requestDevice;
  prototype.requestDevice = async function (wanted = {}) {
    prototype.requestDevice = request;
    const more = names.filter((name) => this.features.has(name));
    const device = await request.call(this, { ...wanted, requiredFeatures: [...(wanted.requiredFeatures ?? []), ...more] });
    adapter = this;
    granted = names.filter((name) => device.features.has(name));
    return device;
  };
}

/// The granted features, as JSON.
export function answer() {
  const { subgroupMinSize, subgroupMaxSize, subgroupMatrixConfigs } = adapter.info;
  const shape = ({ componentType, resultComponentType, M, N, K }) => ({ componentType, resultComponentType, M, N, K });
  return JSON.stringify({ granted, subgroupMinSize, subgroupMaxSize, matrices: Array.from(subgroupMatrixConfigs ?? [], shape) });
}
