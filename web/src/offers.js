// What the browser has for those who ask for it.

/// Whether the adapter that a page is given has a feature.
export async function offers(name) {
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  return adapter?.features.has(name);
}
