// Features that the browser offers.

/// Whether the adapter that a page is given has a feature.
export async function offers(name) {
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  return adapter?.features.has(name);
}
