// Bindings of an update of states by one token. See core/workloads/src/ops/gated_delta_update.rs.

#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read_write> state: array<piece>;
@group(0) @binding(1) var<storage, read> q: array<elem>;
@group(0) @binding(2) var<storage, read> k: array<elem>;
@group(0) @binding(3) var<storage, read> v: array<stored>;
@group(0) @binding(4) var<storage, read> g: array<f32>;
@group(0) @binding(5) var<storage, read> beta: array<elem>;
@group(0) @binding(6) var<storage, read_write> out: array<stored>;
