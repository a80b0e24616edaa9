// Hostile kernel sources in WGSL, from the file that the tests of the library and of the command line read.

import { readFileSync } from "node:fs";

const joined = (parts) => parts.map((part) => (typeof part === "string" ? part : part[0].repeat(part[1]))).join("");

/// Kernel source of a case. Its bindings are `x` (read) and `y` (read_write), and its body sees the global index `i`.
const textOf = ({ whole, directive = "", module = [], workgroup = "64", y = "array<f32>", body = ["y[i] = x[i];"] }) =>
  whole ? joined(whole) : `${directive}
${joined(module)}
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: ${y};
@compute @workgroup_size(${workgroup})
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
let i = at.x;
${joined(body)}
}
`;

/// Cases with their names, their kernel sources and the ends of their comparisons to a good one.
export const hostile = JSON.parse(readFileSync(new URL("../../testing/hostile.json", import.meta.url), "utf8"))
  .map((one) => ({ ...one, text: textOf(one), says: one.page ?? one.says ?? "" }));
